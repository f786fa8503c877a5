//! What is known of an item of a response, and what was said of it by now.

use crate::convert::part::{Part, Put};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of a tool that the caller runs.
    Call,
    /// Anything else.
    Other,
}

impl Kind {
    /// By the type of an item.
    pub(super) fn of_item(kind: &str) -> Self {
        match kind {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" | "custom_tool_call" => Self::Call,
            _ => Self::Other,
        }
    }

    /// By the type of an event, without `response.`; `None` where nothing is told of an item.
    pub(super) fn of_event(kind: &str) -> Option<Self> {
        match kind.split_once('.').map_or(kind, |(subject, _)| subject) {
            "output_text" | "refusal" => Some(Self::Message),
            "reasoning_summary_text" | "reasoning_text" => Some(Self::Reasoning),
            "function_call_arguments" | "custom_tool_call_input" => Some(Self::Call),
            _ => None,
        }
    }
}

/// What is known of an item.
#[derive(Debug)]
pub(super) struct State {
    index: u64,
    pub(super) kind: Kind,
    /// The number of the call that it is.
    call: Option<u32>,
    /// The id of that call.
    id: String,
    /// The parts of its text or summary of which something was said; of a call its arguments.
    parts: Vec<Said>,
    /// Sources were named.
    pub(super) cited: bool,
    /// Log probabilities were told.
    pub(super) probed: bool,
    pub(super) done: bool,
}

/// What was said of a part: enough to know whether what is told in the end goes on from it.
#[derive(Debug)]
struct Said {
    part: u64,
    bytes: usize,
    digest: u64,
}

impl State {
    pub(super) fn new(index: u64, kind: Kind, call: Option<u32>, id: &str) -> Self {
        Self {
            index,
            kind,
            call,
            id: id.to_owned(),
            parts: Vec::new(),
            cited: false,
            probed: false,
            done: false,
        }
    }

    /// Whether it is this one. `call`: the id of a call, or empty.
    pub(super) fn is(&self, index: u64, kind: Kind, call: &str) -> bool {
        let same_call = call.is_empty() || self.id.is_empty() || self.id == call;
        self.index == index && self.kind == kind && same_call
    }

    /// Whether nothing was said of a part.
    pub(super) fn is_new(&self, part: Option<u64>) -> bool {
        let part = part.unwrap_or(0);
        self.parts.iter().all(|said| said.part != part)
    }

    fn begin(&mut self, part: Option<u64>, text: &str) {
        let part = part.unwrap_or(0);
        match self.parts.iter_mut().find(|said| said.part == part) {
            Some(said) => said.add(text),
            None => {
                let mut said = Said {
                    part,
                    bytes: 0,
                    digest: 0,
                };
                said.add(text);
                self.parts.push(said);
            }
        }
    }

    /// What of a part was not said yet; nothing where what was said is not its beginning.
    fn rest<'a>(&self, part: Option<u64>, all: &'a str) -> &'a str {
        let part = part.unwrap_or(0);
        match self.parts.iter().find(|said| said.part == part) {
            Some(said) => said.rest(all),
            None => all,
        }
    }

    pub(super) fn say<'a>(
        &mut self,
        part: Option<u64>,
        text: &'a str,
        say: fn(&'a str) -> Part<'a>,
        put: &mut Put<'_>,
    ) {
        if !text.is_empty() {
            self.begin(part, text);
            put(0, say(text));
        }
    }

    pub(super) fn say_rest<'a>(
        &mut self,
        part: Option<u64>,
        all: &'a str,
        say: fn(&'a str) -> Part<'a>,
        put: &mut Put<'_>,
    ) {
        self.say(part, self.rest(part, all), say, put);
    }

    /// Parts of a summary are told apart by a blank line.
    pub(super) fn think(&mut self, part: Option<u64>, text: &str, put: &mut Put<'_>) {
        if !text.is_empty() {
            if !self.parts.is_empty() && self.is_new(part) {
                put(0, Part::Reasoning("\n\n"));
            }
            self.begin(part, text);
            put(0, Part::Reasoning(text));
        }
    }

    pub(super) fn think_rest(&mut self, part: Option<u64>, all: &str, put: &mut Put<'_>) {
        self.think(part, self.rest(part, all), put);
    }

    pub(super) fn argue(&mut self, piece: &str, put: &mut Put<'_>) {
        if let Some(key) = self.call.filter(|_| !piece.is_empty()) {
            self.begin(None, piece);
            put(0, Part::Arguments { key, piece });
        }
    }

    pub(super) fn argue_rest(&mut self, all: &str, put: &mut Put<'_>) {
        self.argue(self.rest(None, all), put);
    }

    /// Nothing more comes of it.
    pub(super) fn end(&mut self, put: &mut Put<'_>) {
        if let Some(key) = self.call.filter(|_| !self.done) {
            put(0, Part::CallEnd { key });
        }
        self.done = true;
    }
}

impl Said {
    fn add(&mut self, text: &str) {
        self.bytes += text.len();
        self.digest = continued(self.digest, text);
    }

    fn rest<'a>(&self, all: &'a str) -> &'a str {
        // In nearly all streams the deltas were all: then there is nothing to compare.
        if all.len() <= self.bytes {
            return "";
        }
        match all.split_at_checked(self.bytes) {
            Some((said, rest)) if continued(0, said) == self.digest => rest,
            _ => "",
        }
    }
}

/// FNV-1a of a text that goes on.
fn continued(digest: u64, text: &str) -> u64 {
    text.bytes().fold(digest, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
