//! Every bound and interval of the forwarder.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_common::{feed::FeedConfig, grpc::MAX_ANSWER, settings::duration};

use crate::journal::JournalConfig;

/// Every bound and interval of the forwarder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Largest request body, bytes; larger ones get 413.
    pub body_limit: usize,
    /// All request bodies in flight together, bytes; beyond it requests get 503.
    pub body_total: usize,
    /// How long a caller may take between two pieces of its body.
    #[serde(with = "duration")]
    pub body_idle: Duration,
    /// Bytes of an answer that may wait for one caller. A single larger piece passes alone.
    pub stream_buffer: usize,
    /// Bytes of answers that may wait in the whole forwarder; beyond it reads pause and new requests get 503.
    pub buffer_total: usize,
    /// Bytes of a stream that are held back before its first content; then it is committed (FWD-3).
    pub hold: usize,
    /// Largest whole answer of an upstream after decompression, bytes; 128 MiB at most.
    pub answer_limit: usize,
    /// Largest single event of a stream, bytes: images come as megabytes in one; 128 MiB at most.
    pub event_limit: usize,
    /// Output text kept to be counted when the upstream reports no usage, bytes; what is beyond is extrapolated.
    pub count_output: usize,
    /// Input text that is counted at most, bytes; what is beyond is extrapolated.
    pub count_input: usize,
    /// Token counts that run at once.
    pub count_parallel: usize,
    /// A request that still runs so long after it was sent has its input counted, so that its bill is right even if this
    /// process dies. What a younger one asks is kept in the journal and counted at the next start (BILL-6).
    #[serde(with = "duration")]
    pub count_after: Duration,
    /// Where a caller's tokens are nearly used up, the end of an answer waits so long at most until they are counted, so that
    /// the next request is judged by what is left (FLOW-1). 0: it does not wait.
    #[serde(with = "duration")]
    pub count_within: Duration,
    /// Silence after which a stream gets a keep-alive.
    #[serde(with = "duration")]
    pub keep_alive: Duration,
    /// Total time of a request before its model's own is known.
    #[serde(with = "duration")]
    pub total_timeout: Duration,
    /// A caller that takes no byte for this long is gone, before its model's own time is known.
    #[serde(with = "duration")]
    pub write_timeout: Duration,
    /// How many Switchboards a request may have gone through.
    pub max_hops: u32,
    /// Retries may be this share of the requests of the last ten seconds, percent…
    pub retry_share: u64,
    /// …and this many more.
    pub retries_in_hand: u64,
    /// A 429 at the last candidate is waited out for this long at most, all tries together…
    #[serde(with = "duration")]
    pub patience: Duration,
    /// …and this often.
    pub last_tries: u32,
    /// Sends W3C trace context to upstreams. Off: what upstreams get stands on an allow-list (FWD-12), and a trace id is
    /// nobody else's business unless an operator runs both ends.
    pub trace_upstream: bool,
    /// How often running requests show a sign of life, in the journal and to billing (BILL-5).
    #[serde(with = "duration")]
    pub progress: Duration,
    /// How often leases are renewed (FLOW-3).
    #[serde(skip)]
    pub lease_renew: Duration,
    /// Settlements and releases kept in memory until they are acknowledged; further settlements are in the journal alone.
    pub pending: usize,
    /// Items in one message to billing or the scheduler.
    pub batch: usize,
    /// Settlements and releases that follow a message wait this long after it for others, to be sent in one message.
    #[serde(with = "duration")]
    pub gather: Duration,
    /// First pause before a stream to a peer is opened again; doubles up to `reconnect_max`.
    #[serde(with = "duration")]
    pub reconnect: Duration,
    /// Longest such pause.
    #[serde(with = "duration")]
    pub reconnect_max: Duration,
    /// Deadline of a call to auth, billing or the vault.
    #[serde(with = "duration")]
    pub peer_timeout: Duration,
    /// Callers in memory.
    pub principals: Principals,
    /// Upstream credentials in memory.
    pub credentials: u64,
    /// Connections to upstreams.
    pub upstream: Upstream,
    /// The journal.
    pub journal: JournalConfig,
    /// How other services' change feeds are followed.
    #[serde(skip)]
    pub feed: FeedConfig,
}

/// The memory of who callers are (AUTH-5, AUTH-6).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Principals {
    /// Keys remembered.
    pub capacity: u64,
    /// For how long, ± 15 %.
    #[serde(with = "duration")]
    pub ttl: Duration,
    /// How much longer while auth cannot be reached.
    #[serde(with = "duration")]
    pub grace: Duration,
    /// Unknown keys remembered.
    pub unknown_capacity: u64,
    /// For how long.
    #[serde(with = "duration")]
    pub unknown_ttl: Duration,
    /// Look-ups that run at once.
    pub lookups: usize,
}

/// Connections to upstreams (FWD-10). Time-outs are the model's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// Idle connections kept, per host.
    pub idle_per_host: usize,
    /// Idle connections kept, to all hosts together; beyond it the one that is idle for longest is closed.
    pub idle_total: usize,
    /// For how long.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// HTTP/2 window of one stream, bytes: what an upstream may send ahead of a slow caller.
    pub stream_window: u32,
    /// What upstreams may send ahead on one HTTP/2 connection, bytes: it carries as many streams as windows of one stream fit
    /// in, at most.
    pub connection_window: u32,
}

/// Most bytes of a request that the journal can keep: it takes a longer record for a damaged one.
const MOST_PROMPT: usize = 8 << 20;
/// Largest answer, bytes: one message brings it to the edge, also where a translation made it twice as long.
const MOST_ANSWER: usize = MAX_ANSWER / 2;
/// Longest wait until tokens are counted: nothing keeps a stream alive meanwhile.
const LONGEST_COUNT: Duration = Duration::from_secs(1);

impl Config {
    /// What is wrong with it, if anything: a bound of 0 would refuse every request, or stop what runs.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let journal = &self.journal;
        let sizes = [
            ("body_limit", self.body_limit),
            ("body_total", self.body_total),
            ("stream_buffer", self.stream_buffer),
            ("buffer_total", self.buffer_total),
            ("answer_limit", self.answer_limit),
            ("event_limit", self.event_limit),
            ("count_parallel", self.count_parallel),
            ("pending", self.pending),
            ("batch", self.batch),
            ("principals.lookups", self.principals.lookups),
            ("journal.queue", journal.queue),
        ];
        let sizes = sizes.map(|(name, size)| (name, size == 0));
        let others = [
            ("max_hops", self.max_hops == 0),
            ("journal.segment_bytes", journal.segment_bytes == 0),
            ("journal.max_bytes", journal.max_bytes == 0),
        ];
        let times = [
            ("body_idle", self.body_idle),
            ("count_after", self.count_after),
            ("keep_alive", self.keep_alive),
            ("total_timeout", self.total_timeout),
            ("write_timeout", self.write_timeout),
            ("progress", self.progress),
            ("peer_timeout", self.peer_timeout),
            ("reconnect", self.reconnect),
            ("reconnect_max", self.reconnect_max),
            ("journal.sync_after", journal.sync_after),
        ];
        let times = times.map(|(name, time)| (name, time.is_zero()));
        let mut all = sizes.into_iter().chain(others).chain(times);
        if let Some((name, _)) = all.find(|(_, zero)| *zero) {
            return Some(format!("forwarder.{name} is 0; expected more"));
        }
        let answers = [
            ("answer_limit", self.answer_limit),
            ("event_limit", self.event_limit),
        ];
        if let Some((name, limit)) = answers.into_iter().find(|(_, limit)| *limit > MOST_ANSWER) {
            return Some(format!(
                "forwarder.{name} is {limit}; expected {MOST_ANSWER} at most"
            ));
        }
        if self.count_within > LONGEST_COUNT {
            let within = duration::render(self.count_within);
            return Some(format!(
                "forwarder.count_within is {within}; expected 1s at most"
            ));
        }
        let prompt = journal.prompt_bytes;
        (prompt > MOST_PROMPT).then(|| {
            format!("forwarder.journal.prompt_bytes is {prompt}; expected {MOST_PROMPT} at most")
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            body_limit: 32 << 20,
            body_total: 512 << 20,
            body_idle: Duration::from_secs(30),
            stream_buffer: 128 << 10,
            buffer_total: 1 << 30,
            hold: 1 << 20,
            answer_limit: 64 << 20,
            event_limit: 64 << 20,
            count_output: 64 << 10,
            count_input: 4 << 20,
            count_parallel: 2,
            count_after: Duration::from_secs(1),
            count_within: Duration::from_millis(100),
            keep_alive: Duration::from_secs(15),
            total_timeout: Duration::from_secs(900),
            write_timeout: Duration::from_secs(60),
            max_hops: 5,
            retry_share: 20,
            retries_in_hand: 10,
            patience: Duration::from_secs(5),
            last_tries: 2,
            trace_upstream: false,
            progress: Duration::from_secs(10),
            lease_renew: Duration::from_secs(10),
            pending: 20_000,
            batch: 256,
            gather: Duration::from_millis(2),
            reconnect: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(2),
            peer_timeout: Duration::from_secs(5),
            principals: Principals::default(),
            credentials: 10_000,
            upstream: Upstream::default(),
            journal: JournalConfig::default(),
            feed: FeedConfig::default(),
        }
    }
}

impl Default for Principals {
    fn default() -> Self {
        Self {
            capacity: 100_000,
            ttl: Duration::from_secs(60),
            grace: Duration::from_secs(300),
            unknown_capacity: 10_000,
            unknown_ttl: Duration::from_secs(5),
            lookups: 64,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            idle_per_host: 200,
            idle_total: 2_000,
            idle_timeout: Duration::from_secs(90),
            stream_window: 256 << 10,
            connection_window: 16 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_cannot_be_is_named_before_anything_starts() {
        assert_eq!(Config::default().problem(), None);
        let mut config = Config::default();
        config.journal.queue = 0;
        let expected = "forwarder.journal.queue is 0; expected more";
        assert_eq!(config.problem().as_deref(), Some(expected));
        let mut config = Config::default();
        config.journal.prompt_bytes = 9_000_000;
        let expected =
            "forwarder.journal.prompt_bytes is 9000000; expected 8388608 at most".to_owned();
        assert_eq!(config.problem(), Some(expected));
        let config = Config {
            count_within: Duration::from_secs(5),
            ..Config::default()
        };
        let expected = "forwarder.count_within is 5s; expected 1s at most";
        assert_eq!(config.problem().as_deref(), Some(expected));
        let config = Config {
            answer_limit: MOST_ANSWER + 1,
            ..Config::default()
        };
        let expected = "forwarder.answer_limit is 134217729; expected 134217728 at most";
        assert_eq!(config.problem().as_deref(), Some(expected));
        let config = Config {
            progress: Duration::ZERO,
            ..Config::default()
        };
        let expected = "forwarder.progress is 0; expected more";
        assert_eq!(config.problem().as_deref(), Some(expected));
    }
}
