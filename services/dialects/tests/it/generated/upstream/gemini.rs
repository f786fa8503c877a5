//! Gemini's generateContent.

use super::super::answer::{Answer, Choice, End, Piece, USED, as_object, cut};
use super::super::source::Source;
use super::super::{list, number, object, text, truth};
use super::mixed;
use crate::json::Json;

fn body(candidates: Vec<Json>) -> Json {
    let [input, cached, output, thought] = USED;
    let usage = object([
        ("promptTokenCount", number(input.to_string())),
        ("cachedContentTokenCount", number(cached.to_string())),
        (
            "candidatesTokenCount",
            number((output - thought).to_string()),
        ),
        ("thoughtsTokenCount", number(thought.to_string())),
        ("totalTokenCount", number((input + output).to_string())),
    ]);
    object([
        ("candidates", list(candidates)),
        ("usageMetadata", usage),
        ("modelVersion", text("up")),
        ("responseId", text("r")),
    ])
}

fn reason(choice: &Choice) -> Json {
    text(match choice.end {
        End::Stop | End::StopSequence | End::Paused => "STOP",
        End::Length | End::Full => "MAX_TOKENS",
        End::Filtered => "SAFETY",
        End::Refused => "PROHIBITED_CONTENT",
        End::Unknown => "SOMETHING_NEW",
    })
}

/// The part of a piece, with this text in place of its own.
fn part(piece: &Piece, words: &str) -> Json {
    match piece {
        Piece::Thought(_, seal) => {
            let mut part = object([("text", text(words)), ("thought", truth(true))]);
            if let Some(seal) = seal {
                part.set("thoughtSignature", text(seal));
            }
            part
        }
        Piece::Text(_) | Piece::Refusal(_) | Piece::Hosted => object([("text", text(words))]),
        Piece::Call(call) => {
            let mut said = object([
                ("name", text(&call.name)),
                ("args", Json::parse(&as_object(call)).unwrap()),
            ]);
            // An id is not always given.
            if call.id.len() > 10 {
                said.set("id", text(&call.id));
            }
            let mut part = object([("functionCall", said)]);
            if let Some(seal) = &call.seal {
                part.set("thoughtSignature", text(seal));
            }
            part
        }
        Piece::Image(data) => {
            let data = object([("mimeType", text("image/png")), ("data", text(data))]);
            object([("inlineData", data)])
        }
    }
}

fn words(piece: &Piece) -> &str {
    match piece {
        Piece::Thought(words, _) | Piece::Refusal(words) => words,
        Piece::Text(said) => &said.text,
        Piece::Call(_) | Piece::Image(_) | Piece::Hosted => "",
    }
}

/// Where the pieces come from, and how probable they are.
fn beside(pieces: &[&Piece], candidate: &mut Json) {
    let (mut cited, mut chosen) = (Vec::new(), Vec::new());
    for piece in pieces {
        let Piece::Text(said) = piece else { continue };
        if let Some(url) = &said.cited {
            cited.push(object([("uri", text(url)), ("title", text("T"))]));
        }
        if said.probable {
            chosen.push(object([
                ("token", text(&said.text)),
                ("logProbability", number("-0.25")),
            ]));
        }
    }
    if !cited.is_empty() {
        candidate.set("citationMetadata", object([("citations", list(cited))]));
    }
    if !chosen.is_empty() {
        candidate.set(
            "logprobsResult",
            object([("chosenCandidates", list(chosen))]),
        );
    }
}

pub(super) fn whole(answer: &Answer) -> Json {
    let candidates = answer.choices.iter().enumerate().map(|(index, choice)| {
        let parts = choice.pieces.iter().map(|piece| part(piece, words(piece)));
        let content = object([("role", text("model")), ("parts", list(parts.collect()))]);
        let mut candidate = object([
            ("content", content),
            ("finishReason", reason(choice)),
            ("index", number(index.to_string())),
        ]);
        let pieces: Vec<&Piece> = choice.pieces.iter().collect();
        beside(&pieces, &mut candidate);
        candidate
    });
    body(candidates.collect())
}

pub(super) fn stream(source: &mut Source, answer: &Answer) -> String {
    let mut all = Vec::new();
    for (index, choice) in answer.choices.iter().enumerate() {
        let chunk = |parts: Vec<Json>| {
            let content = object([("role", text("model")), ("parts", list(parts))]);
            object([("content", content), ("index", number(index.to_string()))])
        };
        let mut chunks = Vec::new();
        for piece in &choice.pieces {
            let mut pieces = cut(source, words(piece));
            if pieces.is_empty() {
                pieces.push(String::new());
            }
            let last = pieces.len() - 1;
            for (at, said) in pieces.iter().enumerate() {
                let mut part = part(piece, said);
                if at < last
                    && let Json::Object(members) = &mut part
                {
                    // A thought's seal stands on its last part.
                    members.retain(|(key, _)| key != "thoughtSignature");
                }
                let mut chunk = chunk(vec![part]);
                if at == last {
                    beside(&[piece], &mut chunk);
                }
                chunks.push(chunk);
            }
        }
        match chunks.last_mut() {
            Some(last) if source.once_in(2) => last.set("finishReason", reason(choice)),
            _ => {
                let mut end = chunk(vec![object([("text", text(""))])]);
                end.set("finishReason", reason(choice));
                chunks.push(end);
            }
        }
        all.push(chunks);
    }
    let mut out = String::new();
    for candidate in mixed(source, all) {
        out.push_str(&format!("data: {}\n\n", body(vec![candidate]).compact()));
    }
    out
}
