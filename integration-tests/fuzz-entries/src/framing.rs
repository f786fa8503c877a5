//! Framings that are no event streams.

use bytes::{BufMut as _, Bytes, BytesMut};
use switchboard_dialects::{
    Class,
    sse::{Codec, Decoder, ObjectSplitter},
};

use crate::{
    event_stream::{EventStream, encode, exception},
    input::{arrivals, sections},
    json::{assert_json, text},
    sse::assert_well_formed,
};

/// The largest piece here, bytes: small, so that it is reached.
const MAX_PIECE: usize = 300;

/// What comes out of a codec, and how it ends.
fn decode(mut codec: impl Codec, pieces: &[Bytes]) -> (BytesMut, Result<(), Class>) {
    let mut out = BytesMut::new();
    for piece in pieces {
        if let Err(error) = codec.push(piece, &mut out) {
            return (out, Err(error.class));
        }
    }
    out.extend_from_slice(&codec.finish());
    assert_eq!(codec.finish(), "", "what was left over is told once");
    (out, Ok(()))
}

/// Reads an input in all ways, which must agree.
fn read<C: Codec>(codec: impl Fn() -> C, input: &[u8]) -> (BytesMut, Result<(), Class>) {
    let mut ways = arrivals(input).into_iter();
    let whole = decode(codec(), &ways.next().unwrap_or_default());
    for pieces in ways {
        let (out, end) = decode(codec(), &pieces);
        assert_eq!((text(&out), end), (text(&whole.0), whole.1), "{pieces:?}");
    }
    whole
}

/// The data of the events of `stream`, none of which has a name.
fn data(stream: &[u8]) -> Vec<Bytes> {
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(Bytes::copy_from_slice(stream));
    decoder.finish();
    let mut out = Vec::new();
    while let Ok(Some(event)) = decoder.next_event() {
        assert_eq!(event.name, None);
        out.push(event.data);
    }
    out
}

pub(crate) fn objects(input: &[u8]) {
    let codec = || ObjectSplitter::new(MAX_PIECE);
    let (out, _) = read(codec, input);
    for event in data(&out) {
        assert!(event.len() <= MAX_PIECE);
    }
    // An object a line: each is an event as it stands, in every way in which objects are put together.
    let Ok(lines) = std::str::from_utf8(input) else {
        return;
    };
    let lines: Vec<&str> = lines.split('\n').map(str::trim_ascii).collect();
    let objects = lines.iter().all(|line| {
        line.len() <= MAX_PIECE
            && line.starts_with('{')
            && !line.contains('\r')
            && crate::json::is_json(line.as_bytes())
    });
    if objects {
        for (open, between, close) in [("", "\n", ""), ("[", ",\r\n", "]"), ("", "", "\n")] {
            let joined = format!("{open}{}{close}", lines.join(between));
            let (out, end) = read(codec, joined.as_bytes());
            assert_eq!(end, Ok(()));
            assert_eq!(data(&out), lines, "{joined}");
        }
    }
}

pub(crate) fn event_stream(input: &[u8]) {
    let codec = || EventStream::new(MAX_PIECE);
    let (_, _) = read(codec, input);
    // As frames whose lengths and sums are right, which no mutation would find: headers and payload in turn.
    let parts = sections::<8>(input);
    let mut frames = BytesMut::new();
    for pair in parts.chunks(2) {
        frame(pair[0], pair[1], &mut frames);
    }
    let (_, _) = read(codec, &frames);
    let Ok(payload) = std::str::from_utf8(parts[0]) else {
        return;
    };
    let (out, end) = read(codec, &exception(payload, payload));
    if end.is_ok() {
        let events = assert_well_formed(&out);
        assert_eq!(events.len(), 1);
        assert_json(&events[0].data, "an exception's error");
    }
    if payload.len() <= MAX_PIECE {
        let (out, end) = read(codec, &encode(payload));
        assert_eq!(end, Ok(()));
        let want = payload.replace("\r\n", "\n").replace('\r', "\n");
        let got = data(&out);
        assert_eq!(got.len(), usize::from(!want.is_empty()));
        assert!(got.iter().all(|data| *data == want), "{payload:?}");
    }
}

/// A frame as [`encode`] makes it, of any headers and payload.
fn frame(headers: &[u8], payload: &[u8], out: &mut BytesMut) {
    let start = out.len();
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    out.put_u32(length(16 + headers.len() + payload.len()));
    out.put_u32(length(headers.len()));
    out.put_u32(crc32fast::hash(&out[start..]));
    out.put_slice(headers);
    out.put_slice(payload);
    out.put_u32(crc32fast::hash(&out[start..]));
}
