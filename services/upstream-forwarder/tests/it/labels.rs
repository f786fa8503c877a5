//! Answers that are not what their content type says, in every dialect (SPEC FWD-7, CASES C36).

use fake_upstream::Script;

use crate::dialects::{all, streaming};

#[tokio::test]
async fn a_stream_under_the_type_of_a_document_is_streamed() {
    let data = |events: &str| -> Vec<String> {
        let lines = events
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        lines.map(str::to_owned).collect()
    };
    for spoken in streaming() {
        let rig = spoken.rig().await;
        let events = spoken.answer(true);
        let mut objects = data(&events);
        objects.retain(|object| object != "[DONE]");
        for body in [
            events.clone(),
            format!("\u{feff}: hello\n\n{events}"),
            format!(" [{}]", objects.join(",\n")),
        ] {
            let kind = "application/json; charset=utf-8";
            let script = Script::body(200, kind, body.clone());
            rig.upstream.push(if body.starts_with('\u{feff}') {
                script
            } else {
                script.one_byte_writes()
            });
            let answer = spoken.ask(&rig, true).await;
            assert_eq!(answer.failure, None, "{}: {body}", spoken.name);
            let expected = events.replace("upstream-gpt", "text");
            // Objects of an array have no names.
            assert_eq!(data(answer.text()), data(&expected), "{}", spoken.name);
            if body.contains("data: ") {
                assert_eq!(answer.text(), expected, "{}", spoken.name);
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_mark_of_byte_order_before_a_document_goes_no_further() {
    for spoken in all() {
        let rig = spoken.rig().await;
        let whole = spoken.answer(false);
        for &stream in spoken.ways() {
            let mut answers = Vec::new();
            for mark in ["", "\u{feff}"] {
                let body = mark.to_owned() + &whole;
                rig.upstream
                    .push(Script::body(200, "application/json", body));
                let answer = spoken.ask(&rig, stream).await;
                assert_eq!(answer.failure, None, "{} {stream}", spoken.name);
                answers.push(answer.text().to_owned());
            }
            assert_eq!(answers[0], answers[1], "{} {stream}", spoken.name);
            let refused = spoken.vendor.error(400, "no").to_string();
            let script = Script::body(400, "application/json", "\u{feff}".to_owned() + &refused);
            rig.upstream.push(script);
            let answer = spoken.ask(&rig, stream).await;
            assert_eq!((answer.status, answer.text()), (400, &*refused));
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_whole_answer_under_the_type_of_events_is_streamed() {
    for spoken in streaming() {
        let rig = spoken.rig().await;
        let script = Script::event_bytes(spoken.answer(false));
        rig.upstream.push(script.one_byte_writes());
        let answer = spoken.ask(&rig, true).await;
        assert_eq!((answer.failure.clone(), answer.event_stream), (None, true));
        let text = answer.text();
        assert!(text.contains(spoken.end), "{}: {text}", spoken.name);
        assert!(!text.starts_with('{'), "{}: {text}", spoken.name);
        rig.end().await;
    }
}
