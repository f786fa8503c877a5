//! Finds the parts of Anthropic's answers (PROTOCOLS §7.2).
//!
//! A block begins, grows and ends; its index is not a call's number, as blocks of all kinds count. What the provider's own tools
//! did has no counterpart elsewhere: their blocks are passed over, the text around them is not.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::convert::Format;
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct AnthropicReader {
    /// Names of tools of free text to the caller.
    custom: Vec<String>,
    calls: u32,
    open: Open,
}

/// The block that is open: they do not overlap.
#[derive(Debug, Default)]
enum Open {
    #[default]
    None,
    /// Its signature so far.
    Thinking(String),
    Call {
        key: u32,
        /// Something of its input was said.
        argued: bool,
        /// The input of a tool of free text, which is said when it is complete.
        free: Option<String>,
    },
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citations: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stop_sequence: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    document_title: Option<Cow<'a, str>>,
}

impl AnthropicReader {
    /// Nothing was read yet. `custom`: the tools that stand for tools of free text.
    pub(crate) fn new(custom: &[String]) -> Self {
        Self {
            custom: custom.to_vec(),
            ..Self::default()
        }
    }
}

impl Reader for AnthropicReader {
    fn event(
        &mut self,
        _: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|_| {
            let text = "the upstream's answer is not what its dialect says";
            Box::new(UpstreamError::found(Class::Malformed, text))
        })?;
        match (&*event.kind, event.content_block, event.delta) {
            ("message_start", ..) => put(0, Part::Begin { created: None }),
            ("content_block_start", Some(block), _) => self.start(&block, put),
            ("content_block_delta", _, Some(delta)) => self.delta(&delta, put),
            ("content_block_stop", ..) => self.stop(put),
            ("message_delta", _, Some(delta)) => finish(&delta, put),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, put: &mut Put<'_>) {
        self.stop(put);
    }
}

/// Passes on a piece that says something.
fn say<'a>(piece: Option<&'a str>, part: fn(&'a str) -> Part<'a>, put: &mut Put<'_>) {
    if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
        put(0, part(piece));
    }
}

impl AnthropicReader {
    fn start(&mut self, block: &Block<'_>, put: &mut Put<'_>) {
        self.stop(put);
        match &*block.kind {
            "text" => {
                say(block.text.as_deref(), Part::Text, put);
                for raw in block.citations.iter().flatten() {
                    cite(raw, put);
                }
            }
            "thinking" => {
                say(block.thinking.as_deref(), Part::Reasoning, put);
                let signature = block.signature.as_deref().unwrap_or_default();
                self.open = Open::Thinking(signature.to_owned());
            }
            "redacted_thinking" => {
                let seal = Seal {
                    maker: Format::Anthropic,
                    redacted: true,
                    value: block.data.as_deref().unwrap_or_default(),
                };
                put(0, Part::Sealed(seal));
            }
            "tool_use" => {
                let (key, name) = (self.calls, block.name.as_deref().unwrap_or_default());
                self.calls += 1;
                let custom = self.custom.iter().any(|known| known == name);
                put(
                    0,
                    Part::Call {
                        key,
                        id: block.id.as_deref().unwrap_or_default(),
                        name,
                        custom,
                        seal: None,
                    },
                );
                self.open = Open::Call {
                    key,
                    argued: false,
                    free: custom.then(String::new),
                };
                let input = block.input.map(RawValue::get);
                if let Some(input) = input.filter(|input| input.replace(' ', "") != "{}") {
                    self.argue(input, put);
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, put: &mut Put<'_>) {
        say(delta.text.as_deref(), Part::Text, put);
        say(delta.thinking.as_deref(), Part::Reasoning, put);
        if let (Open::Thinking(kept), Some(signature)) = (&mut self.open, &delta.signature) {
            kept.push_str(signature);
        }
        if let Some(piece) = delta.partial_json.as_deref() {
            self.argue(piece, put);
        }
        if let Some(raw) = delta.citation {
            cite(raw, put);
        }
    }

    fn argue(&mut self, piece: &str, put: &mut Put<'_>) {
        let Open::Call { key, argued, free } = &mut self.open else {
            return;
        };
        if piece.is_empty() {
            return;
        }
        *argued = true;
        match free {
            Some(held) => held.push_str(piece),
            None => put(0, Part::Arguments { key: *key, piece }),
        }
    }

    fn stop(&mut self, put: &mut Put<'_>) {
        match std::mem::take(&mut self.open) {
            Open::Thinking(signature) if !signature.is_empty() => {
                let seal = Seal {
                    maker: Format::Anthropic,
                    redacted: false,
                    value: &signature,
                };
                put(0, Part::Sealed(seal));
            }
            Open::Call { key, free, .. } => {
                if let Some(held) = free.filter(|held| !held.is_empty()) {
                    let piece = &*crate::convert::chat::compose::free_input(&held);
                    put(0, Part::Arguments { key, piece });
                }
                put(0, Part::CallEnd { key });
            }
            Open::None | Open::Thinking(_) => {}
        }
    }
}

fn cite(raw: &RawValue, put: &mut Put<'_>) {
    let Ok(cited) = serde_json::from_str::<Cited<'_>>(raw.get()) else {
        return;
    };
    let url = cited.url.or(cited.source).unwrap_or_default();
    let title = cited.title.or(cited.document_title).unwrap_or_default();
    put(
        0,
        Part::Citation {
            url: &url,
            title: &title,
            span: None,
            raw: raw.get(),
        },
    );
}

fn finish(delta: &Delta<'_>, put: &mut Put<'_>) {
    let Some(word) = delta.stop_reason.as_deref() else {
        return;
    };
    let reason = match word {
        "end_turn" => Reason::Stop,
        "stop_sequence" => Reason::StopSequence(delta.stop_sequence.as_deref().unwrap_or_default()),
        "max_tokens" => Reason::Length,
        "tool_use" => Reason::ToolCalls,
        "pause_turn" => Reason::Paused,
        "refusal" => Reason::Refused,
        "model_context_window_exceeded" => Reason::ContextFull,
        _ => Reason::Other,
    };
    put(0, Part::Finish(Finish { reason, raw: word }));
}
