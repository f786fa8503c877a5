//! HTTP/1.1's form of requests and answers (RFC 9112), without a connection.
//!
//! Own code, where HTTP/2 is hyper's: streams are what this product exists for, they mostly come over HTTP/1.1, and a busy one
//! brings dozens of chunks in one read. hyper hands each of them over on its own, through a channel and by a turn of its
//! dispatcher, for more instructions than all that happens to it afterwards. Here what one read brought is one piece: the chunks
//! are pushed together where they lie ([`Body`](answer::Body)).
//!
//! Invariants: heads and bodies mean what they mean to hyper 1.12, and what it refuses of them is refused, but for trailers, which
//! are dropped whatever they say, and lengths near 2^64; everything that an upstream can make longer is bounded; data that came before a fault is given
//! out before it; no byte of a request or an answer is in an error. The lines of an answer's head are read by `httparse`, as in
//! hyper. It does not do: upgrades, CONNECT, `Expect`, requests of unknown length.

pub(super) mod answer;
pub(super) mod input;
pub(super) mod output;
pub(super) mod request;

pub(crate) use self::answer::Error;

/// One read brings this much at most, bytes: a stream's bound holds but for one read (FWD-2).
const READ: usize = 32 << 10;
#[cfg(test)]
mod tests;
