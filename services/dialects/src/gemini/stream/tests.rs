use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;
use crate::carry::AnswerStream as _;
use crate::error::Class;
use crate::sse::{Codec as _, ObjectSplitter};

const USAGE: &str = r#","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":1,"totalTokenCount":12}"#;

fn response(part: &str, finish: &str, rest: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}}{finish},"index":0}}]{rest},"modelVersion":"up","responseId":"r"}}"#
    )
}

fn text(said: &str) -> String {
    response(&format!(r#"{{"text":{}}}"#, Tree::from(said)), "", "")
}

fn stop(rest: &str) -> String {
    response(r#"{"text":""}"#, r#","finishReason":"STOP""#, rest)
}

fn sse<S: AsRef<str>>(events: &[S]) -> String {
    events
        .iter()
        .map(|data| format!("data: {}\n\n", data.as_ref()))
        .collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    array: bool,
    renamed: bool,
    /// The upstream sends an array.
    objects: bool,
    candidates: u64,
}

struct Run {
    out: String,
    result: Result<(), Box<UpstreamError>>,
    stream: GeminiStream,
}

/// Carries `bytes`, cut at `cuts`, to the end or the first error, taking what can be taken after every step.
fn carry(asking: Asking, bytes: &[u8], cuts: &[usize]) -> Run {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let options = StreamOptions {
        public_model: asking.renamed.then(|| "pub".to_owned()),
        ..StreamOptions::default()
    };
    let mut codec = asking.objects.then(|| ObjectSplitter::new(1 << 20));
    let mut stream = GeminiStream::open(asking.candidates.max(1), asking.array, options);
    let (mut out, mut at, mut result) = (Vec::new(), 0, Ok(()));
    for end in ends {
        let piece = Bytes::copy_from_slice(&bytes[at..end]);
        at = end;
        result = match &mut codec {
            Some(codec) => {
                let mut events = BytesMut::new();
                let split = codec.push(&piece, &mut events);
                stream.push(events.freeze()).and(split)
            }
            None => stream.push(piece),
        };
        out.extend(stream.take().unwrap_or_default());
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        if let Some(codec) = &mut codec {
            result = stream.push(codec.finish());
        }
        result = result.and_then(|()| stream.finish());
        out.extend(stream.take().unwrap_or_default());
    }
    Run {
        out: String::from_utf8(out).unwrap(),
        result,
        stream,
    }
}

fn run(asking: Asking, input: &str) -> Run {
    carry(asking, input.as_bytes(), &[])
}

#[test]
fn a_stream_that_needs_no_change_passes_as_one_slice_of_what_was_read() {
    let input = Bytes::from(sse(&[text("a"), text("b"), stop(USAGE)]));
    let mut stream = GeminiStream::open(1, false, StreamOptions::default());
    stream.push(input.clone()).unwrap();
    let out = stream.take().unwrap();
    assert_eq!(out, input);
    assert_eq!(out.as_ptr(), input.as_ptr());
    assert!(!stream.done(), "only the end of the body ends it");
    stream.finish().unwrap();
    assert!(stream.done());
    let usage = stream.usage().unwrap().usage;
    assert_eq!(
        (usage.input, usage.output, usage.reasoning),
        (Some(9), Some(3), Some(1))
    );
    assert_eq!(stream.text().text(), "ab");
}

#[test]
fn the_public_name_is_put_in_everywhere() {
    let asking = Asking {
        renamed: true,
        ..Asking::default()
    };
    let input = sse(&[text("a"), stop("")]);
    assert_eq!(
        run(asking, &input).out,
        input.replace(r#""modelVersion":"up""#, r#""modelVersion":"pub""#)
    );
}

#[test]
fn an_array_comes_out_piece_by_piece_and_whole() {
    let events = [text("a"), text("b"), stop(USAGE)];
    let asking = Asking {
        array: true,
        ..Asking::default()
    };
    let run = run(asking, &sse(&events));
    assert_eq!(
        run.out,
        format!("[{},\n{},\n{}\n]", events[0], events[1], events[2])
    );
    let mut stream = GeminiStream::open(1, true, StreamOptions::default());
    stream.push(sse(&events[..1]).into()).unwrap();
    assert_eq!(stream.take().unwrap(), format!("[{}", events[0]));
    stream.push(sse(&events[1..2]).into()).unwrap();
    assert_eq!(stream.take().unwrap(), format!(",\n{}", events[1]));
}

#[test]
fn an_array_of_the_upstreams_is_read_however_it_is_cut() {
    let events = [text("안녕"), text("}],[\""), stop(USAGE)];
    let input = format!("[{}\n,\r\n{}\n,\r\n{}\n]", events[0], events[1], events[2]);
    let asking = Asking {
        objects: true,
        ..Asking::default()
    };
    for cut in 0..input.len() {
        let run = carry(asking, input.as_bytes(), &[cut]);
        run.result.unwrap();
        assert_eq!(run.out, sse(&events));
    }
    // a whole answer of a target that cannot stream
    let whole = run(
        asking,
        "{\n \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"a\"}]}, \"finishReason\": \"STOP\"}]\n}",
    );
    whole.result.unwrap();
    assert!(whole.out.starts_with("data: {") && whole.out.ends_with("}\n\n"));
    assert_eq!(whole.out.matches('\n').count(), 2);
}

#[test]
fn nothing_goes_out_before_the_first_content() {
    let mut stream = GeminiStream::open(1, false, StreamOptions::default());
    for held in [
        r#"{"usageMetadata":{"promptTokenCount":9}}"#.to_owned(),
        text(""),
        response(r#"{"text":"","thoughtSignature":"S"}"#, "", ""),
    ] {
        stream.push(sse(&[held]).into()).unwrap();
        assert!(!stream.committed() && stream.take().is_none());
    }
    for part in [
        r#"{"text":"a"}"#,
        r#"{"text":"a","thought":true}"#,
        r#"{"functionCall":{"name":"f"}}"#,
        r#"{"inlineData":{"mimeType":"image/png","data":"A"}}"#,
        r#"{"executableCode":{"code":"1"}}"#,
        r#"{"partOfTheFuture":{"a":1}}"#,
    ] {
        let mut stream = GeminiStream::open(1, false, StreamOptions::default());
        stream.push(sse(&[response(part, "", "")]).into()).unwrap();
        assert!(stream.has_content(), "{part}");
    }
    stream.push(sse(&[text("a")]).into()).unwrap();
    assert_eq!(
        stream
            .take()
            .unwrap()
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        8
    );
}

#[test]
fn a_stream_without_its_finish_reason_is_cut() {
    let class = |input: &str| run(Asking::default(), input).result.unwrap_err().class;
    assert_eq!(class(""), Class::Empty);
    assert_eq!(class("data: {}\n\n"), Class::Empty);
    assert_eq!(class(&sse(&[text("a"), text("b")])), Class::Cut);
    assert_eq!(class(&sse(&[text("a"), "[DONE]".to_owned()])), Class::Cut);
    assert_eq!(class("data: {\"candi"), Class::Cut);
    assert_eq!(class("data: nonsense\n\n"), Class::Malformed);
    let unsaid = response(
        r#"{"text":"a"}"#,
        r#","finishReason":"FINISH_REASON_UNSPECIFIED""#,
        "",
    );
    assert_eq!(class(&sse(&[unsaid])), Class::Cut);
    // half an array stays half an array
    let asking = Asking {
        array: true,
        ..Asking::default()
    };
    let cut = run(asking, &sse(&[text("a")]));
    assert_eq!(cut.out, format!("[{}", text("a")));
}

#[test]
fn every_candidate_must_end() {
    let of = |index: u64, finish: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}}]}},"index":{index}{finish}}}]}}"#
        )
    };
    let end = r#","finishReason":"MAX_TOKENS""#;
    let asking = Asking {
        candidates: 2,
        ..Asking::default()
    };
    let both = sse(&[of(0, ""), of(1, end), of(0, end)]);
    run(asking, &both).result.unwrap();
    let one = sse(&[of(0, ""), of(1, end)]);
    assert_eq!(run(asking, &one).result.unwrap_err().class, Class::Cut);
    let alone = sse(&[of(0, end)]);
    assert_eq!(run(asking, &alone).result.unwrap_err().class, Class::Cut);
}

#[test]
fn a_blocked_prompt_is_a_whole_answer() {
    let input = sse(&[
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}"#,
    ]);
    let run = run(Asking::default(), &input);
    run.result.unwrap();
    assert_eq!(run.out, input);
    let usage = run.stream.usage().unwrap().usage;
    assert_eq!((usage.input, usage.output), (Some(4), Some(0)));
}

#[test]
fn errors_are_found_and_never_counted_as_output() {
    let error = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let first = run(Asking::default(), &sse(&[error]));
    assert_eq!(first.result.unwrap_err().class, Class::Overloaded);
    assert_eq!(first.out, "");
    let later = run(
        Asking::default(),
        &sse(&[text("a"), error.to_owned(), stop("")]),
    );
    assert_eq!(later.result.unwrap_err().class, Class::Overloaded);
    assert_eq!(later.out, sse(&[text("a")]));
    assert_eq!(later.stream.text().text(), "a");
    for (stray, class) in [
        (
            r#"{"code":503,"message":"busy","status":"UNAVAILABLE"}"#,
            Class::Overloaded,
        ),
        (r#"{"detail":"secret words"}"#, Class::Server),
    ] {
        let stray = run(Asking::default(), &sse(&[text("a"), stray.to_owned()]));
        assert_eq!(stray.result.unwrap_err().class, class);
        assert_eq!(stray.out, sse(&[text("a")]));
    }
    let unwrapped = Asking {
        objects: true,
        ..Asking::default()
    };
    let array = run(unwrapped, &format!("[{error}]"));
    assert_eq!(array.result.unwrap_err().class, Class::Overloaded);
}

#[test]
fn the_last_usage_counts() {
    let usage = |n: u64| {
        format!(
            r#","usageMetadata":{{"promptTokenCount":9,"candidatesTokenCount":{n},"totalTokenCount":{}}}"#,
            9 + n
        )
    };
    let events = [
        response(r#"{"text":"a"}"#, "", &usage(1)),
        response(r#"{"text":"b"}"#, "", &usage(5)),
        stop(&usage(7)),
        r#"{"responseId":"r"}"#.to_owned(),
    ];
    let run = run(Asking::default(), &sse(&events));
    run.result.unwrap();
    assert_eq!(run.stream.usage().unwrap().usage.output, Some(7));
}

#[test]
fn every_framing_becomes_the_canonical_one() {
    let events = [text("a"), stop(USAGE)];
    let canonical = sse(&events);
    for input in [
        canonical.replace('\n', "\r\n"),
        canonical.replace('\n', "\r"),
        canonical.replace("data: ", "data:"),
        format!("\u{feff}: hello\n\n{canonical}"),
        canonical.replace("data: ", "event: message\nid: 1\nretry: 5\ndata: "),
        canonical.trim_end().to_owned(),
    ] {
        let run = run(Asking::default(), &input);
        run.result.unwrap();
        assert_eq!(run.out, canonical, "{input:?}");
    }
    // several data lines become one: this dialect's client reads no other
    let folded = run(
        Asking::default(),
        &canonical.replace(r#","index""#, "\ndata: ,\"index\""),
    );
    assert_eq!(folded.out, canonical.replace(r#","index""#, " ,\"index\""));
}

fn any_event() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>().prop_map(|said| text(&said)),
        2 => Just(response(r#"{"functionCall":{"name":"f","args":{"a":[1,2]}}}"#, "", "")),
        1 => Just(stop(USAGE)),
        1 => Just(r#"{"usageMetadata":{"promptTokenCount":2}}"#.to_owned()),
        1 => Just(r#"{"promptFeedback":{"blockReason":"OTHER"}}"#.to_owned()),
        1 => Just(r#"{"error":{"code":500,"message":"m","status":"INTERNAL"}}"#.to_owned()),
        1 => Just("{}".to_owned()),
        1 => any::<String>(),
    ]
}

fn any_asking() -> impl Strategy<Value = Asking> {
    (any::<bool>(), any::<bool>(), 1u64..3).prop_map(|(array, renamed, candidates)| Asking {
        array,
        renamed,
        objects: false,
        candidates,
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_stream(events in prop::collection::vec(any_event(), 0..10), asking in any_asking(), cuts in prop::collection::vec(any::<usize>(), 0..8)) {
        let input = sse(&events);
        let whole = run(asking, &input);
        let cut = carry(asking, input.as_bytes(), &cuts);
        prop_assert_eq!(whole.out, cut.out);
        prop_assert_eq!(whole.result.map_err(|e| e.class), cut.result.map_err(|e| e.class));
        prop_assert_eq!(whole.stream.usage(), cut.stream.usage());
    }

    #[test]
    fn what_goes_out_is_always_well_formed(events in prop::collection::vec(any_event(), 0..10), asking in any_asking()) {
        let run = run(asking, &sse(&events));
        if asking.array {
            let mut out = run.out;
            if run.result.is_err() {
                // as the edge ends it
                out.push_str(if out.is_empty() { "[" } else { "," });
                out.push_str("{\"error\":{}}]");
            }
            prop_assert!(serde_json::from_str::<Vec<Tree>>(&out).is_ok(), "{}", out);
        } else {
            for event in run.out.split_terminator("\n\n") {
                let data = event.strip_prefix("data: ");
                prop_assert!(data.is_some_and(|data| serde_json::from_str::<Tree>(data).is_ok()), "{}", event);
            }
        }
    }

    #[test]
    fn usage_of_a_stream_is_that_of_the_whole(prompt in 0u64..1000, candidates in 0u64..1000, thoughts in 0u64..1000) {
        let usage = json!({"promptTokenCount": prompt, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts, "totalTokenCount": prompt + candidates + thoughts});
        let body = stop(&format!(r#","usageMetadata":{usage}"#));
        let streamed = run(Asking::default(), &sse(&[text("a"), body.clone()]));
        let value = crate::json::Cursor::new(&body);
        let mut reader = ChunkReader::new(0);
        let whole = reader.read(value.text()).unwrap().usage.and_then(|value| UsageReport::from_gemini(&body, value));
        prop_assert_eq!(streamed.stream.usage(), whole.as_ref());
        let usage = whole.unwrap().usage;
        prop_assert_eq!(usage.total_input().unwrap() + usage.output.unwrap(), prompt + candidates + thoughts);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), asking in any_asking()) {
        let _any = run_bytes(asking, &bytes);
    }
}

fn run_bytes(asking: Asking, bytes: &[u8]) -> usize {
    let mut stream = GeminiStream::open(asking.candidates, asking.array, StreamOptions::default());
    let _first = stream.push(Bytes::copy_from_slice(bytes));
    let _end = stream.finish();
    stream.take().map_or(0, |out| out.len())
}
