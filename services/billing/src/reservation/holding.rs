//! One hold on a request's purses: asked of the state store, waited for a little, refused in words (BILL-3).

use std::time::Duration;

use switchboard_common::{
    error::{Failure, Reason},
    money::NanoUsd,
};
use switchboard_proto::billing::v1::Party;
use switchboard_state::purses::{HoldGrant, HoldTake, Unit};
use tokio::time::Instant;

use super::{Reservations, unavailable};
use crate::{purse::Purse, store::rfc3339};

/// A purse that stays unknown although it was loaded this often is the state store's trouble.
const LOADS: usize = 3;
/// A hold that is waited for is asked for again after this long.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The state store's word on a hold.
enum Granted {
    Held {
        nanos: i64,
        tokens: i64,
    },
    /// Which purse has the least, what that is, and what others hold of it.
    Short {
        index: usize,
        available: i64,
        held: i64,
    },
}

impl Reservations {
    /// Holds what is wanted, or as much of it as there is. An answer that just ended is settled a moment later: before a
    /// request is refused, or its answer would be cut short (strict), it waits a little for what others hold to come back.
    pub(super) async fn hold(
        &self,
        take: &mut HoldTake,
        purses: &[Purse],
        party: &Party,
        strict: bool,
    ) -> Result<(i64, i64), Failure> {
        let patient_until = Instant::now() + self.hold_patience;
        let mut least: Vec<_> = take.takes.iter().map(|take| take.min).collect();
        if strict {
            for take in &mut take.takes {
                take.min = take.want;
            }
        }
        loop {
            let (index, available, held) = match self.grant(take, purses, party).await? {
                Granted::Held { nanos, tokens } => return Ok((nanos, tokens)),
                Granted::Short {
                    index,
                    available,
                    held,
                } => (index, available, held),
            };
            let need = take.takes.get(index).map_or(0, |take| take.min);
            let may_come_back = held > 0 && available.saturating_add(held) >= need;
            if may_come_back && Instant::now() < patient_until {
                tokio::time::sleep(ASKED_AGAIN_AFTER.min(self.hold_patience)).await;
            } else if least.is_empty() {
                return Err(self.short(purses.get(index), available, need, party));
            } else {
                for (take, min) in take.takes.iter_mut().zip(least.drain(..)) {
                    take.min = min;
                }
            }
        }
    }

    /// Asks the state store, loading what it does not know.
    async fn grant(
        &self,
        take: &HoldTake,
        purses: &[Purse],
        party: &Party,
    ) -> Result<Granted, Failure> {
        for _ in 0..=LOADS {
            let grant = self.purses.reserve(take).await.map_err(|error| {
                tracing::warn!(%error, "holds are refused: the state store is away");
                unavailable("holds cannot be made right now; try again shortly")
            })?;
            match grant {
                HoldGrant::Held {
                    amount_nanos,
                    tokens,
                } => {
                    return Ok(Granted::Held {
                        nanos: amount_nanos,
                        tokens,
                    });
                }
                HoldGrant::Short {
                    index,
                    available,
                    held,
                } => {
                    return Ok(Granted::Short {
                        index,
                        available,
                        held,
                    });
                }
                HoldGrant::Gone => {
                    return Err(Failure::new(
                        Reason::Conflict,
                        "this request was already settled or given back; a new request needs a new id",
                    )
                    .param("request_id"));
                }
                HoldGrant::Unknown { indexes } => {
                    let unknown: Vec<_> = indexes
                        .iter()
                        .filter_map(|index| purses.get(*index))
                        .collect();
                    let values = self.bounded(self.values(&party.tenant, &unknown)).await?;
                    self.purses.load(&take.tenant, &values).await.map_err(|error| {
                        tracing::warn!(%error, "purses cannot be loaded: the state store is away");
                        unavailable("holds cannot be made right now; try again shortly")
                    })?;
                }
            }
        }
        tracing::error!(tenant = %party.tenant, "purses stay unknown to the state store after they were loaded");
        Err(unavailable(
            "holds cannot be made right now; try again shortly",
        ))
    }

    fn short(&self, purse: Option<&Purse>, available: i64, need: i64, party: &Party) -> Failure {
        let Some(counted) = purse.and_then(|purse| purse.counted.as_ref()) else {
            return Failure::new(
                Reason::InsufficientQuota,
                format!(
                    "the balance of tenant {} is used up: {} USD left, this request needs at least {} USD",
                    party.tenant,
                    NanoUsd(available),
                    NanoUsd(need),
                ),
            );
        };
        let shown = |value: i64| match counted.unit {
            Unit::Nanos => format!("{} USD", NanoUsd(value)),
            Unit::Tokens => format!("{value} tokens"),
        };
        let limit = match counted.unit {
            Unit::Nanos => counted.budget.amount_nanos,
            Unit::Tokens => counted.budget.tokens,
        };
        let wait = counted
            .window
            .ends_ms
            .saturating_sub(self.clock.now_ms())
            .max(1);
        Failure::new(
            Reason::QuotaExceeded,
            format!(
                "the budget of {} for this {} (UTC) is used up: {} of {} left, this request needs at least {}; it resets at {}",
                counted.whose(&party.tenant),
                counted.budget.span.name(),
                shown(available.max(0)),
                shown(limit.unwrap_or(0)),
                shown(need),
                rfc3339(counted.window.ends_ms),
            ),
        )
        .retry_after(Duration::from_millis(u64::try_from(wait).unwrap_or(1)))
    }
}
