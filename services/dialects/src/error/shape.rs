//! In which vendor's form an error is said.

use std::time::Duration;

use bytes::Bytes;

use super::render;

/// A vendor's form of errors. Each dialect has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// `{"error":{"message","type","param","code"}}`; in a stream the same as `data`.
    #[default]
    OpenAi,
    /// `{"type":"error","error":{"type","message"},"request_id"}`; in a stream under `event: error`.
    Anthropic,
    /// `{"error":{"code","message","status","details"}}`; in a stream the same as `data`.
    Gemini,
}

/// An error to be said to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saying<'a> {
    /// Wire code of SPEC ERR-1.
    pub code: &'a str,
    /// HTTP status.
    pub status: u16,
    /// For people.
    pub message: &'a str,
    /// The field at fault.
    pub param: Option<&'a str>,
    /// The request's id, where it is at hand.
    pub request_id: Option<&'a str>,
    /// When trying again may help: Gemini's form says it in the body.
    pub retry_after: Option<Duration>,
}

impl Shape {
    /// The HTTP status of an error with this wire code, elsewhere `status`. That it cannot serve at the moment Anthropic's API says
    /// by a status of its own, for which its clients have a class (SPEC ERR-2).
    #[must_use]
    pub fn status(self, code: &str, status: u16) -> u16 {
        match (self, code) {
            (Self::Anthropic, "unavailable") => 529,
            _ => status,
        }
    }

    /// The JSON body of an error.
    #[must_use]
    pub fn body(self, saying: &Saying<'_>) -> Bytes {
        match self {
            Self::OpenAi => render::openai(saying),
            Self::Anthropic => render::anthropic(saying),
            Self::Gemini => render::gemini(saying),
        }
    }

    /// The event that ends a stream which fails after its headers were sent; nothing follows it.
    #[must_use]
    pub fn event(self, saying: &Saying<'_>) -> Bytes {
        let name = match self {
            Self::Anthropic => Some(&b"error"[..]),
            Self::OpenAi | Self::Gemini => None,
        };
        let body = self.body(saying);
        let mut out = bytes::BytesMut::with_capacity(body.len() + 32);
        // What was rendered is text.
        let data = std::str::from_utf8(&body).unwrap_or("{}");
        crate::sse::write_event(&mut out, name, data);
        out.freeze()
    }
}
