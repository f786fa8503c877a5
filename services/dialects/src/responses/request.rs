//! What a request for a response asks for, read in one pass over its bytes.

#[cfg(test)]
mod tests;

use super::strings::strings;
use crate::chat::quote;
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice};
use crate::request::{RequestError, boolean, has_members, limit, utf8};
use crate::text::TextBuffer;
use bytes::Bytes;

/// The facts of a request that routing, admission and patching need. Where a key occurs twice the last one counts; patches
/// change all of them, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponsesRequest {
    /// The model that was asked for.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// `max_output_tokens`, if given.
    pub max_output_tokens: Option<u64>,
    /// The response that this one continues.
    pub previous_response_id: Option<String>,
    /// Whether the upstream keeps the response; it does unless told otherwise.
    pub store: bool,
    /// Whether the response is made in the background.
    pub background: bool,
    /// Whether tools are given.
    pub has_tools: bool,
    /// Number of image parts.
    pub images: u64,
    /// Number of audio parts.
    pub audios: u64,
    /// Number of file parts.
    pub files: u64,
    /// Whether `text.format` asks for JSON.
    pub asks_json: bool,
    /// Bytes of the body without the media parts' values: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
    slots: Vec<Slot>,
    /// Where the last member of the request ends: new members go there.
    end: usize,
}

/// A place in the body that a patch may have to change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    /// The value of `model`.
    Model(Span),
    /// The value of `max_output_tokens`, and what it says.
    Limit(Span, Option<u64>),
}

impl ResponsesRequest {
    /// Reads a request body and checks what we rely on; everything else is the upstream's to judge.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` is missing, or a field that money and routing depend on (`stream`,
    /// `store`, `background`, `previous_response_id`, `max_output_tokens`) makes no sense.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return Err(RequestError::NotObject(kind.noun()));
        }
        let mut request = Self {
            store: true,
            ..Self::default()
        };
        let mut media = 0;
        cursor.enter_object()?;
        let mut first = true;
        loop {
            request.end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                break;
            };
            match &*key.decode(text) {
                "input" => {
                    (request.images, request.audios, request.files) = (0, 0, 0);
                    media = request.read_media(&mut cursor)?;
                }
                name => {
                    let value = cursor.skip()?;
                    request.read_field(text, name, value)?;
                }
            }
        }
        cursor.end()?;
        if request.model.is_empty() {
            return Err(RequestError::Missing {
                field: "model",
                expected: "the name of a model",
            });
        }
        request.text_bytes = body.len().saturating_sub(media) as u64;
        Ok(request)
    }

    fn read_field(&mut self, text: &str, name: &str, value: Value) -> Result<(), RequestError> {
        match name {
            "model" => {
                let expected = "the name of a model as a string";
                let Some(model) = value.text() else {
                    return Err(RequestError::kind("model", expected, value.kind));
                };
                self.model = model.decode(text).into_owned();
                self.slots.push(Slot::Model(value.span));
            }
            "stream" => self.stream = boolean("stream", text, value)?.unwrap_or(false),
            "store" => self.store = boolean("store", text, value)?.unwrap_or(true),
            "background" => {
                self.background = boolean("background", text, value)?.unwrap_or(false);
            }
            "max_output_tokens" => {
                self.max_output_tokens = limit("max_output_tokens", text, value)?;
                self.slots
                    .push(Slot::Limit(value.span, self.max_output_tokens));
            }
            "previous_response_id" => {
                self.previous_response_id = match (value.kind, value.text()) {
                    (Kind::Null, _) => None,
                    (_, Some(id)) => Some(id.decode(text).into_owned()),
                    (kind, None) => {
                        let expected = "the id of a response as a string";
                        return Err(RequestError::kind("previous_response_id", expected, kind));
                    }
                };
            }
            // An upstream keeps it for one account, and nothing here says for which.
            "conversation" if value.kind != Kind::Null => {
                return Err(RequestError::Field {
                    field: "conversation",
                    expected: "nothing: conversations are kept by one upstream account and are not served here; continue \
                               with `previous_response_id`",
                    got: value.kind.noun().to_owned(),
                });
            }
            "tools" => {
                self.has_tools = value.kind == Kind::Array && has_members(text, value);
            }
            "text" => self.asks_json = asks_json(text, value)?,
            _ => {}
        }
        Ok(())
    }

    /// Counts media, however deep they stand, and gives the bytes of their values.
    fn read_media(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, JsonError> {
        let text = cursor.text();
        let mut media = 0;
        let mut first = true;
        match cursor.kind()? {
            Kind::Object => {
                cursor.enter_object()?;
                // An image may be given by a file's id alone.
                let mut image = false;
                while let Some(key) = cursor.next_key(&mut first)? {
                    let kind = cursor.kind()?;
                    match (&*key.decode(text), kind) {
                        ("image_url", Kind::String | Kind::Object) => image = true,
                        ("input_audio", Kind::Object) => self.audios += 1,
                        ("file_data" | "file_url", Kind::String) => self.files += 1,
                        ("type", Kind::String) => {
                            image |= cursor.string()?.decode(text) == "input_image";
                            continue;
                        }
                        (_, Kind::Object | Kind::Array) => {
                            media += self.read_media(cursor)?;
                            continue;
                        }
                        _ => {
                            cursor.skip()?;
                            continue;
                        }
                    }
                    let value = cursor.skip()?;
                    media += value.span.end - value.span.start;
                }
                self.images += u64::from(image);
            }
            Kind::Array => {
                cursor.enter_array()?;
                while cursor.next_item(&mut first)? {
                    media += self.read_media(cursor)?;
                }
            }
            _ => {
                cursor.skip()?;
            }
        }
        Ok(media)
    }

    /// The body for an upstream of the same dialect: its own name of the model, and at most `output_cap` tokens of output. A
    /// smaller limit of the caller's stays; without a change the body itself comes back.
    #[must_use]
    pub fn patch(&self, body: &Bytes, model: &str, output_cap: Option<u64>) -> Bytes {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        let mut limited = output_cap.is_none();
        for slot in &self.slots {
            match (slot, output_cap) {
                (Slot::Model(span), _) if model != self.model => {
                    edits.push(Edit::replace(*span, quote(model)));
                }
                (Slot::Limit(span, said), Some(cap)) => {
                    limited = true;
                    if said.is_none_or(|said| said > cap) {
                        edits.push(Edit::replace(*span, cap.to_string()));
                    }
                }
                _ => {}
            }
        }
        if let (false, Some(cap)) = (limited, output_cap) {
            let member = format!(r#","max_output_tokens":{cap}"#);
            edits.push(Edit::insert(self.end, member));
        }
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }

    /// Collects what a model reads of the request, for counting tokens at settlement (SPEC BILL-6).
    ///
    /// # Errors
    /// When the body is not the one that was peeked at.
    pub fn input_text(body: &[u8], out: &mut TextBuffer) -> Result<(), RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match &*key.decode(text) {
                "input" | "instructions" => strings(&mut cursor, out)?,
                "tools" | "text" => {
                    out.push(cursor.skip()?.span.of(text));
                    out.push("\n");
                }
                _ => {
                    cursor.skip()?;
                }
            }
        }
        Ok(())
    }
}

/// Whether `text.format` is `json_object` or `json_schema`.
fn asks_json(text: &str, value: Value) -> Result<bool, JsonError> {
    if value.kind != Kind::Object {
        return Ok(false);
    }
    let mut cursor = Cursor::at_value(text, value);
    let mut found = false;
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        if key.decode(text) == "format" && value.kind == Kind::Object {
            found = value.span.of(text).contains("\"json_");
        }
    }
    Ok(found)
}
