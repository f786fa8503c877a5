//! From a document to a [`Supply`]: every look-up and every value an attempt needs, worked out once per version.

use std::{collections::HashMap, sync::Arc, time::Duration};

use switchboard_catalogue::{self as catalogue, Operation};
use switchboard_common::ids::{AccountName, ModelName};
use switchboard_proto::{
    common::v1::Dialect,
    scheduler::v1::{CatalogueSnapshot, GroupModels, PublicModel, proxy::Place},
};

use super::{
    declared,
    document::{Document, SheetRow},
    draw::Policy,
    known::Registry,
    limits::Ceilings,
    score::Weights,
    supply::{
        Account, AccountStatus, AttemptTimeouts, Capabilities, Cost, Group, Model, QueueRule,
        Supply, Target, cost_of,
    },
};

/// Compiles a version. Cells for what is known come from `registry`, so that they outlive the version.
#[must_use]
pub fn compile(version: u64, created_ms: i64, document: &Document, registry: &Registry) -> Supply {
    let source = &document.catalogue;
    let accounts: HashMap<AccountName, Arc<Account>> = source
        .accounts
        .iter()
        .map(|one| {
            let account = Arc::new(account(one, registry));
            (account.name.clone(), account)
        })
        .collect();
    let costs: HashMap<(AccountName, ModelName), Cost> = document
        .costs
        .iter()
        .filter_map(|(subject, row)| {
            let (account, model) = subject.split_once('/')?;
            Some(((account.into(), model.into()), cost(row)))
        })
        .collect();
    let mut models = HashMap::with_capacity(source.models.len());
    let mut models_of: HashMap<AccountName, Vec<Arc<Model>>> = HashMap::new();
    for one in &source.models {
        let model = Arc::new(model(one, source, &accounts, &costs, registry));
        for target in &model.targets {
            let served = models_of.entry(target.account.name.clone()).or_default();
            if !served.last().is_some_and(|last| Arc::ptr_eq(last, &model)) {
                served.push(Arc::clone(&model));
            }
        }
        models.insert(model.name.clone(), model);
    }
    let groups = source
        .groups
        .iter()
        .filter(|one| !document.retired_groups.contains(&one.name))
        .map(|one| {
            let group = Arc::new(group(one));
            (group.name.clone(), group)
        })
        .collect();
    let announced = announced(version, created_ms / 1_000, document);
    Supply {
        version,
        prices: prices(&models, &announced),
        models,
        groups,
        accounts,
        models_of,
        costs,
        announced,
    }
}

/// See [`Supply::prices`]. Where an account serves several public models with one upstream model, the first by name counts.
fn prices(
    models: &HashMap<ModelName, Arc<Model>>,
    announced: &CatalogueSnapshot,
) -> HashMap<(AccountName, ModelName), u64> {
    let mut public: Vec<_> = announced.models.iter().collect();
    public.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let mut prices = HashMap::new();
    for model in public.into_iter().filter(|model| model.price_version > 0) {
        let targets = models.get(model.name.as_str()).map(|model| &model.targets);
        for target in targets.into_iter().flatten() {
            if let Some(upstream) = &target.upstream_model {
                let key = (target.account.name.clone(), upstream.clone());
                prices.entry(key).or_insert(model.price_version);
            }
        }
    }
    prices
}

/// The catalogue's dialect on the wire.
#[must_use]
pub fn wire_dialect(dialect: catalogue::Dialect) -> Dialect {
    match dialect {
        catalogue::Dialect::OpenaiChat => Dialect::OpenaiChat,
        catalogue::Dialect::OpenaiResponses => Dialect::OpenaiResponses,
        catalogue::Dialect::OpenaiEmbeddings => Dialect::OpenaiEmbeddings,
        catalogue::Dialect::OpenaiCompletions => Dialect::OpenaiCompletions,
        catalogue::Dialect::OpenaiImages => Dialect::OpenaiImages,
        catalogue::Dialect::OpenaiAudio => Dialect::OpenaiAudio,
        catalogue::Dialect::OpenaiModerations => Dialect::OpenaiModerations,
        catalogue::Dialect::Rerank => Dialect::Rerank,
        catalogue::Dialect::AnthropicMessages => Dialect::AnthropicMessages,
        catalogue::Dialect::GeminiGenerate => Dialect::GeminiGenerate,
    }
}

/// The bit of a capability.
#[must_use]
pub fn capability(capability: catalogue::Capability) -> Capabilities {
    Capabilities(1 << capability as u32)
}

fn account(source: &catalogue::Account, registry: &Registry) -> Account {
    let name = AccountName::from(source.name.as_str());
    let spoken = source.dialects();
    Account {
        provider: source.provider.as_str(),
        status: match source.status {
            catalogue::AccountStatus::Active => AccountStatus::Active,
            catalogue::AccountStatus::Draining => AccountStatus::Draining,
            catalogue::AccountStatus::Disabled => AccountStatus::Disabled,
        },
        concurrency: source.slots().map(u64::from),
        limits: source.limits.as_ref().map(ceilings).unwrap_or_default(),
        priority: source.priority,
        dialects: spoken.iter().copied().map(wire_dialect).collect(),
        urls: spoken
            .iter()
            .flat_map(|dialect| {
                Operation::ALL
                    .iter()
                    .map(move |operation| (*dialect, *operation))
            })
            .filter_map(|(dialect, operation)| {
                let address = source.address(dialect, operation)?;
                Some(((wire_dialect(dialect), operation), address))
            })
            .collect(),
        allow_private_address: source.allow_private_address,
        proxy: proxy(source),
        credential: credential(source),
        cooldown_max: source.cooldown_max(),
        parameters: source.parameters.as_ref().map(declared::parameters),
        errors: source.errors.iter().map(declared::error_rule).collect(),
        known: registry.account(&name),
        name,
    }
}

/// A proxy's address, or where it is kept because it holds a password.
fn proxy(source: &catalogue::Account) -> Option<Place> {
    let kept = source.proxy_credential().map(Place::Credential);
    kept.or_else(|| source.proxy.clone().map(Place::Url))
}

/// Header and format of the credential: as declared, else the provider's own.
fn credential(source: &catalogue::Account) -> Option<(String, String)> {
    if source.credential == Some(catalogue::SecretRef::None) {
        return None;
    }
    Some(match (&source.credential_header, source.provider) {
        (Some(header), _) => (header.name.to_ascii_lowercase(), header.format.clone()),
        (None, catalogue::Provider::Anthropic) => ("x-api-key".to_owned(), "{secret}".to_owned()),
        (None, catalogue::Provider::Gemini) => ("x-goog-api-key".to_owned(), "{secret}".to_owned()),
        (
            None,
            catalogue::Provider::Openai
            | catalogue::Provider::OpenaiCompatible
            | catalogue::Provider::Switchboard,
        ) => ("authorization".to_owned(), "Bearer {secret}".to_owned()),
    })
}

fn ceilings(source: &catalogue::Limits) -> Ceilings {
    Ceilings {
        requests_per_second: source.requests_per_second,
        requests_per_minute: source.requests_per_minute,
        tokens_per_minute: source.tokens_per_minute,
        concurrency: source.concurrency.map(u64::from),
        burst: source.burst,
    }
}

fn cost(row: &SheetRow) -> Cost {
    Cost {
        version: row.version,
        unit_nanos: row.unit_nanos(),
    }
}

fn model(
    source: &catalogue::Model,
    whole: &catalogue::Catalogue,
    accounts: &HashMap<AccountName, Arc<Account>>,
    costs: &HashMap<(AccountName, ModelName), Cost>,
    registry: &Registry,
) -> Model {
    let effective = source.effective(&whole.defaults);
    let pattern = source.name.contains('*');
    let mut targets: Vec<Target> = source
        .targets
        .iter()
        .filter_map(|target| {
            let account = accounts.get(target.account.as_str())?;
            // Without a name of its own the upstream's is the caller's, which only a pattern leaves open.
            let upstream_model = match &target.model {
                Some(name) => Some(ModelName::from(name.as_str())),
                None if pattern => None,
                None => Some(ModelName::from(source.name.as_str())),
            };
            let key = upstream_model
                .as_ref()
                .map(|model| (account.name.clone(), model.clone()));
            Some(Target {
                account: Arc::clone(account),
                known: key
                    .as_ref()
                    .map(|(account, model)| registry.target(account, model)),
                // A list prices each of a pattern's names apart.
                cost: (!pattern || source.price.is_some())
                    .then(|| {
                        let upstream = target.upstream_model(&source.name);
                        cost_of(costs, &account.name, upstream, &source.name)
                    })
                    .flatten(),
                upstream_model,
                tier: target.tier,
                weight: target.weight,
            })
        })
        .collect();
    targets.sort_by_key(|target| target.tier);
    Model {
        name: source.name.as_str().into(),
        active: source.status == catalogue::ModelStatus::Active,
        capabilities: source.capabilities.as_ref().map(|capabilities| {
            Capabilities(
                capabilities
                    .iter()
                    .fold(0, |all, one| all | capability(*one).0),
            )
        }),
        targets,
        limits: source.limits.as_ref().map(ceilings).unwrap_or_default(),
        queue: effective.queue.map(|queue| QueueRule {
            depth: queue.depth,
            wait: Duration::from(queue.wait),
        }),
        timeouts: AttemptTimeouts {
            connect: effective.timeouts.connect,
            first_byte: effective.timeouts.first_byte,
            idle: effective.timeouts.idle,
        },
    }
}

fn group(source: &catalogue::Group) -> Group {
    let scheduling = source.scheduling();
    let weights = scheduling.weights();
    Group {
        name: source.name.as_str().into(),
        accounts: source
            .accounts
            .as_ref()
            .map(|names| names.iter().map(|name| name.as_str().into()).collect()),
        policy: match scheduling.policy {
            catalogue::Policy::WeightedScore => Policy::WeightedScore,
            catalogue::Policy::PowerOfTwo => Policy::PowerOfTwo,
        },
        weights: Weights {
            priority: weights.priority,
            load: weights.load,
            queue: weights.queue,
            error: weights.error,
            ttft: weights.ttft,
            reset: weights.reset,
            headroom: weights.headroom,
            cost: weights.cost,
        },
    }
}

/// What forwarders resolve names on and list models from.
fn announced(version: u64, created: i64, document: &Document) -> CatalogueSnapshot {
    let source = &document.catalogue;
    let mut prices: HashMap<&str, Vec<catalogue::Priced<'_>>> = HashMap::new();
    for priced in source.priced() {
        prices.entry(&priced.model.name).or_default().push(priced);
    }
    CatalogueSnapshot {
        version,
        models: source
            .models
            .iter()
            .filter(|model| model.status != catalogue::ModelStatus::Disabled)
            .map(|model| {
                let prices = prices.remove(&*model.name).unwrap_or_default();
                public_model(model, &prices, document, created)
            })
            .collect(),
        groups: source
            .groups
            .iter()
            .filter(|group| !document.retired_groups.contains(&group.name))
            .map(|group| GroupModels {
                name: group.name.clone(),
                models: group.models.clone().unwrap_or_default(),
                names: group
                    .names
                    .iter()
                    .map(|(own, public)| (own.clone(), public.clone()))
                    .collect(),
            })
            .collect(),
    }
}

fn public_model(
    model: &catalogue::Model,
    prices: &[catalogue::Priced<'_>],
    document: &Document,
    created: i64,
) -> PublicModel {
    let effective = model.effective(&document.catalogue.defaults);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    // Without a sheet of billing's a price prices nothing.
    let version =
        |one: &catalogue::Priced<'_>| document.prices.get(&one.subject).map(|row| row.version);
    let (own, listed): (Vec<_>, Vec<_>) = prices.iter().partition(|one| one.entry == model.name);
    PublicModel {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        active: model.status == catalogue::ModelStatus::Active,
        accepts: model
            .accepts
            .iter()
            .flatten()
            .map(|dialect| wire_dialect(*dialect) as i32)
            .collect(),
        capabilities: model
            .capabilities
            .iter()
            .flatten()
            .map(|capability| capability.as_str().to_owned())
            .collect(),
        context_window: model.context_window,
        max_output: effective.max_output,
        tokenizer: model
            .tokenizer
            .clone()
            .unwrap_or_else(|| "o200k_base".to_owned()),
        price_version: own.into_iter().find_map(version).unwrap_or(0),
        list_prices: listed
            .into_iter()
            .filter_map(|one| Some((one.entry.to_owned(), version(one)?)))
            .collect(),
        commit_after_ms: effective.commit_after.map(millis),
        total_timeout_ms: millis(effective.timeouts.total),
        write_timeout_ms: millis(effective.timeouts.write),
        max_attempts: effective.max_attempts,
        reject_unsupported: document.catalogue.defaults.unsupported
            == catalogue::Unsupported::Reject,
        created,
    }
}

#[cfg(test)]
mod tests;
