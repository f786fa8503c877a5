//! Says an answer in Anthropic's dialect: as events, or as one message (PROTOCOLS §7.2; CASES C11, C16, C17).
//!
//! Blocks do not overlap and their indexes have no gaps: what comes while a call is open waits until that is closed: further calls,
//! then text and reasoning. Only the first choice can be said. Arguments that are no JSON object cannot stand in a message, and clients fail on
//! them while they come: they go into the member `_raw` of one, so that nothing of them is lost. Those of a stream that began as one
//! and are none after all cannot be taken back: the answer fails. Where the answer was broken off, so are they.

mod call;
mod ending;
mod later;
mod shape;

use std::fmt::Write as _;

use bytes::BytesMut;

use self::call::{Call, call_id};
use self::ending::{citation, counts, word};
use self::later::Later;
use self::shape::Shape;
use crate::convert::Format;
use crate::convert::node::quote_into;
use crate::convert::part::{Head, Part, Writer, no_place};
use crate::convert::seal::Seal;
use crate::dialect::Form;
use crate::sse::write_event;
use crate::usage::Usage;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct AnthropicWriter {
    whole: bool,
    seed: String,
    model: String,
    begun: bool,
    /// Index of the block that is open, or of the next one.
    index: usize,
    open: Open,
    calls: Vec<Call>,
    /// Blocks of a whole message.
    blocks: Vec<String>,
    /// The text of the open block of a whole message.
    text: String,
    /// What is cited in it, JSON, with commas between.
    cited: String,
    /// What waits until no call goes on.
    later: Vec<Later>,
    /// Reasoning was said that nobody has sealed yet.
    unsealed: bool,
    /// The caller asked for thinking, and knows its blocks.
    thinks: bool,
    /// The upstream's dialect: it made what nobody sealed.
    maker: Format,
    finish: Option<(&'static str, String, String)>,
    refused: bool,
    usage: Option<Usage>,
    data: String,
}

/// The block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    None,
    Text,
    Thinking,
    /// A call, by its place.
    Call(usize),
}

impl AnthropicWriter {
    /// Nothing was said yet. `thinks`: the caller asked for thinking; `maker`: the upstream's dialect.
    pub(crate) fn new(head: &Head, thinks: bool, maker: Format) -> Self {
        Self {
            whole: head.form == Form::Whole,
            seed: head.seed.clone(),
            model: head.model.clone(),
            begun: false,
            index: 0,
            open: Open::None,
            calls: Vec::new(),
            blocks: Vec::new(),
            text: String::new(),
            cited: String::new(),
            later: Vec::new(),
            unsealed: false,
            thinks,
            maker,
            finish: None,
            refused: false,
            usage: None,
            data: String::new(),
        }
    }

    /// The members of a message up to its content.
    fn head(&self) -> String {
        let mut out = String::from(r#"{"id":"#);
        quote_into(&mut out, &format!("msg_{}", self.seed));
        out.push_str(r#","type":"message","role":"assistant","model":"#);
        quote_into(&mut out, &self.model);
        out
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.begun, true) || self.whole {
            return;
        }
        let data = format!(
            r#"{{"type":"message_start","message":{},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":0,"output_tokens":0}}}}}}"#,
            self.head()
        );
        write_event(out, Some(b"message_start"), &data);
    }

    /// Says a block's beginning, whole or as an event.
    fn start(&mut self, block: &str, out: &mut BytesMut) {
        if !self.whole {
            let index = self.index;
            let data = format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
            );
            write_event(out, Some(b"content_block_start"), &data);
        }
    }

    fn delta(&mut self, kind: &str, member: &str, text: &str, out: &mut BytesMut) {
        let index = self.index;
        self.data.clear();
        // writing to a string cannot fail
        let _ = write!(
            self.data,
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":"#
        );
        quote_into(&mut self.data, text);
        self.data.push_str("}}");
        write_event(out, Some(b"content_block_delta"), &self.data);
    }

    fn stop(&mut self, out: &mut BytesMut) {
        if !self.whole {
            let data = format!(r#"{{"type":"content_block_stop","index":{}}}"#, self.index);
            write_event(out, Some(b"content_block_stop"), &data);
        }
        self.index += 1;
        self.open = Open::None;
    }

    /// Closes the block that is open; of calls all that began before the next block.
    fn close(&mut self, out: &mut BytesMut) {
        match self.open {
            Open::None => {}
            Open::Text => {
                if self.whole {
                    let mut block = String::from(r#"{"type":"text","text":"#);
                    quote_into(&mut block, &std::mem::take(&mut self.text));
                    let cited = std::mem::take(&mut self.cited);
                    if !cited.is_empty() {
                        let _ = write!(block, r#","citations":[{cited}]"#);
                    }
                    block.push('}');
                    self.blocks.push(block);
                }
                self.stop(out);
            }
            Open::Thinking => self.seal(None, out),
            Open::Call(_) => self.stop(out),
        }
    }

    /// Ends the thinking that is open, under its maker's seal: an empty one where none came, which tells the maker alone.
    fn seal(&mut self, seal: Option<Seal<'_>>, out: &mut BytesMut) {
        let none = Seal {
            maker: self.maker,
            redacted: false,
            value: "",
        };
        let signature = seal.unwrap_or(none).said_in(Format::Anthropic);
        if self.whole {
            let mut block = String::from(r#"{"type":"thinking","thinking":"#);
            quote_into(&mut block, &std::mem::take(&mut self.text));
            block.push_str(r#","signature":"#);
            quote_into(&mut block, &signature);
            block.push('}');
            self.blocks.push(block);
        } else {
            self.delta("signature_delta", "signature", &signature, out);
        }
        self.unsealed = false;
        self.stop(out);
    }

    /// Opens a block of text or thinking, if none of the kind is open.
    fn open(&mut self, kind: Open, out: &mut BytesMut) {
        if self.open == kind {
            return;
        }
        // What waits belongs before it.
        self.say_calls(true, out);
        self.close(out);
        self.open = kind;
        let block = match kind {
            Open::Thinking => r#"{"type":"thinking","thinking":"","signature":""}"#,
            _ => r#"{"type":"text","text":""}"#,
        };
        self.start(block, out);
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        self.open(Open::Text, out);
        if self.whole {
            self.text.push_str(text);
        } else {
            self.delta("text_delta", "text", text, out);
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut BytesMut) {
        self.open(Open::Thinking, out);
        self.unsealed = true;
        if self.whole {
            self.text.push_str(text);
        } else {
            self.delta("thinking_delta", "thinking", text, out);
        }
    }

    fn sealed(&mut self, seal: Seal<'_>, out: &mut BytesMut) {
        if self.open == Open::Thinking && self.unsealed && !seal.redacted {
            self.seal(Some(seal), out);
            return;
        }
        self.say_calls(true, out);
        self.close(out);
        let said = seal.said_in(Format::Anthropic);
        if seal.redacted {
            let mut block = String::from(r#"{"type":"redacted_thinking","data":"#);
            quote_into(&mut block, &said);
            block.push('}');
            self.start(&block, out);
            if self.whole {
                self.blocks.push(block);
            }
            self.stop(out);
        } else {
            self.empty_thinking(&said, out);
        }
    }

    /// A seal that belongs to what follows: a block of thinking without a text.
    fn empty_thinking(&mut self, signature: &str, out: &mut BytesMut) {
        self.open = Open::Thinking;
        self.start(r#"{"type":"thinking","thinking":"","signature":""}"#, out);
        if self.whole {
            let mut block = String::from(r#"{"type":"thinking","thinking":"","signature":"#);
            quote_into(&mut block, signature);
            block.push('}');
            self.blocks.push(block);
        } else {
            self.delta("signature_delta", "signature", signature, out);
        }
        self.stop(out);
    }

    /// Says what can be said of the calls, in the order in which they began: of one after another, the next when the one before
    /// is complete. `all`: nothing more comes of those that began.
    fn say_calls(&mut self, all: bool, out: &mut BytesMut) {
        for place in 0..self.calls.len() {
            let Some(call) = self.calls.get(place) else {
                return;
            };
            if call.said {
                continue;
            }
            let done = call.ended || all;
            if self.whole {
                if done {
                    self.whole_call(place, out);
                    continue;
                }
                return;
            }
            if self.open != Open::Call(place) {
                self.close(out);
                self.start_call(place, out);
            }
            let call = self.calls.get_mut(place);
            let piece = call.map(|call| call.next(done)).unwrap_or_default();
            if !piece.is_empty() {
                self.delta("input_json_delta", "partial_json", &piece, out);
            }
            if !done {
                return;
            }
            if let Some(call) = self.calls.get_mut(place) {
                call.said = true;
            }
            self.stop(out);
        }
    }

    fn start_call(&mut self, place: usize, out: &mut BytesMut) {
        let Some(call) = self.calls.get_mut(place) else {
            return;
        };
        if let Some(signature) = call.seal.take() {
            self.empty_thinking(&signature, out);
        }
        let Some(call) = self.calls.get(place) else {
            return;
        };
        let block = call.block("{}");
        self.open = Open::Call(place);
        self.start(&block, out);
    }

    fn whole_call(&mut self, place: usize, out: &mut BytesMut) {
        self.close(out);
        let signature = self.calls.get_mut(place).and_then(|call| call.seal.take());
        if let Some(signature) = signature {
            self.empty_thinking(&signature, out);
        }
        if let Some(call) = self.calls.get_mut(place) {
            call.said = true;
            let block = call.block(&call.input());
            self.blocks.push(block);
            self.index += 1;
        }
    }

    /// Cites something in the text that is open; without one there is no place for it.
    fn cite(&mut self, citation: &str, out: &mut BytesMut) {
        if self.open != Open::Text {
            return;
        }
        if self.whole {
            if !self.cited.is_empty() {
                self.cited.push(',');
            }
            self.cited.push_str(citation);
            return;
        }
        let data = format!(
            r#"{{"type":"content_block_delta","index":{},"delta":{{"type":"citations_delta","citation":{citation}}}}}"#,
            self.index
        );
        write_event(out, Some(b"content_block_delta"), &data);
    }

    /// `stop_reason` and `stop_sequence`, as members.
    fn ending(&self, out: &mut String) {
        let (word, sequence, raw) = match &self.finish {
            Some((word, sequence, raw)) => (*word, sequence.as_str(), raw.as_str()),
            None => ("end_turn", "", ""),
        };
        let word = match word {
            "end_turn" if self.refused => "refusal",
            "end_turn" | "stop_sequence" if !self.calls.is_empty() => "tool_use",
            // Clients would wait for calls that never come.
            "tool_use" if self.calls.is_empty() => "end_turn",
            word => word,
        };
        let _ = write!(out, r#""stop_reason":"{word}","stop_sequence":"#);
        if word == "stop_sequence" && !sequence.is_empty() {
            quote_into(out, sequence);
        } else {
            out.push_str("null");
        }
        if !raw.is_empty() {
            out.push_str(r#","native_stop_reason":"#);
            quote_into(out, raw);
        }
    }
}

impl Writer for AnthropicWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        if choice > 0 {
            return;
        }
        if let Part::Usage(usage) = part {
            self.usage = Some(usage);
            return;
        }
        self.begin(out);
        match part {
            Part::Text(text) if !self.calling() => self.text(text, out),
            Part::Reasoning(text) if !self.calling() => self.reasoning(text, out),
            Part::Text(text) => self.beside(Later::Text(text.to_owned()), out),
            Part::Reasoning(text) => self.beside(Later::Reasoning(text.to_owned()), out),
            Part::Refusal(text) => {
                self.refused = true;
                self.beside(Later::Text(text.to_owned()), out);
            }
            Part::Sealed(seal) => {
                let later = Later::Sealed(seal.maker, seal.redacted, seal.value.to_owned());
                self.beside(later, out);
            }
            Part::Citation { url, title, .. } if !url.is_empty() => {
                self.beside(Later::Citation(citation(url, title)), out);
            }
            Part::Call {
                key,
                id,
                name,
                custom,
                seal,
            } => {
                if self.calls.iter().any(|call| call.key == key) {
                    return;
                }
                let id = call_id(id, &self.seed, self.calls.len());
                // A seal on a call has no place here but in a block of thinking before it; a caller who did not ask for any gets none.
                let seal = seal.filter(|_| self.thinks);
                self.calls.push(Call {
                    key,
                    id,
                    name: name.to_owned(),
                    seal: seal.map(|seal| seal.said_in(Format::Anthropic).into_owned()),
                    custom,
                    arguments: String::new(),
                    shape: Shape::default(),
                    begun: false,
                    ended: false,
                    said: false,
                });
                self.say_calls(false, out);
            }
            Part::Arguments { key, piece } => {
                let call = self.calls.iter_mut().find(|call| call.key == key);
                if let Some(call) = call.filter(|call| !call.said) {
                    call.arguments.push_str(piece);
                    if !self.whole && !call.custom {
                        call.shape.read(piece);
                    }
                    self.say_calls(false, out);
                }
            }
            Part::CallEnd { key } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.key == key) {
                    call.ended = true;
                }
                self.say_calls(false, out);
                self.resume(out);
            }
            Part::Finish(finish) => self.finish = Some(word(finish)),
            Part::Media { mime, .. } => self.beside(Later::Note(no_place(mime)), out),
            // This dialect has nothing for these, nor for a citation without a URL.
            Part::Begin { .. } | Part::Citation { .. } | Part::Logprobs(_) | Part::Usage(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.begin(out);
        self.say_calls(true, out);
        self.resume(out);
        self.close(out);
        let usage = self.usage.map_or_else(
            || r#"{"input_tokens":0,"output_tokens":0}"#.to_owned(),
            |usage| counts(&usage),
        );
        let mut ending = String::new();
        self.ending(&mut ending);
        if self.whole {
            let mut body = self.head();
            let blocks = self.blocks.join(",");
            let _ = write!(body, r#","content":[{blocks}],{ending},"usage":{usage}}}"#);
            out.extend_from_slice(body.as_bytes());
            return;
        }
        let data = format!(r#"{{"type":"message_delta","delta":{{{ending}}},"usage":{usage}}}"#);
        write_event(out, Some(b"message_delta"), &data);
        write_event(out, Some(b"message_stop"), r#"{"type":"message_stop"}"#);
    }

    fn failure(&self, all: bool) -> Option<&'static str> {
        let word = self.finish.as_ref().map(|(word, ..)| *word);
        let cut = matches!(
            word,
            Some("max_tokens" | "model_context_window_exceeded" | "refusal")
        );
        let mut begun = self.calls.iter().filter(|call| call.begun);
        begun
            .any(|call| call.shape.is_broken() || (all && !cut && !call.shape.is_whole()))
            .then_some("the upstream's call of a tool has arguments that are no JSON object")
    }

    fn kept(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.arguments.len() + 64);
        let blocks = self.blocks.iter().map(String::len);
        let later = self.later.iter().map(Later::bytes);
        self.text.len()
            + self.cited.len()
            + later.sum::<usize>()
            + calls.sum::<usize>()
            + blocks.sum::<usize>()
    }
}
