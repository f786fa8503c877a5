//! A whole response as the events that would have made it (SPEC FWD-7): a target that cannot stream may serve a caller that
//! streams. Every value keeps its bytes.

use bytes::{Bytes, BytesMut};

use super::envelope::{Envelope, whole};
use crate::chat::quote;
use crate::json::{Cursor, JsonError, Kind, Value};

/// The events of a response that was accepted as a whole: in the order, and with the fields, that clients need (PROTOCOLS §5.3).
pub(super) fn as_events(body: &[u8]) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or("");
    let mut writer = Writer::default();
    // What was accepted before reads again.
    let _same = write(text, &mut writer);
    writer.out.freeze()
}

#[derive(Default)]
struct Writer {
    out: BytesMut,
    sequence: u64,
}

impl Writer {
    /// Writes one event; `fields` are JSON members with a comma before each.
    fn event(&mut self, kind: &str, fields: &str) {
        let sequence = self.sequence;
        let data = format!(r#"{{"type":"{kind}","sequence_number":{sequence}{fields}}}"#);
        let data = data.replace(['\n', '\r'], " ");
        crate::sse::write_event(&mut self.out, Some(kind.as_bytes()), &data);
        self.sequence += 1;
    }
}

fn write(text: &str, writer: &mut Writer) -> Result<(), JsonError> {
    let Some(value) = whole(text) else {
        return Ok(());
    };
    let response = Envelope::read(text, value)?;
    let status = response.status.as_deref().unwrap_or("completed");
    let begun = begun(text, value, status)?;
    writer.event("response.created", &format!(r#","response":{begun}"#));
    if status == "queued" {
        writer.event("response.queued", &format!(r#","response":{begun}"#));
        return Ok(());
    }
    writer.event("response.in_progress", &format!(r#","response":{begun}"#));
    if let Some(output) = response.output {
        let mut cursor = Cursor::at_value(text, output);
        cursor.enter_array()?;
        let (mut first, mut index) = (true, 0);
        while cursor.next_item(&mut first)? {
            item(text, cursor.skip()?, index, writer)?;
            index += 1;
        }
    }
    let end = match status {
        "in_progress" => return Ok(()),
        "incomplete" => "response.incomplete",
        "failed" => "response.failed",
        "cancelled" => "response.cancelled",
        _ => "response.completed",
    };
    writer.event(end, &format!(r#","response":{}"#, value.span.of(text)));
    Ok(())
}

/// The response before anything was made.
fn begun(text: &str, value: Value, status: &str) -> Result<String, JsonError> {
    let status = if status == "queued" {
        status
    } else {
        "in_progress"
    };
    let members = replaced(
        text,
        value,
        &[
            ("status", &quote(status)),
            ("output", "[]"),
            ("usage", "null"),
            ("completed_at", "null"),
            ("incomplete_details", "null"),
            ("error", "null"),
        ],
    )?;
    Ok(members)
}

/// An object with other values for some of its members.
fn replaced(text: &str, value: Value, with: &[(&str, &str)]) -> Result<String, JsonError> {
    let mut out = String::from("{");
    let mut cursor = Cursor::at_value(text, value);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        let name = key.decode(text);
        let other = with.iter().find(|(known, _)| *known == name);
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&quote(&name));
        out.push(':');
        out.push_str(other.map_or(value.span.of(text), |(_, value)| value));
    }
    out.push('}');
    Ok(out)
}

/// A member of an object.
fn member(text: &str, object: Value, name: &str) -> Option<Value> {
    let mut cursor = Cursor::at_value(text, object);
    cursor.enter_object().ok()?;
    let mut first = true;
    let mut found = None;
    while let Some(key) = cursor.next_key(&mut first).ok()? {
        let value = cursor.skip().ok()?;
        if key.decode(text) == name {
            found = Some(value);
        }
    }
    found
}

fn raw<'a>(text: &'a str, object: Value, name: &str) -> &'a str {
    member(text, object, name).map_or("\"\"", |value| value.span.of(text))
}

fn kind_of(text: &str, object: Value) -> String {
    member(text, object, "type")
        .and_then(|value| value.text())
        .map(|kind| kind.decode(text).into_owned())
        .unwrap_or_default()
}

fn item(text: &str, item: Value, index: usize, writer: &mut Writer) -> Result<(), JsonError> {
    if item.kind != Kind::Object {
        return Ok(());
    }
    let place = format!(r#","output_index":{index}"#);
    let of = format!(r#","item_id":{}{place}"#, raw(text, item, "id"));
    let kind = kind_of(text, item);
    let (emptied, piece, pieces) = match kind.as_str() {
        "message" => ("content", "", "content"),
        "reasoning" => ("summary", "", "summary"),
        "function_call" => ("arguments", "function_call_arguments", "arguments"),
        "custom_tool_call" => ("input", "custom_tool_call_input", "input"),
        _ => ("", "", ""),
    };
    let empty = if piece.is_empty() { "[]" } else { "\"\"" };
    let begun = replaced(
        text,
        item,
        &[("status", "\"in_progress\""), (emptied, empty)],
    )?;
    writer.event(
        "response.output_item.added",
        &format!(r#"{place},"item":{begun}"#),
    );
    if !piece.is_empty() {
        let whole = raw(text, item, pieces);
        writer.event(
            &format!("response.{piece}.delta"),
            &format!(r#"{of},"delta":{whole}"#),
        );
        let name = format!(r#","name":{}"#, raw(text, item, "name"));
        writer.event(
            &format!("response.{piece}.done"),
            &format!(r#"{of}{name},"{pieces}":{whole}"#),
        );
    } else if let Some(list) = member(text, item, pieces).filter(|v| v.kind == Kind::Array) {
        let mut cursor = Cursor::at_value(text, list);
        cursor.enter_array()?;
        let (mut first, mut at) = (true, 0);
        while cursor.next_item(&mut first)? {
            part(text, cursor.skip()?, (&of, pieces, at), writer)?;
            at += 1;
        }
    }
    let whole = item.span.of(text);
    writer.event(
        "response.output_item.done",
        &format!(r#"{place},"item":{whole}"#),
    );
    Ok(())
}

/// A part of a message or of a reasoning's summary.
fn part(
    text: &str,
    part: Value,
    (of, list, at): (&str, &str, usize),
    writer: &mut Writer,
) -> Result<(), JsonError> {
    if part.kind != Kind::Object {
        return Ok(());
    }
    let (frame, of) = match list {
        "summary" => (
            "reasoning_summary_part",
            format!(r#"{of},"summary_index":{at}"#),
        ),
        _ => ("content_part", format!(r#"{of},"content_index":{at}"#)),
    };
    let list_of = |name| {
        let value = member(text, part, name).filter(|value| value.kind == Kind::Array);
        value.map_or("[]", |value| value.span.of(text))
    };
    let (name, field, logprobs) = match kind_of(text, part).as_str() {
        "output_text" => ("output_text", "text", Some(list_of("logprobs"))),
        "refusal" => ("refusal", "refusal", None),
        "summary_text" => ("reasoning_summary_text", "text", None),
        _ => ("", "", None),
    };
    let begun = replaced(
        text,
        part,
        &[(field, "\"\""), ("annotations", "[]"), ("logprobs", "[]")],
    )?;
    writer.event(
        &format!("response.{frame}.added"),
        &format!(r#"{of},"part":{begun}"#),
    );
    if !name.is_empty() {
        let whole = raw(text, part, field);
        let more = logprobs.map_or(String::new(), |list| format!(r#","logprobs":{list}"#));
        writer.event(
            &format!("response.{name}.delta"),
            &format!(r#"{of},"delta":{whole}{more}"#),
        );
        if logprobs.is_some() {
            annotations(text, part, &of, writer)?;
        }
        writer.event(
            &format!("response.{name}.done"),
            &format!(r#"{of},"{field}":{whole}{more}"#),
        );
    }
    let whole = part.span.of(text);
    writer.event(
        &format!("response.{frame}.done"),
        &format!(r#"{of},"part":{whole}"#),
    );
    Ok(())
}

/// What a text cites, each as an event of its own.
fn annotations(text: &str, part: Value, of: &str, writer: &mut Writer) -> Result<(), JsonError> {
    let Some(list) = member(text, part, "annotations").filter(|v| v.kind == Kind::Array) else {
        return Ok(());
    };
    let mut cursor = Cursor::at_value(text, list);
    cursor.enter_array()?;
    let (mut first, mut at) = (true, 0);
    while cursor.next_item(&mut first)? {
        let cited = cursor.skip()?.span.of(text);
        writer.event(
            "response.output_text.annotation.added",
            &format!(r#"{of},"annotation_index":{at},"annotation":{cited}"#),
        );
        at += 1;
    }
    Ok(())
}
