//! An OTLP collector inside the test: it takes what the programs under test export and answers questions about traces.
//!
//! It keeps every span it was sent, in order of arrival, until it is dropped. Exporters batch, so tests wait for the
//! spans they need ([`Collector::wait_for`]) before they judge a trace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span as OtlpSpan;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// How long [`Collector::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest export that is taken.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A span as it was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of the exporting program.
    pub service: String,
    /// The instrumentation scope.
    pub scope: String,
    /// Name.
    pub name: String,
    /// 32 hex digits.
    pub trace_id: String,
    /// 16 hex digits.
    pub span_id: String,
    /// 16 hex digits; `None` for a root.
    pub parent_id: Option<String>,
    /// Start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// End, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Whether its status is an error.
    pub failed: bool,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
}

/// The spans of one trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// 32 hex digits.
    pub id: String,
    /// Its spans, in order of arrival.
    pub spans: Vec<Span>,
}

/// A running collector; dropping it closes its socket.
#[derive(Debug)]
pub struct Collector {
    addr: SocketAddr,
    spans: watch::Sender<Vec<Span>>,
    _stop: DropGuard,
}

impl Collector {
    /// Starts on a free port of 127.0.0.1, inside the current Tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub fn start() -> anyhow::Result<Self> {
        let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .map_err(|error| anyhow::anyhow!("cannot open the collector's socket: {error}"))?
            .with_nodelay(Some(true));
        let addr = incoming.local_addr()?;
        let spans = watch::Sender::new(Vec::new());
        let stop = CancellationToken::new();
        let service =
            TraceServiceServer::new(Inbox(spans.clone())).max_decoding_message_size(MAX_MESSAGE);
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming);
        let stopped = stop.clone();
        TaskTracker::new().spawn(async move {
            tokio::select! {
                // It ends only when its socket fails, and then waiting tests tell.
                _ = serving => {}
                () = stopped.cancelled() => {}
            }
        });
        Ok(Self {
            addr,
            spans,
            _stop: stop.drop_guard(),
        })
    }

    /// The endpoint for exporters: `http://127.0.0.1:PORT` (OTLP over gRPC).
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.spans.borrow().clone()
    }

    /// Waits until the spans fulfil the condition.
    ///
    /// # Errors
    /// When they have not done so after two minutes; the error lists what came.
    pub async fn wait_for(&self, mut condition: impl FnMut(&[Span]) -> bool) -> anyhow::Result<()> {
        let mut spans = self.spans.subscribe();
        let waiting = spans.wait_for(|spans| condition(spans));
        if let Ok(seen) = tokio::time::timeout(PATIENCE, waiting).await {
            seen.context("the collector is gone")?;
            return Ok(());
        }
        let seen: BTreeSet<String> = self
            .spans()
            .iter()
            .map(|span| format!("{} {} {}", span.trace_id, span.service, span.name))
            .collect();
        anyhow::bail!("the awaited spans did not come within {PATIENCE:?}; there are {seen:#?}")
    }

    /// The spans of a trace so far.
    #[must_use]
    pub fn trace(&self, id: &str) -> Trace {
        let spans = self.spans.borrow();
        Trace {
            id: id.to_owned(),
            spans: spans
                .iter()
                .filter(|span| span.trace_id == id)
                .cloned()
                .collect(),
        }
    }

    /// The ids of all traces so far.
    #[must_use]
    pub fn trace_ids(&self) -> BTreeSet<String> {
        let spans = self.spans.borrow();
        spans.iter().map(|span| span.trace_id.clone()).collect()
    }

    /// Waits until a trace has spans of all these services and no parent is missing, and returns it.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for), with what was still missing.
    pub async fn whole_trace(
        &self,
        id: &str,
        services: &[&str],
        caller: Option<&str>,
    ) -> anyhow::Result<Trace> {
        let mut missing = Ok(());
        let waited = self
            .wait_for(|spans| {
                let spans = spans.iter().filter(|span| span.trace_id == id);
                let trace = Trace {
                    id: id.to_owned(),
                    spans: spans.cloned().collect(),
                };
                missing = trace.check(services, |span| &span.service, caller);
                missing.is_ok()
            })
            .await;
        missing.and(waited)?;
        Ok(self.trace(id))
    }
}

impl Trace {
    /// Checks that the trace is one tree without gaps: one root, every other span's parent is in the trace, and each
    /// of `names` labels at least one span. `label` says what a span is named by: [`Span::service`], [`Span::name`] or
    /// an attribute. `caller` is the span id that the caller sent in `traceparent`, which then stands above the root.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn check<'a>(
        &'a self,
        names: &[&str],
        label: impl Fn(&'a Span) -> &'a str,
        caller: Option<&str>,
    ) -> anyhow::Result<()> {
        let labels: BTreeSet<&str> = self.spans.iter().map(label).collect();
        for name in names {
            ensure!(
                labels.contains(name),
                "trace {} has no span of `{name}`, only of {labels:?}",
                self.id
            );
        }
        let by_id: HashMap<&str, &Span> = self
            .spans
            .iter()
            .map(|span| (span.span_id.as_str(), span))
            .collect();
        let mut roots = Vec::new();
        for span in &self.spans {
            match span.parent_id.as_deref() {
                None => roots.push(span),
                parent if parent == caller => roots.push(span),
                Some(parent) => ensure!(
                    by_id.contains_key(parent),
                    "span `{}` of {} has a parent {parent} that is not in trace {}",
                    span.name,
                    span.service,
                    self.id
                ),
            }
        }
        ensure!(
            roots.len() == 1,
            "trace {} has {} roots: {:?}",
            self.id,
            roots.len(),
            roots.iter().map(|span| &span.name).collect::<Vec<_>>()
        );
        ensure!(
            caller.is_none() || roots[0].parent_id.as_deref() == caller,
            "the root of trace {} does not hang under the caller's span",
            self.id
        );
        Ok(())
    }

    /// The names of the spans from the root down to this one, as `service/name`.
    #[must_use]
    pub fn path(&self, span: &Span) -> Vec<String> {
        let mut path = vec![format!("{}/{}", span.service, span.name)];
        let mut at = span;
        // A path longer than the trace would be a circle.
        while let Some(parent) = self.parent(at).filter(|_| path.len() <= self.spans.len()) {
            path.push(format!("{}/{}", parent.service, parent.name));
            at = parent;
        }
        path.reverse();
        path
    }

    /// The parent of a span, where it is in the trace.
    #[must_use]
    pub fn parent(&self, span: &Span) -> Option<&Span> {
        let parent = span.parent_id.as_ref()?;
        self.spans.iter().find(|other| other.span_id == *parent)
    }

    /// The first span with this name.
    #[must_use]
    pub fn span(&self, name: &str) -> Option<&Span> {
        self.spans.iter().find(|span| span.name == name)
    }
}

struct Inbox(watch::Sender<Vec<Span>>);

#[tonic::async_trait]
impl TraceService for Inbox {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut come = Vec::new();
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            let service = texts(attributes).remove("service.name").unwrap_or_default();
            for scope in resource.scope_spans {
                let name = scope.scope.unwrap_or_default().name;
                let spans = scope.spans.into_iter();
                come.extend(spans.map(|span| read(span, &service, &name)));
            }
        }
        self.0.send_modify(|spans| spans.extend(come));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn read(span: OtlpSpan, service: &str, scope: &str) -> Span {
    /// `STATUS_CODE_ERROR` of OTLP.
    const ERROR: i32 = 2;
    Span {
        service: service.to_owned(),
        scope: scope.to_owned(),
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: (!span.parent_span_id.is_empty()).then(|| hex(&span.parent_span_id)),
        start_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
        failed: span.status.is_some_and(|status| status.code == ERROR),
        attributes: texts(span.attributes),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let texts = attributes.into_iter().map(|attribute| {
        let value = attribute.value.and_then(|value| value.value);
        (attribute.key, value.map(text).unwrap_or_default())
    });
    texts.collect()
}

fn text(value: any_value::Value) -> String {
    use any_value::Value;
    match value {
        Value::StringValue(text) => text,
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::DoubleValue(value) => value.to_string(),
        Value::BytesValue(bytes) => hex(&bytes),
        Value::ArrayValue(array) => {
            let texts: Vec<String> = array
                .values
                .into_iter()
                .filter_map(|AnyValue { value }| value.map(text))
                .collect();
            texts.join(",")
        }
        other => format!("{other:?}"),
    }
}
