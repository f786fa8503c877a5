//! Replacing byte ranges of a text, leaving everything else exactly as it was.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::Span;

/// One replacement: the bytes of `span` give way to `with`. An empty span inserts, an empty `with` removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit<'a> {
    /// What goes.
    pub span: Span,
    /// What comes in its place.
    pub with: Cow<'a, str>,
}

impl<'a> Edit<'a> {
    /// Puts `with` in the place of `span`.
    pub fn replace(span: Span, with: impl Into<Cow<'a, str>>) -> Self {
        Self {
            span,
            with: with.into(),
        }
    }

    /// Puts `with` before the byte at `at`.
    pub fn insert(at: usize, with: impl Into<Cow<'a, str>>) -> Self {
        Self::replace(Span::new(at, at), with)
    }
}

/// Applies `edits`, which must not overlap (their order does not matter; insertions at one place keep theirs).
#[must_use]
pub fn splice(text: &[u8], mut edits: Vec<Edit<'_>>) -> Bytes {
    edits.sort_by_key(|edit| edit.span.start);
    let added: usize = edits.iter().map(|edit| edit.with.len()).sum();
    let mut out = BytesMut::with_capacity(text.len() + added);
    let mut at = 0;
    for edit in &edits {
        out.put_slice(text.get(at..edit.span.start).unwrap_or_default());
        out.put_slice(edit.with.as_bytes());
        at = edit.span.end.max(at);
    }
    out.put_slice(text.get(at..).unwrap_or_default());
    out.freeze()
}
