//! One candidate of an answer that is being said.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::convert::Format;
use crate::convert::node::{one_line, quote_into};
use crate::convert::part::{Finish, Reason};
use crate::convert::seal::Seal;
use crate::json::{Cursor, Kind};

/// What is kept of a candidate.
#[derive(Debug)]
pub(super) struct Choice {
    /// Only in the whole form: the parts so far, JSON with commas between them.
    parts: String,
    /// Only in the whole form: text that goes on, and whether it is thought.
    run: String,
    run_is_thought: bool,
    /// Calls that were not said yet, in the order in which they began.
    calls: VecDeque<Call>,
    /// The first call that could not be said.
    malformed: Option<String>,
    citations: String,
    chosen: String,
    top: String,
    /// Its text is ASCII so far: characters are bytes, in which this dialect counts.
    pub(super) ascii: bool,
    /// The model declined.
    pub(super) refused: bool,
    reason: &'static str,
    /// The upstream's word where ours says less.
    message: String,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            parts: String::new(),
            run: String::new(),
            run_is_thought: false,
            calls: VecDeque::new(),
            malformed: None,
            citations: String::new(),
            chosen: String::new(),
            top: String::new(),
            ascii: true,
            refused: false,
            reason: "STOP",
            message: String::new(),
        }
    }
}

#[derive(Debug)]
struct Call {
    key: u32,
    id: String,
    name: String,
    custom: bool,
    seal: String,
    arguments: String,
    ended: bool,
}

/// A log probability as chat has it.
#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow)]
    token: &'a RawValue,
    #[serde(borrow)]
    logprob: &'a RawValue,
    #[serde(borrow, default)]
    top_logprobs: Vec<Token<'a>>,
}

impl Token<'_> {
    /// Appends it as this dialect has it.
    fn say(&self, out: &mut String) {
        let (token, logprob) = (self.token.get(), self.logprob.get());
        // writing to a string cannot fail
        let _ = write!(out, r#"{{"token":{token},"logProbability":{logprob}}}"#);
    }
}

/// Appends a part of text.
pub(super) fn text_part(out: &mut String, text: &str, thought: bool) {
    out.push_str(r#"{"text":"#);
    quote_into(out, text);
    out.push_str(if thought { r#","thought":true}"# } else { "}" });
}

/// Appends a part that is a seal alone.
pub(super) fn seal_part(out: &mut String, seal: Seal<'_>) {
    let said = seal.said_in_base64(Format::Gemini);
    if said.is_empty() {
        return;
    }
    out.push_str(r#"{"text":"","thought":true,"thoughtSignature":"#);
    quote_into(out, &said);
    out.push('}');
}

impl Choice {
    /// Adds a part, in the whole form.
    pub(super) fn add(&mut self, part: &str) {
        self.close_run();
        self.push(part);
    }

    fn push(&mut self, part: &str) {
        if !self.parts.is_empty() {
            self.parts.push(',');
        }
        self.parts.push_str(part);
    }

    /// Adds text, in the whole form: text of one kind is one part.
    pub(super) fn add_text(&mut self, text: &str, thought: bool) {
        if self.run_is_thought != thought {
            self.close_run();
        }
        self.run_is_thought = thought;
        self.run.push_str(text);
    }

    fn close_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let mut part = String::with_capacity(self.run.len() + 32);
        text_part(&mut part, &self.run, self.run_is_thought);
        self.run.clear();
        self.push(&part);
    }

    pub(super) fn begin_call(
        &mut self,
        key: u32,
        id: &str,
        name: &str,
        custom: bool,
        seal: Option<Seal<'_>>,
    ) {
        let seal = seal.map(|seal| seal.said_in_base64(Format::Gemini).into_owned());
        self.calls.push_back(Call {
            key,
            id: id.to_owned(),
            name: name.to_owned(),
            custom,
            seal: seal.unwrap_or_default(),
            arguments: String::new(),
            ended: false,
        });
    }

    pub(super) fn arguments(&mut self, key: u32, piece: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.key == key) {
            call.arguments.push_str(piece);
        }
    }

    pub(super) fn end_call(&mut self, key: u32) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.key == key) {
            call.ended = true;
        }
    }

    /// Appends the next call as a part, if it is complete or `all` are to be said. `true`: there was one, though it may
    /// not be sayable.
    pub(super) fn next_call(&mut self, all: bool, part: &mut String) -> bool {
        if !self.calls.front().is_some_and(|call| all || call.ended) {
            return false;
        }
        let Some(call) = self.calls.pop_front() else {
            return false;
        };
        let Some(args) = call.args() else {
            self.malformed.get_or_insert_with(|| {
                format!("Malformed function call: {}({})", call.name, call.arguments)
            });
            return true;
        };
        part.push_str(r#"{"functionCall":{"#);
        if !call.id.is_empty() {
            part.push_str(r#""id":"#);
            quote_into(part, &call.id);
            part.push(',');
        }
        part.push_str(r#""name":"#);
        quote_into(part, &call.name);
        part.push_str(r#","args":"#);
        part.push_str(&args);
        part.push('}');
        if !call.seal.is_empty() {
            part.push_str(r#","thoughtSignature":"#);
            quote_into(part, &call.seal);
        }
        part.push('}');
        true
    }

    /// Notes where text comes from. Without the place where it is not known in bytes.
    pub(super) fn cite(&mut self, url: &str, title: &str, span: Option<(u64, u64)>) {
        let out = &mut self.citations;
        out.push_str(if out.is_empty() { "{" } else { ",{" });
        let mut comma = "";
        if let Some((start, end)) = span.filter(|_| self.ascii) {
            let _ = write!(out, r#""startIndex":{start},"endIndex":{end}"#);
            comma = ",";
        }
        for (name, text) in [("uri", url), ("title", title)] {
            if !text.is_empty() {
                let _ = write!(out, r#"{comma}"{name}":"#);
                quote_into(out, text);
                comma = ",";
            }
        }
        out.push('}');
    }

    /// Notes log probabilities, given as chat has them. What is none of them is left out.
    pub(super) fn logprobs(&mut self, items: &str) {
        let items = format!("[{items}]");
        let Ok(items) = serde_json::from_str::<Vec<Token<'_>>>(&items) else {
            return;
        };
        for item in items {
            if !self.chosen.is_empty() {
                self.chosen.push(',');
                self.top.push(',');
            }
            item.say(&mut self.chosen);
            self.top.push_str(r#"{"candidates":["#);
            for (index, token) in item.top_logprobs.iter().enumerate() {
                if index > 0 {
                    self.top.push(',');
                }
                token.say(&mut self.top);
            }
            self.top.push_str("]}");
        }
    }

    /// Notes why it ends (PROTOCOLS §11). Calls end with `STOP` here, too.
    pub(super) fn finish(&mut self, finish: Finish<'_>) {
        let (reason, tells) = match finish.reason {
            Reason::Stop | Reason::ToolCalls => ("STOP", true),
            Reason::StopSequence(_) | Reason::Paused => ("STOP", false),
            Reason::Length => ("MAX_TOKENS", true),
            Reason::ContextFull | Reason::Cut => ("MAX_TOKENS", false),
            Reason::Filtered | Reason::Refused => ("SAFETY", false),
            Reason::Other => ("OTHER", false),
        };
        self.reason = reason;
        if !tells {
            finish.raw.clone_into(&mut self.message);
        }
    }

    /// Appends what the last object says of this candidate.
    pub(super) fn last(&mut self, index: usize, out: &mut String) {
        self.close_run();
        if let Some(malformed) = self.malformed.take() {
            // A call that was cut off is no mistake of the model's: callers know by the reason what helps.
            if matches!(self.reason, "STOP" | "OTHER") {
                self.reason = "MALFORMED_FUNCTION_CALL";
            }
            self.message = malformed;
        } else if self.refused && self.reason == "STOP" {
            self.reason = "SAFETY";
            "refusal".clone_into(&mut self.message);
        }
        let parts = match &*self.parts {
            "" => r#"{"text":""}"#,
            parts => parts,
        };
        let _ = write!(
            out,
            r#"{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"{}","index":{index}"#,
            self.reason
        );
        if !self.message.is_empty() {
            out.push_str(r#","finishMessage":"#);
            quote_into(out, &self.message);
        }
        if !self.citations.is_empty() {
            let _ = write!(
                out,
                r#","citationMetadata":{{"citationSources":[{}]}}"#,
                self.citations
            );
        }
        if !self.chosen.is_empty() {
            let _ = write!(
                out,
                r#","logprobsResult":{{"topCandidates":[{}],"chosenCandidates":[{}]}}"#,
                self.top, self.chosen
            );
        }
        out.push('}');
    }

    /// Bytes that it keeps.
    pub(super) fn kept(&self) -> usize {
        let calls = self.calls.iter();
        let calls: usize = calls
            .map(|call| call.arguments.len() + call.name.len() + call.seal.len())
            .sum();
        calls
            + self.parts.len()
            + self.run.len()
            + self.citations.len()
            + self.chosen.len()
            + self.top.len()
    }
}

impl Call {
    /// Its arguments as an object on one line; `None` where they are none.
    fn args(&self) -> Option<String> {
        if self.custom {
            let mut out = String::from(r#"{"input":"#);
            quote_into(&mut out, &self.arguments);
            out.push('}');
            return Some(out);
        }
        if self.arguments.trim().is_empty() {
            return Some("{}".to_owned());
        }
        let mut cursor = Cursor::new(&self.arguments);
        let value = cursor.skip().ok()?;
        cursor.end().ok()?;
        (value.kind == Kind::Object).then(|| one_line(&self.arguments).into_owned())
    }
}
