//! Every direction, there and back: one conversation asked in each dialect of an upstream of each other, one answer on four wires
//! (PROTOCOLS §13).

mod cases;
mod table;

use serde_json::{Value, json};

use super::*;
use crate::sse::Decoder;

/// The answer: thoughts, a text, two calls of which the second has no arguments.
const TEXT: &str = "Let me check. ü\u{2028}";
const USAGE: (u64, u64, u64, u64) = (100, 60, 20, 5);

fn asked(caller: Format, stream: bool) -> (Arc<dyn DialectRequest>, Bytes) {
    let body = match caller {
        Format::Chat => {
            json!({"model": "m", "stream": stream, "stream_options": {"include_usage": true},
            "messages": [{"role": "system", "content": "brief"}, {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "well", "tool_calls": [
                    {"id": "c.1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
                {"role": "tool", "tool_call_id": "c.1", "content": "done"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})
        }
        Format::Responses => json!({"model": "m", "stream": stream, "instructions": "brief",
            "input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
                {"type": "function_call", "call_id": "c.1", "name": "f", "arguments": ""},
                {"type": "function_call_output", "call_id": "c.1", "output": "done"}],
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false}]}),
        Format::Anthropic => {
            json!({"model": "m", "stream": stream, "max_tokens": 2048, "system": "brief",
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "well"}, {"type": "tool_use", "id": "c_1", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c_1", "content": "done"}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}]})
        }
        Format::Gemini => json!({"systemInstruction": {"parts": [{"text": "brief"}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"text": "well"}, {"functionCall": {"name": "f", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "done"}}}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]}),
    };
    let body = Bytes::from(body.to_string());
    let form = if stream { Form::Events } else { Form::Whole };
    let asked = read(caller, &body, form, "m").unwrap();
    (Arc::from(asked), body)
}

fn target(stream: bool) -> Target<'static> {
    Target {
        model: "up",
        public_model: "m",
        max_output: None,
        stream,
        request_id: "r1",
        now: 7,
    }
}

fn open(caller: Format, upstream: Format, stream: bool) -> Translation {
    let (asked, body) = asked(caller, stream);
    let target = target(stream);
    Translation::open((caller, upstream), &asked, &body, &target).unwrap()
}

fn events(all: &[Value]) -> Bytes {
    let event = |value: &Value| match value["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    };
    all.iter().map(event).collect::<String>().into()
}

/// The answer as an upstream streams it.
fn stream(upstream: Format) -> Bytes {
    let (input, cached, output, reasoning) = USAGE;
    match upstream {
        Format::Chat => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up", "usage": null,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            };
            let call = |index: u64, more: Value| json!({"tool_calls": [{"index": index, "function": more}]});
            let begun = |index: u64, id: &str, name: &str| json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]});
            let mut all = vec![
                chunk(json!({"role": "assistant", "content": ""}), Value::Null),
                chunk(json!({"reasoning_content": "think "}), Value::Null),
                chunk(json!({"content": "Let "}), Value::Null),
                chunk(json!({"content": &TEXT[4..]}), Value::Null),
                chunk(begun(0, "c1", "f"), Value::Null),
                chunk(begun(1, "c2", "g"), Value::Null),
                chunk(call(0, json!({"arguments": "{\"a\""})), Value::Null),
                chunk(call(0, json!({"arguments": ":1}"})), Value::Null),
                chunk(json!({}), json!("tool_calls")),
            ];
            all.push(json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [],
                "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                    "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": reasoning}}}));
            let mut bytes = events(&all).to_vec();
            bytes.extend_from_slice(b"data: [DONE]\n\n");
            bytes.into()
        }
        Format::Responses => {
            let number = std::cell::Cell::new(0);
            let event = |kind: &str, more: Value| {
                let mut event =
                    json!({"type": kind, "sequence_number": number.replace(number.get() + 1)});
                for (name, value) in more.as_object().unwrap() {
                    event[name] = value.clone();
                }
                event
            };
            let call = |id: &str, name: &str, arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": "completed"});
            let response = |status: &str, output: Value, usage: Value| {
                json!({"response": {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "up",
                    "output": output, "usage": usage}})
            };
            let rs = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "think "}]});
            let part = json!({"type": "output_text", "text": TEXT, "annotations": []});
            let msg = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]});
            events(&[
                event(
                    "response.created",
                    response("in_progress", json!([]), Value::Null),
                ),
                event(
                    "response.output_item.added",
                    json!({"output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
                ),
                event(
                    "response.reasoning_summary_text.delta",
                    json!({"item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "think "}),
                ),
                event(
                    "response.output_item.done",
                    json!({"output_index": 0, "item": rs}),
                ),
                event(
                    "response.output_item.added",
                    json!({"output_index": 1, "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
                ),
                event(
                    "response.output_text.delta",
                    json!({"item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": TEXT}),
                ),
                event(
                    "response.output_text.done",
                    json!({"item_id": "msg_1", "output_index": 1, "content_index": 0, "text": TEXT}),
                ),
                event(
                    "response.output_item.done",
                    json!({"output_index": 1, "item": msg}),
                ),
                event(
                    "response.output_item.added",
                    json!({"output_index": 2, "item": call("c1", "f", "")}),
                ),
                event(
                    "response.function_call_arguments.delta",
                    json!({"item_id": "fc_c1", "output_index": 2, "delta": "{\"a\":1}"}),
                ),
                event(
                    "response.output_item.done",
                    json!({"output_index": 2, "item": call("c1", "f", "{\"a\":1}")}),
                ),
                event(
                    "response.output_item.added",
                    json!({"output_index": 3, "item": call("c2", "g", "")}),
                ),
                event(
                    "response.output_item.done",
                    json!({"output_index": 3, "item": call("c2", "g", "")}),
                ),
                event(
                    "response.completed",
                    response(
                        "completed",
                        json!([rs, msg, call("c1", "f", "{\"a\":1}"), call("c2", "g", "")]),
                        json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": output,
                        "output_tokens_details": {"reasoning_tokens": reasoning}, "total_tokens": input + output}),
                    ),
                ),
            ])
        }
        Format::Anthropic => {
            let usage = json!({"input_tokens": input - cached, "cache_read_input_tokens": cached, "output_tokens": output,
                "output_tokens_details": {"thinking_tokens": reasoning}});
            let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
            events(&[
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up",
                    "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}}),
                start(
                    0,
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                ),
                delta(0, json!({"type": "thinking_delta", "thinking": "think "})),
                delta(0, json!({"type": "signature_delta", "signature": "SIG"})),
                stop(0),
                start(1, json!({"type": "text", "text": ""})),
                delta(1, json!({"type": "text_delta", "text": TEXT})),
                stop(1),
                start(
                    2,
                    json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}}),
                ),
                delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
                delta(
                    2,
                    json!({"type": "input_json_delta", "partial_json": "{\"a\":1}"}),
                ),
                stop(2),
                start(
                    3,
                    json!({"type": "tool_use", "id": "c2", "name": "g", "input": {}}),
                ),
                stop(3),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": usage}),
                json!({"type": "message_stop"}),
            ])
        }
        Format::Gemini => {
            let part = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], "modelVersion": "up"});
            let mut last = part(json!({"text": ""}));
            last["candidates"][0]["finishReason"] = "STOP".into();
            last["usageMetadata"] = json!({"promptTokenCount": input, "cachedContentTokenCount": cached,
                "candidatesTokenCount": output - reasoning, "thoughtsTokenCount": reasoning, "totalTokenCount": input + output});
            events(&[
                part(json!({"text": "think ", "thought": true})),
                part(json!({"text": TEXT})),
                part(
                    json!({"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "U0lH"}),
                ),
                part(json!({"functionCall": {"id": "c2", "name": "g", "args": {}}})),
                last,
            ])
        }
    }
}

/// What an answer says, in the caller's words.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    reasoning: String,
    calls: Vec<(String, String, Value)>,
    usage: Option<(u64, u64, u64, u64)>,
    finish: String,
}

fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| panic!("{arguments:?} is no JSON"))
}

/// Reads a whole answer of the caller's dialect.
fn whole(caller: Format, body: &Value) -> Said {
    let mut said = Said::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    match caller {
        Format::Chat => {
            let message = &body["choices"][0]["message"];
            said.text = text(&message["content"]);
            said.reasoning = text(&message["reasoning_content"]);
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                said.calls.push((
                    text(&call["id"]),
                    text(&function["name"]),
                    parsed(&text(&function["arguments"])),
                ));
            }
            let usage = &body["usage"];
            said.usage = usage.is_object().then(|| {
                (
                    count(&usage["prompt_tokens"]),
                    count(&usage["prompt_tokens_details"]["cached_tokens"]),
                    count(&usage["completion_tokens"]),
                    count(&usage["completion_tokens_details"]["reasoning_tokens"]),
                )
            });
            said.finish = text(&body["choices"][0]["finish_reason"]);
        }
        Format::Responses => {
            for item in body["output"].as_array().unwrap() {
                match item["type"].as_str().unwrap() {
                    "message" => said
                        .text
                        .push_str(item["content"][0]["text"].as_str().unwrap()),
                    "reasoning" => said
                        .reasoning
                        .push_str(item["summary"][0]["text"].as_str().unwrap_or_default()),
                    _ => said.calls.push((
                        text(&item["call_id"]),
                        text(&item["name"]),
                        parsed(&text(&item["arguments"])),
                    )),
                }
            }
            let usage = &body["usage"];
            said.usage = usage.is_object().then(|| {
                (
                    count(&usage["input_tokens"]),
                    count(&usage["input_tokens_details"]["cached_tokens"]),
                    count(&usage["output_tokens"]),
                    count(&usage["output_tokens_details"]["reasoning_tokens"]),
                )
            });
            said.finish = text(&body["status"]);
        }
        Format::Anthropic => {
            for block in body["content"].as_array().unwrap() {
                match block["type"].as_str().unwrap() {
                    "text" => said.text.push_str(block["text"].as_str().unwrap()),
                    "thinking" => said.reasoning.push_str(block["thinking"].as_str().unwrap()),
                    _ => said.calls.push((
                        text(&block["id"]),
                        text(&block["name"]),
                        block["input"].clone(),
                    )),
                }
            }
            let usage = &body["usage"];
            let cached = count(&usage["cache_read_input_tokens"]);
            said.usage = Some((
                count(&usage["input_tokens"]) + cached,
                cached,
                count(&usage["output_tokens"]),
                count(&usage["output_tokens_details"]["thinking_tokens"]),
            ));
            said.finish = text(&body["stop_reason"]);
        }
        Format::Gemini => {
            for part in body["candidates"][0]["content"]["parts"]
                .as_array()
                .unwrap()
            {
                if let Some(call) = part.get("functionCall") {
                    said.calls
                        .push((text(&call["id"]), text(&call["name"]), call["args"].clone()));
                } else if part["thought"] == true {
                    said.reasoning.push_str(part["text"].as_str().unwrap());
                } else {
                    said.text.push_str(part["text"].as_str().unwrap());
                }
            }
            let usage = &body["usageMetadata"];
            let thoughts = count(&usage["thoughtsTokenCount"]);
            said.usage = Some((
                count(&usage["promptTokenCount"]),
                count(&usage["cachedContentTokenCount"]),
                count(&usage["candidatesTokenCount"]) + thoughts,
                thoughts,
            ));
            said.finish = text(&body["candidates"][0]["finishReason"]);
        }
    }
    said
}

/// Reads a stream of the caller's dialect, as its clients gather it.
fn gathered(caller: Format, bytes: &[u8]) -> Said {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(Bytes::copy_from_slice(bytes));
    decoder.finish();
    let mut all = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        assert!(event.canonical.is_some(), "{event:?}");
        if &*event.data != b"[DONE]" {
            all.push(serde_json::from_slice::<Value>(&event.data).unwrap());
        }
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut body = Value::Null;
    match caller {
        Format::Chat => {
            let (mut content, mut reasoning, mut calls) =
                (String::new(), String::new(), Vec::<Value>::new());
            let (mut finish, mut usage, mut roles) = (Value::Null, Value::Null, 0);
            for chunk in &all {
                let Some(choice) = chunk["choices"].get(0) else {
                    usage = chunk["usage"].clone();
                    continue;
                };
                assert!(
                    usage.is_null() && chunk["usage"].is_null(),
                    "usage stands last"
                );
                let delta = &choice["delta"];
                roles += usize::from(delta.get("role").is_some());
                content.push_str(&text(&delta["content"]));
                reasoning.push_str(&text(&delta["reasoning_content"]));
                for fragment in delta["tool_calls"].as_array().into_iter().flatten() {
                    let index = usize::try_from(fragment["index"].as_u64().unwrap()).unwrap();
                    if index == calls.len() {
                        calls.push(fragment.clone());
                    } else {
                        assert!(fragment.get("id").is_none(), "an id comes once");
                        let so_far = text(&calls[index]["function"]["arguments"])
                            + &text(&fragment["function"]["arguments"]);
                        calls[index]["function"]["arguments"] = so_far.into();
                    }
                }
                if !choice["finish_reason"].is_null() {
                    finish = choice["finish_reason"].clone();
                }
            }
            assert_eq!(roles, 1);
            body = json!({"choices": [{"message": {"content": content, "reasoning_content": reasoning, "tool_calls": calls},
                "finish_reason": finish}], "usage": usage});
        }
        Format::Responses => {
            for (event, number) in all.iter().zip(0_u64..) {
                assert_eq!(event["sequence_number"], number);
            }
            let deltas = all
                .iter()
                .filter(|event| event["type"] == "response.output_text.delta");
            let streamed: String = deltas.map(|event| text(&event["delta"])).collect();
            body = all.last().unwrap()["response"].clone();
            assert_eq!(streamed, whole(caller, &body).text);
        }
        Format::Anthropic => {
            let mut content: Vec<Value> = Vec::new();
            let mut input = String::new();
            let mut open = None;
            for event in &all {
                let index = event["index"].as_u64();
                match event["type"].as_str().unwrap() {
                    "content_block_start" => {
                        assert_eq!(
                            (index, open),
                            (Some(content.len() as u64), None),
                            "blocks do not overlap"
                        );
                        open = index;
                        content.push(event["content_block"].clone());
                        input.clear();
                    }
                    "content_block_delta" => {
                        assert_eq!(index, open);
                        let (block, delta) = (content.last_mut().unwrap(), &event["delta"]);
                        for name in ["text", "thinking"] {
                            if let Some(piece) = delta[name].as_str() {
                                block[name] = (text(&block[name]) + piece).into();
                            }
                        }
                        input.push_str(&text(&delta["partial_json"]));
                    }
                    "content_block_stop" => {
                        assert_eq!(index, open.take());
                        if !input.is_empty() {
                            content.last_mut().unwrap()["input"] = parsed(&input);
                        }
                    }
                    "message_delta" => {
                        body = json!({"stop_reason": event["delta"]["stop_reason"], "usage": event["usage"]})
                    }
                    _ => {}
                }
            }
            assert_eq!(all.last().unwrap()["type"], "message_stop");
            body["content"] = content.into();
        }
        Format::Gemini => {
            let mut parts = Vec::new();
            for event in &all {
                parts.extend(
                    event["candidates"][0]["content"]["parts"]
                        .as_array()
                        .unwrap()
                        .clone(),
                );
                body = event.clone();
            }
            body["candidates"][0]["content"]["parts"] = parts.into();
        }
    }
    whole(caller, &body)
}

fn expected(caller: Format) -> Said {
    let finish = match caller {
        Format::Chat => "tool_calls",
        Format::Responses => "completed",
        Format::Anthropic => "tool_use",
        Format::Gemini => "STOP",
    };
    Said {
        text: TEXT.to_owned(),
        reasoning: "think ".to_owned(),
        calls: vec![
            ("c1".to_owned(), "f".to_owned(), json!({"a": 1})),
            ("c2".to_owned(), "g".to_owned(), json!({})),
        ],
        usage: Some(USAGE),
        finish: finish.to_owned(),
    }
}

fn directions() -> impl Iterator<Item = (Format, Format)> {
    let all = Format::ALL.into_iter();
    let pairs = all.flat_map(|caller| {
        Format::ALL
            .into_iter()
            .map(move |upstream| (caller, upstream))
    });
    pairs.filter(|(caller, upstream)| caller != upstream)
}

fn run(translation: &Translation, bytes: &Bytes, step: usize) -> Vec<u8> {
    let mut stream = translation.stream(StreamOptions::default());
    let mut out = Vec::new();
    for piece in bytes.chunks(step) {
        stream.push(Bytes::copy_from_slice(piece)).unwrap();
        while let Some(said) = stream.take() {
            out.extend_from_slice(&said);
        }
    }
    stream.finish().unwrap();
    while let Some(said) = stream.take() {
        out.extend_from_slice(&said);
    }
    assert!(stream.done());
    out
}

#[test]
fn every_direction_carries_a_stream_however_it_is_cut() {
    for (caller, upstream) in directions() {
        let translation = open(caller, upstream, true);
        let bytes = stream(upstream);
        let out = run(&translation, &bytes, bytes.len());
        assert_eq!(
            gathered(caller, &out),
            expected(caller),
            "{caller:?} of {upstream:?}"
        );
        for step in [1, 7, 61] {
            let cut = run(&translation, &bytes, step);
            let same = String::from_utf8_lossy(&cut) == String::from_utf8_lossy(&out);
            assert!(same, "{caller:?} of {upstream:?} in pieces of {step}");
        }
    }
}

#[test]
fn a_whole_answer_says_what_its_stream_says_in_sum() {
    for (caller, upstream) in directions() {
        let translation = open(caller, upstream, false);
        // The upstream's whole answer, said by ourselves from its stream: its own dialect's writer is another direction's caller side.
        let other = Format::ALL
            .into_iter()
            .find(|other| *other != upstream)
            .unwrap();
        let back = open(upstream, other, false);
        let (reader, writer) = (
            back.answering.reader(),
            back.answering.writer(back.head.clone()),
        );
        let usage = crate::usage::Usage {
            input: Some(USAGE.0 - USAGE.1),
            cached_input: Some(USAGE.1),
            output: Some(USAGE.2),
            reasoning: Some(USAGE.3),
            ..crate::usage::Usage::default()
        };
        let body = answer::whole(stream(other), Some(usage), reader, writer).unwrap();
        let read = translation.read(&body, &ReadOptions::default()).unwrap();
        let said: Value = serde_json::from_slice(&read.body).unwrap();
        assert_eq!(
            whole(caller, &said),
            expected(caller),
            "{caller:?} of {upstream:?}: {said}"
        );
        assert_eq!(read.usage.unwrap().usage.output, Some(USAGE.2));
    }
}

#[test]
fn every_direction_carries_a_request_that_its_target_accepts() {
    for (caller, upstream) in directions() {
        let translation = open(caller, upstream, true);
        let change = Change {
            model: "up",
            output_cap: Some(50),
        };
        let body = translation.prepare(&Bytes::new(), &change);
        let text = String::from_utf8(body.to_vec()).unwrap();
        for word in ["brief", "hi", "well", "done", "\"f\""] {
            assert!(
                text.contains(word),
                "{caller:?} to {upstream:?}: {word} in {text}"
            );
        }
        assert!(
            text.contains("50") || upstream == Format::Anthropic,
            "{caller:?} to {upstream:?}: {text}"
        );
        assert!(
            !text.contains("c.1") || upstream != Format::Anthropic,
            "{text}"
        );
    }
}

#[test]
fn a_conversation_in_which_nothing_is_said_is_refused_by_its_field() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": ""}]});
    let body = Bytes::from(body.to_string());
    let asked: Arc<dyn DialectRequest> =
        Arc::from(read(Format::Chat, &body, Form::Whole, "m").unwrap());
    for upstream in [Format::Responses, Format::Anthropic, Format::Gemini] {
        let pair = (Format::Chat, upstream);
        let refusal = Translation::open(pair, &asked, &body, &target(false)).unwrap_err();
        assert_eq!((&*refusal.param, refusal.unsupported), ("messages", true));
    }
}

#[test]
fn a_call_without_a_name_is_no_answer() {
    let translation = open(Format::Chat, Format::Gemini, false);
    let part = json!({"functionCall": {"args": {}}});
    let body = json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
    let body = Bytes::from(body.to_string());
    let error = translation.read(&body, &ReadOptions::default());
    assert_eq!(error.unwrap_err().class, crate::Class::Malformed);
    let translation = open(Format::Anthropic, Format::Chat, false);
    let body = |finish: &str, calls: Value| {
        let message = json!({"role": "assistant", "content": "a", "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        Bytes::from(json!({"object": "chat.completion", "choices": [choice]}).to_string())
    };
    let nameless = json!([{"id": "c", "type": "function", "function": {"arguments": "{}"}}]);
    let read = |body: Bytes| translation.read(&body, &ReadOptions::default());
    assert!(read(body("tool_calls", nameless)).is_err());
    // Nobody is to wait for calls that were announced and did not come.
    let said = read(body("tool_calls", Value::Null)).unwrap().body;
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["stop_reason"], "end_turn");
}

#[test]
fn what_a_whole_response_cites_reaches_callers_of_chat() {
    let body = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "up",
        "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": "Hi", "logprobs": [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}],
                "annotations": [{"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}]}]}],
        "usage": null});
    let translation = open(Format::Chat, Format::Responses, false);
    let body = Bytes::from(body.to_string());
    let answer = translation.read(&body, &ReadOptions::default()).unwrap();
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(
        choice["message"]["annotations"][0]["url_citation"]["url"],
        "https://a.example"
    );
    assert_eq!(choice["logprobs"]["content"][0]["token"], "Hi");
}
