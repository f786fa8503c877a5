//! Says an answer in chat's dialect: as chunks, or as one completion (PROTOCOLS §3.2, §3.3).
//!
//! The role comes once a choice, before everything else; a call's index counts from 0 without gaps, its id and name come once.
//! What ends a choice comes at the end, when it is known whether tools were called.

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};

use super::AnswerShape;
use crate::convert::Format;
use crate::convert::node::{one_line, quote_into};
use crate::convert::part::{Finish, Head, Part, Reason, Writer};
use crate::convert::seal::Seal;
use crate::dialect::Form;
use crate::sse::DONE;
use crate::usage::Usage;

/// Choices above this index are not told apart from it.
const MAX_CHOICE: usize = 127;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct ChatWriter {
    head: Head,
    asked: AnswerShape,
    /// The members that begin every chunk, up to the choices; made when the time of the answer is known.
    constant: String,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    /// The members of the delta that is being written.
    delta: String,
}

/// What is known of a choice.
#[derive(Debug, Default)]
struct Choice {
    begun: bool,
    text: String,
    reasoning: String,
    refusal: String,
    /// The thought that is not sealed yet.
    thought: String,
    details: Items,
    annotations: Items,
    images: Items,
    logprobs: String,
    calls: Vec<Call>,
    finish: Option<(Reason<'static>, String)>,
}

/// Items of a list, with commas between them.
#[derive(Debug, Default)]
struct Items {
    json: String,
    count: usize,
}

#[derive(Debug)]
struct Call {
    key: u32,
    id: String,
    name: String,
    custom: bool,
    arguments: String,
    seal: Option<String>,
    /// Something of its arguments was said.
    argued: bool,
    ended: bool,
}

impl Items {
    fn add(&mut self, item: &str) {
        if self.count > 0 {
            self.json.push(',');
        }
        self.json.push_str(item);
        self.count += 1;
    }
}

impl ChatWriter {
    /// Nothing was said yet.
    pub(crate) fn new(asked: AnswerShape, head: Head) -> Self {
        Self {
            head,
            asked,
            constant: String::new(),
            choices: Vec::new(),
            usage: None,
            delta: String::new(),
        }
    }

    fn whole(&self) -> bool {
        self.head.form == Form::Whole
    }

    /// `{"id":…,"object":…,"created":…,"model":…,`
    fn begin(&mut self, created: Option<i64>) {
        if !self.constant.is_empty() {
            return;
        }
        let object = if self.whole() {
            "chat.completion"
        } else {
            "chat.completion.chunk"
        };
        let mut constant = String::from(r#"{"id":"#);
        quote_into(&mut constant, &format!("chatcmpl-{}", self.head.seed));
        let created = created.unwrap_or(self.head.created);
        // writing to a string cannot fail
        let _ = write!(
            constant,
            r#","object":"{object}","created":{created},"model":"#
        );
        quote_into(&mut constant, &self.head.model);
        constant.push_str(r#","choices":["#);
        self.constant = constant;
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        while self.choices.len() <= index {
            self.choices.push(Choice::default());
        }
        self.choices.get_mut(index)
    }

    /// Says `self.delta` of a choice.
    fn say(&mut self, index: usize, logprobs: Option<&str>, out: &mut BytesMut) {
        self.begin(None);
        out.reserve(self.constant.len() + self.delta.len() + 96);
        out.put_slice(b"data: ");
        out.put_slice(self.constant.as_bytes());
        let mut choice = format!(r#"{{"index":{index},"delta":{{"#);
        choice.push_str(&self.delta);
        self.delta.clear();
        match logprobs {
            Some(items) => {
                choice.push_str(r#"},"logprobs":{"content":["#);
                choice.push_str(&one_line(items));
                choice.push_str(r#"],"refusal":null},"finish_reason":null}]"#);
            }
            None => choice.push_str(r#"},"logprobs":null,"finish_reason":null}]"#),
        }
        out.put_slice(choice.as_bytes());
        self.close(out);
    }

    /// Ends a chunk behind its choices.
    fn close(&self, out: &mut BytesMut) {
        if self.asked.include_usage {
            out.put_slice(br#","usage":null"#);
        }
        out.put_slice(b"}\n\n");
    }

    /// Says the role, once a choice.
    fn role(&mut self, index: usize, out: &mut BytesMut) {
        let whole = self.whole();
        let Some(choice) = self.choice(index) else {
            return;
        };
        if std::mem::replace(&mut choice.begun, true) || whole {
            return;
        }
        self.delta
            .push_str(r#""role":"assistant","content":"","refusal":null"#);
        self.say(index, None, out);
    }

    fn member(&mut self, name: &str, text: &str, index: usize, out: &mut BytesMut) {
        let _ = write!(self.delta, r#""{name}":"#);
        quote_into(&mut self.delta, text);
        self.say(index, None, out);
    }

    /// Says an item of a list that clients know by this name. They gather lists by `index`.
    fn item(&mut self, name: &str, number: usize, item: &str, index: usize, out: &mut BytesMut) {
        let inside = item.strip_prefix('{').unwrap_or(item);
        let _ = write!(self.delta, r#""{name}":[{{"index":{number},{inside}]"#);
        self.say(index, None, out);
    }

    fn sealed(&mut self, index: usize, seal: Seal<'_>, out: &mut BytesMut) {
        let whole = self.whole();
        let Some(choice) = self.choice(index) else {
            return;
        };
        let text = std::mem::take(&mut choice.thought);
        let said = seal.said_in(Format::Chat);
        let mut item = String::new();
        if text.is_empty() || seal.redacted {
            item.push_str(r#"{"type":"reasoning.encrypted","data":"#);
        } else {
            item.push_str(r#"{"type":"reasoning.text","text":"#);
            quote_into(&mut item, &text);
            item.push_str(r#","signature":"#);
        }
        quote_into(&mut item, &said);
        item.push('}');
        let number = choice.details.count;
        choice.details.count += usize::from(!whole);
        if whole {
            choice.details.add(&item);
        } else {
            self.item("reasoning_details", number, &item, index, out);
        }
    }

    fn call(&mut self, index: usize, mut call: Call, out: &mut BytesMut) {
        let (whole, older) = (self.whole(), self.asked.functions);
        let seed = self.head.seed.clone();
        let Some(choice) = self.choice(index) else {
            return;
        };
        if choice.calls.iter().any(|known| known.key == call.key) {
            return;
        }
        if call.id.is_empty() {
            call.id = format!("call_{seed}_{}", choice.calls.len());
        }
        choice.thought.clear();
        let number = choice.calls.len();
        let begin = (!whole).then(|| call.begin(number, older));
        choice.calls.push(call);
        if let Some(begin) = begin {
            self.delta.push_str(&begin);
            self.say(index, None, out);
        }
    }

    fn arguments(&mut self, index: usize, key: u32, piece: &str, out: &mut BytesMut) {
        let (whole, older) = (self.whole(), self.asked.functions);
        let Some(choice) = self.choice(index) else {
            return;
        };
        let Some(number) = choice.calls.iter().position(|call| call.key == key) else {
            return;
        };
        let Some(call) = choice.calls.get_mut(number).filter(|_| !piece.is_empty()) else {
            return;
        };
        call.argued = true;
        if whole {
            call.arguments.push_str(piece);
            return;
        }
        let custom = call.custom;
        if older {
            self.delta.push_str(r#""function_call":{"arguments":"#);
            quote_into(&mut self.delta, piece);
            self.delta.push('}');
        } else {
            let (kind, member) = if custom {
                ("custom", "input")
            } else {
                ("function", "arguments")
            };
            let _ = write!(
                self.delta,
                r#""tool_calls":[{{"index":{number},"{kind}":{{"{member}":"#
            );
            quote_into(&mut self.delta, piece);
            self.delta.push_str("}}]");
        }
        self.say(index, None, out);
    }

    /// A call without arguments has none: `{}`.
    fn call_end(&mut self, index: usize, key: u32, out: &mut BytesMut) {
        let Some(choice) = self.choice(index) else {
            return;
        };
        let call = choice.calls.iter_mut().find(|call| call.key == key);
        let Some(call) = call.filter(|call| !call.ended) else {
            return;
        };
        call.ended = true;
        if !call.argued && !call.custom {
            self.arguments(index, key, "{}", out);
        }
    }

    fn finish_chunks(&mut self, out: &mut BytesMut) {
        for index in 0..self.choices.len() {
            let older = self.asked.functions;
            let Some(choice) = self.choices.get(index) else {
                continue;
            };
            let mut last = format!(r#"{{"index":{index},"delta":{{}},"logprobs":null"#);
            choice.ending(older, &mut last);
            last.push_str("}]");
            out.put_slice(b"data: ");
            out.put_slice(self.constant.as_bytes());
            out.put_slice(last.as_bytes());
            self.close(out);
        }
    }

    fn document(&self, out: &mut BytesMut) {
        let mut body = self.constant.clone();
        for (index, choice) in self.choices.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            let _ = write!(body, r#"{{"index":{index},"message":{{"role":"assistant","#);
            choice.message(self.asked.functions, &mut body);
            body.push('}');
            if choice.logprobs.is_empty() {
                body.push_str(r#","logprobs":null"#);
            } else {
                let items = one_line(&choice.logprobs);
                let _ = write!(
                    body,
                    r#","logprobs":{{"content":[{items}],"refusal":null}}"#
                );
            }
            choice.ending(self.asked.functions, &mut body);
            body.push('}');
        }
        body.push(']');
        if let Some(usage) = &self.usage {
            body.push_str(r#","usage":"#);
            body.push_str(&counts(usage));
        }
        body.push('}');
        out.put_slice(body.as_bytes());
    }
}

impl Call {
    /// The members of the delta that begins it.
    fn begin(&self, number: usize, older: bool) -> String {
        let mut delta = String::new();
        if older {
            delta.push_str(r#""function_call":{"name":"#);
            quote_into(&mut delta, &self.name);
            delta.push_str(r#","arguments":""}"#);
            return delta;
        }
        let _ = write!(delta, r#""tool_calls":[{{"index":{number},"#);
        self.members("", &mut delta);
        delta.push_str("}]");
        delta
    }

    /// Its members.
    fn members(&self, arguments: &str, out: &mut String) {
        out.push_str(r#""id":"#);
        quote_into(out, &self.id);
        let (kind, member) = if self.custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let _ = write!(out, r#","type":"{kind}","{kind}":{{"name":"#);
        quote_into(out, &self.name);
        let _ = write!(out, r#","{member}":"#);
        quote_into(out, arguments);
        out.push('}');
        if let Some(seal) = &self.seal {
            out.push_str(r#","extra_content":{"google":{"thought_signature":"#);
            quote_into(out, seal);
            out.push_str("}}");
        }
    }
}

impl Choice {
    /// Why it ended, as two members behind a comma.
    fn ending(&self, older: bool, out: &mut String) {
        let (reason, raw) = match &self.finish {
            Some((reason, raw)) => (*reason, raw.as_str()),
            None => (Reason::Stop, ""),
        };
        let calls = match older {
            true => "function_call",
            false => "tool_calls",
        };
        let word = match reason {
            Reason::Length | Reason::ContextFull => "length",
            Reason::Filtered | Reason::Refused => "content_filter",
            _ if !self.calls.is_empty() => calls,
            _ => "stop",
        };
        let _ = write!(out, r#","finish_reason":"{word}""#);
        let plain = matches!(reason, Reason::Stop | Reason::Length | Reason::ToolCalls);
        if !plain && !raw.is_empty() {
            out.push_str(r#","native_finish_reason":"#);
            quote_into(out, raw);
        }
    }

    /// The members of a message but for its role.
    fn message(&self, older: bool, out: &mut String) {
        out.push_str(r#""content":"#);
        if self.text.is_empty() && (!self.calls.is_empty() || !self.refusal.is_empty()) {
            out.push_str("null");
        } else {
            quote_into(out, &self.text);
        }
        out.push_str(r#","refusal":"#);
        if self.refusal.is_empty() {
            out.push_str("null");
        } else {
            quote_into(out, &self.refusal);
        }
        if !self.reasoning.is_empty() {
            out.push_str(r#","reasoning_content":"#);
            quote_into(out, &self.reasoning);
        }
        for (name, items) in [
            ("reasoning_details", &self.details),
            ("annotations", &self.annotations),
            ("images", &self.images),
        ] {
            if items.count > 0 {
                let _ = write!(out, r#","{name}":[{}]"#, items.json);
            }
        }
        let arguments = |call: &Call| match call.arguments.as_str() {
            "" if !call.custom => "{}".to_owned(),
            given => given.to_owned(),
        };
        if let (true, Some(call)) = (older, self.calls.first()) {
            out.push_str(r#","function_call":{"name":"#);
            quote_into(out, &call.name);
            out.push_str(r#","arguments":"#);
            quote_into(out, &arguments(call));
            out.push('}');
        } else if !self.calls.is_empty() {
            out.push_str(r#","tool_calls":["#);
            for (number, call) in self.calls.iter().enumerate() {
                out.push_str(if number > 0 { ",{" } else { "{" });
                call.members(&arguments(call), out);
                out.push('}');
            }
            out.push(']');
        }
    }

    fn kept(&self) -> usize {
        let calls = self.calls.iter();
        self.text.len()
            + self.reasoning.len()
            + self.thought.len()
            + self.details.json.len()
            + self.images.json.len()
            + self.logprobs.len()
            + calls.map(|call| call.arguments.len() + 64).sum::<usize>()
    }
}

impl Writer for ChatWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        let index = usize::try_from(choice).map_or(MAX_CHOICE, |index| index.min(MAX_CHOICE));
        if let Part::Usage(usage) = part {
            self.usage = Some(usage);
            return;
        }
        self.begin(match part {
            Part::Begin { created } => created,
            _ => None,
        });
        self.role(index, out);
        let whole = self.whole();
        let Some(state) = self.choice(index) else {
            return;
        };
        match part {
            Part::Text(text) => {
                state.thought.clear();
                if whole {
                    state.text.push_str(text);
                } else {
                    self.member("content", text, index, out);
                }
            }
            Part::Reasoning(text) => {
                state.thought.push_str(text);
                if whole {
                    state.reasoning.push_str(text);
                } else {
                    self.member("reasoning_content", text, index, out);
                }
            }
            Part::Refusal(text) => {
                if whole {
                    state.refusal.push_str(text);
                } else {
                    self.member("refusal", text, index, out);
                }
            }
            Part::Sealed(seal) => self.sealed(index, seal, out),
            Part::Call {
                key,
                id,
                name,
                custom,
                seal,
            } => {
                let call = Call {
                    key,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    custom,
                    arguments: String::new(),
                    seal: seal.map(|seal| seal.said_in(Format::Chat).into_owned()),
                    argued: false,
                    ended: false,
                };
                self.call(index, call, out);
            }
            Part::Arguments { key, piece } => self.arguments(index, key, piece, out),
            Part::CallEnd { key } => self.call_end(index, key, out),
            // A place in a document that has no address has no counterpart.
            Part::Citation { url: "", .. } => {}
            Part::Citation {
                url, title, span, ..
            } => {
                let item = citation(url, title, span);
                if whole {
                    state.annotations.add(&item);
                } else {
                    let number = state.annotations.count;
                    state.annotations.count += 1;
                    self.item("annotations", number, &item, index, out);
                }
            }
            Part::Logprobs(items) => {
                if whole {
                    if !state.logprobs.is_empty() {
                        state.logprobs.push(',');
                    }
                    state.logprobs.push_str(items);
                } else {
                    self.say(index, Some(items), out);
                }
            }
            Part::Media { mime, data } => {
                let mut item = String::from(r#"{"type":"image_url","image_url":{"url":"#);
                quote_into(&mut item, &format!("data:{mime};base64,{data}"));
                item.push_str("}}");
                if whole {
                    state.images.add(&item);
                } else {
                    let number = state.images.count;
                    state.images.count += 1;
                    self.item("images", number, &item, index, out);
                }
            }
            Part::Finish(finish) => state.finish = Some(kept(finish)),
            Part::Begin { .. } | Part::Usage(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.begin(None);
        self.role(0, out);
        for index in 0..self.choices.len() {
            let calls = self.choices.get(index).map(|choice| &choice.calls);
            let keys: Vec<u32> = calls.into_iter().flatten().map(|call| call.key).collect();
            let finish = self
                .choices
                .get(index)
                .and_then(|choice| choice.finish.as_ref());
            let broken = finish.is_some_and(|(reason, _)| {
                matches!(
                    reason,
                    Reason::Length | Reason::ContextFull | Reason::Filtered
                )
            });
            for key in keys.into_iter().filter(|_| !broken) {
                self.call_end(index, key, out);
            }
        }
        if self.whole() {
            self.document(out);
            return;
        }
        self.finish_chunks(out);
        if let Some(usage) = self.usage.filter(|_| self.asked.include_usage) {
            out.put_slice(b"data: ");
            out.put_slice(self.constant.as_bytes());
            out.put_slice(br#"],"usage":"#);
            out.put_slice(counts(&usage).as_bytes());
            out.put_slice(b"}\n\n");
        }
        out.put_slice(DONE);
    }

    fn kept(&self) -> usize {
        self.choices.iter().map(Choice::kept).sum()
    }
}

fn kept(finish: Finish<'_>) -> (Reason<'static>, String) {
    let reason = match finish.reason {
        Reason::StopSequence(_) => Reason::StopSequence(""),
        Reason::Stop => Reason::Stop,
        Reason::Length => Reason::Length,
        Reason::ContextFull => Reason::ContextFull,
        Reason::ToolCalls => Reason::ToolCalls,
        Reason::Filtered => Reason::Filtered,
        Reason::Refused => Reason::Refused,
        Reason::Paused => Reason::Paused,
        Reason::Other => Reason::Other,
    };
    (reason, finish.raw.to_owned())
}

fn citation(url: &str, title: &str, span: Option<(u64, u64)>) -> String {
    let (start, end) = span.unwrap_or_default();
    let mut item = format!(
        r#"{{"type":"url_citation","url_citation":{{"start_index":{start},"end_index":{end},"url":"#
    );
    quote_into(&mut item, url);
    item.push_str(r#","title":"#);
    quote_into(&mut item, title);
    item.push_str("}}");
    item
}

/// `usage`: what was not told is left out of the details.
fn counts(usage: &Usage) -> String {
    let (input, output) = (usage.total_input().unwrap_or(0), usage.output.unwrap_or(0));
    let total = input.saturating_add(output);
    let mut out =
        format!(r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}"#);
    let written = [usage.cache_write_5m, usage.cache_write_1h];
    let written = written.into_iter().flatten().reduce(u64::saturating_add);
    for (name, counts) in [
        (
            "prompt_tokens_details",
            [
                ("cached_tokens", usage.cached_input),
                ("cache_write_tokens", written),
                ("audio_tokens", usage.input_audio),
            ],
        ),
        (
            "completion_tokens_details",
            [
                ("reasoning_tokens", usage.reasoning),
                ("audio_tokens", usage.output_audio),
                ("image_tokens", usage.output_image),
            ],
        ),
    ] {
        let told = counts
            .into_iter()
            .filter_map(|(name, count)| Some((name, count?)));
        let told: Vec<String> = told
            .map(|(name, count)| format!(r#""{name}":{count}"#))
            .collect();
        if !told.is_empty() {
            let _ = write!(out, r#","{name}":{{{}}}"#, told.join(","));
        }
    }
    out.push('}');
    out
}
