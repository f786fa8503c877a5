//! Callers over HTTP: one API key, the edges taken in turn, answers as they came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use serde_json::{Value, json};

use crate::wire::Events;

/// How long an answer may take: far beyond anything a healthy test needs.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A caller. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    edges: Vec<SocketAddr>,
    key: String,
    turn: Arc<AtomicUsize>,
    headers: HeaderMap,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON under {}: {:?}", self.status, self.body))
    }

    /// A header's text; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    /// The request's id.
    #[must_use]
    pub fn request_id(&self) -> String {
        self.header("x-request-id").to_owned()
    }

    /// `error.code` of the body.
    ///
    /// # Panics
    /// The body has none.
    #[must_use]
    pub fn code(&self) -> String {
        let code = self.json()["error"]["code"].as_str().map(str::to_owned);
        code.unwrap_or_else(|| panic!("no error code under {}: {:?}", self.status, self.body))
    }

    /// The text of the first choice.
    #[must_use]
    pub fn text(&self) -> String {
        let text = &self.json()["choices"][0]["message"]["content"];
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Itself, when the status is this.
    ///
    /// # Panics
    /// It is another.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?}", self.body);
        self
    }
}

/// An answer that comes as events. Dropping it is leaving.
#[derive(Debug)]
pub struct Stream {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    response: reqwest::Response,
    events: Events,
    ready: std::collections::VecDeque<String>,
    bytes: BytesMut,
    seen: Vec<String>,
    /// How it ended, when it has.
    end: Option<bool>,
}

/// A stream that has ended.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub bytes: Bytes,
    /// The data of all events.
    pub events: Vec<String>,
    /// Whether the body ended as HTTP wants it; else the connection was cut.
    pub clean: bool,
}

impl Stream {
    /// The data of the next event; `None` at the end, clean or not.
    ///
    /// # Panics
    /// Nothing comes in time, or the stream is not well-formed.
    pub async fn next(&mut self) -> Option<String> {
        while self.ready.is_empty() {
            if self.end.is_some() {
                return None;
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk())
                .await
                .unwrap_or_else(|_| panic!("the stream is silent after {:?}", self.seen));
            match chunk {
                Ok(Some(chunk)) => {
                    self.bytes.extend_from_slice(&chunk);
                    self.ready.extend(self.events.read(&chunk));
                }
                Ok(None) => self.end = Some(true),
                Err(_) => self.end = Some(false),
            }
        }
        let event = self.ready.pop_front();
        self.seen.extend(event.clone());
        event
    }

    /// Reads until so many deltas with content have come; their text.
    ///
    /// # Panics
    /// The stream ends before.
    pub async fn deltas(&mut self, count: usize) -> String {
        let mut text = String::new();
        let mut come = 0;
        while come < count {
            let event = self.next().await;
            let event = event.unwrap_or_else(|| panic!("it ended after {:?}", self.seen));
            if let Some(delta) = content(&event) {
                text.push_str(&delta);
                come += 1;
            }
        }
        text
    }

    /// The request's id.
    #[must_use]
    pub fn request_id(&self) -> String {
        header(&self.headers, "x-request-id").to_owned()
    }

    /// Reads to the end.
    ///
    /// # Panics
    /// As [`next`](Self::next).
    pub async fn rest(mut self) -> Streamed {
        while self.next().await.is_some() {}
        Streamed {
            status: self.status,
            headers: self.headers,
            bytes: self.bytes.freeze(),
            events: self.seen,
            clean: self.end == Some(true) && !self.events.is_cut(),
        }
    }
}

impl Streamed {
    /// All content deltas together.
    #[must_use]
    pub fn text(&self) -> String {
        self.events
            .iter()
            .filter_map(|event| content(event))
            .collect()
    }

    /// The request's id.
    #[must_use]
    pub fn request_id(&self) -> String {
        header(&self.headers, "x-request-id").to_owned()
    }

    /// Whether it ended with `[DONE]`.
    #[must_use]
    pub fn done(&self) -> bool {
        self.events.last().is_some_and(|last| last == "[DONE]")
    }

    /// The body as one error answer.
    #[must_use]
    pub fn as_answer(&self) -> Answer {
        Answer {
            status: self.status,
            headers: self.headers.clone(),
            body: self.bytes.clone(),
        }
    }

    /// `error.code` of the last event.
    ///
    /// # Panics
    /// It is no error.
    #[must_use]
    pub fn error_code(&self) -> String {
        let last = self.events.last().map_or("", String::as_str);
        let event: Value = serde_json::from_str(last).unwrap_or_default();
        let code = event["error"]["code"].as_str().map(str::to_owned);
        code.unwrap_or_else(|| panic!("no error event at the end: {:?}", self.events))
    }
}

/// The content of a chunk, where it has some.
#[must_use]
pub fn content(event: &str) -> Option<String> {
    let chunk: Value = serde_json::from_str(event).ok()?;
    let text = chunk["choices"][0]["delta"]["content"].as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).map(|value| value.to_str());
    value.and_then(Result::ok).unwrap_or_default()
}

/// A chat request for a model.
#[must_use]
pub fn chat(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "Say something short."}]})
}

/// The same, streamed.
#[must_use]
pub fn streamed(model: &str) -> Value {
    let mut body = chat(model);
    body["stream"] = json!(true);
    body
}

fn client(
    change: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> reqwest::Client {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(PATIENCE);
    change(builder).build().expect("an HTTP client can be made")
}

impl Caller {
    /// With this key, at these edges in turn.
    ///
    /// # Panics
    /// No client can be made.
    #[must_use]
    pub fn new(edges: &[SocketAddr], key: &str) -> Self {
        // A client's builder panics when no TLS provider is chosen; a second choice is refused, which is no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            http: client(|builder| builder),
            edges: edges.to_vec(),
            key: key.to_owned(),
            turn: Arc::default(),
            headers: HeaderMap::new(),
        }
    }

    /// The same caller with one more header on every request.
    ///
    /// # Panics
    /// The header is none.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers
            .insert(name, value.parse().expect("a header's value"));
        self
    }

    /// The same caller over HTTP/2 without TLS, known beforehand.
    #[must_use]
    pub fn over_http2(mut self) -> Self {
        self.http = client(reqwest::ClientBuilder::http2_prior_knowledge);
        self
    }

    /// The same caller at one edge.
    #[must_use]
    pub fn at(mut self, edge: usize) -> Self {
        self.edges = vec![self.edges[edge]];
        self
    }

    /// The next edge.
    #[must_use]
    pub fn edge(&self) -> SocketAddr {
        self.edges[self.turn.fetch_add(1, Ordering::Relaxed) % self.edges.len()]
    }

    fn request(&self, method: http::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("http://{}{path}", self.edge());
        let mut request = self.http.request(method, url).headers(self.headers.clone());
        if !self.key.is_empty() {
            request = request.bearer_auth(&self.key);
        }
        request
    }

    /// Sends bytes as a body.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn try_send(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Answer> {
        self.try_send_as(path, "application/json", body).await
    }

    async fn try_send_as(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Answer> {
        let request = self
            .request(http::Method::POST, path)
            .header("content-type", content_type)
            .body(body);
        answer(request).await
    }

    /// Sends bytes as a body of this type.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn send_as(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let sent = self.try_send_as(path, content_type, body).await;
        sent.expect("an answer")
    }

    /// Sends bytes as a body.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn send(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.try_send(path, body).await.expect("an answer")
    }

    /// Asks and waits for the whole answer.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn ask(&self, body: &Value) -> Answer {
        self.send("/v1/chat/completions", body.to_string()).await
    }

    /// A whole chat answer of this model.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn chat(&self, model: &str) -> Answer {
        self.ask(&chat(model)).await
    }

    /// Gets a path.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(http::Method::GET, path))
            .await
            .expect("an answer")
    }

    /// Asks a path in another way than by GET or POST with a body.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn call(&self, method: http::Method, path: &str) -> Answer {
        answer(self.request(method, path)).await.expect("an answer")
    }

    /// Opens a stream and waits for its head.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn try_open(&self, body: &Value) -> reqwest::Result<Stream> {
        let request = self
            .request(http::Method::POST, "/v1/chat/completions")
            .header("content-type", "application/json")
            .body(body.to_string());
        let response = tokio::time::timeout(PATIENCE, request.send())
            .await
            .expect("an answer's head comes in time")?;
        Ok(Stream {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            response,
            events: Events::default(),
            ready: std::collections::VecDeque::new(),
            bytes: BytesMut::new(),
            seen: Vec::new(),
            end: None,
        })
    }

    /// Opens a stream and waits for its head.
    ///
    /// # Panics
    /// There is none.
    pub async fn open(&self, body: &Value) -> Stream {
        self.try_open(body).await.expect("an answer's head")
    }

    /// A whole stream of this model.
    ///
    /// # Panics
    /// There is none.
    pub async fn stream(&self, model: &str) -> Streamed {
        self.open(&streamed(model)).await.rest().await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let receiving = async {
        let response = request.send().await?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await?,
        })
    };
    tokio::time::timeout(PATIENCE, receiving)
        .await
        .expect("an answer comes in time")
}
