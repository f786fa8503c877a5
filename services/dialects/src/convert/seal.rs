//! Seals: what a provider puts on its reasoning or its tool calls, to know them again when they come back.
//!
//! Anthropic's `signature` and redacted `data`, the Responses API's `encrypted_content`, Gemini's `thoughtSignature`. A seal
//! is opaque, and worthless to everyone but its maker, who may refuse a request with a stranger's (CASES C18). So a seal that
//! goes to a caller in another dialect than its maker's is marked with its maker; when it comes back it goes, unchanged, to a
//! target of that maker, and is left out for every other.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Format;

/// What marks a seal in a dialect that is not its maker's. No provider's own begins like it.
pub(super) const MARK: &str = "switchboard.";
/// Stands for a signature of Gemini's that was lost [ai.google.dev, "Thought signatures"].
pub(super) const SKIP: &str = "skip_thought_signature_validator";
/// The mark in base64: it has twelve bytes, so that whatever follows does not change it.
pub(crate) const ENCODED_MARK: &str = "c3dpdGNoYm9hcmQu";

/// A seal and the dialect of its maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal<'a> {
    /// The dialect of its maker.
    pub(crate) maker: Format,
    /// The reasoning's text is withheld: the seal is all there is of it (Anthropic's `redacted_thinking`).
    pub(crate) redacted: bool,
    /// The seal, as its maker made it. Empty: the maker seals nothing, and this only tells that it was the maker.
    pub(crate) value: &'a str,
}

impl<'a> Seal<'a> {
    /// Reads a seal from a text of dialect `of`: one without a mark is that dialect's own.
    pub(crate) fn read(of: Format, text: &'a str) -> Self {
        let marked = text.strip_prefix(MARK).and_then(|rest| {
            let (mark, value) = rest.split_once('.')?;
            let (letter, redacted) = match mark.strip_suffix('x') {
                Some(letter) => (letter, true),
                None => (mark, false),
            };
            let mut all = Format::ALL.into_iter();
            let maker = all.find(|format| format.letter() == letter)?;
            Some(Self {
                maker,
                redacted,
                value,
            })
        });
        marked.unwrap_or(Self {
            maker: of,
            redacted: false,
            value: text,
        })
    }

    /// The text that stands for it in dialect `of`.
    pub(crate) fn said_in(&self, of: Format) -> Cow<'a, str> {
        if self.maker == of {
            Cow::Borrowed(self.value)
        } else {
            let redacted = if self.redacted { "x" } else { "" };
            let letter = self.maker.letter();
            Cow::Owned(format!("{MARK}{letter}{redacted}.{}", self.value))
        }
    }

    /// The text that stands for it where a seal has to be base64, as Gemini's are: its own as it is, a marked one encoded.
    pub(crate) fn said_in_base64(&self, of: Format) -> Cow<'a, str> {
        match self.said_in(of) {
            Cow::Borrowed(own) => Cow::Borrowed(own),
            Cow::Owned(marked) => Cow::Owned(STANDARD.encode(marked)),
        }
    }

    /// Undoes [`said_in_base64`](Self::said_in_base64): what [`read`](Self::read) reads.
    pub(crate) fn decoded(text: Cow<'_, str>) -> Cow<'_, str> {
        if !text.starts_with(ENCODED_MARK) {
            return text;
        }
        let decoded = STANDARD.decode(&*text).ok();
        match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(marked) => Cow::Owned(marked),
            None => text,
        }
    }

    /// The seal itself, for a target of dialect `of`: only its own.
    pub(crate) fn for_target(&self, of: Format) -> Option<&'a str> {
        (self.maker == of && !self.value.is_empty()).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_comes_back_unchanged_to_its_maker_and_to_nobody_else() {
        let seal = Seal {
            maker: Format::Anthropic,
            redacted: false,
            value: "Ab.c+/=",
        };
        let said = seal.said_in(Format::Chat);
        assert_eq!(said, "switchboard.a.Ab.c+/=");
        let back = Seal::read(Format::Chat, &said);
        assert_eq!(back.for_target(Format::Anthropic), Some("Ab.c+/="));
        for other in [Format::Chat, Format::Responses, Format::Gemini] {
            assert_eq!(back.for_target(other), None);
        }
        assert_eq!(seal.said_in(Format::Anthropic), "Ab.c+/=");
        let redacted = Seal {
            redacted: true,
            ..seal
        };
        let said = redacted.said_in(Format::Responses);
        assert_eq!(Seal::read(Format::Responses, &said), redacted);
        let own = Seal::read(Format::Gemini, "Ab.c+/=");
        assert_eq!(own.for_target(Format::Gemini), Some("Ab.c+/="));
    }
}
