//! What the upstream saw and did. Times are not recorded: tests assert on order, counts and outcomes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::format::Usage;
use crate::request::Asked;

/// How long [`LogBook::wait_for`] waits: far beyond anything a healthy test needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a request ended, seen from the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The script ran to its end and the last byte was handed to the connection.
    Completed,
    /// The caller dropped the request before that.
    CallerLeft,
    /// The script itself cut the connection.
    Cut,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the request, from 1, in order of arrival.
    pub id: u64,
    /// Number of the connection, from 1, in order of acceptance.
    pub connection: u64,
    /// HTTP version of the connection.
    pub version: Version,
    /// Method.
    pub method: Method,
    /// Path, without the query.
    pub path: String,
    /// Query, without the question mark.
    pub query: Option<String>,
    /// Headers as received.
    pub headers: HeaderMap,
    /// The whole body as received.
    pub body: Bytes,
    /// The credential: of `authorization: Bearer`, else `api-key`, else `x-api-key`.
    pub key: Option<String>,
    /// The body's `model`.
    pub model: Option<String>,
    /// The mark that the caller put into the prompt (`[[mark:NAME]]`).
    pub mark: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Server-sent events handed to the connection so far.
    pub events_written: u64,
    /// Body bytes handed to the connection so far.
    pub bytes_written: u64,
    /// What the upstream has generated so far (whole answers: all of it), whether or not it reported it.
    pub usage: Usage,
    /// `None` while the request runs.
    pub outcome: Option<Outcome>,
}

impl Record {
    /// A header's value as text; `None` when it is absent or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON; `Null` when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What one request was served, to be compared with a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Number of the request; 0 in fast mode, which numbers none.
    pub id: u64,
    /// The mark that the caller put into the prompt.
    pub mark: Option<String>,
    /// The body's `model`.
    pub model: Option<String>,
    /// The credential seen.
    pub key: Option<String>,
    /// What was generated.
    pub usage: Usage,
    /// `None` while the request runs.
    pub outcome: Option<Outcome>,
}

/// Totals, cheap to keep also in fast mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Requests that arrived.
    pub total: u64,
    /// Requests that run now.
    pub in_flight: u64,
    /// The most that ran at once.
    pub max_in_flight: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Requests that ended as [`Outcome::Completed`].
    pub completed: u64,
    /// Prompt tokens of all requests.
    pub prompt_tokens: u64,
    /// Completion tokens of all requests.
    pub completion_tokens: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    now: usize,
    max: usize,
}

/// The record of everything since the start (or the last clear).
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Requests whose body was read, in order of arrival of their bodies.
    pub requests: Vec<Record>,
    /// Requests that run now: from arrival of the head until just before the last byte.
    pub in_flight: usize,
    /// The most that ran at once.
    pub max_in_flight: usize,
    /// Requests that arrived.
    pub total: u64,
    /// Connections accepted.
    pub connections: u64,
    by_key: HashMap<String, Load>,
}

impl Log {
    /// The most requests with this credential that ran at once.
    #[must_use]
    pub fn max_in_flight_of(&self, key: &str) -> usize {
        self.by_key.get(key).map_or(0, |load| load.max)
    }

    /// Requests with this credential that run now.
    #[must_use]
    pub fn in_flight_of(&self, key: &str) -> usize {
        self.by_key.get(key).map_or(0, |load| load.now)
    }

    /// How many requests ended so.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        let ended = self.requests.iter().filter(|r| r.outcome == Some(outcome));
        ended.count()
    }

    /// The requests that carried this credential.
    pub fn of_key<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Record> {
        self.requests
            .iter()
            .filter(move |r| r.key.as_deref() == Some(key))
    }

    /// The request with this mark.
    #[must_use]
    pub fn marked(&self, mark: &str) -> Option<&Record> {
        self.requests
            .iter()
            .find(|r| r.mark.as_deref() == Some(mark))
    }

    fn arrive(&mut self, key: Option<&str>) -> u64 {
        self.total += 1;
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        if let Some(key) = key {
            let load = self.by_key.entry(key.to_owned()).or_default();
            load.now += 1;
            load.max = load.max.max(load.now);
        }
        self.total
    }

    fn leave(&mut self, key: Option<&str>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(load) = key.and_then(|key| self.by_key.get_mut(key)) {
            load.now = load.now.saturating_sub(1);
        }
    }
}

/// The log behind its lock, with a bell for those who wait.
#[derive(Debug, Default)]
pub(crate) struct LogBook {
    log: Mutex<Log>,
    changed: Notify,
}

impl LogBook {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.log.lock())
    }

    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Log) -> T) -> T {
        let done = write(&mut self.log.lock());
        self.changed.notify_waiters();
        done
    }

    /// Forgets the requests and the maxima, but not what runs now; ids go on.
    pub(crate) fn clear(&self) {
        self.write(|log| {
            log.requests.retain(|r| r.outcome.is_none());
            log.max_in_flight = log.in_flight;
            for load in log.by_key.values_mut() {
                load.max = load.now;
            }
        });
    }

    pub(crate) async fn wait_for(
        &self,
        mut condition: impl FnMut(&Log) -> bool,
    ) -> anyhow::Result<()> {
        let wait = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                if self.read(&mut condition) {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_ok() {
            return Ok(());
        }
        let seen = self.read(|log| {
            let requests: Vec<_> = log
                .requests
                .iter()
                .map(|r| (r.id, &r.path, r.events_written, r.outcome))
                .collect();
            format!(
                "total {}, in flight {} (max {}), requests {requests:?}",
                log.total, log.in_flight, log.max_in_flight
            )
        });
        anyhow::bail!(
            "the upstream's log did not come to the awaited state within {PATIENCE:?}: {seen}"
        )
    }
}

/// A running request's hold on the log. Dropping it unfinished means that the caller left.
#[derive(Debug)]
pub(crate) struct Ticket {
    book: Arc<LogBook>,
    pub(crate) id: u64,
    key: Option<String>,
    ended: bool,
    finished: bool,
    recorded: bool,
}

impl Ticket {
    /// The head of a request has arrived.
    pub(crate) fn arrive(book: &Arc<LogBook>, key: Option<String>) -> Self {
        let id = book.write(|log| log.arrive(key.as_deref()));
        Self {
            book: Arc::clone(book),
            id,
            key,
            ended: false,
            finished: false,
            recorded: false,
        }
    }

    /// Its body has arrived too (or what of it came before the caller left).
    pub(crate) fn record(
        &mut self,
        connection: u64,
        head: http::request::Parts,
        body: Bytes,
        asked: &Asked,
    ) {
        let record = Record {
            id: self.id,
            connection,
            version: head.version,
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().map(str::to_owned),
            headers: head.headers,
            body,
            key: self.key.clone(),
            model: asked.model.clone(),
            mark: asked.directive.mark.clone(),
            stream: asked.stream,
            events_written: 0,
            bytes_written: 0,
            usage: Usage::default(),
            outcome: None,
        };
        self.recorded = true;
        self.book.write(|log| log.requests.push(record));
    }

    /// Adds to the record what is handed to the connection.
    pub(crate) fn wrote(&self, bytes: usize, events: u64, completion: u64) {
        self.change(|record| {
            record.bytes_written += bytes as u64;
            record.events_written += events;
            record.usage.completion += completion;
        });
    }

    /// Sets what the answer is worth by now.
    pub(crate) fn served(&self, usage: Usage) {
        self.change(|record| record.usage = usage);
    }

    /// The last byte comes next: the request does not count any more.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.book.write(|log| log.leave(self.key.as_deref()));
        }
    }

    /// Ends the request, if it has not, and fixes its outcome.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        self.end();
        if !std::mem::replace(&mut self.finished, true) {
            self.change(|record| record.outcome = Some(outcome));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        if !self.recorded {
            return;
        }
        self.book.write(|log| {
            // Running requests are near the end of a list in ascending order of recording.
            if let Some(record) = log.requests.iter_mut().rev().find(|r| r.id == self.id) {
                change(record);
            }
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.finish(Outcome::CallerLeft);
    }
}
