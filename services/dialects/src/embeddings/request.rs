//! What an embeddings request asks for.

use bytes::Bytes;

use crate::chat::quote;
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice};
use crate::request::{RequestError, utf8};
use crate::text::TextBuffer;
use crate::usage::key_is;

/// How the caller wants its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Not said: floats, and nothing is said to the upstream either.
    #[default]
    Unsaid,
    /// Arrays of numbers.
    Float,
    /// Base64 of little-endian `f32`: what the official SDKs ask for by themselves.
    Base64,
}

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmbeddingsRequest {
    /// The model that was asked for.
    pub model: String,
    /// How many inputs there are.
    pub inputs: u64,
    /// How many tokens, where inputs are given as tokens.
    pub tokens: u64,
    /// Bytes of the body: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
    /// How the vectors are to be encoded.
    pub encoding: Encoding,
    models: Vec<Span>,
}

impl EmbeddingsRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` or `input` are missing or of the wrong kind, or `encoding_format` is
    /// neither `float` nor `base64`.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        let kind = cursor.kind()?;
        if kind != Kind::Object {
            return Err(RequestError::NotObject(kind.noun()));
        }
        let mut request = Self {
            text_bytes: body.len() as u64,
            ..Self::default()
        };
        let mut has_input = false;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "model" => request.read_model(text, value)?,
                "input" => {
                    request.read_input(text, value)?;
                    has_input = true;
                }
                "encoding_format" => request.encoding = encoding(text, value)?,
                _ => {}
            }
        }
        cursor.end()?;
        if request.model.is_empty() {
            return Err(RequestError::Missing {
                field: "model",
                expected: "the name of a model",
            });
        }
        if !has_input {
            return Err(RequestError::Missing {
                field: "input",
                expected: INPUT,
            });
        }
        Ok(request)
    }

    /// The body with the upstream's name in `model`; the body itself when that is there already.
    #[must_use]
    pub fn patch(&self, body: &Bytes, model: Option<&str>) -> Bytes {
        match model.filter(|model| *model != self.model) {
            None => body.clone(),
            Some(model) => {
                let quoted = quote(model);
                let edit = |span: &Span| Edit::replace(*span, quoted.clone());
                splice(body, self.models.iter().map(edit).collect())
            }
        }
    }

    /// Collects the input's text, for counting tokens at settlement (SPEC BILL-6). Inputs given as tokens are counted
    /// by [`tokens`](Self::tokens) already.
    ///
    /// # Errors
    /// When the body is not the one that was peeked at.
    pub fn input_text(body: &[u8], out: &mut TextBuffer) -> Result<(), RequestError> {
        let text = utf8(body)?;
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            if !key_is(text, key, "input") || cursor.kind()? == Kind::String {
                let string = cursor.skip()?.text();
                if key_is(text, key, "input")
                    && let Some(string) = string
                {
                    string.pieces(text, |piece| out.push(piece));
                }
                continue;
            }
            if cursor.kind()? != Kind::Array {
                cursor.skip()?;
                continue;
            }
            cursor.enter_array()?;
            let mut first = true;
            while cursor.next_item(&mut first)? {
                if let Some(string) = cursor.skip()?.text() {
                    string.pieces(text, |piece| out.push(piece));
                    out.push("\n");
                }
            }
        }
        Ok(())
    }

    fn read_model(&mut self, text: &str, value: Value) -> Result<(), RequestError> {
        let expected = "the name of a model as a string";
        let Some(model) = value.text() else {
            return Err(RequestError::kind("model", expected, value.kind));
        };
        if model.is_empty() {
            return Err(RequestError::Field {
                field: "model",
                expected,
                got: "an empty string".to_owned(),
            });
        }
        self.model = model.decode(text).into_owned();
        self.models.push(value.span);
        Ok(())
    }

    fn read_input(&mut self, text: &str, value: Value) -> Result<(), RequestError> {
        let wrong = |got: &str| RequestError::Field {
            field: "input",
            expected: INPUT,
            got: got.to_owned(),
        };
        (self.inputs, self.tokens) = (0, 0);
        match value.kind {
            Kind::String => self.inputs = 1,
            Kind::Array => {
                let mut cursor = Cursor::at_value(text, value);
                cursor.enter_array()?;
                let mut first = true;
                let mut numbers = 0;
                while cursor.next_item(&mut first)? {
                    let item = cursor.skip()?;
                    match item.kind {
                        Kind::String => self.inputs += 1,
                        Kind::Number => numbers += 1,
                        Kind::Array => {
                            self.inputs += 1;
                            self.tokens += items(text, item)?;
                        }
                        kind => return Err(wrong(kind.noun())),
                    }
                }
                self.tokens += numbers;
                if numbers > 0 {
                    self.inputs += 1;
                }
                if self.inputs == 0 {
                    return Err(wrong("an empty array"));
                }
            }
            kind => return Err(wrong(kind.noun())),
        }
        Ok(())
    }
}

const INPUT: &str = "a string, an array of strings, or arrays of tokens";

fn items(text: &str, array: Value) -> Result<u64, JsonError> {
    let mut cursor = Cursor::at_value(text, array);
    cursor.enter_array()?;
    let mut first = true;
    let mut count = 0;
    while cursor.next_item(&mut first)? {
        cursor.skip()?;
        count += 1;
    }
    Ok(count)
}

fn encoding(text: &str, value: Value) -> Result<Encoding, RequestError> {
    match (value.kind, value.span.of(text)) {
        (Kind::Null, _) => Ok(Encoding::Unsaid),
        (_, "\"float\"") => Ok(Encoding::Float),
        (_, "\"base64\"") => Ok(Encoding::Base64),
        (_, got) => Err(RequestError::Field {
            field: "encoding_format",
            expected: "\"float\" or \"base64\"",
            got: got.chars().take(40).collect(),
        }),
    }
}
