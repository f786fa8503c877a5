//! The mode for benches: answers are built once per shape and shared, requests are not recorded, only counted.
//!
//! The model's name is the shape: `whole-BYTES` (a whole answer of about that size), `burst-N` (a stream of N deltas
//! in one write), `chunks-N` (N deltas, a write each), `paced-N-MS` (a delta every MS milliseconds). Any shape can be
//! asked for whole or streamed; other names get `whole-1024` and `burst-16`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use parking_lot::{Mutex, RwLock};
use tokio::time::{Interval, interval};

use crate::body::AnswerBody;
use crate::format::Usage;
use crate::log::{Outcome, Served, Stats};
use crate::request::{self, Asked};
use crate::shapes::{self, Chunk, Message};
use crate::wire::Line;

const PROMPT_TOKENS: u64 = 10;
/// Names of models are cached up to this many; more are built each time.
const MAX_SHAPES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    OneWrite,
    WriteEach,
    Every(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    tokens: u64,
    whole_bytes: usize,
    pace: Pace,
}

impl Shape {
    fn of(model: &str) -> Self {
        let mut words = model.split('-');
        let kind = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let tokens = number();
        let (tokens, whole_bytes, pace) = match (kind, tokens) {
            ("whole", Some(bytes)) => (16, usize::try_from(bytes).unwrap_or(1024), Pace::OneWrite),
            ("burst", Some(tokens)) => (tokens, 1024, Pace::OneWrite),
            ("chunks", Some(tokens)) => (tokens, 1024, Pace::WriteEach),
            ("paced", Some(tokens)) => {
                let pace = Duration::from_millis(number().unwrap_or(20).max(1));
                (tokens, 1024, Pace::Every(pace))
            }
            _ => (16, 1024, Pace::OneWrite),
        };
        Self {
            tokens,
            whole_bytes,
            pace,
        }
    }
}

#[derive(Debug)]
struct Streamed {
    role: Bytes,
    delta: Bytes,
    tail: Bytes,
    all: Bytes,
}

#[derive(Debug)]
struct Built {
    shape: Shape,
    whole: Bytes,
    plain: Streamed,
    with_usage: Streamed,
}

impl Built {
    fn new(model: &str) -> Self {
        let shape = Shape::of(model);
        let usage = Usage::of(PROMPT_TOKENS, shape.tokens);
        let whole = |filler: usize| {
            let message = Message {
                content: Some("x".repeat(filler)),
                refusal: None,
                reasoning: String::new(),
                tools: &[],
            };
            shapes::completion(0, model, &message, "stop", Some(&usage))
        };
        let filler = shape.whole_bytes.saturating_sub(whole(0).len());
        Self {
            shape,
            whole: whole(filler).into(),
            plain: streamed(model, &usage, false),
            with_usage: streamed(model, &usage, true),
        }
    }
}

fn streamed(model: &str, usage: &Usage, include_usage: bool) -> Streamed {
    let chunk = Chunk { id: 0, model };
    let nulls = include_usage.then_some("null");
    let event = |delta: &str, finish: Option<&str>| {
        let choice = shapes::choice(delta, finish);
        format!("data: {}\n\n", chunk.with(&choice, nulls))
    };
    let role = event(r#"{"role":"assistant","content":"","refusal":null}"#, None);
    let delta = event(r#"{"content":" token"}"#, None);
    let mut tail = event("{}", Some("stop"));
    if include_usage {
        let usage = shapes::usage(usage);
        tail += &format!("data: {}\n\n", chunk.with("", Some(&usage)));
    }
    tail += "data: [DONE]\n\n";
    let deltas = delta.repeat(usize::try_from(usage.completion).unwrap_or(0));
    Streamed {
        all: [role.as_str(), deltas.as_str(), tail.as_str()]
            .concat()
            .into(),
        role: role.into(),
        delta: delta.into(),
        tail: tail.into(),
    }
}

#[derive(Debug, Default)]
struct Counters {
    total: AtomicU64,
    in_flight: AtomicU64,
    max_in_flight: AtomicU64,
    connections: AtomicU64,
    completed: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    /// Only requests with a mark: a bench marks as many as it wants to compare one by one.
    marked: Mutex<Vec<Served>>,
}

/// The fast side of an upstream.
#[derive(Debug, Default)]
pub(crate) struct Fast {
    shapes: RwLock<HashMap<String, Arc<Built>>>,
    counters: Arc<Counters>,
}

impl Fast {
    pub(crate) fn connected(&self) {
        self.counters.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        let c = &self.counters;
        Stats {
            total: c.total.load(Relaxed),
            in_flight: c.in_flight.load(Relaxed),
            max_in_flight: c.max_in_flight.load(Relaxed),
            connections: c.connections.load(Relaxed),
            completed: c.completed.load(Relaxed),
            prompt_tokens: c.prompt_tokens.load(Relaxed),
            completion_tokens: c.completion_tokens.load(Relaxed),
        }
    }

    pub(crate) fn served(&self) -> Vec<Served> {
        self.counters.marked.lock().clone()
    }

    pub(crate) fn clear(&self) {
        let c = &self.counters;
        for counter in [
            &c.total,
            &c.completed,
            &c.prompt_tokens,
            &c.completion_tokens,
        ] {
            counter.store(0, Relaxed);
        }
        c.max_in_flight.store(c.in_flight.load(Relaxed), Relaxed);
        c.marked.lock().clear();
    }

    /// The head of a request has arrived; its body is still to be read.
    pub(crate) fn arrive(&self) -> FastTicket {
        let c = &self.counters;
        c.total.fetch_add(1, Relaxed);
        let now = c.in_flight.fetch_add(1, Relaxed) + 1;
        c.max_in_flight.fetch_max(now, Relaxed);
        FastTicket {
            counters: Arc::clone(c),
            served: None,
            usage: Usage::default(),
            outcome: None,
        }
    }

    fn built(&self, model: &str) -> Arc<Built> {
        if let Some(built) = self.shapes.read().get(model) {
            return Arc::clone(built);
        }
        let built = Arc::new(Built::new(model));
        let mut shapes = self.shapes.write();
        if shapes.len() < MAX_SHAPES {
            shapes.insert(model.to_owned(), Arc::clone(&built));
        }
        built
    }

    pub(crate) fn answer(
        &self,
        mut ticket: FastTicket,
        headers: &HeaderMap,
        body: &[u8],
        line: &Arc<Line>,
    ) -> Response<AnswerBody> {
        let asked = Asked::read(body);
        let built = self.built(asked.model.as_deref().unwrap_or_default());
        ticket.usage.prompt = PROMPT_TOKENS;
        ticket.served = asked.directive.mark.map(|mark| Served {
            id: 0,
            mark: Some(mark),
            model: asked.model,
            key: request::key(headers),
            usage: Usage::default(),
            outcome: None,
        });
        if !asked.stream {
            ticket.complete(built.shape.tokens);
            let body = Full::new(built.whole.clone()).boxed_unsync();
            return answer("application/json", body);
        }
        let play = Play {
            pace: match built.shape.pace {
                Pace::Every(pace) => Some(interval(pace)),
                _ => None,
            },
            built,
            include_usage: asked.include_usage,
            next: 0,
            mark: 0,
            line: Arc::clone(line),
            ticket,
        };
        let frames = stream::unfold(play, |mut play| async move {
            let bytes = play.next().await?;
            Some((Ok(Frame::data(bytes)), play))
        });
        answer("text/event-stream", StreamBody::new(frames).boxed_unsync())
    }
}

fn answer(content_type: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// A running stream.
struct Play {
    built: Arc<Built>,
    include_usage: bool,
    pace: Option<Interval>,
    next: u64,
    mark: u64,
    line: Arc<Line>,
    ticket: FastTicket,
}

impl Play {
    async fn next(&mut self) -> Option<Bytes> {
        let streamed = if self.include_usage {
            &self.built.with_usage
        } else {
            &self.built.plain
        };
        let tokens = self.built.shape.tokens;
        if self.ticket.outcome.is_some() {
            return None;
        }
        if self.built.shape.pace == Pace::OneWrite {
            self.ticket.complete(tokens);
            return Some(streamed.all.clone());
        }
        let step = self.next;
        self.next += 1;
        if step > 0 {
            match &mut self.pace {
                Some(interval) if step <= tokens => drop(interval.tick().await),
                Some(_) => {}
                None => self.line.flushed_since(self.mark).await,
            }
        }
        self.mark = self.line.flushes();
        Some(match step {
            0 => streamed.role.clone(),
            step if step <= tokens => {
                self.ticket.usage.completion += 1;
                streamed.delta.clone()
            }
            _ => {
                self.ticket.complete(tokens);
                streamed.tail.clone()
            }
        })
    }
}

/// A running request; dropping it unfinished means that the caller left.
pub(crate) struct FastTicket {
    counters: Arc<Counters>,
    served: Option<Served>,
    usage: Usage,
    outcome: Option<Outcome>,
}

impl FastTicket {
    /// The last byte comes next.
    fn complete(&mut self, completion: u64) {
        self.usage.completion = completion;
        self.finish(Outcome::Completed);
    }

    fn finish(&mut self, outcome: Outcome) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = Some(outcome);
        let c = &self.counters;
        c.prompt_tokens.fetch_add(self.usage.prompt, Relaxed);
        c.completion_tokens
            .fetch_add(self.usage.completion, Relaxed);
        if outcome == Outcome::Completed {
            c.completed.fetch_add(1, Relaxed);
        }
        if let Some(mut served) = self.served.take() {
            served.usage = self.usage;
            served.outcome = Some(outcome);
            c.marked.lock().push(served);
        }
        c.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Drop for FastTicket {
    fn drop(&mut self) {
        self.finish(Outcome::CallerLeft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_names_the_shape() {
        assert_eq!(Shape::of("burst-100").tokens, 100);
        assert_eq!(Shape::of("chunks-7").pace, Pace::WriteEach);
        let paced = Shape::of("paced-50-20");
        assert_eq!(paced.pace, Pace::Every(Duration::from_millis(20)));
        assert_eq!(Shape::of("gpt-4o").tokens, 16);
        assert_eq!(Built::new("whole-1024").whole.len(), 1024);
    }
}
