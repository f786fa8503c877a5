//! The language of scripts: what the upstream does with one request.
//!
//! A script is an answer (what would be said if nothing went wrong) plus actions at points of it. Builder methods can
//! be chained in any order.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::format::{Framing, Usage, UsageShape, Writes};
use crate::gate::Gate;

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Delay(Duration),
    Gate(Gate),
    Hang,
    Reset,
    Close,
    Write(Bytes),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before the head of the answer.
    Head,
    /// After so many content deltas; in a whole answer 0 is before the body and all others are its middle.
    Content(usize),
    /// After so many bytes of the body.
    Byte(usize),
    /// After everything else.
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// What the endpoint says by itself.
    Endpoint,
    /// A body as given.
    Body {
        content_type: &'static str,
        bytes: Bytes,
    },
    /// Data of server-sent events, framed by the script's framing.
    Events(Vec<String>),
    /// Bytes instead of an HTTP answer.
    Raw(Bytes),
}

#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// What to do with one request. See the module's page for the idea; the default says three words.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) answer: Answer,
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) actions: Vec<(Point, Action)>,
    pub(crate) content: Option<Vec<String>>,
    pub(crate) reasoning: Vec<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) tools: Vec<ToolCall>,
    pub(crate) finish: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) prompt_tokens: u64,
    pub(crate) shape: UsageShape,
    pub(crate) done: bool,
    pub(crate) token_delay: Option<Duration>,
    pub(crate) writes: Writes,
    pub(crate) framing: Framing,
    pub(crate) gzip: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            answer: Answer::Endpoint,
            status: StatusCode::OK,
            headers: Vec::new(),
            actions: Vec::new(),
            content: None,
            reasoning: Vec::new(),
            refusal: None,
            tools: Vec::new(),
            finish: None,
            model: None,
            usage: None,
            prompt_tokens: 10,
            shape: UsageShape::default(),
            done: true,
            token_delay: None,
            writes: Writes::default(),
            framing: Framing::default(),
            gzip: false,
        }
    }
}

/// Which answer.
impl Script {
    /// The endpoint's ordinary answer: three words of chat (whole or streamed, as asked), an embedding, the models.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer of `count` tokens `tok0 tok1 …`, each one a delta of a stream.
    #[must_use]
    pub fn tokens(count: usize) -> Self {
        Self::say((0..count).map(|n| format!("tok{n} ")))
    }

    /// An answer of these deltas; each counts as one token.
    #[must_use]
    pub fn say<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        let content = Some(deltas.into_iter().map(Into::into).collect());
        Self {
            content,
            ..Self::default()
        }
    }

    /// An error with OpenAI's body. Statuses below 400 are possible: a 200 with an error object.
    #[must_use]
    pub fn error(status: u16, kind: &str, code: Option<&str>, message: &str) -> Self {
        Self::json(status, &error_body(kind, code, message))
    }

    /// 429 as OpenAI words it; `retry_after` in seconds.
    #[must_use]
    pub fn rate_limited(retry_after: Option<u64>) -> Self {
        let limited = Self::error(
            429,
            "requests",
            Some("rate_limit_exceeded"),
            "Rate limit reached",
        );
        match retry_after {
            Some(seconds) => limited.header("retry-after", &seconds.to_string()),
            None => limited,
        }
    }

    /// Any JSON body. An invalid status becomes 500.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// A page of a load balancer.
    #[must_use]
    pub fn html(status: u16) -> Self {
        let page = "<html><body><h1>502 Bad Gateway</h1></body></html>";
        Self::body(status, "text/html", page)
    }

    /// Any body, with its length declared.
    #[must_use]
    pub fn body(status: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let answer = Answer::Body {
            content_type,
            bytes: bytes.into(),
        };
        Self {
            answer,
            ..Self::default()
        }
        .status(status)
    }

    /// A stream of events with these data, written as they are; no `[DONE]` is added.
    #[must_use]
    pub fn events<T: Into<String>>(data: impl IntoIterator<Item = T>) -> Self {
        let answer = Answer::Events(data.into_iter().map(Into::into).collect());
        Self {
            answer,
            ..Self::default()
        }
    }

    /// A stream whose first event is an error.
    #[must_use]
    pub fn error_event(kind: &str, code: Option<&str>, message: &str) -> Self {
        Self::events([error_body(kind, code, message).to_string()])
    }

    /// A byte stream of server-sent events as given, every byte of it.
    #[must_use]
    pub fn event_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::body(200, "text/event-stream", bytes)
    }

    /// Raw bytes instead of an HTTP answer, then the connection is closed.
    #[must_use]
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self {
            answer: Answer::Raw(bytes.into()),
            ..Self::default()
        }
    }

    /// The connection is reset before any byte of an answer.
    #[must_use]
    pub fn reset() -> Self {
        Self::default().at(Point::Head, Action::Reset)
    }

    /// The connection ends before any byte of an answer.
    #[must_use]
    pub fn close() -> Self {
        Self::default().at(Point::Head, Action::Close)
    }

    /// Nothing is answered until the caller leaves.
    #[must_use]
    pub fn hang() -> Self {
        Self::default().at(Point::Head, Action::Hang)
    }
}

/// What the answer says.
impl Script {
    /// Status line. An invalid status becomes 500.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self
    }

    /// One more header. A name or value that HTTP does not allow is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.push((name, value));
        }
        self
    }

    /// Reasoning deltas before the content; each counts as one token.
    #[must_use]
    pub fn reasoning<T: Into<String>>(mut self, deltas: impl IntoIterator<Item = T>) -> Self {
        self.reasoning = deltas.into_iter().map(Into::into).collect();
        self
    }

    /// A refusal instead of content.
    #[must_use]
    pub fn refusal(mut self, text: &str) -> Self {
        self.refusal = Some(text.to_owned());
        self
    }

    /// One more tool call, its arguments in these fragments; finish reason `tool_calls` unless another is set.
    #[must_use]
    pub fn tool_call(mut self, id: &str, name: &str, arguments: &[&str]) -> Self {
        self.tools.push(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.iter().map(|part| (*part).to_owned()).collect(),
        });
        self
    }

    /// Finish reason (`stop` by default).
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }

    /// The model name in the answer; by default the one asked for.
    #[must_use]
    pub fn answers_as(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// The usage to report; by default 10 prompt tokens and one token a delta.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The prompt tokens to report, with the completion tokens counted from the deltas.
    #[must_use]
    pub fn prompt_tokens(mut self, tokens: u64) -> Self {
        self.prompt_tokens = tokens;
        self
    }

    /// Where the usage stands.
    #[must_use]
    pub fn usage_shape(mut self, shape: UsageShape) -> Self {
        self.shape = shape;
        self
    }

    /// No `data: [DONE]` at the end of a stream.
    #[must_use]
    pub fn no_done(mut self) -> Self {
        self.done = false;
        self
    }
}

/// How it is written.
impl Script {
    /// How the body is cut into writes.
    #[must_use]
    pub fn writes(mut self, writes: Writes) -> Self {
        self.writes = writes;
        self
    }

    /// One byte per write.
    #[must_use]
    pub fn one_byte_writes(self) -> Self {
        self.writes(Writes::Of(1))
    }

    /// How events are framed.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The body is compressed with gzip, whether or not the caller asked; streams are flushed at each event.
    #[must_use]
    pub fn gzip(mut self) -> Self {
        self.gzip = true;
        self
    }

    /// A pause before each delta.
    #[must_use]
    pub fn token_delay(mut self, delay: Duration) -> Self {
        self.token_delay = Some(delay);
        self
    }
}

/// What happens on the way.
impl Script {
    fn at(mut self, point: Point, action: Action) -> Self {
        self.actions.push((point, action));
        self
    }

    /// A pause before the head of the answer.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.at(Point::Head, Action::Delay(delay))
    }

    /// A gate before the head of the answer.
    #[must_use]
    pub fn gate(self, gate: &Gate) -> Self {
        self.at(Point::Head, Action::Gate(gate.clone()))
    }

    /// A gate after `deltas` content deltas (0: the head and a role chunk have gone out). In a whole answer 0 is
    /// before the body, any other number its middle; so for all methods with this argument.
    #[must_use]
    pub fn gate_after(self, deltas: usize, gate: &Gate) -> Self {
        self.at(Point::Content(deltas), Action::Gate(gate.clone()))
    }

    /// A gate after so many bytes of the body.
    #[must_use]
    pub fn gate_at_byte(self, offset: usize, gate: &Gate) -> Self {
        self.at(Point::Byte(offset), Action::Gate(gate.clone()))
    }

    /// A pause after `deltas` content deltas.
    #[must_use]
    pub fn delay_after(self, deltas: usize, delay: Duration) -> Self {
        self.at(Point::Content(deltas), Action::Delay(delay))
    }

    /// A TCP reset after `deltas` content deltas were handed to the kernel.
    #[must_use]
    pub fn reset_after(self, deltas: usize) -> Self {
        self.at(Point::Content(deltas), Action::Reset)
    }

    /// A TCP reset after so many bytes of the body.
    #[must_use]
    pub fn reset_at_byte(self, offset: usize) -> Self {
        self.at(Point::Byte(offset), Action::Reset)
    }

    /// The connection ends (FIN) in the middle of the body, after `deltas` content deltas.
    #[must_use]
    pub fn close_after(self, deltas: usize) -> Self {
        self.at(Point::Content(deltas), Action::Close)
    }

    /// The body ends cleanly after `deltas` content deltas: no finish reason, no `[DONE]`.
    #[must_use]
    pub fn end_after(self, deltas: usize) -> Self {
        self.at(Point::Content(deltas), Action::End)
    }

    /// Silence after `deltas` content deltas, until the caller leaves.
    #[must_use]
    pub fn hang_after(self, deltas: usize) -> Self {
        self.at(Point::Content(deltas), Action::Hang)
    }

    /// Silence after the whole body, which is never ended, until the caller leaves.
    #[must_use]
    pub fn hang_at_end(self) -> Self {
        self.at(Point::End, Action::Hang)
    }

    /// Bytes of one's own after `deltas` content deltas.
    #[must_use]
    pub fn write_after(self, deltas: usize, bytes: impl Into<Bytes>) -> Self {
        self.at(Point::Content(deltas), Action::Write(bytes.into()))
    }

    /// An error event after `deltas` content deltas, which ends the stream as OpenAI does.
    #[must_use]
    pub fn error_after(self, deltas: usize, kind: &str, code: Option<&str>, message: &str) -> Self {
        let event = format!("data: {}\n\n", error_body(kind, code, message));
        self.write_after(deltas, event).end_after(deltas)
    }
}

fn error_body(kind: &str, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
