//! Where blocks go: out as events, or into one document.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};

use crate::Form;
use crate::convert::anthropic::input::object;
use crate::convert::node::{Node, one_line, quote_into};
use crate::convert::part::Head;
use crate::usage::Usage;

/// A block that begins.
#[derive(Debug)]
pub(super) enum Block<'a> {
    Text,
    Thinking,
    Redacted(&'a str),
    Tool { id: &'a str, name: &'a str },
}

/// Writes blocks. One at a time.
#[derive(Debug)]
pub(super) struct Sink {
    id: String,
    model: String,
    begun: bool,
    index: u32,
    /// The event that is being made.
    line: String,
    whole: Option<Whole>,
}

/// The document: its blocks so far, and what the open one has.
#[derive(Debug, Default)]
struct Whole {
    content: String,
    /// The member of the open block that grows: its name and its value.
    member: &'static str,
    value: String,
    after: String,
    citations: Vec<String>,
}

impl Sink {
    pub(super) fn new(head: &Head) -> Self {
        Self {
            id: format!("msg_{}", head.seed),
            model: head.model.clone(),
            begun: false,
            index: 0,
            line: String::new(),
            whole: (head.form == Form::Whole).then(Whole::default),
        }
    }

    pub(super) fn kept(&self) -> usize {
        let whole = self.whole.as_ref();
        whole.map_or(0, |whole| {
            whole.content.len() + whole.value.len() + whole.after.len()
        })
    }

    fn head(&self) -> String {
        let mut head = String::from("{\"id\":");
        quote_into(&mut head, &self.id);
        head.push_str(",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
        quote_into(&mut head, &self.model);
        head
    }

    /// Begins the message, once.
    pub(super) fn begin(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.begun, true) || self.whole.is_some() {
            return;
        }
        // Nobody knows the counts yet: the last event tells them all.
        let data = format!(
            "{{\"type\":\"message_start\",\"message\":{},\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
             \"usage\":{{\"input_tokens\":0,\"output_tokens\":0}}}}}}",
            self.head()
        );
        put(out, "message_start", &data);
    }

    pub(super) fn start(&mut self, block: &Block<'_>, out: &mut BytesMut) {
        let node = match block {
            Block::Text => Node::object([("type", Node::text("text")), ("text", Node::text(""))]),
            Block::Thinking => Node::object([
                ("type", Node::text("thinking")),
                ("thinking", Node::text("")),
                ("signature", Node::text("")),
            ]),
            Block::Redacted(data) => Node::object([
                ("type", Node::text("redacted_thinking")),
                ("data", Node::text(*data)),
            ]),
            Block::Tool { id, name } => Node::object([
                ("type", Node::text("tool_use")),
                ("id", Node::text(*id)),
                ("name", Node::text(*name)),
                ("input", Node::raw("{}")),
            ]),
        };
        if let Some(whole) = &mut self.whole {
            whole.start(block);
            return;
        }
        self.event("content_block_start");
        self.line.push_str(",\"content_block\":");
        node.write(&mut self.line);
        self.line.push('}');
        put(out, "content_block_start", &self.line);
    }

    fn event(&mut self, name: &str) {
        self.line.clear();
        // writing to a string cannot fail
        let _ = write!(self.line, "{{\"type\":\"{name}\",\"index\":{}", self.index);
    }

    fn delta(&mut self, kind: &str, name: &str, text: &str, out: &mut BytesMut) {
        self.event("content_block_delta");
        let _ = write!(self.line, ",\"delta\":{{\"type\":\"{kind}\",\"{name}\":");
        quote_into(&mut self.line, text);
        self.line.push_str("}}");
        put(out, "content_block_delta", &self.line);
    }

    pub(super) fn text(&mut self, text: &str, out: &mut BytesMut) {
        match &mut self.whole {
            Some(whole) => whole.value.push_str(text),
            None => self.delta("text_delta", "text", text, out),
        }
    }

    pub(super) fn thinking(&mut self, text: &str, out: &mut BytesMut) {
        match &mut self.whole {
            Some(whole) => whole.value.push_str(text),
            None => self.delta("thinking_delta", "thinking", text, out),
        }
    }

    pub(super) fn arguments(&mut self, piece: &str, out: &mut BytesMut) {
        match &mut self.whole {
            Some(whole) => whole.value.push_str(piece),
            None => self.delta("input_json_delta", "partial_json", piece, out),
        }
    }

    pub(super) fn signature(&mut self, signature: &str, out: &mut BytesMut) {
        match &mut self.whole {
            Some(whole) => {
                whole.after.push_str(",\"signature\":");
                quote_into(&mut whole.after, signature);
            }
            None => self.delta("signature_delta", "signature", signature, out),
        }
    }

    /// A citation, JSON, of the text block that is open.
    pub(super) fn citation(&mut self, citation: &str, out: &mut BytesMut) {
        if let Some(whole) = &mut self.whole {
            whole.citations.push(citation.to_owned());
            return;
        }
        self.event("content_block_delta");
        let _ = write!(
            self.line,
            ",\"delta\":{{\"type\":\"citations_delta\",\"citation\":{citation}}}}}"
        );
        put(out, "content_block_delta", &self.line);
    }

    pub(super) fn stop(&mut self, out: &mut BytesMut) {
        match &mut self.whole {
            Some(whole) => whole.stop(),
            None => {
                self.event("content_block_stop");
                self.line.push('}');
                put(out, "content_block_stop", &self.line);
            }
        }
        self.index += 1;
    }

    /// Ends the message; `ending` are its last members.
    pub(super) fn end(&mut self, ending: &str, usage: &Usage, out: &mut BytesMut) {
        let usage = counts(usage, self.whole.is_some());
        if let Some(whole) = &self.whole {
            let document = format!(
                "{},\"content\":[{}],{ending},\"usage\":{usage}}}",
                self.head(),
                whole.content
            );
            out.put_slice(document.as_bytes());
            return;
        }
        let data =
            format!("{{\"type\":\"message_delta\",\"delta\":{{{ending}}},\"usage\":{usage}}}");
        put(out, "message_delta", &data);
        put(out, "message_stop", "{\"type\":\"message_stop\"}");
    }
}

impl Whole {
    fn start(&mut self, block: &Block<'_>) {
        if !self.content.is_empty() {
            self.content.push(',');
        }
        self.member = match block {
            Block::Text => {
                self.content.push_str("{\"type\":\"text\"");
                "text"
            }
            Block::Thinking => {
                self.content.push_str("{\"type\":\"thinking\"");
                "thinking"
            }
            Block::Redacted(data) => {
                self.content.push_str("{\"type\":\"redacted_thinking\"");
                self.value.push_str(data);
                "data"
            }
            Block::Tool { id, name } => {
                self.content.push_str("{\"type\":\"tool_use\",\"id\":");
                quote_into(&mut self.content, id);
                self.content.push_str(",\"name\":");
                quote_into(&mut self.content, name);
                "input"
            }
        };
    }

    fn stop(&mut self) {
        // writing to a string cannot fail
        let _ = write!(self.content, ",\"{}\":", self.member);
        if self.member == "input" {
            self.content.push_str(&one_line(&object(&self.value)));
        } else {
            quote_into(&mut self.content, &self.value);
        }
        self.content.push_str(&self.after);
        if !self.citations.is_empty() {
            let citations = self.citations.join(",");
            let _ = write!(self.content, ",\"citations\":[{citations}]");
        }
        self.content.push('}');
        self.value.clear();
        self.after.clear();
        self.citations.clear();
    }
}

/// The counts. What is not known is left out but where the dialect demands a number.
fn counts(usage: &Usage, whole: bool) -> String {
    let mut counts = Node::Object(Vec::new());
    let number = |count: u64| Node::Number(i64::try_from(count).unwrap_or(i64::MAX));
    let written = [usage.cache_write_5m, usage.cache_write_1h];
    let written = written.into_iter().flatten().reduce(u64::saturating_add);
    let input = if whole {
        Some(usage.input.unwrap_or(0))
    } else {
        usage.input
    };
    counts.put_some("input_tokens", input.map(number));
    counts.put_some("cache_creation_input_tokens", written.map(number));
    counts.put_some("cache_read_input_tokens", usage.cached_input.map(number));
    if let Some(long) = usage.cache_write_1h {
        let short = usage.cache_write_5m.unwrap_or(0);
        counts.put(
            "cache_creation",
            Node::object([
                ("ephemeral_5m_input_tokens", number(short)),
                ("ephemeral_1h_input_tokens", number(long)),
            ]),
        );
    }
    counts.put("output_tokens", number(usage.output.unwrap_or(0)));
    if let Some(reasoning) = usage.reasoning {
        counts.put(
            "output_tokens_details",
            Node::object([("thinking_tokens", number(reasoning))]),
        );
    }
    counts.render()
}

/// Appends an event; `data` is one line.
fn put(out: &mut BytesMut, name: &str, data: &str) {
    out.reserve(data.len() + name.len() + 17);
    for piece in ["event: ", name, "\ndata: ", data, "\n\n"] {
        out.put_slice(piece.as_bytes());
    }
}
