//! The form of a record: mark, length, checksum, message. Reading survives any damage.

use std::ops::Range;

use prost::{
    Message,
    encoding::{self, message},
};
use switchboard_proto::billing::v1::Settlement;

/// Where a record begins. A reader that lost its way looks for the next one.
const MARK: [u8; 4] = [0xf5, b'S', b'B', 0x01];

/// Mark, length and CRC-32 of the message, little-endian.
const HEADER: usize = 12;

/// A length beyond this is damage.
const MAX_MESSAGE: usize = 16 << 20;

/// A record that is longer is damage, bytes.
pub(super) const MAX_BYTES: u64 = (MAX_MESSAGE + HEADER) as u64;

/// One line of the journal.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 5")]
    pub(super) kind: Option<Kind>,
    /// Of a draft: the number of its input tokens is a guess from bytes.
    #[prost(bool, tag = "4")]
    pub(super) guessed: bool,
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
    /// What an open request asks; in files of its own.
    #[prost(message, tag = "5")]
    Prompt(SealedPrompt),
}

/// What a request asks, sealed; its id is the associated data.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SealedPrompt {
    #[prost(string, tag = "1")]
    pub(super) request_id: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) nonce: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(super) key_id: String,
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
    /// [`Kind::Draft`], and whether its input is guessed.
    Draft(&'a Settlement, bool),
    /// [`Kind::Settled`].
    Settled(&'a Settlement),
    /// [`Kind::Acknowledged`].
    Acknowledged(&'a Ids),
    /// [`Kind::Prompt`].
    Prompt(&'a SealedPrompt),
}

impl Record {
    /// To be written again.
    pub(super) fn line(&self) -> Option<Line<'_>> {
        Some(match self.kind.as_ref()? {
            Kind::Draft(draft) => Line::Draft(draft, self.guessed),
            Kind::Settled(settlement) => Line::Settled(settlement),
            Kind::Acknowledged(ids) => Line::Acknowledged(ids),
            Kind::Prompt(prompt) => Line::Prompt(prompt),
        })
    }
}

/// Appends a record; gives its length.
pub(super) fn append(out: &mut Vec<u8>, line: Line<'_>) -> u64 {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[0; HEADER - MARK.len()]);
    let begin = out.len();
    // The tags are those of `Record`.
    match line {
        Line::Draft(draft, guessed) => {
            message::encode(1, draft, out);
            if guessed {
                encoding::bool::encode(4, &guessed, out);
            }
        }
        Line::Settled(settlement) => message::encode(2, settlement, out),
        Line::Acknowledged(ids) => message::encode(3, ids, out),
        Line::Prompt(prompt) => message::encode(5, prompt, out),
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
fn first(bytes: &[u8]) -> Option<(Record, usize)> {
    let rest = bytes.strip_prefix(&MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let message = rest.get(..length).filter(|_| length <= MAX_MESSAGE)?;
    if crc32fast::hash(message) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let record = Record::decode(message).ok()?;
    record.kind.is_some().then_some((record, HEADER + length))
}

/// Reads one record that is known to lie there.
pub(super) fn read(bytes: &[u8]) -> Option<Record> {
    first(bytes).map(|(record, _)| record)
}

/// Hands out every intact record with its place; gives the number of damaged stretches that were skipped.
pub(super) fn scan(bytes: &[u8], mut each: impl FnMut(Range<usize>, Record)) -> u64 {
    let mut at = 0;
    let mut damaged = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((record, length)) = first(rest) {
            each(at..at + length, record);
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
