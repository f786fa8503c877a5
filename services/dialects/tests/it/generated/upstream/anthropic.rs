//! Anthropic's Messages.

use super::super::answer::{Answer, Choice, End, Piece, USED, as_object, cut};
use super::super::source::Source;
use super::super::{list, number, object, text};
use super::named;
use crate::json::Json;

fn usage(output: u64) -> Json {
    let [input, cached, _, thought] = USED;
    let mut usage = object([
        ("input_tokens", number((input - cached).to_string())),
        ("cache_read_input_tokens", number(cached.to_string())),
        ("cache_creation_input_tokens", number("0")),
        ("output_tokens", number(output.to_string())),
    ]);
    if output > thought {
        let thought = object([("thinking_tokens", number(thought.to_string()))]);
        usage.set("output_tokens_details", thought);
    }
    usage
}

fn message(content: Vec<Json>, reason: Json, sequence: Json, output: u64) -> Json {
    object([
        ("id", text("msg_up")),
        ("type", text("message")),
        ("role", text("assistant")),
        ("model", text("up")),
        ("content", list(content)),
        ("stop_reason", reason),
        ("stop_sequence", sequence),
        ("usage", usage(output)),
    ])
}

fn reason(choice: &Choice) -> (Json, Json) {
    let calls = choice
        .pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Call(_)));
    let (reason, sequence) = match choice.end {
        End::Stop if calls => ("tool_use", Json::Null),
        End::Stop => ("end_turn", Json::Null),
        End::Length => ("max_tokens", Json::Null),
        End::Filtered | End::Refused => ("refusal", Json::Null),
        End::StopSequence => ("stop_sequence", text("STOP")),
        End::Paused => ("pause_turn", Json::Null),
        End::Full => ("model_context_window_exceeded", Json::Null),
        End::Unknown => ("something_new", Json::Null),
    };
    (text(reason), sequence)
}

fn citation(url: &str) -> Json {
    object([
        ("type", text("web_search_result_location")),
        ("cited_text", text("c")),
        ("url", text(url)),
        ("title", text("T")),
        ("encrypted_index", text("e")),
    ])
}

fn block(piece: &Piece) -> Json {
    match piece {
        Piece::Thought(words, seal) => {
            let seal = seal.clone().unwrap_or_default();
            match words.is_empty() && !seal.is_empty() {
                true => object([("type", text("redacted_thinking")), ("data", text(seal))]),
                false => object([
                    ("type", text("thinking")),
                    ("thinking", text(words)),
                    ("signature", text(seal)),
                ]),
            }
        }
        Piece::Text(said) => {
            let mut block = object([("type", text("text")), ("text", text(&said.text))]);
            if let Some(url) = &said.cited {
                block.set("citations", list(vec![citation(url)]));
            }
            block
        }
        Piece::Refusal(words) => object([("type", text("text")), ("text", text(words))]),
        Piece::Call(call) => object([
            ("type", text("tool_use")),
            ("id", text(&call.id)),
            ("name", text(&call.name)),
            ("input", Json::parse(&as_object(call)).unwrap()),
        ]),
        Piece::Hosted | Piece::Image(_) => object([
            ("type", text("server_tool_use")),
            ("id", text("srvtoolu_1")),
            ("name", text("web_search")),
            ("input", object([("query", text("q"))])),
        ]),
    }
}

pub(super) fn whole(answer: &Answer) -> Json {
    let choice = &answer.choices[0];
    let (reason, sequence) = reason(choice);
    let content = choice.pieces.iter().map(block).collect();
    message(content, reason, sequence, USED[2])
}

pub(super) fn stream(source: &mut Source, answer: &Answer) -> String {
    let choice = &answer.choices[0];
    let start = message(Vec::new(), Json::Null, Json::Null, 1);
    let mut out = named(&object([
        ("type", text("message_start")),
        ("message", start),
    ]));
    for (index, piece) in choice.pieces.iter().enumerate() {
        if source.once_in(6) {
            out.push_str(&named(&object([("type", text("ping"))])));
        }
        let index = number(index.to_string());
        let event = |kind: &str, key: &str, value: Json| {
            named(&object([
                ("type", text(kind)),
                ("index", index.clone()),
                (key, value),
            ]))
        };
        let mut begun = block(piece);
        for (key, empty) in [
            ("text", text("")),
            ("thinking", text("")),
            ("signature", text("")),
        ] {
            if begun.has(key) {
                begun.set(key, empty);
            }
        }
        if begun.has("input") {
            begun.set("input", object([]));
        }
        if begun.has("citations") {
            begun.set("citations", list(Vec::new()));
        }
        out.push_str(&event("content_block_start", "content_block", begun));
        for delta in deltas(source, piece) {
            out.push_str(&event("content_block_delta", "delta", delta));
        }
        out.push_str(&named(&object([
            ("type", text("content_block_stop")),
            ("index", index.clone()),
        ])));
    }
    let (reason, sequence) = reason(choice);
    let delta = object([("stop_reason", reason), ("stop_sequence", sequence)]);
    out.push_str(&named(&object([
        ("type", text("message_delta")),
        ("delta", delta),
        ("usage", usage(USED[2])),
    ])));
    out.push_str(&named(&object([("type", text("message_stop"))])));
    out
}

fn deltas(source: &mut Source, piece: &Piece) -> Vec<Json> {
    let typed =
        |kind: &str, key: &str, words: &str| object([("type", text(kind)), (key, text(words))]);
    let said = |pieces: Vec<String>, kind: &str, key: &str| -> Vec<Json> {
        pieces.iter().map(|piece| typed(kind, key, piece)).collect()
    };
    match piece {
        Piece::Thought(words, seal) => {
            let mut all = said(cut(source, words), "thinking_delta", "thinking");
            if let Some(seal) = seal.as_ref().filter(|_| !words.is_empty()) {
                all.push(typed("signature_delta", "signature", seal));
            }
            all
        }
        Piece::Text(words) => {
            let mut all = said(cut(source, &words.text), "text_delta", "text");
            if let Some(url) = &words.cited {
                let cited = object([
                    ("type", text("citations_delta")),
                    ("citation", citation(url)),
                ]);
                // Citations come before, between or after the words.
                let at = source.pick(all.len() + 1);
                all.insert(at, cited);
            }
            all
        }
        Piece::Refusal(words) => said(cut(source, words), "text_delta", "text"),
        Piece::Call(call) => {
            let arguments = as_object(call);
            let mut all = Vec::new();
            if source.once_in(2) {
                all.push(typed("input_json_delta", "partial_json", ""));
            }
            if arguments != "{}" || source.once_in(2) {
                all.extend(said(
                    cut(source, &arguments),
                    "input_json_delta",
                    "partial_json",
                ));
            }
            all
        }
        Piece::Hosted | Piece::Image(_) => vec![typed("input_json_delta", "partial_json", "{}")],
    }
}
