//! Mutations of a corpus, always the same ones for a target.

use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

/// What formats are made of.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\n----\n",
    "data: ",
    "data:",
    "event: ",
    ": ",
    "[DONE]",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"usage\":",
    "\"model\":",
    "\"error\":",
    "\"stream\":true,",
    "\"content\":",
    "\u{feff}",
    "é",
    "\u{2028}",
    "\u{0}",
    "*",
    "$",
    "- ",
    "  ",
    "&a ",
    "*a",
    "!!str ",
    "|",
    "#",
];

/// Makes inputs out of others.
pub(crate) struct Mutator {
    random: StdRng,
}

impl Mutator {
    /// Seeded by the target's name.
    pub(crate) fn new(target: &str) -> Self {
        let seed = u64::from(crc32fast::hash(target.as_bytes()));
        Self {
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// One of the corpus with one to five changes.
    pub(crate) fn mutate(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.one_of(corpus);
        for _ in 0..self.random.random_range(1..=5) {
            let (from, to) = self.range(input.len());
            match self.random.random_range(0..7) {
                0 => self.write(&mut input, from),
                1 => drop(input.drain(from..to)),
                2 => {
                    let copy = input[from..to].to_vec();
                    let at = self.range(input.len()).0;
                    input.splice(at..at, copy);
                }
                3 => {
                    let other = self.one_of(corpus);
                    let (start, end) = self.range(other.len());
                    input.splice(from..to, other[start..end].iter().copied());
                }
                4 if self.random.random_range(0..4) == 0 => input.truncate(from),
                _ => {
                    let token = TOKENS.choose(&mut self.random).copied().unwrap_or("");
                    input.splice(from..from, token.bytes());
                }
            }
        }
        input
    }

    fn one_of(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        corpus.choose(&mut self.random).cloned().unwrap_or_default()
    }

    /// A random range of something so long, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.random.random_range(0..=length);
        let most = if self.random.random_range(0..4) == 0 {
            length
        } else {
            16
        };
        (
            from,
            (from + self.random.random_range(0..=most)).min(length),
        )
    }

    /// Another byte.
    fn write(&mut self, input: &mut [u8], at: usize) {
        if let Some(byte) = input.get_mut(at) {
            *byte = if self.random.random_range(0..2) == 0 {
                *byte ^ (1 << self.random.random_range(0..8))
            } else {
                (self.random.next_u32() & 0xff) as u8
            };
        }
    }
}
