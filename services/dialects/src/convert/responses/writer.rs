//! Says an answer as the Responses API does: as events, or as one response (PROTOCOLS §5.2, §5.3).
//!
//! Every item is opened, grows and is closed; a message is closed before a call begins, while calls may grow side by side, told
//! apart by their `output_index`. The last event repeats every item. Nothing of it is kept anywhere: `store` is false.

mod calls;
mod item;
mod saying;

use std::fmt::Write as _;

use bytes::BytesMut;

use self::item::{Call, Piece, counts};
pub(crate) use self::saying::Saying;

use crate::carry::Progress;
use crate::convert::Format;
use crate::convert::node::{one_line, quote_into};
use crate::convert::part::{Head, Part, Reason, Writer, no_place};
use crate::convert::seal::Seal;
use crate::dialect::Form;
use crate::sse::write_event;
use crate::usage::Usage;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct ResponsesWriter {
    saying: Saying,
    whole: bool,
    seed: String,
    model: String,
    created: i64,
    begun: bool,
    sequence: u64,
    /// The items, complete ones as JSON, by `output_index`.
    items: Vec<String>,
    open: Open,
    calls: Vec<Call>,
    finish: Option<(Reason<'static>, String)>,
    usage: Option<Usage>,
}

/// The item that is open beside calls.
#[derive(Debug)]
enum Open {
    None,
    Reasoning {
        index: usize,
        text: String,
    },
    Message {
        index: usize,
        /// Complete parts.
        parts: Vec<String>,
        /// The part that is open.
        part: Option<Piece>,
    },
}

impl ResponsesWriter {
    /// Nothing was said yet.
    pub(crate) fn new(saying: Saying, head: Head) -> Self {
        Self {
            saying,
            whole: head.form == Form::Whole,
            seed: head.seed,
            model: head.model,
            created: head.created,
            begun: false,
            sequence: 0,
            items: Vec::new(),
            open: Open::None,
            calls: Vec::new(),
            finish: None,
            usage: None,
        }
    }

    /// Writes an event; `members` are JSON with a comma before each.
    fn event(&mut self, kind: &str, members: &str, out: &mut BytesMut) {
        if self.whole {
            return;
        }
        let number = self.sequence;
        self.sequence += 1;
        let data = format!(r#"{{"type":"{kind}","sequence_number":{number}{members}}}"#);
        write_event(out, Some(kind.as_bytes()), &data);
    }

    /// The response as it stands.
    fn response(&self, status: &str, details: &str, output: &str, usage: &str) -> String {
        let mut out = String::from(r#"{"id":"#);
        quote_into(&mut out, &format!("resp_{}", self.seed));
        let created = self.created;
        let _ = write!(
            out,
            r#","object":"response","created_at":{created},"completed_at":null,"status":"{status}","background":false,"error":null,"incomplete_details":{details},"model":"#
        );
        quote_into(&mut out, &self.model);
        let mut echo = self.saying.echo.clone();
        if let Some((_, raw)) = self.finish.as_ref().filter(|(_, raw)| !raw.is_empty()) {
            echo.push_str(r#","native_finish_reason":"#);
            quote_into(&mut echo, raw);
        }
        let _ = write!(
            out,
            r#","output":[{output}],"previous_response_id":null,"store":false,"usage":{usage}{echo}}}"#
        );
        out
    }

    fn begin(&mut self, created: Option<i64>, out: &mut BytesMut) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.created = created.unwrap_or(self.created);
        if self.whole {
            return;
        }
        let response = self.response("in_progress", "null", "", "null");
        let members = format!(r#","response":{response}"#);
        self.event("response.created", &members, out);
        self.event("response.in_progress", &members, out);
    }

    /// An item begins at the next place.
    fn added(&mut self, item: &str, out: &mut BytesMut) -> usize {
        let index = self.items.len();
        self.items.push(String::new());
        let members = format!(r#","output_index":{index},"item":{item}"#);
        self.event("response.output_item.added", &members, out);
        index
    }

    /// An item is complete.
    fn done(&mut self, index: usize, item: String, out: &mut BytesMut) {
        let members = format!(r#","output_index":{index},"item":{item}"#);
        self.event("response.output_item.done", &members, out);
        if let Some(place) = self.items.get_mut(index) {
            *place = item;
        }
    }

    fn id(&self, kind: &str, index: usize) -> String {
        format!("{kind}_{}_{index}", self.seed)
    }

    fn reasoning(&mut self, piece: &str, out: &mut BytesMut) {
        if !matches!(self.open, Open::Reasoning { .. }) {
            self.close(None, out);
            let id = self.id("rs", self.items.len());
            let item = format!(r#"{{"id":"{id}","type":"reasoning","summary":[]}}"#);
            let index = self.added(&item, out);
            let members = format!(
                r#","item_id":"{id}","output_index":{index},"summary_index":0,"part":{{"type":"summary_text","text":""}}"#
            );
            self.event("response.reasoning_summary_part.added", &members, out);
            self.open = Open::Reasoning {
                index,
                text: String::new(),
            };
        }
        let Open::Reasoning { index, text } = &mut self.open else {
            return;
        };
        text.push_str(piece);
        let index = *index;
        let id = self.id("rs", index);
        let mut members =
            format!(r#","item_id":"{id}","output_index":{index},"summary_index":0,"delta":"#);
        quote_into(&mut members, piece);
        self.event("response.reasoning_summary_text.delta", &members, out);
    }

    /// Ends the reasoning that is open, under its seal; a seal alone is an item of its own.
    fn sealed(&mut self, seal: Seal<'_>, out: &mut BytesMut) {
        let said = seal.said_in(Format::Responses);
        if matches!(self.open, Open::Reasoning { .. }) && !seal.redacted {
            self.close(Some(&said), out);
            return;
        }
        self.close(None, out);
        let id = self.id("rs", self.items.len());
        let item = format!(r#"{{"id":"{id}","type":"reasoning","summary":[]}}"#);
        let index = self.added(&item, out);
        let mut item =
            format!(r#"{{"id":"{id}","type":"reasoning","summary":[],"encrypted_content":"#);
        quote_into(&mut item, &said);
        item.push('}');
        self.done(index, item, out);
    }

    /// A part of a message is open, of this kind.
    fn part_open(&mut self, refusal: bool, out: &mut BytesMut) {
        if let Open::Message {
            part: Some(open), ..
        } = &self.open
            && open.refusal == refusal
        {
            return;
        }
        if matches!(self.open, Open::Message { .. }) {
            self.part_done(out);
        } else {
            self.close(None, out);
            let id = self.id("msg", self.items.len());
            let item = format!(
                r#"{{"id":"{id}","type":"message","status":"in_progress","role":"assistant","content":[]}}"#
            );
            let index = self.added(&item, out);
            self.open = Open::Message {
                index,
                parts: Vec::new(),
                part: None,
            };
        }
        let empty = Piece {
            refusal,
            ..Piece::default()
        };
        let json = empty.json();
        if let Open::Message { part, .. } = &mut self.open {
            *part = Some(empty);
        }
        let place = self.place();
        self.event(
            "response.content_part.added",
            &format!(r#"{place},"part":{json}"#),
            out,
        );
    }

    /// Where the open part stands, as members.
    fn place(&self) -> String {
        match &self.open {
            Open::Message { index, parts, .. } => {
                let (id, part) = (self.id("msg", *index), parts.len());
                format!(r#","item_id":"{id}","output_index":{index},"content_index":{part}"#)
            }
            _ => String::new(),
        }
    }

    fn text(&mut self, refusal: bool, piece: &str, out: &mut BytesMut) {
        self.part_open(refusal, out);
        if let Open::Message {
            part: Some(part), ..
        } = &mut self.open
        {
            part.text.push_str(piece);
        }
        if self.whole {
            return;
        }
        let mut members = self.place();
        members.push_str(r#","delta":"#);
        quote_into(&mut members, piece);
        if refusal {
            self.event("response.refusal.delta", &members, out);
        } else {
            members.push_str(r#","logprobs":[]"#);
            self.event("response.output_text.delta", &members, out);
        }
    }

    fn part_done(&mut self, out: &mut BytesMut) {
        let place = self.place();
        let Open::Message { part, .. } = &mut self.open else {
            return;
        };
        let Some(part) = part.take() else {
            return;
        };
        let json = part.json();
        let mut members = place.clone();
        if part.refusal {
            members.push_str(r#","refusal":"#);
            quote_into(&mut members, &part.text);
            self.event("response.refusal.done", &members, out);
        } else {
            members.push_str(r#","text":"#);
            quote_into(&mut members, &part.text);
            let _ = write!(members, r#","logprobs":[{}]"#, part.logprobs);
            self.event("response.output_text.done", &members, out);
        }
        self.event(
            "response.content_part.done",
            &format!(r#"{place},"part":{json}"#),
            out,
        );
        if let Open::Message { parts, .. } = &mut self.open {
            parts.push(json);
        }
    }

    /// Closes what is open beside calls.
    fn close(&mut self, seal: Option<&str>, out: &mut BytesMut) {
        self.part_done(out);
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => {}
            Open::Message { index, parts, .. } => {
                let (id, content) = (self.id("msg", index), parts.join(","));
                let status = if self.broken() {
                    "incomplete"
                } else {
                    "completed"
                };
                let item = format!(
                    r#"{{"id":"{id}","type":"message","status":"{status}","role":"assistant","content":[{content}]}}"#
                );
                self.done(index, item, out);
            }
            Open::Reasoning { index, text } => {
                let id = self.id("rs", index);
                let mut quoted = String::new();
                quote_into(&mut quoted, &text);
                let place =
                    format!(r#","item_id":"{id}","output_index":{index},"summary_index":0"#);
                let members = format!(r#"{place},"text":{quoted}"#);
                self.event("response.reasoning_summary_text.done", &members, out);
                let part = format!(r#"{{"type":"summary_text","text":{quoted}}}"#);
                let members = format!(r#"{place},"part":{part}"#);
                self.event("response.reasoning_summary_part.done", &members, out);
                let mut item = format!(r#"{{"id":"{id}","type":"reasoning","summary":[{part}]"#);
                if let Some(seal) = seal {
                    item.push_str(r#","encrypted_content":"#);
                    quote_into(&mut item, seal);
                }
                if self.broken() {
                    item.push_str(r#","status":"incomplete""#);
                }
                item.push('}');
                self.done(index, item, out);
            }
        }
    }

    /// Whether the answer was broken off: what is open then stays incomplete.
    fn broken(&self) -> bool {
        matches!(&self.finish, Some((Reason::Length | Reason::Filtered, _)))
    }
}

impl Writer for ResponsesWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        if choice > 0 {
            return;
        }
        if let Part::Usage(usage) = part {
            self.usage = Some(usage);
            return;
        }
        self.begin(
            match part {
                Part::Begin { created } => created,
                _ => None,
            },
            out,
        );
        match part {
            Part::Text(text) => self.text(false, text, out),
            Part::Refusal(text) => self.text(true, text, out),
            Part::Reasoning(text) => self.reasoning(text, out),
            Part::Sealed(seal) => self.sealed(seal, out),
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
                if let Some(seal) = seal {
                    // It is the call's own, not that of the reasoning before it.
                    self.close(None, out);
                    self.sealed(seal, out);
                }
                self.call(key, id, name, custom, out);
            }
            Part::Arguments { key, piece } => self.arguments(key, piece, out),
            Part::CallEnd { key } => self.call_end(key, false, out),
            Part::Citation {
                url, title, span, ..
            } => self.cite(url, title, span, out),
            Part::Logprobs(items) => {
                self.part_open(false, out);
                if let Open::Message {
                    part: Some(part), ..
                } = &mut self.open
                {
                    if !part.logprobs.is_empty() {
                        part.logprobs.push(',');
                    }
                    part.logprobs.push_str(&one_line(items));
                }
            }
            Part::Media { mime, data } if mime.starts_with("image/") => self.image(data, out),
            Part::Media { mime, .. } => self.text(false, &no_place(mime), out),
            Part::Finish(finish) => {
                let reason = match finish.reason {
                    Reason::Length | Reason::ContextFull | Reason::Cut => Reason::Length,
                    Reason::Filtered | Reason::Refused => Reason::Filtered,
                    _ => Reason::Stop,
                };
                let plain = matches!(
                    finish.reason,
                    Reason::Stop | Reason::Length | Reason::ToolCalls
                );
                let raw = if plain { "" } else { finish.raw };
                self.finish = Some((reason, raw.to_owned()));
            }
            Part::Begin { .. } | Part::Usage(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.begin(None, out);
        self.close(None, out);
        let keys: Vec<u32> = self.calls.iter().map(|call| call.key).collect();
        for key in keys {
            self.call_end(key, self.broken(), out);
        }
        let (kind, status, details) = match &self.finish {
            Some((Reason::Length, _)) => (
                "response.incomplete",
                "incomplete",
                r#"{"reason":"max_output_tokens"}"#,
            ),
            Some((Reason::Filtered, _)) => (
                "response.incomplete",
                "incomplete",
                r#"{"reason":"content_filter"}"#,
            ),
            _ => ("response.completed", "completed", "null"),
        };
        let usage = self.usage.as_ref().map(counts);
        let output = self.items.join(",");
        let response = self.response(status, details, &output, usage.as_deref().unwrap_or("null"));
        if self.whole {
            out.extend_from_slice(response.as_bytes());
        } else {
            self.event(kind, &format!(r#","response":{response}"#), out);
        }
    }

    fn kept(&self) -> usize {
        let open = match &self.open {
            Open::None => 0,
            Open::Reasoning { text, .. } => text.len(),
            Open::Message { parts, part, .. } => {
                let parts = parts.iter().map(String::len).sum::<usize>();
                parts
                    + part
                        .as_ref()
                        .map_or(0, |part| part.text.len() + part.logprobs.len())
            }
        };
        let calls = self.calls.iter().map(|call| call.arguments.len() + 64);
        open + calls.sum::<usize>() + self.items.iter().map(String::len).sum::<usize>()
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress {
            response_id: format!("resp_{}", self.seed),
            created_at: self.created,
            model: self.model.clone(),
            next_sequence: self.sequence,
        })
    }
}
