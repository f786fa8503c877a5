//! How deep in an object a text is, where it comes in pieces and may be cut anywhere.

/// What is open after the bytes that were passed. It checks nothing: what is no JSON has some depth or other.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Objects and arrays that are open.
    pub(crate) const fn depth(self) -> u32 {
        self.depth
    }

    /// Whether the next byte stands in a string, within an object or array.
    pub(crate) const fn in_string(self) -> bool {
        self.in_string
    }

    /// Passes a byte.
    pub(crate) fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' if self.depth > 0 => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}
