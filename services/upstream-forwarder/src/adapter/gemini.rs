//! Gemini: a stream may come as a JSON array, under the content type of a whole answer (CASES C36).

use switchboard_dialects::sse::{Framing, ObjectSplitter};

use super::{Adapter, Reading};

#[derive(Debug)]
pub(super) struct Gemini;

impl Adapter for Gemini {
    /// One object is a whole answer, or an error.
    fn reading(&self, content_type: Option<&str>, max_event: usize) -> Reading {
        let pieces = || Box::new(ObjectSplitter::new(max_event));
        match Framing::of(content_type) {
            Framing::Events => Reading::Events,
            Framing::Objects => Reading::Coded(pieces()),
            Framing::Whole => Reading::WholeOrArray(pieces()),
        }
    }
}
