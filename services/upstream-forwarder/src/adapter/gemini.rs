//! Gemini: a stream may come as a JSON array, under the content type of a whole answer (CASES C36).

use switchboard_dialects::sse::{Framing, ObjectSplitter};

use super::{Adapter, Reading};

#[derive(Debug)]
pub(super) struct Gemini;

impl Adapter for Gemini {
    /// One object alone is a stream of one event, and an error is an object too: what is JSON is read piece by piece.
    fn reading(&self, content_type: Option<&str>, max_event: usize) -> Reading {
        match Framing::of(content_type) {
            Framing::Events => Reading::Events,
            Framing::Objects | Framing::Whole => {
                Reading::Coded(Box::new(ObjectSplitter::new(max_event)))
            }
        }
    }
}
