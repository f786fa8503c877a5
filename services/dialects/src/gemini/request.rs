//! What a request asks for, read in one pass over its bytes.

#[cfg(test)]
mod tests;

use super::media::{Media, each};
use crate::json::{Cursor, JsonError, Kind, Span, Value, whole_number};
use crate::request::{RequestError, has_members, limit, utf8};
use crate::text::TextBuffer;

/// What the path asks for, behind the last colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `:generateContent`.
    Generate,
    /// `:streamGenerateContent` with `alt=sse`.
    StreamEvents,
    /// `:streamGenerateContent` without it: a JSON array.
    StreamArray,
    /// `:countTokens`.
    CountTokens,
    /// `:embedContent`.
    Embed,
    /// `:batchEmbedContents`.
    EmbedBatch,
}

impl Call {
    /// Whether an answer is generated.
    #[must_use]
    pub const fn generates(self) -> bool {
        matches!(
            self,
            Self::Generate | Self::StreamEvents | Self::StreamArray
        )
    }
}

/// The facts of a request that routing, admission and patching need. Where a key occurs twice the last one counts, as in
/// every common parser; patches change all of them, so that upstreams cannot disagree with us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeminiRequest {
    /// What the path asks for.
    pub call: Call,
    /// The model that the path names.
    pub model: String,
    /// `generationConfig.maxOutputTokens`, if given.
    pub max_output: Option<u64>,
    /// `generationConfig.candidateCount`; 1 when not given.
    pub candidates: u64,
    /// Whether tools are given.
    pub has_tools: bool,
    /// Whether the answer is to be JSON: a JSON type or a schema is given.
    pub wants_json: bool,
    /// Whether the answer is to be spoken.
    pub speaks: bool,
    /// Bytes of the body without the media parts' values: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
    pub(super) media: Media,
    pub(super) slots: Vec<Slot>,
    /// Where the last member of the request ends: new members go there.
    pub(super) end: usize,
}

/// A place in the body that a patch may have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A string that names the model.
    Model(Span),
    /// `generationConfig` that is `null`.
    NullConfig(Span),
    /// `generationConfig` without an output limit: where one can be inserted, and whether a comma must precede it.
    ConfigEnd(usize, bool),
    /// The value of an output limit, and what it says.
    Limit(Span, Option<u64>),
}

/// What a body must have.
const fn required(call: Call) -> Option<(&'static str, &'static str)> {
    match call {
        Call::Generate | Call::StreamEvents | Call::StreamArray => {
            Some(("contents", "an array of contents"))
        }
        // Either of two.
        Call::CountTokens => None,
        Call::Embed => Some(("content", "a content")),
        Call::EmbedBatch => Some(("requests", "an array of requests")),
    }
}

impl GeminiRequest {
    /// Reads a body for a call on `model` and checks what we rely on; everything else is the upstream's to judge.
    ///
    /// # Errors
    /// When the body is no JSON object, what the call is about is missing, or a field that money depends on (output
    /// limit, number of candidates) makes no sense.
    pub fn peek(call: Call, model: &str, body: &[u8]) -> Result<Self, RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return Err(RequestError::NotObject(kind.noun()));
        }
        let mut request = Self {
            call,
            model: model.to_owned(),
            max_output: None,
            candidates: 1,
            has_tools: false,
            wants_json: false,
            speaks: false,
            text_bytes: 0,
            media: Media::default(),
            slots: Vec::new(),
            end: 0,
        };
        let needed = required(call);
        let mut found = needed.is_none();
        cursor.enter_object()?;
        let mut first = true;
        loop {
            request.end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                break;
            };
            let name = key.decode(text);
            if let Some((field, expected)) = needed.filter(|(field, _)| *field == name) {
                let kind = cursor.kind()?;
                if !matches!(kind, Kind::Array | Kind::Object) {
                    return Err(RequestError::kind(field, expected, kind));
                }
                found = true;
            }
            request.read_member(&mut cursor, &name)?;
        }
        cursor.end()?;
        match needed {
            Some((field, expected)) if !found => {
                return Err(RequestError::Missing { field, expected });
            }
            _ => {}
        }
        request.text_bytes = body.len().saturating_sub(request.media.bytes) as u64;
        Ok(request)
    }

    fn read_member(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<(), RequestError> {
        let kind = cursor.kind()?;
        match name {
            "contents" | "content" => {
                self.media = Media::default();
                self.media.read_contents(cursor)?;
            }
            "generationConfig" | "generation_config" => match kind {
                Kind::Object => self.read_config(cursor)?,
                Kind::Null => self.slots.push(Slot::NullConfig(cursor.skip()?.span)),
                kind => return Err(RequestError::kind("generationConfig", "an object", kind)),
            },
            "tools" => self.has_tools = has_members(cursor.text(), cursor.skip()?),
            "requests" => each(cursor, |cursor| self.read_model(cursor))?,
            "generateContentRequest" | "generate_content_request" if kind == Kind::Object => {
                self.read_model(cursor)?;
            }
            "model" if kind == Kind::String => self.slots.push(Slot::Model(cursor.skip()?.span)),
            _ => {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    /// A request inside the request, which names the model again.
    fn read_model(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let text = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            if value.kind == Kind::String && key.decode(text) == "model" {
                self.slots.push(Slot::Model(value.span));
            }
        }
        Ok(())
    }

    fn read_config(&mut self, cursor: &mut Cursor<'_>) -> Result<(), RequestError> {
        let text = cursor.text();
        cursor.enter_object()?;
        let (mut first, mut limited, mut empty) = (true, false, true);
        loop {
            let end = cursor.position();
            let Some(key) = cursor.next_key(&mut first)? else {
                if !limited {
                    self.slots.push(Slot::ConfigEnd(end, !empty));
                }
                return Ok(());
            };
            empty = false;
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "maxOutputTokens" | "max_output_tokens" => {
                    self.max_output = count("generationConfig.maxOutputTokens", text, value)?;
                    self.slots.push(Slot::Limit(value.span, self.max_output));
                    limited = true;
                }
                "candidateCount" | "candidate_count" => {
                    let field = "generationConfig.candidateCount";
                    self.candidates = count(field, text, value)?.unwrap_or(1);
                    if self.candidates > 128 {
                        return Err(RequestError::Field {
                            field,
                            expected: "a whole number from 1 to 128",
                            got: self.candidates.to_string(),
                        });
                    }
                }
                "responseMimeType" | "response_mime_type" => {
                    let mime = value.text().map(|mime| mime.decode(text));
                    self.wants_json |= mime.is_some_and(|mime| mime.contains("json"));
                }
                "responseSchema"
                | "response_schema"
                | "responseJsonSchema"
                | "response_json_schema" => self.wants_json |= value.kind == Kind::Object,
                "responseModalities" | "response_modalities" => {
                    self.speaks = value.span.of(text).to_ascii_uppercase().contains("AUDIO");
                }
                _ => {}
            }
        }
    }

    /// Collects what a model reads of the request, for counting tokens at settlement (SPEC BILL-6): every string of the
    /// contents and of the system's instruction but roles, ids, signatures and media, and the declarations of tools and
    /// schemas as they stand.
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
                "contents" | "content" | "requests" | "systemInstruction"
                | "system_instruction" => strings(&mut cursor, out)?,
                "tools" => {
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

/// Adds every string of the next value that a model reads. The depth of recursion is that of the JSON, which the
/// scanner bounds.
fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let mut first = true;
    match cursor.kind()? {
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                match &*key.decode(text) {
                    "role" | "id" | "model" | "taskType" | "task_type" | "thoughtSignature"
                    | "thought_signature" | "inlineData" | "inline_data" | "fileData"
                    | "file_data" => {
                        cursor.skip()?;
                    }
                    _ => strings(cursor, out)?,
                }
            }
        }
        Kind::Array => {
            cursor.enter_array()?;
            while cursor.next_item(&mut first)? {
                strings(cursor, out)?;
            }
        }
        Kind::String => {
            let string = cursor.string()?;
            string.pieces(text, |piece| out.push(piece));
            out.push("\n");
        }
        _ => {
            cursor.skip()?;
        }
    }
    Ok(())
}

/// A positive number; Google's JSON may have it as a string.
fn count(field: &'static str, text: &str, value: Value) -> Result<Option<u64>, RequestError> {
    let worded = value.text().map(|inside| inside.span.of(text));
    match worded.and_then(whole_number) {
        Some(n) if n > 0 => Ok(Some(n)),
        _ => limit(field, text, value),
    }
}
