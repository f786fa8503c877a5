//! What carrying a streamed answer costs a chunk, beside parsing each chunk and beside copying it: usage is found without
//! parsing chunks that cannot hold it (PERF-2).
//!
//! No sockets and no processes: the dialects' own streams, one chunk a read, in this thread. The three ways take turns, and
//! the best round of each counts. The figures stand only if the stream came out unchanged and its usage was found.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use bytes::{Bytes, BytesMut};
use serde::Serialize;
use switchboard_dialects::{
    DialectRequest, StreamOptions,
    anthropic::{MessagesCall, MessagesRequest},
    chat::ChatRequest,
    gemini::{Call, GeminiRequest},
    responses::ResponsesRequest,
};

/// Chunks of text in a stream.
const CHUNKS: usize = 2_000;
/// Rounds, of which the best counts.
const ROUNDS: usize = 15;
/// Output tokens that each stream reports.
const TOLD: u64 = 2_000;

/// Where a chunk's form says that it holds no usage, no more of it is read than its text.
const KNOWN_FORM: f64 = 0.4;
/// Where each chunk may hold usage its members are scanned, and nothing is built of them.
const SCANNED: f64 = 0.75;

/// One dialect's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Carrying {
    pub dialect: &'static str,
    /// Nanoseconds a chunk, carried.
    pub carried_ns: f64,
    /// The same, each chunk's data parsed into a tree.
    pub parsed_ns: f64,
    /// The same, each chunk copied.
    pub copied_ns: f64,
    /// Carried by parsed.
    pub of_parsing: f64,
    /// What that is to be at most.
    pub at_most: f64,
    pub kept: bool,
}

impl Display for Carrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {:<20} {:>9.0} {:>9.0} {:>9.0} {:>11.2} {:>9.2}  {}",
            self.dialect,
            self.carried_ns,
            self.parsed_ns,
            self.copied_ns,
            self.of_parsing,
            self.at_most,
            if self.kept { "kept" } else { "MISSED" }
        )
    }
}

/// The line above the figures.
pub const HEAD: &str =
    "  dialect              carried ns parsed ns copied ns   × parsing   at most";

/// Measures and prints it alone.
pub fn print() -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{HEAD}")?;
    for figures in measure()? {
        writeln!(stdout, "{figures}")?;
    }
    Ok(())
}

/// A stream, chunk by chunk, and who asked for it.
struct Stream {
    dialect: &'static str,
    asked: Box<dyn DialectRequest>,
    chunks: Vec<Bytes>,
    at_most: f64,
}

/// Measures every dialect that streams.
pub fn measure() -> anyhow::Result<Vec<Carrying>> {
    [chat()?, messages()?, responses()?, gemini()?]
        .iter()
        .map(|stream| {
            let taken = stream.measure();
            taken.with_context(|| stream.dialect)
        })
        .collect()
}

impl Stream {
    fn measure(&self) -> anyhow::Result<Carrying> {
        self.check()?;
        let [mut carried, mut parsed, mut copied] = [f64::INFINITY; 3];
        for _ in 0..ROUNDS {
            carried = carried.min(timed(|| self.carry()).0);
            parsed = parsed.min(timed(|| self.parse()).0);
            copied = copied.min(timed(|| self.copy()).0);
        }
        let chunks = self.chunks.len() as f64;
        let of_parsing = carried / parsed;
        Ok(Carrying {
            dialect: self.dialect,
            carried_ns: carried / chunks,
            parsed_ns: parsed / chunks,
            copied_ns: copied / chunks,
            of_parsing,
            at_most: self.at_most,
            kept: of_parsing <= self.at_most,
        })
    }

    /// What is timed does what it is for.
    fn check(&self) -> anyhow::Result<()> {
        let (out, told) = self.carry();
        ensure!(told == Some(TOLD), "the usage was not found: {told:?}");
        ensure!(
            out == self.chunks.concat(),
            "the stream did not pass as it came"
        );
        let values = self.parse();
        ensure!(values == self.chunks.len(), "{values} chunks are JSON");
        Ok(())
    }

    fn carry(&self) -> (BytesMut, Option<u64>) {
        let mut stream = self.asked.stream(StreamOptions::default());
        let mut out = BytesMut::new();
        for chunk in &self.chunks {
            // A failure shows as usage that is missing.
            let _ = stream.push(chunk.clone());
            if let Some(bytes) = stream.take() {
                out.extend_from_slice(&bytes);
            }
        }
        let _ = stream.finish();
        if let Some(bytes) = stream.take() {
            out.extend_from_slice(&bytes);
        }
        (out, stream.usage().and_then(|report| report.usage.output))
    }

    /// How many chunks were parsed; `[DONE]` is none and counts as one.
    fn parse(&self) -> usize {
        let read = |chunk: &&Bytes| {
            let data = memchr::memmem::find(chunk, b"data: ").map_or(0, |at| at + 6);
            let data = chunk.get(data..).unwrap_or_default().trim_ascii();
            let value = serde_json::from_slice::<serde_json::Value>(data);
            std::hint::black_box(value).is_ok() || data == b"[DONE]"
        };
        self.chunks.iter().filter(read).count()
    }

    fn copy(&self) -> BytesMut {
        let mut out = BytesMut::new();
        for chunk in &self.chunks {
            out.extend_from_slice(chunk);
        }
        out
    }
}

/// Nanoseconds that work takes.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let done = std::hint::black_box(work());
    (begun.elapsed().as_secs_f64() * 1e9, done)
}

fn events<T: AsRef<str>>(data: impl IntoIterator<Item = T>) -> Vec<Bytes> {
    let data = data.into_iter();
    data.map(|data| Bytes::from(format!("data: {}\n\n", data.as_ref())))
        .collect()
}

/// Events that are named by their type, as two vendors have them.
fn named<T: AsRef<str>>(data: impl IntoIterator<Item = (&'static str, T)>) -> Vec<Bytes> {
    let data = data.into_iter();
    data.map(|(name, data)| Bytes::from(format!("event: {name}\ndata: {}\n\n", data.as_ref())))
        .collect()
}

fn chat() -> anyhow::Result<Stream> {
    let head = r#"{"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1700000000,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":["#;
    let choice = |delta: &str, finish: &str| {
        format!(
            r#"{head}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null}}"#
        )
    };
    let mut data = vec![choice(r#"{"role":"assistant","content":""}"#, "null")];
    data.extend((0..CHUNKS).map(|n| choice(&format!(r#"{{"content":" word{n}"}}"#), "null")));
    data.push(choice("{}", "\"stop\""));
    data.push(format!(
        r#"{head}],"usage":{{"prompt_tokens":9,"completion_tokens":{TOLD},"total_tokens":{}}}}}"#,
        TOLD + 9
    ));
    data.push("[DONE]".to_owned());
    let asked = br#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#;
    Ok(Stream {
        dialect: "openai.chat",
        asked: Box::new(ChatRequest::peek(asked)?),
        chunks: events(data),
        at_most: KNOWN_FORM,
    })
}

fn messages() -> anyhow::Result<Stream> {
    let mut data = vec![
        ("message_start", r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#.to_owned()),
        ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned()),
    ];
    data.extend((0..CHUNKS).map(|n| {
        ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":" word{n}"}}}}"#))
    }));
    data.extend([
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.to_owned()),
        ("message_delta", format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{TOLD}}}}}"#)),
        ("message_stop", r#"{"type":"message_stop"}"#.to_owned()),
    ]);
    let asked = br#"{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    Ok(Stream {
        dialect: "anthropic.messages",
        asked: Box::new(MessagesRequest::peek(asked, MessagesCall::Create)?),
        chunks: named(data),
        at_most: KNOWN_FORM,
    })
}

fn responses() -> anyhow::Result<Stream> {
    let response = |status: &str, usage: &str| {
        format!(
            r#""response":{{"id":"resp_1","object":"response","created_at":1700000000,"status":"{status}","error":null,"model":"m","output":[],"store":true,"usage":{usage}}}"#
        )
    };
    let item = r#""item_id":"msg_1","output_index":0,"content_index":0"#;
    let mut data = vec![
        ("response.created", response("in_progress", "null")),
        ("response.output_item.added", r#""output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}"#.to_owned()),
    ];
    data.extend((0..CHUNKS).map(|n| {
        (
            "response.output_text.delta",
            format!(r#"{item},"delta":" word{n}","logprobs":[],"obfuscation":"aBcDeFgH""#),
        )
    }));
    let usage = format!(
        r#"{{"input_tokens":9,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{TOLD},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        TOLD + 9
    );
    data.push(("response.completed", response("completed", &usage)));
    let numbered = data.into_iter().enumerate().map(|(at, (kind, members))| {
        (
            kind,
            format!(r#"{{"type":"{kind}","sequence_number":{at},{members}}}"#),
        )
    });
    Ok(Stream {
        dialect: "openai.responses",
        asked: Box::new(ResponsesRequest::peek(
            br#"{"model":"m","input":"","stream":true}"#,
        )?),
        chunks: named(numbered),
        at_most: SCANNED,
    })
}

fn gemini() -> anyhow::Result<Stream> {
    let piece = |n: usize, finish: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":" word{n}"}}],"role":"model"}}{finish},"index":0}}],"usageMetadata":{{"promptTokenCount":9,"candidatesTokenCount":{n},"totalTokenCount":{}}},"modelVersion":"m","responseId":"r1"}}"#,
            n + 9
        )
    };
    let mut data: Vec<_> = (0..CHUNKS).map(|n| piece(n, "")).collect();
    data.push(piece(usize::try_from(TOLD)?, r#","finishReason":"STOP""#));
    Ok(Stream {
        dialect: "gemini.generate",
        asked: Box::new(GeminiRequest::peek(
            Call::StreamEvents,
            "m",
            br#"{"contents":[]}"#,
        )?),
        chunks: events(data),
        at_most: SCANNED,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_timed_finds_the_usage_and_passes_every_stream_as_it_came() {
        for stream in [
            super::chat(),
            super::messages(),
            super::responses(),
            super::gemini(),
        ] {
            let stream = stream.unwrap();
            stream
                .check()
                .unwrap_or_else(|error| panic!("{}: {error}", stream.dialect));
        }
    }
}
