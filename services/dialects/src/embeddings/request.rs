//! What an embeddings request asks for.

use bytes::Bytes;

use crate::inputs::{self, Inputs};
use crate::json::{Kind, Value};
use crate::request::{ModelField, RequestError, members};
use crate::text::TextBuffer;

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
    /// What vectors are asked for.
    pub inputs: Inputs,
    /// Bytes of the body: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
    /// How the vectors are to be encoded.
    pub encoding: Encoding,
    pub(super) model: ModelField,
}

impl EmbeddingsRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` or `input` are missing or of the wrong kind, or `encoding_format` is
    /// neither `float` nor `base64`.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let mut request = Self {
            text_bytes: body.len() as u64,
            ..Self::default()
        };
        members(body, |text, name, value| {
            match name {
                "model" => request.model.read(text, value)?,
                "input" => request.inputs = Inputs::read("input", text, value)?,
                "encoding_format" => request.encoding = encoding(text, value)?,
                _ => {}
            }
            Ok(())
        })?;
        request.model.given()?;
        if request.inputs.count == 0 {
            return Err(RequestError::Missing {
                field: "input",
                expected: inputs::EXPECTED,
            });
        }
        Ok(request)
    }

    /// The body with the upstream's name in `model`; the body itself when that is there already.
    #[must_use]
    pub fn patch(&self, body: &Bytes, model: &str) -> Bytes {
        self.model.rename(body, model)
    }

    /// Collects the input's text, for counting tokens at settlement (SPEC BILL-6). Inputs given as tokens are counted
    /// already.
    ///
    /// # Errors
    /// When the body is not the one that was peeked at.
    pub fn input_text(body: &[u8], out: &mut TextBuffer) -> Result<(), RequestError> {
        members(body, |text, name, value| {
            if name == "input" {
                Inputs::text(text, value, out)?;
            }
            Ok(())
        })
        .map(drop)
    }
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
