//! An answer as any dialect can say it.

use switchboard_dialects::convert::Format;

use super::source::Source;
use super::{list, number, object, text, truth};
use crate::json::Json;

/// What every answer used: input, of it cached, output, of it thought.
pub(super) const USED: [u64; 4] = [100, 60, 20, 5];

/// An answer: its choices, one at least.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) choices: Vec<Choice>,
}

#[derive(Debug)]
pub(super) struct Choice {
    pub(super) pieces: Vec<Piece>,
    pub(super) end: End,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// Thoughts and their seal; without a text they are withheld.
    Thought(String, Option<String>),
    Text(Text),
    Refusal(String),
    Call(Call),
    /// A PNG in base64.
    Image(String),
    /// A tool that the provider ran.
    Hosted,
}

#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) text: String,
    /// Where it comes from.
    pub(super) cited: Option<String>,
    /// Its log probabilities are told.
    pub(super) probable: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// A JSON object; of the tool of free text a text.
    pub(super) arguments: String,
    /// It goes to a tool of free text.
    pub(super) custom: bool,
    /// A seal that must come back with it.
    pub(super) seal: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Stop,
    Length,
    Filtered,
    Refused,
    StopSequence,
    Paused,
    Full,
    Unknown,
}

/// What a pair of dialects can ask for and tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) caller: Format,
    pub(super) upstream: Format,
}

impl Pair {
    fn both_of(self, some: &[Format]) -> bool {
        some.contains(&self.caller) && some.contains(&self.upstream)
    }

    pub(super) fn several(self) -> bool {
        self.both_of(&[Format::Chat, Format::Gemini])
    }

    pub(super) fn probable(self) -> bool {
        self.both_of(&[Format::Chat, Format::Responses, Format::Gemini])
    }

    pub(super) fn free_text(self) -> bool {
        matches!(self.caller, Format::Chat | Format::Responses)
    }
}

pub(super) fn answer(source: &mut Source, pair: Pair) -> Answer {
    let several = pair.several() && source.once_in(4);
    let choices = if several { 2 } else { 1 };
    let probable = pair.probable() && source.once_in(4);
    let mut calls = 0;
    Answer {
        choices: (0..choices)
            .map(|_| choice(source, pair, probable, &mut calls))
            .collect(),
    }
}

fn choice(source: &mut Source, pair: Pair, probable: bool, calls: &mut usize) -> Choice {
    let openai = matches!(pair.upstream, Format::Chat | Format::Responses);
    let mut pieces = Vec::new();
    for _ in 0..1 + source.pick(6) {
        pieces.push(match source.pick(12) {
            3 | 4 => thought(source, pair.upstream),
            5..=7 => {
                *calls += 1;
                Piece::Call(call(source, pair, *calls))
            }
            8 if openai => Piece::Refusal(source.text()),
            9 if pair.upstream != Format::Anthropic => {
                Piece::Image(format!("{}AAAA", source.mark()))
            }
            10 if matches!(pair.upstream, Format::Anthropic | Format::Responses) => Piece::Hosted,
            _ => Piece::Text(Text {
                text: source.text(),
                cited: source
                    .once_in(4)
                    .then(|| format!("https://a.example/{}", source.mark())),
                probable,
            }),
        });
    }
    let ends = [
        End::Stop,
        End::Stop,
        End::Length,
        End::Filtered,
        End::Refused,
        End::StopSequence,
        End::Paused,
        End::Full,
        End::Unknown,
    ];
    let end = source.one(&ends);
    Choice { pieces, end }
}

fn thought(source: &mut Source, upstream: Format) -> Piece {
    let seal = match upstream {
        // Chat has none of its own.
        Format::Chat => None,
        Format::Anthropic => Some(source.mark()),
        Format::Responses | Format::Gemini => source.once_in(2).then(|| source.mark()),
    };
    let withheld = seal.is_some() && source.once_in(4);
    let words = if withheld {
        String::new()
    } else {
        source.text()
    };
    Piece::Thought(words, seal)
}

fn call(source: &mut Source, pair: Pair, number: usize) -> Call {
    let custom = pair.free_text() && source.once_in(5);
    let arguments = match source.pick(3) {
        _ if custom => source.text(),
        0 => "{}".to_owned(),
        _ => format!(
            r#"{{"{}":"{} é\"\\\n","big":9007199254740993,"more":{}}}"#,
            source.mark(),
            source.mark(),
            source.json(3)
        ),
    };
    let seal = pair.upstream == Format::Gemini && source.once_in(3);
    Call {
        id: match source.pick(4) {
            3 => format!("call.{number}/{}", "x".repeat(70)),
            _ => format!("call_{number}"),
        },
        name: match custom {
            true => "free".to_owned(),
            false => source.one(&names(pair.caller)),
        },
        arguments,
        custom,
        seal: seal.then(|| source.mark()),
    }
}

/// The caller's tools. Not every dialect takes all that another takes.
fn names(caller: Format) -> [String; 3] {
    let odd = match caller {
        Format::Chat | Format::Responses => "n".repeat(64),
        Format::Anthropic => "n".repeat(128),
        Format::Gemini => "a.b:c-d".to_owned(),
    };
    ["get_weather".to_owned(), "now".to_owned(), odd]
}

impl Answer {
    /// The same with the names by which the upstream knows the tools: those of the request that it got.
    pub(super) fn known_as(&self, caller: Format, sent: &Json) -> Self {
        let nested = sent.get("tools").list().iter().flat_map(|tool| {
            match tool.get("functionDeclarations").list() {
                [] => vec![tool.clone()],
                declared => declared.to_vec(),
            }
        });
        let known: Vec<String> = nested
            .map(|tool| match tool.get("function").get("name") {
                Json::Null => tool.get("name").str().to_owned(),
                name => name.str().to_owned(),
            })
            .collect();
        let ours = names(caller);
        let choices = self.choices.iter().map(|choice| {
            let mut pieces = choice.pieces.clone();
            for piece in &mut pieces {
                if let Piece::Call(call) = piece
                    && let Some(at) = ours.iter().position(|name| *name == call.name)
                {
                    call.name.clone_from(&known[at]);
                }
            }
            Choice {
                pieces,
                end: choice.end,
            }
        });
        Self {
            choices: choices.collect(),
        }
    }
}

/// A text in pieces; none is empty.
pub(super) fn cut(source: &mut Source, text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in text.chars() {
        if source.once_in(5) {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push(character);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The arguments by which a tool of free text gets its text where the dialect has only tools that take JSON.
pub(super) fn as_object(call: &Call) -> String {
    match call.custom {
        true => object([("input", text(&call.arguments))]).compact(),
        false => call.arguments.clone(),
    }
}

/// The request to which an answer is given.
pub(super) fn asked(pair: Pair, answer: &Answer, streamed: bool) -> Json {
    let schema = || object([("type", text("object"))]);
    let several = answer.choices.len() > 1;
    let pieces = answer.choices.iter().flat_map(|choice| &choice.pieces);
    let probable = pieces
        .clone()
        .any(|piece| matches!(piece, Piece::Text(text) if text.probable));
    let names = names(pair.caller);
    let mut body = match pair.caller {
        Format::Chat => {
            let tool = |name: String| {
                let inner = object([("name", text(name)), ("parameters", schema())]);
                object([("type", text("function")), ("function", inner)])
            };
            let mut tools: Vec<Json> = names.into_iter().map(tool).collect();
            let free = object([("name", text("free"))]);
            tools.push(object([("type", text("custom")), ("custom", free)]));
            let user = object([("role", text("user")), ("content", text("Hi"))]);
            let mut body = object([("messages", list(vec![user])), ("tools", list(tools))]);
            if several {
                body.set("n", number("2"));
            }
            if probable {
                body.set("logprobs", truth(true));
            }
            if streamed {
                let usage = object([("include_usage", truth(true))]);
                body.set("stream_options", usage);
            }
            body
        }
        Format::Responses => {
            let tool = |name: String| {
                object([
                    ("type", text("function")),
                    ("name", text(name)),
                    ("parameters", schema()),
                    ("strict", truth(false)),
                ])
            };
            let mut tools: Vec<Json> = names.into_iter().map(tool).collect();
            tools.push(object([("type", text("custom")), ("name", text("free"))]));
            let mut body = object([("input", text("Hi")), ("tools", list(tools))]);
            if probable {
                let include = vec![text("message.output_text.logprobs")];
                body.set("include", list(include));
            }
            body
        }
        Format::Anthropic => {
            let tool = |name: String| object([("name", text(name)), ("input_schema", schema())]);
            let user = object([("role", text("user")), ("content", text("Hi"))]);
            object([
                ("max_tokens", number("4096")),
                ("messages", list(vec![user])),
                ("tools", list(names.into_iter().map(tool).collect())),
                ("thinking", object([("type", text("adaptive"))])),
            ])
        }
        Format::Gemini => {
            let user = object([
                ("role", text("user")),
                ("parts", list(vec![object([("text", text("Hi"))])])),
            ]);
            let mut config = object([]);
            if several {
                config.set("candidateCount", number("2"));
            }
            if probable {
                config.set("responseLogprobs", truth(true));
            }
            let declared = names.into_iter().map(|name| object([("name", text(name))]));
            let declared = object([("functionDeclarations", list(declared.collect()))]);
            return object([
                ("contents", list(vec![user])),
                ("tools", list(vec![declared])),
                ("generationConfig", config),
            ]);
        }
    };
    body.set("model", text("public-model"));
    if streamed {
        body.set("stream", truth(true));
    }
    body
}
