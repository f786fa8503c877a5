//! Bytes as upstreams send them, in pieces of any size, whole, cut and wrong.

mod answers;
mod bodies;
mod compared;
mod wire;

use bytes::{Bytes, BytesMut};

use super::{Error, answer::Body};

/// What a body gives when it comes in these reads, and then the connection ends: its pieces, the fault, and what is left over.
fn read(mut body: Body, reads: &[&[u8]]) -> (Vec<Bytes>, Result<(), Error>, BytesMut) {
    let (mut input, mut pieces) = (BytesMut::new(), Vec::new());
    for read in reads {
        input.extend_from_slice(read);
        loop {
            match body.take(&mut input) {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => break,
                Err(error) => return (pieces, Err(error), input),
            }
        }
        assert!(input.is_empty() || body.is_read());
    }
    (pieces, body.close(), input)
}
