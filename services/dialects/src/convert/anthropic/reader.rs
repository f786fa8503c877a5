//! Finds the parts of Anthropic's answers (PROTOCOLS §7.2).
//!
//! A block begins, grows and ends; its index is not a call's number, as blocks of all kinds count. Anthropic's own do not overlap;
//! those of others may, where they are calls. What the provider's own tools
//! did has no counterpart elsewhere: their blocks are passed over, the text around them is not. What is cited concerns all of
//! the block of text that it is in, so that it is told when that ends.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::anthropic::{Fragment, Piece, fragment};
use crate::convert::Format;
use crate::convert::names::Names;
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};

/// Citations wait for the end of their block; beyond so many bytes they are told at once, without a span.
const MOST_CITED: usize = 256 * 1024;

/// What must be known of the request to read its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    /// The caller's names of tools of free text.
    pub(crate) custom: Vec<String>,
    /// What the request calls the tools.
    pub(crate) names: Names,
    /// The tool whose input is the answer.
    pub(crate) answer: Option<&'static str>,
}

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct AnthropicReader {
    way: Way,
    calls: u32,
    /// Characters of text so far.
    characters: u64,
    /// The answer was given as a tool's input.
    answered: bool,
    open: Open,
    /// Its index.
    index: Option<u64>,
    /// Calls that began before it and go on, with their indexes.
    beside: Vec<(u64, Open)>,
}

/// The block that began last, until it ends.
#[derive(Debug, Default)]
enum Open {
    #[default]
    None,
    /// Text, from this character on, and what is cited in it.
    Text {
        start: u64,
        cited: Vec<String>,
        bytes: usize,
    },
    /// The input of a tool that is the answer.
    Answer,
    /// Its signature so far.
    Thinking(String),
    Call {
        key: u32,
        /// The input of a tool of free text, which is said when it is complete.
        free: Option<String>,
    },
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citations: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stop_sequence: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    document_title: Option<Cow<'a, str>>,
}

impl AnthropicReader {
    /// Nothing was read yet.
    pub(crate) fn new(way: &Way) -> Self {
        Self {
            way: way.clone(),
            ..Self::default()
        }
    }
}

impl Reader for AnthropicReader {
    fn event(
        &mut self,
        _: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        if let Some(Fragment { piece, text, index }) = fragment(data) {
            let text = text.decode(data);
            match piece {
                Piece::Text => self.text(&text, put),
                Piece::Thinking => say(Some(&text), Part::Reasoning, put),
                Piece::Input => self.argue(Some(index), &text, put),
            }
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_str(data).map_err(|_| {
            let text = "the upstream's answer is not what its dialect says";
            Box::new(UpstreamError::found(Class::Malformed, text))
        })?;
        let index = event.index;
        match (&*event.kind, event.content_block, event.delta) {
            ("message_start", ..) => put(0, Part::Begin { created: None }),
            ("content_block_start", Some(block), _) => self.start(index, &block, put),
            ("content_block_delta", _, Some(delta)) => self.delta(index, &delta, put),
            ("content_block_stop", ..) => self.stop(index, put),
            ("message_delta", _, Some(delta)) => self.finish(&delta, put),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, put: &mut Put<'_>) {
        self.stop_all(put);
    }
}

/// Passes on a piece that says something.
fn say<'a>(piece: Option<&'a str>, part: fn(&'a str) -> Part<'a>, put: &mut Put<'_>) {
    if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
        put(0, part(piece));
    }
}

impl AnthropicReader {
    fn start(&mut self, index: Option<u64>, block: &Block<'_>, put: &mut Put<'_>) {
        match (&self.open, self.index) {
            (Open::Call { .. }, Some(at)) if block.kind == "tool_use" && index != Some(at) => {
                self.beside.push((at, std::mem::take(&mut self.open)));
            }
            _ => self.stop_all(put),
        }
        self.index = index;
        match &*block.kind {
            "text" => {
                self.open = Open::Text {
                    start: self.characters,
                    cited: Vec::new(),
                    bytes: 0,
                };
                self.text(block.text.as_deref().unwrap_or_default(), put);
                for raw in block.citations.iter().flatten() {
                    self.cite(raw.get(), put);
                }
            }
            "thinking" => {
                say(block.thinking.as_deref(), Part::Reasoning, put);
                let signature = block.signature.as_deref().unwrap_or_default();
                self.open = Open::Thinking(signature.to_owned());
            }
            "redacted_thinking" => {
                let seal = Seal {
                    maker: Format::Anthropic,
                    redacted: true,
                    value: block.data.as_deref().unwrap_or_default(),
                };
                put(0, Part::Sealed(seal));
            }
            "tool_use" => self.call(block, put),
            _ => {}
        }
    }

    fn call(&mut self, block: &Block<'_>, put: &mut Put<'_>) {
        let name = block.name.as_deref().unwrap_or_default();
        if self.way.answer == Some(name) {
            self.answered = true;
            self.open = Open::Answer;
        } else {
            let name = self.way.names.own(name);
            let key = self.calls;
            self.calls += 1;
            let custom = self.way.custom.iter().any(|known| known == name);
            put(
                0,
                Part::Call {
                    key,
                    id: block.id.as_deref().unwrap_or_default(),
                    name,
                    custom,
                    seal: None,
                },
            );
            self.open = Open::Call {
                key,
                free: custom.then(String::new),
            };
        }
        let input = block.input.map(RawValue::get);
        let some = |input: &&str| input.bytes().any(|byte| !b"{} \t\r\n".contains(&byte));
        if let Some(input) = input.filter(some) {
            self.argue(self.index, input, put);
        }
    }

    fn text(&mut self, text: &str, put: &mut Put<'_>) {
        self.characters += text.chars().count() as u64;
        say(Some(text), Part::Text, put);
    }

    fn delta(&mut self, index: Option<u64>, delta: &Delta<'_>, put: &mut Put<'_>) {
        self.text(delta.text.as_deref().unwrap_or_default(), put);
        say(delta.thinking.as_deref(), Part::Reasoning, put);
        if let (Open::Thinking(kept), Some(signature)) = (&mut self.open, &delta.signature) {
            kept.push_str(signature);
        }
        if let Some(piece) = delta.partial_json.as_deref() {
            self.argue(index, piece, put);
        }
        if let Some(raw) = delta.citation {
            self.cite(raw.get(), put);
        }
    }

    fn cite(&mut self, raw: &str, put: &mut Put<'_>) {
        match &mut self.open {
            Open::Text { cited, bytes, .. } if *bytes + raw.len() <= MOST_CITED => {
                *bytes += raw.len();
                cited.push(raw.to_owned());
            }
            _ => cite(raw, None, put),
        }
    }

    /// The call that an event is about, where it is not the block that began last.
    fn beside(&self, index: Option<u64>) -> Option<usize> {
        let index = index.filter(|_| index != self.index)?;
        self.beside.iter().position(|(at, _)| *at == index)
    }

    fn argue(&mut self, index: Option<u64>, piece: &str, put: &mut Put<'_>) {
        let beside = self.beside(index);
        let open = match beside.and_then(|place| self.beside.get_mut(place)) {
            Some((_, open)) => open,
            None => &mut self.open,
        };
        match open {
            _ if piece.is_empty() => {}
            Open::Answer => self.text(piece, put),
            Open::Call {
                free: Some(held), ..
            } => held.push_str(piece),
            Open::Call { key, free: None } => put(0, Part::Arguments { key: *key, piece }),
            Open::None | Open::Text { .. } | Open::Thinking(_) => {}
        }
    }

    fn stop(&mut self, index: Option<u64>, put: &mut Put<'_>) {
        let open = match self.beside(index) {
            Some(place) => self.beside.remove(place).1,
            None => std::mem::take(&mut self.open),
        };
        self.stopped(open, put);
    }

    fn stop_all(&mut self, put: &mut Put<'_>) {
        for (_, open) in std::mem::take(&mut self.beside) {
            self.stopped(open, put);
        }
        let open = std::mem::take(&mut self.open);
        self.stopped(open, put);
    }

    fn stopped(&self, open: Open, put: &mut Put<'_>) {
        match open {
            Open::Thinking(signature) if !signature.is_empty() => {
                let seal = Seal {
                    maker: Format::Anthropic,
                    redacted: false,
                    value: &signature,
                };
                put(0, Part::Sealed(seal));
            }
            Open::Call { key, free } => {
                if let Some(held) = free.filter(|held| !held.is_empty()) {
                    let piece = &*crate::convert::chat::compose::free_input(&held);
                    put(0, Part::Arguments { key, piece });
                }
                put(0, Part::CallEnd { key });
            }
            Open::Text { start, cited, .. } => {
                for raw in cited {
                    cite(&raw, Some((start, self.characters)), put);
                }
            }
            Open::None | Open::Answer | Open::Thinking(_) => {}
        }
    }

    fn finish(&mut self, delta: &Delta<'_>, put: &mut Put<'_>) {
        self.stop_all(put);
        let Some(word) = delta.stop_reason.as_deref() else {
            return;
        };
        let reason = match word {
            "end_turn" => Reason::Stop,
            "stop_sequence" => {
                Reason::StopSequence(delta.stop_sequence.as_deref().unwrap_or_default())
            }
            "max_tokens" => Reason::Length,
            "tool_use" if self.answered && self.calls == 0 => Reason::Stop,
            "tool_use" => Reason::ToolCalls,
            "pause_turn" => Reason::Paused,
            "refusal" => Reason::Refused,
            "model_context_window_exceeded" => Reason::ContextFull,
            _ => Reason::Other,
        };
        put(0, Part::Finish(Finish { reason, raw: word }));
    }
}

fn cite(raw: &str, span: Option<(u64, u64)>, put: &mut Put<'_>) {
    let Ok(cited) = serde_json::from_str::<Cited<'_>>(raw) else {
        return;
    };
    let url = cited.url.or(cited.source).unwrap_or_default();
    let title = cited.title.or(cited.document_title).unwrap_or_default();
    put(
        0,
        Part::Citation {
            url: &url,
            title: &title,
            span,
            raw,
        },
    );
}
