//! What is said.

use std::io::Read as _;

use base64::Engine as _;
use fake_upstream::{FakeUpstream, Framing, Script, Usage, UsageShape};
use serde_json::{Value, json};

use crate::client::{Client, events, read, read_json, stream, whole};

#[tokio::test]
async fn a_whole_answer_names_the_model_and_counts_its_tokens() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let response = client.chat(&whole()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("content-length"));
    let answer = read_json(response).await;
    assert_eq!(answer["model"], "m");
    assert_eq!(
        answer["choices"][0]["message"]["content"],
        "Hello from upstream"
    );
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13})
    );
}

#[tokio::test]
async fn a_stream_has_role_deltas_finish_usage_and_done() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let usage = Usage {
        cached: Some(4),
        reasoning: Some(1),
        ..Usage::of(26, 5)
    };
    upstream.push(
        Script::say(["a", "b"])
            .reasoning(["hm"])
            .usage(usage)
            .finish("length"),
    );
    let (events, last) = events(&read(client.chat(&stream(true)).await.unwrap()).await);
    assert_eq!(last, "[DONE]");
    assert_eq!(events.len(), 6);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(
        events[1]["choices"][0]["delta"],
        json!({"reasoning_content": "hm"})
    );
    assert_eq!(events[3]["choices"][0]["delta"], json!({"content": "b"}));
    assert_eq!(events[3]["usage"], Value::Null);
    assert_eq!(events[4]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[5]["choices"], json!([]));
    assert_eq!(events[5]["usage"]["total_tokens"], 31);
    assert_eq!(
        events[5]["usage"]["prompt_tokens_details"]["cached_tokens"],
        4
    );
    assert_eq!(
        events[5]["usage"]["completion_tokens_details"]["reasoning_tokens"],
        1
    );
}

#[tokio::test]
async fn usage_stands_where_the_script_says() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    // Per shape: the events that carry a usage, of role, two deltas, finish and perhaps one more.
    let shapes = [
        (UsageShape::AsAsked, 4, vec![]),
        (UsageShape::Absent, 4, vec![]),
        (UsageShape::OwnChunk, 5, vec![4]),
        (UsageShape::FinishChunk, 4, vec![3]),
        (UsageShape::OwnChunkWithChoice, 5, vec![4]),
        (UsageShape::EveryChunk, 4, vec![1, 2, 3]),
    ];
    for (shape, count, expected) in shapes {
        upstream.push(Script::tokens(2).usage_shape(shape));
        let (events, _) = events(&read(client.chat(&stream(false)).await.unwrap()).await);
        let with_usage: Vec<usize> = (0..events.len())
            .filter(|i| events[*i]["usage"].is_object())
            .collect();
        assert_eq!((events.len(), with_usage), (count, expected), "{shape:?}");
    }
}

#[tokio::test]
async fn tool_calls_and_refusals_take_the_place_of_content() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let tools = Script::new()
        .tool_call("call_1", "weather", &["{\"a\":", "1}"])
        .tool_call("call_2", "time", &["{}"]);
    upstream.push(tools.clone());
    let answer = read_json(client.chat(&whole()).await.unwrap()).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(
        message["tool_calls"][0]["function"]["arguments"],
        "{\"a\":1}"
    );
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");

    upstream.push(tools);
    let (events, _) = events(&read(client.chat(&stream(false)).await.unwrap()).await);
    let calls: Vec<&Value> = events
        .iter()
        .map(|e| &e["choices"][0]["delta"]["tool_calls"][0])
        .filter(|c| c.is_object())
        .collect();
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[0]["id"], "call_1");
    assert_eq!(
        calls[2],
        &json!({"index": 0, "function": {"arguments": "1}"}})
    );
    assert_eq!(calls[3]["index"], 1);

    upstream.push(Script::new().refusal("no"));
    let answer = read_json(client.chat(&whole()).await.unwrap()).await;
    assert_eq!(answer["choices"][0]["message"]["refusal"], "no");
}

#[tokio::test]
async fn errors_carry_status_headers_and_openai_bodies() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    upstream.push(Script::rate_limited(Some(7)));
    let response = client.chat(&whole()).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(
        read_json(response).await["error"]["code"],
        "rate_limit_exceeded"
    );

    upstream.push(Script::error(200, "server_error", None, "in a 200"));
    let response = client.chat(&whole()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(read_json(response).await["error"]["message"], "in a 200");

    upstream.push(Script::html(502));
    let response = client.chat(&whole()).await.unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["content-type"]
        ),
        (502, &"text/html".parse().unwrap())
    );

    upstream.push(Script::error_event("overloaded", None, "busy"));
    let (events, _) = events(&read(client.chat(&stream(false)).await.unwrap()).await);
    assert_eq!(events[0]["error"]["type"], "overloaded");
    assert_eq!(events.len(), 1);
    assert_eq!(upstream.stats().completion_tokens, 0);
}

#[tokio::test]
async fn an_error_in_mid_stream_ends_it_without_done() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    upstream.push(Script::tokens(5).error_after(2, "server_error", Some("boom"), "broke"));
    let (events, last) = events(&read(client.chat(&stream(true)).await.unwrap()).await);
    assert_eq!(events.len(), 4);
    assert_eq!(events[3]["error"]["code"], "boom");
    assert_ne!(last, "[DONE]");
    assert_eq!(upstream.served()[0].usage, Usage::of(10, 2));
}

#[tokio::test]
async fn embeddings_are_floats_or_base64_of_the_same_numbers() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let mut body = json!({"model": "e", "input": ["abcdefgh", "b"], "dimensions": 3});
    let floats = read_json(client.send("k", "/embeddings", &body).await.unwrap()).await;
    assert_eq!(floats["data"].as_array().unwrap().len(), 2);
    assert_eq!(floats["data"][1]["index"], 1);
    assert_eq!(
        floats["usage"],
        json!({"prompt_tokens": 3, "total_tokens": 3})
    );
    body["encoding_format"] = json!("base64");
    let packed = read_json(client.send("k", "/embeddings", &body).await.unwrap()).await;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(packed["data"][0]["embedding"].as_str().unwrap())
        .unwrap();
    let unpacked: Vec<f32> = bytes
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(json!(unpacked), floats["data"][0]["embedding"]);
}

#[tokio::test]
async fn models_are_listed_and_other_paths_are_missing() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    upstream.models(["a", "b"]);
    assert_eq!(client.get("/models").await["data"][1]["id"], "b");
    assert_eq!(
        client
            .send("k", "/nothing", &whole())
            .await
            .unwrap()
            .status(),
        404
    );
}

#[tokio::test]
async fn scripts_are_picked_by_key_queue_model_and_default() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    upstream.default(Script::say(["default"]));
    upstream.on_model("m", Script::say(["model"]));
    upstream.on_key("a", Script::say(["key"]));
    upstream.push(Script::say(["queue"]));
    upstream.push_on_key("a", Script::say(["queue of key"]));
    let mut other = whole();
    other["model"] = json!("other");
    let asked = [
        ("a", whole()),
        ("a", whole()),
        ("a", whole()),
        ("b", whole()),
        ("b", other),
    ];
    let mut said = Vec::new();
    for (key, body) in asked {
        let answer = read_json(client.send(key, "/chat/completions", &body).await.unwrap()).await;
        said.push(
            answer["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(said, ["queue of key", "queue", "key", "model", "default"]);
    assert_eq!(upstream.unused_scripts(), 0);
}

#[tokio::test]
async fn a_directive_in_the_prompt_sets_tokens_and_mark() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let mut body = stream(false);
    body["messages"][0]["content"] = json!("please [[tokens:20; mark:m-7]]");
    let (events, _) = events(&read(client.chat(&body).await.unwrap()).await);
    assert_eq!(events.len(), 22);
    assert_eq!(upstream.served()[0].mark.as_deref(), Some("m-7"));
    assert_eq!(
        upstream.log().marked("m-7").unwrap().usage,
        Usage::of(10, 20)
    );
}

#[tokio::test]
async fn gzip_covers_whole_answers_and_streams() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    for body in [whole(), stream(true)] {
        upstream.push(Script::new().gzip());
        let response = client.chat(&body).await.unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip");
        let packed = read(response).await;
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..])
            .read_to_string(&mut text)
            .unwrap();
        assert!(
            text.contains("upstream") && text.contains("total_tokens"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn framing_keeps_the_data_and_changes_the_lines() {
    let upstream = FakeUpstream::start().await.unwrap();
    let client = Client::new(&upstream);
    let framing = Framing {
        line_end: "\r\n",
        space: false,
        comments: true,
        bom: true,
        extra_fields: true,
        last_blank_line: false,
    };
    upstream.push(Script::events(["one", "two\nlines"]).framing(framing));
    let text = read(client.chat(&stream(false)).await.unwrap()).await;
    let field = |i: usize| format!("id: {i}\r\nretry: 3000\r\nx-unknown: 1\r\n");
    let expected = format!(
        "\u{feff}: PROCESSING\r\n{}data:one\r\n\r\n: PROCESSING\r\n{}data:two\r\ndata:lines\r\n",
        field(0),
        field(1)
    );
    assert_eq!(std::str::from_utf8(&text).unwrap(), expected);
}
