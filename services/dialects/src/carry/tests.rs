//! What needs no reading is what it is when it is read.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use super::{AnswerStream, StreamOptions};
use crate::anthropic::{MessagesCall, MessagesRequest};
use crate::chat::ChatRequest;
use crate::dialect::DialectRequest;
use crate::gemini::{Call, GeminiRequest};
use crate::responses::ResponsesRequest;

const DIALECTS: [&str; 5] = ["chat", "anthropic", "responses", "gemini", "gemini array"];
const TEXTS: [&str; 14] = [
    " word",
    "a",
    "",
    "\\n",
    "x\\\"y",
    "\\u00e9",
    "é",
    "日本語",
    "\\ud83d\\ude00",
    "\\\\",
    "bad\\x",
    "}}",
    "a longer piece of text",
    "12345678",
];
const COUNTS: [&str; 8] = [
    "0",
    "1",
    "9",
    "1.0",
    "1000000001",
    "null",
    "12",
    "123456789",
];
const USAGES: [&str; 6] = [
    "",
    r#","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":#,"totalTokenCount":#}"#,
    r#","usageMetadata":{"promptTokenCount":#,"thoughtsTokenCount":#,"totalTokenCount":12,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}]}"#,
    r#","usageMetadata":{"candidatesTokenCount":#}"#,
    r#","usageMetadata":{"promptTokenCount":0,"cachedContentTokenCount":0,"totalTokenCount":#}"#,
    r##","usageMetadata":{"toolUsePromptTokenCount":#,"candidatesTokenCount":0, "x":{"y":"#"}}"##,
];

/// A piece of a stream; `kind` below 12 is one of text, and most are of one form.
fn event(
    dialect: &str,
    (kind, text, count, usage, padded): (u8, &str, &str, &str, bool),
) -> (&'static str, String) {
    let padding = if padded {
        format!(r#","obfuscation":"{text}""#)
    } else {
        String::new()
    };
    match dialect {
        "chat" => {
            let null = if usage.is_empty() { "" } else { r#","usage":null"# };
            let of = |delta: &str, finish: &str, null: &str| format!(r#"{{"id":"c","model":"up","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]{null}{padding}}}"#);
            let content = format!(r#"{{"content":"{text}"}}"#);
            ("", match kind {
                0..12 => of(&content, "null", null),
                12 => of(r#"{"role":"assistant","content":""}"#, "null", null),
                13 => of(&content, "\"stop\"", null),
                14 => of(&content, "null", r#","usage":{"prompt_tokens":3,"completion_tokens":4}"#),
                15 => format!(r#"{{"choices":[{{"delta":{content}}},{{"index":1,"delta":{content}}}],"id":"c"}}"#),
                16 => of(&format!(r#"{{"tool_calls":[{{"function":{{"arguments":"{text}"}}}}]}}"#), "null", null),
                17 => of(&format!(r#"{{"reasoning":"{text}","content":"{text}"}}"#), "null", null),
                18 => of(&content, "null", null).replace("up", "pub"),
                _ => r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#.to_owned(),
            })
        }
        "anthropic" => match kind {
            0..12 => ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#)),
            12 => ("ping", r#"{"type": "ping"}"#.to_owned()),
            13 => ("content_block_delta", format!(r#"{{"index":0,"delta":{{"type":"text_delta","text":"{text}"}},"type":"content_block_delta"}}"#)),
            14 => ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.to_owned()),
            15 => ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#.to_owned()),
            16 => ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{text}"}}}}"#)),
            17 => ("", format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#)),
            _ => ("message_start", r#"{"type":"message_start","message":{"id":"m","model":"up","usage":{"input_tokens":9,"output_tokens":1}}}"#.to_owned()),
        },
        "responses" => match kind {
            0..12 => ("response.output_text.delta", format!(r#"{{"type":"response.output_text.delta","sequence_number":{count},"delta":"{text}","logprobs":[]{padding}}}"#)),
            12 => ("response.output_text.delta", format!(r#"{{"type":"response.output_text.delta","delta":"{text}"{padding}}}"#)),
            13 => ("response.audio.delta", format!(r#"{{"type":"response.audio.delta","sequence_number":{count},"delta":"{text}"}}"#)),
            14 => ("response.output_text.done", format!(r#"{{"type":"response.output_text.done","sequence_number":{count},"text":"{text}"}}"#)),
            15 => ("", format!(r#"{{"type":"response.output_text.delta","sequence_number":{count},"delta":"{text}","logprobs":[]{padding}}}"#)),
            16 => ("response.completed", r#"{"type":"response.completed","response":{"id":"r","model":"up","status":"completed","usage":{"input_tokens":1,"output_tokens":2}}}"#.to_owned()),
            _ => ("response.created", format!(r#"{{"type":"response.created","sequence_number":{count},"response":{{"id":"r","model":"up","status":"in_progress"}}}}"#)),
        },
        _ => {
            let usage = usage.replace('#', count);
            let of = |parts: &str, more: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{more},"index":0}}]{usage},"modelVersion":"up"}}"#);
            let part = format!(r#"{{"text":"{text}"}}"#);
            ("", match kind {
                0..12 => of(&part, ""),
                12 => of(&format!(r#"{{"text":"x"}},{part}"#), ""),
                13 => of(&part, r#","finishReason":"STOP""#),
                14 => of(&format!(r#"{part},{{"functionCall":{{"name":"{text}","args":{{}}}}}}"#), ""),
                15 => of(&format!(r#"{{"text":"{text}","thought":true}}"#), ""),
                16 => r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}"#.to_owned(),
                17 => of(&part, "").replace("up", "pub"),
                _ => r#"{"usageMetadata":{"promptTokenCount":4}}"#.to_owned(),
            })
        }
    }
}

/// Its bytes in a framing, of which the first is canonical.
fn framed((name, data): &(&str, String), framing: u8) -> String {
    let name = if name.is_empty() {
        String::new()
    } else {
        format!("event: {name}\n")
    };
    match framing {
        0 => format!("{name}data: {data}\n\n"),
        1 => format!("{name}data:{data}\n\n"),
        2 => format!("{name}data: {data}\n\n").replace('\n', "\r\n"),
        3 => format!("{name}data: {data}\n\n").replace('\n', "\r"),
        4 => format!("data: {data}\n{name}\n"),
        5 => format!("{name}data: {data}\n: comment\nid: 7\n\n"),
        _ => format!("{name}data: {}\n\n", data.replacen(',', ",\ndata: ", 1)),
    }
}

fn open(dialect: &str, usage: bool, options: StreamOptions) -> Box<dyn AnswerStream> {
    let call = |call| GeminiRequest::peek(call, "m", br#"{"contents":[]}"#).unwrap();
    match dialect {
        "chat" => {
            let body = format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"stream":true,"stream_options":{{"include_usage":{usage}}}}}"#
            );
            ChatRequest::peek(body.as_bytes()).unwrap().stream(options)
        }
        "anthropic" => {
            let body = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
            MessagesRequest::peek(body, MessagesCall::Create)
                .unwrap()
                .stream(options)
        }
        "responses" => ResponsesRequest::peek(br#"{"model":"m","input":"","stream":true}"#)
            .unwrap()
            .stream(options),
        "gemini" => call(Call::StreamEvents).stream(options),
        _ => call(Call::StreamArray).stream(options),
    }
}

/// All that a stream's carrier and its caller see of it.
fn carried(mut stream: Box<dyn AnswerStream>, reads: &[Vec<u8>]) -> String {
    let mut out = Vec::new();
    let mut result = Ok(());
    for read in reads {
        result = stream.push(Bytes::copy_from_slice(read));
        out.extend(stream.take().unwrap_or_default());
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = stream.finish();
    }
    out.extend(stream.take().unwrap_or_default());
    let text = (stream.text().text(), stream.text().bytes(), stream.usage());
    let flags = [
        stream.committed(),
        stream.has_content(),
        stream.done(),
        stream.complete(),
    ];
    let rest = (
        stream.progress(),
        stream.next_sequence(),
        stream.stored_id(),
        stream.finished(),
    );
    format!(
        "{}\n{result:?} {text:?} {flags:?} {rest:?}",
        String::from_utf8_lossy(&out)
    )
}

/// What an event is, its framing, and a byte of it that is another one.
type Piece = (
    (Option<u8>, &'static str, &'static str, bool),
    u8,
    Option<(usize, u8)>,
);

fn any_piece() -> impl Strategy<Value = Piece> {
    let piece = (
        // Of the same kind as the one before it.
        prop_oneof![2 => Just(None), 1 => Just(Some(0)), 1 => (0..20_u8).prop_map(Some)],
        select(&TEXTS[..]),
        select(&COUNTS[..]),
        prop::bool::weighted(0.95),
    );
    let framing = prop_oneof![9 => Just(0_u8), 1 => 0..7_u8];
    let damage = prop::option::weighted(0.03, (any::<usize>(), select(&b"\xff\xc3\"\\ {}0x"[..])));
    (piece, framing, damage)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    // A comment before an event says nothing, but with one no event begins where another ends: each of them is read.
    #[test]
    fn a_stream_of_one_shape_is_what_it_is_when_each_event_is_read(
        dialect in select(&DIALECTS[..]),
        pieces in prop::collection::vec(any_piece(), 0..40),
        framing in prop_oneof![3 => Just(0_u8), 1 => 0..7_u8],
        usage in select(&USAGES[..]),
        public in select(vec![None, Some("p"), Some("public-name")]),
        bounds in (prop_oneof![3 => Just(1_usize << 20), 1 => 60..400_usize], prop_oneof![3 => Just(1_usize << 20), 1 => 0..60_usize]),
        reads in prop_oneof![Just(None), (1..400_usize).prop_map(Some), (1_000..3_000_usize).prop_map(Some)],
    ) {
        let start = match dialect {
            "anthropic" => Some(event(dialect, (25, "", "", "", false))),
            "responses" => Some(event(dialect, (25, "", "0", "", false))),
            _ => None,
        };
        let mut events: Vec<Vec<u8>> = start.iter().map(|event| framed(event, 0).into_bytes()).collect();
        let mut last = 0;
        for ((kind, text, count, padded), own, damage) in pieces {
            let kind = kind.unwrap_or(last);
            last = kind;
            let own = if own == 0 { framing } else { own };
            let mut bytes = framed(&event(dialect, (kind, text, count, usage, padded)), own).into_bytes();
            if let Some((at, with)) = damage {
                let at = at % bytes.len();
                if !matches!(bytes[at], b'\n' | b'\r') {
                    bytes[at] = with;
                }
            }
            events.push(bytes);
        }
        let options = StreamOptions {
            public_model: public.map(str::to_owned),
            max_event: bounds.0,
            text_bound: bounds.1,
            ..StreamOptions::default()
        };
        let slow: Vec<Vec<u8>> = events.iter().map(|event| [b":\n", &event[..]].concat()).collect();
        let want = carried(open(dialect, !usage.is_empty(), options.clone()), &slow);
        let fast = match reads {
            None => vec![events.concat()],
            Some(size) => events.concat().chunks(size).map(<[u8]>::to_vec).collect(),
        };
        prop_assert_eq!(carried(open(dialect, !usage.is_empty(), options), &fast), want);
    }
}

#[test]
fn a_failure_in_the_read_that_brings_more_than_is_held_leaves_no_trace() {
    let created = framed(&event("responses", (25, "", "1", "", false)), 0);
    let failed = framed(
        &("error", r#"{"type":"error","message":"no"}"#.to_owned()),
        0,
    );
    let options = StreamOptions {
        hold_bound: 10,
        ..StreamOptions::default()
    };
    let mut stream = open("responses", false, options);
    let (kept, rest) = created.split_at(20);
    stream
        .push(Bytes::copy_from_slice(kept.as_bytes()))
        .unwrap();
    let read = format!("{rest}{failed}:{}\n", " ".repeat(2_000));
    assert!(stream.push(Bytes::from(read)).is_err());
    assert!(!stream.committed());
    assert_eq!(stream.take(), None);
}
