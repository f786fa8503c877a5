//! The settlement's place in its request's trace.

use switchboard_common::{grpc::continue_trace, ids::RequestId};
use switchboard_proto::billing::v1::Settlement;
use tracing::Span;

/// From arrival to acknowledgement, in the request's own trace (OBS-1); disabled while nothing is exported.
pub(super) fn settle_span(settlement: &Settlement) -> Span {
    let span = tracing::info_span!(
        target: "trace",
        "settle",
        otel.name = "billing settle",
        request_id = %settlement.request_id,
        outcome = tracing::field::Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = trace_parent(settlement)
    {
        continue_trace(&span, &http::HeaderMap::from_iter([(TRACEPARENT, parent)]));
    }
    span
}

const TRACEPARENT: http::HeaderName = http::HeaderName::from_static("traceparent");

/// The span that sent the settlement. What a lost forwarder left behind tells none: the end of the request's id stands for
/// it then.
fn trace_parent(settlement: &Settlement) -> Option<http::HeaderValue> {
    let id: RequestId = settlement.request_id.parse().ok()?;
    if settlement.trace_id.is_empty() {
        return None;
    }
    let parent = if settlement.span_id.is_empty() {
        let (_, end) = id.as_uuid().as_u64_pair();
        format!("{end:016x}")
    } else {
        settlement.span_id.clone()
    };
    http::HeaderValue::from_str(&format!("00-{}-{parent}-01", settlement.trace_id)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_continues_its_requests_trace() {
        let settlement = Settlement {
            request_id: "01a229f1-2800-7940-bef2-ceefa9433ea7".to_owned(),
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
            ..Settlement::default()
        };
        assert_eq!(
            trace_parent(&settlement).unwrap(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-bef2ceefa9433ea7-01"
        );
        let sent = Settlement {
            span_id: "00f067aa0ba902b7".to_owned(),
            ..settlement.clone()
        };
        assert_eq!(
            trace_parent(&sent).unwrap(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        );
        let untraced = Settlement {
            trace_id: String::new(),
            ..settlement
        };
        assert_eq!(trace_parent(&untraced), None);
    }
}
