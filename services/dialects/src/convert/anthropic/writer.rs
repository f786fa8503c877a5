//! An answer as a Messages stream or a message (PROTOCOLS §7.2, §11.3).
//!
//! Blocks never overlap: what comes while a call is open waits for its end. Arguments go out as they come; in the whole form,
//! and in history, what is no JSON object becomes `{"INVALID_JSON": "…"}`, as Anthropic's documentation of fine-grained tool
//! streaming advises, so that it is not lost.

mod sink;

use std::collections::VecDeque;

use bytes::BytesMut;

use self::sink::{Block, Sink};
use super::id;
use crate::convert::Format;
use crate::convert::node::quote_into;
use crate::convert::part::{Finish, Head, Part, Reason, Writer};
use crate::convert::seal::Seal;
use crate::usage::Usage;

/// Says one answer.
#[derive(Debug)]
pub(crate) struct MessageWriter {
    seed: String,
    /// The upstream's dialect: reasoning without a seal is marked as its.
    maker: Format,
    sink: Sink,
    open: Option<Open>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    calls: u32,
    refused: bool,
    stop: Option<Stop>,
    usage: Usage,
}

/// The block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call { key: u32, custom: bool },
}

/// A block that waits until a call has ended.
#[derive(Debug)]
enum Waiting {
    Text(String),
    Thinking(String),
    Sealed { redacted: bool, value: String },
    Citation(String),
    Call(WaitingCall),
}

#[derive(Debug)]
struct WaitingCall {
    key: u32,
    id: String,
    name: String,
    custom: bool,
    seal: Option<String>,
    arguments: String,
    ended: bool,
}

/// How it ended.
#[derive(Debug)]
struct Stop {
    reason: &'static str,
    /// A call that is whole turns it into `tool_use`.
    yields: bool,
    sequence: Option<String>,
    native: Option<String>,
}

impl Stop {
    fn new(finish: Finish<'_>) -> Self {
        let mut sequence = None;
        let (reason, yields, lossy) = match finish.reason {
            Reason::Stop | Reason::ToolCalls => ("end_turn", true, false),
            Reason::StopSequence(said) => {
                sequence = Some(said.to_owned());
                ("stop_sequence", true, false)
            }
            Reason::Length => ("max_tokens", false, false),
            Reason::ContextFull => ("model_context_window_exceeded", false, false),
            Reason::Filtered => ("refusal", false, true),
            Reason::Refused => ("refusal", false, false),
            Reason::Paused => ("pause_turn", true, false),
            Reason::Other => ("end_turn", true, true),
        };
        let native = (lossy && !finish.raw.is_empty()).then(|| finish.raw.to_owned());
        Self {
            reason,
            yields,
            sequence,
            native,
        }
    }
}

impl MessageWriter {
    /// A writer for answers of upstreams of dialect `maker`.
    pub(crate) fn new(head: Head, maker: Format) -> Self {
        Self {
            seed: head.seed.clone(),
            maker,
            sink: Sink::new(&head),
            open: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            calls: 0,
            refused: false,
            stop: None,
            usage: Usage::default(),
        }
    }

    fn close(&mut self, out: &mut BytesMut) {
        match self.open.take() {
            Some(Open::Thinking) => {
                let none = Seal {
                    maker: self.maker,
                    redacted: false,
                    value: "",
                };
                self.sink.signature(&none.said_in(Format::Anthropic), out);
            }
            Some(Open::Call { custom: true, .. }) => self.sink.arguments("\"}", out),
            Some(Open::Text | Open::Call { .. }) => {}
            None => return,
        }
        self.sink.stop(out);
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        if self.open != Some(Open::Text) {
            self.close(out);
            self.sink.start(&Block::Text, out);
            self.open = Some(Open::Text);
        }
        self.sink.text(text, out);
    }

    fn thinking(&mut self, text: &str, out: &mut BytesMut) {
        if self.open != Some(Open::Thinking) {
            self.close(out);
            self.sink.start(&Block::Thinking, out);
            self.open = Some(Open::Thinking);
        }
        self.sink.thinking(text, out);
    }

    fn sealed(&mut self, redacted: bool, value: &str, out: &mut BytesMut) {
        if redacted {
            self.close(out);
            self.sink.start(&Block::Redacted(value), out);
            self.sink.stop(out);
            return;
        }
        if self.open != Some(Open::Thinking) {
            self.close(out);
            self.sink.start(&Block::Thinking, out);
        }
        self.open = None;
        self.sink.signature(value, out);
        self.sink.stop(out);
    }

    fn call(&mut self, call: &WaitingCall, out: &mut BytesMut) {
        self.close(out);
        if let Some(seal) = &call.seal {
            self.sealed(false, seal, out);
        }
        let block = Block::Tool {
            id: &call.id,
            name: &call.name,
        };
        self.sink.start(&block, out);
        self.open = Some(Open::Call {
            key: call.key,
            custom: call.custom,
        });
        if call.custom {
            // a tool of free text has one member, a string
            self.sink.arguments("{\"input\":\"", out);
        }
        self.arguments(call.custom, &call.arguments, out);
        if call.ended {
            self.close(out);
        }
    }

    fn arguments(&mut self, custom: bool, piece: &str, out: &mut BytesMut) {
        if piece.is_empty() {
            return;
        }
        if custom {
            let mut quoted = String::new();
            quote_into(&mut quoted, piece);
            let inside = quoted.get(1..quoted.len() - 1).unwrap_or("");
            self.sink.arguments(inside, out);
        } else {
            self.sink.arguments(piece, out);
        }
    }

    /// Says what waited, up to the next call that goes on.
    fn resume(&mut self, all: bool, out: &mut BytesMut) {
        while all || !matches!(self.open, Some(Open::Call { .. })) {
            let Some(waiting) = self.waiting.pop_front() else {
                self.waiting_bytes = 0;
                return;
            };
            match waiting {
                Waiting::Text(text) => self.text(&text, out),
                Waiting::Thinking(text) => self.thinking(&text, out),
                Waiting::Sealed { redacted, value } => self.sealed(redacted, &value, out),
                Waiting::Citation(citation) => self.citation(&citation, out),
                Waiting::Call(call) => self.call(&call, out),
            }
        }
    }

    fn citation(&mut self, citation: &str, out: &mut BytesMut) {
        if self.open == Some(Open::Text) {
            self.sink.citation(citation, out);
        }
    }

    /// Whether a call is open, so that all else waits.
    const fn busy(&self) -> bool {
        matches!(self.open, Some(Open::Call { .. }))
    }

    fn say(&mut self, waiting: Waiting, bytes: usize, out: &mut BytesMut) {
        self.waiting_bytes += bytes;
        match (self.waiting.back_mut(), waiting) {
            (Some(Waiting::Text(text)), Waiting::Text(more))
            | (Some(Waiting::Thinking(text)), Waiting::Thinking(more)) => text.push_str(&more),
            (_, waiting) => self.waiting.push_back(waiting),
        }
        self.resume(false, out);
    }

    fn piece(&mut self, of: u32, piece: &str, out: &mut BytesMut) {
        match self.open {
            Some(Open::Call { key, custom }) if key == of => self.arguments(custom, piece, out),
            _ => {
                if let Some(call) = self.waiting_call(of) {
                    call.arguments.push_str(piece);
                    self.waiting_bytes += piece.len();
                }
            }
        }
    }

    fn waiting_call(&mut self, of: u32) -> Option<&mut WaitingCall> {
        self.waiting.iter_mut().find_map(|waiting| match waiting {
            Waiting::Call(call) if call.key == of => Some(call),
            _ => None,
        })
    }

    fn call_end(&mut self, of: u32, out: &mut BytesMut) {
        match self.open {
            Some(Open::Call { key, .. }) if key == of => {
                self.close(out);
                self.resume(false, out);
            }
            _ => {
                if let Some(call) = self.waiting_call(of) {
                    call.ended = true;
                }
            }
        }
    }
}

impl Writer for MessageWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        // one answer is all that a caller of this dialect can ask for
        if choice != 0 {
            return;
        }
        self.sink.begin(out);
        match part {
            Part::Begin { .. } | Part::Logprobs(_) => {}
            Part::Text(text) if !self.busy() => self.text(text, out),
            Part::Text(text) => self.say(Waiting::Text(text.to_owned()), text.len(), out),
            Part::Refusal(text) => {
                self.refused = true;
                self.say(Waiting::Text(text.to_owned()), text.len(), out);
            }
            Part::Reasoning(text) if !self.busy() => self.thinking(text, out),
            Part::Reasoning(text) => self.say(Waiting::Thinking(text.to_owned()), text.len(), out),
            Part::Sealed(seal) => {
                let value = seal.said_in(Format::Anthropic).into_owned();
                let (bytes, redacted) = (value.len(), seal.redacted);
                self.say(Waiting::Sealed { redacted, value }, bytes, out);
            }
            Part::Call {
                key,
                id,
                name,
                custom,
                seal,
            } => {
                self.calls += 1;
                let id = if id.is_empty() {
                    id::valid(&format!("toolu_{}_{key}", self.seed)).into_owned()
                } else {
                    id::valid(id).into_owned()
                };
                let call = WaitingCall {
                    key,
                    id,
                    name: name.to_owned(),
                    custom,
                    seal: seal.map(|seal| seal.said_in(Format::Anthropic).into_owned()),
                    arguments: String::new(),
                    ended: false,
                };
                self.say(Waiting::Call(call), name.len(), out);
            }
            Part::Arguments { key, piece } => self.piece(key, piece, out),
            Part::CallEnd { key } => self.call_end(key, out),
            Part::Citation { url, title, .. } if !url.is_empty() => {
                let citation = web_citation(url, title);
                let bytes = citation.len();
                self.say(Waiting::Citation(citation), bytes, out);
            }
            // This dialect's citations need an address.
            Part::Citation { .. } => {}
            Part::Media { mime, data } => {
                // An answer here has no block for it, but text may show it.
                let text = format!("![](data:{mime};base64,{data})");
                let bytes = text.len();
                self.say(Waiting::Text(text), bytes, out);
            }
            Part::Finish(finish) => self.stop = Some(Stop::new(finish)),
            Part::Usage(usage) => self.usage = usage,
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.sink.begin(out);
        self.resume(true, out);
        self.close(out);
        let stop = self.stop.take().unwrap_or_else(|| {
            Stop::new(Finish {
                reason: Reason::Stop,
                raw: "",
            })
        });
        let reason = match stop.reason {
            _ if stop.yields && self.calls > 0 => "tool_use",
            "end_turn" if self.refused => "refusal",
            reason => reason,
        };
        let mut ending = format!("\"stop_reason\":\"{reason}\",\"stop_sequence\":");
        match stop.sequence.filter(|_| reason == "stop_sequence") {
            Some(sequence) => quote_into(&mut ending, &sequence),
            None => ending.push_str("null"),
        }
        if let Some(native) = stop.native {
            ending.push_str(",\"native_stop_reason\":");
            quote_into(&mut ending, &native);
        }
        self.sink.end(&ending, &self.usage, out);
    }

    fn kept(&self) -> usize {
        self.sink.kept() + self.waiting_bytes
    }
}

fn web_citation(url: &str, title: &str) -> String {
    let mut citation = String::from(
        r#"{"type":"web_search_result_location","cited_text":"","encrypted_index":"","url":"#,
    );
    quote_into(&mut citation, url);
    citation.push_str(",\"title\":");
    if title.is_empty() {
        citation.push_str("null");
    } else {
        quote_into(&mut citation, title);
    }
    citation.push('}');
    citation
}
