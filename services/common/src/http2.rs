//! What the `h2` crate must be told of a connection that many callers share. Its defaults end the connection, with all of its
//! streams, for what some callers do to their own.

/// Window of a connection, bytes. What a connection may leave in flight is bounded by its streams; this is no second bound, but
/// what `h2` (since 0.4.16) takes half of as its allowance for small frames that wait unread: a thousand stalled readers of
/// single tokens are not to use it up. As much as Go's clients give.
pub const CONNECTION_WINDOW: u32 = 1 << 30;

/// How many cancelled streams a connection remembers, each for a second. What is on its way for a stream that was forgotten
/// counts as the peer's error, of which `h2` forgives 1,024 in a connection's life.
pub const REMEMBERED_STREAMS: usize = 1 << 16;
