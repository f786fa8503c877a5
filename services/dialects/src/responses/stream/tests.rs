use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use crate::carry::{AnswerStream, Progress, StreamOptions};
use crate::dialect::{DialectRequest, Finished, ReadOptions};
use crate::error::{Class, UpstreamError};
use crate::responses::envelope::whole;
use crate::responses::{ResponsesRequest, StoredCall, StoredRequest};
use crate::sse::Decoder;
use crate::usage::Usage;

const ASKED: &str = r#"{"model":"m","stream":true,"input":"hi"}"#;
const USAGE: &str = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}"#;
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}"#;
const PLACE: &str = r#""item_id":"msg_1","output_index":0,"content_index":0"#;

fn create(body: &str) -> ResponsesRequest {
    ResponsesRequest::peek(body.as_bytes()).unwrap()
}

fn event(kind: &str, sequence: u64, fields: &str) -> String {
    format!(
        "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{sequence},{fields}}}\n\n"
    )
}

fn response(status: &str, output: &str, more: &str) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","created_at":7,"status":"{status}","model":"up","output":[{output}]{more}}}"#
    )
}

fn lifecycle(kind: &str, sequence: u64, response: &str) -> String {
    event(
        &format!("response.{kind}"),
        sequence,
        &format!(r#""response":{response}"#),
    )
}

fn start() -> String {
    let begun = response("in_progress", "", r#","usage":null"#);
    lifecycle("created", 0, &begun) + &lifecycle("in_progress", 1, &begun)
}

fn added(sequence: u64, item: &str) -> String {
    let fields = format!(r#""output_index":0,"item":{item}"#);
    event("response.output_item.added", sequence, &fields)
}

fn opened() -> String {
    let item =
        r#"{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}"#;
    let part = format!(
        r#"{PLACE},"part":{{"type":"output_text","text":"","annotations":[],"logprobs":[]}}"#
    );
    start() + &added(2, item) + &event("response.content_part.added", 3, &part)
}

fn delta(kind: &str, sequence: u64, piece: &str) -> String {
    let fields = format!(r#"{PLACE},"delta":{},"logprobs":[]"#, json!(piece));
    event(&format!("response.{kind}.delta"), sequence, &fields)
}

fn text(sequence: u64, piece: &str) -> String {
    delta("output_text", sequence, piece)
}

fn end(kind: &str, sequence: u64) -> String {
    let more = format!(r#","usage":{USAGE}"#);
    lifecycle(kind, sequence, &response(kind, MESSAGE, &more))
}

fn hello() -> String {
    [
        opened(),
        text(4, "Hel"),
        text(5, "lo"),
        event(
            "response.output_text.done",
            6,
            &format!(r#"{PLACE},"text":"Hello","logprobs":[]"#),
        ),
        event(
            "response.output_item.done",
            7,
            &format!(r#""output_index":0,"item":{MESSAGE}"#),
        ),
        end("completed", 8),
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
}

/// Carries `bytes`, cut at `cuts`, to the end or the first error, taking what can be taken after every step.
fn carry(
    asked: &dyn DialectRequest,
    public: Option<&str>,
    bytes: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> Run {
    let mut stream = asked.stream(StreamOptions {
        public_model: public.map(str::to_owned),
        ..StreamOptions::default()
    });
    let mut ends: Vec<usize> = cuts.map(|cut| cut % (bytes.len() + 1)).collect();
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

fn run_as(asked: &dyn DialectRequest, text: &str) -> Run {
    carry(asked, None, text.as_bytes(), std::iter::empty())
}

fn run(text: &str) -> Run {
    run_as(&create(ASKED), text)
}

#[test]
fn canonical_events_pass_byte_for_byte() {
    let whole = hello();
    let run = run(&whole);
    assert_eq!((run.result, run.out), (Ok(()), whole));
    assert!(run.stream.done());
    assert_eq!(run.stream.text().text(), "Hello");
    assert_eq!(run.stream.finished(), Some(Finished::Answered));
}

#[test]
fn one_byte_at_a_time_gives_the_same() {
    let whole = hello();
    let run = carry(&create(ASKED), None, whole.as_bytes(), 0..whole.len());
    assert_eq!((run.result, run.out), (Ok(()), whole));
}

#[test]
fn nothing_goes_out_before_the_first_content() {
    let begun = response("queued", "", "");
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[]}"#;
    let part = r#""item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}"#;
    let held = [
        start(),
        lifecycle("queued", 2, &begun),
        added(3, reasoning),
        event("response.reasoning_summary_part.added", 4, part),
        opened(),
        text(7, ""),
        "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":8}\n\n".to_owned(),
    ];
    let mut stream = create(ASKED).stream(StreamOptions::default());
    for held in &held {
        stream.push(Bytes::from(held.clone())).unwrap();
        assert_eq!(stream.take(), None, "{held}");
        assert!(!stream.has_content() && !stream.committed(), "{held}");
    }
    stream.push(Bytes::from(text(9, "x"))).unwrap();
    assert!(stream.has_content() && stream.committed());
    assert_eq!(stream.take().unwrap(), held.concat() + &text(9, "x"));
}

#[test]
fn content_is_text_refusals_reasoning_calls_and_what_hosted_tools_do() {
    for (part, counted) in [
        (text(4, "x"), "x"),
        (delta("refusal", 4, "no"), "no"),
        (delta("reasoning_summary_text", 4, "hm"), "hm"),
        (delta("reasoning_text", 4, "hm"), "hm"),
        (delta("function_call_arguments", 4, "{\"a"), "{\"a"),
        (delta("custom_tool_call_input", 4, "ls"), "ls"),
        (
            added(
                4,
                r#"{"id":"fc_1","type":"function_call","call_id":"c","name":"get","arguments":""}"#,
            ),
            "get",
        ),
        (added(4, r#"{"id":"ws_1","type":"web_search_call"}"#), ""),
        (
            event("response.web_search_call.searching", 4, r#""item_id":"w""#),
            "",
        ),
        (delta("audio", 4, "AAAA"), ""),
        (delta("something_new", 4, "x"), "x"),
    ] {
        let mut stream = create(ASKED).stream(StreamOptions::default());
        stream.push(Bytes::from(start() + &part)).unwrap();
        assert!(stream.has_content() && stream.committed(), "{part}");
        assert_eq!(stream.take().unwrap(), start() + &part);
        assert_eq!(stream.text().text(), counted, "{part}");
    }
}

#[test]
fn the_public_name_stands_wherever_the_response_does() {
    let asked = create(ASKED);
    let named = |name| carry(&asked, Some(name), hello().as_bytes(), std::iter::empty());
    let expected = hello().replace(r#""model":"up""#, r#""model":"g \"x\"""#);
    assert_eq!(expected.matches(r#""model":"g \"x\"""#).count(), 3);
    assert_eq!(named("g \"x\"").out, expected);
    assert_eq!(named("up").out, hello());
}

#[test]
fn a_stream_tells_the_usage_of_the_same_response_as_a_whole() {
    let body = response("completed", MESSAGE, &format!(r#","usage":{USAGE}"#));
    let asked = create(ASKED);
    let whole = asked.read(&Bytes::from(body), &ReadOptions::default());
    let whole = whole.unwrap().usage;
    assert_eq!(run(&hello()).stream.usage(), whole.as_ref());
    let expected = Usage {
        input: Some(10),
        cached_input: Some(60),
        cache_write_5m: Some(30),
        output: Some(20),
        reasoning: Some(5),
        ..Usage::default()
    };
    assert_eq!(whole.unwrap().usage, expected);
}

#[test]
fn an_incomplete_or_cancelled_response_ends_as_it_should() {
    for (kind, finished) in [
        ("incomplete", Finished::Answered),
        ("cancelled", Finished::Cancelled),
    ] {
        let whole = opened() + &text(4, "Hel") + &end(kind, 5);
        let run = run(&whole);
        assert_eq!((run.result, run.out), (Ok(()), whole));
        assert_eq!(run.stream.finished(), Some(finished));
    }
}

#[test]
fn a_stream_without_its_last_event_is_cut() {
    let whole = hello();
    let cut = whole.strip_suffix(&end("completed", 8)).unwrap();
    for rest in ["", "data: [DONE]\n\n"] {
        let run = run(&format!("{cut}{rest}"));
        assert_eq!((run.class(), run.out.as_str()), (Class::Cut, cut));
        assert_eq!(run.stream.text().text(), "Hello");
        assert!(run.stream.usage().is_none() && !run.stream.done());
    }
    let torn = run(&whole[..whole.len() - 20]);
    assert_eq!((torn.class(), torn.out.as_str()), (Class::Cut, cut));
    let early = run(&opened());
    assert_eq!((early.class(), early.out.as_str()), (Class::Cut, ""));
    assert_eq!(run("").class(), Class::Empty);
    assert_eq!(run("data: [DONE]\n\n").class(), Class::Empty);
}

#[test]
fn a_response_that_came_without_pieces_is_counted_from_its_last_event() {
    let last = lifecycle("completed", 2, &response("completed", MESSAGE, ""));
    let run = run(&(start() + &last));
    assert_eq!(run.result, Ok(()));
    assert!(run.stream.has_content() && run.stream.usage().is_none());
    assert_eq!(run.stream.text().text(), "Hello\n");
}

#[test]
fn what_follows_the_last_event_does_not_go_out() {
    let run = run(&(hello() + "data: [DONE]\n\n" + &text(9, "x")));
    assert_eq!((run.result, run.out), (Ok(()), hello()));
}

/// Failures in every form, with the class and code that they have.
fn failures() -> Vec<(String, Class, &'static str)> {
    let failed = |code: &str| {
        let more = format!(r#","error":{{"code":"{code}","message":"why"}},"usage":null"#);
        lifecycle("failed", 5, &response("failed", "", &more))
    };
    let flat = |code: &str| {
        let fields = format!(r#""code":"{code}","message":"why","param":null"#);
        event("error", 5, &fields)
    };
    let nested = |code: &str| {
        let fields = format!(
            r#""error":{{"type":"some_error","code":"{code}","message":"why","param":null}}"#
        );
        event("error", 5, &fields)
    };
    vec![
        (failed("server_error"), Class::Server, "server_error"),
        (
            failed("rate_limit_exceeded"),
            Class::RateLimited,
            "rate_limit_exceeded",
        ),
        (failed("invalid_prompt"), Class::Request, "invalid_prompt"),
        (
            failed("server_error").replace("response.failed", "response.completed"),
            Class::Server,
            "server_error",
        ),
        (
            failed("rate_limit_exceeded")
                .replace("response.failed", "response.incomplete")
                .replace("\"failed\"", "\"incomplete\""),
            Class::RateLimited,
            "rate_limit_exceeded",
        ),
        (
            failed("rate_limit_exceeded").replace("response.failed", "response.in_progress"),
            Class::RateLimited,
            "rate_limit_exceeded",
        ),
        (
            "data: {\"message\":\"why\",\"code\":\"server_error\"}\n\n".to_owned(),
            Class::Server,
            "server_error",
        ),
        (flat("server_error"), Class::Server, "server_error"),
        (
            flat("rate_limit_exceeded"),
            Class::RateLimited,
            "rate_limit_exceeded",
        ),
        (
            nested("server_is_overloaded"),
            Class::Overloaded,
            "server_is_overloaded",
        ),
        (
            nested("context_length_exceeded"),
            Class::ContextLength,
            "context_length_exceeded",
        ),
        (
            "data: {\"error\":{\"message\":\"why\",\"code\":\"rate_limit_exceeded\"}}\n\n"
                .to_owned(),
            Class::RateLimited,
            "rate_limit_exceeded",
        ),
    ]
}

#[test]
fn a_failure_before_content_leaves_no_trace_and_after_it_what_was_before() {
    let begun = opened() + &text(4, "x");
    for (failure, class, code) in failures() {
        for (before, out) in [("", ""), (&*opened(), ""), (&*begun, &*begun)] {
            let run = run(&format!("{before}{failure}"));
            let error = run.result.unwrap_err();
            assert_eq!(error.class, class, "{failure}");
            assert_eq!(error.code.as_deref(), Some(code), "{failure}");
            assert_eq!(error.message.as_deref(), Some("why"), "{failure}");
            assert_eq!((run.out.as_str(), &error.body), (out, &None), "{failure}");
            assert_ne!(error.kind.as_deref(), Some("error"), "{failure}");
            assert!(!run.stream.done());
        }
    }
}

#[test]
fn a_failed_response_tells_what_it_used() {
    let more = format!(r#","error":{{"code":"server_error","message":"x"}},"usage":{USAGE}"#);
    let failed = lifecycle("failed", 5, &response("failed", "", &more));
    let run = run(&(opened() + &text(4, "x") + &failed));
    assert_eq!(run.class(), Class::Server);
    assert_eq!(run.stream.usage().unwrap().raw, USAGE);
}

#[test]
fn usage_that_its_last_event_leaves_out_is_what_was_told_before() {
    let told = response("in_progress", "", &format!(r#","usage":{USAGE}"#));
    let end = response("completed", MESSAGE, r#","usage":null"#);
    let run = run(&(lifecycle("in_progress", 1, &told)
        + &text(2, "x")
        + &lifecycle("completed", 3, &end)));
    run.result.unwrap();
    assert_eq!(run.stream.usage().unwrap().raw, USAGE);
}

#[test]
fn what_is_no_stream_of_this_dialect_fails() {
    assert_eq!(run("data: nonsense\n\n").class(), Class::Malformed);
    let nothing = event("response.completed", 0, r#""response":null"#);
    assert_eq!(run(&nothing).class(), Class::Malformed);
    let chat =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    let chat = run(chat);
    assert_eq!((chat.class(), chat.out.as_str()), (Class::Cut, ""));
}

#[test]
fn whoever_ends_the_stream_learns_the_next_number_and_whose_response_it_is() {
    let mut stream = create(ASKED).stream(StreamOptions::default());
    assert_eq!(stream.progress(), None);
    let at = |next_sequence| Progress {
        response_id: "resp_1".to_owned(),
        created_at: 7,
        model: "up".to_owned(),
        next_sequence,
    };
    for (piece, next) in [
        (start(), 2),
        (text(2, "x"), 3),
        // numbers that were left out
        (text(7, "y"), 8),
        // none at all
        (text(7, "z").replace(r#""sequence_number":7,"#, ""), 9),
    ] {
        stream.push(Bytes::from(piece)).unwrap();
        assert_eq!(stream.progress(), Some(at(next)));
        assert_eq!(stream.next_sequence(), Some(next));
    }
    let named = carry(
        &create(ASKED),
        Some("public"),
        opened().as_bytes(),
        std::iter::empty(),
    );
    let expected = Progress {
        model: "public".to_owned(),
        ..at(4)
    };
    assert_eq!(named.stream.progress(), Some(expected));
}

#[test]
fn a_response_is_kept_unless_the_request_or_the_upstream_says_otherwise() {
    let stored = |asked: &str, events: &str| {
        let run = run_as(&create(asked), events);
        run.stream.stored_id().map(str::to_owned)
    };
    assert_eq!(stored(ASKED, "").as_deref(), None);
    assert_eq!(stored(ASKED, &start()).as_deref(), Some("resp_1"));
    let not_kept = start().replace(r#","usage":null"#, r#","store":false"#);
    assert_eq!(stored(ASKED, &not_kept), None);
    let forgotten = r#"{"model":"m","stream":true,"store":false,"input":"hi"}"#;
    assert_eq!(stored(forgotten, &hello()), None);
}

#[test]
fn what_exists_in_the_background_goes_out_at_once() {
    let asked = create(r#"{"model":"m","stream":true,"background":true,"input":"hi"}"#);
    let mut stream = asked.stream(StreamOptions::default());
    stream.push(Bytes::from(start())).unwrap();
    assert!(stream.committed() && !stream.has_content());
    assert_eq!(stream.take().unwrap(), start());
    assert_eq!(stream.stored_id(), Some("resp_1"));
}

#[test]
fn a_replay_passes_what_the_response_says_even_that_it_failed() {
    let replay = StoredRequest::new(StoredCall::Retrieve, "resp_1", "m", "stream=true");
    let more = r#","error":{"code":"server_error","message":"x"}"#;
    let failed = lifecycle("failed", 9, &response("failed", "", more));
    let events = text(8, "") + &failed;
    let run = run_as(&replay, &events);
    assert_eq!((run.result, run.out), (Ok(()), events));
    assert_eq!(run.stream.finished(), Some(Finished::Failed));
    assert_eq!(run.stream.stored_id(), None);
}

#[test]
fn a_replay_that_begins_in_the_middle_holds_nothing() {
    let replay = StoredRequest::new(StoredCall::Retrieve, "resp_1", "m", "stream=true");
    let mut stream = replay.stream(StreamOptions::default());
    stream.push(Bytes::from(text(8, ""))).unwrap();
    assert!(stream.committed() && !stream.has_content());
    assert_eq!(stream.take().unwrap(), text(8, ""));
    assert_eq!(stream.progress(), None);
}

#[test]
fn a_whole_response_as_events_is_a_stream_that_tells_the_same() {
    let items = format!(
        r#"{{"id":"rs_1","type":"reasoning","summary":[{{"type":"summary_text","text":"hm"}}]}},{MESSAGE},{{"id":"fc_1","type":"function_call","status":"completed","call_id":"c","name":"get","arguments":"{{\"a\": 1.0}}"}},{{"id":"msg_2","type":"message","status":"completed","role":"assistant","content":[{{"type":"refusal","refusal":"no"}}]}}"#
    );
    let body = response("completed", &items, &format!(r#", "usage":{USAGE}"#));
    let asked = create(ASKED);
    let events = String::from_utf8(asked.as_events(body.as_bytes()).to_vec()).unwrap();
    let run = run(&events);
    assert_eq!((&run.result, &run.out), (&Ok(()), &events));
    assert_eq!(run.stream.usage().unwrap().raw, USAGE);
    assert_eq!(run.stream.text().text(), "hmHelloget{\"a\": 1.0}no");
    let (told, last) = told(&events);
    assert_eq!(told, last["output"]);
    assert!(events.ends_with(&format!("\"response\":{body}}}\n\n")));
}

#[test]
fn what_a_whole_response_cites_and_its_log_probabilities_are_in_its_events() {
    let cited = r#"{"type":"url_citation","start_index":0,"end_index":2,"url":"https://a.example","title":"A"}"#;
    let other = r#"{"type":"file_citation","file_id":"f","filename":"a.txt","index":1}"#;
    let probs = r#"[{"token":"Hi","logprob":-0.10,"bytes":[72,105],"top_logprobs":[]}]"#;
    let item = format!(
        r#"{{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{{"type":"output_text","text":"Hi","annotations":[{cited},{other}],"logprobs":{probs}}}]}}"#
    );
    let body = response("completed", &item, &format!(r#", "usage":{USAGE}"#));
    let events = create(ASKED).as_events(body.as_bytes());
    let events = String::from_utf8(events.to_vec()).unwrap();
    let (told, last) = told(&events);
    assert_eq!(told, last["output"]);
    for said in [
        format!(r#""annotation_index":0,"annotation":{cited}}}"#),
        format!(r#""annotation_index":1,"annotation":{other}}}"#),
        format!(r#""delta":"Hi","logprobs":{probs}}}"#),
        format!(r#""text":"Hi","logprobs":{probs}}}"#),
    ] {
        assert_eq!(events.matches(&said).count(), 1, "{said}");
    }
}

/// Puts the output together from a stream's events, as clients do, and gives the response of its last one.
fn told(events: &str) -> (Tree, Tree) {
    let mut output: Vec<Tree> = Vec::new();
    let mut last = Tree::Null;
    for (number, event) in events.split_terminator("\n\n").enumerate() {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let event: Tree = serde_json::from_str(data).unwrap();
        let kind = event["type"].as_str().unwrap();
        assert_eq!(name, format!("event: {kind}"));
        assert_eq!(event["sequence_number"], number);
        let at = event["output_index"].as_u64().unwrap_or(0) as usize;
        let part = event["content_index"].as_u64();
        let part = part.or(event["summary_index"].as_u64()).unwrap_or(0) as usize;
        let mut add = |list: &str, field: &str| {
            let item = &mut output[at];
            assert_eq!(item["id"], event["item_id"]);
            let place = if list.is_empty() {
                &mut item[field]
            } else {
                &mut item[list][part][field]
            };
            let so_far = place.as_str().unwrap();
            *place = Tree::from(so_far.to_owned() + event["delta"].as_str().unwrap());
        };
        match kind.strip_prefix("response.").unwrap() {
            "output_item.added" => {
                assert_eq!(output.len(), at);
                output.push(event["item"].clone());
            }
            "content_part.added" => {
                let parts = output[at]["content"].as_array_mut().unwrap();
                parts.push(event["part"].clone());
            }
            "reasoning_summary_part.added" => {
                let parts = output[at]["summary"].as_array_mut().unwrap();
                parts.push(event["part"].clone());
            }
            "output_text.delta" => {
                add("content", "text");
                let probs = event["logprobs"].as_array().unwrap();
                if let Some(list) = output[at]["content"][part]["logprobs"].as_array_mut() {
                    list.extend_from_slice(probs);
                }
            }
            "output_text.annotation.added" => {
                let list = output[at]["content"][part]["annotations"]
                    .as_array_mut()
                    .unwrap();
                assert_eq!(event["annotation_index"], list.len());
                list.push(event["annotation"].clone());
            }
            "refusal.delta" => add("content", "refusal"),
            "reasoning_summary_text.delta" => add("summary", "text"),
            "function_call_arguments.delta" => add("", "arguments"),
            "output_item.done" => {
                // nothing but how far it is may differ from what the pieces made
                if !output[at]["status"].is_null() {
                    output[at]["status"] = event["item"]["status"].clone();
                }
                assert_eq!(output[at], event["item"]);
            }
            "completed" => last = event["response"].clone(),
            _ => {}
        }
    }
    (Tree::from(output), last)
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\"\\\\\n \u{e9}\u{1f600}]{0,8}".prop_map(|piece| text(4, &piece)),
        Just(delta("refusal", 4, "no")),
        Just(delta("function_call_arguments", 4, "{\"a\"")),
        Just(added(4, r#"{"id":"rs_1","type":"reasoning","summary":[]}"#)),
        Just(event("response.something_new", 4, r#""a":[1.0]"#)),
        Just(": a comment\n\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn the_same_comes_out_however_the_bytes_are_split(
        pieces in prop::collection::vec(piece(), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        public in prop::option::of(Just("public")),
    ) {
        let whole = opened() + &pieces.concat() + &end("completed", 9);
        let bytes = whole.replace('\n', ending);
        let split = carry(&create(ASKED), public, bytes.as_bytes(), cuts.into_iter());
        let expected = whole.replace(": a comment\n\n", "");
        let expected = match public {
            Some(name) => expected.replace(r#""model":"up""#, &format!(r#""model":"{name}""#)),
            None => expected,
        };
        prop_assert_eq!(split.result, Ok(()));
        prop_assert_eq!(split.out, expected);
        prop_assert_eq!(&split.stream.usage().unwrap().raw, USAGE);
    }

    #[test]
    fn no_bytes_bring_it_down_and_what_comes_out_reads_back(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        background in any::<bool>(),
    ) {
        let asked = format!(r#"{{"model":"m","stream":true,"background":{background},"input":"hi"}}"#);
        let mut bytes = hello().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..at, noise);
        let run = carry(&create(&asked), Some("public"), &bytes, cuts.into_iter());
        prop_assert!(run.out.is_empty() || run.out.ends_with("\n\n"));
        let mut decoder = Decoder::new(1 << 20);
        decoder.push(Bytes::from(run.out.clone()));
        let mut events = 0;
        while let Some(frame) = decoder.next_frame().unwrap() {
            let data = decoder.data(&frame).unwrap();
            prop_assert!(whole(data).is_some(), "{}", data);
            events += 1;
        }
        prop_assert_eq!(events, run.out.matches("\n\n").count());
    }
}
