use super::*;

/// What the events say, a line a part, or that they fail.
fn read(events: &[&str]) -> Result<Vec<String>, Class> {
    let mut reader = ResponsesReader::default();
    let mut found = Vec::new();
    let mut put = |_: u32, part: Part<'_>| {
        found.push(match part {
            Part::Text(text) => format!("text {text}"),
            Part::Reasoning(text) => format!("reasoning {text}"),
            Part::Refusal(text) => format!("refusal {text}"),
            Part::Call { key, id, name, .. } => format!("call {key} {id} {name}"),
            Part::Arguments { key, piece } => format!("arguments {key} {piece}"),
            Part::CallEnd { key } => format!("end {key}"),
            Part::Finish(finish) => format!("finish {:?} {}", finish.reason, finish.raw),
            other => format!("{other:?}"),
        });
    };
    for event in events {
        let said = reader.event(None, event, &mut put);
        said.map_err(|error| error.class)?;
    }
    Ok(found)
}

const ADDED_CALL: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#;
const WHOLE: &str = r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","summary":[{"text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"whole"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}]}}"#;

#[test]
fn what_stands_in_the_last_event_alone_is_said_and_nothing_twice() {
    let thought = r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"hm"}"#;
    let text = r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"whole"}"#;
    let item = r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}}"#;
    let all = [
        "reasoning hm",
        "text whole",
        "call 0 c f",
        r#"arguments 0 {"a":1}"#,
        "end 0",
        "finish Stop ",
    ];
    for told in [
        &[][..],
        &[thought],
        &[thought, text],
        &[thought, text, item],
    ] {
        let events = [told, &[WHOLE]].concat();
        assert_eq!(read(&events).unwrap(), all, "{told:?}");
    }
}

#[test]
fn items_that_all_have_one_index_are_told_apart() {
    let events = [
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"who"}"#,
        ADDED_CALL,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"d","name":"g","arguments":"[]"}}"#,
        r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{"text":"whole"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call","call_id":"d","name":"g","arguments":"[]"}]}}"#,
    ];
    assert_eq!(
        read(&events).unwrap(),
        [
            "text who",
            "call 0 c f",
            "arguments 0 {}",
            "call 1 d g",
            "arguments 1 []",
            "end 1",
            "text le",
            "end 0",
            "finish Stop "
        ]
    );
}

#[test]
fn what_is_announced_when_all_before_it_is_complete_is_another_item() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}"#;
    let done = |text: &str| {
        format!(
            r#"{{"type":"response.output_item.done","output_index":0,"item":{{"type":"message","content":[{{"text":"{text}"}}]}}}}"#
        )
    };
    let (first, second) = (done("one"), done("two"));
    let events = [added, added, &*first, added, &*second];
    assert_eq!(read(&events).unwrap(), ["text one", "text two"]);
}

#[test]
fn what_the_deltas_left_out_is_said_at_the_end_where_it_goes_on_from_them() {
    let done = |item: &str| {
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#)
    };
    let call = done(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}"#);
    for (delta, rest) in [
        (r#"{\"a\":"#, Some("arguments 0 1}")),
        (r#"{\"b\":"#, None),
        (r#"{\"a\":1}"#, None),
    ] {
        let delta = format!(
            r#"{{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{delta}"}}"#
        );
        let found = read(&[ADDED_CALL, &delta, &call]).unwrap();
        let rests: Vec<_> = rest.into_iter().chain(["end 0"]).collect();
        assert_eq!(found.get(2..).unwrap(), rests, "{delta}");
    }
    let delta = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"gr\u00f6"}"#;
    let message = done(r#"{"type":"message","content":[{"type":"output_text","text":"größe"}]}"#);
    let said =
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"größe"}"#;
    for end in [&*message, said] {
        assert_eq!(read(&[delta, end]).unwrap(), ["text grö", "text ße"]);
    }
}

#[test]
fn what_was_broken_off_does_not_look_complete() {
    let end = |kind: &str, response: &str| {
        read(&[&format!(
            r#"{{"type":"response.{kind}","response":{{{response}}}}}"#
        )])
    };
    for (kind, response, finish) in [
        ("completed", r#""status":"completed""#, "finish Stop "),
        (
            "incomplete",
            r#""incomplete_details":null"#,
            "finish Cut incomplete",
        ),
        (
            "completed",
            r#""status":"incomplete""#,
            "finish Cut incomplete",
        ),
        (
            "incomplete",
            r#""incomplete_details":{"reason":"max_tool_calls"}"#,
            "finish Cut max_tool_calls",
        ),
        (
            "incomplete",
            r#""incomplete_details":{"reason":"max_output_tokens"}"#,
            "finish Length max_output_tokens",
        ),
    ] {
        assert_eq!(end(kind, response).unwrap(), [finish], "{kind} {response}");
    }
    for (kind, response) in [
        ("cancelled", ""),
        ("cancelled", r#""status":"cancelled""#),
        // A whole response that is read as events.
        ("completed", r#""status":"cancelled""#),
    ] {
        assert_eq!(end(kind, response), Err(Class::Cut), "{kind} {response}");
    }
}
