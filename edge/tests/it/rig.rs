//! A running edge whose peers are all away.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, body::Body, http::Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use switchboard_common::{clock::SystemClock, grpc::Rpc, lifecycle::Lifecycle, metrics::Metrics};
use switchboard_edge::{Admins, Component, Config, Deps};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

pub struct Rig {
    pub edge: Component,
    pub lifecycle: Lifecycle,
}

/// A whole HTTP/1.1 answer.
pub struct Answer {
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// What every refusal has: an id, and an error object with a code.
    pub fn code(&self) -> String {
        assert!(self.head.contains("x-request-id: "), "{}", self.head);
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

fn away() -> Rpc {
    Rpc::new(tower::service_fn(|_request| async {
        Ok(tonic::Status::unavailable("away").into_http())
    }))
}

impl Rig {
    pub async fn start(config: Config) -> Self {
        let lifecycle = Lifecycle::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let deps = Deps {
            clock: Arc::new(SystemClock),
            lifecycle: lifecycle.clone(),
            metrics: Metrics::new(),
            forwarders: away(),
            admins: Admins::new(away(), away(), away(), away()),
            probes: Router::new(),
        };
        let edge = Component::start(config, listener, deps).unwrap();
        Self { edge, lifecycle }
    }

    pub fn address(&self) -> SocketAddr {
        self.edge.address()
    }

    /// Sends all of it, then reads the answer to the connection's end.
    pub async fn send(&self, request: &[u8]) -> Answer {
        let mut connection = TcpStream::connect(self.address()).await.unwrap();
        connection.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer {
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Asks over HTTP/2.
    pub async fn get_over_http2(&self, path: &str, headers: &[(String, String)]) -> Answer {
        let stream = TcpStream::connect(self.address()).await.unwrap();
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        self.lifecycle.spawn("client", async move {
            let _ = connection.await;
        });
        let mut request = Request::get(format!("http://{}{path}", self.address()));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = axum::body::to_bytes(Body::new(body), 1 << 20)
            .await
            .unwrap();
        let headers = head.headers.iter();
        let headers =
            headers.map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
        Answer {
            head: format!(
                "HTTP/2 {} \r\n{}",
                head.status.as_u16(),
                headers.collect::<String>()
            ),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }
}
