//! What comes while a call goes on, and is said when none does.

use bytes::BytesMut;

use super::AnthropicWriter;
use crate::convert::Format;
use crate::convert::seal::Seal;

/// What came while a call went on.
#[derive(Debug)]
pub(super) enum Later {
    Text(String),
    Reasoning(String),
    Sealed(Format, bool, String),
    Citation(String),
    /// A text of its own.
    Note(String),
}

impl Later {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Citation(text) | Self::Note(text) => {
                text.len()
            }
            Self::Sealed(_, _, value) => value.len(),
        }
    }
}

impl AnthropicWriter {
    /// Says something beside the calls, or keeps it while one of them goes on.
    pub(super) fn beside(&mut self, part: Later, out: &mut BytesMut) {
        match (self.later.last_mut(), part) {
            (Some(Later::Text(text)), Later::Text(more))
            | (Some(Later::Reasoning(text)), Later::Reasoning(more)) => text.push_str(&more),
            (_, part) => self.later.push(part),
        }
        self.resume(out);
    }

    /// Whether a call goes on.
    pub(super) fn calling(&self) -> bool {
        self.calls.iter().any(|call| !call.said && !call.ended)
    }

    pub(super) fn resume(&mut self, out: &mut BytesMut) {
        if self.calling() {
            return;
        }
        for part in std::mem::take(&mut self.later) {
            match part {
                Later::Text(text) => self.text(&text, out),
                Later::Reasoning(text) => self.reasoning(&text, out),
                Later::Citation(citation) => self.cite(&citation, out),
                Later::Note(text) => {
                    self.say_calls(true, out);
                    self.close(out);
                    self.text(&text, out);
                    self.close(out);
                }
                Later::Sealed(maker, redacted, value) => {
                    let value = &*value;
                    self.sealed(
                        Seal {
                            maker,
                            redacted,
                            value,
                        },
                        out,
                    );
                }
            }
        }
    }
}
