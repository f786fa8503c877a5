//! One trace from HTTP to the settlement, over all hops.

use switchboard_integration_tests::collector::Trace;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::Builder;

scenarios! { [in_process, split] {
    one_trace_goes_from_the_callers_span_over_all_services_to_the_settlement,
    a_request_without_a_trace_gets_one_of_its_own,
} }

/// What must be in it, and under what: the edge, the forwarder, and each service that it asked.
const SPANS: [&str; 9] = [
    "/v1/chat/completions",
    "/switchboard.inference.v1.Inference/Relay",
    "/switchboard.auth.v1.Auth/Authenticate",
    "/switchboard.billing.v1.Billing/Reserve",
    "/switchboard.scheduler.v1.Scheduler/Acquire",
    "/switchboard.credentials.v1.Credentials/Get",
    "attempt",
    "settle",
    "billing settle",
];

async fn one_trace_goes_from_the_callers_span_over_all_services_to_the_settlement(
    builder: Builder,
) {
    // A key that nobody has used yet: who it is must be asked.
    let setup = Setup::simple().key("fresh", "");
    let stack = builder.setup(setup).start().await;
    let traces = stack.traces();
    for (number, stream) in [(1, false), (2, true)] {
        let trace = format!(
            "{:032x}",
            0xabc0
                + number
                + u64::from(std::process::id()) * 65_536
                + if stack.stores.is_some() { 256 } else { 0 }
        );
        let parent = "00f067aa0ba902b7";
        let caller = stack
            .caller("fresh")
            .with("traceparent", &format!("00-{trace}-{parent}-01"));
        let id = if stream {
            caller.stream("m").await.request_id()
        } else {
            caller.chat("m").await.expect(200).request_id()
        };
        let row = stack.row(&id).await;
        assert_eq!(row.trace_id, trace);
        traces.flush();
        // Who the caller is and the account's secret are known after the first request.
        let names: Vec<&str> = SPANS
            .into_iter()
            .filter(|name| number == 1 || !(name.contains("Auth") || name.contains("Credentials")))
            .collect();
        let collector = &traces.collector;
        let mut said = Ok(());
        let waited = collector
            .wait_for(|spans| {
                let of_it = spans.iter().filter(|span| span.trace_id == trace);
                let seen = Trace {
                    id: trace.clone(),
                    spans: of_it.cloned().collect(),
                };
                said = seen.check(&names, |span| &span.name, Some(parent));
                said.is_ok()
            })
            .await;
        said.and(waited).unwrap();
        let whole = collector.trace(&trace);
        let root = whole.span(SPANS[0]).unwrap();
        assert_eq!(root.attributes["request_id"], id);
        let settled = whole.path(whole.span("billing settle").unwrap());
        assert!(settled[0].ends_with(SPANS[0]), "{settled:?}");
        assert!(
            settled.iter().any(|step| step.ends_with("/settle")),
            "{settled:?}"
        );
        let attempt = whole.path(whole.span("attempt").unwrap());
        assert!(
            attempt.iter().any(|step| step.ends_with("Inference/Relay")),
            "{attempt:?}"
        );
        for span in &whole.spans {
            let text = format!("{span:?}");
            assert!(
                !text.contains("-secret-of-") && !text.contains("Say something"),
                "{text}"
            );
        }
    }
    stack.finish().await;
}

async fn a_request_without_a_trace_gets_one_of_its_own(builder: Builder) {
    let stack = builder.start().await;
    let id = stack.caller("k").chat("m").await.expect(200).request_id();
    let row = stack.row(&id).await;
    assert_eq!(row.trace_id.len(), 32);
    let traces = stack.traces();
    traces.flush();
    traces
        .collector
        .whole_trace(&row.trace_id, &["switchboard-tests"], None)
        .await
        .unwrap();
    stack.finish().await;
}
