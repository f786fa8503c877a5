//! Says an answer in chat's dialect: as chunks, or as one completion (PROTOCOLS §3.2, §3.3; CASES C11, C12).
//!
//! The role comes once a choice, before everything else; a call's index counts from 0 without gaps, its id and name come once.
//! What ends a choice comes at the end, when it is known whether tools were called.
//!
//! What OpenAI's document has no place for stands beside: thoughts in `reasoning_content`, their seals in
//! `reasoning_details`, a call's seal in `extra_content.google`, images in `images`, and what was cited that has no URL in
//! `citations`, in the upstream's own words. Items of such lists are numbered, as clients gather lists by `index`.

mod choice;
mod counts;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};

use self::choice::{Call, Choice, Place, kept};
use self::counts::counts;
use super::AnswerShape;
use crate::convert::Format;
use crate::convert::node::{one_line, quote_into};
use crate::convert::part::{Head, Part, Writer, no_place};
use crate::convert::seal::Seal;
use crate::dialect::Form;
use crate::sse::DONE;
use crate::usage::Usage;

/// Choices above this index are not told apart from it.
const MAX_CHOICE: usize = 127;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct ChatWriter {
    head: Head,
    asked: AnswerShape,
    /// The members that begin every chunk, up to the choices; made when the time of the answer is known.
    constant: String,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    /// The members of the delta that is being written.
    delta: String,
}

impl ChatWriter {
    /// Nothing was said yet.
    pub(crate) fn new(asked: AnswerShape, head: Head) -> Self {
        Self {
            head,
            asked,
            constant: String::new(),
            choices: Vec::new(),
            usage: None,
            delta: String::new(),
        }
    }

    fn whole(&self) -> bool {
        self.head.form == Form::Whole
    }

    /// `{"id":…,"object":…,"created":…,"model":…,`
    fn begin(&mut self, created: Option<i64>) {
        if !self.constant.is_empty() {
            return;
        }
        let object = if self.whole() {
            "chat.completion"
        } else {
            "chat.completion.chunk"
        };
        let mut constant = String::from(r#"{"id":"#);
        quote_into(&mut constant, &format!("chatcmpl-{}", self.head.seed));
        let created = created.unwrap_or(self.head.created);
        // writing to a string cannot fail
        let _ = write!(
            constant,
            r#","object":"{object}","created":{created},"model":"#
        );
        quote_into(&mut constant, &self.head.model);
        constant.push_str(r#","choices":["#);
        self.constant = constant;
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        while self.choices.len() <= index {
            self.choices.push(Choice::default());
        }
        self.choices.get_mut(index)
    }

    /// Says `self.delta` of a choice.
    fn say(&mut self, index: usize, logprobs: Option<&str>, out: &mut BytesMut) {
        self.begin(None);
        out.reserve(self.constant.len() + self.delta.len() + 96);
        out.put_slice(b"data: ");
        out.put_slice(self.constant.as_bytes());
        let _ = write!(out, r#"{{"index":{index},"delta":{{"#);
        out.put_slice(self.delta.as_bytes());
        self.delta.clear();
        match logprobs {
            Some(items) => {
                out.put_slice(br#"},"logprobs":{"content":["#);
                out.put_slice(one_line(items).as_bytes());
                out.put_slice(br#"],"refusal":null},"finish_reason":null}]"#);
            }
            None => out.put_slice(br#"},"logprobs":null,"finish_reason":null}]"#),
        }
        self.close(out);
    }

    /// Ends a chunk behind its choices.
    fn close(&self, out: &mut BytesMut) {
        if self.asked.include_usage {
            out.put_slice(br#","usage":null"#);
        }
        out.put_slice(b"}\n\n");
    }

    /// Says the role, once a choice.
    fn role(&mut self, index: usize, out: &mut BytesMut) {
        let whole = self.whole();
        let Some(choice) = self.choice(index) else {
            return;
        };
        if std::mem::replace(&mut choice.begun, true) || whole {
            return;
        }
        self.delta
            .push_str(r#""role":"assistant","content":"","refusal":null"#);
        self.say(index, None, out);
    }

    fn member(&mut self, name: &str, text: &str, index: usize, out: &mut BytesMut) {
        let _ = write!(self.delta, r#""{name}":"#);
        quote_into(&mut self.delta, text);
        self.say(index, None, out);
    }

    /// Says an item of a list that clients know by this name. They gather lists by `index`.
    fn item(&mut self, name: &str, number: usize, item: &str, index: usize, out: &mut BytesMut) {
        let inside = item.strip_prefix('{').unwrap_or(item);
        let _ = write!(self.delta, r#""{name}":[{{"index":{number},{inside}]"#);
        self.say(index, None, out);
    }

    fn sealed(&mut self, index: usize, seal: Seal<'_>, out: &mut BytesMut) {
        let whole = self.whole();
        let Some(choice) = self.choice(index) else {
            return;
        };
        let text = std::mem::take(&mut choice.thought);
        let said = seal.said_in(Format::Chat);
        let mut item = String::new();
        if text.is_empty() || seal.redacted {
            item.push_str(r#"{"type":"reasoning.encrypted","data":"#);
        } else {
            item.push_str(r#"{"type":"reasoning.text","text":"#);
            quote_into(&mut item, &text);
            item.push_str(r#","signature":"#);
        }
        quote_into(&mut item, &said);
        item.push('}');
        let number = choice.details.count;
        choice.details.add(&item, whole);
        if !whole {
            self.item("reasoning_details", number, &item, index, out);
        }
    }

    fn call(&mut self, index: usize, mut call: Call, out: &mut BytesMut) {
        let (whole, older) = (self.whole(), self.asked.functions);
        let seed = self.head.seed.clone();
        let Some(choice) = self.choice(index) else {
            return;
        };
        if choice.calls.iter().any(|known| known.key == call.key) {
            return;
        }
        if call.id.is_empty() {
            call.id = format!("call_{seed}_{}", choice.calls.len());
        }
        choice.thought.clear();
        let number = choice.calls.len();
        let mut delta = String::new();
        call.begin(Place::of(number, older), &mut delta);
        choice.calls.push(call);
        if !whole {
            self.delta.push_str(&delta);
            self.say(index, None, out);
        }
    }

    fn arguments(&mut self, index: usize, key: u32, piece: &str, out: &mut BytesMut) {
        let (whole, older) = (self.whole(), self.asked.functions);
        let mut delta = std::mem::take(&mut self.delta);
        let Some(choice) = self.choice(index) else {
            return;
        };
        let Some(number) = choice.calls.iter().position(|call| call.key == key) else {
            return;
        };
        let Some(call) = choice.calls.get_mut(number).filter(|_| !piece.is_empty()) else {
            return;
        };
        call.argued = true;
        if whole {
            call.arguments.push_str(piece);
            return;
        }
        call.piece(Place::of(number, older), piece, &mut delta);
        self.delta = delta;
        self.say(index, None, out);
    }

    /// A call without arguments has none: `{}`.
    fn call_end(&mut self, index: usize, key: u32, out: &mut BytesMut) {
        let Some(choice) = self.choice(index) else {
            return;
        };
        let call = choice.calls.iter_mut().find(|call| call.key == key);
        let Some(call) = call.filter(|call| !call.ended) else {
            return;
        };
        call.ended = true;
        if !call.argued && !call.custom {
            self.arguments(index, key, "{}", out);
        }
    }

    fn finish_chunks(&mut self, out: &mut BytesMut) {
        for index in 0..self.choices.len() {
            let older = self.asked.functions;
            let Some(choice) = self.choices.get(index) else {
                continue;
            };
            let mut last = format!(r#"{{"index":{index},"delta":{{}},"logprobs":null"#);
            choice.ending(older, &mut last);
            last.push_str("}]");
            out.put_slice(b"data: ");
            out.put_slice(self.constant.as_bytes());
            out.put_slice(last.as_bytes());
            self.close(out);
        }
    }

    fn document(&self, out: &mut BytesMut) {
        let mut body = self.constant.clone();
        for (index, choice) in self.choices.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            let _ = write!(body, r#"{{"index":{index},"message":{{"role":"assistant","#);
            choice.message(self.asked.functions, &mut body);
            body.push('}');
            if choice.logprobs.is_empty() {
                body.push_str(r#","logprobs":null"#);
            } else {
                let items = one_line(&choice.logprobs);
                let _ = write!(
                    body,
                    r#","logprobs":{{"content":[{items}],"refusal":null}}"#
                );
            }
            choice.ending(self.asked.functions, &mut body);
            body.push('}');
        }
        body.push(']');
        if let Some(usage) = &self.usage {
            body.push_str(r#","usage":"#);
            body.push_str(&counts(usage));
        }
        body.push('}');
        out.put_slice(body.as_bytes());
    }
}

impl Writer for ChatWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        let index = usize::try_from(choice).map_or(MAX_CHOICE, |index| index.min(MAX_CHOICE));
        if let Part::Usage(usage) = part {
            self.usage = Some(usage);
            return;
        }
        self.begin(match part {
            Part::Begin { created } => created,
            _ => None,
        });
        self.role(index, out);
        let whole = self.whole();
        let Some(state) = self.choice(index) else {
            return;
        };
        match part {
            Part::Text(text) => {
                state.thought.clear();
                state.characters += text.chars().count() as u64;
                if whole {
                    state.text.push_str(text);
                } else {
                    self.member("content", text, index, out);
                }
            }
            Part::Reasoning(text) => {
                state.thought.push_str(text);
                if whole {
                    state.reasoning.push_str(text);
                } else {
                    self.member("reasoning_content", text, index, out);
                }
            }
            Part::Refusal(text) => {
                if whole {
                    state.refusal.push_str(text);
                } else {
                    self.member("refusal", text, index, out);
                }
            }
            Part::Sealed(seal) => self.sealed(index, seal, out),
            Part::Call {
                key,
                id,
                name,
                custom,
                seal,
            } => {
                let call = Call {
                    key,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    custom,
                    arguments: String::new(),
                    seal: seal.map(|seal| seal.said_in(Format::Chat).into_owned()),
                    argued: false,
                    ended: false,
                };
                self.call(index, call, out);
            }
            Part::Arguments { key, piece } => self.arguments(index, key, piece, out),
            Part::CallEnd { key } => self.call_end(index, key, out),
            Part::Citation {
                url,
                title,
                span,
                raw,
            } => {
                let (name, list, item) = if url.is_empty() {
                    (
                        "citations",
                        &mut state.citations,
                        one_line(raw).into_owned(),
                    )
                } else {
                    let span = span.unwrap_or((state.characters, state.characters));
                    (
                        "annotations",
                        &mut state.annotations,
                        citation(url, title, span),
                    )
                };
                let number = list.count;
                list.add(&item, whole);
                if !whole {
                    self.item(name, number, &item, index, out);
                }
            }
            Part::Logprobs(items) => {
                if whole {
                    if !state.logprobs.is_empty() {
                        state.logprobs.push(',');
                    }
                    state.logprobs.push_str(items);
                } else {
                    self.say(index, Some(items), out);
                }
            }
            Part::Media { mime, .. } if !mime.starts_with("image/") => {
                let note = Part::Text(&no_place(mime));
                self.part(choice, note, out);
            }
            Part::Media { mime, data } => {
                let mut item = String::from(r#"{"type":"image_url","image_url":{"url":"#);
                quote_into(&mut item, &format!("data:{mime};base64,{data}"));
                item.push_str("}}");
                let number = state.images.count;
                state.images.add(&item, whole);
                if !whole {
                    self.item("images", number, &item, index, out);
                }
            }
            Part::Finish(finish) => state.finish = Some(kept(finish)),
            Part::Begin { .. } | Part::Usage(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.begin(None);
        for index in 0..self.choices.len().max(1) {
            self.role(index, out);
            let choice = self.choices.get(index).filter(|choice| !choice.broken());
            let calls = choice.map(|choice| &choice.calls);
            let keys: Vec<u32> = calls.into_iter().flatten().map(|call| call.key).collect();
            for key in keys {
                self.call_end(index, key, out);
            }
        }
        if self.whole() {
            self.document(out);
            return;
        }
        self.finish_chunks(out);
        if let Some(usage) = self.usage.filter(|_| self.asked.include_usage) {
            out.put_slice(b"data: ");
            out.put_slice(self.constant.as_bytes());
            out.put_slice(br#"],"usage":"#);
            out.put_slice(counts(&usage).as_bytes());
            out.put_slice(b"}\n\n");
        }
        out.put_slice(DONE);
    }

    fn kept(&self) -> usize {
        self.choices.iter().map(Choice::kept).sum()
    }
}

/// A citation; one whose place was not told stands where the text had come to.
fn citation(url: &str, title: &str, (start, end): (u64, u64)) -> String {
    let mut item = format!(
        r#"{{"type":"url_citation","url_citation":{{"start_index":{start},"end_index":{end},"url":"#
    );
    quote_into(&mut item, url);
    item.push_str(r#","title":"#);
    quote_into(&mut item, title);
    item.push_str("}}");
    item
}
