//! A plain client, and a raw one for what HTTP clients hide.

use std::convert::Infallible;

use bytes::Bytes;
use fake_upstream::FakeUpstream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

pub type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

#[derive(Clone)]
pub struct Client {
    inner: HyperClient<HttpConnector, Body>,
    base: String,
}

impl Client {
    pub fn new(upstream: &FakeUpstream) -> Self {
        let inner = HyperClient::builder(TokioExecutor::new()).build_http();
        let base = upstream.base_url();
        Self { inner, base }
    }

    pub fn http2(upstream: &FakeUpstream) -> Self {
        let mut builder = HyperClient::builder(TokioExecutor::new());
        let inner = builder.http2_only(true).build_http();
        let base = upstream.base_url();
        Self { inner, base }
    }

    pub fn at(base: &str) -> Self {
        let inner = HyperClient::builder(TokioExecutor::new()).build_http();
        let base = base.to_owned();
        Self { inner, base }
    }

    pub async fn send(
        &self,
        key: &str,
        path: &str,
        body: &Value,
    ) -> Result<Response<Incoming>, Error> {
        let request = Request::post(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {key}"))
            .body(Full::from(body.to_string()).boxed())
            .unwrap();
        self.inner.request(request).await
    }

    pub async fn chat(&self, body: &Value) -> Result<Response<Incoming>, Error> {
        self.send("sk-test", "/chat/completions", body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(format!("{}{path}", self.base));
        let request = request.body(Full::default().boxed()).unwrap();
        read_json(self.inner.request(request).await.unwrap()).await
    }
}

pub fn whole() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
}

pub fn stream(include_usage: bool) -> Value {
    json!({
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": true,
        "stream_options": {"include_usage": include_usage},
    })
}

pub async fn read(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

pub async fn read_json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&read(response).await).unwrap()
}

/// All frames until the end, and whether the body ended well.
pub async fn frames(response: Response<Incoming>) -> (Vec<Bytes>, bool) {
    let mut body = response.into_body();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => frames.extend(frame.into_data().ok()),
            Err(_) => return (frames, false),
        }
    }
    (frames, true)
}

/// The JSON of a stream's events, and the last raw data line.
pub fn events(bytes: &[u8]) -> (Vec<Value>, String) {
    let text = std::str::from_utf8(bytes).unwrap();
    let data: Vec<&str> = text
        .split("\n\n")
        .filter_map(|e| e.strip_prefix("data: "))
        .collect();
    let json = data.iter().filter_map(|d| serde_json::from_str(d).ok());
    (
        json.collect(),
        data.last().copied().unwrap_or_default().to_owned(),
    )
}

/// A connection on which one request was sent and nothing was read.
pub async fn raw(upstream: &FakeUpstream, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut tcp = TcpStream::connect(upstream.addr()).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    tcp.write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    tcp
}
