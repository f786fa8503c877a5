//! What an attempt taught about its account (SCHED-9, SCHED-11).

/// Who was at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody: it went well, or the caller left.
    Nobody,
    /// The account.
    Account,
    /// The model at that account.
    Model,
    /// The upstream's host.
    Host,
    /// The request itself.
    Request,
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// 429.
    RateLimited,
    /// 401, 403.
    Credential,
    /// 402, or quota used up.
    Quota,
    /// 529, or overloaded.
    Overloaded,
    /// 5xx.
    Server,
    /// Refused, reset, cut.
    Network,
    /// Too late.
    Timeout,
    /// The caller's mistake.
    Request,
    /// The account's address may not be called.
    Address,
}

/// One attempt's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The upstream's HTTP status; 0: none came.
    pub status: u32,
    /// Who was at fault.
    pub blame: Blame,
    /// How it failed; absent: it did not.
    pub failed: Option<Failed>,
    /// What the upstream asked for.
    pub retry_after_ms: Option<u64>,
    /// From sending to first content.
    pub first_token_us: Option<u64>,
}

impl Outcome {
    /// Whether it counts for the target's health, and as what: `Some(true)` went well, `Some(false)` failed by the upstream's
    /// fault, `None` says nothing about it (a caller's mistake, a caller who left).
    #[must_use]
    pub fn health(&self) -> Option<bool> {
        match (self.failed, self.blame) {
            (None, Blame::Nobody) => (200..300).contains(&self.status).then_some(true),
            (Some(_), Blame::Account | Blame::Model | Blame::Host) => Some(false),
            _ => None,
        }
    }
}
