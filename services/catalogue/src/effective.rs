//! What holds once the documented defaults are filled in.

use std::time::Duration;

use crate::accounts::{Account, AccountStatus, Concurrency};
use crate::amount::Multiplier;
use crate::catalogue::Catalogue;
use crate::decode::Decode;
use crate::dialect::Dialect;
use crate::groups::{Group, Scheduling, ScoreWeights};
use crate::limits::Limits;
use crate::models::{CommitAfter, Defaults, Model, Queue, QueueBound, Target, Timeouts};
use crate::prices::Price;
use crate::tenants::{Hold, Key, Tenant};

/// Attempts at most where a model says nothing.
const MAX_ATTEMPTS: u32 = 3;
/// When headers go out at the latest where nobody says anything (FWD-3).
const COMMIT_AFTER: Duration = Duration::from_secs(15);

/// A model's time limits, all of them (FWD-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTimeouts {
    /// Until connected.
    pub connect: Duration,
    /// Until the upstream's first byte.
    pub first_byte: Duration,
    /// Between two reads of the upstream's bytes.
    pub idle: Duration,
    /// Until the caller takes a byte.
    pub write: Duration,
    /// For the whole request.
    pub total: Duration,
}

/// What holds for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveModel {
    /// Time limits.
    pub timeouts: EffectiveTimeouts,
    /// When headers and keep-alives go out at the latest; `None`: never before the first content.
    pub commit_after: Option<Duration>,
    /// Attempts at most, the first one included.
    pub max_attempts: u32,
    /// Where requests wait; `None`: nowhere.
    pub queue: Option<QueueBound>,
    /// Declared output tokens at most; `None`: not declared.
    pub max_output: Option<u64>,
}

impl Model {
    /// What holds for the model, the catalogue's and the documented defaults filled in.
    pub fn effective(&self, defaults: &Defaults) -> EffectiveModel {
        let pick = |field: fn(&Timeouts) -> Option<crate::Duration>, documented: u64| {
            self.timeouts
                .as_ref()
                .and_then(field)
                .or_else(|| defaults.timeouts.as_ref().and_then(field))
                .map_or(Duration::from_secs(documented), crate::Duration::as_std)
        };
        EffectiveModel {
            timeouts: EffectiveTimeouts {
                connect: pick(|timeouts| timeouts.connect, 5),
                first_byte: pick(|timeouts| timeouts.first_byte, 60),
                idle: pick(|timeouts| timeouts.idle, 60),
                write: pick(|timeouts| timeouts.write, 60),
                total: pick(|timeouts| timeouts.total, 900),
            },
            commit_after: match self
                .commit_after
                .as_ref()
                .or(defaults.commit_after.as_ref())
            {
                None => Some(COMMIT_AFTER),
                Some(CommitAfter::Never) => None,
                Some(CommitAfter::After(duration)) => Some(duration.as_std()),
            },
            max_attempts: self.max_attempts.unwrap_or(MAX_ATTEMPTS),
            queue: match &self.queue {
                None => Some(QueueBound::fallback()),
                Some(Queue::None) => None,
                Some(Queue::Bounded(bound)) => Some(bound.clone()),
            },
            max_output: self.max_output,
        }
    }
}

impl Target {
    /// The model's name upstream, for a public name as [`crate::NameIndex`] resolved it.
    pub fn upstream_model<'t>(&'t self, public_name: &'t str) -> &'t str {
        self.model.as_deref().unwrap_or(public_name)
    }
}

impl Account {
    /// The dialects it speaks: as written, else by provider.
    pub fn dialects(&self) -> &[Dialect] {
        self.dialects
            .as_deref()
            .unwrap_or_else(|| Dialect::defaults_of(self.provider))
    }

    /// Slots: the smaller of `concurrency` and `limits.concurrency`; `None`: no limit (also while `auto` has no effect).
    pub fn slots(&self) -> Option<u32> {
        let own = match self.concurrency {
            Some(Concurrency::Slots(slots)) => Some(slots),
            Some(Concurrency::Auto) | None => None,
        };
        let limit = self.limits.as_ref().and_then(|limits| limits.concurrency);
        match (own, limit) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (own, limit) => own.or(limit),
        }
    }

    /// The longest rest after failures; zero: it never rests.
    pub fn cooldown_max(&self) -> Duration {
        self.cooldown
            .as_ref()
            .map_or(Duration::from_secs(600), |cooldown| cooldown.max.as_std())
    }

    /// Whether it takes new requests.
    pub fn is_active(&self) -> bool {
        self.status == AccountStatus::Active
    }
}

impl Group {
    /// How its targets are chosen, defaults filled in.
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling.clone().unwrap_or_else(Scheduling::fallback)
    }

    /// What prices are multiplied by.
    pub fn multiplier(&self) -> Multiplier {
        self.multiplier.unwrap_or(Multiplier::ONE)
    }
}

impl Scheduling {
    /// The weights of the score's factors, defaults filled in.
    pub fn weights(&self) -> ScoreWeights {
        self.weights.clone().unwrap_or_else(ScoreWeights::fallback)
    }
}

impl Tenant {
    /// Whether it pays in advance.
    pub const fn is_prepaid(&self) -> bool {
        self.balance.is_some()
    }

    /// How much is set aside before a request runs: as written, else strict when prepaid.
    pub fn hold(&self) -> Hold {
        match self.hold {
            Some(hold) => hold,
            None if self.is_prepaid() => Hold::Strict,
            None => Hold::Estimate,
        }
    }
}

impl Catalogue {
    /// A key's limits: its own, else its profile's.
    pub fn key_limits(&self, key: &Key) -> Option<Limits> {
        key.limits.clone().or_else(|| {
            let profile = key.profile.as_deref()?;
            self.limit_profiles
                .iter()
                .find(|known| known.name == profile)
                .map(|known| known.limits())
        })
    }

    /// What callers pay for a model under a public name (as resolved): its own sheet, else its price list's entry for that
    /// name. `None`: no price, so the request must be refused.
    pub fn price<'c>(&'c self, model: &'c Model, public_name: &str) -> Option<&'c Price> {
        match (&model.price, &model.price_list) {
            (Some(price), _) => Some(price),
            (None, Some(list)) => self
                .price_lists
                .iter()
                .find(|known| known.name == *list)?
                .price(public_name),
            (None, None) => None,
        }
    }

    /// What an upstream model costs us on an account, and the factor to apply: the account's own sheet as it is, else list
    /// price times `cost_factor`. List price is an entry for the upstream model in the model's price list, else in any list
    /// in their order, else the public model's price (BILL-2).
    pub fn cost<'c>(
        &'c self,
        account: &'c Account,
        upstream_model: &str,
        model: &'c Model,
        public_name: &str,
    ) -> Option<(&'c Price, Multiplier)> {
        if let Some(own) = account.costs.get(upstream_model) {
            return Some((own, Multiplier::ONE));
        }
        let named = model.price_list.as_deref();
        let first = self
            .price_lists
            .iter()
            .filter(|list| Some(list.name.as_str()) == named);
        let listed = first
            .chain(self.price_lists.iter())
            .find_map(|list| list.price(upstream_model));
        listed
            .or_else(|| self.price(model, public_name))
            .map(|price| (price, account.cost_factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Catalogue {
        crate::parse(include_str!("../tests/fixtures/full.yaml"), "full.yaml")
            .unwrap()
            .catalogue
    }

    #[test]
    fn documented_defaults_hold_where_nothing_is_written() {
        let model: Model = serde_json::from_str(r#"{"name": "m"}"#).unwrap();
        let effective = model.effective(&Catalogue::default().defaults);
        let secs = Duration::from_secs;
        let timeouts = EffectiveTimeouts {
            connect: secs(5),
            first_byte: secs(60),
            idle: secs(60),
            write: secs(60),
            total: secs(900),
        };
        assert_eq!(effective.timeouts, timeouts);
        assert_eq!(effective.commit_after, Some(secs(15)));
        assert_eq!(effective.max_attempts, 3);
        let queue = effective.queue.unwrap();
        assert_eq!((queue.depth, queue.wait.as_std()), (2000, secs(30)));
        let account: Account =
            serde_json::from_str(r#"{"name": "a", "provider": "openai"}"#).unwrap();
        assert_eq!(
            (account.slots(), account.cooldown_max(), account.priority),
            (None, secs(600), 0)
        );
    }

    #[test]
    fn a_model_overrides_one_timeout_and_keeps_the_others() {
        let catalogue = crate::parse(
            "defaults: {timeouts: {connect: 1s, idle: 2s}, commit_after: never}",
            "t",
        )
        .unwrap()
        .catalogue;
        let model: Model =
            serde_json::from_str(r#"{"name": "m", "timeouts": {"idle": "7s"}, "queue": "none"}"#)
                .unwrap();
        let effective = model.effective(&catalogue.defaults);
        assert_eq!(effective.timeouts.connect, Duration::from_secs(1));
        assert_eq!(effective.timeouts.idle, Duration::from_secs(7));
        assert_eq!(effective.timeouts.total, Duration::from_secs(900));
        assert_eq!((effective.commit_after, effective.queue), (None, None));
    }

    #[test]
    fn cost_is_the_accounts_else_list_price_else_public_price() {
        let catalogue = full();
        let account = |name: &str| {
            catalogue
                .accounts
                .iter()
                .find(|account| account.name == name)
                .unwrap()
        };
        let model = |name: &str| {
            catalogue
                .models
                .iter()
                .find(|model| model.name == name)
                .unwrap()
        };
        let input = |account_name: &str, upstream: &str, public: &str| {
            let (price, factor) = catalogue
                .cost(account(account_name), upstream, model(public), public)
                .unwrap();
            assert_eq!(factor, Multiplier::ONE);
            price.input.unwrap().to_string()
        };
        assert_eq!(input("openai-main", "gpt-4o", "text-gen-default"), "2.5");
        assert_eq!(
            input("openai-main", "gpt-4o-mini", "text-gen-default"),
            "0.15"
        );
        assert_eq!(input("local-gpu", "qwen3-8b", "text-gen-cheap"), "0.15");
        assert_eq!(
            input("openai-main", "text-embedding-3-small", "embed-default"),
            "0.02"
        );
        assert!(
            catalogue
                .price(model("gpt-*"), "gpt-4o-2024-08-06")
                .is_some()
        );
        assert!(catalogue.price(model("gpt-*"), "gpt-unknown").is_none());
    }
}
