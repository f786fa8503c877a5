//! Money set aside before a request runs, and its undoing (BILL-3).

mod holding;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use sea_orm::DbErr;
use switchboard_common::{
    clock::SharedClock,
    error::{Failure, Reason},
    ids::{RequestId, TenantName},
};
use switchboard_proto::billing::v1::{Party, ReserveRequest, ReserveResponse, Touch};
use switchboard_state::purses::{HoldTake, PurseValue, Purses, TouchItem, Unit};

use crate::{
    config::Config,
    domain::{
        budget::{group_owner, tenant_owner},
        expectation::Expectations,
        hold::{self, Ask, Bounds},
        rating::Factors,
    },
    observation::{KindLabel, Observation, OutcomeLabel},
    purse::{self, Purse},
    sheets::Sheets,
    store::Store,
    terms_cache::TermsCache,
};

/// Tenants that are told a group's spending, by group, at most.
const TENANTS_OF_A_GROUP: usize = 1_000;

/// Reserves, voids and touches.
#[derive(Clone)]
pub(crate) struct Reservations {
    pub(crate) store: Store,
    pub(crate) purses: Arc<dyn Purses>,
    pub(crate) sheets: Sheets,
    pub(crate) terms: TermsCache,
    pub(crate) clock: SharedClock,
    pub(crate) observation: Observation,
    pub(crate) expectations: Arc<Mutex<Expectations>>,
    /// Which tenants spend from a group that has budgets, as this process saw.
    pub(crate) group_tenants: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    bounds: Bounds,
    read_timeout: Duration,
    hold_patience: Duration,
}

impl Reservations {
    pub(crate) fn new(
        store: Store,
        purses: Arc<dyn Purses>,
        sheets: Sheets,
        terms: TermsCache,
        clock: SharedClock,
        observation: Observation,
        config: &Config,
    ) -> Self {
        Self {
            store,
            purses,
            sheets,
            terms,
            clock,
            observation,
            expectations: Arc::new(Mutex::new(Expectations::new(
                config.remembered_models,
                config.expected_output,
            ))),
            group_tenants: Arc::default(),
            bounds: Bounds {
                undeclared_output: config.undeclared_output,
                least_output: config.least_output,
            },
            read_timeout: config.read_timeout,
            hold_patience: config.hold_patience,
        }
    }

    /// Sets money aside.
    pub(crate) async fn reserve(
        &self,
        request: &ReserveRequest,
    ) -> Result<ReserveResponse, Failure> {
        let result = self.try_reserve(request).await;
        let outcome = match &result {
            Ok(_) => "held",
            Err(failure) => match failure.reason {
                Reason::InsufficientQuota => "insufficient_quota",
                Reason::QuotaExceeded => "quota_exceeded",
                Reason::Unavailable => "unavailable",
                _ => "refused",
            },
        };
        self.observation
            .reservations
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
        result
    }

    async fn try_reserve(&self, request: &ReserveRequest) -> Result<ReserveResponse, Failure> {
        let id = request_id(&request.request_id)?;
        let party = party(request.party.as_ref())?;
        let rates = self
            .bounded(self.sheets.get(request.price_version))
            .await?
            .ok_or_else(|| self.unpriced(request))?;
        let factors = Factors::from_wire(party.group_multiplier, party.user_multiplier);
        let ask = self.ask(request);
        let size = hold::size(&ask, self.bounds, &rates, factors);
        let purses = self.purses(party, id, request.prepaid).await?;
        let mut take = HoldTake {
            tenant: TenantName::from(party.tenant.as_str()),
            request: id,
            takes: purses.iter().map(|purse| purse.take(&size)).collect(),
        };
        let (nanos, tokens) = self.hold(&mut take, &purses, party, request.strict).await?;
        let holds = |unit: Unit| purses.iter().any(|purse| purse.kind.unit() == unit);
        let output_cap = if request.strict && !request.no_output && !request.uncapped {
            hold::output_cap(
                &ask,
                &size,
                holds(Unit::Nanos).then_some(nanos),
                holds(Unit::Tokens).then_some(tokens),
                &rates,
                factors,
            )
        } else {
            None
        };
        Ok(ReserveResponse {
            held_nanos: nanos,
            held_tokens: tokens,
            output_cap,
            estimated_tokens: size
                .input_tokens
                .saturating_add(size.output_tokens.saturating_mul(ask.choices)),
        })
    }

    fn ask(&self, request: &ReserveRequest) -> Ask {
        Ask {
            input_bytes: request.input_bytes,
            requested_output: request.requested_output,
            model_max_output: request.model_max_output,
            choices: u64::from(request.choices.max(1)),
            strict: request.strict,
            no_output: request.no_output,
            images: request.images,
            audio_millis: request.audio_millis,
            uncapped: request.uncapped,
            expected_output: self.expectations.lock().expected(&request.public_model),
        }
    }

    /// What purses are worth by SQL.
    pub(crate) async fn values(
        &self,
        tenant: &str,
        purses: &[&Purse],
    ) -> Result<Vec<PurseValue>, DbErr> {
        let mut values = Vec::with_capacity(purses.len());
        for purse in purses {
            values.push(match &purse.counted {
                None => {
                    purse::balance_value(self.store.wallet(&tenant_owner(tenant)).await?.as_ref())
                }
                Some(counted) => {
                    let budget = &counted.budget;
                    let row = self
                        .store
                        .window(
                            &counted.owner,
                            budget.kind.name(),
                            &budget.subject,
                            budget.span.name(),
                            counted.window.starts_ms,
                        )
                        .await?;
                    row.map_or_else(
                        || purse::empty_value(counted),
                        |row| purse::window_value(&row, counted.unit),
                    )
                }
            });
        }
        Ok(values)
    }

    /// The purses of a party; billing's own word and the caller's are enough to make it prepaid.
    pub(crate) async fn purses(
        &self,
        party: &Party,
        id: RequestId,
        prepaid: bool,
    ) -> Result<Vec<Purse>, Failure> {
        let tenant = self.owner_terms(&tenant_owner(&party.tenant)).await?;
        let group = if party.group.is_empty() {
            Arc::default()
        } else {
            self.owner_terms(&group_owner(&party.group)).await?
        };
        if !group.budgets.is_empty() {
            let mut known = self.group_tenants.lock();
            let tenants = known.entry(party.group.clone()).or_default();
            if tenants.len() < TENANTS_OF_A_GROUP && !tenants.contains(&party.tenant) {
                tenants.insert(party.tenant.clone());
            }
        }
        Ok(purse::purses(
            party,
            id.unix_ms(),
            prepaid || tenant.prepaid,
            &tenant,
            &group,
        ))
    }

    async fn owner_terms(&self, owner: &str) -> Result<Arc<crate::store::Terms>, Failure> {
        match tokio::time::timeout(self.read_timeout, self.terms.get(owner)).await {
            Ok(Ok(terms)) => Ok(terms),
            Ok(Err(error)) => {
                tracing::warn!(%error, owner, "budgets cannot be read");
                Err(unavailable(
                    "budgets cannot be read right now; try again shortly",
                ))
            }
            Err(_) => Err(unavailable(
                "budgets cannot be read right now; try again shortly",
            )),
        }
    }

    async fn bounded<T>(&self, read: impl Future<Output = Result<T, DbErr>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.read_timeout, read).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                tracing::warn!(%error, "billing's database cannot be read");
                Err(unavailable(
                    "prices and balances cannot be read right now; try again shortly",
                ))
            }
            Err(_) => Err(unavailable(
                "prices and balances cannot be read right now; try again shortly",
            )),
        }
    }

    fn unpriced(&self, request: &ReserveRequest) -> Failure {
        self.observation
            .unpriced
            .get_or_create(&KindLabel { kind: "price" })
            .inc();
        tracing::error!(
            model = %request.public_model,
            price_version = request.price_version,
            "a model without a price was asked for and refused"
        );
        Failure::new(
            Reason::Unavailable,
            format!(
                "model {} has no price and is refused, never free; an administrator must give it one",
                request.public_model
            ),
        )
        .param("model")
    }

    /// Gives a hold back.
    pub(crate) async fn void(&self, tenant: &str, id: &str) -> Result<(), Failure> {
        if tenant.is_empty() {
            return Err(invalid("tenant", "the tenant's name"));
        }
        self.purses
            .void(&TenantName::from(tenant), request_id(id)?)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "a hold cannot be given back: the state store is away");
                unavailable("the hold cannot be given back right now; try again shortly")
            })
    }

    /// Signs of life. Gives the ids that the state store has.
    pub(crate) async fn touch(&self, touches: Vec<Touch>) -> Vec<String> {
        let mut items = Vec::with_capacity(touches.len());
        let mut ids = Vec::with_capacity(touches.len());
        for touch in touches {
            let Ok(request) = request_id(&touch.request_id) else {
                tracing::warn!("a touch without a request id is dropped");
                continue;
            };
            match self.touch_item(&touch, request).await {
                Ok(item) => {
                    items.push(item);
                    ids.push(touch.request_id);
                }
                Err(failure) => {
                    tracing::warn!(%failure, request_id = %request, "a touch is not passed on")
                }
            }
        }
        match self.purses.touch(&items).await {
            Ok(()) => ids,
            Err(error) => {
                tracing::warn!(%error, "touches are not passed on: the state store is away");
                Vec::new()
            }
        }
    }

    async fn touch_item(&self, touch: &Touch, request: RequestId) -> Result<TouchItem, Failure> {
        let named = touch.draft.as_ref().and_then(|draft| draft.party.as_ref());
        if touch.tenant.is_empty() || named.is_some_and(|party| party.tenant != touch.tenant) {
            return Err(invalid("tenant", "the tenant of the draft's party"));
        }
        let (takes, draft) = match &touch.draft {
            None => (Vec::new(), bytes::Bytes::new()),
            Some(draft) => {
                let purses = match &draft.party {
                    Some(party) => self.purses(party, request, false).await?,
                    None => Vec::new(),
                };
                let takes = purses
                    .iter()
                    .map(|purse| purse.held(touch.held_nanos, touch.held_tokens))
                    .collect();
                (takes, prost::Message::encode_to_vec(draft).into())
            }
        };
        Ok(TouchItem {
            tenant: TenantName::from(touch.tenant.as_str()),
            request,
            takes,
            draft,
        })
    }
}

fn party(party: Option<&Party>) -> Result<&Party, Failure> {
    party
        .filter(|party| !party.tenant.is_empty())
        .ok_or_else(|| invalid("party.tenant", "the tenant's name"))
}

fn request_id(text: &str) -> Result<RequestId, Failure> {
    text.parse()
        .ok()
        .filter(|id: &RequestId| id.as_uuid().get_version_num() == 7)
        .ok_or_else(|| invalid("request_id", "a UUIDv7"))
}

fn invalid(param: &str, expected: &str) -> Failure {
    Failure::new(
        Reason::InvalidRequest,
        format!("{param}: expected {expected}"),
    )
    .param(param)
}

fn unavailable(message: &str) -> Failure {
    Failure::new(Reason::Unavailable, message).retry_after(Duration::from_secs(1))
}
