//! The form of a record: mark, length, checksum, message. Reading survives any damage.

use std::ops::Range;

use prost::{Message, encoding::message};
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

/// What is to be written: a [`Kind`] that belongs to someone else.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'a> {
    /// [`Kind::Draft`].
    Draft(&'a Settlement),
    /// [`Kind::Settled`].
    Settled(&'a Settlement),
    /// [`Kind::Acknowledged`].
    Acknowledged(&'a Ids),
}

impl<'a> From<&'a Kind> for Line<'a> {
    fn from(kind: &'a Kind) -> Self {
        match kind {
            Kind::Draft(draft) => Self::Draft(draft),
            Kind::Settled(settlement) => Self::Settled(settlement),
            Kind::Acknowledged(ids) => Self::Acknowledged(ids),
        }
    }
}

/// Appends a record; gives its length.
pub(super) fn append(out: &mut Vec<u8>, line: Line<'_>) -> u64 {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[0; HEADER - MARK.len()]);
    let begin = out.len();
    // The tags are those of `Kind`.
    match line {
        Line::Draft(draft) => message::encode(1, draft, out),
        Line::Settled(settlement) => message::encode(2, settlement, out),
        Line::Acknowledged(ids) => message::encode(3, ids, out),
    }
    let (head, written) = out.split_at_mut(begin);
    let length = u32::try_from(written.len()).unwrap_or(u32::MAX);
    let sums = length.to_le_bytes().into_iter();
    let sums = sums.chain(crc32fast::hash(written).to_le_bytes());
    let places = head.iter_mut().skip(start + MARK.len());
    places.zip(sums).for_each(|(place, byte)| *place = byte);
    (out.len() - start) as u64
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
