//! A principal with the moment of its reading, as the state store keeps it.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use switchboard_proto::auth::v1::Principal;

use crate::{domain::identity::Caller, grpc::convert};

/// First byte of a stored entry; entries of other layouts are not read.
const LAYOUT: u8 = 1;

/// A principal and when it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Unix milliseconds.
    pub(crate) read_at_ms: i64,
    /// Bears the feed's head of its reading.
    pub(crate) principal: Principal,
}

impl Entry {
    pub(crate) fn new(caller: &Caller, head: u64, read_at_ms: i64) -> Self {
        Self {
            read_at_ms,
            principal: convert::principal(caller, head),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(9 + self.principal.encoded_len());
        bytes.put_u8(LAYOUT);
        bytes.put_i64(self.read_at_ms);
        bytes.put_slice(&self.principal.encode_to_vec());
        bytes.freeze()
    }

    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut bytes = bytes.clone();
        if bytes.len() < 9 || bytes.get_u8() != LAYOUT {
            return None;
        }
        Some(Self {
            read_at_ms: bytes.get_i64(),
            principal: Principal::decode(bytes).ok()?,
        })
    }
}
