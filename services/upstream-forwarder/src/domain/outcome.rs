//! What a failed attempt means: for the caller, for the account, and for what to do next (SPEC FWD-4, FWD-5, SCHED-9,
//! SCHED-11).

use std::time::Duration;

use switchboard_common::error::{Failure, Reason, ReasonExt as _, reasons};
use switchboard_dialects::{
    Class, UpstreamError,
    error::{self, Rendered, Shape},
};
use switchboard_proto::scheduler::v1::{AttemptOutcome, Blame, FailureKind};

use crate::upstream::Obstacle;

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The upstream's HTTP status; 0: none came.
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// The upstream's answer, where it belongs to the caller: the request itself is at fault.
    pub(crate) for_caller: Option<Rendered>,
    /// Why the request was not sent there at all.
    pub(crate) unsent: Option<Box<Failure>>,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As the upstream said it, or what is wrong with its answer.
    Answer(Class),
    /// No connection in time.
    ConnectTimeout,
    /// No head of an answer in time.
    FirstByteTimeout,
    /// Silence in the middle of an answer.
    IdleTimeout,
    /// No connection came about.
    Unreached(Obstacle),
    /// The connection failed.
    Network,
    /// A connection that had served before ended before anything of an answer: it was closed just when it was used.
    Worn,
    /// The account's proxy failed.
    Proxy,
    /// The account's address may not be called.
    Address,
    /// The account has no usable credential.
    NoCredential,
    /// The vault could not be asked.
    VaultAway,
    /// The request asks for what the target has nothing for (FWD-11, DIAL-1).
    Unsupported,
}

impl Fault {
    /// A failure that no upstream put into words.
    pub(crate) fn of(kind: Kind) -> Self {
        Self {
            kind,
            status: 0,
            retry_after: None,
            for_caller: None,
            unsent: None,
        }
    }

    /// The request asks for what this target has nothing for. Another one may have; when none is left, the caller is told this.
    pub(crate) fn unsupported(failure: Failure) -> Self {
        Self {
            unsent: Some(Box::new(failure)),
            ..Self::of(Kind::Unsupported)
        }
    }

    /// A failure that an upstream said, under this HTTP status, to a caller whose errors have this `shape`.
    pub(crate) fn said(error: &UpstreamError, status: u16, shape: Shape) -> Self {
        Self {
            kind: Kind::Answer(error.class),
            status,
            retry_after: error.retry_after,
            for_caller: error.for_caller(shape),
            unsent: None,
        }
    }

    /// 401: the credential may be out of date.
    pub(crate) fn refused_credential(&self) -> bool {
        self.kind == Kind::Answer(Class::Unauthorized)
    }

    /// 429 for a while.
    pub(crate) fn rate_limited(&self) -> bool {
        self.kind == Kind::Answer(Class::RateLimited)
    }

    /// Nothing came of a connection, which somebody may have to look at: the account's address, its proxy, the network.
    pub(crate) const fn unreached(&self) -> bool {
        matches!(
            self.kind,
            Kind::ConnectTimeout | Kind::Unreached(_) | Kind::Proxy | Kind::Address
        )
    }

    /// The name in rows and metrics.
    pub(crate) const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Answer(class) => match class {
                Class::Unauthorized | Class::Forbidden => "credential",
                Class::Quota => "quota",
                Class::RateLimited => "rate_limited",
                Class::Overloaded => "overloaded",
                Class::Server => "server",
                Class::Timeout => "timeout",
                Class::ContextLength => "context_length",
                Class::ContentPolicy => "content_policy",
                Class::NotFound => "not_found",
                Class::Request => "request",
                Class::Malformed => "malformed",
                Class::Empty => "empty",
                Class::Cut => "cut",
                Class::Network => "network",
                Class::Unexpected => "unexpected",
            },
            Kind::ConnectTimeout | Kind::Unreached(Obstacle::Late) => "connect_timeout",
            Kind::Unreached(Obstacle::Dns) => "dns",
            Kind::Unreached(Obstacle::Refused) => "connection_refused",
            Kind::Unreached(Obstacle::Unreachable) => "unreachable",
            Kind::Unreached(Obstacle::Tls) => "tls",
            Kind::Unreached(Obstacle::Other) => "network",
            Kind::FirstByteTimeout => "first_byte_timeout",
            Kind::IdleTimeout => "idle_timeout",
            Kind::Network | Kind::Worn => "network",
            Kind::Proxy => "proxy",
            Kind::Address => "address_refused",
            Kind::NoCredential => "no_credential",
            Kind::VaultAway => "vault_away",
            Kind::Unsupported => "unsupported",
        }
    }

    /// What the scheduler is told. Only the one at fault is blamed.
    pub(crate) fn outcome(&self, account: &str, upstream_model: &str) -> AttemptOutcome {
        let (blame, failure) = match self.kind {
            Kind::Answer(class) => (blame(class), failure_kind(class)),
            Kind::ConnectTimeout
            | Kind::Unreached(Obstacle::Late)
            | Kind::FirstByteTimeout
            | Kind::IdleTimeout => (Blame::Host, FailureKind::Timeout),
            // The way to the host, not the account that is behind it.
            Kind::Unreached(_) | Kind::Network | Kind::Proxy => (Blame::Host, FailureKind::Network),
            Kind::NoCredential => (Blame::Account, FailureKind::Credential),
            // No login helps there.
            Kind::Address => (Blame::Account, FailureKind::Address),
            Kind::Worn => (Blame::Nobody, FailureKind::Network),
            Kind::VaultAway => (Blame::Nobody, FailureKind::Server),
            Kind::Unsupported => (Blame::Request, FailureKind::Request),
        };
        let retry_after = self.retry_after.map(|after| after.as_millis());
        AttemptOutcome {
            account: account.to_owned(),
            upstream_model: upstream_model.to_owned(),
            status: u32::from(self.status),
            blame: blame as i32,
            failure: failure as i32,
            retry_after_ms: retry_after.and_then(|ms| u64::try_from(ms).ok()),
            first_token_us: None,
        }
    }

    /// The same for a caller whose errors have this `shape`. That a model is overloaded Google's API says by 503 and Anthropic's by
    /// 529, for which their clients have classes of their own (ERR-2).
    pub(crate) fn failure_in(&self, shape: Shape) -> Failure {
        match (shape, self.kind) {
            (Shape::Gemini | Shape::Anthropic, Kind::Answer(Class::Overloaded)) => {
                Failure::new(Reason::Unavailable, "the upstream is overloaded")
            }
            _ => self.failure(),
        }
    }

    /// What the caller gets when this was the last attempt (FWD-4). Names no account and no address.
    pub(crate) fn failure(&self) -> Failure {
        if let Some(unsent) = &self.unsent {
            return (**unsent).clone();
        }
        let failure = |reason, text: &str| Failure::new(reason, text);
        match self.kind {
            Kind::Answer(Class::RateLimited) => {
                let after = self.retry_after.unwrap_or(Duration::from_secs(1));
                let text = "no upstream of this model takes more requests at the moment (their rate limits); try again later";
                failure(Reason::RateLimitExceeded, text).retry_after(after)
            }
            Kind::Answer(Class::Unauthorized | Class::Forbidden | Class::Quota)
            | Kind::NoCredential => failure(
                Reason::UpstreamCredentialsExhausted,
                "no upstream of this model accepts our credentials or has quota left; this is not about your API key",
            ),
            Kind::VaultAway => failure(
                Reason::Unavailable,
                "a part of the gateway cannot be reached; try again shortly",
            )
            .retry_after(Duration::from_secs(1)),
            Kind::Answer(Class::Timeout) => {
                failure(Reason::UpstreamTimeout, "the upstream reported a time-out")
            }
            Kind::ConnectTimeout | Kind::Unreached(Obstacle::Late) => failure(
                Reason::UpstreamTimeout,
                "no connection to an upstream came about in time (connect)",
            ),
            Kind::FirstByteTimeout => failure(
                Reason::UpstreamTimeout,
                "the upstream did not begin its answer in time (first byte)",
            ),
            Kind::IdleTimeout => failure(
                Reason::UpstreamTimeout,
                "the upstream fell silent in the middle of its answer (idle)",
            ),
            Kind::Unreached(_) => failure(
                Reason::UpstreamFailed,
                "no connection to the upstream came about",
            ),
            Kind::Network | Kind::Worn | Kind::Proxy => failure(
                Reason::UpstreamFailed,
                "the connection to the upstream failed",
            ),
            Kind::Address => failure(
                Reason::UpstreamFailed,
                "the address of the account that serves this model may not be called: the operator has to correct or allow it",
            ),
            Kind::Answer(Class::Cut) => failure(
                Reason::UpstreamFailed,
                "the upstream ended its answer before it was complete",
            ),
            Kind::Answer(Class::Malformed | Class::Empty | Class::Unexpected) => failure(
                Reason::UpstreamFailed,
                "the upstream answered with something that is no answer of its API",
            ),
            Kind::Answer(_) => failure(Reason::UpstreamFailed, "the upstream failed"),
            Kind::Unsupported => failure(
                Reason::UnsupportedParameter,
                "no upstream of this model has what the request asks for",
            ),
        }
    }
}

/// Which of a request's failures, the last one of each target in order, the caller is told when no candidate is left (FWD-4). Not
/// the last one alone: what the caller can do does not depend on who was tried last. Our credentials are to blame only where they
/// are everywhere; a rate limit beside them is over soon; of what is neither the latest is told.
pub(crate) fn telling<'a>(faults: impl IntoIterator<Item = &'a Fault>) -> Option<&'a Fault> {
    faults.into_iter().max_by_key(|fault| match fault.kind {
        // Says nothing of the request where another target was merely away.
        Kind::Unsupported => 0,
        Kind::Answer(Class::Unauthorized | Class::Forbidden | Class::Quota)
        | Kind::NoCredential => 1,
        Kind::Answer(Class::RateLimited) => 2,
        _ => 3,
    })
}

fn blame(class: Class) -> Blame {
    match class.blame() {
        error::Blame::Account => Blame::Account,
        error::Blame::AccountModel => Blame::Model,
        error::Blame::Host => Blame::Host,
        error::Blame::Request => Blame::Request,
    }
}

fn failure_kind(class: Class) -> FailureKind {
    match class {
        Class::Unauthorized | Class::Forbidden => FailureKind::Credential,
        Class::Quota => FailureKind::Quota,
        Class::RateLimited => FailureKind::RateLimited,
        Class::Overloaded => FailureKind::Overloaded,
        Class::Timeout => FailureKind::Timeout,
        Class::Server | Class::Malformed | Class::Empty | Class::Unexpected => FailureKind::Server,
        Class::Cut | Class::Network => FailureKind::Network,
        Class::ContextLength | Class::ContentPolicy | Class::NotFound | Class::Request => {
            FailureKind::Request
        }
    }
}

/// What the scheduler is told of an attempt that served, or that nobody is to blame for.
pub(crate) fn blameless(
    account: &str,
    upstream_model: &str,
    status: u16,
    first_token_us: Option<u64>,
) -> AttemptOutcome {
    AttemptOutcome {
        account: account.to_owned(),
        upstream_model: upstream_model.to_owned(),
        status: u32::from(status),
        blame: Blame::Nobody as i32,
        failure: FailureKind::Unspecified as i32,
        retry_after_ms: None,
        first_token_us,
    }
}

/// An upstream's refusal as a failure of ours, for callers who do not get it as it is.
pub(crate) fn failure_of(rendered: &Rendered) -> Failure {
    let reason = reason_of(rendered.status, rendered.code);
    let failure = Failure::new(reason, rendered.message.clone());
    match &rendered.param {
        Some(param) => failure.param(param.clone()),
        None => failure,
    }
}

/// An error body in OpenAI's form as a failure of ours, for typed callers.
pub(crate) fn failure_in(status: u16, body: &[u8]) -> Failure {
    let said: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| said.pointer(field).and_then(|value| value.as_str());
    let reason = reason_of(status, text("/error/code").unwrap_or(""));
    let message = text("/error/message").unwrap_or("the upstream refused the request");
    let failure = Failure::new(reason, message);
    match text("/error/param") {
        Some(param) => failure.param(param),
        None => failure,
    }
}

fn reason_of(status: u16, code: &str) -> Reason {
    let by_code = reasons().find(|reason| reason.wire_code() == code);
    by_code
        .filter(|reason| reason.http_status() == status)
        .unwrap_or(match status {
            404 => Reason::NotFound,
            409 => Reason::Conflict,
            413 => Reason::BodyTooLarge,
            _ => Reason::InvalidRequest,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(class: Class) -> Fault {
        Fault::said(
            &UpstreamError::found(class, "secret words"),
            0,
            Shape::OpenAi,
        )
    }

    #[test]
    fn when_none_is_left_the_caller_learns_whose_fault_it_is_but_nothing_about_accounts() {
        for (fault, reason) in [
            (
                answer(Class::Unauthorized),
                Reason::UpstreamCredentialsExhausted,
            ),
            (
                answer(Class::Forbidden),
                Reason::UpstreamCredentialsExhausted,
            ),
            (answer(Class::Quota), Reason::UpstreamCredentialsExhausted),
            (answer(Class::RateLimited), Reason::RateLimitExceeded),
            (answer(Class::Server), Reason::UpstreamFailed),
            (answer(Class::Cut), Reason::UpstreamFailed),
            (answer(Class::Timeout), Reason::UpstreamTimeout),
            (Fault::of(Kind::FirstByteTimeout), Reason::UpstreamTimeout),
            (Fault::of(Kind::Network), Reason::UpstreamFailed),
            (Fault::of(Kind::Address), Reason::UpstreamFailed),
            (
                Fault::of(Kind::NoCredential),
                Reason::UpstreamCredentialsExhausted,
            ),
            (Fault::of(Kind::VaultAway), Reason::Unavailable),
        ] {
            let failure = fault.failure();
            assert_eq!(failure.reason, reason, "{fault:?}");
            assert!(!failure.message.contains("secret"));
        }
        let limited = answer(Class::RateLimited).failure();
        assert_eq!(limited.retry_after_secs(), Some(1));
    }

    #[test]
    fn what_the_caller_is_told_does_not_depend_on_who_was_tried_last() {
        let (credential, quota) = (answer(Class::Unauthorized), answer(Class::Quota));
        let (limited, broken) = (answer(Class::RateLimited), answer(Class::Server));
        let (late, away) = (answer(Class::Timeout), Fault::of(Kind::VaultAway));
        let none = Fault::of(Kind::NoCredential);
        let lacks = Fault::of(Kind::Unsupported);
        for (faults, reason) in [
            (
                vec![&credential, &quota, &none],
                Reason::UpstreamCredentialsExhausted,
            ),
            (vec![&limited, &credential], Reason::RateLimitExceeded),
            (vec![&broken, &credential], Reason::UpstreamFailed),
            (vec![&broken, &limited], Reason::UpstreamFailed),
            (vec![&limited, &late, &quota], Reason::UpstreamTimeout),
            (vec![&away, &credential], Reason::Unavailable),
            (
                vec![&lacks, &credential],
                Reason::UpstreamCredentialsExhausted,
            ),
            (vec![&lacks], Reason::UnsupportedParameter),
        ] {
            let forwards = telling(faults.iter().copied()).unwrap();
            let backwards = telling(faults.iter().rev().copied()).unwrap();
            assert_eq!(forwards.failure().reason, reason, "{faults:?}");
            assert_eq!(backwards.failure().reason, reason, "{faults:?}");
        }
        // Of those that are neither, the latest.
        assert_eq!(telling([&broken, &late]), Some(&late));
        assert_eq!(telling([&late, &broken]), Some(&broken));
        assert_eq!(telling([]), None);
    }

    #[test]
    fn google_and_anthropic_have_an_answer_for_a_model_that_is_overloaded() {
        let overloaded = answer(Class::Overloaded);
        for (shape, reason) in [
            (Shape::Gemini, Reason::Unavailable),
            (Shape::OpenAi, Reason::UpstreamFailed),
            (Shape::Anthropic, Reason::Unavailable),
        ] {
            assert_eq!(overloaded.failure_in(shape).reason, reason);
        }
        for shape in [Shape::Gemini, Shape::Anthropic] {
            let broken = answer(Class::Server).failure_in(shape);
            assert_eq!(broken.reason, Reason::UpstreamFailed);
        }
    }

    #[test]
    fn only_the_one_at_fault_is_blamed() {
        let blame = |fault: &Fault| fault.outcome("a", "m").blame();
        assert_eq!(blame(&answer(Class::Unauthorized)), Blame::Account);
        assert_eq!(blame(&answer(Class::RateLimited)), Blame::Model);
        assert_eq!(blame(&answer(Class::Server)), Blame::Host);
        assert_eq!(blame(&answer(Class::ContextLength)), Blame::Request);
        assert_eq!(blame(&Fault::of(Kind::VaultAway)), Blame::Nobody);
        assert_eq!(blame(&Fault::of(Kind::Proxy)), Blame::Host);
        assert_eq!(blame(&Fault::of(Kind::Worn)), Blame::Nobody);
        assert_eq!(blameless("a", "m", 200, Some(1)).blame(), Blame::Nobody);
    }

    #[test]
    fn only_faults_of_the_request_carry_an_answer_for_the_caller() {
        assert!(answer(Class::Request).for_caller.is_some());
        assert!(answer(Class::Server).for_caller.is_none());
    }
}
