//! What goes over a stream.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use bytes::Bytes;

use super::super::{
    super::{Outgoing, Sent},
    READ,
    input::Input,
    output::Output,
    request,
};

/// A stream of bytes at hand, which takes so much at once.
#[derive(Default)]
struct Wire {
    /// What is read next; empty: nothing is there.
    reads: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    takes: usize,
    vectored: bool,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reads.is_empty() {
            return Poll::Pending;
        }
        let mut read = self.reads.remove(0);
        if read.len() > buf.remaining() {
            let later = read.split_off(buf.remaining());
            self.reads.insert(0, later);
        }
        buf.put_slice(&read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = bufs
            .iter()
            .flat_map(|buf| buf.iter().copied())
            .take(self.takes)
            .collect();
        let taken = bytes.len();
        self.writes.push(bytes);
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn outgoing(body: &[u8]) -> Outgoing {
    Outgoing::new(Bytes::copy_from_slice(body), Sent::new(), Box::new(|| ()))
}

#[test]
fn head_and_body_go_out_in_one_write_or_in_as_many_as_it_takes() {
    let all = b"POST / HTTP/1.1\r\n\r\nbody".to_vec();
    let (head, body) = all.split_at(all.len() - 4);
    for (takes, vectored, writes) in [
        (1 << 20, true, 1),
        (1 << 20, false, 2),
        (1, true, all.len()),
        (20, true, 2),
    ] {
        let mut wire = Wire {
            takes,
            vectored,
            ..Wire::default()
        };
        let mut output = Output::new(head.to_vec(), outgoing(body));
        assert!(matches!(
            output.poll_write(&mut wire, &mut context()),
            Poll::Ready(Ok(()))
        ));
        assert_eq!(
            (wire.writes.concat(), wire.writes.len()),
            (all.clone(), writes)
        );
    }
    let mut stuck = Wire::default();
    let failed = Output::new(head.to_vec(), outgoing(body)).poll_write(&mut stuck, &mut context());
    assert!(matches!(failed, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::WriteZero));
}

#[test]
fn a_request_is_written_as_it_is_with_the_length_of_its_body() {
    let written = |method: Method, uri: &str, headers: &[(&str, &str)], length, old| {
        let mut builder = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let (parts, ()) = builder.body(()).unwrap().into_parts();
        String::from_utf8(request::encode(&parts, length, old)).unwrap()
    };
    assert_eq!(
        written(
            Method::POST,
            "/v1/a%20b?c=d",
            &[("X-One", "1"), ("host", "h:1"), ("x-one", "")],
            12,
            false
        ),
        "POST /v1/a%20b?c=d HTTP/1.1\r\nx-one: 1\r\nx-one: \r\nhost: h:1\r\ncontent-length: 12\r\n\r\n"
    );
    for method in [Method::GET, Method::HEAD, Method::DELETE, Method::POST] {
        let head = format!("{method} / HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(written(method, "/", &[], 0, false), head);
    }
    // Nobody else frames the body.
    let framed = [("content-length", "99"), ("transfer-encoding", "chunked")];
    assert_eq!(
        written(Method::PUT, "/", &framed, 1, false),
        "PUT / HTTP/1.1\r\ncontent-length: 1\r\n\r\n"
    );
    assert_eq!(
        written(Method::GET, "/", &[], 0, true),
        "GET / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"
    );
    assert_eq!(
        written(Method::GET, "/", &[("connection", "Keep-Alive")], 0, true),
        "GET / HTTP/1.0\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n"
    );
}

#[test]
fn a_connection_on_which_nothing_comes_has_no_room() {
    let mut input = Input::default();
    let mut wire = Wire {
        reads: vec![b"some".to_vec()],
        ..Wire::default()
    };
    assert!(matches!(
        input.poll_fill(&mut wire, &mut context()),
        Poll::Ready(Ok(4))
    ));
    let piece = input.bytes().split().freeze();
    assert!(input.poll_fill(&mut wire, &mut context()).is_pending());
    assert_eq!((input.bytes().capacity(), &piece[..]), (0, &b"some"[..]));
    // What is there already is kept.
    wire.reads = vec![b"half a li".to_vec()];
    assert!(matches!(
        input.poll_fill(&mut wire, &mut context()),
        Poll::Ready(Ok(9))
    ));
    assert!(input.poll_fill(&mut wire, &mut context()).is_pending());
    assert_eq!(input.bytes(), "half a li");
}

#[test]
fn a_busy_connection_is_read_in_large_pieces_but_no_larger_than_the_bound() {
    let all: Vec<u8> = (0..1_000_000_u32)
        .map(|at| at.to_le_bytes()[at as usize % 3])
        .collect();
    let mut wire = Wire {
        reads: vec![all.clone()],
        ..Wire::default()
    };
    let (mut input, mut pieces) = (Input::default(), Vec::new());
    while !wire.reads.is_empty() {
        let Poll::Ready(Ok(read)) = input.poll_fill(&mut wire, &mut context()) else {
            panic!("there is more");
        };
        assert!(read <= READ);
        pieces.push(input.bytes().split().freeze());
    }
    assert_eq!(pieces.concat(), all);
    assert!(pieces.len() <= all.len() / READ + 2, "{}", pieces.len());
}

#[tokio::test]
async fn the_end_of_a_connection_is_a_read_of_nothing() {
    let (mut near, mut far) = tokio::io::duplex(64);
    far.write_all(b"bye").await.unwrap();
    drop(far);
    let mut input = Input::default();
    for expected in [3, 0] {
        let read = std::future::poll_fn(|cx| input.poll_fill(&mut near, cx)).await;
        assert_eq!(read.unwrap(), expected);
    }
}
