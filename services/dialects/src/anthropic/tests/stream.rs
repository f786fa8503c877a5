use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::{create, streamed};
use crate::carry::{AnswerStream, StreamOptions};
use crate::dialect::{DialectRequest as _, ReadOptions};
use crate::error::{Class, UpstreamError};
use crate::usage::Usage;

const USAGE: &str = r#"{"input_tokens":4,"cache_read_input_tokens":2455,"output_tokens":1}"#;

fn event(data: &str) -> String {
    let kind: Tree = serde_json::from_str(data).unwrap();
    format!(
        "event: {}\ndata: {data}\n\n",
        kind["type"].as_str().unwrap()
    )
}

fn start(usage: &str) -> String {
    event(&format!(
        r#"{{"type":"message_start","message":{{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"usage":{usage}}}}}"#
    ))
}

fn block(index: usize, block: &str) -> String {
    event(&format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
    ))
}

fn delta(index: usize, delta: &str) -> String {
    event(&format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#
    ))
}

fn text(text: &str) -> String {
    delta(0, &json!({"type": "text_delta", "text": text}).to_string())
}

fn stop(index: usize) -> String {
    event(&format!(
        r#"{{"type":"content_block_stop","index":{index}}}"#
    ))
}

fn end(usage: &str) -> String {
    event(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{usage}}}"#
    ))
}

const TEXT: &str = r#"{"type":"text","text":""}"#;
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
const LAST: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn hello() -> String {
    [
        start(USAGE),
        block(0, TEXT),
        PING.to_owned(),
        text("Hel"),
        text("lo"),
        stop(0),
        end(r#"{"output_tokens":23}"#),
        LAST.to_owned(),
    ]
    .concat()
}

struct Run {
    out: String,
    result: Result<(), Box<UpstreamError>>,
    stream: Box<dyn AnswerStream>,
}

impl Run {
    fn class(&self) -> Class {
        self.result.as_ref().unwrap_err().class
    }

    fn usage(&self) -> Usage {
        self.stream.usage().unwrap().usage
    }
}

/// Carries `bytes`, cut at `cuts`, to the end or the first error, taking what can be taken after every step.
fn carry(public: Option<&str>, bytes: &[u8], cuts: &[usize]) -> Run {
    let mut stream = streamed().stream(StreamOptions {
        public_model: public.map(str::to_owned),
        ..StreamOptions::default()
    });
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let (mut out, mut at, mut result) = (Vec::new(), 0, Ok(()));
    for end in ends {
        result = stream.push(Bytes::copy_from_slice(&bytes[at..end]));
        out.extend(stream.take().unwrap_or_default());
        at = end;
        if result.is_err() {
            break;
        }
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

fn run(text: &str) -> Run {
    carry(None, text.as_bytes(), &[])
}

#[test]
fn canonical_events_pass_byte_for_byte() {
    let whole = hello();
    let run = run(&whole);
    assert_eq!((run.result, run.out), (Ok(()), whole));
    assert!(run.stream.done());
    assert_eq!(run.stream.text().text(), "Hello");
}

#[test]
fn nothing_goes_out_before_the_first_content() {
    let mut stream = streamed().stream(StreamOptions::default());
    let mut push = |text: &str| {
        stream
            .push(Bytes::copy_from_slice(text.as_bytes()))
            .unwrap();
        (stream.take().is_some(), stream.has_content())
    };
    for held in [
        start(USAGE),
        PING.to_owned(),
        block(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        event(r#"{"type":"something_new","a":1}"#),
        stop(0),
        block(1, TEXT),
        text(""),
    ] {
        assert_eq!(push(&held), (false, false), "{held}");
    }
    assert_eq!(push(&text("x")), (true, true));
}

#[test]
fn content_is_text_thinking_calls_citations_and_blocks_that_are_shown() {
    for part in [
        text("x"),
        delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"{"}"#),
        delta(0, r#"{"type":"citations_delta","citation":{}}"#),
        delta(0, r#"{"type":"new_delta","x":1}"#),
        block(0, r#"{"type":"tool_use","id":"t","name":"get","input":{}}"#),
        block(0, r#"{"type":"redacted_thinking","data":"x"}"#),
        block(0, r#"{"type":"new_block"}"#),
        block(0, r#"{"type":"text","text":"at once"}"#),
    ] {
        let mut stream = streamed().stream(StreamOptions::default());
        let bytes = Bytes::from(start(USAGE) + &part);
        stream.push(bytes).unwrap();
        assert!(stream.has_content() && stream.committed(), "{part}");
        assert_eq!(stream.take().unwrap(), start(USAGE) + &part);
    }
}

#[test]
fn output_is_what_a_tokenizer_would_count() {
    let run = run(&[
        start(USAGE),
        block(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"hm \u00e9"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        stop(0),
        block(1, r#"{"type":"tool_use","id":"t","name":"get","input":{}}"#),
        delta(1, r#"{"type":"input_json_delta","partial_json":""}"#),
        // written another way than Anthropic's own
        delta(
            1,
            r#"{"partial_json":"{\"a\":1}", "type":"input_json_delta"}"#,
        ),
        stop(1),
        end(r#"{"output_tokens":9}"#),
        LAST.to_owned(),
    ]
    .concat());
    assert_eq!(run.result, Ok(()));
    assert_eq!(run.stream.text().text(), "hm \u{e9}get{\"a\":1}");
}

#[test]
fn later_numbers_replace_earlier_ones_and_are_never_added() {
    // CASES A13, A20
    let run = run(&hello());
    let expected = Usage {
        input: Some(4),
        cached_input: Some(2455),
        output: Some(23),
        ..Usage::default()
    };
    assert_eq!(run.usage(), expected);
    let raw = &run.stream.usage().unwrap().raw;
    assert_eq!(*raw, format!(r#"[{USAGE},{{"output_tokens":23}}]"#));
    let full = r#"{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":5}"#;
    let again = self::run(&hello().replace(r#"{"output_tokens":23}"#, full));
    let usage = again.usage();
    assert_eq!(
        (usage.input, usage.cached_input, usage.output),
        (Some(10), Some(2455), Some(5))
    );
    assert_eq!(again.stream.usage().unwrap().raw, full);
    let at_last = hello()
        .replace(",\"usage\":{\"output_tokens\":23}", "")
        .replace(
            r#"{"type":"message_stop"}"#,
            r#"{"type":"message_stop","usage":{"output_tokens":23}}"#,
        );
    assert_eq!(self::run(&at_last).usage(), expected);
    // Who tells the input only once says zero then: a count never goes back to that.
    let zeros = r#"{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":23}"#;
    let zeros = self::run(&hello().replace(r#"{"output_tokens":23}"#, zeros));
    assert_eq!(zeros.usage(), expected);
}

#[test]
fn a_stream_that_breaks_off_has_told_its_input_but_not_its_output() {
    let run = run(&(start(USAGE) + &block(0, TEXT) + &text("Hello")));
    assert_eq!(run.class(), Class::Cut);
    let usage = run.usage();
    assert_eq!((usage.input, usage.output), (Some(4), None));
    assert_eq!(run.stream.text().text(), "Hello");
}

#[test]
fn the_public_name_stands_where_the_upstreams_was() {
    let run = carry(Some("claude \"x\""), hello().as_bytes(), &[]);
    assert_eq!(
        run.out,
        hello().replace(r#""model":"up""#, r#""model":"claude \"x\"""#)
    );
    let same = carry(Some("up"), hello().as_bytes(), &[]);
    assert_eq!(same.out, hello());
}

#[test]
fn an_error_before_content_leaves_no_trace_and_after_it_no_end_mark() {
    let failed =
        event(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
    let early = run(&(start(USAGE) + &failed));
    assert_eq!((early.class(), early.out.as_str()), (Class::Overloaded, ""));
    let first = run(&failed);
    assert_eq!((first.class(), first.out.as_str()), (Class::Overloaded, ""));
    let begun = start(USAGE) + &block(0, TEXT) + &text("x");
    let late = run(&(begun.clone() + &failed));
    assert_eq!((late.class(), &late.out), (Class::Overloaded, &begun));
    let stray = begun.clone() + "data: {\"detail\":\"secret words\"}\n\n" + LAST;
    let stray = run(&stray);
    assert_eq!((stray.class(), stray.out), (Class::Server, begun));
    let openai = run("data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n");
    assert_eq!(openai.class(), Class::RateLimited);
    let flat = run("event: error\ndata: {\"type\":\"rate_limit_error\",\"message\":\"x\"}\n\n");
    assert_eq!(flat.class(), Class::RateLimited);
}

#[test]
fn an_end_mark_is_written_only_where_nothing_is_missing() {
    let whole = hello();
    let ended = whole.strip_suffix(LAST).unwrap();
    let run_it = run(ended);
    assert_eq!((run_it.result, run_it.out), (Ok(()), whole.clone()));
    let cut = ended.strip_suffix(&end(r#"{"output_tokens":23}"#)).unwrap();
    let cut = run(cut);
    assert_eq!(cut.class(), Class::Cut);
    assert!(!cut.out.contains("message_stop"));
    assert_eq!(run("").class(), Class::Empty);
    assert_eq!(run(PING).class(), Class::Empty);
    assert_eq!(run(&(start(USAGE) + LAST)).class(), Class::Empty);
}

#[test]
fn an_answer_without_content_is_one_when_it_says_why_it_ended() {
    let whole = start(USAGE) + &end(r#"{"output_tokens":0}"#) + LAST;
    let run = run(&whole);
    assert_eq!((run.result, run.out), (Ok(()), whole));
    assert!(!run.stream.has_content());
}

#[test]
fn what_is_no_stream_of_this_dialect_fails() {
    let chat =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(run(chat).class(), Class::Empty);
    assert_eq!(run(&text("x")).class(), Class::Malformed);
    assert_eq!(
        run("event: message_start\ndata: {\"type\":\"message_start\"}\n\n").class(),
        Class::Malformed
    );
    assert_eq!(
        run("event: ping\ndata: nonsense\n\n").class(),
        Class::Malformed
    );
    let torn = hello();
    let torn = run(&torn[..start(USAGE).len() + 40]);
    assert_eq!(torn.class(), Class::Cut);
}

#[test]
fn events_without_a_name_get_one_and_odd_framing_becomes_canonical() {
    let odd = hello()
        .replace("event: message_start\n", "")
        .replace("data: ", "data:");
    assert_eq!(run(&odd).out, hello());
    let other = hello().replace("event: message_start\n", "event: message\n");
    assert_eq!(run(&other).out, hello());
    let crlf = hello().replace('\n', "\r\n");
    assert_eq!(run(&crlf).out, hello());
    let marked = hello().replace(LAST, &format!("data: [DONE]\n\n{LAST}"));
    assert_eq!(run(&marked).out, hello());
}

#[test]
fn a_whole_answer_streams_as_the_same_message() {
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","model":"up","new":1.0,"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hi\n","citations":[{"cited_text":"c"}]},{"type":"tool_use","id":"t","name":"get","input":{"a": 1.0}},{"type":"redacted_thinking","data":"x"}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":40,"cache_read_input_tokens":60,"output_tokens":20}}"#;
    let asked =
        create(r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#);
    let run = carry(None, &asked.as_events(body.as_bytes()), &[]);
    assert_eq!(run.result, Ok(()));
    let whole = asked
        .read(
            &Bytes::from_static(body.as_bytes()),
            &ReadOptions::default(),
        )
        .unwrap();
    assert_eq!(run.usage(), whole.usage.unwrap().usage);
    assert_eq!(run.stream.text().text(), "hmHi\nget{\"a\": 1.0}");
    assert_eq!(told(&run.out), serde_json::from_str::<Tree>(body).unwrap());
}

/// Puts a message together from its events, as Anthropic's clients do.
fn told(events: &str) -> Tree {
    let mut message = Tree::Null;
    let mut input = String::new();
    for event in events.split_terminator("\n\n") {
        let data = event.split_once("\ndata: ").unwrap().1;
        let event: Tree = serde_json::from_str(data).unwrap();
        let index = event["index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let blocks = message["content"].as_array_mut().unwrap();
                assert_eq!(blocks.len(), index);
                blocks.push(event["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let (block, delta) = (&mut message["content"][index], &event["delta"]);
                let mut add = |name: &str| {
                    let so_far = block[name].as_str().unwrap_or("");
                    block[name] = Tree::from(so_far.to_owned() + delta[name].as_str().unwrap());
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => add("text"),
                    "thinking_delta" => add("thinking"),
                    "signature_delta" => add("signature"),
                    "citations_delta" => {
                        block["citations"]
                            .as_array_mut()
                            .unwrap()
                            .push(delta["citation"].clone());
                    }
                    _ => {
                        input += delta["partial_json"].as_str().unwrap();
                        block["input"] = serde_json::from_str(&input).unwrap();
                    }
                }
            }
            "message_delta" => {
                for name in ["stop_reason", "stop_sequence"] {
                    message[name] = event["delta"][name].clone();
                }
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    message
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\"\\\\\n \u{e9}\u{1f600}]{0,8}".prop_map(|piece| text(&piece)),
        Just(PING.to_owned()),
        Just(delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#)),
        Just(delta(
            0,
            r#"{"type":"input_json_delta","partial_json":"{\"a\""}"#
        )),
        Just(event(r#"{"type":"something_new","a":[1]}"#)),
        Just(": a comment\n\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn the_same_comes_out_however_the_bytes_are_split(
        pieces in prop::collection::vec(piece(), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        public in prop::option::of(Just("claude")),
    ) {
        let whole = start(USAGE) + &block(0, TEXT) + &pieces.concat() + &stop(0)
            + &end(r#"{"output_tokens":23}"#) + LAST;
        let bytes = whole.replace('\n', ending);
        let split = carry(public, bytes.as_bytes(), &cuts);
        let expected = whole.replace(": a comment\n\n", "");
        let expected = match public {
            Some(name) => expected.replace(r#""model":"up""#, &format!(r#""model":"{name}""#)),
            None => expected,
        };
        prop_assert_eq!(split.result, Ok(()));
        prop_assert_eq!(split.out, expected);
        prop_assert_eq!(split.stream.usage().unwrap().usage.output, Some(23));
    }

    #[test]
    fn no_bytes_bring_it_down_and_what_comes_out_is_whole_events(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut bytes = hello().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..at, noise);
        let run = carry(None, &bytes, &cuts);
        prop_assert!(run.out.is_empty() || run.out.ends_with("\n\n"));
        for event in run.out.split_terminator("\n\n") {
            let lines: Vec<_> = event.split('\n').collect();
            prop_assert!(lines.iter().all(|line| line.starts_with("event: ") || line.starts_with("data: ")));
        }
    }
}
