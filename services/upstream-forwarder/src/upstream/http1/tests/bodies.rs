//! Bodies.

use proptest::prelude::*;

use super::{
    super::answer::{MAX_EXTENSIONS, MAX_HEADERS, MAX_PADDING, MAX_TRAILERS, SMALL},
    *,
};

/// What a body in chunks gives when it comes at once.
fn chunks(bytes: &[u8]) -> (Bytes, Result<(), Error>) {
    let (pieces, end, _) = read(Body::chunked(), &[bytes]);
    assert!(pieces.len() <= 1, "one read is one piece");
    (pieces.concat().into(), end)
}

fn wrong(bytes: impl AsRef<[u8]>) -> (Bytes, &'static str) {
    match chunks(bytes.as_ref()) {
        (data, Err(Error::Chunk(why))) => (data, why),
        other => panic!("{other:?}"),
    }
}

const CHUNKS: &[u8] =
    b"1;name=\"value\"\r\na\r\n0000002 \t\r\nbc\r\n3\t; x\r\n\r\nd\r\nA\r\n0123456789\r\n\
    00;last\r\nx-one: 1\r\nX-Two:\r\n\r\n";
const DATA: &[u8] = b"abc\r\nd0123456789";

#[test]
fn chunks_of_one_read_are_one_piece() {
    let behind = [CHUNKS, b"HTTP/1.1"].concat();
    let (pieces, end, left) = read(Body::chunked(), &[&behind]);
    end.unwrap();
    assert_eq!(
        (pieces, &left[..]),
        (vec![Bytes::from_static(DATA)], &b"HTTP/1.1"[..])
    );
    // No data, no piece.
    for (bytes, expected) in [
        ("0\r\n\r\n", 0),
        ("0\r\nx: y\r\n\r\n", 0),
        ("1\r\na\r\n0\r\n\r\n", 1),
    ] {
        let (pieces, end, _) = read(Body::chunked(), &[bytes.as_bytes()]);
        end.unwrap();
        assert_eq!(pieces.len(), expected, "{bytes:?}");
    }
}

#[test]
fn chunks_give_the_same_however_they_are_cut() {
    for first in 0..=CHUNKS.len() {
        let (head, rest) = CHUNKS.split_at(first);
        for second in 0..=rest.len() {
            let (middle, tail) = rest.split_at(second);
            let (pieces, end, left) = read(Body::chunked(), &[head, middle, tail]);
            end.unwrap();
            assert_eq!(
                (&pieces.concat()[..], left.len()),
                (DATA, 0),
                "{first}, {second}"
            );
        }
    }
}

#[test]
fn chunks_that_end_anywhere_before_their_end_are_cut() {
    for end in 0..CHUNKS.len() {
        let (data, cut) = chunks(CHUNKS.get(..end).unwrap());
        assert!(matches!(cut, Err(Error::Incomplete)), "{end}: {cut:?}");
        assert!(DATA.starts_with(&data));
    }
}

#[test]
fn what_is_wrong_between_chunks_is_an_error_after_the_data_before_it() {
    for (bytes, expected) in [
        ("zz\r\n", "a size is missing"),
        ("\r\n", "a size is missing"),
        (" 1\r\na\r\n", "a size is missing"),
        ("-1\r\na\r\n", "a size is missing"),
        ("1x\r\na\r\n", "a size is no number"),
        ("1\na\r\n", "a size is no number"),
        ("1 1\r\na\r\n", "a size is followed by something else"),
        ("1 \na\r\n", "a size is followed by something else"),
        ("1;a\nb\r\na\r\n", "an extension has a line end"),
        ("1\r\r\na\r\n", "a line has no end"),
        ("10000000000000000\r\n", "a size is too large"),
        ("ffffffffffffffffff\r\n", "a size is too large"),
        ("0\r\nx: 1\n\r\n\r\n", "a trailer is none"),
        ("0\r\nx: 1\r\r\n", "a line has no end"),
        ("0\r\n\r\r", "a line has no end"),
        ("0\r\n\n", "a trailer is none"),
    ] {
        for before in ["", "2\r\nok\r\n"] {
            let (data, why) = wrong(format!("{before}{bytes}"));
            let told = if before.is_empty() { "" } else { "ok" };
            assert_eq!((&data[..], why), (told.as_bytes(), expected), "{bytes:?}");
        }
    }
    for longer in ["1\r\nab\r\n", "1\r\na\n", "1\r\na\rb", "1\r\na0\r\n\r\n"] {
        let why = wrong(longer);
        assert_eq!(
            why,
            ("a".into(), "a chunk is longer than its size"),
            "{longer:?}"
        );
    }
}

#[test]
fn a_size_may_be_as_large_as_it_likes() {
    let (data, cut) = chunks(b"ffffffffffffffff\r\nsome");
    assert_eq!(data, "some");
    assert!(matches!(cut, Err(Error::Incomplete)));
}

#[test]
fn what_says_nothing_is_bounded() {
    let extended = |length| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length));
    chunks(extended(MAX_EXTENSIONS - 1).as_bytes()).1.unwrap();
    assert_eq!(wrong(extended(MAX_EXTENSIONS)).1, "extensions are too long");
    // Of all chunks together.
    let half = format!("1;{}\r\na\r\n", "x".repeat(MAX_EXTENSIONS / 2));
    assert_eq!(wrong(half.repeat(2)).1, "extensions are too long");
    // Of each chunk alone: servers that fill up do so every time.
    for fill in [["0", "1"], ["1", " "], ["1", "\t"]] {
        let size = |length| match fill {
            ["0", size] => format!("{}{size}", "0".repeat(length)),
            [size, with] => format!("{size}{}", with.repeat(length)),
        };
        let most = format!("{}\r\na\r\n", size(MAX_PADDING - 1)).repeat(1_000) + "0\r\n\r\n";
        let (data, end) = chunks(most.as_bytes());
        end.unwrap();
        assert_eq!(data.len(), 1_000);
        assert_eq!(wrong(size(MAX_PADDING)).1, "a size is too long");
    }
    let trailers = |lines| format!("0\r\n{}\r\n", "x: y\r\n".repeat(lines));
    chunks(trailers(MAX_HEADERS).as_bytes()).1.unwrap();
    assert_eq!(wrong(trailers(MAX_HEADERS + 1)).1, "trailers are too long");
    let trailer = |length| format!("0\r\n{}\r\n\r\n", "x".repeat(length));
    chunks(trailer(MAX_TRAILERS - 1).as_bytes()).1.unwrap();
    assert_eq!(wrong(trailer(MAX_TRAILERS)).1, "trailers are too long");
}

#[test]
fn a_body_of_a_length_ends_with_it() {
    let (pieces, end, left) = read(Body::Sized(5), &[b"he", b"llo, and more"]);
    end.unwrap();
    assert_eq!(
        (pieces, &left[..]),
        (vec!["he".into(), "llo".into()], &b", and more"[..])
    );
    for length in [6, u64::MAX] {
        let (pieces, cut, _) = read(Body::Sized(length), &[b"he", b"llo"]);
        assert_eq!(pieces.concat(), b"hello");
        assert!(matches!(cut, Err(Error::Incomplete)));
    }
    let (pieces, end, _) = read(Body::Sized(0), &[]);
    end.unwrap();
    assert!(pieces.is_empty());
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let mut body = Body::UntilClosed;
    let mut input = BytesMut::from("some");
    assert_eq!(body.take(&mut input).unwrap().unwrap(), "some");
    assert!(!body.is_read());
    body.close().unwrap();
    assert!(body.is_read());
}

/// A chunk's size as some server writes it.
fn size_line(length: usize, form: u8) -> String {
    match form % 5 {
        0 => format!("{length:x}"),
        1 => format!("{length:X}"),
        2 => format!("{length:08x}"),
        3 => format!("{length:x}  "),
        _ => format!("{length:x};name=\"v\""),
    }
}

proptest! {
    #[test]
    fn a_body_arrives_as_it_was_however_it_is_chunked_and_cut(
        parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..600), any::<u8>()), 0..40),
        cuts in prop::collection::vec(1..900_usize, 1..60),
        behind in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let (mut said, mut data) = (Vec::new(), Vec::new());
        for (part, form) in &parts {
            said.extend_from_slice(size_line(part.len(), *form).as_bytes());
            said.extend_from_slice(&[b"\r\n", &part[..], b"\r\n"].concat());
            data.extend_from_slice(part);
        }
        said.extend_from_slice(b"0\r\n\r\n");
        said.extend_from_slice(&behind);
        let (mut reads, mut rest) = (Vec::new(), &said[..]);
        for cut in cuts.iter().cycle() {
            let (read, later) = rest.split_at((*cut).min(rest.len()));
            reads.push(read);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let (pieces, end, left) = read(Body::chunked(), &reads);
        prop_assert!(end.is_ok(), "{end:?}");
        prop_assert_eq!(pieces.concat(), data);
        prop_assert!(pieces.len() <= reads.len());
        prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
        prop_assert_eq!(&left[..], &behind[..]);
    }

    #[test]
    fn any_bytes_are_chunks_or_an_error(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'1'), Just(b'2'), Just(b';'), Just(b' '), any::<u8>()
            ],
            0..300,
        ),
        size in 1..20_usize,
    ) {
        let (once, end, left) = read(Body::chunked(), &[&bytes]);
        let cut: Vec<_> = bytes.chunks(size).collect();
        let (pieces, other, _) = read(Body::chunked(), &cut);
        prop_assert_eq!(once.concat(), pieces.concat());
        prop_assert_eq!(format!("{end:?}"), format!("{other:?}"));
        prop_assert!(once.concat().len() + left.len() <= bytes.len());
    }
}

#[test]
fn a_small_piece_does_not_hold_the_room_that_it_was_read_into() {
    const ROOM: usize = 32 << 10;
    for length in [SMALL, SMALL + 1] {
        let mut input = BytesMut::zeroed(ROOM);
        let piece = Body::Sized(length as u64).take(&mut input);
        let piece = piece.unwrap().unwrap();
        assert_eq!((piece.len(), input.len()), (length, ROOM - length));
        input.clear();
        assert_eq!(input.try_reclaim(ROOM), length == SMALL);
        drop(piece);
        assert!(input.try_reclaim(ROOM));
    }
}
