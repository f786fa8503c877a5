use super::*;

/// The parts of events, as their debug output.
fn parts(events: &[&str]) -> Vec<String> {
    let mut reader = GeminiReader::default();
    let mut out = Vec::new();
    let mut put = |choice: u32, part: Part<'_>| out.push(format!("{choice} {part:?}"));
    for event in events {
        reader.event(None, event, &mut put).unwrap();
    }
    reader.end(&mut put);
    out.remove(0);
    out
}

#[test]
fn thoughts_text_and_calls_are_found_with_their_signatures() {
    assert_eq!(
        parts(&[
            r#"{"candidates":[{"content":{"parts":[{"text":"th","thought":true,"thoughtSignature":"S1"},{"text":"a\n"}]},"index":0}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"S2"},{"functionCall":{"id":"i","name":"g"}}]},"finishReason":"STOP","index":0}]}"#,
        ]),
        [
            r#"0 Reasoning("th")"#,
            r#"0 Sealed(Seal { maker: Gemini, redacted: false, value: "S1" })"#,
            r#"0 Text("a\n")"#,
            r#"0 Call { key: 0, id: "", name: "f", custom: false, seal: Some(Seal { maker: Gemini, redacted: false, value: "S2" }) }"#,
            r#"0 Arguments { key: 0, piece: "{\"x\":1}" }"#,
            "0 CallEnd { key: 0 }",
            r#"0 Call { key: 1, id: "i", name: "g", custom: false, seal: None }"#,
            "0 CallEnd { key: 1 }",
            r#"0 Finish(Finish { reason: ToolCalls, raw: "STOP" })"#,
        ]
    );
}

#[test]
fn every_candidate_is_a_choice_and_ends_once() {
    assert_eq!(
        parts(&[
            r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]}},{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}"#,
            r#"{"candidates":[{"finishReason":"MAX_TOKENS"},{"index":1,"finishReason":"RECITATION"}]}"#,
        ]),
        [
            r#"1 Text("b")"#,
            r#"0 Text("a")"#,
            r#"0 Finish(Finish { reason: Length, raw: "MAX_TOKENS" })"#,
            r#"1 Finish(Finish { reason: Filtered, raw: "RECITATION" })"#,
        ]
    );
}

#[test]
fn a_blocked_prompt_is_filtered_and_unknown_reasons_keep_their_word() {
    assert_eq!(
        parts(&[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]),
        [r#"0 Finish(Finish { reason: Filtered, raw: "SAFETY" })"#]
    );
    assert_eq!(
        parts(&[
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"LANGUAGE"}]}"#
        ]),
        [
            r#"0 Text("a")"#,
            r#"0 Finish(Finish { reason: Other, raw: "LANGUAGE" })"#
        ]
    );
}

#[test]
fn a_model_that_gave_up_has_failed() {
    for event in [
        r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]},"finishReason":"OTHER"}]}"#,
    ] {
        let mut reader = GeminiReader::default();
        let failed = reader.event(None, event, &mut |_, _| ()).unwrap_err();
        assert_eq!(failed.class, Class::Malformed, "{event}");
    }
}

#[test]
fn sources_that_are_told_again_are_found_once() {
    let grounded = r#"{"candidates":[{"content":{"parts":[{"text":"ab"}]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://x","title":"X"}}],"groundingSupports":[{"segment":{"endIndex":2},"groundingChunkIndices":[0]}]}}]}"#;
    let cited = parts(&[grounded, grounded]);
    assert_eq!(
        cited
            .iter()
            .filter(|part| part.contains("Citation"))
            .collect::<Vec<_>>(),
        [
            r#"0 Citation { url: "https://x", title: "X", span: Some((0, 2)), raw: "{\"segment\":{\"endIndex\":2},\"groundingChunkIndices\":[0]}" }"#
        ]
    );
}

#[test]
fn media_code_and_log_probabilities_are_found() {
    assert_eq!(
        parts(&[
            r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"executableCode":{"language":"PYTHON","code":"print(1)"}}]},"logprobsResult":{"chosenCandidates":[{"token":"a","logProbability":-0.5}],"topCandidates":[{"candidates":[{"token":"b","logProbability":-1}]}]}}]}"#
        ]),
        [
            r#"0 Media { mime: "image/png", data: "AA==" }"#,
            r#"0 Text("\n```python\nprint(1)\n```\n")"#,
            r#"0 Logprobs("{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"b\",\"logprob\":-1,\"bytes\":[98]}]}")"#,
        ]
    );
}

#[test]
fn the_input_of_a_tool_of_free_text_is_found() {
    let mut reader = GeminiReader::new(&["patch".to_owned()], &Names::default());
    let mut out = Vec::new();
    let event = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"patch","args":{"input":"a\nb"}}}]}}]}"#;
    let mut put = |_: u32, part: Part<'_>| out.push(format!("{part:?}"));
    reader.event(None, event, &mut put).unwrap();
    assert_eq!(
        out[1..3],
        [
            r#"Call { key: 0, id: "", name: "patch", custom: true, seal: None }"#,
            r#"Arguments { key: 0, piece: "a\nb" }"#,
        ]
    );
}

#[test]
fn what_is_told_of_a_text_stands_by_it_and_is_told_once() {
    let cited = |uri: &str| format!(r#"{{"startIndex":0,"endIndex":1,"uri":"{uri}"}}"#);
    let chunk = |parts: &str, cited: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"citationMetadata":{{"citations":[{cited}]}}}}]}}"#
        )
    };
    let (a, b) = (cited("https://a"), cited("https://b"));
    let events = [
        chunk(r#"{"text":"x"},{"text":"t","thought":true}"#, &a),
        chunk(r#"{"text":"y"}"#, &b),
        chunk(r#"{"text":"z"}"#, &format!("{a},{b}")),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let said: Vec<String> = parts(&events)
        .iter()
        .map(|part| part.chars().take(28).collect())
        .collect();
    assert_eq!(
        said,
        [
            r#"0 Text("x")"#,
            r#"0 Citation { url: "https://a"#,
            r#"0 Reasoning("t")"#,
            r#"0 Text("y")"#,
            r#"0 Citation { url: "https://b"#,
            r#"0 Text("z")"#,
        ]
    );
}
