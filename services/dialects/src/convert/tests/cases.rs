//! What callers met elsewhere, each in every direction that it concerns: what went out, what was named, what came back.

mod asked;
mod endings;
mod turns;

use super::*;

/// What an upstream is asked, and what was left out.
fn sent(
    (caller, upstream): (Format, Format),
    model: &str,
    body: &Value,
) -> Result<(Value, Vec<String>), Refusal> {
    let translation = translated((caller, upstream), model, body)?;
    let sent = serde_json::from_slice(&translation.body).unwrap();
    Ok((sent, translation.dropped().to_vec()))
}

fn translated(
    direction: (Format, Format),
    model: &str,
    body: &Value,
) -> Result<Translation, Refusal> {
    translated_in(direction, model, body, body["stream"] == true)
}

fn translated_in(
    direction: (Format, Format),
    model: &str,
    body: &Value,
    streamed: bool,
) -> Result<Translation, Refusal> {
    let form = if streamed { Form::Events } else { Form::Whole };
    let body = Bytes::from(body.to_string());
    let asked: Arc<dyn DialectRequest> = Arc::from(read(direction.0, &body, form, "m").unwrap());
    let target = Target {
        model,
        ..target(streamed)
    };
    Translation::open(direction, &asked, &body, &target).map_err(|refusal| *refusal)
}

/// A whole answer as the caller gets it.
fn came_back(direction: (Format, Format), ask: &Value, answer: &Value) -> Value {
    let translation = translated(direction, "up", ask).unwrap();
    let body = Bytes::from(answer.to_string());
    let options = ReadOptions {
        public_model: None,
        ..ReadOptions::default()
    };
    serde_json::from_slice(&translation.read(&body, &options).unwrap().body).unwrap()
}

/// The least that a caller asks.
fn ask(caller: Format) -> Value {
    match caller {
        Format::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        Format::Responses => json!({"model": "m", "input": "hi"}),
        Format::Anthropic => json!({"model": "m", "max_tokens": 4096,
            "messages": [{"role": "user", "content": "hi"}]}),
        Format::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    }
}

fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        unreachable!("members are an object")
    };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[test]
fn what_a_caller_of_gemini_wrote_in_snake_case_is_named_so() {
    let body = with(
        ask(Format::Gemini),
        json!({"generation_config": {"stop_sequences": ["1", "2", "3", "4", "5"], "top_k": 3,
            "thinking_config": {"thinking_budget": 2048}},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"text": "a", "thought_signature": "U2lnRw=="}]},
                {"role": "user", "parts": [{"text": "more"}]}]}),
    );
    let names = |upstream, model| sent((Format::Gemini, upstream), model, &body).unwrap().1;
    assert_eq!(
        names(Format::Chat, "up"),
        [
            "contents[].parts[].thought_signature",
            "generation_config.top_k",
            "generation_config.stop_sequences"
        ]
    );
    assert_eq!(
        names(Format::Responses, "up"),
        [
            "contents[].parts[].thought_signature",
            "generation_config.top_k",
            "generation_config.stop_sequences"
        ]
    );
    assert_eq!(
        names(Format::Anthropic, "claude-3-5-haiku"),
        [
            "contents[].parts[].thought_signature",
            "generation_config.thinking_config"
        ]
    );
    for (member, value) in [
        ("candidate_count", json!(2)),
        ("response_modalities", json!(["IMAGE"])),
    ] {
        let body = with(
            ask(Format::Gemini),
            json!({"generation_config": {member: value}}),
        );
        let refusal = sent((Format::Gemini, Format::Anthropic), "up", &body).unwrap_err();
        assert_eq!(refusal.param, format!("generation_config.{member}"));
        assert!(refusal.unsupported);
    }
}

#[test]
fn surplus_stop_sequences_are_named_wherever_they_go() {
    let stop: Vec<_> = (0..7).map(|number| number.to_string()).collect();
    let body = with(ask(Format::Anthropic), json!({"stop_sequences": stop}));
    let (gemini, dropped) = sent((Format::Anthropic, Format::Gemini), "up", &body).unwrap();
    assert_eq!(
        gemini["generationConfig"]["stopSequences"],
        json!(stop[..5])
    );
    assert_eq!(dropped, ["stop_sequences"]);
    let (chat, dropped) = sent((Format::Anthropic, Format::Chat), "up", &body).unwrap();
    assert_eq!(chat["stop"], json!(stop[..4]));
    assert_eq!(dropped, ["stop_sequences"]);
}

#[test]
fn thinking_without_an_effort_leaves_the_effort_to_the_model() {
    for kind in ["adaptive", "between_tools"] {
        let body = with(ask(Format::Anthropic), json!({"thinking": {"type": kind}}));
        let to = |upstream, model| sent((Format::Anthropic, upstream), model, &body).unwrap().0;
        assert_eq!(to(Format::Chat, "up").get("reasoning_effort"), None);
        assert_eq!(
            to(Format::Responses, "up")["reasoning"],
            json!({"summary": "auto"})
        );
        assert_eq!(
            to(Format::Gemini, "gemini-3-pro")["generationConfig"]["thinkingConfig"],
            json!({"includeThoughts": true})
        );
    }
    let body = with(
        ask(Format::Anthropic),
        json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    );
    let (chat, _) = sent((Format::Anthropic, Format::Chat), "up", &body).unwrap();
    assert_eq!(chat["reasoning_effort"], "low");
}

/// A tool of each caller by a name, called before, with its result, and demanded.
fn calling(caller: Format, name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    match caller {
        Format::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "r"}],
            "tools": [{"type": "function", "function": {"name": name, "parameters": schema}}],
            "tool_choice": {"type": "function", "function": {"name": name}}}),
        Format::Responses => json!({"model": "m", "input": [{"role": "user", "content": "hi"},
                {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "r"}],
            "tools": [{"type": "function", "name": name, "parameters": schema, "strict": false}],
            "tool_choice": {"type": "function", "name": name}}),
        Format::Anthropic => {
            json!({"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": name, "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]}],
            "tools": [{"name": name, "input_schema": schema}],
            "tool_choice": {"type": "tool", "name": name}})
        }
        Format::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": "r"}}}]}],
            "tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}, {"name": "other"}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}}),
    }
}

/// Every name of a tool in a request to an upstream.
fn names_in(upstream: Format, body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |value: &Value| found.extend(value.as_str().map(str::to_owned));
    match upstream {
        Format::Chat => {
            take(&body["tools"][0]["function"]["name"]);
            take(&body["tool_choice"]["function"]["name"]);
            take(&body["messages"][1]["tool_calls"][0]["function"]["name"]);
        }
        Format::Responses => {
            take(&body["tools"][0]["name"]);
            take(&body["tool_choice"]["name"]);
            take(&body["input"][1]["name"]);
        }
        Format::Anthropic => {
            take(&body["tools"][0]["name"]);
            take(&body["tool_choice"]["name"]);
            take(&body["messages"][1]["content"][0]["name"]);
        }
        Format::Gemini => {
            take(&body["tools"][0]["functionDeclarations"][0]["name"]);
            take(&body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"][0]);
            take(&body["contents"][1]["parts"][0]["functionCall"]["name"]);
            take(&body["contents"][2]["parts"][0]["functionResponse"]["name"]);
        }
    }
    found
}

/// An answer that calls a tool.
fn called(upstream: Format, name: &str) -> Value {
    match upstream {
        Format::Chat => json!({"id": "x", "object": "chat.completion", "created": 1, "model": "up",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
                "tool_calls": [{"id": "d", "type": "function", "function": {"name": name, "arguments": ""}}]}}]}),
        Format::Responses => {
            json!({"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": "up",
            "output": [{"type": "function_call", "id": "fc_1", "call_id": "d", "name": name, "arguments": "", "status": "completed"}]})
        }
        Format::Anthropic => {
            json!({"id": "msg_x", "type": "message", "role": "assistant", "model": "up",
            "content": [{"type": "tool_use", "id": "d", "name": name, "input": {}}],
            "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        Format::Gemini => json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"functionCall": {"name": name}}]}}]}),
    }
}

#[test]
fn names_of_tools_go_out_as_the_upstream_takes_them_and_come_back_as_the_callers() {
    let long = format!("mcp__{}", "x".repeat(130));
    for (caller, upstream) in directions() {
        for name in ["get_weather", "a.b:c", "1st tool", "größe", &long] {
            let ask = calling(caller, name);
            let (body, dropped) = sent((caller, upstream), "up", &ask).unwrap();
            assert_eq!(dropped, [""; 0], "{caller:?} to {upstream:?}");
            let found = names_in(upstream, &body);
            let expected = if upstream == Format::Gemini { 4 } else { 3 };
            assert_eq!(found.len(), expected, "{caller:?} to {upstream:?}: {body}");
            let said = &found[0];
            assert!(found.iter().all(|other| other == said), "{found:?}");
            let (max, also) = match upstream {
                Format::Chat | Format::Responses => (64, ""),
                Format::Anthropic => (128, ""),
                Format::Gemini => (64, ".:"),
            };
            let taken =
                |one: char| one.is_ascii_alphanumeric() || "_-".contains(one) || also.contains(one);
            assert!(
                said.len() <= max && said.chars().all(taken),
                "{upstream:?} {said}"
            );
            if upstream == Format::Gemini {
                assert!(said.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_'));
            }
            let back = came_back((caller, upstream), &ask, &called(upstream, said));
            let own = match caller {
                Format::Chat => &back["choices"][0]["message"]["tool_calls"][0]["function"]["name"],
                Format::Responses => &back["output"][0]["name"],
                Format::Anthropic => &back["content"][0]["name"],
                Format::Gemini => {
                    &back["candidates"][0]["content"]["parts"][0]["functionCall"]["name"]
                }
            };
            assert_eq!(own, name, "{caller:?} from {upstream:?}: {back}");
        }
    }
}

#[test]
fn thoughts_that_nobody_sealed_go_back_to_none_but_their_maker() {
    let ask = with(
        ask(Format::Anthropic),
        json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    );
    let answers = [
        (
            Format::Gemini,
            json!({"candidates": [{"index": 0, "finishReason": "STOP",
                "content": {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "a"}]}}]}),
        ),
        (
            Format::Responses,
            json!({"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": "up",
                "output": [{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]}]}),
        ),
        (
            Format::Chat,
            json!({"id": "x", "object": "chat.completion", "created": 1, "model": "up", "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "a", "reasoning_content": "hm"}}]}),
        ),
    ];
    for (maker, answer) in answers {
        let back = came_back((Format::Anthropic, maker), &ask, &answer);
        assert_eq!(back["content"][0]["thinking"], "hm");
        let next = with(
            ask.clone(),
            json!({"messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": back["content"]}, {"role": "user", "content": "go on"}]}),
        );
        let (chat, dropped) = sent((Format::Anthropic, Format::Chat), "up", &next).unwrap();
        let thought = chat["messages"][1].get("reasoning_content");
        if maker == Format::Chat {
            assert_eq!(thought, Some(&json!("hm")));
            assert_eq!(dropped, [""; 0]);
        } else {
            assert_eq!(thought, None, "{maker:?}");
            assert_eq!(dropped, ["messages[].content[].thinking"]);
        }
    }
}

#[test]
fn thoughts_that_another_sealed_are_not_told_to_a_chat_upstream() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "One"}]},
        {"role": "model", "parts": [{"text": "theirs", "thought": true},
            {"text": "", "thought": true, "thoughtSignature": "c3dpdGNoYm9hcmQuYS5TaWdBPT0="}, {"text": "1"}]},
        {"role": "user", "parts": [{"text": "Two"}]},
        {"role": "model", "parts": [{"text": "nobody's", "thought": true}, {"text": "2"}]},
        {"role": "user", "parts": [{"text": "Three"}]}]});
    let (chat, dropped) = sent((Format::Gemini, Format::Chat), "up", &body).unwrap();
    assert_eq!(
        chat["messages"][1],
        json!({"role": "assistant", "content": "1"})
    );
    assert_eq!(
        chat["messages"][3],
        json!({"role": "assistant", "content": "2", "reasoning_content": "nobody's"})
    );
    assert_eq!(dropped, ["contents[].parts[]"]);
}

#[test]
fn an_image_where_the_caller_has_no_place_for_one_is_said() {
    let image = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Here:"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}, {"text": "Like it?"}]}}]});
    let back = came_back(
        (Format::Anthropic, Format::Gemini),
        &ask(Format::Anthropic),
        &image,
    );
    let texts: Vec<_> = back["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["text"])
        .collect();
    assert_eq!(
        texts,
        [
            "Here:",
            "[image/png was made here, for which this API has no place in an answer]",
            "Like it?"
        ]
    );
    let sound = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]}}]});
    let note = "[audio/wav was made here, for which this API has no place in an answer]";
    let back = |caller| came_back((caller, Format::Gemini), &ask(caller), &sound);
    assert_eq!(back(Format::Chat)["choices"][0]["message"]["content"], note);
    assert_eq!(
        back(Format::Responses)["output"][0]["content"][0]["text"],
        note
    );
    assert_eq!(back(Format::Anthropic)["content"][0]["text"], note);
}

#[test]
fn a_stream_that_tells_all_at_its_end_is_told() {
    let ask = with(ask(Format::Chat), json!({"stream": true}));
    let translation = translated((Format::Chat, Format::Responses), "up", &ask).unwrap();
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "up",
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "all of it", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "d", "name": "f", "arguments": "{\"a\":1}", "status": "completed"}],
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}});
    let created = with(
        response.clone(),
        json!({"status": "in_progress", "output": [], "usage": null}),
    );
    let bytes = events(&[
        json!({"type": "response.created", "sequence_number": 0, "response": created}),
        json!({"type": "response.completed", "sequence_number": 1, "response": response}),
    ]);
    let said = gathered(Format::Chat, &run(&translation, &bytes, usize::MAX));
    assert_eq!(said.text, "all of it");
    assert_eq!(said.calls.len(), 1);
}

#[test]
fn what_servers_leave_out_of_a_responses_stream_is_found_at_its_end() {
    let ask = with(ask(Format::Chat), json!({"stream": true}));
    let translation = translated((Format::Chat, Format::Responses), "up", &ask).unwrap();
    let message = |text: Value| json!({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": text});
    let text = |text: &str| json!([{"type": "output_text", "text": text, "annotations": []}]);
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": id, "name": "f", "arguments": arguments});
    let item = |kind: &str, index: u64, item: Value| json!({"type": kind, "output_index": index, "item": item});
    let (added, done) = ("response.output_item.added", "response.output_item.done");
    let end = |kind: &str, output: Value| json!({"type": format!("response.{kind}"), "response": {"id": "r", "status": kind, "output": output}});
    let delta = |index: u64, delta: &str| json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": delta});
    let output = json!([message(text("all of it")), call("c", "{\"a\":1}")]);
    for all in [
        // Announced, and never told
        vec![
            item(added, 0, message(json!([]))),
            item(added, 1, call("c", "")),
            end("completed", output.clone()),
        ],
        // Told, and not ended; an item before it is not in the end's list
        vec![
            item(added, 1, message(json!([]))),
            delta(1, "all of it"),
            item(added, 2, call("c", "")),
            item(done, 2, call("c", "{\"a\":1}")),
            end("completed", output.clone()),
        ],
        // All numbered alike
        vec![
            item(added, 0, message(json!([]))),
            delta(0, "all of it"),
            item(done, 0, message(text("all of it"))),
            item(added, 0, call("c", "")),
            item(done, 0, call("c", "{\"a\":1}")),
            end("completed", output),
        ],
    ] {
        let said = gathered(Format::Chat, &run(&translation, &events(&all), usize::MAX));
        assert_eq!(said.text, "all of it", "{all:?}");
        assert_eq!(said.calls.len(), 1, "{all:?}");
        assert_eq!(said.calls[0].2, json!({"a": 1}), "{all:?}");
    }
    // What was given up is no answer
    let mut stream = translation.stream(StreamOptions::default());
    let given_up = stream.push(events(&[end("cancelled", json!([]))]));
    assert_eq!(given_up.unwrap_err().class, crate::Class::Cut);
    for status in ["cancelled", "queued", "in_progress"] {
        let response =
            json!({"id": "r", "object": "response", "status": status, "model": "up", "output": []});
        let read = translation.read(&response.to_string().into(), &ReadOptions::default());
        assert_eq!(read.unwrap_err().class, crate::Class::Cut, "{status}");
    }
}

#[test]
fn what_was_broken_off_in_a_response_is_incomplete() {
    let cut = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "up", "choices": [{"index": 0, "finish_reason": "length",
        "message": {"role": "assistant", "content": "Once", "reasoning_content": "hm"}}]});
    let back = came_back(
        (Format::Responses, Format::Chat),
        &ask(Format::Responses),
        &cut,
    );
    assert_eq!(back["status"], "incomplete");
    assert_eq!(back["output"][0].get("status"), None);
    assert_eq!(back["output"][1]["status"], "incomplete");
    for member in [
        "completed_at",
        "truncation",
        "max_tool_calls",
        "top_logprobs",
    ] {
        assert!(back.get(member).is_some(), "{member}");
    }
}

#[test]
fn values_that_gemini_would_refuse_are_named() {
    let seed = |seed: i64| {
        let body = with(ask(Format::Chat), json!({"seed": seed}));
        sent((Format::Chat, Format::Gemini), "up", &body).unwrap()
    };
    assert_eq!(seed(-7).0["generationConfig"]["seed"], -7);
    let (body, dropped) = seed(2_147_483_648);
    assert_eq!(body.get("generationConfig"), None);
    assert_eq!(dropped, ["seed"]);
}

#[test]
fn citations_that_are_asked_for_are_named_at_every_depth() {
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": [{"type": "search_result", "source": "s", "title": "t",
            "content": [{"type": "text", "text": "words"}], "citations": {"enabled": true}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "document", "title": "D", "context": "C", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}, "citations": {"enabled": true}}]}]}]});
    let (gemini, dropped) = sent((Format::Anthropic, Format::Gemini), "up", &body).unwrap();
    assert_eq!(
        dropped,
        [
            "messages[].content[].citations",
            "messages[].content[].content[].citations"
        ]
    );
    assert_eq!(
        gemini["contents"][2]["parts"][0]["functionResponse"]["response"]["result"],
        "D\nC\nplain"
    );
}

#[test]
fn models_that_reason_are_asked_without_what_they_refuse() {
    let asks = [
        (
            Format::Anthropic,
            json!({"temperature": 0.3, "stop_sequences": ["END"]}),
            vec!["temperature", "stop_sequences"],
        ),
        (
            Format::Gemini,
            json!({"generationConfig": {"temperature": 0.3, "presencePenalty": 0.5, "stopSequences": ["END"]}}),
            vec![
                "generationConfig.temperature",
                "generationConfig.presencePenalty",
                "generationConfig.stopSequences",
            ],
        ),
        (
            Format::Responses,
            json!({"temperature": 0.3, "top_p": 1}),
            vec!["temperature"],
        ),
    ];
    for (caller, more, named) in asks {
        let body = with(ask(caller), more);
        let (chat, dropped) = sent((caller, Format::Chat), "gpt-5", &body).unwrap();
        assert_eq!(dropped, named, "{caller:?}");
        for member in ["temperature", "top_p", "presence_penalty", "stop"] {
            assert_eq!(chat.get(member), None, "{caller:?} {member}");
        }
        let (chat, _) = sent((caller, Format::Chat), "gpt-4o", &body).unwrap();
        assert_eq!(chat["temperature"], 0.3, "{caller:?}");
    }
    let body = with(
        ask(Format::Chat),
        json!({"temperature": 0.3, "reasoning_effort": "low"}),
    );
    let to = |model| sent((Format::Chat, Format::Responses), model, &body).unwrap();
    assert_eq!(to("gpt-5.2").1, ["temperature"]);
    assert_eq!(to("gpt-4o").0["temperature"], 0.3);
}

#[test]
fn models_that_do_not_reason_are_asked_nothing_about_it() {
    let thinking = [
        (Format::Chat, json!({})),
        (Format::Anthropic, json!({"thinking": {"type": "adaptive"}})),
        (
            Format::Gemini,
            json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}}}),
        ),
    ];
    for (caller, more) in thinking {
        let body = with(ask(caller), more);
        let asked = |model| sent((caller, Format::Responses), model, &body).unwrap();
        let (plain, named) = asked("gpt-4.1");
        assert_eq!(plain.get("include"), None, "{caller:?}");
        assert_eq!(plain.get("reasoning"), None, "{caller:?}");
        assert_eq!(named.is_empty(), caller == Format::Chat, "{caller:?}");
        for model in ["gpt-5.1", "o3", "some-model"] {
            let (reasoning, named) = asked(model);
            assert_eq!(
                reasoning["include"],
                json!(["reasoning.encrypted_content"]),
                "{caller:?}"
            );
            let told = reasoning.get("reasoning").is_some();
            assert_eq!(told, caller != Format::Chat, "{caller:?}");
            assert!(named.is_empty(), "{caller:?}: {named:?}");
        }
    }
}

#[test]
fn a_model_that_gave_up_before_it_said_anything_leaves_no_trace() {
    let gave_up = json!({"candidates": [{"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL",
        "content": {"role": "model", "parts": []}}], "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}});
    let said = json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Let me"}]}}]});
    for caller in [Format::Chat, Format::Responses, Format::Anthropic] {
        let direction = (caller, Format::Gemini);
        let translation = translated(direction, "up", &ask(caller)).unwrap();
        let body = Bytes::from(gave_up.to_string());
        let failed = translation.read(&body, &ReadOptions::default());
        assert!(failed.unwrap_err().class.retryable(), "{caller:?}");

        let ask = with(ask(caller), json!({"stream": true}));
        let translation = translated(direction, "up", &ask).unwrap();
        let mut stream = translation.stream(StreamOptions::default());
        let failed = stream.push(events(std::slice::from_ref(&gave_up)));
        assert!(failed.unwrap_err().class.retryable(), "{caller:?}");
        assert_eq!((stream.take(), stream.committed()), (None, false));

        let mut stream = translation.stream(StreamOptions::default());
        stream.push(events(std::slice::from_ref(&said))).unwrap();
        assert!(stream.take().is_some() && stream.committed());
        assert!(stream.push(events(std::slice::from_ref(&gave_up))).is_err());
        assert!(stream.committed() && !stream.done(), "{caller:?}");
    }
}

#[test]
fn what_cannot_be_said_again_leaves_no_trace_before_anything_of_it_went_out() {
    let chunk = |delta: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    };
    let call = json!({"index": -1, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let broken = chunk(json!({"role": "assistant", "tool_calls": [call]}));
    let said = chunk(json!({"role": "assistant", "content": "Let me"}));
    for caller in [Format::Responses, Format::Anthropic, Format::Gemini] {
        let ask = with(ask(caller), json!({"stream": true}));
        let translation = translated((caller, Format::Chat), "up", &ask).unwrap();
        let mut stream = translation.stream(StreamOptions::default());
        let failed = stream.push(events(std::slice::from_ref(&broken)));
        assert!(failed.unwrap_err().class.retryable(), "{caller:?}");
        assert_eq!(stream.take(), None, "{caller:?}");
        assert!(!stream.committed() && !stream.has_content(), "{caller:?}");

        let mut stream = translation.stream(StreamOptions::default());
        stream.push(events(std::slice::from_ref(&said))).unwrap();
        assert!(stream.take().is_some(), "{caller:?}");
        assert!(stream.push(events(std::slice::from_ref(&broken))).is_err());
        assert!(stream.committed() && stream.has_content(), "{caller:?}");
    }
}
