//! One choice of an answer, as far as it is known.

use std::fmt::Write as _;

use crate::convert::node::quote_into;
use crate::convert::part::{Finish, Reason};

/// What is known of a choice.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) begun: bool,
    pub(super) text: String,
    /// Characters of its text so far, said or kept.
    pub(super) characters: u64,
    pub(super) reasoning: String,
    pub(super) refusal: String,
    /// The thought that is not sealed yet.
    pub(super) thought: String,
    pub(super) details: Items,
    pub(super) annotations: Items,
    pub(super) citations: Items,
    pub(super) images: Items,
    pub(super) logprobs: String,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Option<(Reason<'static>, String)>,
}

/// Items of a list, with commas between them.
#[derive(Debug, Default)]
pub(super) struct Items {
    json: String,
    /// How many there are.
    pub(super) count: usize,
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) custom: bool,
    pub(super) arguments: String,
    pub(super) seal: Option<String>,
    /// Something of its arguments was said.
    pub(super) argued: bool,
    pub(super) ended: bool,
}

/// Where a call is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the older `function_call`: the first one of a caller that uses `functions`.
    Older,
    /// In `tool_calls`, under this index.
    Tool(usize),
}

impl Place {
    /// The place of a call by its number in the choice. A caller of the older functions gets a second one, which it asked
    /// not to get, where it cannot be taken for a part of the first.
    pub(super) const fn of(number: usize, older: bool) -> Self {
        match (older, number.checked_sub(1)) {
            (true, None) => Self::Older,
            (true, Some(index)) => Self::Tool(index),
            (false, _) => Self::Tool(number),
        }
    }
}

impl Items {
    /// Counts an item, and keeps it where the list is said as a whole.
    pub(super) fn add(&mut self, item: &str, keep: bool) {
        if keep {
            if self.count > 0 {
                self.json.push(',');
            }
            self.json.push_str(item);
        }
        self.count += 1;
    }
}

impl Call {
    /// The members of the delta that begins it.
    pub(super) fn begin(&self, place: Place, delta: &mut String) {
        match place {
            Place::Older => {
                delta.push_str(r#""function_call":{"name":"#);
                quote_into(delta, &self.name);
                delta.push_str(r#","arguments":""}"#);
            }
            Place::Tool(index) => {
                // writing to a string cannot fail
                let _ = write!(delta, r#""tool_calls":[{{"index":{index},"#);
                self.members("", delta);
                delta.push_str("}]");
            }
        }
    }

    /// The members of the delta that carries a piece of its arguments.
    pub(super) fn piece(&self, place: Place, piece: &str, delta: &mut String) {
        match place {
            Place::Older => {
                delta.push_str(r#""function_call":{"arguments":"#);
                quote_into(delta, piece);
                delta.push('}');
            }
            Place::Tool(index) => {
                let (kind, member) = self.words();
                let _ = write!(
                    delta,
                    r#""tool_calls":[{{"index":{index},"{kind}":{{"{member}":"#
                );
                quote_into(delta, piece);
                delta.push_str("}}]");
            }
        }
    }

    /// Its type, and the member that holds its arguments.
    const fn words(&self) -> (&'static str, &'static str) {
        if self.custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        }
    }

    /// Its members.
    fn members(&self, arguments: &str, out: &mut String) {
        out.push_str(r#""id":"#);
        quote_into(out, &self.id);
        let (kind, member) = self.words();
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
    /// Whether it was broken off: then a call of it may not be complete.
    pub(super) fn broken(&self) -> bool {
        let finish = self.finish.as_ref();
        finish.is_some_and(|(reason, _)| {
            matches!(
                reason,
                Reason::Length | Reason::ContextFull | Reason::Cut | Reason::Filtered
            )
        })
    }

    /// Why it ended, as two members behind a comma.
    pub(super) fn ending(&self, older: bool, out: &mut String) {
        let (reason, raw) = match &self.finish {
            Some((reason, raw)) => (*reason, raw.as_str()),
            None => (Reason::Stop, ""),
        };
        let calls = match older {
            true => "function_call",
            false => "tool_calls",
        };
        let word = match reason {
            Reason::Length | Reason::ContextFull | Reason::Cut => "length",
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
    pub(super) fn message(&self, older: bool, out: &mut String) {
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
            ("citations", &self.citations),
            ("images", &self.images),
        ] {
            if items.count > 0 {
                let _ = write!(out, r#","{name}":[{}]"#, items.json);
            }
        }
        self.said_calls(older, out);
    }

    fn said_calls(&self, older: bool, out: &mut String) {
        let (first, others) = match self.calls.split_first() {
            Some((first, others)) if older => (Some(first), others),
            _ => (None, &self.calls[..]),
        };
        if let Some(call) = first {
            out.push_str(r#","function_call":{"name":"#);
            quote_into(out, &call.name);
            out.push_str(r#","arguments":"#);
            quote_into(out, &call.arguments);
            out.push('}');
        }
        if !others.is_empty() {
            out.push_str(r#","tool_calls":["#);
            for (index, call) in others.iter().enumerate() {
                out.push_str(if index > 0 { ",{" } else { "{" });
                call.members(&call.arguments, out);
                out.push('}');
            }
            out.push(']');
        }
    }

    /// Bytes that it keeps.
    pub(super) fn kept(&self) -> usize {
        let calls = self.calls.iter();
        let lists = [
            &self.details,
            &self.annotations,
            &self.citations,
            &self.images,
        ];
        let lists = lists.into_iter();
        self.text.len()
            + self.reasoning.len()
            + self.thought.len()
            + self.refusal.len()
            + lists.map(|items| items.json.len()).sum::<usize>()
            + self.logprobs.len()
            + calls.map(|call| call.arguments.len() + 64).sum::<usize>()
    }
}

/// Why it ended, to be told when all is known. Which sequence stopped it chat does not tell.
pub(super) fn kept(finish: Finish<'_>) -> (Reason<'static>, String) {
    let reason = match finish.reason {
        Reason::StopSequence(_) => Reason::StopSequence(""),
        Reason::Stop => Reason::Stop,
        Reason::Length => Reason::Length,
        Reason::ContextFull => Reason::ContextFull,
        Reason::Cut => Reason::Cut,
        Reason::ToolCalls => Reason::ToolCalls,
        Reason::Filtered => Reason::Filtered,
        Reason::Refused => Reason::Refused,
        Reason::Paused => Reason::Paused,
        Reason::Other => Reason::Other,
    };
    (reason, finish.raw.to_owned())
}
