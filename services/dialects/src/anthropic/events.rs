//! What one event of a Messages stream says.

use std::borrow::Cow;

use super::request::member;
use crate::json::{Cursor, JsonError, Kind, Text, Value};
use crate::text::TextBuffer;

/// The members of an event's data that matter.
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    /// Its `type`, which is also its name.
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) message: Option<Value>,
    pub(super) block: Option<Value>,
    pub(super) delta: Option<Value>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

impl<'a> Said<'a> {
    /// Reads an event's data, a JSON object.
    pub(super) fn read(data: &'a str) -> Result<Self, JsonError> {
        let mut said = Self::default();
        let mut cursor = Cursor::new(data);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let place = match &*key.decode(data) {
                "type" => {
                    said.kind = value.text().map(|word| word.decode(data));
                    continue;
                }
                "message" => &mut said.message,
                "content_block" => &mut said.block,
                "delta" => &mut said.delta,
                "usage" => &mut said.usage,
                "error" => &mut said.error,
                _ => continue,
            };
            *place = Some(value);
        }
        cursor.end()?;
        Ok(said)
    }
}

/// What a piece of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text.
    Text,
    /// Thinking.
    Thinking,
    /// A piece of a call's input, JSON.
    Input,
}

/// A piece of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    /// What it is.
    pub(crate) piece: Piece,
    /// The piece.
    pub(crate) text: Text,
    /// The block's number.
    pub(crate) index: u64,
}

/// A `content_block_delta` that is written as Anthropic writes it, without a full reading; `None`: read it in
/// full. Such an event cannot hold usage (PERF-2).
pub(crate) fn fragment(data: &str) -> Option<Fragment> {
    const FORMS: [(&str, Piece); 3] = [
        (r#"text_delta","text":""#, Piece::Text),
        (r#"input_json_delta","partial_json":""#, Piece::Input),
        (r#"thinking_delta","thinking":""#, Piece::Thinking),
    ];
    let rest = data.strip_prefix(r#"{"type":"content_block_delta","index":"#)?;
    let (index, rest) = rest.split_once(',')?;
    let index = index.parse().ok()?;
    let rest = rest.strip_prefix(r#""delta":{"type":""#)?;
    let mut forms = FORMS.iter();
    let (rest, piece) = forms.find_map(|(form, piece)| Some((rest.strip_prefix(form)?, *piece)))?;
    // the string begins with the quote that was just passed
    let start = data.len() - rest.len() - 1;
    let mut cursor = Cursor::at_byte(data, start);
    let text = cursor.string().ok()?;
    let tail = data.get(cursor.position()..)?;
    let mut closing = tail.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let ended = closing.next() == Some(b'}') && closing.next() == Some(b'}');
    (ended && closing.next().is_none()).then_some(Fragment { piece, text, index })
}

/// Adds the text that a block begins with, or a delta brings, and says whether it is content (SPEC FWD-3's table): text,
/// thinking, a piece of a call's input, the start of a call or of anything else that is shown; a signature is not.
pub(super) fn block_text(
    data: &str,
    value: Value,
    out: &mut TextBuffer,
) -> Result<bool, JsonError> {
    if value.kind != Kind::Object {
        return Ok(false);
    }
    let kind = member(data, value, "type")?.and_then(|kind| kind.text());
    let kind = kind.map(|kind| kind.decode(data));
    let (name, shown) = match kind.as_deref() {
        Some("text" | "text_delta") => ("text", false),
        Some("thinking" | "thinking_delta") => ("thinking", false),
        Some("input_json_delta") => ("partial_json", false),
        Some("tool_use" | "server_tool_use" | "mcp_tool_use") => ("name", true),
        Some("signature_delta") => return Ok(false),
        _ => return Ok(true),
    };
    let text = member(data, value, name)?.and_then(|text| text.text());
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(shown);
    };
    text.pieces(data, |piece| out.push(piece));
    Ok(true)
}
