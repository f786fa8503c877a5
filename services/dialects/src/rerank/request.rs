//! What a rerank request asks for.

use bytes::Bytes;

use super::answer;
use crate::carry::{AnswerStream, RawStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::inputs::items;
use crate::json::{Cursor, JsonError, Kind, Value};
use crate::parameters::Layout;
use crate::request::{ModelField, RequestError, limit, members};
use crate::text::TextBuffer;

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RerankRequest {
    model: ModelField,
    /// How many documents there are.
    documents: u64,
    /// Bytes of the body: the base of an input estimate (SPEC BILL-3).
    text_bytes: u64,
}

const QUERY: &str = "a text";
const DOCUMENTS: &str = "an array of documents";

impl RerankRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no JSON object, `model`, `query` or `documents` are missing or of the wrong kind, or `top_n` makes
    /// no sense.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let mut request = Self {
            text_bytes: body.len() as u64,
            ..Self::default()
        };
        let mut has_query = false;
        members(body, |text, name, value| {
            match name {
                "model" => request.model.read(text, value)?,
                // Jina's multimodal models take an object.
                "query" if matches!(value.kind, Kind::String | Kind::Object) => has_query = true,
                "query" => return Err(RequestError::kind("query", QUERY, value.kind)),
                "documents" if value.kind == Kind::Array => request.documents = items(text, value)?,
                "documents" => {
                    return Err(RequestError::kind("documents", DOCUMENTS, value.kind));
                }
                "top_n" => {
                    limit("top_n", text, value)?;
                }
                _ => {}
            }
            Ok(())
        })?;
        request.model.given()?;
        let missing = |field, expected| Err(RequestError::Missing { field, expected });
        if !has_query {
            return missing("query", QUERY);
        }
        if request.documents == 0 {
            return missing("documents", "an array of at least one document");
        }
        Ok(request)
    }
}

/// Every string of a value. The depth of recursion is that of the JSON, which the scanner bounds.
fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let mut first = true;
    match cursor.kind()? {
        Kind::String => {
            cursor.string()?.pieces(text, |piece| out.push(piece));
            out.push("\n");
        }
        Kind::Array => {
            cursor.enter_array()?;
            while cursor.next_item(&mut first)? {
                strings(cursor, out)?;
            }
        }
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                if key.decode(text) == "image" {
                    cursor.skip()?;
                } else {
                    strings(cursor, out)?;
                }
            }
        }
        _ => drop(cursor.skip()?),
    }
    Ok(())
}

/// What is no parameter of a rerank request.
const LAYOUT: Layout = Layout::flat(&["model", "query", "documents"]);

impl DialectRequest for RerankRequest {
    fn model(&self) -> &str {
        &self.model.name
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
        "rerank"
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        self.model.rename(body, change.model)
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        // The body was read before: what cannot be read now adds nothing.
        let _same = members(body, |json, name, value: Value| {
            if matches!(name, "query" | "documents") {
                strings(&mut Cursor::at_value(json, value), text)?;
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
        answer::read(body, self.documents, options.public_model)
    }

    fn stream(&self, _: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(RawStream::default())
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        Bytes::copy_from_slice(body)
    }
}
