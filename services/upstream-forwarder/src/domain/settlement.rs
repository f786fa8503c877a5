//! What a request did, and what follows from it for the bill: SPEC BILL-6's table.
//!
//! A [`Story`] is written down while the request runs, outside of the stages, so that neither a panic nor a caller that
//! leaves loses any of it; its [`Story::settlement`] is the one accounting of the request. Pure: tokens are counted
//! elsewhere and handed in, prices are billing's.

use bytes::Bytes;
use switchboard_dialects::Finished;
use switchboard_proto::{
    billing::v1::{Attempt, Ending, Party, Settlement, Timing},
    common::v1::{Dialect, Usage, UsageSource},
};

/// What is known of a request so far. Times are microseconds since its arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) request_id: String,
    pub(crate) fingerprint: Bytes,
    pub(crate) party: Party,
    pub(crate) client_request_id: String,
    pub(crate) public_model: String,
    pub(crate) dialect: Dialect,
    pub(crate) stream: bool,
    /// Output tokens are generated.
    pub(crate) generates: bool,
    /// Output tokens that were expected at admission.
    pub(crate) expected_output: u64,
    /// It is never billed: nothing of it is written down (SURF-1).
    pub(crate) free: bool,
    /// Images that were asked for.
    pub(crate) images: u64,
    /// The length of the audio that the request brought, as far as its bytes tell, milliseconds.
    pub(crate) audio_millis: u64,
    pub(crate) price_version: u64,
    pub(crate) catalogue_version: u64,
    pub(crate) trace_id: String,
    pub(crate) tags: String,
    /// The tenant pays nothing for a request that it left before the first token.
    pub(crate) abandoned_free: bool,
    /// Text bytes of the request, from which input is estimated where it cannot be counted.
    pub(crate) input_bytes: u64,
    /// Input tokens as they were counted, where the request runs for so long that they were.
    pub(crate) counted_input: Option<u64>,
    /// Money and a slot were taken for it.
    pub(crate) admitted: bool,
    /// Billing has a hold for it.
    pub(crate) held: bool,
    pub(crate) held_nanos: i64,
    pub(crate) held_tokens: i64,
    /// 0: none.
    pub(crate) output_cap: u64,
    pub(crate) decision_json: String,
    pub(crate) queue_us: u64,
    /// When the first attempt began.
    pub(crate) gateway_us: u64,
    pub(crate) first_content_us: Option<u64>,
    /// Bytes of text that the caller got.
    pub(crate) content_bytes: u64,
    pub(crate) attempts: Vec<Tried>,
}

/// One attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tried {
    pub(crate) account: String,
    pub(crate) upstream_model: String,
    pub(crate) cost_version: u64,
    /// The upstream's HTTP status; 0: none came.
    pub(crate) status: u16,
    /// Empty: success so far.
    pub(crate) error: &'static str,
    /// As the upstream reported it.
    pub(crate) usage: Option<Usage>,
    /// The upstream's usage object, byte for byte.
    pub(crate) usage_raw: Bytes,
    /// The connection took the body's last byte.
    pub(crate) sent: bool,
    pub(crate) began_us: u64,
    pub(crate) connect_us: u64,
    pub(crate) first_byte_us: u64,
    pub(crate) total_us: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The answer was complete. The status that the caller got.
    Complete(u16),
    /// The caller got an error: its status and wire code.
    Failed(u16, &'static str),
    /// The caller left.
    Left,
    /// After content the upstream broke, or the request's time was over: wire code.
    Broke(&'static str),
    /// After content the gateway itself gave up: wire code.
    Lost(&'static str),
}

/// Input and output that were counted by us, for what the upstream did not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// What the caller pays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// Nothing, whatever was used.
    Nothing,
    /// What the upstream reported.
    Reported,
    /// What the upstream reported, and counted what it left out: an answer without a number is not free.
    Completed,
    /// Input alone, counted.
    Input,
    /// Input and output, counted.
    InputAndOutput,
}

impl Story {
    /// Whether anything of an answer reached the caller.
    pub(crate) fn has_content(&self) -> bool {
        self.first_content_us.is_some()
    }

    /// Whether an upstream works on it, or did: it has all of the request and has not failed before it said anything. A request
    /// that waits for its next attempt is with nobody.
    fn is_asked(&self) -> bool {
        let last = self.attempts.last();
        last.is_some_and(|last| last.sent && (last.error.is_empty() || self.has_content()))
    }

    /// What the caller of a gateway that died got: an answer that broke off, or none.
    pub(crate) fn lost_status(&self) -> u16 {
        if self.has_content() { 200 } else { 502 }
    }

    /// BILL-6, row by row.
    pub(crate) fn charge(&self, end: End) -> Charge {
        let usage = self.attempts.last().and_then(|attempt| attempt.usage);
        match end {
            End::Failed(..) => Charge::Nothing,
            End::Left | End::Lost(_) if !self.is_asked() => Charge::Nothing,
            End::Left if !self.has_content() && self.abandoned_free => Charge::Nothing,
            End::Left if !self.has_content() => match usage {
                Some(_) => Charge::Reported,
                None => Charge::Input,
            },
            _ if usage.is_some_and(|usage| self.is_whole(&usage)) => Charge::Reported,
            _ if usage.is_some() => Charge::Completed,
            End::Complete(_) | End::Left | End::Broke(_) | End::Lost(_) => Charge::InputAndOutput,
        }
    }

    /// Whether a report has a number for all that this dialect's answers are made of.
    fn is_whole(&self, usage: &Usage) -> bool {
        // Who bills seconds counts no tokens.
        usage.audio_millis.is_some()
            || (tells_input(usage) && (!self.has_output() || usage.output_tokens.is_some()))
    }

    /// What was counted by us. An answer that was begun is charged with all its images: the last partial one may be as good
    /// as the whole.
    fn estimate(&self, charge: Charge, counted: Counted) -> Option<Usage> {
        let given = |count: u64| (count > 0).then_some(count);
        let (output, images) = match charge {
            Charge::Nothing | Charge::Reported | Charge::Completed => return None,
            Charge::Input => (0, None),
            Charge::InputAndOutput => (counted.output, given(self.images)),
        };
        Some(Usage {
            input_tokens: Some(counted.input),
            output_tokens: Some(output),
            images,
            audio_millis: given(self.audio_millis),
            ..Usage::default()
        })
    }

    /// Whether the number of input tokens in a draft is the last word: counted by us, or reported.
    pub(crate) fn knows_input(&self) -> bool {
        let last = self.attempts.last().and_then(|attempt| attempt.usage);
        // Who bills seconds counts no tokens.
        let reported =
            last.is_some_and(|usage| usage.audio_millis.is_some() || tells_input(&usage));
        reported || self.counted_input.is_some()
    }

    fn has_output(&self) -> bool {
        self.generates
    }

    /// A report with the counted numbers where it has none.
    fn completed(&self, usage: Usage, counted: Counted) -> Usage {
        let input = (!tells_input(&usage)).then_some(counted.input);
        let output = self.has_output().then_some(counted.output);
        Usage {
            input_tokens: usage.input_tokens.or(input),
            output_tokens: usage.output_tokens.or(output),
            ..usage
        }
    }

    /// What tokens have to be counted for the bill: of the caller or, where the caller pays nothing, of the provider.
    pub(crate) fn to_count(&self, end: End) -> Charge {
        match (self.charge(end), end) {
            (Charge::Nothing, End::Left) => {
                let last = self.attempts.last();
                let unknown = last.is_some_and(|last| last.usage.is_none());
                if self.is_asked() && unknown {
                    Charge::Input
                } else {
                    Charge::Nothing
                }
            }
            (charge, _) => charge,
        }
    }

    /// The accounting. `counted` is what [`Story::to_count`] asked for; `now_us` is the time since arrival.
    pub(crate) fn settlement(
        &self,
        end: End,
        counted: Counted,
        now_us: u64,
        write_us: u64,
    ) -> Settlement {
        let charge = self.charge(end);
        let estimate = self.estimate(self.to_count(end), counted);
        let mut attempts: Vec<_> = self.attempts.iter().zip(0..).map(attempt).collect();
        let last = self.attempts.last();
        let estimate = match (charge, last.and_then(|attempt| attempt.usage)) {
            (Charge::Completed, Some(usage)) => Some(self.completed(usage, counted)),
            _ => estimate,
        };
        if let (Some(last), Some(usage)) = (attempts.last_mut(), &estimate)
            && (last.usage.is_none() || charge == Charge::Completed)
        {
            last.usage = Some(*usage);
            last.usage_source = UsageSource::Estimated as i32;
        }
        let (usage, source) = match charge {
            Charge::Nothing => (None, UsageSource::None),
            Charge::Reported => (last.and_then(|a| a.usage), UsageSource::Provider),
            Charge::Completed | Charge::Input | Charge::InputAndOutput => {
                (estimate, UsageSource::Estimated)
            }
        };
        let (ending, status, error_code) = match end {
            End::Complete(status) => (Ending::Complete, status, ""),
            End::Failed(status, code) => (Ending::Failed, status, code),
            End::Left => (Ending::CallerLeft, 499, "caller_left"),
            End::Broke(code) => (Ending::UpstreamBroke, 200, code),
            End::Lost(code) => (Ending::GatewayLost, self.lost_status(), code),
        };
        let raw = last.filter(|_| matches!(charge, Charge::Reported | Charge::Completed));
        let raw = raw.map(|last| String::from_utf8_lossy(&last.usage_raw).into_owned());
        Settlement {
            request_id: self.request_id.clone(),
            fingerprint: self.fingerprint.clone(),
            party: Some(self.party.clone()),
            client_request_id: self.client_request_id.clone(),
            public_model: self.public_model.clone(),
            dialect: self.dialect as i32,
            stream: self.stream,
            ending: ending as i32,
            status: u32::from(status),
            error_code: error_code.to_owned(),
            usage,
            usage_source: source as i32,
            usage_raw: raw.unwrap_or_default(),
            price_version: self.price_version,
            charge_nothing: charge == Charge::Nothing,
            attempts,
            provisional: false,
            timing: Some(Timing {
                gateway_us: self.gateway_us.saturating_sub(self.queue_us),
                queue_us: self.queue_us,
                first_token_us: self.first_content_us.unwrap_or(0),
                caller_write_us: write_us,
                total_us: now_us,
            }),
            decision_json: self.decision_json.clone(),
            trace_id: self.trace_id.clone(),
            tags: self.tags.clone(),
            catalogue_version: self.catalogue_version,
            output_cap: self.output_cap,
            span_id: String::new(),
            audio_millis: self.audio_millis,
            models: Vec::new(),
        }
    }

    /// What a response that goes on in the background is settled with until its end is seen: all that was expected of it
    /// (BILL-3). [`finished`] makes the real one of it.
    pub(crate) fn unfinished(&self, now_us: u64) -> Settlement {
        let counted = Counted {
            input: self
                .counted_input
                .unwrap_or_else(|| tokens_of(self.input_bytes)),
            output: self.expected_output,
        };
        let mut settlement = self.settlement(End::Complete(200), counted, now_us, 0);
        settlement.provisional = true;
        settlement
    }

    /// What is to be settled if nothing more is ever heard of this request: the gateway died. What the upstream reported so far
    /// counts; else input is what was counted of a request that runs for long; else, and output always, it is estimated from
    /// bytes, so that counting costs short requests nothing. What was only estimated of the input the next process [counts](with_input).
    pub(crate) fn draft(&self, now_us: u64) -> Settlement {
        let counted = Counted {
            input: self
                .counted_input
                .unwrap_or_else(|| tokens_of(self.input_bytes)),
            output: tokens_of(self.content_bytes),
        };
        let code = "internal";
        let mut draft = self.settlement(End::Lost(code), counted, now_us, 0);
        draft.provisional = true;
        // What was reported so far is not the last word.
        let last = draft.attempts.last_mut();
        let sources = last.map(|last| &mut last.usage_source);
        for source in sources.into_iter().chain([&mut draft.usage_source]) {
            if *source == UsageSource::Provider as i32 {
                *source = UsageSource::Estimated as i32;
            }
        }
        draft
    }
}

/// The real accounting of a response that was made in the background, once its end is seen: in place of `unfinished`
/// ([`Story::unfinished`]). Where its upstream reports nothing an answer stays as expected, of a cancelled one its input is
/// paid for, of a failed one nothing (BILL-6).
pub(crate) fn finished(
    unfinished: Settlement,
    how: Finished,
    usage: Option<Usage>,
    raw: &[u8],
) -> Settlement {
    let mut settlement = Settlement {
        provisional: false,
        ..unfinished
    };
    let (used, source) = match (usage, how) {
        (Some(usage), _) => (Some(usage), UsageSource::Provider),
        (None, Finished::Answered) => (settlement.usage, UsageSource::Estimated),
        (None, Finished::Cancelled) => {
            let only_input = |usage: Usage| Usage {
                output_tokens: Some(0),
                ..usage
            };
            (settlement.usage.map(only_input), UsageSource::Estimated)
        }
        (None, Finished::Failed) => (None, UsageSource::None),
    };
    if let Some(last) = settlement.attempts.last_mut() {
        last.usage = used;
        last.usage_source = source as i32;
    }
    settlement.usage_raw = String::from_utf8_lossy(raw).into_owned();
    settlement.usage = used;
    settlement.usage_source = source as i32;
    if how == Finished::Failed {
        settlement.charge_nothing = true;
        settlement.usage = None;
        settlement.usage_source = UsageSource::None as i32;
        settlement.ending = Ending::Failed as i32;
        "upstream_failed".clone_into(&mut settlement.error_code);
    }
    settlement
}

/// The settlement of a request that was left open, with its input counted in place of what a draft estimated.
pub(crate) fn with_input(mut settlement: Settlement, input: u64) -> Settlement {
    let last = settlement.attempts.last_mut();
    let last = last.and_then(|attempt| attempt.usage.as_mut());
    for usage in settlement.usage.as_mut().into_iter().chain(last) {
        usage.input_tokens = Some(input);
    }
    settlement
}

/// Tokens of a text that is not at hand: a token has about four bytes.
pub(crate) fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

fn tells_input(usage: &Usage) -> bool {
    [
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
    ]
    .iter()
    .any(Option::is_some)
}

fn attempt((tried, number): (&Tried, u32)) -> Attempt {
    let source = match tried.usage {
        Some(_) => UsageSource::Provider,
        None => UsageSource::None,
    };
    Attempt {
        number,
        account: tried.account.clone(),
        upstream_model: tried.upstream_model.clone(),
        cost_version: tried.cost_version,
        status: u32::from(tried.status),
        error: tried.error.to_owned(),
        usage: tried.usage,
        usage_source: source as i32,
        sent: tried.sent,
        connect_us: tried.connect_us,
        first_byte_us: tried.first_byte_us,
        total_us: tried.total_us,
    }
}

#[cfg(test)]
mod tests;
