//! How answers end, and what they used, whoever says it (CASES A13, A18, A20, C9, C21, C30).

use super::*;

/// A stream of each upstream: a text, then this end, then what was used.
fn stream_of(upstream: Format, usage: bool) -> Bytes {
    let used = |value: Value| if usage { value } else { Value::Null };
    match upstream {
        Format::Chat => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            };
            let mut last = chunk(json!({}), json!("stop"));
            // Beside a choice, not after it.
            last["usage"] = used(
                json!({"prompt_tokens": 65, "completion_tokens": 251, "total_tokens": 316,
                "prompt_tokens_details": {"cached_tokens": 64}}),
            );
            let mut bytes = events(&[chunk(json!({"content": "a"}), Value::Null), last]).to_vec();
            bytes.extend_from_slice(b"data: [DONE]\n\n");
            bytes.into()
        }
        Format::Responses => {
            let response = |status: &str, usage: Value| {
                json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status,
                "model": "up", "output": [], "usage": usage})
            };
            events(&[
                json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress", Value::Null)}),
                json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"type": "message", "id": "m", "role": "assistant", "content": []}}),
                json!({"type": "response.output_text.delta", "sequence_number": 2, "item_id": "m", "output_index": 0, "content_index": 0, "delta": "a"}),
                json!({"type": "response.completed", "sequence_number": 3, "response": response("completed", used(json!({"input_tokens": 65,
                    "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 251, "total_tokens": 316})))}),
            ])
        }
        Format::Anthropic => {
            // What comes later replaces what came before, and only what it tells.
            let first =
                json!({"input_tokens": 1, "cache_read_input_tokens": 64, "output_tokens": 1});
            events(&[
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "up",
                    "content": [], "stop_reason": null, "stop_sequence": null, "usage": first}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 251}}),
                json!({"type": "message_stop"}),
            ])
        }
        Format::Gemini => {
            let used = |output: u64| {
                used(
                    json!({"promptTokenCount": 65, "cachedContentTokenCount": 64, "candidatesTokenCount": output, "totalTokenCount": 65 + output}),
                )
            };
            // Cumulative, on every event.
            events(&[
                json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "a"}]}}], "usageMetadata": used(3)}),
                json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": []}}], "usageMetadata": used(251)}),
            ])
        }
    }
}

fn data(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into()))
        .collect()
}

#[test]
fn usage_that_chat_asks_for_comes_once_and_last_whoever_answers_and_else_not_at_all() {
    for upstream in [Format::Anthropic, Format::Gemini, Format::Responses] {
        for wanted in [true, false] {
            let ask = with(
                ask(Format::Chat),
                json!({"stream": true, "stream_options": {"include_usage": wanted}}),
            );
            let translation = translated((Format::Chat, upstream), "up", &ask).unwrap();
            let chunks = data(&run(&translation, &stream_of(upstream, true), usize::MAX));
            let (end, chunks) = chunks.split_last().unwrap();
            assert_eq!(end, "[DONE]", "{upstream:?}");
            let roles = chunks
                .iter()
                .filter(|chunk| chunk["choices"][0]["delta"].get("role").is_some());
            assert_eq!(roles.count(), 1, "{upstream:?}");
            assert_eq!(
                chunks[0]["choices"][0]["delta"]["role"], "assistant",
                "{upstream:?}"
            );
            let told: Vec<_> = chunks
                .iter()
                .filter(|chunk| chunk["usage"].is_object())
                .collect();
            if !wanted {
                assert!(
                    told.is_empty() && chunks.iter().all(|chunk| chunk.get("usage").is_none()),
                    "{upstream:?}"
                );
                assert!(
                    chunks.iter().all(|chunk| chunk["choices"][0].is_object()),
                    "{upstream:?}"
                );
                continue;
            }
            let (last, others) = chunks.split_last().unwrap();
            assert_eq!(told, [last], "{upstream:?}");
            assert_eq!(last["choices"], json!([]), "{upstream:?}");
            let nulls = others
                .iter()
                .all(|chunk| chunk.get("usage") == Some(&Value::Null));
            assert!(nulls, "{upstream:?}: {others:?}");
            assert_eq!(
                (
                    &last["usage"]["prompt_tokens"],
                    &last["usage"]["completion_tokens"],
                    &last["usage"]["prompt_tokens_details"]["cached_tokens"]
                ),
                (&json!(65), &json!(251), &json!(64)),
                "{upstream:?}"
            );
        }
    }
}

#[test]
fn usage_is_told_once_in_the_callers_own_counts_wherever_it_stood() {
    for (caller, upstream) in directions() {
        let mut ask = ask(caller);
        if caller != Format::Gemini {
            ask["stream"] = true.into();
        }
        if caller == Format::Chat {
            ask["stream_options"] = json!({"include_usage": true});
        }
        let translation = translated_in((caller, upstream), "up", &ask, true).unwrap();
        let mut stream = translation.stream(StreamOptions::default());
        let mut out = Vec::new();
        stream.push(stream_of(upstream, true)).unwrap();
        stream.finish().unwrap();
        while let Some(bytes) = stream.take() {
            out.extend_from_slice(&bytes);
        }
        let usage = stream.usage().unwrap().usage;
        assert_eq!(
            (usage.input, usage.cached_input, usage.output),
            (Some(1), Some(64), Some(251)),
            "{caller:?} of {upstream:?}"
        );
        let all = data(&out);
        let at = |path: &str| {
            all.iter()
                .rev()
                .find_map(|event| event.pointer(path).and_then(Value::as_u64))
        };
        let (input, cached, output) = match caller {
            Format::Chat => (
                "/usage/prompt_tokens",
                "/usage/prompt_tokens_details/cached_tokens",
                "/usage/completion_tokens",
            ),
            Format::Responses => (
                "/response/usage/input_tokens",
                "/response/usage/input_tokens_details/cached_tokens",
                "/response/usage/output_tokens",
            ),
            Format::Anthropic => (
                "/usage/input_tokens",
                "/usage/cache_read_input_tokens",
                "/usage/output_tokens",
            ),
            Format::Gemini => (
                "/usageMetadata/promptTokenCount",
                "/usageMetadata/cachedContentTokenCount",
                "/usageMetadata/candidatesTokenCount",
            ),
        };
        let told = (at(input), at(cached), at(output));
        let expected = if caller == Format::Anthropic { 1 } else { 65 };
        assert_eq!(
            told,
            (Some(expected), Some(64), Some(251)),
            "{caller:?} of {upstream:?}"
        );
    }
}

#[test]
fn what_chat_has_no_word_for_keeps_the_upstreams_and_a_call_wins_over_an_end() {
    let anthropic = |reason: &str, call: bool| {
        let mut content = vec![json!({"type": "text", "text": "a"})];
        if call {
            content.push(json!({"type": "tool_use", "id": "c", "name": "f", "input": {}}));
        }
        json!({"id": "m", "type": "message", "role": "assistant", "model": "up", "content": content,
            "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
    };
    let gemini = |reason: &str, call: bool| {
        let mut parts = vec![json!({"text": "a"})];
        if call {
            parts.push(json!({"functionCall": {"name": "f"}}));
        }
        json!({"candidates": [{"index": 0, "finishReason": reason, "content": {"role": "model", "parts": parts}}]})
    };
    let cases = [
        (
            Format::Anthropic,
            anthropic("end_turn", false),
            "stop",
            None,
        ),
        (
            Format::Anthropic,
            anthropic("end_turn", true),
            "tool_calls",
            None,
        ),
        (
            Format::Anthropic,
            anthropic("tool_use", true),
            "tool_calls",
            None,
        ),
        (
            Format::Anthropic,
            anthropic("max_tokens", false),
            "length",
            None,
        ),
        (
            Format::Anthropic,
            anthropic("refusal", false),
            "content_filter",
            Some("refusal"),
        ),
        (
            Format::Anthropic,
            anthropic("model_context_window_exceeded", false),
            "length",
            Some("model_context_window_exceeded"),
        ),
        (
            Format::Anthropic,
            anthropic("pause_turn", false),
            "stop",
            Some("pause_turn"),
        ),
        (
            Format::Anthropic,
            anthropic("pause_turn", true),
            "tool_calls",
            Some("pause_turn"),
        ),
        (
            Format::Anthropic,
            anthropic("novel", false),
            "stop",
            Some("novel"),
        ),
        (
            Format::Anthropic,
            anthropic("novel", true),
            "tool_calls",
            Some("novel"),
        ),
        (Format::Gemini, gemini("STOP", false), "stop", None),
        (Format::Gemini, gemini("STOP", true), "tool_calls", None),
        (Format::Gemini, gemini("MAX_TOKENS", false), "length", None),
        (
            Format::Gemini,
            gemini("SAFETY", false),
            "content_filter",
            Some("SAFETY"),
        ),
        (
            Format::Gemini,
            gemini("RECITATION", false),
            "content_filter",
            Some("RECITATION"),
        ),
        (
            Format::Gemini,
            gemini("SPII", false),
            "content_filter",
            Some("SPII"),
        ),
        (
            Format::Gemini,
            gemini("NOVEL", false),
            "stop",
            Some("NOVEL"),
        ),
        (
            Format::Gemini,
            gemini("NOVEL", true),
            "tool_calls",
            Some("NOVEL"),
        ),
    ];
    for (upstream, answer, word, native) in cases {
        let back = came_back((Format::Chat, upstream), &ask(Format::Chat), &answer);
        let choice = &back["choices"][0];
        assert_eq!(choice["finish_reason"], word, "{answer}");
        let told = choice.get("native_finish_reason").and_then(Value::as_str);
        assert_eq!(told, native, "{answer}");
    }
}
