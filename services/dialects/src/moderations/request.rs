//! What a moderations request asks for.

use bytes::Bytes;

use super::answer;
use crate::carry::{AnswerStream, RawStream, StreamOptions};
use crate::chat::quote;
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::json::{Cursor, Edit, JsonError, Kind, Value, splice};
use crate::parameters::Layout;
use crate::request::{ModelField, RequestError, members};
use crate::text::TextBuffer;

/// The model of requests that name none [OpenAI OpenAPI document].
const DEFAULT_MODEL: &str = "omni-moderation-latest";

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModerationsRequest {
    model: ModelField,
    /// Where the last member ends.
    end: usize,
    /// Bytes of the body without images.
    text_bytes: u64,
}

const INPUT: &str = "a string, an array of strings, or an array of content parts";

impl ModerationsRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no JSON object, `input` is missing or of the wrong kind, or `model` is no name.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let mut request = Self::default();
        let (mut has_input, mut media) = (false, 0);
        request.end = members(body, |text, name, value| {
            match name {
                "model" if value.kind == Kind::Null => {}
                "model" => request.model.read(text, value)?,
                "input" => {
                    if !matches!(value.kind, Kind::String | Kind::Array) {
                        return Err(RequestError::kind("input", INPUT, value.kind));
                    }
                    has_input = true;
                    media = strings(&mut Cursor::at_value(text, value), &mut |_| ())?;
                }
                _ => {}
            }
            Ok(())
        })?;
        if !has_input {
            return Err(RequestError::Missing {
                field: "input",
                expected: INPUT,
            });
        }
        request.text_bytes = body.len().saturating_sub(media) as u64;
        Ok(request)
    }
}

/// Hands out every string that is text, and gives the bytes of images. The depth of recursion is that of the JSON, which
/// the scanner bounds.
fn strings(cursor: &mut Cursor<'_>, each: &mut dyn FnMut(&str)) -> Result<usize, JsonError> {
    let text = cursor.text();
    let (mut media, mut first) = (0, true);
    match cursor.kind()? {
        Kind::String => cursor.string()?.pieces(text, each),
        Kind::Array => {
            cursor.enter_array()?;
            while cursor.next_item(&mut first)? {
                media += strings(cursor, each)?;
                each("\n");
            }
        }
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                match &*key.decode(text) {
                    "text" => media += strings(cursor, each)?,
                    "image_url" => media += length(cursor.skip()?),
                    _ => drop(cursor.skip()?),
                }
            }
        }
        _ => drop(cursor.skip()?),
    }
    Ok(media)
}

const fn length(value: Value) -> usize {
    value.span.end - value.span.start
}

/// What is no parameter of a moderations request.
const LAYOUT: Layout = Layout::flat(&["model", "input"]);

impl DialectRequest for ModerationsRequest {
    fn model(&self) -> &str {
        if self.model.name.is_empty() {
            DEFAULT_MODEL
        } else {
            &self.model.name
        }
    }

    fn form(&self) -> Form {
        Form::Whole
    }

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn generates(&self) -> bool {
        false
    }

    fn operation(&self) -> &'static str {
        "moderations"
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        if !self.model.name.is_empty() {
            return self.model.rename(body, change.model);
        }
        // A `null` stays: of two equal keys the last one counts.
        let member = format!(r#","model":{}"#, quote(change.model));
        splice(body, vec![Edit::insert(self.end, member)])
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        // The body was read before: what cannot be read now adds nothing.
        let _same = members(body, |json, name, value| {
            if name == "input" {
                strings(&mut Cursor::at_value(json, value), &mut |piece| {
                    text.push(piece);
                })?;
            }
            Ok(())
        });
        0
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        answer::read(body, options.public_model)
    }

    fn stream(&self, _: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(RawStream::default())
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        Bytes::copy_from_slice(body)
    }
}
