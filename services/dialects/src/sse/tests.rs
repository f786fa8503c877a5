use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

type Plain = (Option<String>, String);

fn plain(event: &Event) -> Plain {
    let text = |b: &Bytes| String::from_utf8(b.to_vec()).unwrap();
    (event.name.as_ref().map(text), text(&event.data))
}

fn drain(decoder: &mut Decoder, out: &mut Vec<Event>) -> Result<(), SseError> {
    while let Some(event) = decoder.next_event()? {
        out.push(event);
    }
    Ok(())
}

/// Decodes `bytes` cut at `cuts`.
fn decode(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Event>, SseError> {
    let mut decoder = Decoder::new(DEFAULT_MAX_EVENT);
    let mut out = Vec::new();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut at = 0;
    for end in ends {
        decoder.push(Bytes::copy_from_slice(&bytes[at..end]));
        drain(&mut decoder, &mut out)?;
        at = end;
    }
    decoder.finish();
    drain(&mut decoder, &mut out)?;
    Ok(out)
}

#[test]
fn of_a_large_read_only_what_ends_an_event_is_to_be_copied() {
    let more = "data: b\n\n".repeat(1_000);
    for (kept, ends) in [
        ("data: a", "\n\n"),
        ("data: a\n", "\n"),
        ("data: a", "bc\ndata: d\n\n"),
        ("data: a\r", "\n\r\n"),
        ("data: a\r\n", "\r\n"),
        ("data: a\r", "\r"),
    ] {
        let mut decoder = Decoder::new(DEFAULT_MAX_EVENT);
        decoder.push(Bytes::from(kept));
        assert_eq!(decoder.next_frame(), Ok(None));
        let read = format!("{ends}{more}");
        assert_eq!(decoder.seam(read.as_bytes()), Some(ends.len()), "{kept:?}");
        assert_eq!(decoder.seam(ends.as_bytes()), None, "too small");
        decoder.push(Bytes::from(read).split_to(ends.len()));
        assert!(decoder.next_frame().unwrap().is_some());
        assert_eq!(decoder.next_frame(), Ok(None));
        assert_eq!(decoder.seam(more.as_bytes()), None, "nothing is kept");
    }
}

fn events(bytes: &[u8]) -> Vec<Plain> {
    let every: Vec<usize> = (0..bytes.len()).collect();
    let whole: Vec<Plain> = decode(bytes, &[]).unwrap().iter().map(plain).collect();
    let single: Vec<Plain> = decode(bytes, &every).unwrap().iter().map(plain).collect();
    assert_eq!(whole, single, "one byte at a time");
    whole
}

/// The standard's algorithm, on the whole text at once, slow and plain.
fn reference(text: &str) -> Vec<Plain> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Vec::new();
    let (mut name, mut data): (Option<String>, Option<String>) = (None, None);
    let mut lines: Vec<&str> = unified.split('\n').collect();
    lines.push(""); // the end counts as a blank line
    for line in lines {
        if line.is_empty() {
            if let Some(data) = data.take().filter(|d| !d.is_empty()) {
                out.push((name.clone(), data));
            }
            name = None;
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                data = Some(data.map_or_else(|| value.to_owned(), |d| format!("{d}\n{value}")));
            }
            "event" => name = Some(value.to_owned()).filter(|n| !n.is_empty()),
            _ => {}
        }
    }
    out
}

fn none(data: &str) -> Plain {
    (None, data.to_owned())
}

#[test]
fn every_line_end_is_read() {
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("data: a{end}{end}event: x{end}data: b{end}{end}");
        assert_eq!(
            events(text.as_bytes()),
            [none("a"), (Some("x".to_owned()), "b".to_owned())]
        );
    }
    assert_eq!(
        events(b"data: a\r\n\ndata: b\n\r\ndata: c\r\rdata: d\n\n\n\r\n"),
        [none("a"), none("b"), none("c"), none("d")]
    );
}

#[test]
fn oddities_are_read_and_dropped() {
    assert_eq!(
        events("\u{feff}: hi\n\nretry: 3\n\nid: 7\ndata:{1}\n\ndata:  two\ndata\ndata:x\n\nevent: e\n\ndata:\n\n".as_bytes()),
        [none("{1}"), none(" two\n\nx")]
    );
    assert_eq!(
        events("data: a\u{2028}b\u{85}c\n\n".as_bytes()),
        [none("a\u{2028}b\u{85}c")]
    );
}

#[test]
fn the_last_event_needs_no_blank_line() {
    for tail in ["data: [DONE]", "data: [DONE]\n", "data: [DONE]\r"] {
        let got = decode(tail.as_bytes(), &[]).unwrap();
        assert_eq!(plain(&got[0]), none("[DONE]"));
        assert!(!got[0].terminated && got[0].canonical.is_none());
    }
}

#[test]
fn canonical_events_are_slices_of_what_was_read() {
    let text = Bytes::from_static(
        b"data: a\n\nevent: x\ndata: b\n\n: c\n\ndata: d\r\n\r\ndata:e\n\nid: 1\ndata: f\n\n",
    );
    let mut decoder = Decoder::new(1024);
    decoder.push(text.clone());
    let mut got = Vec::new();
    drain(&mut decoder, &mut got).unwrap();
    let canonical: Vec<Option<&[u8]>> = got.iter().map(|e| e.canonical.as_deref()).collect();
    assert_eq!(
        canonical,
        [
            Some(&b"data: a\n\n"[..]),
            Some(&b"event: x\ndata: b\n\n"[..]),
            None,
            None,
            None
        ]
    );
    let slice = got[1].canonical.as_ref().unwrap();
    assert_eq!(slice.as_ptr(), text[9..].as_ptr(), "not copied");
}

#[test]
fn an_event_that_is_too_large_is_an_error_however_it_comes() {
    let text = format!("data: {}\n\n", "x".repeat(100));
    for cuts in [vec![], vec![50], (0..100).collect()] {
        let mut decoder = Decoder::new(64);
        let mut at = 0;
        let mut result = Ok(());
        for end in cuts.into_iter().chain([text.len()]) {
            decoder.push(Bytes::copy_from_slice(&text.as_bytes()[at..end]));
            result = result.and(drain(&mut decoder, &mut Vec::new()));
            at = end;
        }
        assert_eq!(result, Err(SseError::TooLarge { limit: 64 }));
    }
}

#[test]
fn endless_comments_do_not_pile_up() {
    let mut decoder = Decoder::new(64);
    for _ in 0..1000 {
        for part in [": wai", "ting\n"] {
            decoder.push(Bytes::from_static(part.as_bytes()));
            assert_eq!(decoder.next_event(), Ok(None));
        }
    }
}

#[test]
fn bytes_that_are_no_utf8_are_an_error() {
    assert_eq!(decode(b"data: \xff\n\n", &[]), Err(SseError::Utf8));
    assert_eq!(decode(b"data: \xed\xa0\x80\n\n", &[8]), Err(SseError::Utf8));
}

fn stream_text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec![
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "data: ",
            "data:",
            "data",
            "event: ",
            "event:",
            "id: 1",
            "retry: 5",
            ": c",
            ":",
            " ",
            "{\"a\":1}",
            "é🙂",
            "\u{feff}",
            "[DONE]",
            "x",
        ]),
        0..40,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_events_of_the_standard(text in stream_text(), cuts in prop::collection::vec(any::<usize>(), 0..12)) {
        let got: Vec<Plain> = decode(text.as_bytes(), &cuts).unwrap().iter().map(plain).collect();
        prop_assert_eq!(&got, &reference(&text));
        let every: Vec<usize> = (0..text.len()).collect();
        let single: Vec<Plain> = decode(text.as_bytes(), &every).unwrap().iter().map(plain).collect();
        prop_assert_eq!(got, single);
    }

    #[test]
    fn canonical_bytes_are_what_the_writer_writes(text in stream_text(), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        for event in decode(text.as_bytes(), &cuts).unwrap() {
            let (name, data) = plain(&event);
            let mut written = BytesMut::new();
            write_event(&mut written, name.as_deref().map(str::as_bytes), &data);
            if let Some(canonical) = &event.canonical {
                prop_assert_eq!(canonical, &written.freeze());
            }
        }
    }

    #[test]
    fn what_is_written_reads_back(name in prop::option::of("[a-z.]{1,12}"), data in ".{0,40}(\n.{0,10}){0,3}") {
        let mut out = BytesMut::new();
        write_event(&mut out, name.as_deref().map(str::as_bytes), &data);
        write_event(&mut out, None, "[DONE]");
        let want_data = data.replace("\r\n", "\n").replace('\r', "\n");
        let mut want = vec![(name, want_data), none("[DONE]")];
        want.retain(|(_, data)| !data.is_empty());
        prop_assert_eq!(events(&out), want);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<usize>(), 0..6)) {
        let split = decode(&bytes, &cuts);
        prop_assert_eq!(split, decode(&bytes, &[]));
    }
}
