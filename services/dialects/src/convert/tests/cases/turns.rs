//! Conversations over several turns, and what calls and seals become on their way (CASES C13, C18).

use super::*;

/// An answer of an upstream that thinks, calls a tool and seals what it is to know again.
fn thought_and_called(upstream: Format) -> Value {
    match upstream {
        Format::Chat => {
            json!({"id": "x", "object": "chat.completion", "created": 1, "model": "up", "choices": [{"index": 0,
            "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "look",
                "reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "SEAL+/=c"}],
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}}]}}]})
        }
        Format::Responses => {
            json!({"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": "up", "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "SEAL+/=r"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "look", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"n\":1}", "status": "completed"}]})
        }
        Format::Anthropic => {
            json!({"id": "msg_x", "type": "message", "role": "assistant", "model": "up", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "SEAL+/=a"},
            {"type": "redacted_thinking", "data": "SEAL+/=b"},
            {"type": "text", "text": "look"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}}],
            "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        Format::Gemini => {
            json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "hm", "thought": true}, {"text": "look"},
            {"functionCall": {"id": "c1", "name": "f", "args": {"n": 1}}, "thoughtSignature": "U0VBTCsvPWc="}]}}]})
        }
    }
}

/// The caller's next turn: what it got, as its client puts it into the history, and the result of the call.
fn next_turn(caller: Format, ask: &Value, answer: &Value) -> Value {
    let mut body = ask.clone();
    let (list, more) = match caller {
        Format::Chat => {
            let message = answer["choices"][0]["message"].clone();
            let id = message["tool_calls"][0]["id"].clone();
            let result = json!({"role": "tool", "tool_call_id": id, "content": "done"});
            ("messages", vec![message, result])
        }
        Format::Responses => {
            let mut items = answer["output"].as_array().unwrap().clone();
            let call = items.iter().find(|item| item["type"] == "function_call");
            let id = call.unwrap()["call_id"].clone();
            items.push(json!({"type": "function_call_output", "call_id": id, "output": "done"}));
            ("input", items)
        }
        Format::Anthropic => {
            let content = answer["content"].clone();
            let call = content.as_array().unwrap().iter();
            let id = call
                .clone()
                .find(|block| block["type"] == "tool_use")
                .unwrap()["id"]
                .clone();
            let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]});
            (
                "messages",
                vec![json!({"role": "assistant", "content": content}), result],
            )
        }
        Format::Gemini => {
            let content = answer["candidates"][0]["content"].clone();
            let parts = content["parts"].as_array().unwrap().iter();
            let call = parts
                .clone()
                .find(|part| part.get("functionCall").is_some())
                .unwrap();
            let response = json!({"functionResponse": {"id": call["functionCall"]["id"], "name": "f", "response": {"result": "done"}}});
            (
                "contents",
                vec![content, json!({"role": "user", "parts": [response]})],
            )
        }
    };
    body[list].as_array_mut().unwrap().extend(more);
    body
}

/// A caller who thinks and has a tool.
fn thinking(caller: Format) -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    match caller {
        Format::Chat => {
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "low",
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})
        }
        Format::Responses => {
            json!({"model": "m", "store": false, "include": ["reasoning.encrypted_content"],
            "input": [{"role": "user", "content": "hi"}], "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": false}]})
        }
        Format::Anthropic => {
            json!({"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}],
            "thinking": {"type": "enabled", "budget_tokens": 1024}, "tools": [{"name": "f", "input_schema": schema}]})
        }
        Format::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "low"}}}),
    }
}

/// The seals that its answer has.
fn seals(upstream: Format) -> &'static [&'static str] {
    match upstream {
        Format::Chat => &["SEAL+/=c"],
        Format::Responses => &["SEAL+/=r"],
        Format::Anthropic => &["SEAL+/=a", "SEAL+/=b"],
        Format::Gemini => &["U0VBTCsvPWc="],
    }
}

fn model(upstream: Format) -> &'static str {
    match upstream {
        Format::Gemini => "gemini-3-pro",
        Format::Anthropic => "claude-opus-4-6",
        Format::Chat | Format::Responses => "up",
    }
}

#[test]
fn a_seal_goes_back_to_its_maker_as_it_was_and_to_nobody_else() {
    for (caller, upstream) in directions() {
        let ask = thinking(caller);
        let back = came_back((caller, upstream), &ask, &thought_and_called(upstream));
        let next = next_turn(caller, &ask, &back);
        let what = format!("{caller:?} of {upstream:?}");

        let (body, _) = sent((caller, upstream), model(upstream), &next).unwrap();
        for seal in seals(upstream) {
            let quoted = Value::from(*seal).to_string();
            let inside = quoted.trim_matches('"').replace('"', "\\\"");
            let found = body.to_string();
            assert!(found.contains(&inside), "{what}: {seal} in {found}");
            assert!(!found.contains("switchboard."), "{what}: {found}");
        }
        // Whoever else serves the next turn gets none of it: neither an upstream of a third dialect nor one of the caller's.
        for other in Format::ALL {
            if other == upstream {
                continue;
            }
            let body = if other == caller {
                let body = Bytes::from(next.to_string());
                let asked = read(caller, &body, Form::Whole, "m").unwrap();
                let change = Change {
                    model: "up",
                    output_cap: None,
                };
                String::from_utf8(asked.prepare(&body, &change).to_vec()).unwrap()
            } else {
                sent((caller, other), model(other), &next)
                    .unwrap()
                    .0
                    .to_string()
            };
            for seal in seals(upstream) {
                assert!(!body.contains(seal), "{what}, then {other:?}: {body}");
            }
            assert!(
                !body.contains("switchboard"),
                "{what}, then {other:?}: {body}"
            );
            assert!(
                !body.contains("c3dpdGNoYm9hcmQu"),
                "{what}, then {other:?}: {body}"
            );
        }
    }
}

#[test]
fn calls_without_arguments_have_none_wherever_they_go() {
    let chat = |arguments: Option<Value>| {
        let mut function = json!({"name": "f"});
        if let Some(arguments) = arguments {
            function["arguments"] = arguments;
        }
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"}]})
    };
    let responses = |arguments: Value| {
        json!({"model": "m", "input": [{"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": "r"}]})
    };
    let anthropic = |input: Option<Value>| {
        let mut call = json!({"type": "tool_use", "id": "c", "name": "f"});
        if let Some(input) = input {
            call["input"] = input;
        }
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]}]})
    };
    let gemini = |call: Value| {
        json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "r"}}}]}]})
    };
    let asked = [
        (Format::Chat, chat(Some(json!("")))),
        (Format::Chat, chat(Some(json!("  ")))),
        (Format::Chat, chat(Some(json!("{}")))),
        (Format::Chat, chat(Some(Value::Null))),
        (Format::Chat, chat(None)),
        (Format::Responses, responses(json!(""))),
        (Format::Responses, responses(json!("{}"))),
        (Format::Anthropic, anthropic(Some(json!({})))),
        (Format::Anthropic, anthropic(Some(Value::Null))),
        (Format::Anthropic, anthropic(None)),
        (Format::Gemini, gemini(json!({"name": "f"}))),
        (Format::Gemini, gemini(json!({"name": "f", "args": {}}))),
        (Format::Gemini, gemini(json!({"name": "f", "args": null}))),
    ];
    for (caller, body) in asked {
        for upstream in Format::ALL {
            if upstream == caller {
                continue;
            }
            let (sent, _) = sent((caller, upstream), "up", &body).unwrap();
            let found = match upstream {
                Format::Chat => {
                    sent["messages"][1]["tool_calls"][0]["function"]["arguments"].clone()
                }
                Format::Responses => sent["input"][1]["arguments"].clone(),
                Format::Anthropic => sent["messages"][1]["content"][0]["input"]
                    .to_string()
                    .into(),
                Format::Gemini => sent["contents"][1]["parts"][0]["functionCall"]["args"]
                    .to_string()
                    .into(),
            };
            assert_eq!(found, "{}", "{caller:?} to {upstream:?}: {body}");
        }
    }
}
