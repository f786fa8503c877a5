//! How Anthropic's usage objects become the canonical form (PROTOCOLS §7.2).

use bytes::Bytes;

use super::{MAX_RAW, Usage, UsageReport, tokens};
use crate::json::{Cursor, JsonError, Kind, Value};

/// Anthropic's numbers, as they were said. Its input count holds neither what a cache served nor what was written to one;
/// its output count includes thinking.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    input: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    written_5m: Option<u64>,
    written_1h: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    /// Takes over what `value` says: a number replaces the one before it (CASES A20), what is absent or `null` stays.
    fn take(&mut self, text: &str, value: Value) -> Result<(), JsonError> {
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let count = tokens(text, value);
            let place = match &*key.decode(text) {
                "input_tokens" => &mut self.input,
                "cache_read_input_tokens" => &mut self.read,
                "cache_creation_input_tokens" => &mut self.written,
                "output_tokens" => &mut self.output,
                "cache_creation" | "output_tokens_details" if value.kind == Kind::Object => {
                    self.take_details(text, value)?;
                    continue;
                }
                _ => continue,
            };
            *place = count.or(*place);
        }
        Ok(())
    }

    fn take_details(&mut self, text: &str, value: Value) -> Result<(), JsonError> {
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let count = tokens(text, cursor.skip()?);
            let place = match &*key.decode(text) {
                "ephemeral_5m_input_tokens" => &mut self.written_5m,
                "ephemeral_1h_input_tokens" => &mut self.written_1h,
                "thinking_tokens" => &mut self.thinking,
                _ => continue,
            };
            *place = count.or(*place);
        }
        Ok(())
    }

    /// What was written to a cache adds up to the total that was told, whatever its details say.
    fn canonical(self) -> Usage {
        let total = match (self.written, self.written_5m, self.written_1h) {
            (Some(total), _, _) => Some(total),
            (None, None, None) => None,
            (None, short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
        };
        let long = total.and_then(|total| self.written_1h.map(|long| long.min(total)));
        Usage {
            input: self.input,
            cached_input: self.read,
            cache_write_5m: total.map(|total| total - long.unwrap_or(0)),
            cache_write_1h: long,
            output: self.output,
            reasoning: match (self.thinking, self.output) {
                (Some(thinking), Some(output)) => Some(thinking.min(output)),
                (thinking, _) => thinking,
            },
            ..Usage::default()
        }
    }
}

impl UsageReport {
    /// Reads the usage object of a whole Anthropic answer; `None` for anything that is no object, and an object that tells
    /// nothing.
    #[must_use]
    pub fn from_anthropic(text: &str, value: Value) -> Option<Self> {
        let mut seen = AnthropicUsage::default();
        seen.last(text, value);
        seen.report()
    }
}

/// The usage of a streamed answer: `message_start` tells the input, each `message_delta` the numbers so far.
#[derive(Debug, Default)]
pub(crate) struct AnthropicUsage {
    counts: Counts,
    /// The object of `message_start`.
    start: Bytes,
    /// The latest of `message_delta`.
    last: Bytes,
    /// The latest tells the input, too: it stands for all.
    whole: bool,
}

impl AnthropicUsage {
    /// Takes over `message_start`'s usage. Its output is what was made so far, thus next to nothing: unknown.
    pub(crate) fn start(&mut self, text: &str, value: Value) {
        self.start = self.take(text, value).unwrap_or_default();
        self.counts.output = None;
    }

    /// Takes over a `message_delta`'s usage, or a whole answer's.
    pub(crate) fn last(&mut self, text: &str, value: Value) {
        let Some(raw) = self.take(text, value) else {
            return;
        };
        let mut own = Counts::default();
        self.whole = own.take(text, value).is_ok() && own.input.is_some();
        self.last = raw;
    }

    fn take(&mut self, text: &str, value: Value) -> Option<Bytes> {
        if value.kind != Kind::Object {
            return None;
        }
        let mut counts = self.counts;
        counts.take(text, value).ok()?;
        self.counts = counts;
        let raw = value.span.of(text);
        let raw = if raw.len() <= MAX_RAW / 2 { raw } else { "" };
        Some(Bytes::copy_from_slice(raw.as_bytes()))
    }

    /// What was told so far. Raw it is the object that tells all, else an array of the first and the last one.
    pub(crate) fn report(&self) -> Option<UsageReport> {
        let usage = self.counts.canonical();
        if usage.is_empty() {
            return None;
        }
        let raw = if self.whole || self.start.is_empty() {
            self.last.clone()
        } else if self.last.is_empty() {
            self.start.clone()
        } else {
            [b"[", &self.start[..], b",", &self.last[..], b"]"]
                .concat()
                .into()
        };
        Some(UsageReport { usage, raw })
    }
}
