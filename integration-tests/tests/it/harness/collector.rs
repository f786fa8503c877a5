//! The collector through OTLP's own client.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use switchboard_integration_tests::collector::Collector;

const TRACE: &str = "01010101010101010101010101010101";

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = any_value::Value::StringValue(value.to_owned());
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Exports one span; ids are one repeated byte, a parent of 0 is none.
async fn export(collector: &Collector, service: &str, span: u8, parent: u8) {
    let mut client = TraceServiceClient::connect(collector.endpoint())
        .await
        .unwrap();
    let parent = if parent == 0 {
        Vec::new()
    } else {
        vec![parent; 8]
    };
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![span; 8],
        parent_span_id: parent,
        name: format!("span {span}"),
        attributes: vec![attribute("request.id", "r-1")],
        ..Span::default()
    };
    let resource = Resource {
        attributes: vec![attribute("service.name", service)],
        ..Resource::default()
    };
    let spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![ScopeSpans {
            spans: vec![span],
            ..ScopeSpans::default()
        }],
        ..ResourceSpans::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![spans],
    };
    client.export(request).await.unwrap();
}

#[tokio::test]
async fn a_whole_trace_is_one_tree_over_all_services() {
    let collector = Collector::start().unwrap();
    // Children come before their parents, as they do.
    export(&collector, "billing", 3, 2).await;
    export(&collector, "forwarder", 2, 1).await;
    let trace = collector.trace(TRACE);
    let gap = trace
        .check(&["billing"], |span| &span.service, None)
        .unwrap_err();
    assert!(gap.to_string().contains("not in trace"), "{gap}");
    export(&collector, "edge", 1, 9).await;
    let caller = "0909090909090909";
    let trace = collector
        .whole_trace(TRACE, &["edge", "forwarder", "billing"], Some(caller))
        .await
        .unwrap();
    let last = trace.span("span 3").unwrap();
    assert_eq!(
        trace.path(last),
        ["edge/span 1", "forwarder/span 2", "billing/span 3"]
    );
    assert_eq!(last.attributes["request.id"], "r-1");

    let missing = trace
        .check(&["scheduler"], |span| &span.service, Some(caller))
        .unwrap_err();
    assert!(missing.to_string().contains("`scheduler`"), "{missing}");
    assert!(
        trace.check(&[], |span| &span.service, None).is_err(),
        "the caller's span is no span of ours"
    );
    export(&collector, "edge", 4, 0).await;
    let two = collector
        .trace(TRACE)
        .check(&[], |span| &span.service, Some(caller))
        .unwrap_err();
    assert!(two.to_string().contains("2 roots"), "{two}");
}
