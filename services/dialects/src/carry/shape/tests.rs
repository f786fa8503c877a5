use bytes::Bytes;

use super::*;
use crate::sse::Decoder;

/// The shape of `{"n":5,"t":"abc","p":"xyz"}` as the only event of `wire`, with `form`.
fn learnt(wire: &str, form: Option<&Form<'_>>) -> Shape {
    let mut decoder = Decoder::new(1 << 10);
    decoder.push(Bytes::copy_from_slice(wire.as_bytes()));
    let frame = decoder.next_frame().unwrap().unwrap();
    let event = decoder.event(&frame).unwrap();
    let of = |what: &str| {
        let start = event.data.find(what).unwrap();
        Span::new(start, start + what.len())
    };
    let slots = [
        (Slot::Padding, of("xyz")),
        (Slot::Count, of("5")),
        (Slot::Text, of("abc")),
    ];
    let mut shape = Shape::default();
    shape.learn(&event, slots, form);
    shape
}

fn data(count: &str, text: &str, padding: &str) -> String {
    format!(r#"{{"n":{count},"t":"{text}","p":"{padding}"}}"#)
}

fn plain(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// How many events of `block` are taken, how many bytes they have, and what came out.
fn run(shape: &mut Shape, block: &[u8], limit: usize) -> (Run, String, String) {
    let mut text = TextBuffer::new(1 << 10);
    let mut out = Outbox::default();
    out.start(&Bytes::copy_from_slice(block));
    let run = shape.run(block, 0, limit, &mut text, &mut out);
    let out = out.take().unwrap_or_default();
    let out = String::from_utf8(out.to_vec()).unwrap();
    (run, text.text().to_owned(), out)
}

#[test]
fn events_of_the_shape_pass_until_another_one_comes() {
    let mut shape = learnt(&plain(&data("5", "abc", "xyz")), None);
    let events = [
        data("6", "é\\n", ""),
        data("999999999", "\\ud83d\\ude42x", "日本"),
        data("7", "0123456789abcdef", "\\\""),
    ];
    let events: String = events.iter().map(|data| plain(data)).collect();
    let block = format!("{events}data: {{}}\n\n");
    let (run, text, out) = run(&mut shape, block.as_bytes(), 200);
    assert_eq!((run.events, run.end), (3, events.len()));
    assert_eq!(text, "é\n🙂x0123456789abcdef");
    assert_eq!(out, events);
    let count = shape.counts().next().unwrap();
    assert_eq!(block.get(count.start..count.end), Some("7"));
}

#[test]
fn what_is_written_otherwise_is_so_for_each_event() {
    let wire = ":\n\ndata:{\"n\":5,\"t\":\"abc\",\"p\":\"xyz\"}\r\n\r\n";
    let put = |out: &mut BytesMut, range: Range<usize>| {
        let data = data("5", "abc", "xyz");
        let part = data.get(range).unwrap();
        out.extend_from_slice(part.replace("\"p\"", "\"longer\"").as_bytes());
    };
    let form = Form {
        before: b"<",
        put: &put,
        after: b">",
    };
    let framed = |data: &str| format!("data:{data}\r\n\r\n");
    let (a, b) = (data("6", "b", "c"), data("7", "d", "e"));
    let block = format!("{}{}data:{{\"n\":1}}", framed(&a), framed(&b));
    let mut shape = learnt(wire, Some(&form));
    let (run_, _, out) = run(&mut shape, block.as_bytes(), 200);
    assert_eq!(run_.events, 2);
    assert_eq!(out, format!("<{a}><{b}>").replace("\"p\"", "\"longer\""));
    let mut shape = learnt(wire, None);
    let (_, _, out) = run(&mut shape, block.as_bytes(), 200);
    assert_eq!(out, plain(&a) + &plain(&b), "in the canonical form");
}

#[test]
fn what_is_not_of_the_shape_is_left_as_a_whole() {
    let good = plain(&data("6", "b", "c"));
    let others: Vec<Vec<u8>> = [
        data("6", "", "c"),
        data("0", "b", "c"),
        data("06", "b", "c"),
        data("-6", "b", "c"),
        data("6.0", "b", "c"),
        data("1000000000", "b", "c"),
        data("6", "\\x", "c"),
        data("6", "\\u123x", "c"),
        data("6", "b\u{1}", "c"),
        data("6", "b", "c\\"),
        data("6", "b", "c").replace("\"p\"", "\"q\""),
        data("6", "b", "c").replace('{', "{ "),
        data("6", &"b".repeat(200), "c"),
    ]
    .iter()
    .map(|data| plain(data).into_bytes())
    .chain([
        good.replace('b', "X")
            .into_bytes()
            .iter()
            .map(|b| if *b == b'X' { 0xff } else { *b })
            .collect(),
        good.replace("\"c", "\"X")
            .into_bytes()
            .iter()
            .map(|b| if *b == b'X' { 0xc3 } else { *b })
            .collect(),
        good.replace("\n\n", "\r\n\r\n").into_bytes(),
        good.trim_end().as_bytes().to_vec(),
        good.get(..good.len() - 1).unwrap().as_bytes().to_vec(),
    ])
    .collect();
    for other in others {
        let mut shape = learnt(&plain(&data("5", "abc", "xyz")), None);
        let block = [good.as_bytes(), &other].concat();
        let (run, text, out) = run(&mut shape, &block, 100);
        assert_eq!((run.events, run.end), (1, good.len()), "{other:?}");
        assert_eq!((&*text, out), ("b", good.clone()));
    }
}

#[test]
fn an_event_whose_end_is_not_certain_is_no_shape() {
    for end in ["\n", "", "\r\n\r", "\r\r"] {
        let wire = format!("data: {}{end}", data("5", "abc", "xyz"));
        let mut decoder = Decoder::new(1 << 10);
        decoder.push(Bytes::from(wire.clone()));
        decoder.finish();
        let frame = decoder.next_frame().unwrap().unwrap();
        let event = decoder.event(&frame).unwrap();
        let mut shape = Shape::default();
        shape.learn(&event, [(Slot::Count, Span::new(5, 6))], None);
        assert_eq!(run(&mut shape, wire.as_bytes(), 100).0.events, 0, "{end:?}");
    }
}
