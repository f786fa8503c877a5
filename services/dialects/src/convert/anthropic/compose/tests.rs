//! Requests of the other dialects as this one takes them (PROTOCOLS §11.1).

use serde_json::{Value, json};

use crate::convert::fields::Raw;
use crate::convert::{Opened, Target, chat_to_anthropic, gemini_to_anthropic};

fn target(model: &str) -> Target<'_> {
    Target {
        model,
        public_model: "pub",
        max_output: Some(4096),
        stream: false,
        request_id: "s",
        now: 1,
    }
}

/// The request, and what was left out.
fn read(opened: &Opened) -> (Value, Vec<String>) {
    let body = serde_json::from_str(&opened.body).unwrap();
    (body, opened.dropped.names().to_vec())
}

fn chat_to(model: &str, body: &Value) -> (Value, Vec<String>) {
    let body = body.to_string();
    read(&chat_to_anthropic::open(&Raw::body(&body), &target(model)).unwrap())
}

/// A chat request with these messages, and these members besides.
fn chat(messages: Value, more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": messages});
    let members = body.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    body
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": ""}})
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

#[test]
fn results_come_first_in_the_order_of_their_calls_with_ids_that_are_taken() {
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [call("f:0"), call("f:1")]},
        tool("f:1", "one"), tool("f:0", "zero"),
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "  ", "tool_calls": [call("f:0")]},
        tool("f:0", ""),
    ]);
    let (body, _) = chat_to("claude-sonnet-4-5", &chat(messages, json!({})));
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [used("f_3a0"), used("f_3a1")]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "f_3a0", "content": "zero"},
                {"type": "tool_result", "tool_use_id": "f_3a1", "content": "one"},
                {"type": "text", "text": "b"},
            ]},
            {"role": "assistant", "content": [used("f_3a0_2")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "f_3a0_2"}]},
        ])
    );
    // a conversation with calls must declare tools
    assert_eq!(body["tools"][0]["name"], "f");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn calls_of_one_id_are_answered_one_by_one() {
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [call("x"), call("x")]},
        tool("x", "first"), tool("x", "second"),
    ]);
    let (body, _) = chat_to("claude-sonnet-4-5", &chat(messages, json!({})));
    let results = &body["messages"][2]["content"];
    assert_eq!(results[0]["tool_use_id"], "x");
    assert_eq!(results[0]["content"], "first");
    assert_eq!(results[1]["tool_use_id"], "x_2");
    assert_eq!(results[1]["content"], "second");
}

#[test]
fn a_conversation_begins_with_the_user_and_blank_texts_are_left_out() {
    let messages = json!([
        {"role": "system", "content": "rules"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": " \n"},
        {"role": "user", "content": "x"},
        {"role": "system", "content": "later"},
        {"role": "assistant", "content": "go on: "},
    ]);
    let (body, _) = chat_to("claude-sonnet-4-5", &chat(messages, json!({})));
    assert_eq!(body["system"], "rules");
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "(The conversation begins.)"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": [
                {"type": "text", "text": "x"},
                {"type": "text", "text": "<system>\nlater\n</system>"},
            ]},
            {"role": "assistant", "content": "go on:"},
        ])
    );
    let alone = chat(json!([{"role": "system", "content": "rules"}]), json!({}));
    let (body, _) = chat_to("claude-sonnet-4-5", &alone);
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "rules"}])
    );
    assert_eq!(body["system"], Value::Null);
}

#[test]
fn of_too_many_cache_marks_the_last_four_stay() {
    let part =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let tool = json!({"type": "function", "cache_control": {"type": "ephemeral"}, "function": {"name": "f"}});
    let messages = json!([
        {"role": "system", "content": [part("s")]},
        {"role": "user", "content": [part("u"), {"type": "text", "text": "v", "prompt_cache_breakpoint": {"mode": "explicit"}}]},
        {"role": "assistant", "content": [part("a")]},
        {"role": "user", "content": [part("w")]},
    ]);
    let more = json!({"tools": [tool]});
    let (body, dropped) = chat_to("claude-sonnet-4-5", &chat(messages, more));
    let marks = body.to_string().matches("ephemeral").count();
    assert_eq!(marks, 4);
    assert_eq!(body["tools"][0]["cache_control"], Value::Null);
    assert_eq!(body["system"][0]["cache_control"], Value::Null);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["messages"][0]["content"][1]["cache_control"], mark);
    assert_eq!(dropped, ["cache_control"]);
}

fn hi(more: Value) -> Value {
    chat(json!([{"role": "user", "content": "hi"}]), more)
}

#[test]
fn sampling_is_what_the_generation_takes() {
    let both = json!({"temperature": 1.5, "top_p": 0.9});
    let (body, dropped) = chat_to("claude-3-5-haiku-20241022", &hi(both.clone()));
    assert_eq!(
        (&body["temperature"], &body["top_p"]),
        (&json!(1), &json!(0.9))
    );
    assert!(dropped.is_empty());
    let (body, dropped) = chat_to("claude-sonnet-4-5", &hi(both.clone()));
    assert_eq!(
        (&body["temperature"], &body["top_p"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(dropped, ["top_p"]);
    let (body, dropped) = chat_to("claude-opus-4-7", &hi(both));
    assert_eq!(body["temperature"], Value::Null);
    assert_eq!(dropped, ["temperature", "top_p"]);
    // zero is no default, one is
    let (_, dropped) = chat_to(
        "claude-opus-4-7",
        &hi(json!({"temperature": 0, "top_p": 1})),
    );
    assert_eq!(dropped, ["temperature"]);
    let thinks = json!({"temperature": 0.2, "reasoning_effort": "low"});
    let (body, dropped) = chat_to("claude-sonnet-4-5", &hi(thinks));
    assert_eq!(body["thinking"]["budget_tokens"], 1024);
    assert_eq!(body["temperature"], Value::Null);
    assert_eq!(dropped, ["temperature"]);
}

#[test]
fn a_limit_is_the_callers_the_models_or_a_default_and_is_never_raised() {
    let of = |more, most| {
        let body = hi(more).to_string();
        let target = Target {
            max_output: most,
            ..target("claude-sonnet-4-5")
        };
        read(&chat_to_anthropic::open(&Raw::body(&body), &target).unwrap())
    };
    assert_eq!(of(json!({}), Some(77)).0["max_tokens"], 77);
    assert_eq!(of(json!({}), None).0["max_tokens"], 8192);
    let (body, dropped) = of(json!({"max_tokens": 500, "reasoning_effort": "high"}), None);
    assert_eq!(body["max_tokens"], 500);
    assert_eq!(body["thinking"], Value::Null);
    assert_eq!(dropped, ["reasoning_effort"]);
}

#[test]
fn a_loop_of_tools_whose_thoughts_are_lost_goes_on_without_a_budget() {
    let messages = |details: Value| {
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "reasoning_details": details, "tool_calls": [call("x")]},
            tool("x", "1"),
        ])
    };
    let effort = json!({"reasoning_effort": "low"});
    let own = json!([{"type": "reasoning.text", "text": "t", "signature": "switchboard.a.S+/="}]);
    let (body, dropped) = chat_to("claude-sonnet-4-5", &chat(messages(own), effort.clone()));
    assert_eq!(body["thinking"]["type"], "enabled");
    assert_eq!(
        body["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "t", "signature": "S+/="})
    );
    assert!(dropped.is_empty());
    let other = json!([{"type": "reasoning.text", "text": "t", "signature": "switchboard.g.G"}]);
    let (body, dropped) = chat_to("claude-sonnet-4-5", &chat(messages(other), effort));
    assert_eq!(body["thinking"], Value::Null);
    assert!(!body.to_string().contains("switchboard"));
    assert_eq!(
        dropped,
        ["messages[].reasoning_details[]", "reasoning_effort"]
    );
}

#[test]
fn a_schema_reaches_every_generation() {
    let schema = json!({"type": "object", "properties": {"a": {"const": 1e3}}});
    let format = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}});
    let (body, _) = chat_to("claude-sonnet-4-5", &hi(format.clone()));
    assert_eq!(
        body["output_config"]["format"],
        json!({"type": "json_schema", "schema": schema})
    );
    let (body, dropped) = chat_to("claude-3-5-haiku-20241022", &hi(format.clone()));
    assert_eq!(body["tools"][0]["input_schema"], schema);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "give_the_answer", "disable_parallel_tool_use": true})
    );
    assert!(dropped.is_empty());
    let mut with_tools = format;
    with_tools["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
    let (body, _) = chat_to("claude-3-5-haiku-20241022", &hi(with_tools));
    assert_eq!(body["tool_choice"]["type"], "any");
    let object = json!({"response_format": {"type": "json_object"}});
    let (body, _) = chat_to("claude-sonnet-4-5", &hi(object));
    assert!(body["system"].as_str().unwrap().contains("JSON object"));
}

#[test]
fn tools_are_narrowed_by_leaving_out_the_others() {
    let tools = json!({"tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": {}}, "strict": true}},
        {"type": "function", "function": {"name": "g"}},
        {"type": "custom", "custom": {"name": "h"}},
    ], "parallel_tool_calls": false,
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "h"}}]}}});
    let (body, _) = chat_to("claude-sonnet-4-5", &hi(tools));
    assert_eq!(
        body["tools"][0],
        json!({"name": "f", "input_schema": {"type": "object", "properties": {}}, "strict": true})
    );
    assert_eq!(body["tools"][1]["name"], "h");
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "any", "disable_parallel_tool_use": true})
    );
}

#[test]
fn images_documents_and_texts_are_blocks_and_sound_is_refused() {
    let file = |name: &str, data: &str| json!({"type": "file", "file": {"filename": name, "file_data": data}});
    let messages = json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        file("a.pdf", "data:application/pdf;base64,AA=="),
        file("a.txt", "aGk="),
    ]}]);
    let (body, _) = chat_to("claude-sonnet-4-5", &chat(messages, json!({})));
    let base64 = |mime: &str| json!({"type": "base64", "media_type": mime, "data": "AA=="});
    assert_eq!(
        body["messages"][0]["content"],
        json!([
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
            {"type": "image", "source": base64("image/png")},
            {"type": "document", "source": base64("application/pdf"), "title": "a.pdf"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "a.txt"},
        ])
    );
    let sound = json!([{"role": "user", "content": [
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]}]);
    let sound = chat(sound, json!({})).to_string();
    let refusal = chat_to_anthropic::open(&Raw::body(&sound), &target("claude-sonnet-4-5")).err();
    assert!(refusal.unwrap().unsupported);
}

#[test]
fn a_name_that_is_not_taken_goes_out_as_another_and_comes_back_as_itself() {
    let body = json!({
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "a.b", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "a.b", "response": {"result": "r"}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "a.b"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a.b"]}},
    })
    .to_string();
    let opened =
        gemini_to_anthropic::open(&Raw::body(&body), &target("claude-sonnet-4-5")).unwrap();
    let (body, _) = read(&opened);
    let said = body["tools"][0]["name"].as_str().unwrap();
    assert!(said.starts_with("a_b_") && !said.contains('.'), "{said}");
    assert_eq!(body["tool_choice"]["name"], said);
    assert_eq!(body["messages"][1]["content"][0]["name"], said);
    let event = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": said, "input": {}}});
    let mut names = Vec::new();
    let mut put = |_, part: crate::convert::part::Part<'_>| names.push(format!("{part:?}"));
    opened
        .answering
        .reader()
        .event(None, &event.to_string(), &mut put)
        .unwrap();
    assert!(names[0].contains(r#"name: "a.b""#), "{names:?}");
}
