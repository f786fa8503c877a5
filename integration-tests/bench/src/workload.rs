//! What is asked, and what it costs. The upstream's fast mode answers by the model's name, always the same, so that bytes,
//! tokens and charges are known beforehand.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use serde::Serialize;
use serde_json::json;

use crate::arguments::Kind;

/// Length of a request's body, bytes: a short chat.
const REQUEST_BYTES: usize = 620;
/// Length of a large request's body, bytes.
const LARGE_BYTES: usize = 1 << 20;
/// Tokens that the upstream reports for any request.
const INPUT_TOKENS: u64 = 10;
/// The other dialect's path.
const MESSAGES: &str = "/v1/messages";
/// What stands before and after what differs from answer to answer there: the answer's id.
const ID: (&[u8], &[u8]) = (b"\"id\":\"msg_", b"\"");
/// What a delta of the upstream ends with.
const DELTA: &[u8] = b"\" token\"";

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// A whole answer of 1 KiB.
    Whole,
    /// The same answer to a request of 1 MiB.
    Large,
    /// A stream of 100 tokens, each written alone, as fast as the upstream can.
    Chunks,
    /// The same stream in one write.
    Burst,
    /// A stream of 101 tokens, a write each, to a caller of another dialect (`anthropic.messages`).
    Translated,
    /// A stream of 50 tokens, one each 20 ms.
    Paced,
    /// A stream that stays open while memory is measured.
    Slow {
        /// Tokens.
        tokens: u64,
        /// Between two tokens.
        pace_ms: u64,
    },
}

impl Workload {
    /// Between two tokens of a paced stream.
    pub const PACE: Duration = Duration::from_millis(20);

    /// All that are timed.
    pub const TIMED: [Self; 6] = [
        Self::Whole,
        Self::Large,
        Self::Chunks,
        Self::Burst,
        Self::Translated,
        Self::Paced,
    ];

    /// Slow streams that stay open long enough to open this many; all together they send at most 4,000 tokens a second.
    pub fn slow(streams: usize) -> Self {
        let pace_ms = (streams as u64 / 4).max(1000);
        Self::Slow { tokens: 8, pace_ms }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Large => "large",
            Self::Chunks => "chunks",
            Self::Burst => "burst",
            Self::Translated => "translated",
            Self::Paced => "paced",
            Self::Slow { .. } => "slow",
        }
    }

    /// What the upstream calls it.
    pub fn upstream_model(self) -> String {
        match self {
            Self::Whole => "whole-1024".to_owned(),
            // A name of its own: each has its price.
            Self::Large => "whole-1025".to_owned(),
            Self::Chunks => "chunks-100".to_owned(),
            Self::Burst => "burst-100".to_owned(),
            Self::Translated => "chunks-101".to_owned(),
            Self::Paced => "paced-50-20".to_owned(),
            Self::Slow { tokens, pace_ms } => format!("paced-{tokens}-{pace_ms}"),
        }
    }

    /// What Switchboard's callers call it: another name, so that it has to be replaced both ways.
    pub fn public_model(self) -> String {
        format!("bench-{}", self.name())
    }

    pub fn streams(self) -> bool {
        !matches!(self, Self::Whole | Self::Large)
    }

    /// Tokens of the prompt, as the upstream reports them.
    pub fn input_tokens(self) -> u64 {
        INPUT_TOKENS
    }

    /// Tokens of the answer.
    pub fn output_tokens(self) -> u64 {
        match self {
            Self::Whole | Self::Large => 16,
            Self::Chunks | Self::Burst => 100,
            Self::Translated => 101,
            Self::Paced => 50,
            Self::Slow { tokens, .. } => tokens,
        }
    }

    /// How long the upstream takes to answer.
    pub fn duration(self) -> Duration {
        match self {
            Self::Paced => Duration::from_secs(1),
            Self::Slow { tokens, pace_ms } => Duration::from_millis(tokens * pace_ms),
            Self::Whole | Self::Large | Self::Chunks | Self::Burst | Self::Translated => {
                Duration::ZERO
            }
        }
    }

    /// Where it is asked.
    pub fn path(self, kind: Kind) -> &'static str {
        if self == Self::Translated && kind.is_switchboard() {
            MESSAGES
        } else {
            "/v1/chat/completions"
        }
    }

    fn body(self, kind: Kind) -> Bytes {
        let model = if kind.is_switchboard() {
            self.public_model()
        } else {
            self.upstream_model()
        };
        let build = |filler: usize| {
            if self.path(kind) == MESSAGES {
                let text = "Tell me about switchboards. ".to_owned() + &"x".repeat(filler);
                return json!({
                    "model": model,
                    "system": "You are a helpful assistant who answers in a few words.",
                    "messages": [{"role": "user", "content": text}],
                    "temperature": 0.7,
                    "max_tokens": 1024,
                    "stream": true,
                })
                .to_string();
            }
            let mut body = json!({
                "model": model,
                "messages": [
                    {"role": "system", "content": "You are a helpful assistant who answers in a few words."},
                    {"role": "user", "content": "Tell me about switchboards. ".to_owned() + &"x".repeat(filler)},
                ],
                "temperature": 0.7,
                "max_completion_tokens": 1024,
            });
            if self.streams() {
                body["stream"] = json!(true);
            }
            body.to_string()
        };
        build(self.request_bytes().saturating_sub(build(0).len())).into()
    }

    fn request_bytes(self) -> usize {
        if self == Self::Large {
            LARGE_BYTES
        } else {
            REQUEST_BYTES
        }
    }
}

/// A request to one target, ready to be sent.
#[derive(Clone, Debug)]
pub struct Question {
    pub addr: SocketAddr,
    pub path: &'static str,
    pub host: HeaderValue,
    pub authorization: HeaderValue,
    pub body: Bytes,
}

impl Question {
    /// `key` is sent to every target: requests have the same size everywhere.
    pub fn new(
        workload: Workload,
        kind: Kind,
        addr: SocketAddr,
        key: &str,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            addr,
            path: workload.path(kind),
            host: HeaderValue::from_str(&addr.to_string())?,
            authorization: HeaderValue::from_str(&format!("Bearer {key}"))?,
            body: workload.body(kind),
        })
    }
}

/// An answer to the byte, and where its tokens end.
#[derive(Clone, Debug)]
pub struct Expected {
    pub bytes: Bytes,
    pub token_ends: Arc<[usize]>,
    /// The bytes in it that differ from answer to answer: an id that we made.
    id: Range<usize>,
}

impl Expected {
    pub fn new(bytes: Bytes) -> Self {
        let token_ends = memchr::memmem::find_iter(&bytes, DELTA)
            .map(|start| start + DELTA.len())
            .collect();
        let (before, after) = ID;
        let id = memchr::memmem::find(&bytes, before).map_or(0..0, |start| {
            let start = start + before.len();
            let rest = bytes.get(start..).unwrap_or_default();
            start..start + memchr::memmem::find(rest, after).unwrap_or(0)
        });
        Self {
            bytes,
            token_ends,
            id,
        }
    }

    /// Whether `data` is what stands at byte `at`.
    pub fn has(&self, at: usize, data: &[u8]) -> bool {
        let end = at + data.len();
        let Some(expected) = self.bytes.get(at..end) else {
            return false;
        };
        let own = |place: usize| place.clamp(at, end) - at;
        let (id, next) = (own(self.id.start), own(self.id.end));
        expected.get(..id) == data.get(..id) && expected.get(next..) == data.get(next..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_one_size_whatever_the_name() {
        for workload in Workload::TIMED {
            for kind in Kind::ALL {
                let body = workload.body(kind);
                assert_eq!(body.len(), workload.request_bytes());
                assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
            }
        }
    }

    #[test]
    fn tokens_end_where_their_text_does() {
        let expected = Expected::new(Bytes::from_static(b"a\" token\"b\" token\""));
        assert_eq!(&*expected.token_ends, &[9, 18]);
    }

    #[test]
    fn an_id_may_differ_and_nothing_else() {
        let expected = Expected::new(Bytes::from_static(b"a{\"id\":\"msg_123\",\"b\":1}"));
        assert!(expected.has(0, b"a{\"id\":\"msg_987\",\"b\":1}"));
        assert!(expected.has(13, b"87\",\"b\""));
        assert!(!expected.has(0, b"a{\"id\":\"msg_987\",\"b\":2}"));
        assert!(!expected.has(0, b"b{\"id\":\"msg_987\",\"b\":1}"));
        let expected = Expected::new(Bytes::from_static(b"abc"));
        assert!(expected.has(1, b"bc"));
        assert!(!expected.has(0, b"bbc"));
        assert!(!expected.has(2, b"cd"));
    }

    #[test]
    fn many_slow_streams_are_slower_still() {
        assert_eq!(Workload::slow(1000).upstream_model(), "paced-8-1000");
        assert_eq!(Workload::slow(8000).upstream_model(), "paced-8-2000");
    }
}
