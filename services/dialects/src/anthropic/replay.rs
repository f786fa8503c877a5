//! A whole message as the events that the upstream would have streamed: a target that cannot stream may serve a streaming
//! caller (SPEC FWD-7). Every value keeps its bytes.

use bytes::{Bytes, BytesMut};

use super::request::member;
use crate::chat::quote;
use crate::json::{Cursor, JsonError, Kind, Value};
use crate::sse::write_event;

/// The events of an answer that was read as a message before.
pub(super) fn as_events(body: &[u8]) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or("");
    let mut out = Writer(BytesMut::with_capacity(body.len() + 1024));
    // what was accepted before reads again
    let _same = write(text, &mut out);
    out.0.freeze()
}

struct Writer(BytesMut);

impl Writer {
    fn event(&mut self, name: &str, members: &str) {
        let comma = if members.is_empty() { "" } else { "," };
        let data = format!(r#"{{"type":"{name}"{comma}{members}}}"#);
        let data = data.replace(['\n', '\r'], " ");
        write_event(&mut self.0, Some(name.as_bytes()), &data);
    }
}

fn write(text: &str, out: &mut Writer) -> Result<(), JsonError> {
    let mut head = String::new();
    let mut end = String::new();
    let (mut content, mut usage) = (None, None);
    let mut cursor = Cursor::new(text);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let name = key.decode(text);
        let value = cursor.skip()?;
        let raw = value.span.of(text);
        match &*name {
            "content" => content = Some(value),
            "usage" => usage = Some(raw),
            // told at the end: at the start nobody knew it
            "stop_reason" | "stop_sequence" | "stop_details" => add(&mut end, &name, raw),
            _ => add(&mut head, &name, raw),
        }
    }
    add(&mut head, "content", "[]");
    for name in ["stop_reason", "stop_sequence"] {
        add(&mut head, name, "null");
    }
    add(&mut head, "usage", usage.unwrap_or("{}"));
    out.event("message_start", &format!(r#""message":{{{head}}}"#));
    if let Some(content) = content {
        blocks(text, content, out)?;
    }
    let usage = usage.unwrap_or("{}");
    let ending = format!(r#""delta":{{{end}}},"usage":{usage}"#);
    out.event("message_delta", &ending);
    out.event("message_stop", "");
    Ok(())
}

fn add(object: &mut String, name: &str, raw: &str) {
    if !object.is_empty() {
        object.push(',');
    }
    object.push_str(&quote(name));
    object.push(':');
    object.push_str(raw);
}

fn blocks(text: &str, content: Value, out: &mut Writer) -> Result<(), JsonError> {
    let mut cursor = Cursor::at_value(text, content);
    cursor.enter_array()?;
    let (mut first, mut index) = (true, 0);
    while cursor.next_item(&mut first)? {
        let block = cursor.skip()?;
        if block.kind == Kind::Object {
            write_block(text, block, index, out)?;
            index += 1;
        }
    }
    Ok(())
}

/// A block: its start with what streams afterwards left empty, its deltas, its stop.
fn write_block(text: &str, block: Value, index: u32, out: &mut Writer) -> Result<(), JsonError> {
    let kind = member(text, block, "type")?.and_then(|kind| kind.text());
    let kind = kind.map(|kind| kind.decode(text)).unwrap_or_default();
    let mut start = String::new();
    let mut deltas = Vec::new();
    let mut delta = |kind: &str, name: &str, raw: &str| {
        deltas.push(format!(r#"{{"type":"{kind}","{name}":{raw}}}"#));
    };
    let mut cursor = Cursor::at_value(text, block);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let name = key.decode(text);
        let value = cursor.skip()?;
        let raw = value.span.of(text);
        let left = match (&*kind, &*name) {
            ("text", "text") => {
                delta("text_delta", "text", raw);
                "\"\""
            }
            ("thinking", "thinking") => {
                delta("thinking_delta", "thinking", raw);
                "\"\""
            }
            ("thinking", "signature") => {
                delta("signature_delta", "signature", raw);
                "\"\""
            }
            ("tool_use" | "server_tool_use" | "mcp_tool_use", "input") => {
                delta("input_json_delta", "partial_json", &quote(raw));
                "{}"
            }
            ("text", "citations") if value.kind == Kind::Array => {
                let mut items = Cursor::at_value(text, value);
                items.enter_array()?;
                let mut first = true;
                while items.next_item(&mut first)? {
                    delta("citations_delta", "citation", items.skip()?.span.of(text));
                }
                "[]"
            }
            _ => raw,
        };
        add(&mut start, &name, left);
    }
    let at = format!(r#""index":{index}"#);
    let begun = format!(r#"{at},"content_block":{{{start}}}"#);
    out.event("content_block_start", &begun);
    for delta in deltas {
        let said = format!(r#"{at},"delta":{delta}"#);
        out.event("content_block_delta", &said);
    }
    out.event("content_block_stop", &at);
    Ok(())
}
