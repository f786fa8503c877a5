//! How Anthropic's usage objects become the canonical form (PROTOCOLS §7.2).

use bytes::Bytes;

use super::{MAX_RAW, Usage, UsageReport, key_is, tokens};
use crate::json::{Cursor, JsonError, Kind, Value};

/// What one model used of an answer that several made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// As the upstream names it; empty where it does not.
    pub model: String,
    /// What it used.
    pub usage: Usage,
}

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
    /// Takes over what `value` says: a number replaces the one before it (CASES A20), what is absent or `null` stays. So does
    /// what was counted when a zero follows: counts are cumulative, and some upstreams tell the input only once.
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
            *place = count
                .filter(|count| *count > 0 || place.is_none())
                .or(*place);
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
            *place = count
                .filter(|count| *count > 0 || place.is_none())
                .or(*place);
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

/// The entries of `iterations` that cost something, by model, in the order of their first one: the provider itself went on
/// with another model, compacted the context or asked an advisor, each with tokens of its own. An entry without output
/// among others was blocked before it said anything and costs nothing (CASES A24). `None`: there are none.
fn iterations(text: &str, usage: Value) -> Result<Option<Vec<ModelUsage>>, JsonError> {
    let mut list = None;
    let mut members = Cursor::at_value(text, usage);
    members.enter_object()?;
    let mut first = true;
    while let Some(key) = members.next_key(&mut first)? {
        let value = members.skip()?;
        if key_is(text, key, "iterations") {
            list = Some(value).filter(|value| value.kind == Kind::Array);
        }
    }
    let Some(list) = list else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    let mut items = Cursor::at_value(text, list);
    items.enter_array()?;
    let mut first = true;
    while items.next_item(&mut first)? {
        let entry = items.skip()?;
        if entry.kind == Kind::Object {
            entries.push(iteration(text, entry)?);
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let several = entries.len() > 1;
    let mut by_model: Vec<ModelUsage> = Vec::new();
    for (model, usage) in entries {
        if several && usage.output == Some(0) {
            continue;
        }
        match by_model.iter_mut().find(|known| known.model == model) {
            Some(known) => known.usage = sum(known.usage, usage),
            None => by_model.push(ModelUsage { model, usage }),
        }
    }
    Ok(Some(by_model))
}

fn iteration(text: &str, entry: Value) -> Result<(String, Usage), JsonError> {
    let mut counts = Counts::default();
    counts.take(text, entry)?;
    let mut model = String::new();
    let mut members = Cursor::at_value(text, entry);
    members.enter_object()?;
    let mut first = true;
    while let Some(key) = members.next_key(&mut first)? {
        let value = members.skip()?;
        if key_is(text, key, "model") {
            model = value
                .text()
                .map(|name| name.decode(text).into_owned())
                .unwrap_or_default();
        }
    }
    Ok((model, counts.canonical()))
}

fn sum(a: Usage, b: Usage) -> Usage {
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    Usage {
        input: add(a.input, b.input),
        cached_input: add(a.cached_input, b.cached_input),
        cache_write_5m: add(a.cache_write_5m, b.cache_write_5m),
        cache_write_1h: add(a.cache_write_1h, b.cache_write_1h),
        output: add(a.output, b.output),
        reasoning: add(a.reasoning, b.reasoning),
        ..Usage::default()
    }
}

/// What each model used, from a report's own JSON ([`UsageReport::raw`]); empty where the upstream did not tell it.
#[must_use]
pub fn usage_by_model(raw: &str) -> Vec<ModelUsage> {
    if !raw.contains("\"iterations\"") {
        return Vec::new();
    }
    let read = || {
        let mut last = Cursor::new(raw).skip()?;
        if last.kind == Kind::Array {
            let mut items = Cursor::at_value(raw, last);
            items.enter_array()?;
            let mut first = true;
            while items.next_item(&mut first)? {
                last = items.skip()?;
            }
        }
        match last.kind {
            Kind::Object => iterations(raw, last),
            _ => Ok(None),
        }
    };
    read().ok().flatten().unwrap_or_default()
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
    /// All iterations together, where they were told: they are what is billed, the totals may leave some out.
    iterated: Option<Usage>,
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
        if let Ok(Some(parts)) = iterations(text, value) {
            let nothing = Usage {
                input: Some(0),
                output: Some(0),
                ..Usage::default()
            };
            self.iterated = Some(parts.iter().fold(nothing, |all, part| sum(all, part.usage)));
        }
        let raw = value.span.of(text);
        let raw = if raw.len() <= MAX_RAW / 2 { raw } else { "" };
        Some(Bytes::copy_from_slice(raw.as_bytes()))
    }

    /// What was told so far. Raw it is the object that tells all, else an array of the first and the last one.
    pub(crate) fn report(&self) -> Option<UsageReport> {
        let told = self.counts.canonical();
        let usage = match self.iterated {
            Some(all) => Usage {
                reasoning: told.reasoning.map(|part| part.min(all.output.unwrap_or(0))),
                ..all
            },
            None => told,
        };
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
