//! What one catalogue version offers, compiled for look-ups whose cost does not grow with it (PERF-4).
//!
//! A [`Supply`] never changes: a request pins one and keeps it (ROUTE-1). It points at [`Known`] cells, which do change and are
//! shared by all versions: what is known of an account's load and health is no part of a version.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use switchboard_catalogue::{Operation, without_date};
use switchboard_common::ids::{AccountName, GroupName, ModelName};
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    scheduler::v1::{CatalogueSnapshot, ErrorRule, ModelSheets, Parameters, proxy},
};

use super::{
    draw::Policy,
    known::{AccountKnown, TargetKnown},
    limits::Ceilings,
    score::Weights,
};

/// A set of dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DialectSet(u32);

impl DialectSet {
    /// The set with one more.
    #[must_use]
    pub fn with(self, dialect: Dialect) -> Self {
        Self(self.0 | (1 << (dialect as i32 as u32 & 31)))
    }

    /// Whether it holds the dialect.
    #[must_use]
    pub fn has(self, dialect: Dialect) -> bool {
        self.0 & (1 << (dialect as i32 as u32 & 31)) != 0
    }
}

impl FromIterator<Dialect> for DialectSet {
    fn from_iter<I: IntoIterator<Item = Dialect>>(dialects: I) -> Self {
        dialects.into_iter().fold(Self::default(), Self::with)
    }
}

/// The dialects between which calls for an answer are translated (SPEC DIAL-1), in the order in which an account that speaks
/// several is asked: the one that carries most of the others first.
const TRANSLATED: [Dialect; 4] = [
    Dialect::OpenaiChat,
    Dialect::OpenaiResponses,
    Dialect::AnthropicMessages,
    Dialect::GeminiGenerate,
];

/// The dialect in which an account that speaks `spoken` is asked for a caller's `asked`: the same one, else one into which the
/// call can be translated. Only calls for an answer can; counting tokens, or a response that exists, is a dialect's own.
#[must_use]
pub fn upstream_dialect(asked: Dialect, endpoint: Endpoint, spoken: DialectSet) -> Option<Dialect> {
    if spoken.has(asked) {
        return Some(asked);
    }
    let answers = matches!(endpoint, Endpoint::Unspecified | Endpoint::Stream);
    if !answers || !TRANSLATED.contains(&asked) {
        return None;
    }
    TRANSLATED.into_iter().find(|dialect| spoken.has(*dialect))
}

/// A set of capabilities, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Whether everything in `needed` is in here.
    #[must_use]
    pub fn cover(self, needed: Self) -> bool {
        needed.0 & !self.0 == 0
    }
}

/// Whether an account takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    /// It does.
    Active,
    /// It finishes what runs.
    Draining,
    /// It does not.
    Disabled,
}

/// One upstream identity, with all that an attempt needs to know.
#[derive(Debug)]
pub struct Account {
    /// Its name.
    pub name: AccountName,
    /// `openai`, `anthropic`, …
    pub provider: &'static str,
    /// Whether it takes requests.
    pub status: AccountStatus,
    /// Slots; absent: not limited.
    pub concurrency: Option<u64>,
    /// Its own rate limits.
    pub limits: Ceilings,
    /// Soft preference, lower is preferred.
    pub priority: u32,
    /// What it speaks.
    pub dialects: DialectSet,
    /// The address of each call of each dialect it speaks, `{model}` standing for the upstream's name of the model.
    pub urls: HashMap<(Dialect, Operation), String>,
    /// Whether its address may be private.
    pub allow_private_address: bool,
    /// Through whom it is reached; absent: directly.
    pub proxy: Option<proxy::Place>,
    /// Header name and format of the credential; absent: none is needed.
    pub credential: Option<(String, String)>,
    /// The longest cooldown; zero: never cooled.
    pub cooldown_max: Duration,
    /// What it understands of a request's parameters; absent: everything passes through.
    pub parameters: Option<Parameters>,
    /// Its vendor's codes.
    pub errors: Vec<ErrorRule>,
    /// What is known of it now.
    pub known: Arc<AccountKnown>,
}

/// One way to serve a model.
#[derive(Debug)]
pub struct Target {
    /// Through whom.
    pub account: Arc<Account>,
    /// The model's name there; absent: as the caller gets it.
    pub upstream_model: Option<ModelName>,
    /// 0 serves first.
    pub tier: u32,
    /// Its part of the tier's traffic; 0 drains it.
    pub weight: u32,
    /// What is known of it now; absent where the upstream's name is the caller's.
    pub known: Option<Arc<TargetKnown>>,
    /// Version and unit cost of its cost sheet; absent where the upstream's name is the caller's, or nothing is known.
    pub cost: Option<Cost>,
}

impl Account {
    /// The address of a call, `{model}` standing for the upstream's name of the model. Answers are streamed, and responses
    /// kept, at the address where they are made unless that has one of its own; no other call may go there, where it would
    /// make an answer that costs money. `None`: the account has no address for it.
    #[must_use]
    pub fn address(&self, dialect: Dialect, operation: Operation) -> Option<&str> {
        let own = self.urls.get(&(dialect, operation));
        let found = match operation {
            Operation::Stream | Operation::Speech => {
                own.or_else(|| self.urls.get(&(dialect, Operation::Create)))
            }
            _ => own,
        };
        found.map(String::as_str)
    }

    /// The final URL of a call; empty where the account has none.
    #[must_use]
    pub fn url(&self, dialect: Dialect, operation: Operation, model: &str) -> String {
        self.address(dialect, operation)
            .map(|address| switchboard_catalogue::fill(address, model))
            .unwrap_or_default()
    }
}

/// What an endpoint's call asks of an upstream. A response that exists lies below the address where it was made.
#[must_use]
pub const fn operation(endpoint: Endpoint, stream: bool) -> Operation {
    match endpoint {
        Endpoint::CountTokens => Operation::CountTokens,
        Endpoint::Speech => Operation::Speech,
        Endpoint::Transcription => Operation::Transcription,
        Endpoint::Embed => Operation::Embed,
        Endpoint::EmbedBatch => Operation::EmbedBatch,
        Endpoint::Translation => Operation::Translation,
        Endpoint::ImageEdit => Operation::Edit,
        _ if stream => Operation::Stream,
        _ => Operation::Create,
    }
}

impl Target {
    /// The model's name upstream, for a caller's name.
    #[must_use]
    pub fn upstream_model<'a>(&'a self, public_model: &'a str) -> &'a str {
        self.upstream_model
            .as_ref()
            .map_or(public_model, ModelName::as_str)
    }
}

/// A cost sheet, as far as choosing needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Billing's version of the sheet.
    pub version: u64,
    /// Nano-USD of a million input and a million output tokens together, else of a request: what targets are compared by. Absent:
    /// it prices neither.
    pub unit_nanos: Option<i64>,
}

/// Where a model's requests wait when all is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRule {
    /// So many at most.
    pub depth: u32,
    /// So long at most.
    pub wait: Duration,
}

/// Time limits of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTimeouts {
    /// Until connected.
    pub connect: Duration,
    /// Until the first byte.
    pub first_byte: Duration,
    /// Between bytes.
    pub idle: Duration,
}

/// What callers name.
#[derive(Debug)]
pub struct Model {
    /// Its name, or its pattern's text.
    pub name: ModelName,
    /// Whether callers may use it.
    pub active: bool,
    /// What it can do; absent: not checked.
    pub capabilities: Option<Capabilities>,
    /// Who serves it.
    pub targets: Vec<Target>,
    /// Its own limits.
    pub limits: Ceilings,
    /// Where its requests wait; absent: nowhere.
    pub queue: Option<QueueRule>,
    /// Time limits of its attempts.
    pub timeouts: AttemptTimeouts,
}

/// Supply side of a product.
#[derive(Debug)]
pub struct Group {
    /// Its name.
    pub name: GroupName,
    /// Accounts that serve it; absent: all.
    pub accounts: Option<HashSet<AccountName>>,
    /// How targets are drawn.
    pub policy: Policy,
    /// What counts in the score.
    pub weights: Weights,
}

/// One catalogue version.
#[derive(Debug, Default)]
pub struct Supply {
    /// Its number; 0: the empty catalogue before the first.
    pub version: u64,
    /// Models by their catalogue names.
    pub models: HashMap<ModelName, Arc<Model>>,
    /// Groups by name.
    pub groups: HashMap<GroupName, Arc<Group>>,
    /// Accounts by name.
    pub accounts: HashMap<AccountName, Arc<Account>>,
    /// Models that an account serves.
    pub models_of: HashMap<AccountName, Vec<Arc<Model>>>,
    /// Cost sheets by account and upstream model; `upstream@public` where the cost is not the same for all public models.
    pub costs: HashMap<(AccountName, ModelName), Cost>,
    /// Price sheets of the public models that an account serves with an upstream model of another name.
    pub prices: HashMap<(AccountName, ModelName), u64>,
    /// What forwarders are told of it.
    pub announced: CatalogueSnapshot,
}

impl Supply {
    /// The cost of a target for a caller's name. Only a pattern leaves that to the name, dated or not.
    #[must_use]
    pub fn cost(&self, target: &Target, public_model: &ModelName) -> Option<Cost> {
        if target.cost.is_some() && target.upstream_model.is_some() {
            return target.cost;
        }
        let name = public_model.as_str();
        [Some(name), without_date(name)]
            .into_iter()
            .flatten()
            .find_map(|name| {
                let upstream = target.upstream_model(name);
                cost_of(&self.costs, &target.account.name, upstream, name)
            })
            .or(target.cost)
    }

    /// The sheets of a model that an account answered with although another one was asked for.
    #[must_use]
    pub fn sheets(&self, account: &str, upstream_model: &str, public_model: &str) -> ModelSheets {
        let account = AccountName::from(account);
        let cost = cost_of(&self.costs, &account, upstream_model, public_model);
        let price = self.prices.get(&(account, upstream_model.into()));
        ModelSheets {
            cost_version: cost.map_or(0, |cost| cost.version),
            price_version: price.copied().unwrap_or(0),
        }
    }
}

/// What an upstream model costs: by the sheet for the public model, else by that of all.
pub(super) fn cost_of(
    costs: &HashMap<(AccountName, ModelName), Cost>,
    account: &AccountName,
    upstream_model: &str,
    public_model: &str,
) -> Option<Cost> {
    if costs.is_empty() {
        return None;
    }
    let find = |subject: &str| {
        costs
            .get(&(account.clone(), ModelName::from(subject)))
            .copied()
    };
    find(&format!("{upstream_model}@{public_model}")).or_else(|| find(upstream_model))
}
