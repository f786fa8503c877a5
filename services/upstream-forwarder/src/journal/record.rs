//! The form of a record: mark, length, checksum, message. Reading survives any damage.

use std::ops::Range;

use prost::Message;
use switchboard_proto::billing::v1::Settlement;

/// Where a record begins. A reader that lost its way looks for the next one.
const MARK: [u8; 4] = [0xf5, b'S', b'B', 0x01];

/// Mark, length and CRC-32 of the message, little-endian.
const HEADER: usize = 12;

/// A length beyond this is damage.
const MAX_MESSAGE: usize = 16 << 20;

/// One line of the journal.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    pub(super) kind: Option<Kind>,
}

/// What a record says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Kind {
    /// An open request: what to settle if nothing follows.
    #[prost(message, tag = "1")]
    Draft(Settlement),
    /// A settlement.
    #[prost(message, tag = "2")]
    Settled(Settlement),
    /// Requests of which nothing is owed any more.
    #[prost(message, tag = "3")]
    Acknowledged(Ids),
}

/// Request ids.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ids {
    #[prost(string, repeated, tag = "1")]
    pub(super) ids: Vec<String>,
}

/// Appends a record; gives its length.
pub(super) fn append(out: &mut Vec<u8>, kind: Kind) -> u64 {
    let message = Record { kind: Some(kind) }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&message).to_le_bytes());
    out.extend_from_slice(&message);
    (HEADER + message.len()) as u64
}

/// The record at the beginning of `bytes` and its length; `None` when there is no whole one.
fn first(bytes: &[u8]) -> Option<(Kind, usize)> {
    let rest = bytes.strip_prefix(&MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let message = rest.get(..length).filter(|_| length <= MAX_MESSAGE)?;
    if crc32fast::hash(message) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let record = Record::decode(message).ok()?;
    Some((record.kind?, HEADER + length))
}

/// Reads one record that is known to lie there.
pub(super) fn read(bytes: &[u8]) -> Option<Kind> {
    first(bytes).map(|(kind, _)| kind)
}

/// Hands out every intact record with its place; gives the number of damaged stretches that were skipped.
pub(super) fn scan(bytes: &[u8], mut each: impl FnMut(Range<usize>, Kind)) -> u64 {
    let mut at = 0;
    let mut damaged = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((kind, length)) = first(rest) {
            each(at..at + length, kind);
            at += length;
            continue;
        }
        damaged += 1;
        let next = rest
            .get(1..)
            .and_then(|rest| memchr::memmem::find(rest, &MARK));
        // Damage may look like a mark: every mark is tried until one begins an intact record.
        at = next.map_or(bytes.len(), |next| at + 1 + next);
    }
    damaged
}
