//! Small supplies for the domain's own tests.

use std::{sync::Arc, time::Duration};

use switchboard_catalogue::Operation;
use switchboard_proto::common::v1::{Dialect, Endpoint};

use super::{
    draw::Policy,
    filter::{Ask, Membership},
    known::TargetKnown,
    limits::Ceilings,
    rule::Rule,
    score::Weights,
    supply::{
        Account, AccountStatus, AttemptTimeouts, Capabilities, DialectSet, Group, Model, QueueRule,
        Target,
    },
};

pub fn account(name: &str) -> Account {
    Account {
        name: name.into(),
        provider: "openai",
        status: AccountStatus::Active,
        concurrency: Some(10),
        limits: Ceilings::default(),
        priority: 0,
        dialects: DialectSet::default().with(Dialect::OpenaiChat),
        urls: [
            Dialect::OpenaiChat,
            Dialect::OpenaiResponses,
            Dialect::AnthropicMessages,
            Dialect::OpenaiEmbeddings,
        ]
        .map(|dialect| ((dialect, Operation::Create), "http://u/{model}".to_owned()))
        .into(),
        parameters: None,
        errors: Vec::new(),
        allow_private_address: false,
        proxy: None,
        credential: None,
        cooldown_max: Duration::from_secs(600),
        known: Arc::default(),
    }
}

pub fn target_of(account: Account, tier: u32, weight: u32) -> Target {
    Target {
        account: Arc::new(account),
        upstream_model: Some("up".into()),
        tier,
        weight,
        known: Some(Arc::new(TargetKnown::default())),
        cost: None,
    }
}

pub fn target(name: &str, tier: u32, weight: u32) -> Target {
    target_of(account(name), tier, weight)
}

pub fn model(targets: Vec<Target>) -> Model {
    Model {
        name: "m".into(),
        active: true,
        capabilities: None,
        targets,
        limits: Ceilings::default(),
        queue: Some(QueueRule {
            depth: 2_000,
            wait: Duration::from_secs(30),
        }),
        timeouts: AttemptTimeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
        },
    }
}

pub fn group(accounts: Option<&[&str]>) -> Group {
    Group {
        name: "g".into(),
        accounts: accounts.map(|names| names.iter().map(|name| (*name).into()).collect()),
        policy: Policy::WeightedScore,
        weights: Weights::default(),
    }
}

pub fn ask(model: &Model) -> Ask<'_> {
    Ask {
        model,
        group: Membership::All,
        rule: Rule::default(),
        dialect: Dialect::OpenaiChat,
        endpoint: Endpoint::Unspecified,
        needs: Capabilities::default(),
        bound: None,
        now_ms: 1_000,
    }
}
