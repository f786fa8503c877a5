//! What a completions request asks for.

use crate::chat::{Fields, answers};
use crate::inputs::{self, Inputs};
use crate::json::{Kind, Value};
use crate::request::{RequestError, members};
use crate::text::TextBuffer;

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompletionsRequest {
    /// What chat has too.
    pub fields: Fields,
    /// The prompts.
    pub prompts: Inputs,
    /// `max_tokens`, if given; 0 is allowed: with `echo` it asks for nothing but the prompt's probabilities.
    pub max_tokens: Option<u64>,
    /// How many answers are made for each prompt, of which `n` come back.
    pub best_of: u64,
    /// Bytes of the body: the base of an input estimate (SPEC BILL-3).
    pub text_bytes: u64,
}

impl CompletionsRequest {
    /// Reads a request body and checks what we rely on; everything else is the upstream's to judge.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` or `prompt` are missing or of the wrong kind, or a field that money and
    /// routing depend on makes no sense.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let mut request = Self {
            best_of: 1,
            text_bytes: body.len() as u64,
            ..Self::default()
        };
        let end = members(body, |text, name, value| request.read(text, name, value))?;
        request.fields.end = end;
        request.fields.has_model()?;
        if request.prompts.count == 0 {
            return Err(RequestError::Missing {
                field: "prompt",
                expected: inputs::EXPECTED,
            });
        }
        Ok(request)
    }

    fn read(&mut self, text: &str, name: &str, value: Value) -> Result<(), RequestError> {
        match name {
            // The model then begins a text of its own.
            "prompt" if value.kind == Kind::Null => {
                self.prompts = Inputs {
                    count: 1,
                    tokens: 0,
                };
            }
            "prompt" => self.prompts = Inputs::read("prompt", text, value)?,
            "max_tokens" => self.max_tokens = self.fields.limit("max_tokens", 0, text, value)?,
            "best_of" => self.best_of = answers("best_of", text, value)?,
            name => self.fields.read(text, name, value)?,
        }
        Ok(())
    }

    /// How many choices come back: `n` for each prompt.
    #[must_use]
    pub const fn choices(&self) -> u64 {
        self.prompts.count.saturating_mul(self.fields.n)
    }

    /// How many answers are made, whether they come back or not.
    #[must_use]
    pub fn made(&self) -> u64 {
        let each = self.fields.n.max(self.best_of);
        self.prompts.count.saturating_mul(each)
    }

    /// Collects the prompts' text, for counting tokens at settlement (SPEC BILL-6).
    ///
    /// # Errors
    /// When the body is not the one that was peeked at.
    pub fn input_text(body: &[u8], out: &mut TextBuffer) -> Result<(), RequestError> {
        members(body, |text, name, value| {
            if matches!(name, "prompt" | "suffix") {
                Inputs::text(text, value, out)?;
            }
            Ok(())
        })
        .map(drop)
    }
}
