//! The server: accepts connections, picks each request's script, answers.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::answer::{self, Question};
use crate::body::{AnswerBody, Performance, perform};
use crate::fast::Fast;
use crate::log::{Log, LogBook, Outcome, Served, Stats, Ticket};
use crate::plan;
use crate::request::{self, Asked, Endpoint};
use crate::script::Script;
use crate::wire::{Line, Wire};

/// The largest request body that is read.
const MAX_BODY: usize = 256 * 1024 * 1024;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 10_000;

#[derive(Debug, Default)]
struct Scripts {
    next: VecDeque<Script>,
    next_of_key: HashMap<String, VecDeque<Script>>,
    of_key: HashMap<String, Script>,
    of_model: HashMap<String, Script>,
    default: Script,
}

impl Scripts {
    fn pick(&mut self, key: Option<&str>, model: Option<&str>) -> Script {
        let queued = key
            .and_then(|key| self.next_of_key.get_mut(key))
            .and_then(VecDeque::pop_front);
        if let Some(script) = queued.or_else(|| self.next.pop_front()) {
            return script;
        }
        let standing = key
            .and_then(|key| self.of_key.get(key))
            .or_else(|| model.and_then(|model| self.of_model.get(model)));
        standing.unwrap_or(&self.default).clone()
    }
}

#[derive(Debug)]
struct Shared {
    book: Arc<LogBook>,
    scripts: Mutex<Scripts>,
    models: Mutex<Vec<String>>,
    fast: Option<Fast>,
    connections: AtomicU64,
}

/// A running upstream. Dropping it closes its socket and all connections.
#[derive(Debug)]
pub struct FakeUpstream {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: DropGuard,
    tasks: TaskTracker,
}

impl FakeUpstream {
    /// Starts on a free port of 127.0.0.1, inside the current Tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub async fn start() -> io::Result<Self> {
        Self::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Starts on this address.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        Self::serve(TcpListener::bind(addr).await?, None)
    }

    /// Starts in the mode for benches: the model's name is the shape of the answer (`whole-BYTES`, `burst-N`,
    /// `chunks-N`, `paced-N-MS`), nothing is recorded but [`Stats`] and the requests that carry a mark.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub async fn bind_fast(addr: SocketAddr) -> io::Result<Self> {
        Self::serve(TcpListener::bind(addr).await?, Some(Fast::default()))
    }

    fn serve(listener: TcpListener, fast: Option<Fast>) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            book: Arc::default(),
            scripts: Mutex::default(),
            models: Mutex::new(vec!["fake-chat".to_owned(), "fake-embed".to_owned()]),
            fast,
            connections: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let accept = accept(listener, Arc::clone(&shared), stop.clone(), tasks.clone());
        tasks.spawn(accept);
        Ok(Self {
            addr,
            shared,
            stop: stop.drop_guard(),
            tasks,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Base URL as clients want it: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The next request without a queued script of its key gets this one; first in, first out.
    pub fn push(&self, script: Script) {
        self.shared.scripts.lock().next.push_back(script);
    }

    /// The next request with this credential gets this one; before all other scripts.
    pub fn push_on_key(&self, key: &str, script: Script) {
        let mut scripts = self.shared.scripts.lock();
        let queue = scripts.next_of_key.entry(key.to_owned()).or_default();
        queue.push_back(script);
    }

    /// Requests with this credential get this script when none is queued; before those of models.
    pub fn on_key(&self, key: &str, script: Script) {
        let mut scripts = self.shared.scripts.lock();
        scripts.of_key.insert(key.to_owned(), script);
    }

    /// Requests for this model get this script when none is queued.
    pub fn on_model(&self, model: &str, script: Script) {
        let mut scripts = self.shared.scripts.lock();
        scripts.of_model.insert(model.to_owned(), script);
    }

    /// All other requests get this script.
    pub fn default(&self, script: Script) {
        self.shared.scripts.lock().default = script;
    }

    /// How many scripts of [`push`](Self::push) and [`push_on_key`](Self::push_on_key) were not used yet.
    #[must_use]
    pub fn unused_scripts(&self) -> usize {
        let scripts = self.shared.scripts.lock();
        scripts.next.len()
            + scripts
                .next_of_key
                .values()
                .map(VecDeque::len)
                .sum::<usize>()
    }

    /// The names that `GET /v1/models` lists.
    pub fn models<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) {
        *self.shared.models.lock() = names.into_iter().map(Into::into).collect();
    }

    /// A copy of the log as it is now.
    #[must_use]
    pub fn log(&self) -> Log {
        self.shared.book.read(Log::clone)
    }

    /// Waits until the log fulfils the condition.
    ///
    /// # Errors
    /// When it has not done so after 30 s; the error tells the log's state.
    pub async fn wait_for(&self, condition: impl FnMut(&Log) -> bool) -> anyhow::Result<()> {
        self.shared.book.wait_for(condition).await
    }

    /// What was generated, request by request, to be compared with a ledger. In fast mode only marked requests.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        self.shared.served()
    }

    /// Totals.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Forgets ended requests and maxima; scripts stay.
    pub fn clear_log(&self) {
        self.shared.clear();
    }

    /// Closes the socket and all connections, and waits until that is done.
    pub async fn stop(self) {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits as long as the upstream runs: for programs that do nothing else.
    pub async fn run(&self) {
        std::future::pending().await
    }
}

/// An address where nobody listens: connections are refused as long as the returned socket lives.
///
/// # Errors
/// When no port can be reserved.
pub fn nobody_listens() -> io::Result<(SocketAddr, TcpSocket)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    Ok((socket.local_addr()?, socket))
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of file descriptors, or a caller that left at once: the next may do.
                Err(_) => {
                    tokio::task::yield_now().await;
                    continue;
                }
            },
        };
        tasks.spawn(connection(stream, Arc::clone(&shared), stop.clone()));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    // Fails only on a socket that is gone already.
    let _ = stream.set_nodelay(true);
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    match &shared.fast {
        Some(fast) => fast.connected(),
        None => shared.book.write(|log| log.connections += 1),
    }
    let line = Line::new(stream);
    {
        let service = service_fn(|request| {
            let (shared, line) = (Arc::clone(&shared), Arc::clone(&line));
            async move { Ok::<_, Infallible>(handle(&shared, line, number, request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http2().max_concurrent_streams(MAX_STREAMS);
        let io = TokioIo::new(Wire(Arc::clone(&line)));
        let served = builder.serve_connection(io, service);
        tokio::select! {
            // An error is a caller that broke off; the request's record says so.
            _ = served => {}
            () = line.dropped() => {}
            () = stop.cancelled() => {}
        }
    }
    // The caller may be gone; nobody is left to be told.
    let _ = line.write_raw().await;
}

async fn handle(
    shared: &Shared,
    line: Arc<Line>,
    connection: u64,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (head, incoming) = request.into_parts();
    if let Some(control) = head.uri.path().strip_prefix("/_fake/") {
        return shared.control(&head.method, control);
    }
    if let Some(fast) = &shared.fast {
        let ticket = fast.arrive();
        return match incoming.collect().await {
            Ok(body) => fast.answer(ticket, &head.headers, &body.to_bytes(), &line),
            Err(_) => Response::new(Full::default().boxed_unsync()),
        };
    }

    let key = request::key(&head.headers);
    let endpoint = Endpoint::of(head.uri.path());
    let mut ticket = Ticket::arrive(&shared.book, key.clone());
    let Ok(body) = Limited::new(incoming, MAX_BODY).collect().await else {
        ticket.record(connection, head, Bytes::new(), &Asked::default());
        return Response::new(Full::default().boxed_unsync());
    };
    let body = body.to_bytes();
    let asked = Asked::read(&body);
    ticket.record(connection, head, body.clone(), &asked);

    let mut script = match endpoint {
        Endpoint::Chat | Endpoint::Embeddings | Endpoint::Scripted => shared
            .scripts
            .lock()
            .pick(key.as_deref(), asked.model.as_deref()),
        Endpoint::Models => Script::new(),
        Endpoint::Unknown => Script::new().status(404),
    };
    let models = shared.models.lock().clone();
    let question = Question {
        id: ticket.id,
        endpoint,
        asked: &asked,
        body: &body,
        models: &models,
    };
    let plan = plan::plan(&script, answer::say(&script, &question), &asked);
    for action in plan.before {
        perform(action, &line, &mut ticket).await;
    }
    if let Some(raw) = plan.raw {
        ticket.finish(Outcome::Completed);
        line.answer_raw(raw);
        return std::future::pending().await;
    }

    ticket.served(plan.usage_at_start);
    let mark = line.flushes();
    let performance = Performance {
        parts: plan.parts,
        line,
        ticket,
        usage_at_end: plan.usage_at_end,
        mark,
        begun: false,
    };
    let mut response = Response::new(performance.into_body());
    *response.status_mut() = script.status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(plan.content_type),
    );
    if let Some(length) = plan.length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if script.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in std::mem::take(&mut script.headers) {
        headers.insert(name, value);
    }
    response
}

impl Shared {
    fn served(&self) -> Vec<Served> {
        if let Some(fast) = &self.fast {
            return fast.served();
        }
        self.book.read(|log| {
            let requests = log.requests.iter().map(|record| Served {
                id: record.id,
                mark: record.mark.clone(),
                model: record.model.clone(),
                key: record.key.clone(),
                usage: record.usage,
                outcome: record.outcome,
            });
            requests.collect()
        })
    }

    fn stats(&self) -> Stats {
        if let Some(fast) = &self.fast {
            return fast.stats();
        }
        self.book.read(|log| {
            let sum = |of: fn(&crate::format::Usage) -> u64| {
                log.requests.iter().map(|record| of(&record.usage)).sum()
            };
            Stats {
                total: log.total,
                in_flight: log.in_flight as u64,
                max_in_flight: log.max_in_flight as u64,
                connections: log.connections,
                completed: log.count(Outcome::Completed) as u64,
                prompt_tokens: sum(|usage| usage.prompt),
                completion_tokens: sum(|usage| usage.completion),
            }
        })
    }

    fn clear(&self) {
        match &self.fast {
            Some(fast) => fast.clear(),
            None => self.book.clear(),
        }
    }

    /// `GET /_fake/stats`, `GET /_fake/served`, `POST /_fake/clear`: for callers in another process.
    fn control(&self, method: &Method, what: &str) -> Response<AnswerBody> {
        let body = match (method, what) {
            (&Method::GET, "stats") => json!(self.stats()),
            (&Method::GET, "served") => json!(self.served()),
            (&Method::POST, "clear") => {
                self.clear();
                json!({})
            }
            _ => json!({"error": "known are GET stats, GET served, POST clear"}),
        };
        let status = if body.get("error").is_some() {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::OK
        };
        let bytes = Full::new(Bytes::from(body.to_string()));
        let mut response = Response::new(bytes.boxed_unsync());
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}
