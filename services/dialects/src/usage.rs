//! Token usage in its one canonical form (SPEC BILL-2, DIAL-2), and how OpenAI's usage objects become it.
//!
//! Invariants: absent differs from zero; kinds never overlap but where a field says "of which"; nothing is ever
//! negative; input + cached + written and output add up to the upstream's own totals. What the upstream said is kept
//! verbatim beside it ([`UsageReport::raw`]).

mod anthropic;
mod gemini;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub(crate) use self::anthropic::AnthropicUsage;
pub use self::anthropic::{ModelUsage, usage_by_model};
use crate::json::{Cursor, JsonError, Kind, Text, Value, whole_number};
use crate::whole::member;

/// A usage object is kept verbatim up to this many bytes; a bigger one is dropped from the report.
pub const MAX_RAW: usize = 16 * 1024;

/// A token count beyond this is taken for nonsense, thus as absent: it must not become anyone's bill. A hundred times what the largest
/// context holds.
pub const MAX_TOKENS: u64 = 1_000_000_000;

/// Tokens by kind. `None` means that the upstream did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: Option<u64>,
    /// Input read from a cache.
    pub cached_input: Option<u64>,
    /// Input written to a cache for the short time (5 minutes; also where no time is told).
    pub cache_write_5m: Option<u64>,
    /// Input written to a cache for an hour.
    pub cache_write_1h: Option<u64>,
    /// All output, reasoning included.
    pub output: Option<u64>,
    /// Output of which reasoning.
    pub reasoning: Option<u64>,
    /// Input (all kinds together) of which audio.
    pub input_audio: Option<u64>,
    /// Output of which audio.
    pub output_audio: Option<u64>,
    /// Input of which images.
    pub input_image: Option<u64>,
    /// Output of which images.
    pub output_image: Option<u64>,
    /// Images that were made.
    pub images: Option<u64>,
    /// The length of the audio that was heard, milliseconds.
    pub audio_millis: Option<u64>,
}

/// Where a usage comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageSource {
    /// The upstream reported it.
    Provider,
    /// Counted by us.
    Estimated,
    /// Nobody knows, and nobody pays.
    #[default]
    None,
}

/// What an upstream reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageReport {
    /// In canonical form.
    pub usage: Usage,
    /// The upstream's own JSON object, byte for byte; empty when larger than [`MAX_RAW`].
    pub raw: Bytes,
}

impl Usage {
    /// All input tokens, whatever their kind; `None` when none of them was told.
    #[must_use]
    pub fn total_input(&self) -> Option<u64> {
        [
            self.input,
            self.cached_input,
            self.cache_write_5m,
            self.cache_write_1h,
        ]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add)
    }

    /// The same, with no part larger than its whole: thoughts are output, whatever the upstream counted.
    pub(crate) fn sound(self) -> Self {
        let output = self.output.max(self.reasoning);
        Self { output, ..self }
    }

    /// Whether everything that was told is zero.
    pub(crate) fn is_zero(&self) -> bool {
        let nothing = self.total_input().unwrap_or(0) == 0 && self.output.unwrap_or(0) == 0;
        nothing && self.images.unwrap_or(0) == 0 && self.audio_millis.unwrap_or(0) == 0
    }

    /// Whether nothing at all was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads an OpenAI usage object: chat, completions and embeddings (`prompt_tokens`…) as well as Responses
    /// (`input_tokens`…). Cached and written tokens are part of OpenAI's prompt count, reasoning is part of its
    /// completion count [OpenAI OpenAPI document]. Some upstreams count reasoning beside the completion, which their
    /// total shows; then it is added. Counts that make no sense (negative, fractions, absurdly large) are taken as absent;
    /// details larger than their whole are cut down to it. Of input and output one may be left out where the total tells it.
    ///
    /// # Errors
    /// When `value` is not a JSON object of `text`.
    pub fn from_openai(text: &str, value: Value) -> Result<Self, JsonError> {
        let mut counts = Counts::default();
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let kind = cursor.kind()?;
            match (&*key.decode(text), kind) {
                (
                    // the third name is that of transcriptions
                    "prompt_tokens_details" | "input_tokens_details" | "input_token_details",
                    Kind::Object,
                ) => {
                    counts.details(&mut cursor, Counts::prompt_detail)?;
                }
                ("completion_tokens_details" | "output_tokens_details", Kind::Object) => {
                    counts.details(&mut cursor, Counts::completion_detail)?;
                }
                ("seconds", Kind::Number) => {
                    counts.audio_millis = thousandths(cursor.skip()?.span.of(text));
                }
                (name, _) => {
                    let count = tokens(text, cursor.skip()?);
                    match name {
                        "prompt_tokens" | "input_tokens" => counts.prompt = count.or(counts.prompt),
                        "completion_tokens" | "output_tokens" => {
                            counts.completion = count.or(counts.completion);
                        }
                        "total_tokens" => counts.total = count,
                        // DeepSeek's name for what OpenAI has in the details
                        "prompt_cache_hit_tokens" => counts.cached = counts.cached.or(count),
                        _ => {}
                    }
                }
            }
        }
        Ok(counts.canonical())
    }
}

impl UsageReport {
    /// Reads the usage object at `value` of `body`; `None` for `null`, anything that is no object, and an object that
    /// tells nothing.
    #[must_use]
    pub fn from_openai(text: &str, value: Value) -> Option<Self> {
        Self::read(text, value, Usage::from_openai)
    }

    /// The same of a `usageMetadata` of Gemini's dialect.
    #[must_use]
    pub fn from_gemini(text: &str, value: Value) -> Option<Self> {
        Self::read(text, value, Usage::from_gemini)
    }

    fn read(
        text: &str,
        value: Value,
        read: fn(&str, Value) -> Result<Usage, JsonError>,
    ) -> Option<Self> {
        if value.kind != Kind::Object {
            return None;
        }
        let usage = read(text, value).ok().filter(|usage| !usage.is_empty())?;
        Some(Self::new(usage, value.span.of(text)))
    }

    /// The same with what it leaves out as it was told before. Raw it is both then.
    pub(crate) fn after(self, told: Self) -> Self {
        let (mut usage, before) = (self.usage, told.usage);
        let no_input = usage.total_input().is_none() && before.total_input().is_some();
        let no_output = usage.output.is_none() && before.output.is_some();
        if !no_input && !no_output {
            return self;
        }
        if no_input {
            usage.input = before.input;
            usage.cached_input = before.cached_input;
            usage.cache_write_5m = before.cache_write_5m;
            usage.cache_write_1h = before.cache_write_1h;
        }
        if no_output {
            usage.output = before.output;
            usage.reasoning = usage.reasoning.or(before.reasoning);
        }
        let raw = [b"[", &told.raw[..], b",", &self.raw[..], b"]"].concat();
        let whole = !told.raw.is_empty() && !self.raw.is_empty() && raw.len() <= MAX_RAW;
        Self {
            usage,
            raw: if whole { raw.into() } else { self.raw },
        }
    }

    /// Reads the counts of an answer that has input alone (rerank): `total_tokens` where nothing says more. `all` is the
    /// upstream's whole report.
    pub(crate) fn from_input(text: &str, counts: Value, all: Value) -> Option<Self> {
        let count = |name| member(text, counts, name).and_then(|value| tokens(text, value));
        let input = count("input_tokens")
            .or_else(|| count("prompt_tokens"))
            .or_else(|| count("total_tokens"))?;
        let usage = Usage {
            input: Some(input),
            ..Usage::default()
        };
        Some(Self::new(usage, all.span.of(text)))
    }

    /// Reads the length of the audio where that is all that is told, in seconds.
    pub(crate) fn from_seconds(text: &str, seconds: Value) -> Option<Self> {
        let raw = match seconds.text() {
            Some(text) => text.span,
            None => seconds.span,
        };
        let raw = raw.of(text);
        let usage = Usage {
            audio_millis: Some(thousandths(raw)?),
            ..Usage::default()
        };
        Some(Self::new(usage, &format!(r#"{{"duration":{raw}}}"#)))
    }

    pub(crate) fn new(usage: Usage, raw: &str) -> Self {
        let raw = if raw.len() <= MAX_RAW {
            Bytes::copy_from_slice(raw.as_bytes())
        } else {
            Bytes::new()
        };
        Self { usage, raw }
    }
}

/// OpenAI's numbers, as they were said.
#[derive(Default)]
struct Counts {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    written: Option<u64>,
    reasoning: Option<u64>,
    input_audio: Option<u64>,
    output_audio: Option<u64>,
    input_image: Option<u64>,
    output_image: Option<u64>,
    audio_millis: Option<u64>,
}

impl Counts {
    fn details(
        &mut self,
        cursor: &mut Cursor<'_>,
        set: fn(&mut Self, &str, Option<u64>),
    ) -> Result<(), JsonError> {
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let text = cursor.text();
            let count = tokens(text, cursor.skip()?);
            set(self, &key.decode(text), count);
        }
        Ok(())
    }

    fn prompt_detail(&mut self, name: &str, count: Option<u64>) {
        match name {
            "cached_tokens" => self.cached = count,
            "cache_write_tokens" => self.written = count,
            "audio_tokens" => self.input_audio = count,
            "image_tokens" => self.input_image = count,
            _ => {}
        }
    }

    fn completion_detail(&mut self, name: &str, count: Option<u64>) {
        match name {
            "reasoning_tokens" => self.reasoning = count,
            "audio_tokens" => self.output_audio = count,
            "image_tokens" => self.output_image = count,
            _ => {}
        }
    }

    fn canonical(mut self) -> Usage {
        let rest = |part: Option<u64>| Some(self.total?.saturating_sub(part?)).filter(|n| *n > 0);
        let (prompt, completion) = (rest(self.completion), rest(self.prompt));
        self.prompt = self.prompt.or(prompt);
        self.completion = self.completion.or(completion);
        let within = |part: Option<u64>, whole: Option<u64>| match (part, whole) {
            (Some(part), Some(whole)) => Some(part.min(whole)),
            _ => part,
        };
        let cached = within(self.cached, self.prompt);
        let left = self
            .prompt
            .map(|prompt| prompt - cached.unwrap_or(0).min(prompt));
        let written = within(self.written, left);
        let input = left.map(|left| left - written.unwrap_or(0).min(left));
        let output = match (self.prompt, self.completion, self.total, self.reasoning) {
            (Some(prompt), Some(completion), Some(total), Some(reasoning))
                if reasoning > 0 && total == prompt + completion + reasoning =>
            {
                Some(completion + reasoning)
            }
            _ => self.completion,
        };
        Usage {
            input,
            cached_input: cached,
            cache_write_5m: written,
            cache_write_1h: None,
            output,
            reasoning: within(self.reasoning, output),
            input_audio: within(self.input_audio, self.prompt),
            output_audio: within(self.output_audio, output),
            input_image: within(self.input_image, self.prompt),
            output_image: within(self.output_image, output),
            images: None,
            audio_millis: self.audio_millis,
        }
    }
}

fn tokens(text: &str, value: Value) -> Option<u64> {
    match value.kind {
        Kind::Number => whole_number(value.span.of(text)).filter(|&n| n <= MAX_TOKENS),
        _ => None,
    }
}

/// A decimal number's thousandths, rounded half to even: exact, so that money is. `None` for negative ones and anything
/// that is too large to be a length.
fn thousandths(number: &str) -> Option<u64> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || digits.len() > 300 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // What stands before the decimal point once it is moved three places.
    let places = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let places = places.checked_add(3)?;
    let kept = usize::try_from(places.max(0)).ok()?.min(400);
    let head: String = digits
        .chars()
        .chain(std::iter::repeat('0'))
        .take(kept)
        .collect();
    let head = head.trim_start_matches('0');
    let number = match head {
        "" => 0,
        head if head.len() <= 15 => head.parse::<u64>().ok()?,
        _ => return None,
    };
    let rest = digits.get(kept..).unwrap_or("");
    let half = places >= 0 && rest.starts_with(['5', '6', '7', '8', '9']);
    let exactly = rest.starts_with('5') && rest.bytes().skip(1).all(|b| b == b'0');
    let up = half && (!exactly || number % 2 == 1);
    Some(number + u64::from(up)).filter(|n| *n <= MAX_TOKENS)
}

/// The text of a key, for callers that compare it often.
pub(crate) fn key_is(text: &str, key: Text, name: &str) -> bool {
    if key.escaped {
        key.decode(text) == name
    } else {
        key.span.of(text) == name
    }
}
