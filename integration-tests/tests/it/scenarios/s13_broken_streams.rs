//! Streams that break, or come in pieces nobody expects: an error event ends them, and no bytes are lost however they are cut.

use fake_upstream::{Framing, Script, Usage, UsageShape};
use serde_json::json;
use switchboard_integration_tests::caller::streamed;
use switchboard_integration_tests::stack::Builder;

use super::s05_failover::setup;

scenarios! { [in_process, split] {
    after_content_an_error_event_ends_the_stream,
    a_missing_done_is_no_failure,
    bytes_survive_any_cut_and_any_legal_framing,
} }

/// Cases C1 and C5.
async fn after_content_an_error_event_ends_the_stream(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let words = ["one ", "two ", "three ", "four"];
    let breaks = [
        (
            "a reset",
            Script::say(words).reset_after(2),
            "upstream_failed",
        ),
        (
            "an end of the connection",
            Script::say(words).close_after(2),
            "upstream_failed",
        ),
        (
            "a clean end without a finish reason",
            Script::say(words).end_after(2),
            "upstream_failed",
        ),
        (
            "silence",
            Script::say(words).hang_after(2),
            "upstream_timeout",
        ),
        (
            "an error event",
            Script::say(words).error_after(2, "server_error", None, "boom about sk-secret"),
            "upstream_failed",
        ),
        (
            "no JSON",
            Script::say(words).write_after(2, "data: {oops\n\n"),
            "upstream_failed",
        ),
        (
            "no UTF-8",
            Script::say(words).write_after(
                2,
                &b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xec\x95\"}}]}\n\n"[..],
            ),
            "upstream_failed",
        ),
    ];
    for (name, script, code) in breaks {
        stack.upstream.clear_log();
        stack.upstream.default(script);
        let answer = caller.stream("m").await;
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.text(), "one two ", "{name}");
        assert!(!answer.done(), "{name}: {:?}", answer.events);
        assert_eq!(answer.error_code(), code, "{name}");
        assert!(
            !String::from_utf8_lossy(&answer.bytes).contains("sk-secret"),
            "{name}"
        );
        assert_eq!(
            stack.upstream.log().requests.len(),
            1,
            "{name}: never retried"
        );
        let row = stack.row(&answer.request_id()).await;
        assert_eq!(
            (row.ending.as_str(), row.error_code.as_str()),
            ("upstream_broke", code),
            "{name}"
        );
        assert_eq!(row.usage_source, "estimated", "{name}");
        // Two words, and not the error's text.
        let output = row.output_tokens.unwrap();
        assert!((2..=4).contains(&output), "{name}: {output}");
        assert!(row.charge_nanos > 0, "{name}");
    }
    stack.finish().await;
}

async fn a_missing_done_is_no_failure(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    stack.upstream.default(Script::tokens(3).no_done());
    let answer = stack.caller("k").stream("m").await;
    assert!(answer.clean && answer.done(), "{:?}", answer.events);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(
        (row.ending.as_str(), row.output_tokens),
        ("complete", Some(3))
    );
    stack.finish().await;
}

/// Cases C5, C6, C7 and C8.
async fn bytes_survive_any_cut_and_any_legal_framing(builder: Builder) {
    let stack = builder.setup(setup()).start().await;
    let caller = stack.caller("k");
    let words = [
        "안녕하세요",
        " wörld \u{2028}\u{2029}\u{85} ",
        "🦀 \"quoted\\\" ",
        "end",
    ];
    let text = words.concat();
    let base = || Script::say(words).usage(Usage::of(12, 34));
    let framed = |change: fn(&mut Framing)| {
        let mut framing = Framing::default();
        change(&mut framing);
        framing
    };
    let framings = [
        ("canonical", framed(|_| {})),
        ("CRLF", framed(|framing| framing.line_end = "\r\n")),
        ("CR", framed(|framing| framing.line_end = "\r")),
        ("no space", framed(|framing| framing.space = false)),
        ("comments", framed(|framing| framing.comments = true)),
        ("a byte order mark", framed(|framing| framing.bom = true)),
        (
            "other fields",
            framed(|framing| framing.extra_fields = true),
        ),
        (
            "no last blank line",
            framed(|framing| framing.last_blank_line = false),
        ),
    ];
    for (name, framing) in framings {
        for one_byte in [false, true] {
            let mut script = base().framing(framing);
            if one_byte {
                script = script.one_byte_writes();
            }
            stack.upstream.default(script);
            let answer = caller.stream("m").await;
            assert_eq!(
                answer.text(),
                text,
                "{name}, one byte per write: {one_byte}"
            );
            assert!(answer.clean && answer.done(), "{name}");
            let row = stack.row(&answer.request_id()).await;
            assert_eq!(
                (row.input_tokens, row.output_tokens),
                (Some(12), Some(34)),
                "{name}"
            );
            assert_eq!(row.usage_source, "provider", "{name}");
        }
    }
    // Usage wherever it stands.
    for shape in [
        UsageShape::OwnChunk,
        UsageShape::FinishChunk,
        UsageShape::OwnChunkWithChoice,
    ] {
        stack.upstream.default(base().usage_shape(shape));
        let answer = caller.stream("m").await;
        assert_eq!(answer.text(), text, "{shape:?}");
        assert!(
            !String::from_utf8_lossy(&answer.bytes).contains("\"completion_tokens\""),
            "{shape:?}"
        );
        let row = stack.row(&answer.request_id()).await;
        assert_eq!(
            (row.input_tokens, row.output_tokens),
            (Some(12), Some(34)),
            "{shape:?}"
        );
    }
    let mut asked = streamed("m");
    asked["stream_options"] = json!({"include_usage": true});
    stack
        .upstream
        .default(base().usage_shape(UsageShape::OwnChunkWithChoice));
    let answer = caller.open(&asked).await.rest().await;
    let usage: Vec<_> = answer
        .events
        .iter()
        .filter(|event| event.contains("\"completion_tokens\""))
        .collect();
    assert_eq!(usage.len(), 1, "{:?}", answer.events);
    // Whole answers: compressed, and in single bytes.
    stack.upstream.default(base().gzip().one_byte_writes());
    let answer = caller.chat("m").await.expect(200);
    assert_eq!(answer.text(), text);
    assert_eq!(answer.header("content-encoding"), "");
    stack.upstream.default(base().gzip());
    assert_eq!(caller.stream("m").await.text(), text);
    stack.finish().await;
}
