use super::*;

/// What the events say, a line a part.
fn read(reader: &mut ChatReader, events: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut put = |choice: u32, part: Part<'_>| {
        let said = match part {
            Part::Begin { .. } => return,
            Part::Text(text) => format!("text {text}"),
            Part::Reasoning(text) => format!("reasoning {text}"),
            Part::Sealed(seal) => format!("sealed {}", seal.value),
            Part::Call {
                key,
                id,
                name,
                seal,
                ..
            } => {
                let seal = seal.map_or("", |seal| seal.value);
                format!("call {key} {id} {name} {seal}")
            }
            Part::Arguments { key, piece } => format!("arguments {key} {piece}"),
            Part::CallEnd { key } => format!("end {key}"),
            Part::Media { mime, data } => format!("media {mime} {data}"),
            Part::Finish(finish) => format!("finish {:?} {}", finish.reason, finish.raw),
            other => format!("{other:?}"),
        };
        found.push(format!("{choice}: {said}"));
    };
    for event in events {
        reader.event(None, event, &mut put).unwrap();
    }
    found
}

#[test]
fn fragments_of_calls_find_their_call_whatever_is_left_out() {
    let events = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"y\""}},{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":":1}"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    assert_eq!(
        read(&mut ChatReader::default(), &events),
        [
            "0: call 0 a f ",
            "0: call 1 b g ",
            r#"0: arguments 1 {"y""#,
            "0: arguments 0 {}",
            "0: arguments 1 :1}",
            "0: end 0",
            "0: end 1",
            "0: finish ToolCalls tool_calls"
        ]
    );
}

#[test]
fn calls_that_all_have_one_number_are_told_apart() {
    let fragment = |id: &str, more: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"{id}","function":{more}}}]}}}}]}}"#
        )
    };
    let read = |events: &[String]| {
        let events: Vec<_> = events.iter().map(String::as_str).collect();
        read(&mut ChatReader::default(), &events)
    };
    // By their ids, and by their ends where those are missing
    for (one, two) in [("a", "b"), ("", "")] {
        let said = [
            fragment(one, r#"{"name":"f","arguments":"{\"x\":{\"y\":\"}\"}"}"#),
            fragment("", r#"{"arguments":"}"}"#),
            fragment(two, r#"{"name":"f","arguments":"{\"z\""}"#),
            fragment(two, r#"{"arguments":":1}"}"#),
        ];
        assert_eq!(
            read(&said),
            [
                format!("0: call 0 {one} f "),
                r#"0: arguments 0 {"x":{"y":"}"}"#.to_owned(),
                "0: arguments 0 }".to_owned(),
                format!("0: call 1 {two} f "),
                r#"0: arguments 1 {"z""#.to_owned(),
                "0: arguments 1 :1}".to_owned(),
            ]
        );
    }
    // A name that is said again, or an id that is made up each time, begins nothing
    for (id, name) in [("a", "\"f\""), ("", "\"f\""), ("b", "null")] {
        let said = [
            fragment("a", r#"{"name":"f","arguments":""}"#),
            fragment(id, &format!(r#"{{"name":{name},"arguments":"{{\"x\""}}"#)),
            fragment(id, &format!(r#"{{"name":{name},"arguments":":1}}"}}"#)),
            fragment(id, &format!(r#"{{"name":{name},"arguments":""}}"#)),
        ];
        let expected = [
            "0: call 0 a f ",
            r#"0: arguments 0 {"x""#,
            "0: arguments 0 :1}",
        ];
        assert_eq!(read(&said), expected, "{id} {name}");
    }
}

#[test]
fn contents_in_parts_images_details_and_signatures_are_found() {
    let events = [
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"deep","reasoning_details":[{"type":"reasoning.text","text":"deep","index":0}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"","signature":"S","index":0}]}}]}"#,
        r#"{"choices":[{"delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}},"extra_content":{"google":{"thought_signature":"G"}}}]},"finish_reason":"weird"}]}"#,
    ];
    assert_eq!(
        read(&mut ChatReader::default(), &events),
        [
            "0: reasoning hm",
            "0: text so",
            "0: reasoning deep",
            r#"0: sealed {"type":"reasoning.text","signature":"S","index":0}"#,
            "0: media image/png AA==",
            "0: call 0 a f G",
            r#"0: arguments 0 {"x":1}"#,
            "0: end 0",
            "0: finish Other weird"
        ]
    );
}

#[test]
fn thoughts_that_stand_in_details_alone_are_found_there() {
    let event = r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"deep"},{"type":"reasoning.text","text":"er","signature":"S"}]}}]}"#;
    assert_eq!(
        read(&mut ChatReader::default(), &[event]),
        [
            "0: reasoning deep",
            "0: reasoning er",
            r#"0: sealed {"type":"reasoning.text","signature":"S"}"#,
        ]
    );
}

#[test]
fn a_name_that_was_put_differently_comes_back_as_the_callers() {
    let mut names = Names::default();
    let said = names.said("a.b".into()).into_owned();
    let event = format!(
        r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"{said}","arguments":"{{}}"}}}}]}}}}]}}"#
    );
    let found = read(&mut ChatReader::new(&[], &names), &[&event]);
    assert_eq!(found.first().unwrap(), "0: call 0 a a.b ");
}

#[test]
fn what_was_broken_off_is_not_ended() {
    let events = [
        r#"{"choices":[{"index":2,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]},"finish_reason":"length"}]}"#,
    ];
    assert_eq!(
        read(&mut ChatReader::default(), &events),
        [
            "2: call 0 a f ",
            "2: arguments 0 {",
            "2: finish Length length"
        ]
    );
}

#[test]
fn what_is_told_of_a_text_stands_by_it() {
    let event = r#"{"choices":[{"delta":{"content":"a","refusal":"no","images":[],"annotations":[{"type":"url_citation","url_citation":{"url":"u","title":""}}]},"logprobs":{"content":[{"token":"a"}]}}]}"#;
    let read = read(&mut ChatReader::default(), &[event]);
    assert_eq!(read[0], "0: text a");
    assert!(read[1].starts_with("0: Citation"), "{read:?}");
    assert!(read[2].starts_with("0: Logprobs"), "{read:?}");
    assert_eq!(read[3], r#"0: Refusal("no")"#);
}

#[test]
fn a_free_text_that_is_all_there_is_said_though_the_answer_was_cut_off() {
    let call = |arguments: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"f","arguments":{}}}}}]}},"finish_reason":"length"}}]}}"#,
            serde_json::Value::from(arguments)
        )
    };
    let free = ["f".to_owned()];
    let said = |arguments: &str| {
        let mut reader = ChatReader::new(&free, &Names::default());
        read(&mut reader, &[&call(arguments)])
    };
    assert_eq!(
        said(r#"{"input":"x"}"#),
        [
            "0: call 0 a f ",
            "0: arguments 0 x",
            "0: finish Length length"
        ]
    );
    assert_eq!(
        said(r#"{"input":"x"#),
        ["0: call 0 a f ", "0: finish Length length"]
    );
}
