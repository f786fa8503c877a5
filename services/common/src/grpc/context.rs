//! W3C trace context on every hop (OBS-1), in process and over sockets alike.
//!
//! Nothing is written while no exporter is configured: spans of the target `trace` are then disabled.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    propagation::{Extractor, Injector, TextMapPropagator as _},
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(key.as_bytes()),
            HeaderValue::from_str(&value),
        ) {
            self.0.insert(name, value);
        }
    }
}

struct Given<'a>(&'a HeaderMap);

impl Extractor for Given<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Writes the current span's context into headers.
pub fn inject_trace(headers: &mut HeaderMap) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let context = span.context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
    }
}

/// Makes a span the child of the context that the headers carry, if they carry one.
pub fn continue_trace(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key("traceparent") {
        return;
    }
    let context = TraceContextPropagator::new().extract(&Given(headers));
    // Fails only when the span was entered before; the trace then starts here.
    let _ = span.set_parent(context);
}

/// The current trace's id, 32 hexadecimal digits; empty when nothing is traced.
#[must_use]
pub fn trace_id() -> String {
    let span = Span::current();
    if span.is_disabled() {
        return String::new();
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    if context.is_valid() {
        context.trace_id().to_string()
    } else {
        String::new()
    }
}

/// The current span's id, 16 hexadecimal digits; empty when nothing is traced.
#[must_use]
pub fn span_id() -> String {
    let span = Span::current();
    if span.is_disabled() {
        return String::new();
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    if context.is_valid() {
        context.span_id().to_string()
    } else {
        String::new()
    }
}
