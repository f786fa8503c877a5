//! Text that is kept, up to a bound, to be counted later.

/// Collects text for a later token count (SPEC BILL-6): what lies beyond the bound is counted in bytes only.
#[derive(Debug, Clone, Default)]
pub struct TextBuffer {
    text: String,
    bytes: u64,
    bound: usize,
}

impl TextBuffer {
    /// Keeps at most `bound` bytes.
    #[must_use]
    pub const fn new(bound: usize) -> Self {
        Self {
            text: String::new(),
            bytes: 0,
            bound,
        }
    }

    /// Adds a piece of text.
    pub fn push(&mut self, piece: &str) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        let room = self.bound.saturating_sub(self.text.len());
        if piece.len() <= room {
            self.text.push_str(piece);
        } else if room > 0 {
            let end = piece.floor_char_boundary(room);
            self.text.push_str(piece.get(..end).unwrap_or(""));
        }
    }

    /// The kept text: the beginning of all that was added.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
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
