//! A settlement, priced: what it charges, what its attempts cost, and what becomes of it beside what is recorded (BILL-4).

use std::{collections::BTreeMap, sync::Arc};

use switchboard_common::ids::RequestId;
use switchboard_proto::{
    billing::v1::{ModelUsage, Party, Settlement},
    common::v1::{Usage, UsageSource},
    scheduler::v1::Rates,
};

use super::{
    ledger::{Account, Entry, OutOfRange, Wallet, post_costs},
    rating::{Factors, Overflow, counted_tokens, rate},
    window,
};

/// No honest count reaches it; beyond it sums of a window could leave 64 bits.
const MOST_TOKENS: u64 = 1_000_000_000_000;
/// A request that charges or costs more (one million USD) is a mistake of a sheet or a count.
const MOST_NANOS: i64 = 1_000_000_000_000_000;
/// Texts that callers or upstreams wrote are stored up to this many bytes.
const MOST_TEXT: usize = 64 * 1024;

/// Why a settlement cannot be booked. It goes to the dead letters, where someone must look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// It makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It charges, but no price is known for it.
    #[error("price version {0} is unknown")]
    Unpriced(u64),
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

impl Problem {
    /// The dead letter's kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Unpriced(_) | Self::Overflow(_) => "unrated",
        }
    }
}

/// A settlement that cannot be booked, whole again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct Refused {
    pub(crate) problem: Problem,
    pub(crate) settlement: Settlement,
}

/// A settlement that makes sense: its id is one, it has a party, its counts are counts.
#[derive(Clone, Debug)]
pub(crate) struct Valid {
    pub(crate) id: RequestId,
    /// Admission, Unix milliseconds: decides windows and the rows' day.
    pub(crate) at_ms: i64,
    pub(crate) party: Party,
    /// `party` taken out; texts are bounded and storable.
    pub(crate) settlement: Settlement,
}

impl Valid {
    pub(crate) fn new(mut settlement: Settlement) -> Result<Self, Box<Refused>> {
        match check(&settlement) {
            Ok(id) => {
                let mut party = settlement.party.take().unwrap_or_default();
                make_storable(&mut settlement, &mut party);
                Ok(Self {
                    id,
                    at_ms: id.unix_ms(),
                    party,
                    settlement,
                })
            }
            Err(problem) => Err(Box::new(Refused {
                problem,
                settlement,
            })),
        }
    }

    /// The settlement whole again, for the dead letters.
    pub(crate) fn into_settlement(self) -> Settlement {
        Settlement {
            party: Some(self.party),
            ..self.settlement
        }
    }

    /// Whether the caller pays by the price sheet.
    pub(crate) fn charges(&self) -> bool {
        !self.settlement.charge_nothing && self.settlement.usage.is_some()
    }

    /// Prices it. `sheet` gives the sheet of a version; an attempt without one costs nothing that we know of.
    pub(crate) fn price(
        mut self,
        price: Option<&Rates>,
        sheet: impl Fn(u64) -> Option<Arc<Rates>>,
    ) -> Result<Priced, Box<Refused>> {
        self.measure(price, &sheet);
        match self.amounts(price, sheet) {
            Ok(amounts) => Ok(Priced {
                amounts,
                valid: self,
            }),
            Err(problem) => Err(Box::new(Refused {
                problem,
                settlement: self.into_settlement(),
            })),
        }
    }

    /// Where a sheet prices seconds and the upstream told none, the length that the request's own bytes tell holds: what is
    /// priced is never free (BILL-2).
    fn measure(&mut self, price: Option<&Rates>, cost: impl Fn(u64) -> Option<Arc<Rates>>) {
        let told = self.settlement.audio_millis;
        let measure = |usage: &mut Option<Usage>, source: &mut i32, rates: Option<&Rates>| {
            if let (Some(usage), Some(rates)) = (usage, rates)
                && told > 0
                && rates.per_second.is_some()
                && usage.audio_millis.is_none()
            {
                usage.audio_millis = Some(told);
                *source = UsageSource::Estimated as i32;
            }
        };
        let settlement = &mut self.settlement;
        measure(&mut settlement.usage, &mut settlement.usage_source, price);
        for attempt in &mut settlement.attempts {
            let rates = cost(attempt.cost_version);
            measure(
                &mut attempt.usage,
                &mut attempt.usage_source,
                rates.as_deref(),
            );
        }
    }

    fn amounts(
        &self,
        price: Option<&Rates>,
        sheet: impl Fn(u64) -> Option<Arc<Rates>>,
    ) -> Result<Amounts, Problem> {
        let mut amounts = Amounts::default();
        if self.charges()
            && let Some(usage) = &self.settlement.usage
        {
            let rates = price.ok_or(Problem::Unpriced(self.settlement.price_version))?;
            let factors =
                Factors::from_wire(self.party.group_multiplier, self.party.user_multiplier);
            amounts.charge_nanos = match self.settlement.models.as_slice() {
                [] => bounded(rate(rates, usage, factors)?.0)?,
                models => by_models(models, rates, |part| sheet(part.price_version), factors)?,
            };
            amounts.counted_tokens = i64::try_from(counted_tokens(usage)).map_err(|_| Overflow)?;
        }
        // What several models made is the last attempt's.
        let last = self.settlement.attempts.len().saturating_sub(1);
        for (at, attempt) in self.settlement.attempts.iter().enumerate() {
            let models = self.settlement.models.as_slice();
            let nanos = match (&attempt.usage, sheet(attempt.cost_version)) {
                (Some(_), Some(rates)) if at == last && !models.is_empty() => by_models(
                    models,
                    &rates,
                    |part| sheet(part.cost_version),
                    Factors::ONE,
                )?,
                (Some(usage), Some(rates)) => rate(&rates, usage, Factors::ONE)?.0,
                _ => 0,
            };
            amounts.cost_nanos = bounded(amounts.cost_nanos.saturating_add(nanos))?;
            if nanos != 0 {
                *amounts.costs.entry(attempt.account.clone()).or_default() += nanos;
            }
            amounts.attempt_costs.push(nanos);
        }
        Ok(amounts)
    }
}

/// Each model's part at its own sheet, or at the one of what was asked for where it has none (CASES A24). What a request costs as
/// such counts once.
fn by_models(
    models: &[ModelUsage],
    own: &Rates,
    sheet: impl Fn(&ModelUsage) -> Option<Arc<Rates>>,
    factors: Factors,
) -> Result<i64, Overflow> {
    let request = Rates {
        per_request: own.per_request,
        ..Rates::default()
    };
    let mut nanos = rate(&request, &Usage::default(), factors)?.0;
    for part in models {
        let rates = sheet(part);
        let mut rates = rates.map_or_else(|| *own, |rates| *rates);
        rates.per_request = None;
        let usage = part.usage.unwrap_or_default();
        nanos = bounded(nanos.saturating_add(rate(&rates, &usage, factors)?.0))?;
    }
    bounded(nanos)
}

fn bounded(nanos: i64) -> Result<i64, Overflow> {
    if nanos <= MOST_NANOS {
        Ok(nanos)
    } else {
        Err(Overflow)
    }
}

fn check(settlement: &Settlement) -> Result<RequestId, Problem> {
    let invalid = |what: &str| Problem::Invalid(what.to_owned());
    let id: RequestId = settlement
        .request_id
        .parse()
        .map_err(|_| invalid("request_id is no UUID"))?;
    if id.as_uuid().get_version_num() != 7 {
        return Err(invalid(
            "request_id is no UUIDv7: it does not tell when the request was admitted",
        ));
    }
    let party = settlement
        .party
        .as_ref()
        .ok_or_else(|| invalid("party is missing"))?;
    if party.tenant.is_empty() {
        return Err(invalid("party.tenant is empty"));
    }
    let usages = settlement
        .attempts
        .iter()
        .filter_map(|attempt| attempt.usage.as_ref());
    let models = settlement
        .models
        .iter()
        .filter_map(|part| part.usage.as_ref());
    for usage in usages.chain(settlement.usage.as_ref()).chain(models) {
        if counts(usage)
            .into_iter()
            .flatten()
            .any(|count| count > MOST_TOKENS)
        {
            return Err(invalid("a count of usage is beyond 10^12"));
        }
    }
    if settlement.audio_millis > MOST_TOKENS {
        return Err(invalid("the length of audio is beyond 10^12"));
    }
    let mut numbers: Vec<_> = settlement
        .attempts
        .iter()
        .map(|attempt| attempt.number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() != settlement.attempts.len() {
        return Err(invalid("two attempts bear the same number"));
    }
    Ok(id)
}

/// A settlement with its amounts.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) valid: Valid,
    pub(crate) amounts: Amounts,
}

/// What a settlement charges and costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts {
    pub(crate) charge_nanos: i64,
    pub(crate) cost_nanos: i64,
    /// What budgets in tokens count.
    pub(crate) counted_tokens: i64,
    /// Of each attempt, in order.
    pub(crate) attempt_costs: Vec<i64>,
    /// By upstream account.
    pub(crate) costs: BTreeMap<String, i64>,
}

/// What a request's row says already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) key_id: String,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) provisional: bool,
    pub(crate) charge_nanos: i64,
    pub(crate) counted_tokens: i64,
    pub(crate) costs: BTreeMap<String, i64>,
}

/// What a settlement adds to the books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Movement {
    pub(crate) charge_nanos: i64,
    pub(crate) counted_tokens: i64,
    pub(crate) costs: BTreeMap<String, i64>,
}

/// What becomes of a settlement whose request has a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The real one takes a provisional one's place; this is the difference.
    Replace(Movement),
    /// It was applied before.
    Duplicate,
    /// Another request under the same id.
    Conflict,
}

impl Priced {
    pub(crate) fn day(&self) -> i64 {
        window::day(self.valid.at_ms)
    }

    /// Everything: the request has no row yet.
    pub(crate) fn whole(&self) -> Movement {
        Movement {
            charge_nanos: self.amounts.charge_nanos,
            counted_tokens: self.amounts.counted_tokens,
            costs: self.amounts.costs.clone(),
        }
    }

    /// Beside what is recorded.
    pub(crate) fn beside(&self, recorded: &Recorded) -> Fate {
        if recorded.key_id != self.valid.party.key_id
            || recorded.fingerprint != self.valid.settlement.fingerprint
        {
            return Fate::Conflict;
        }
        if !recorded.provisional || self.valid.settlement.provisional {
            return Fate::Duplicate;
        }
        let mut costs = self.amounts.costs.clone();
        for (account, nanos) in &recorded.costs {
            *costs.entry(account.clone()).or_default() -= nanos;
        }
        costs.retain(|_, nanos| *nanos != 0);
        Fate::Replace(Movement {
            charge_nanos: self.amounts.charge_nanos - recorded.charge_nanos,
            counted_tokens: self.amounts.counted_tokens - recorded.counted_tokens,
            costs,
        })
    }
}

impl Movement {
    /// The ledger's lines, and the wallet after them. They sum to zero.
    pub(crate) fn post(&self, tenant: &str, wallet: &mut Wallet) -> Result<Vec<Entry>, OutOfRange> {
        let taken = self.charge_nanos.checked_neg().ok_or(OutOfRange)?;
        let mut after = *wallet;
        let mut entries = after.post(tenant, Account::Revenue, taken)?;
        post_costs(
            &mut entries,
            self.costs.iter().map(|(account, nanos)| (account, *nanos)),
        )?;
        *wallet = after;
        Ok(entries)
    }
}

fn counts(usage: &Usage) -> [Option<u64>; 10] {
    [
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.audio_input_tokens,
        usage.audio_output_tokens,
        usage.images,
        usage.audio_millis,
    ]
}

/// No text may keep a settlement out of the books: what a store cannot take is replaced, what is too long is cut.
fn make_storable(settlement: &mut Settlement, party: &mut Party) {
    let texts = [
        &mut settlement.client_request_id,
        &mut settlement.public_model,
        &mut settlement.error_code,
        &mut settlement.usage_raw,
        &mut settlement.decision_json,
        &mut settlement.trace_id,
        &mut settlement.tags,
        &mut party.tenant,
        &mut party.user,
        &mut party.key_id,
        &mut party.key_name,
        &mut party.app,
        &mut party.group,
        &mut party.cost_center,
    ];
    let attempts = settlement.attempts.iter_mut().flat_map(|attempt| {
        [
            &mut attempt.account,
            &mut attempt.upstream_model,
            &mut attempt.error,
        ]
    });
    for text in texts.into_iter().chain(attempts) {
        if text.contains('\0') {
            *text = text.replace('\0', "\u{FFFD}");
        }
        if text.len() > MOST_TEXT {
            text.truncate(text.floor_char_boundary(MOST_TEXT));
        }
    }
}

#[cfg(test)]
#[path = "booking_tests.rs"]
mod tests;
