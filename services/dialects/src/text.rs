//! Text that is kept, up to a bound, to be counted later.

/// Collects text for a later token count (SPEC BILL-6): what lies beyond the bound is counted in bytes only.
#[derive(Debug, Clone, Default)]
pub struct TextBuffer {
    /// UTF-8. It is looked at as text once, at the end.
    text: Vec<u8>,
    bytes: u64,
    bound: usize,
}

impl TextBuffer {
    /// Keeps at most `bound` bytes.
    #[must_use]
    pub const fn new(bound: usize) -> Self {
        Self {
            text: Vec::new(),
            bytes: 0,
            bound,
        }
    }

    /// Adds a piece of text.
    #[inline]
    pub fn push(&mut self, piece: &str) {
        if !self.add(piece.as_bytes()) {
            self.add_beginning(piece);
        }
    }

    /// Adds a piece of text that is known to be ASCII.
    #[inline]
    pub(crate) fn push_ascii(&mut self, piece: &[u8]) {
        if !self.add(piece) {
            self.add_beginning(std::str::from_utf8(piece).unwrap_or_default());
        }
    }

    /// Adds what has room, as a whole.
    #[inline]
    fn add(&mut self, piece: &[u8]) -> bool {
        let fits = piece.len() <= self.bound.saturating_sub(self.text.len());
        if fits {
            self.bytes = self.bytes.saturating_add(piece.len() as u64);
            self.text.extend_from_slice(piece);
        }
        fits
    }

    /// Adds what is too long.
    #[cold]
    fn add_beginning(&mut self, piece: &str) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        let room = self.bound.saturating_sub(self.text.len());
        let end = piece.floor_char_boundary(room);
        let kept = piece.as_bytes().get(..end).unwrap_or_default();
        self.text.extend_from_slice(kept);
    }

    /// The kept text: the beginning of all that was added. It takes a pass over all of it.
    #[must_use]
    pub fn text(&self) -> &str {
        // Nothing but text is ever added.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Bytes that are kept.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.text.len()
    }

    /// Bytes added in all; more than `text().len()` when the bound was reached.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether something was added that `text()` does not hold.
    #[must_use]
    pub const fn truncated(&self) -> bool {
        self.bytes > self.text.len() as u64
    }
}
