//! A body in chunks (RFC 9112, 7.1).

use bytes::{Buf as _, Bytes, BytesMut};

use super::{Error, MAX_EXTENSIONS, MAX_HEADERS, MAX_PADDING, MAX_TRAILERS, body::cut};

/// Reads a body in chunks. What stands between them is taken out where it lies, so that all data of one read is one piece.
///
/// Lines end with CR and LF, nothing less. Extensions and trailers are dropped.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    at: At,
    /// Of the chunk's data, what has not come yet; while its size is read, that.
    left: u64,
    /// Of this chunk's size line, bytes that say nothing.
    padding: usize,
    /// Of all extensions, bytes.
    extensions: usize,
    /// Of all trailers, lines and bytes.
    trailers: (usize, usize),
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// A size's first digit.
    #[default]
    Size,
    /// Another digit, or what ends the size.
    MoreSize,
    /// White space, or what follows it.
    BehindSize,
    Extension,
    /// The LF of a size line.
    SizeEnd,
    Data,
    /// CR, LF after the data.
    DataCr,
    DataLf,
    /// A trailer, or the empty line.
    Trailers,
    Trailer,
    /// The LF of a trailer.
    TrailerEnd,
    /// The LF of the empty line.
    LastLf,
    Read,
    Broken(&'static str),
}

impl Chunks {
    /// See [`Body::take`](super::Body::take).
    pub(super) fn take(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        let bytes: &mut [u8] = input;
        // The data lies from `start` to `end`; what was read ends at `read`. The first data stays where it is.
        let (mut start, mut end, mut read) = (0, 0, 0);
        while let Some(&byte) = bytes.get(read) {
            match self.at {
                At::Data => {
                    let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let taken = left.min(bytes.len() - read);
                    if start == end {
                        (start, end) = (read, read);
                    }
                    if end < read {
                        bytes.copy_within(read..read + taken, end);
                    }
                    (end, read) = (end + taken, read + taken);
                    self.left -= taken as u64;
                    if self.left == 0 {
                        self.at = At::DataCr;
                        if rest(bytes, read).starts_with(b"\r\n") {
                            (self.at, read) = (At::Size, read + 2);
                        }
                    }
                }
                At::Size if let Some((size, length)) = plain_size(rest(bytes, read)) => {
                    self.left = size;
                    (self.at, read) = (At::Data, read + length);
                }
                At::Read | At::Broken(_) => break,
                at => {
                    self.at = self.next(at, byte);
                    read += 1;
                }
            }
        }
        if start < end {
            input.advance(start);
            let piece = cut(input, end - start);
            input.advance(read - end);
            return Ok(Some(piece));
        }
        input.advance(read);
        match self.at {
            At::Broken(why) => Err(Error::Chunk(why)),
            _ => Ok(None),
        }
    }

    /// The last chunk and what follows it were read.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.at, At::Read)
    }

    /// What comes after a byte that is no data.
    fn next(&mut self, at: At, byte: u8) -> At {
        match (at, byte) {
            (At::Size, _) => {
                (self.left, self.padding) = (0, 0);
                self.digit(byte, "a size is missing")
            }
            (At::MoreSize | At::BehindSize | At::Extension, b'\r') => At::SizeEnd,
            (At::MoreSize | At::BehindSize, b';') => At::Extension,
            (At::MoreSize | At::BehindSize, b' ' | b'\t') => self.pad(At::BehindSize),
            (At::MoreSize, _) => self.digit(byte, "a size is no number"),
            (At::Extension, b'\n') => At::Broken("an extension has a line end"),
            (At::Extension, _) => {
                self.extensions += 1;
                if self.extensions < MAX_EXTENSIONS {
                    At::Extension
                } else {
                    At::Broken("extensions are too long")
                }
            }
            (At::SizeEnd, b'\n') if self.left == 0 => At::Trailers,
            (At::SizeEnd, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size,
            (At::Trailers, b'\r') => At::LastLf,
            (At::LastLf, b'\n') => At::Read,
            (At::Trailer, b'\r') => At::TrailerEnd,
            (At::TrailerEnd, b'\n') => At::Trailers,
            (At::Trailers, _) => {
                self.trailers.0 += 1;
                self.trailer(byte)
            }
            (At::Trailer, _) => self.trailer(byte),
            (At::BehindSize, _) => At::Broken("a size is followed by something else"),
            (At::DataCr | At::DataLf, _) => At::Broken("a chunk is longer than its size"),
            (At::SizeEnd | At::TrailerEnd | At::LastLf, _) => At::Broken("a line has no end"),
            (At::Data | At::Read | At::Broken(_), _) => at,
        }
    }

    /// A digit of a size.
    fn digit(&mut self, byte: u8, otherwise: &'static str) -> At {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return At::Broken(otherwise);
        };
        if self.left > u64::MAX >> 4 {
            return At::Broken("a size is too large");
        }
        self.left = self.left << 4 | u64::from(digit);
        if self.left == 0 {
            return self.pad(At::MoreSize);
        }
        At::MoreSize
    }

    /// A byte of a size line that says nothing.
    fn pad(&mut self, next: At) -> At {
        self.padding += 1;
        if self.padding < MAX_PADDING {
            next
        } else {
            At::Broken("a size is too long")
        }
    }

    /// A byte of a trailer.
    fn trailer(&mut self, byte: u8) -> At {
        self.trailers.1 += 1;
        let (lines, bytes) = self.trailers;
        if lines > MAX_HEADERS || bytes >= MAX_TRAILERS {
            return At::Broken("trailers are too long");
        }
        if byte.is_ascii_control() && byte != b'\t' {
            return At::Broken("a trailer is none");
        }
        At::Trailer
    }
}

fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or_default()
}

/// A size line as nearly all of them are, whole and of digits alone: the size, and the line's length. `None`: it is another one.
fn plain_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (at, byte) in bytes.iter().take(u32::BITS as usize / 4 + 1).enumerate() {
        match char::from(*byte).to_digit(16) {
            Some(digit) => size = size << 4 | u64::from(digit),
            None => {
                let plain = size > 0 && rest(bytes, at).starts_with(b"\r\n");
                return plain.then_some((size, at + 2));
            }
        }
    }
    None
}
