//! Between the caller and the upstream lie other hops: HTTP/2, load balancers that cut what is silent, and other gateways.

use std::time::Duration;

use bytes::BytesMut;
use fake_upstream::frames::{PREFACE, block, flag, frame, kind, take};
use fake_upstream::{Gate, Script, Usage};
use serde_json::json;
use switchboard_integration_tests::caller::{chat, streamed};
use switchboard_integration_tests::setup::{Setup, secret_of};
use switchboard_integration_tests::stack::Builder;
use switchboard_integration_tests::wire::Raw;
use tokio::task::JoinSet;

scenarios! { [in_process, split] {
    over_http2_nothing_of_the_upstreams_hop_is_passed_on,
    a_silent_stream_is_kept_alive_and_a_whole_answer_is_untouched,
    requests_that_are_cancelled_at_once_end_no_other_of_their_connection,
    a_loop_of_gateways_ends_at_its_bound_and_is_not_multiplied,
    a_refusal_reaches_the_caller_however_much_it_has_to_say,
} }

/// What belongs to one connection of HTTP/1.1 and is forbidden in HTTP/2 (RFC 9113, 8.2.2).
const OF_ONE_HOP: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// Case D6.
async fn over_http2_nothing_of_the_upstreams_hop_is_passed_on(builder: Builder) {
    let stack = builder.setup(Setup::simple()).start().await;
    let words = [
        "안녕",
        "하세요",
        " and a tail that is longer than the first chunk was",
    ];
    let script = || {
        Script::say(words)
            .usage(Usage::of(12, 34))
            .header("keep-alive", "timeout=5")
            .header("upgrade", "h2c")
    };
    let caller = stack.caller("k").over_http2();

    // The upstream's chunks come one by one, so that a length made of the first would cut the rest.
    let gate = Gate::new();
    stack.upstream.default(script().gate_after(1, &gate));
    let mut stream = caller.open(&streamed("m")).await;
    assert_eq!(stream.deltas(1).await, words[0]);
    gate.open();
    let answer = stream.rest().await;
    assert!(answer.clean && answer.done(), "{:?}", answer.events);
    assert_eq!(answer.text(), words.concat());
    assert_eq!(answer.headers.get("content-length"), None);
    for name in OF_ONE_HOP {
        assert_eq!(answer.headers.get(name), None, "{name}");
    }

    stack.upstream.default(script());
    let answer = caller.chat("m").await.expect(200);
    assert_eq!(answer.text(), words.concat());
    let length = answer.header("content-length");
    assert!(length.is_empty() || length == answer.body.len().to_string());
    for name in OF_ONE_HOP {
        assert_eq!(answer.header(name), "", "{name}");
    }

    // What the gateway itself answers has none either.
    let answer = caller.chat("no-such-model").await.expect(404);
    for name in OF_ONE_HOP {
        assert_eq!(answer.header(name), "", "{name}");
    }
    stack.finish().await;
}

/// Case D14.
async fn a_silent_stream_is_kept_alive_and_a_whole_answer_is_untouched(builder: Builder) {
    let builder =
        builder.settings(|settings| settings.forwarder.keep_alive = Duration::from_millis(50));
    let stack = builder.setup(Setup::simple()).start().await;
    let gate = Gate::new();
    let silent = || Script::tokens(3).usage(Usage::of(12, 3)).gate(&gate);
    stack.upstream.default(silent());
    let caller = stack.caller("k");
    let mut whole = JoinSet::new();
    whole.spawn(async move { caller.chat("m").await });
    gate.reached(1).await;

    // The upstream has not even begun its answer when the second comment has come.
    let mut raw = Raw::connect(stack.edges()[0]).await.unwrap();
    let body = streamed("m").to_string();
    raw.post("/v1/chat/completions", &secret_of("k"), &body)
        .await
        .unwrap();
    let mut seen = raw.read_until(": keep-alive\n\n").await.unwrap();
    seen.extend(raw.read_until(": keep-alive\n\n").await.unwrap());
    gate.open();
    seen.extend(raw.read_until("data: [DONE]\n\n").await.unwrap());
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
    assert!(!seen.contains("event: error"), "{seen}");

    // The whole answer waited as long, and not a byte of it is a comment's.
    let answer = whole.join_next().await.unwrap().unwrap().expect(200);
    assert_eq!(answer.body.first(), Some(&b'{'));
    assert_eq!(answer.json()["usage"]["completion_tokens"], 3);
    for row in stack.rows(2).await {
        assert_eq!(
            (
                row.input_tokens,
                row.output_tokens,
                row.usage_source.as_str()
            ),
            (Some(12), Some(3), "provider"),
        );
        assert_eq!(row.charge_nanos, 12 * 1_000 + 3 * 2_000);
    }
    stack.finish().await;
}

/// A load balancer's connection over HTTP/2, with the requests of many callers.
async fn requests_that_are_cancelled_at_once_end_no_other_of_their_connection(builder: Builder) {
    let stack = builder.setup(Setup::simple()).start().await;
    let gate = Gate::new();
    stack.upstream.default(
        Script::tokens(3)
            .usage(Usage::of(12, 3))
            .gate_after(1, &gate),
    );
    let mut raw = Raw::connect(stack.edges()[0]).await.unwrap();
    let key = format!("Bearer {}", secret_of("k"));
    let head = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "gateway"),
        (":path", "/v1/chat/completions"),
        ("authorization", &key),
        ("content-type", "application/json"),
    ]);
    let body = streamed("m").to_string();
    let mut out = BytesMut::from(PREFACE);
    frame(&mut out, kind::SETTINGS, 0, 0, &[]);
    frame(&mut out, kind::HEADERS, flag::END_HEADERS, 1, &head);
    frame(&mut out, kind::DATA, flag::END_STREAM, 1, body.as_bytes());
    raw.send(&out).await.unwrap();
    gate.reached(1).await;

    // Sixty callers come and leave before anybody looked at what they ask.
    out.clear();
    for stream in (3..123).step_by(2) {
        frame(&mut out, kind::HEADERS, flag::END_HEADERS, stream, &head);
        let cancel = 8_u32.to_be_bytes();
        frame(&mut out, kind::RESET, 0, stream, &cancel);
    }
    raw.send(&out).await.unwrap();
    // The connection answers after them, as it did before.
    out.clear();
    frame(&mut out, kind::PING, 0, 0, b"12345678");
    raw.send(&out).await.unwrap();
    let (mut input, mut kept, mut ended) = (BytesMut::new(), Vec::new(), false);
    while !ended {
        let read = raw.read(4_096).await.unwrap();
        assert!(!read.is_empty(), "the connection is closed");
        input.extend_from_slice(&read);
        while let Some((kind, flags, stream, payload)) = take(&mut input) {
            match kind {
                kind::PING if flags & flag::ACK > 0 => gate.open(),
                kind::DATA if stream == 1 => {
                    kept.extend_from_slice(&payload);
                    ended = flags & flag::END_STREAM > 0;
                }
                _ => {}
            }
        }
    }
    let kept = String::from_utf8(kept).unwrap();
    assert!(
        kept.ends_with("data: [DONE]\n\n") && !kept.contains("error"),
        "{kept}"
    );
    assert_eq!(stack.rows(1).await[0].ending, "complete");
    stack.finish().await;
}

/// Case D16: a gateway whose upstream is the gateway itself, over two accounts.
async fn a_loop_of_gateways_ends_at_its_bound_and_is_not_multiplied(builder: Builder) {
    let builder = builder.settings(|settings| settings.forwarder.max_hops = 3);
    let mut stack = builder.setup(Setup::simple()).start().await;
    let edge = stack.edges()[0];
    let setup = Setup::simple()
        .account_of_gateway("again", edge, "k")
        .account_of_gateway("and-again", edge, "k")
        .model(
            "loop",
            "price: {input: 1.00, output: 2.00}, targets: [{account: again, model: loop}, {account: and-again, model: loop, tier: 1}]",
        );
    stack.apply(setup).await;

    let caller = stack.caller("k");
    let answer = caller.chat("loop").await.expect(400);
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("x-switchboard-hops"), "{message}");
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    let answer = caller.ask(&streamed("loop")).await.expect(400);
    assert!(
        answer.json()["error"]["message"]
            .to_string()
            .contains("a loop")
    );

    // Each hop asked the next one once: as many rows as hops for each of the two calls, none of them charged.
    let rows = stack.rows(2 * 4).await;
    assert!(rows.iter().all(|row| row.charge_nanos == 0), "{rows:?}");
    assert!(stack.upstream.log().requests.is_empty());

    // What says that it passed through too many, or says nonsense, is refused before it costs anything.
    for hops in ["4", "-1", "many", "99999999999999999999"] {
        let caller = stack.caller("k").with("x-switchboard-hops", hops);
        caller.ask(&chat("m")).await.expect(400);
    }
    assert!(stack.upstream.log().requests.is_empty());
    stack.finish().await;
}

/// Errors travel in headers, of which every client bounds the size.
async fn a_refusal_reaches_the_caller_however_much_it_has_to_say(builder: Builder) {
    let setup = Setup::simple()
        .account("a", "parameters: {supported: [max_tokens]}")
        .key("k", "unsupported: reject");
    let stack = builder.setup(setup).start().await;
    let caller = stack.caller("k");
    // A name of the caller's own.
    for name in ["x".repeat(60_000), "\u{d55c}".repeat(20_000)] {
        let mut body = chat("m");
        body[&name] = json!(1);
        let answer = caller.ask(&body).await.expect(400);
        assert_eq!(answer.code(), "unsupported_parameter");
        let said = answer.json()["error"].clone();
        let param = said["param"].as_str().unwrap();
        assert!(!param.is_empty() && name.starts_with(param.trim_end_matches('…')));
        assert!(said["message"].as_str().unwrap().contains(&name[..30]));
    }
    // The upstream's words.
    for word in ["x".repeat(60_000), "\u{d55c}".repeat(20_000)] {
        let said = json!({"error": {"message": word, "type": "invalid_request_error", "param": word, "code": null}});
        stack.upstream.default(Script::json(400, &said));
        for stream in [false, true] {
            let mut body = chat("m");
            body["stream"] = json!(stream);
            let answer = caller.ask(&body).await.expect(400);
            let message = answer.json()["error"]["message"].clone();
            assert!(
                message.as_str().unwrap().starts_with(&word[..300]),
                "{message}"
            );
            assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
        }
    }
    stack.finish().await;
}
