//! Heads.

use http::{StatusCode, Version};
use proptest::prelude::*;

use super::{
    super::answer::{self, MAX_HEAD, MAX_HEADERS, Progress, head::Answer},
    *,
};

/// What is read of these bytes at once.
fn at_once(bytes: &[u8]) -> (Result<Option<Answer>, Error>, BytesMut) {
    let mut input = BytesMut::from(bytes);
    let answer = answer::read(&mut input, &mut Progress::default(), false);
    (answer, input)
}

fn whole(bytes: &[u8]) -> Answer {
    at_once(bytes).0.unwrap().unwrap()
}

fn error(bytes: &[u8]) -> Error {
    at_once(bytes).0.err().unwrap()
}

#[test]
fn a_head_tells_how_its_body_ends_and_whether_the_connection_stays() {
    for (head, body, stays) in [
        ("1.1 200 OK\r\ncontent-length: 7\r\n", "Sized(7)", true),
        ("1.1 200\r\nContent-Length: 7\r\n", "Sized(7)", true),
        ("1.1 200 OK\r\ncontent-length: 7, 7\r\n", "Sized(7)", true),
        (
            "1.1 200 OK\r\ncontent-length: 7\r\ncontent-length: 7\r\n",
            "Sized(7)",
            true,
        ),
        (
            "1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n",
            "Sized(18446744073709551615)",
            true,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: chunked\r\n",
            "Chunked",
            true,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n",
            "Chunked",
            true,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "Chunked",
            true,
        ),
        (
            "1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n",
            "Chunked",
            true,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n",
            "UntilClosed",
            false,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n",
            "UntilClosed",
            false,
        ),
        (
            "1.1 200 OK\r\ntransfer-encoding: gzip\r\ncontent-length: 7\r\n",
            "UntilClosed",
            false,
        ),
        ("1.1 200 OK\r\n", "UntilClosed", false),
        (
            "1.1 204 No Content\r\ncontent-length: 7\r\n",
            "Sized(0)",
            true,
        ),
        (
            "1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n",
            "Sized(0)",
            true,
        ),
        (
            "1.1 101 Switching Protocols\r\ncontent-length: 7\r\n",
            "Sized(0)",
            false,
        ),
        (
            "1.1 200 OK\r\nconnection: Close\r\ncontent-length: 7\r\n",
            "Sized(7)",
            false,
        ),
        (
            "1.1 200 OK\r\nconnection: x, close\r\nconnection: keep-alive\r\ncontent-length: 7\r\n",
            "Sized(7)",
            false,
        ),
        ("1.0 200 OK\r\ncontent-length: 7\r\n", "Sized(7)", false),
        (
            "1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 7\r\n",
            "Sized(7)",
            true,
        ),
        (
            "1.0 200 OK\r\nconnection: keep-alive\r\n",
            "UntilClosed",
            false,
        ),
        (
            "1.0 200 OK\r\nconnection: keep-alive, close\r\ncontent-length: 7\r\n",
            "Sized(7)",
            false,
        ),
    ] {
        let answer = whole(format!("HTTP/{head}\r\n").as_bytes());
        let said = format!("{:?}", answer.body);
        assert!(said.starts_with(body), "{head}: {said}");
        assert_eq!(answer.stays, stays, "{head}");
    }
    let bodiless = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n";
    let answer = answer::read(
        &mut BytesMut::from(bodiless),
        &mut Progress::default(),
        true,
    );
    assert!(answer.unwrap().unwrap().body.is_read());
}

#[test]
fn a_head_that_is_none_or_contradicts_itself_is_an_error() {
    for head in [
        "1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n",
        "1.1 200 OK\r\ncontent-length: 2, 3\r\n",
        "1.1 200 OK\r\ncontent-length: 2,\r\n",
        "1.1 200 OK\r\ncontent-length: -2\r\n",
        "1.1 200 OK\r\ncontent-length: +2\r\n",
        "1.1 200 OK\r\ncontent-length: 0x2\r\n",
        "1.1 200 OK\r\ncontent-length:\r\n",
        "1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n",
    ] {
        let error = error(format!("HTTP/{head}\r\n").as_bytes());
        assert!(matches!(error, Error::Length), "{head}: {error:?}");
    }
    let coded = b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(matches!(error(coded), Error::Coding));
    assert!(matches!(error(b"HTTP/1.1 099 OK\r\n\r\n"), Error::Status));
    for wrong in [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n x: a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "<html>",
    ] {
        let error = error(wrong.as_bytes());
        assert!(matches!(error, Error::Head(_)), "{wrong:?}: {error:?}");
    }
}

#[test]
fn what_is_told_before_the_answer_is_passed_over_however_it_is_cut() {
    let said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n\
        HTTP/1.0 429 Slow\r\nX-One: 1\r\nx-empty:\r\nx-one: \t2 \t\r\nx-high: \xe4\ncontent-length: 4\r\n\r\nbody";
    for size in 1..=said.len() {
        let (mut input, mut progress, mut answer) = (BytesMut::new(), Progress::default(), None);
        let mut parts = said.chunks(size);
        while answer.is_none() {
            input.extend_from_slice(parts.next().unwrap());
            answer = answer::read(&mut input, &mut progress, false).unwrap();
        }
        let answer = answer.unwrap();
        assert_eq!(answer.head.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.head.version(), Version::HTTP_10);
        let lines = answer.head.headers().iter();
        let lines: Vec<_> = lines
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let expected: [(&str, &[u8]); 5] = [
            ("x-one", b"1"),
            ("x-one", b"2"),
            ("x-empty", b""),
            ("x-high", b"\xe4"),
            ("content-length", b"4"),
        ];
        assert_eq!(lines, expected);
        input.extend_from_slice(&parts.flatten().copied().collect::<Vec<_>>());
        assert_eq!(input, "body");
    }
}

#[test]
fn a_head_has_bounds() {
    let sized = |size: usize| {
        let (front, back) = ("HTTP/1.1 200 OK\r\nx: ", "\r\ncontent-length: 0\r\n\r\n");
        let fill = "a".repeat(size - front.len() - back.len());
        format!("{front}{fill}{back}")
    };
    assert_eq!(whole(sized(MAX_HEAD).as_bytes()).head.status(), 200);
    let large = sized(MAX_HEAD + 1);
    assert!(matches!(error(large.as_bytes()), Error::TooLarge));
    let begun = large.get(..MAX_HEAD - 1).unwrap();
    assert!(at_once(begun.as_bytes()).0.unwrap().is_none());
    let begun = large.get(..MAX_HEAD).unwrap();
    assert!(matches!(error(begun.as_bytes()), Error::TooLarge));
    let lines = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: a\r\n".repeat(count));
    let most = whole(lines(MAX_HEADERS).as_bytes());
    assert_eq!(most.head.headers().len(), MAX_HEADERS);
    let more = error(lines(MAX_HEADERS + 1).as_bytes());
    assert!(matches!(more, Error::Head(httparse::Error::TooManyHeaders)));
}

#[test]
fn what_is_told_before_an_answer_has_bounds() {
    for endless in ["HTTP/1.1 103 x\r\n\r\n", "\n", "\r\n"] {
        let mut progress = Progress::default();
        let told = (0..MAX_HEAD).find_map(|_| {
            let mut input = BytesMut::from(endless);
            answer::read(&mut input, &mut progress, false).err()
        });
        assert!(matches!(told, Some(Error::TooLarge)), "{endless:?}");
        let often = endless.repeat(MAX_HEAD / endless.len() + 1);
        assert!(matches!(error(often.as_bytes()), Error::TooLarge));
    }
    let few = "\r\n\nHTTP/1.1 103 x\r\n\r\n\nHTTP/1.1 204 x\r\n\r\n";
    assert_eq!(whole(few.as_bytes()).head.status(), 204);
}

#[test]
fn nothing_of_a_head_is_in_its_errors() {
    for said in [
        "HTTP/1.1 200 OK\r\ncontent-length: canary\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: canary\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncanary canary: canary\r\n\r\n",
        "HTTP/1.1 canary OK\r\n\r\n",
    ] {
        let error = error(said.as_bytes());
        assert!(
            !format!("{error} {error:?}").contains("canary"),
            "{error:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_head_or_an_error(
        front in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 x\r\n\r\n", "HTTP/1.0 200 OK\r\ncontent-length:"]),
        bytes in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), any::<u8>()], 0..200),
        size in 1..50_usize,
    ) {
        let said = [front.as_bytes(), &bytes].concat();
        let (once, left) = at_once(&said);
        let (mut input, mut progress) = (BytesMut::new(), Progress::default());
        for part in said.chunks(size) {
            input.extend_from_slice(part);
            match answer::read(&mut input, &mut progress, false) {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    // The rest is not looked at.
                    let once = once.unwrap().unwrap();
                    prop_assert_eq!(answer.head.headers(), once.head.headers());
                    prop_assert!(left.starts_with(&input));
                    return Ok(());
                }
                Err(_) => {
                    prop_assert!(once.is_err());
                    return Ok(());
                }
            }
        }
        // What is wrong is found when the head is at its end.
        prop_assert!(!matches!(once, Ok(Some(_))));
    }
}
