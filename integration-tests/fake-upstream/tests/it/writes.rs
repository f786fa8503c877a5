//! How the bytes are cut into writes: each HTTP chunk on a raw connection is one write of the script.

use fake_upstream::{FakeUpstream, Script, Writes};
use tokio::io::AsyncReadExt as _;

use crate::client::{raw, stream};

/// The data of each HTTP chunk of the next answer.
async fn chunks(upstream: &FakeUpstream) -> Vec<String> {
    let mut tcp = raw(upstream, &stream(false)).await;
    let mut seen = Vec::new();
    while !seen.ends_with(b"0\r\n\r\n") {
        assert_ne!(tcp.read_buf(&mut seen).await.unwrap(), 0);
    }
    let text = String::from_utf8(seen).unwrap();
    let (_, mut rest) = text.split_once("\r\n\r\n").unwrap();
    let mut chunks = Vec::new();
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return chunks;
        }
        chunks.push(after[..size].to_owned());
        rest = &after[size + 2..];
    }
}

#[tokio::test]
async fn one_write_an_event_by_default() {
    let upstream = FakeUpstream::start().await.unwrap();
    upstream.push(Script::events(["a", "b"]));
    assert_eq!(chunks(&upstream).await, ["data: a\n\n", "data: b\n\n"]);
}

#[tokio::test]
async fn writes_of_a_size_glued_or_at_offsets() {
    let upstream = FakeUpstream::start().await.unwrap();
    let script = Script::events(["a", "b"]);
    upstream.push(script.clone().one_byte_writes());
    let bytes = chunks(&upstream).await;
    assert!(bytes.iter().all(|chunk| chunk.len() == 1));
    assert_eq!(bytes.concat(), "data: a\n\ndata: b\n\n");

    upstream.push(script.clone().writes(Writes::Glued));
    assert_eq!(chunks(&upstream).await, ["data: a\n\ndata: b\n\n"]);

    // Between the two line ends, and in the middle of the next word.
    upstream.push(script.clone().writes(Writes::At(vec![8, 11])));
    assert_eq!(chunks(&upstream).await, ["data: a\n", "\nda", "ta: b\n\n"]);

    upstream.push(Script::event_bytes("data: \u{e9}\r\r\n").writes(Writes::Of(7)));
    let mut tcp = raw(&upstream, &stream(false)).await;
    let mut seen = Vec::new();
    while !seen.ends_with("data: \u{e9}\r\r\n".as_bytes()) {
        assert_ne!(tcp.read_buf(&mut seen).await.unwrap(), 0);
    }
}
