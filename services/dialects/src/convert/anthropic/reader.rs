//! The parts of a Messages answer (PROTOCOLS §7.2, §11.2).
//!
//! Blocks of tools that the provider runs itself are passed over: a translated request never gives it one.

use std::borrow::Cow;

use crate::anthropic::{Delta, Fragment, fragment};
use crate::convert::Format;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::part::{Finish, Part, Put, Reader, Reason};
use crate::convert::seal::Seal;
use crate::error::{Class, UpstreamError};
use crate::json::Kind;

/// Citations are kept until their block ends; beyond this many bytes they are given at once, without a span.
const MAX_CITATIONS: usize = 256 * 1024;

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    open: Vec<(u64, Open)>,
    calls: u32,
    /// Characters of text so far.
    characters: u64,
    finished: bool,
}

/// A block that has begun.
#[derive(Debug)]
enum Open {
    Text {
        start: u64,
        citations: Vec<String>,
        kept: usize,
    },
    Thinking {
        shown: bool,
        signature: String,
    },
    Tool {
        key: u32,
        /// The input that came with its start.
        whole: String,
        pieces: bool,
    },
    Other,
}

impl Reader for MessageReader {
    fn event(
        &mut self,
        name: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<UpstreamError>> {
        if let Some(Fragment { index, delta, text }) = fragment(data) {
            self.delta(index, delta, &text.decode(data), put);
            return Ok(());
        }
        self.read(name, data, put).map_err(|refusal| {
            let what = format!("the upstream's event makes no sense: {refusal}");
            Box::new(UpstreamError::found(Class::Malformed, &what))
        })
    }

    fn end(&mut self, put: &mut Put<'_>) {
        while let Some((_, block)) = self.open.pop() {
            self.close(block, put);
        }
    }
}

impl MessageReader {
    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<Refusal>> {
        let mut fields = Raw::body(data).fields()?;
        let kind = fields.text("type")?;
        let kind = kind.as_deref().or(name).unwrap_or("");
        match kind {
            "message_start" => put(0, Part::Begin { created: None }),
            "content_block_start" => {
                let index = fields.number("index")?.unwrap_or(0);
                if let Some(block) = fields.fields("content_block")? {
                    let open = self.start(block, put)?;
                    self.open.push((index, open));
                }
            }
            "content_block_delta" => {
                let index = fields.number("index")?.unwrap_or(0);
                if let Some(delta) = fields.fields("delta")? {
                    self.read_delta(index, delta, put)?;
                }
            }
            "content_block_stop" => {
                let index = fields.number("index")?.unwrap_or(0);
                if let Some(at) = self.open.iter().position(|(open, _)| *open == index) {
                    let (_, block) = self.open.remove(at);
                    self.close(block, put);
                }
            }
            "message_delta" => {
                if let Some(delta) = fields.fields("delta")? {
                    self.finish(delta, put)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, mut block: Fields<'_>, put: &mut Put<'_>) -> Result<Open, Box<Refusal>> {
        let kind = block.text("type")?.unwrap_or_default();
        Ok(match &*kind {
            "text" => {
                let start = self.characters;
                self.text(&block.text("text")?.unwrap_or_default(), put);
                Open::Text {
                    start,
                    citations: Vec::new(),
                    kept: 0,
                }
            }
            "thinking" => {
                let text = block.text("thinking")?.unwrap_or_default();
                if !text.is_empty() {
                    put(0, Part::Reasoning(&text));
                }
                Open::Thinking {
                    shown: !text.is_empty(),
                    signature: block.text("signature")?.unwrap_or_default().into_owned(),
                }
            }
            "redacted_thinking" => {
                put(
                    0,
                    Part::Sealed(Seal {
                        maker: Format::Anthropic,
                        redacted: true,
                        value: &block.text("data")?.unwrap_or_default(),
                    }),
                );
                Open::Other
            }
            "tool_use" => {
                let key = self.calls;
                self.calls += 1;
                put(
                    0,
                    Part::Call {
                        key,
                        id: &block.text("id")?.unwrap_or_default(),
                        name: &block.text("name")?.unwrap_or_default(),
                        custom: false,
                        seal: None,
                    },
                );
                let input = block.take("input");
                let input = input.filter(|input| input.kind() == Kind::Object);
                let whole = match input {
                    Some(input) if input.fields()?.rest().next().is_some() => input.text,
                    _ => "",
                };
                Open::Tool {
                    key,
                    whole: whole.to_owned(),
                    pieces: false,
                }
            }
            _ => Open::Other,
        })
    }

    fn read_delta(
        &mut self,
        index: u64,
        mut delta: Fields<'_>,
        put: &mut Put<'_>,
    ) -> Result<(), Box<Refusal>> {
        let kind = delta.text("type")?.unwrap_or_default();
        let (kind, name) = match &*kind {
            "text_delta" => (Delta::Text, "text"),
            "thinking_delta" => (Delta::Thinking, "thinking"),
            "input_json_delta" => (Delta::Input, "partial_json"),
            "signature_delta" => {
                let said = delta.text("signature")?.unwrap_or_default();
                if let Some(Open::Thinking { signature, .. }) = self.at(index) {
                    signature.push_str(&said);
                }
                return Ok(());
            }
            "citations_delta" => {
                if let Some(citation) = delta.take("citation") {
                    self.citation(index, citation.text, put)?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let text = delta.text(name)?.unwrap_or_default();
        self.delta(index, kind, &text, put);
        Ok(())
    }

    fn at(&mut self, index: u64) -> Option<&mut Open> {
        let mut open = self.open.iter_mut();
        open.find(|(at, _)| *at == index).map(|(_, open)| open)
    }

    fn delta(&mut self, index: u64, delta: Delta, text: &str, put: &mut Put<'_>) {
        if text.is_empty() {
            return;
        }
        match (delta, self.at(index)) {
            (Delta::Text, _) => self.text(text, put),
            (Delta::Thinking, open) => {
                if let Some(Open::Thinking { shown, .. }) = open {
                    *shown = true;
                }
                put(0, Part::Reasoning(text));
            }
            (Delta::Input, Some(Open::Tool { key, pieces, .. })) => {
                *pieces = true;
                put(
                    0,
                    Part::Arguments {
                        key: *key,
                        piece: text,
                    },
                );
            }
            (Delta::Input, _) => {}
        }
    }

    fn text(&mut self, text: &str, put: &mut Put<'_>) {
        if !text.is_empty() {
            self.characters += text.chars().count() as u64;
            put(0, Part::Text(text));
        }
    }

    fn citation(
        &mut self,
        index: u64,
        citation: &str,
        put: &mut Put<'_>,
    ) -> Result<(), Box<Refusal>> {
        // that it is one must be known now
        Raw::body(citation).fields()?;
        if let Some(Open::Text {
            citations, kept, ..
        }) = self.at(index)
            && *kept + citation.len() <= MAX_CITATIONS
        {
            *kept += citation.len();
            citations.push(citation.to_owned());
        } else {
            cite(citation, None, put);
        }
        Ok(())
    }

    fn close(&mut self, block: Open, put: &mut Put<'_>) {
        match block {
            Open::Text {
                start, citations, ..
            } => {
                // A citation concerns all of its block.
                for citation in citations {
                    cite(&citation, Some((start, self.characters)), put);
                }
            }
            Open::Thinking { shown, signature } => {
                if shown || !signature.is_empty() {
                    put(
                        0,
                        Part::Sealed(Seal {
                            maker: Format::Anthropic,
                            redacted: false,
                            value: &signature,
                        }),
                    );
                }
            }
            Open::Tool { key, whole, pieces } => {
                if !pieces && !whole.is_empty() {
                    put(0, Part::Arguments { key, piece: &whole });
                }
                put(0, Part::CallEnd { key });
            }
            Open::Other => {}
        }
    }

    fn finish(&mut self, mut delta: Fields<'_>, put: &mut Put<'_>) -> Result<(), Box<Refusal>> {
        let Some(raw) = delta.text("stop_reason")? else {
            return Ok(());
        };
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.end(put);
        let sequence = delta.text("stop_sequence")?.unwrap_or_default();
        let reason = match &*raw {
            "end_turn" => Reason::Stop,
            "stop_sequence" => Reason::StopSequence(&sequence),
            "max_tokens" => Reason::Length,
            "tool_use" => Reason::ToolCalls,
            "pause_turn" => Reason::Paused,
            "refusal" => Reason::Refused,
            "model_context_window_exceeded" => Reason::ContextFull,
            _ => Reason::Other,
        };
        put(0, Part::Finish(Finish { reason, raw: &raw }));
        Ok(())
    }
}

/// Gives a citation. A document or a search result of the caller's has no address but perhaps its `source`.
fn cite(raw: &str, span: Option<(u64, u64)>, put: &mut Put<'_>) {
    let mut text = |name: &str| -> Cow<'_, str> {
        let fields = Raw::body(raw).fields();
        let said = fields.and_then(|mut fields| fields.text(name));
        said.ok().flatten().unwrap_or_default()
    };
    let url = match text("url") {
        url if url.is_empty() => text("source"),
        url => url,
    };
    let title = match text("title") {
        title if title.is_empty() => text("document_title"),
        title => title,
    };
    put(
        0,
        Part::Citation {
            url: &url,
            title: &title,
            span,
            raw,
        },
    );
}
