//! Strings inside JSON: finding their end fast, comparing and decoding them.

use std::borrow::Cow;

use super::Span;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Words after which a string is a long one.
const WORDS_FIRST: u32 = 8;
/// Bytes of one large step.
const STEP: usize = 64;

/// Passes whole steps in which nothing stops a string.
fn skip_steps(bytes: &[u8], mut at: usize) -> usize {
    while let Some(step) = bytes.get(at..).and_then(<[u8]>::first_chunk::<STEP>) {
        let stops = |found: u8, byte: &u8| {
            found | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < 0x20)
        };
        if step.iter().fold(0, stops) != 0 {
            break;
        }
        at += STEP;
    }
    at
}

/// Marks the bytes of a word that stop a string: `x - 1 & !x & 0x80` marks zero bytes. The lowest mark is always true (a borrow
/// can only make false marks above it).
#[inline]
const fn stops(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let slash = word ^ (ONES * 0x5c);
    let hit = (word.wrapping_sub(ONES * 0x20) & !word)
        | (quote.wrapping_sub(ONES) & !quote)
        | (slash.wrapping_sub(ONES) & !slash);
    hit & HIGH
}

/// Index of the first `"`, `\` or control character at or after `at`; the length when there is none.
///
/// Long strings (images, documents) are passed in large steps first, which compilers turn into vector instructions. Then eight
/// bytes at a time.
#[inline]
pub(super) fn string_stop(bytes: &[u8], mut at: usize) -> usize {
    let mut words = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let hit = stops(word);
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
        words += 1;
        if words == WORDS_FIRST {
            at = skip_steps(bytes, at);
        }
    }
    while let Some(&b) = bytes.get(at) {
        if b == b'"' || b == b'\\' || b < 0x20 {
            return at;
        }
        at += 1;
    }
    at
}

/// The inside of a JSON string that lies among bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Where its closing quote stands.
    pub(crate) end: usize,
    pub(crate) escaped: bool,
    pub(crate) ascii: bool,
}

/// Passes the inside of a JSON string that begins at `at`. `None` when it is not valid or does not end; whether it is UTF-8
/// is not looked at.
#[inline]
pub(crate) fn string_inside(bytes: &[u8], at: usize) -> Option<Inside> {
    let mut end = at;
    let mut high = 0;
    // The most part of the strings of a stream ends in their first words.
    while let Some(chunk) = bytes.get(end..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let hit = stops(word);
        if hit != 0 {
            let at = hit.trailing_zeros() / 8;
            end += at as usize;
            high |= word & !(u64::MAX << (8 * at));
            break;
        }
        high |= word;
        end += 8;
    }
    if bytes.get(end) == Some(&b'"') {
        return Some(Inside {
            end,
            escaped: false,
            ascii: high & HIGH == 0,
        });
    }
    escaped_inside(bytes, at)
}

/// The same of one that has escapes, or ends near the end of all.
fn escaped_inside(bytes: &[u8], at: usize) -> Option<Inside> {
    let mut end = string_stop(bytes, at);
    let mut escaped = false;
    loop {
        match bytes.get(end)? {
            b'"' => break,
            b'\\' => {
                escaped = true;
                end = string_stop(bytes, end + escape_len(bytes.get(end..)?)?);
            }
            _ => return None,
        }
    }
    let ascii = bytes.get(at..end)?.is_ascii();
    Some(Inside {
        end,
        escaped,
        ascii,
    })
}

/// The length of the escape with which `bytes` begin.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => {
            let digits = bytes.get(2..6)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
        }
        _ => None,
    }
}

/// The inside of a JSON string, as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// What lies between the quotes.
    pub span: Span,
    /// Whether there are escapes in it.
    pub escaped: bool,
}

impl Text {
    /// Whether nothing lies between the quotes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.span.start == self.span.end
    }

    /// What the string means; borrowed when there are no escapes.
    #[must_use]
    pub fn decode<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.escaped {
            let mut out = String::with_capacity(self.span.end - self.span.start);
            self.pieces(text, |piece| out.push_str(piece));
            Cow::Owned(out)
        } else {
            Cow::Borrowed(self.span.of(text))
        }
    }

    /// Hands out what the string means, piece by piece, without allocating. A lone surrogate escape, which no UTF-8
    /// can express, becomes U+FFFD.
    pub fn pieces(&self, text: &str, mut piece: impl FnMut(&str)) {
        let raw = self.span.of(text);
        if !self.escaped {
            if !raw.is_empty() {
                piece(raw);
            }
            return;
        }
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            let (plain, escape) = rest.split_at(at);
            if !plain.is_empty() {
                piece(plain);
            }
            let (decoded, used) = unescape(escape.as_bytes());
            piece(decoded.encode_utf8(&mut [0; 4]));
            rest = escape.get(used..).unwrap_or("");
        }
        if !rest.is_empty() {
            piece(rest);
        }
    }
}

/// The character of one (already validated) escape sequence, and how many bytes it takes.
fn unescape(escape: &[u8]) -> (char, usize) {
    let plain = match escape.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unescape_unicode(escape),
        Some(&other) => char::from(other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (plain, 2)
}

fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let Some(first) = unit(escape) else {
        return (char::REPLACEMENT_CHARACTER, 6);
    };
    if (0xd800..0xdc00).contains(&first)
        && let Some(low) = escape
            .get(6..)
            .filter(|rest| rest.starts_with(b"\\u"))
            .and_then(unit)
        && (0xdc00..0xe000).contains(&low)
    {
        let joined = 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00);
        return (
            char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER),
            12,
        );
    }
    (
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
        6,
    )
}

/// The code unit of `\uXXXX`.
fn unit(escape: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(escape.get(2..6)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_string_stops_at_its_first_stop_wherever_that_is() {
        for stop in [b'"', b'\\', 0x00, 0x1f] {
            for at in 0..400 {
                let mut bytes = vec![b'x'; 400];
                bytes[at] = stop;
                assert_eq!(string_stop(&bytes, 0), at, "{stop}");
            }
        }
        // What is no stop, though it lies near one.
        let text = "\u{20}\u{21}#[]\u{7f}\u{80}\u{ffff}".repeat(100);
        assert_eq!(string_stop(text.as_bytes(), 0), text.len());
    }
}
