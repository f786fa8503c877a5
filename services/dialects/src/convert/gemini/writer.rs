//! Says an answer in Gemini's dialect: as events, as elements of an array, or as one document.
//!
//! Every event is a whole object with the new parts only. A call is said when its arguments are complete, calls in the order
//! in which they began. A call whose arguments are no JSON object cannot be said here, as they must be one: it is left out, and
//! the answer ends as Gemini's own ends then, with `MALFORMED_FUNCTION_CALL` and the call in `finishMessage`.
//! What ends a candidate comes with the last event, for all of them, beside `usageMetadata`.

mod choice;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};

use self::choice::Choice;
use crate::convert::node::quote_into;
use crate::convert::part::{Head, Part, Writer};
use crate::dialect::Form;
use crate::usage::Usage;

/// Candidates above this index are not told apart from it.
const MAX_CANDIDATE: usize = 127;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct GeminiWriter {
    form: Form,
    /// The members that end every object, from the comma on.
    constant: String,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    /// The part that is being written.
    part: String,
    /// Elements of the array that were written.
    elements: u64,
}

impl GeminiWriter {
    /// Nothing was said yet.
    pub(crate) fn new(head: &Head) -> Self {
        let mut constant = String::from(r#","modelVersion":"#);
        quote_into(&mut constant, &head.model);
        constant.push_str(r#","responseId":"#);
        quote_into(&mut constant, &head.seed);
        constant.push('}');
        Self {
            form: head.form,
            constant,
            choices: Vec::new(),
            usage: None,
            part: String::new(),
            elements: 0,
        }
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        while self.choices.len() <= index {
            self.choices.push(Choice::default());
        }
        self.choices.get_mut(index)
    }

    /// Writes an object: what stands before `candidates`' end, and after it.
    fn object(&mut self, candidates: &str, after: &str, out: &mut BytesMut) {
        let (before, end): (&[u8], &[u8]) = match (self.form, self.elements) {
            (Form::Events, _) => (b"data: ", b"\n\n"),
            (Form::Array, 0) => (b"[", b""),
            (Form::Array, _) => (b",\n", b""),
            (Form::Whole | Form::Bytes, _) => (b"", b""),
        };
        self.elements += 1;
        out.reserve(candidates.len() + after.len() + self.constant.len() + 48);
        out.put_slice(before);
        out.put_slice(br#"{"candidates":["#);
        out.put_slice(candidates.as_bytes());
        out.put_slice(b"]");
        out.put_slice(after.as_bytes());
        out.put_slice(self.constant.as_bytes());
        out.put_slice(end);
    }

    /// Says `self.part` as a part of a candidate.
    fn say(&mut self, index: usize, out: &mut BytesMut) {
        let mut part = std::mem::take(&mut self.part);
        if self.form == Form::Whole {
            if let Some(choice) = self.choice(index) {
                choice.add(&part);
            }
        } else {
            part.insert_str(0, r#"{"content":{"role":"model","parts":["#);
            let _ = write!(part, r#"]}},"index":{index}}}"#);
            self.object(&part, "", out);
        }
        part.clear();
        self.part = part;
    }

    fn text(&mut self, index: usize, text: &str, thought: bool, out: &mut BytesMut) {
        if self.form == Form::Whole {
            if let Some(choice) = self.choice(index) {
                choice.add_text(text, thought);
            }
            return;
        }
        choice::text_part(&mut self.part, text, thought);
        self.say(index, out);
    }

    /// Says the calls of a candidate that can be said: all of them when it ends.
    fn calls(&mut self, index: usize, all: bool, out: &mut BytesMut) {
        loop {
            let mut part = std::mem::take(&mut self.part);
            let said = self
                .choice(index)
                .is_some_and(|choice| choice.next_call(all, &mut part));
            self.part = part;
            if !said {
                return;
            }
            if !self.part.is_empty() {
                self.say(index, out);
            }
        }
    }
}

impl Writer for GeminiWriter {
    fn part(&mut self, choice: u32, part: Part<'_>, out: &mut BytesMut) {
        let index = usize::try_from(choice).map_or(MAX_CANDIDATE, |index| index.min(MAX_CANDIDATE));
        let Some(state) = self.choice(index) else {
            return;
        };
        match part {
            Part::Begin { .. } => {}
            Part::Text(text) => {
                state.ascii &= text.is_ascii();
                self.text(index, text, false, out);
            }
            Part::Refusal(text) => {
                state.refused = true;
                state.ascii &= text.is_ascii();
                self.text(index, text, false, out);
            }
            Part::Reasoning(text) => self.text(index, text, true, out),
            Part::Sealed(seal) => {
                choice::seal_part(&mut self.part, seal);
                if !self.part.is_empty() {
                    self.say(index, out);
                }
            }
            Part::Call {
                key,
                id,
                name,
                custom,
                seal,
            } => state.begin_call(key, id, name, custom, seal),
            Part::Arguments { key, piece } => state.arguments(key, piece),
            Part::CallEnd { key } => {
                state.end_call(key);
                self.calls(index, false, out);
            }
            Part::Citation {
                url, title, span, ..
            } => state.cite(url, title, span),
            Part::Logprobs(items) => state.logprobs(items),
            Part::Media { mime, data } => {
                self.part.push_str(r#"{"inlineData":{"mimeType":"#);
                quote_into(&mut self.part, mime);
                self.part.push_str(r#","data":"#);
                quote_into(&mut self.part, data);
                self.part.push_str("}}");
                self.say(index, out);
            }
            Part::Finish(finish) => {
                state.finish(finish);
                self.calls(index, true, out);
            }
            Part::Usage(usage) => self.usage = Some(usage),
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        if self.choices.is_empty() {
            self.choices.push(Choice::default());
        }
        for index in 0..self.choices.len() {
            self.calls(index, true, out);
        }
        let mut candidates = String::new();
        for (index, choice) in self.choices.iter_mut().enumerate() {
            if index > 0 {
                candidates.push(',');
            }
            choice.last(index, &mut candidates);
        }
        let usage = self.usage.map(|usage| metadata(&usage));
        self.object(&candidates, &usage.unwrap_or_default(), out);
        if self.form == Form::Array {
            out.put_slice(b"\n]");
        }
    }

    fn kept(&self) -> usize {
        self.choices.iter().map(Choice::kept).sum()
    }
}

/// `usageMetadata` as a further member: the prompt's count includes what came from caches, the candidates' does not include
/// thoughts. What was not told is left out.
fn metadata(usage: &Usage) -> String {
    let input = usage.total_input();
    let thoughts = usage.reasoning;
    let candidates = usage
        .output
        .map(|output| output.saturating_sub(thoughts.unwrap_or(0)));
    let total = match (input, usage.output) {
        (Some(input), Some(output)) => Some(input.saturating_add(output)),
        _ => None,
    };
    let mut out = String::new();
    let counts = [
        ("promptTokenCount", input),
        ("cachedContentTokenCount", usage.cached_input),
        ("candidatesTokenCount", candidates),
        ("thoughtsTokenCount", thoughts),
        ("totalTokenCount", total),
    ];
    for (name, count) in counts {
        if let Some(count) = count {
            let comma = if out.is_empty() { "" } else { "," };
            // writing to a string cannot fail
            let _ = write!(out, r#"{comma}"{name}":{count}"#);
        }
    }
    let details = [
        ("promptTokensDetails", usage.input_audio, usage.input_image),
        (
            "candidatesTokensDetails",
            usage.output_audio,
            usage.output_image,
        ),
    ];
    for (name, audio, image) in details {
        let told = [("AUDIO", audio), ("IMAGE", image)].into_iter();
        let told = told.filter_map(|(modality, count)| {
            let count = count.filter(|count| *count > 0)?;
            Some(format!(
                r#"{{"modality":"{modality}","tokenCount":{count}}}"#
            ))
        });
        let told: Vec<_> = told.collect();
        if !told.is_empty() {
            let comma = if out.is_empty() { "" } else { "," };
            let _ = write!(out, r#"{comma}"{name}":[{}]"#, told.join(","));
        }
    }
    format!(r#","usageMetadata":{{{out}}}"#)
}
