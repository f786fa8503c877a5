//! Server-sent events, read from any framing that occurs in the wild and written in the one that every client bears
//! (SPEC FWD-7; WHATWG HTML §9.2).
//!
//! Reading: bytes are pushed as they arrive, split anywhere (inside a character, inside CRLF); events come out. LF,
//! CRLF and CR end lines, also mixed; a leading BOM, comments, `id`, `retry` and unknown fields are dropped; several
//! `data` lines join with LF; an event without data is none; the last event may lack its blank line.
//!
//! An event whose bytes on the wire are already exactly what we would write ([`Frame::canonical`]) can be passed on as
//! a slice of what was read; consecutive ones as one slice. Ordinary events cost no allocation and no copy; an event
//! that straddles two reads is copied once.
//!
//! Invariants: the same events come out however the bytes were split; at most `max_event` bytes are kept; data is
//! handed out only when it is valid UTF-8. This module does not know what the data means.

mod codec;
mod decoder;
mod objects;
mod outbox;
#[cfg(test)]
mod tests;
mod writer;

pub use codec::Codec;
pub use decoder::{Decoder, Event, Frame, SseError};
pub use objects::{Framing, ObjectSplitter};
pub use outbox::Outbox;
pub use writer::{DONE, KEEP_ALIVE, write_event};

/// The largest single event that is accepted unless configured otherwise, in bytes: images come as megabytes in one.
pub const DEFAULT_MAX_EVENT: usize = 64 << 20;
