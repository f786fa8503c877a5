//! One caller: a connection, kept alive, with one request at a time. What it measures, it has checked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::workload::{Expected, Question};

/// Bytes of a wrong answer that an error shows.
const SHOWN: usize = 300;

/// What callers saw, in nanoseconds.
#[derive(Debug, Default)]
pub struct Seen {
    /// From the request to the last byte of its answer.
    pub answers: Vec<u64>,
    /// From the request to the first token.
    pub first_tokens: Vec<u64>,
    /// Between two tokens of a stream.
    pub gaps: Vec<u64>,
    /// Answers that were right, those of which no time was taken included.
    pub right: u64,
    /// What went wrong.
    pub problems: Vec<String>,
}

impl Seen {
    pub fn add(&mut self, mut other: Self) {
        self.answers.append(&mut other.answers);
        self.first_tokens.append(&mut other.first_tokens);
        self.gaps.append(&mut other.gaps);
        self.problems.append(&mut other.problems);
        self.right += other.right;
    }
}

/// Of which events the time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Nothing,
    Answers,
    Tokens,
}

/// A connection.
pub struct Caller {
    sender: http1::SendRequest<Full<Bytes>>,
    _connection: JoinSet<()>,
}

impl Caller {
    pub async fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr)
            .await
            .with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // The request that it breaks says so.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            _connection: task,
        })
    }

    /// A request whose whole answer is wanted.
    pub async fn read(&mut self, question: &Question) -> anyhow::Result<Bytes> {
        let response = self.send(question).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::ensure!(
            status == StatusCode::OK,
            "status {status}: {}",
            shown(&body)
        );
        Ok(body)
    }

    /// `GET PATH`, for the upstream's own counts.
    pub async fn get(&mut self, path: &str, host: &str) -> anyhow::Result<Bytes> {
        let request = Request::get(path)
            .header(header::HOST, host)
            .body(Full::default())?;
        let response = self.sender.send_request(request).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// A request whose answer must be `expected`. `opened` is counted up at its first token.
    pub async fn ask(
        &mut self,
        question: &Question,
        expected: &Expected,
        record: Record,
        seen: &mut Seen,
        opened: &AtomicUsize,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        let response = self.send(question).await?;
        let status = response.status();
        let mut body = response.into_body();
        if status != StatusCode::OK {
            let body = body.collect().await?.to_bytes();
            anyhow::bail!("status {status}: {}", shown(&body));
        }
        let (mut at, mut tokens, mut last_token) = (0, 0, None);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            let end = at + data.len();
            if !expected.has(at, &data) {
                let rest = body.collect().await?.to_bytes();
                let mut shown_bytes = BytesMut::from(&*data);
                shown_bytes.extend_from_slice(&rest);
                anyhow::bail!("byte {at} and following differ: {}", shown(&shown_bytes));
            }
            at = end;
            let arrived = expected.token_ends[tokens..]
                .iter()
                .take_while(|token_end| **token_end <= at)
                .count();
            if arrived == 0 {
                continue;
            }
            if tokens == 0 {
                opened.fetch_add(1, Ordering::Relaxed);
            }
            tokens += arrived;
            if record == Record::Tokens {
                let now = Instant::now();
                match last_token.replace(now) {
                    None => seen.first_tokens.push(nanoseconds(begin, now)),
                    Some(last) => seen.gaps.push(nanoseconds(last, now)),
                }
                // What comes together has no gap.
                seen.gaps.extend(std::iter::repeat_n(0, arrived - 1));
            }
        }
        anyhow::ensure!(
            at == expected.bytes.len(),
            "the answer ends after {at} bytes of {}",
            expected.bytes.len()
        );
        seen.right += 1;
        if record != Record::Nothing {
            seen.answers.push(nanoseconds(begin, Instant::now()));
        }
        Ok(())
    }

    async fn send(&mut self, question: &Question) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(question.path)
            .header(header::HOST, &question.host)
            .header(header::AUTHORIZATION, &question.authorization)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(question.body.clone()))?;
        Ok(self.sender.send_request(request).await?)
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned()
}
