use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use bytes::{Bytes, BytesMut};

use super::*;
use crate::carry::AnswerStream as _;
use crate::sse::{Codec as _, Framing, ObjectSplitter};
use crate::usage::UsageReport;

const ROLE: &str = r#"{"id":"c","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const DONE_DATA: &str = "[DONE]";

/// A chunk as an upstream writes it that was asked for usage.
fn chunk(delta: &str, finish: &str, usage: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","model":"up","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]{usage}}}"#
    )
}

fn text(content: &str, usage: &str) -> String {
    chunk(
        &format!(r#"{{"content":{}}}"#, Tree::from(content)),
        "null",
        usage,
    )
}

fn finish(usage: &str) -> String {
    chunk("{}", "\"stop\"", usage)
}

const NULL: &str = r#","usage":null"#;
const REPORT: &str = r#","usage":{"prompt_tokens":26,"completion_tokens":5,"total_tokens":31}"#;

fn usage_chunk() -> String {
    format!(r#"{{"id":"c","object":"chat.completion.chunk","model":"up","choices":[]{REPORT}}}"#)
}

fn sse<S: AsRef<str>>(events: &[S]) -> String {
    events
        .iter()
        .map(|data| format!("data: {}\n\n", data.as_ref()))
        .collect()
}

/// How a stream is opened in these tests.
#[derive(Clone, Debug)]
struct Asking {
    include_usage: bool,
    choices: u64,
    public_model: Option<String>,
    text_bound: usize,
    hold_bound: usize,
    /// The upstream sends bare objects.
    objects: bool,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            include_usage: false,
            choices: 1,
            public_model: None,
            text_bound: 1 << 20,
            hold_bound: 1 << 20,
            objects: false,
        }
    }
}

fn open(asking: Asking) -> ChatStream {
    let asked = Asked {
        payload: Payload::Message,
        include_usage: asking.include_usage,
        choices: asking.choices,
    };
    let options = StreamOptions {
        public_model: asking.public_model,
        text_bound: asking.text_bound,
        hold_bound: asking.hold_bound,
        ..StreamOptions::default()
    };
    ChatStream::open(asked, options)
}

fn asked() -> Asking {
    Asking {
        include_usage: true,
        ..Asking::default()
    }
}

fn renamed() -> Asking {
    Asking {
        public_model: Some("pub".to_owned()),
        ..Asking::default()
    }
}

struct Run {
    out: String,
    result: Result<(), Box<UpstreamError>>,
    stream: ChatStream,
}

impl Run {
    fn class(&self) -> Class {
        self.result.as_ref().unwrap_err().class
    }
}

/// Carries `bytes`, cut at `cuts`, to the end or the first error, taking what can be taken after every step.
fn carry(options: Asking, bytes: &[u8], cuts: &[usize]) -> Run {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut codec = options.objects.then(|| ObjectSplitter::new(1 << 20));
    let mut stream = open(options);
    let mut out = Vec::new();
    let mut at = 0;
    let mut result = Ok(());
    for end in ends {
        let mut read = BytesMut::new();
        let decoded = match &mut codec {
            Some(codec) => codec.push(&bytes[at..end], &mut read),
            None => {
                read.extend_from_slice(&bytes[at..end]);
                Ok(())
            }
        };
        result = stream.push(read.freeze()).and(decoded);
        out.extend(stream.take().unwrap_or_default());
        at = end;
        if result.is_err() {
            break;
        }
    }
    if result.is_ok()
        && let Some(codec) = &mut codec
    {
        result = stream.push(codec.finish());
    }
    if result.is_ok() {
        result = stream.finish();
        out.extend(stream.take().unwrap_or_default());
    }
    Run {
        out: String::from_utf8(out).unwrap(),
        result,
        stream,
    }
}

fn run(options: Asking, input: &str) -> Run {
    let whole = carry(options.clone(), input.as_bytes(), &[]);
    let every: Vec<usize> = (0..input.len()).collect();
    let single = carry(options, input.as_bytes(), &every);
    assert_eq!(whole.out, single.out, "one byte at a time");
    assert_eq!(whole.result, single.result);
    whole
}

#[test]
fn a_stream_that_needs_no_change_passes_as_one_slice_of_what_was_read() {
    let input = Bytes::from(sse(&[
        &text("a", ""),
        &text("b", ""),
        &finish(""),
        DONE_DATA,
    ]));
    let mut stream = open(Asking::default());
    stream.push(input.clone()).unwrap();
    let out = stream.take().unwrap();
    assert_eq!((out.as_ptr(), out.len()), (input.as_ptr(), input.len()));
    assert!(stream.done() && stream.finish().is_ok());
    let with_usage = Bytes::from(sse(&[
        &text("a", NULL),
        &finish(NULL),
        &usage_chunk(),
        DONE_DATA,
    ]));
    let mut stream = open(asked());
    stream.push(with_usage.clone()).unwrap();
    let out = stream.take().unwrap();
    assert_eq!(
        (out.as_ptr(), out.len()),
        (with_usage.as_ptr(), with_usage.len())
    );
}

#[test]
fn usage_that_the_caller_did_not_ask_for_leaves_no_trace() {
    let report = UsageReport {
        usage: crate::Usage {
            input: Some(26),
            output: Some(5),
            ..crate::Usage::default()
        },
        raw: Bytes::from_static(&REPORT.as_bytes()[9..]),
    };
    let plain = sse(&[&text("a", ""), &text("b", ""), &finish(""), DONE_DATA]);
    for input in [
        sse(&[
            &text("a", NULL),
            &text("b", NULL),
            &finish(NULL),
            &usage_chunk(),
            DONE_DATA,
        ]),
        sse(&[&text("a", ""), &text("b", ""), &finish(REPORT), DONE_DATA]),
        sse(&[
            &text("a", REPORT),
            &text("b", REPORT),
            &finish(REPORT),
            &usage_chunk(),
            DONE_DATA,
        ]),
    ] {
        let run = run(Asking::default(), &input);
        assert_eq!(run.out, plain);
        assert_eq!(run.stream.usage(), Some(&report));
    }
}

#[test]
fn usage_is_taken_out_wherever_it_stands() {
    for (given, want) in [
        (
            r#"{"usage":null,"choices":[{"delta":{"content":"x"}}]}"#,
            r#"{"choices":[{"delta":{"content":"x"}}]}"#,
        ),
        (
            r#"{ "usage" : {"prompt_tokens":1} , "choices":[{"delta":{"content":"x"}}]}"#,
            r#"{ "choices":[{"delta":{"content":"x"}}]}"#,
        ),
        (
            r#"{"usage":null,"usage":null,"choices":[{"delta":{"content":"x"}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":"x"}}]}"#,
        ),
        (
            r#"{"a": 1, "usage": null, "choices": [{"delta": {"content": "x"}}]}"#,
            r#"{"a": 1, "choices": [{"delta": {"content": "x"}}]}"#,
        ),
    ] {
        assert_eq!(
            run(Asking::default(), &sse(&[given, DONE_DATA])).out,
            sse(&[want, DONE_DATA])
        );
    }
}

#[test]
fn usage_that_was_asked_for_comes_once_and_last() {
    let want = sse(&[
        &text("a", NULL),
        &text("b", NULL),
        &finish(NULL),
        &usage_chunk(),
        DONE_DATA,
    ]);
    for input in [
        want.clone(),
        sse(&[
            &text("a", ""),
            &text("b", ""),
            &finish(""),
            &usage_chunk(),
            DONE_DATA,
        ]),
        sse(&[&text("a", ""), &text("b", NULL), &finish(REPORT), DONE_DATA]),
        sse(&[
            &text("a", REPORT),
            &text("b", REPORT),
            &finish(REPORT),
            DONE_DATA,
        ]),
        sse(&[
            &text("a", NULL),
            &usage_chunk(),
            &text("b", NULL),
            &finish(NULL),
            &usage_chunk(),
        ]),
    ] {
        let run = run(asked(), &input);
        assert_eq!(run.out, want);
        assert!(run.result.is_ok());
    }
    let none = sse(&[&text("a", NULL), &finish(NULL), DONE_DATA]);
    assert_eq!(run(asked(), &none).out, none, "nothing is made up");
    let no_choices = sse(&[
        &text("a", NULL),
        &finish(NULL),
        r#"{"usage":{"prompt_tokens":1}}"#,
        DONE_DATA,
    ]);
    assert!(
        run(asked(), &no_choices)
            .out
            .contains(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#)
    );
}

#[test]
fn usage_that_stands_in_a_choice_is_the_streams() {
    let told = finish("").replace(
        r#""finish_reason""#,
        &format!("{},\"finish_reason\"", &REPORT[1..]),
    );
    let input = sse(&[&text("a", ""), &told, DONE_DATA]);
    let run_as = |asking| {
        let run = run(asking, &input);
        run.result.unwrap();
        let usage = run.stream.usage().unwrap().usage;
        assert_eq!((usage.input, usage.output), (Some(26), Some(5)));
        run.out
    };
    assert_eq!(run_as(Asking::default()), input, "not asked for by us");
    let out = run_as(asked());
    let chunks: Vec<&str> = out.split("\n\n").collect();
    assert!(chunks[0].ends_with(r#","usage":null}"#), "{out}");
    assert!(chunks[1].ends_with(r#","usage":null}"#), "{out}");
    let last: Tree = serde_json::from_str(&chunks[2]["data: ".len()..]).unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["prompt_tokens"]),
        (&json!([]), &json!(26))
    );
    assert_eq!(chunks[3], "data: [DONE]");
}

#[test]
fn usage_that_comes_in_parts_is_told_whole() {
    let input = text("a", r#","usage":{"prompt_tokens":26}"#);
    let output = finish(r#","usage":{"completion_tokens":5}"#);
    let run = run(Asking::default(), &sse(&[&input, &output, DONE_DATA]));
    let report = run.stream.usage().unwrap();
    assert_eq!(
        (report.usage.input, report.usage.output),
        (Some(26), Some(5))
    );
    assert_eq!(
        report.raw,
        r#"[{"prompt_tokens":26},{"completion_tokens":5}]"#
    );
}

#[test]
fn zeros_after_what_was_told_are_no_usage() {
    let zeros = usage_chunk()
        .replace("26", "0")
        .replace("5,", "0,")
        .replace("31", "0");
    assert!(zeros.contains(r#""completion_tokens":0"#), "{zeros}");
    for asking in [Asking::default(), asked()] {
        let events = [&text("a", ""), &finish(REPORT), &zeros, DONE_DATA];
        let run = run(asking.clone(), &sse(&events));
        run.result.unwrap();
        assert_eq!(run.stream.usage().unwrap().usage.output, Some(5));
        assert!(!run.out.contains("_tokens\":0"), "{}", run.out);
        assert_eq!(run.out.contains("_tokens\":26"), asking.include_usage);
    }
    let all = run(
        Asking::default(),
        &sse(&[&text("a", ""), &finish(""), &zeros, DONE_DATA]),
    );
    assert_eq!(all.stream.usage().unwrap().usage.output, Some(0));
}

#[test]
fn the_public_name_is_put_in_everywhere() {
    let input = sse(&[
        ROLE,
        &text("a", NULL),
        &text("b", NULL),
        &finish(NULL),
        &usage_chunk(),
        DONE_DATA,
    ]);
    let options = Asking {
        include_usage: true,
        ..renamed()
    };
    let out = run(options, &input).out;
    assert!(!out.contains("\"up\""));
    assert_eq!(out.matches("\"model\":\"pub\"").count(), 5);
    let plain = run(renamed(), &input).out;
    assert_eq!(
        plain,
        sse(&[ROLE, &text("a", ""), &text("b", ""), &finish(""), DONE_DATA])
            .replace("\"up\"", "\"pub\"")
    );
    let same = input.replace("\"up\"", "\"p\\u0075b\"");
    assert!(
        run(renamed(), &same).out.contains("\"p\\u0075b\""),
        "equal in meaning: untouched"
    );
}

#[test]
fn nothing_goes_out_before_the_first_content() {
    let content = [
        r#"{"content":"x"}"#,
        r#"{"content":" "}"#,
        r#"{"reasoning_content":"x"}"#,
        r#"{"reasoning":"x"}"#,
        r#"{"refusal":"x"}"#,
        r#"{"audio":{"data":"AA"}}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#,
        r#"{"function_call":{"name":"f"}}"#,
        r#"{"content":[{"type":"text","text":"x"}]}"#,
    ];
    let preamble = [
        r#"{"role":"assistant","content":"","refusal":null}"#,
        r#"{"role":"assistant","content":null}"#,
        "{}",
        r#"{"tool_calls":[]}"#,
        r#"{"reasoning_content":""}"#,
        r#"{"audio":null}"#,
    ];
    for delta in preamble {
        let mut stream = open(Asking::default());
        stream
            .push(Bytes::from(sse(&[chunk(delta, "null", NULL)])))
            .unwrap();
        assert!(
            !stream.committed() && !stream.has_content() && stream.take().is_none(),
            "{delta}"
        );
        stream.push(Bytes::from(sse(&[text("x", NULL)]))).unwrap();
        assert_eq!(
            stream.take().unwrap(),
            sse(&[chunk(delta, "null", ""), text("x", "")]),
            "{delta}"
        );
    }
    for delta in content {
        let mut stream = open(Asking::default());
        stream
            .push(Bytes::from(sse(&[chunk(delta, "null", "")])))
            .unwrap();
        assert!(
            stream.committed() && stream.has_content() && stream.take().is_some(),
            "{delta}"
        );
    }
}

#[test]
fn what_is_held_is_bounded() {
    let mut stream = open(Asking {
        hold_bound: 900,
        ..Asking::default()
    });
    for _ in 0..3 {
        assert!(!stream.committed());
        for _ in 0..2 {
            stream.push(Bytes::from(sse(&[ROLE]))).unwrap();
        }
    }
    assert!(stream.committed() && !stream.has_content());
    assert_eq!(stream.take().unwrap(), sse(&[ROLE; 6]));
}

#[test]
fn errors_are_found_and_never_counted_as_output() {
    let said =
        r#"{"error":{"message":"slow","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let first = run(Asking::default(), &sse(&[said]));
    assert_eq!(
        (first.class(), first.out.as_str()),
        (Class::RateLimited, "")
    );
    let held = run(Asking::default(), &sse(&[ROLE, said]));
    assert_eq!((held.class(), held.out.as_str()), (Class::RateLimited, ""));
    let mid = run(
        Asking::default(),
        &sse(&[ROLE, &text("abc", ""), said, DONE_DATA]),
    );
    assert_eq!(mid.class(), Class::RateLimited);
    assert_eq!(mid.out, sse(&[ROLE, &text("abc", "")]));
    assert_eq!(
        (mid.stream.text().text(), mid.stream.has_content()),
        ("abc", true)
    );
    let named = run(
        Asking::default(),
        "event: error\ndata: {\"message\":\"x\",\"code\":\"server_is_overloaded\"}\n\n",
    );
    assert_eq!(named.class(), Class::Overloaded);
    let typed = r#"{"type":"error","message":"x","code":"server_is_overloaded"}"#;
    let typed = sse(&[&text("abc", ""), typed, DONE_DATA]);
    assert_eq!(run(Asking::default(), &typed).class(), Class::Overloaded);
    // In forms that nobody knows: errors if no finish reason comes, signs of life if one does.
    for aside in [
        r#"{"detail":"Internal error"}"#,
        r#"{"message":"Internal error","code":500}"#,
        r#"{"errors":[{"text":"x"}]}"#,
    ] {
        let cut = run(
            Asking::default(),
            &sse(&[&text("abc", ""), aside, DONE_DATA]),
        );
        assert_eq!(cut.class(), Class::Server, "{aside}");
        assert_eq!(cut.out, sse(&[text("abc", "")]));
        let events = [&text("abc", ""), aside, &finish(""), DONE_DATA];
        let whole = run(Asking::default(), &sse(&events));
        assert_eq!(whole.out, sse(&[events[0], events[2], DONE_DATA]));
    }
    let ping = sse(&[&text("abc", ""), r#"{"type":"ping"}"#, "{}", DONE_DATA]);
    assert!(run(Asking::default(), &ping).result.is_ok());
    let of_choice = finish("").replace(
        r#""finish_reason""#,
        r#""error":{"code":502,"message":"x"},"finish_reason""#,
    );
    let broken = sse(&[&text("abc", ""), &of_choice, DONE_DATA]);
    let broken = run(Asking::default(), &broken);
    assert_eq!(broken.class(), Class::Server);
    assert_eq!(broken.out, sse(&[text("abc", "")]));
    let null = sse(&[&text("a", r#","error":null"#), &finish(""), DONE_DATA]);
    assert_eq!(run(Asking::default(), &null).out, null);
}

#[test]
fn a_cut_stream_never_looks_complete() {
    for (events, class) in [
        (vec![], Class::Empty),
        (vec![ROLE.to_owned()], Class::Cut),
        (vec![ROLE.to_owned(), text("a", "")], Class::Cut),
        (
            vec![
                ROLE.to_owned(),
                text("a", ""),
                "{\"id\":\"c\",\"cho".to_owned(),
            ],
            Class::Malformed,
        ),
        (vec![DONE_DATA.to_owned()], Class::Empty),
        (vec![ROLE.to_owned(), DONE_DATA.to_owned()], Class::Empty),
        (vec!["[1]".to_owned()], Class::Malformed),
    ] {
        let run = run(Asking::default(), &sse(&events));
        assert_eq!(run.class(), class, "{events:?}");
        assert!(!run.out.contains("[DONE]"), "{events:?}");
    }
    let inside = format!("{}data: {{\"id\":\"c\",\"cho", sse(&[text("a", "")]));
    assert_eq!(run(Asking::default(), &inside).class(), Class::Cut);
    assert_eq!(run(Asking::default(), ": hi\n\n").class(), Class::Empty);
}

#[test]
fn every_choice_must_end() {
    let second = text("b", "").replace("\"index\":0", "\"index\":1");
    let cut = sse(&[&text("a", ""), &second, &finish("")]);
    assert_eq!(run(Asking::default(), &cut).class(), Class::Cut);
    let whole = format!(
        "{cut}{}",
        sse(&[finish("").replace("\"index\":0", "\"index\":1")])
    );
    let run = run(Asking::default(), &whole);
    assert_eq!(
        run.out,
        format!("{whole}data: [DONE]\n\n"),
        "a missing [DONE] is added"
    );
}

#[test]
fn nothing_comes_after_done() {
    let input = sse(&[
        &text("a", ""),
        &finish(""),
        DONE_DATA,
        &text("b", ""),
        DONE_DATA,
    ]);
    let run = run(Asking::default(), &input);
    assert_eq!(run.out, sse(&[&text("a", ""), &finish(""), DONE_DATA]));
    assert_eq!(run.stream.text().text(), "a");
}

#[test]
fn every_framing_becomes_the_canonical_one() {
    let (a, b) = (text("世界🙂", ""), text("\u{2028}x", ""));
    let want = sse(&[&a, &b, &finish(""), DONE_DATA]);
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Tree>(&a).unwrap()).unwrap();
    for input in [
        want.replace('\n', "\r\n"),
        want.replace('\n', "\r"),
        want.replace("data: ", "data:"),
        format!("\u{feff}{want}"),
        want.replace("data: ", ": keep-alive\n\nretry: 5\nid: 3\ndata: "),
        want.replace("data: ", "event: message\ndata: "),
        want.replace("data: ", "event: ping\ndata: {\"type\":\"ping\"}\n\ndata: "),
        want.replace("data: ", "data: {\"type\":\"ping\"}\n\ndata: "),
        want.trim_end().to_owned(),
    ] {
        assert_eq!(run(Asking::default(), &input).out, want, "{input:?}");
    }
    let lines = format!(
        "data: {}\n\n{}",
        pretty.replace('\n', "\ndata: "),
        sse(&[&finish(""), DONE_DATA])
    );
    let out = run(Asking::default(), &lines).out;
    let first = out
        .split("\n\n")
        .next()
        .unwrap()
        .strip_prefix("data: ")
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Tree>(first).unwrap(),
        serde_json::from_str::<Tree>(&a).unwrap()
    );
}

#[test]
fn bare_objects_are_read_too() {
    let events = [text("a{\"}", ""), text("b", ""), finish("")];
    let want = sse(&[&events[0], &events[1], &events[2], DONE_DATA]);
    let objects = || Asking {
        objects: true,
        ..Asking::default()
    };
    for input in [
        events.join("\n"),
        format!("[{}]", events.join(" ,\r\n")),
        events.concat(),
    ] {
        assert_eq!(run(objects(), &input).out, want);
    }
    let marked = events.join("\n") + "\n[DONE]\n";
    for cut in 0..marked.len() {
        assert_eq!(carry(objects(), marked.as_bytes(), &[cut]).out, want);
    }
    let half = events.join("\n") + "\n[DO";
    assert_eq!(run(objects(), &half).class(), Class::Malformed);
    assert_eq!(run(objects(), "[DONG]").class(), Class::Malformed);
    assert_eq!(run(objects(), &events[0][..40]).class(), Class::Cut);
    assert_eq!(run(objects(), "nonsense").class(), Class::Malformed);
    assert_eq!(
        Framing::of(Some("application/x-ndjson; charset=utf-8")),
        Framing::Objects
    );
    assert_eq!(Framing::of(Some("Application/JSON")), Framing::Whole);
    assert_eq!(Framing::of(Some("text/event-stream")), Framing::Events);
    assert_eq!(Framing::of(None), Framing::Events);
}

#[test]
fn bytes_that_are_no_utf8_are_an_error_not_a_replacement() {
    let mut input = sse(&[text("a", "")]).into_bytes();
    input.extend(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xe4\xb8\"}}]}\n\n");
    let run = carry(Asking::default(), &input, &[]);
    assert_eq!(run.class(), Class::Malformed);
    assert_eq!(run.out, sse(&[text("a", "")]));
}

#[test]
fn padding_of_any_length_does_not_break_the_known_shape() {
    let padded = |t: &str, p: &str| text(t, &format!("{NULL},\"obfuscation\":\"{p}\""));
    let input = sse(&[
        &padded("a", "xyz"),
        &padded("b\\\"", "q"),
        &padded("", ""),
        &padded("c", ""),
        &finish(NULL),
        DONE_DATA,
    ]);
    let run = run(renamed(), &input);
    let want = input.replace(NULL, "").replace("\"up\"", "\"pub\"");
    assert_eq!(run.out, want);
    assert_eq!(run.stream.text().text(), "ab\\\"c");
}

#[test]
fn text_is_kept_to_its_bound_and_counted_beyond() {
    let options = Asking {
        text_bound: 4,
        ..Asking::default()
    };
    let run = run(
        options,
        &sse(&[&text("aé", ""), &text("世界", ""), &finish("")]),
    );
    assert_eq!(
        (run.stream.text().text(), run.stream.text().bytes()),
        ("aé", 9)
    );
}

/// Events of a stream, regular and not.
fn any_event() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (".{0,6}", prop::sample::select(vec!["", NULL, REPORT, ",\"obfuscation\":\"x\""])).prop_map(|(t, usage)| text(&t, usage)),
        1 => Just(ROLE.to_owned()),
        1 => prop::sample::select(vec![NULL, "", REPORT]).prop_map(finish),
        1 => Just(usage_chunk()),
        1 => Just(r#"{"usage":null,"choices":[{"index":1,"delta":{"content":"x"}}]}"#.to_owned()),
        1 => Just(r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#.to_owned()),
        1 => Just(DONE_DATA.to_owned()),
        1 => Just(r#"{"error":{"message":"x"}}"#.to_owned()),
        1 => "[{}\":a]{0,6}",
    ]
}

fn any_options() -> impl Strategy<Value = Asking> {
    (any::<bool>(), any::<bool>()).prop_map(|(include_usage, rename)| Asking {
        include_usage,
        public_model: rename.then(|| "pub".to_owned()),
        ..Asking::default()
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_stream(events in prop::collection::vec(any_event(), 0..10), options in any_options(),
                                       cuts in prop::collection::vec(any::<usize>(), 0..12), end in prop::sample::select(vec!["\n", "\r\n", "\r"])) {
        let input = sse(&events).replace('\n', end);
        let whole = carry(options.clone(), input.as_bytes(), &[]);
        let split = carry(options, input.as_bytes(), &cuts);
        prop_assert_eq!(&whole.out, &split.out);
        prop_assert_eq!(&whole.result, &split.result);
        prop_assert_eq!(whole.stream.usage(), split.stream.usage());
        prop_assert_eq!(whole.stream.text().text(), split.stream.text().text());
    }

    #[test]
    fn what_goes_out_is_always_a_well_formed_stream(events in prop::collection::vec(any_event(), 0..10), options in any_options()) {
        let run = carry(options.clone(), sse(&events).as_bytes(), &[]);
        let mut visible = String::new();
        let mut usages = 0;
        let parts: Vec<&str> = run.out.split_terminator("\n\n").collect();
        for (i, part) in parts.iter().enumerate() {
            let data = part.strip_prefix("data: ").unwrap();
            if data == DONE_DATA {
                prop_assert_eq!(i, parts.len() - 1);
                prop_assert!(run.result.is_ok());
                continue;
            }
            let json: Tree = serde_json::from_str(data).unwrap();
            prop_assert!(json["choices"].is_array());
            for choice in json["choices"].as_array().unwrap() {
                visible.push_str(choice["delta"]["content"].as_str().unwrap_or(""));
                visible.push_str(choice["delta"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or(""));
            }
            prop_assert_eq!(json.get("usage").is_some(), options.include_usage);
            if json["usage"].is_object() {
                usages += 1;
                prop_assert_eq!(&json["choices"], &json!([]));
            }
            if let (Some(name), Some(model)) = (&options.public_model, json.get("model")) {
                prop_assert_eq!(model, name);
            }
        }
        prop_assert!(usages <= 1);
        if run.result.is_ok() {
            prop_assert_eq!(visible, run.stream.text().text());
            prop_assert_eq!(usages == 1, options.include_usage && run.stream.usage().is_some());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = carry(Asking::default(), &bytes, &[]);
        let _ = carry(Asking { objects: true, ..asked() }, &bytes, &[]);
    }
}

#[test]
fn a_stream_without_done_is_whole_only_when_all_answers_asked_for_have_ended() {
    let one = sse(&[&text("a", ""), &finish("")]);
    assert!(run(Asking::default(), &one).result.is_ok());
    let two = || Asking {
        choices: 2,
        ..Asking::default()
    };
    let cut = run(two(), &one);
    assert_eq!(cut.class(), Class::Cut);
    assert!(!cut.out.contains("[DONE]"));
    let second = |event: String| event.replace(r#""index":0"#, r#""index":1"#);
    let both = sse(&[
        &text("a", ""),
        &finish(""),
        &second(text("b", "")),
        &second(finish("")),
    ]);
    assert!(run(two(), &both).result.is_ok());
    // an upstream that knows no `n` says by `[DONE]` that there is no more
    let said = sse(&[&text("a", ""), &finish(""), DONE_DATA]);
    assert!(run(two(), &said).result.is_ok());
}
