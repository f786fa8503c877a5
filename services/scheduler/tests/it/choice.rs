//! Which account serves (SCHED-2 to SCHED-4, SCHED-10, ROUTE-4).

use std::collections::HashMap;

use switchboard_common::error::Reason;
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    scheduler::v1::Release,
};

use crate::world::{Shape, World, account, asked, asked_with, granted, one_model};

#[tokio::test]
async fn traffic_splits_by_weight_within_three_percent() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let accounts = account("a", ", concurrency: 50") + &account("b", ", concurrency: 50");
    node.apply(&one_model(
        &accounts,
        "targets: [{account: a, model: up, weight: 80}, {account: b, model: up, weight: 20}]",
    ))
    .await;
    let mut counts: HashMap<String, u32> = HashMap::new();
    for _ in 0..3_000 {
        let asked = asked();
        let answer = node.acquire(asked.clone()).await;
        *counts.entry(granted(&answer).to_owned()).or_default() += 1;
        node.release(
            &asked.request_id,
            Release {
                held: answer.lease,
                ..Release::default()
            },
        )
        .await;
    }
    let share = f64::from(counts["a"]) * 100.0 / 3_000.0;
    assert!((share - 80.0).abs() <= 3.0, "{share}");
}

#[tokio::test]
async fn an_answer_has_every_value_and_why() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let accounts = account("a", ", cooldown: {max: 0s}")
        + &account("b", "")
        + &account("c", ", status: draining");
    let version = node
        .apply(&one_model(
            &accounts,
            "timeouts: {connect: 1s, first_byte: 2s, idle: 3s}, targets: [{account: b, model: up, tier: 1}, {account: a, model: up}, {account: c, model: up}, {account: b, model: other, weight: 0}]",
        ))
        .await;
    let answer = node.acquire(asked()).await;
    assert_eq!(granted(&answer), "a");
    let accounts: Vec<_> = answer
        .candidates
        .iter()
        .map(|c| c.account.as_str())
        .collect();
    assert_eq!(accounts, ["a", "b"]);
    let first = &answer.candidates[0];
    assert_eq!(first.url, "http://127.0.0.1:1/v1/chat/completions");
    assert_eq!(first.dialect, Dialect::OpenaiChat as i32);
    assert_eq!(
        (
            first.connect_timeout_ms,
            first.first_byte_timeout_ms,
            first.idle_timeout_ms
        ),
        (1_000, 2_000, 3_000)
    );
    assert_eq!(
        (first.cooldown_max_ms, answer.candidates[1].cooldown_max_ms),
        (0, 600_000)
    );
    assert!(first.credential.is_none() && first.allow_private_address);
    assert_eq!(answer.lease_ttl_ms, 30_000);
    assert_eq!(answer.lease.as_ref().unwrap().account, "a");

    let decision: serde_json::Value = serde_json::from_str(&answer.decision_json).unwrap();
    assert_eq!(decision["catalogueVersion"], version.to_string());
    let targets = decision["targets"].as_array().unwrap();
    let failed = |target: &serde_json::Value| -> Vec<String> {
        target["filters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|filter| filter["pass"] == false)
            .map(|filter| filter["filter"].as_str().unwrap().to_owned())
            .collect()
    };
    let all: Vec<_> = targets
        .iter()
        .map(|t| (t["account"].as_str().unwrap(), failed(t)))
        .collect();
    assert_eq!(
        all,
        [
            ("a", vec![]),
            ("b", vec![]),
            ("c", vec!["enabled".to_owned()]),
            ("b", vec!["weight".to_owned()]),
        ]
    );
}

#[tokio::test]
async fn an_account_that_is_full_is_passed_over() {
    for world in World::each(&Shape::default()).await {
        let node = world.node();
        let accounts = account("a", ", concurrency: 1") + &account("b", ", concurrency: 1");
        node.apply(&one_model(
            &accounts,
            "targets: [{account: a, model: up, weight: 1000}, {account: b, model: up}]",
        ))
        .await;
        let one = node.acquire(asked()).await;
        let two = node.acquire(asked()).await;
        assert_ne!(granted(&one), granted(&two));
        assert_eq!(two.queued_us, 0);
    }
}

/// An account is asked in the caller's dialect where it speaks it, else in one of its own; counting stays within a dialect.
#[tokio::test]
async fn an_account_of_another_dialect_serves_answers_and_nothing_else() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&one_model(
        &(account("claude", ", dialects: [anthropic.messages]")
            + &account("two", ", dialects: [openai.responses, openai.chat]")),
        "targets: [{account: claude, model: up}, {account: two, model: up, tier: 1}]",
    ))
    .await;
    for (asked_in, endpoint, expected) in [
        (
            Dialect::OpenaiChat,
            Endpoint::Unspecified,
            [Dialect::AnthropicMessages, Dialect::OpenaiChat],
        ),
        (
            Dialect::OpenaiResponses,
            Endpoint::Unspecified,
            [Dialect::AnthropicMessages, Dialect::OpenaiResponses],
        ),
        (
            Dialect::AnthropicMessages,
            Endpoint::Unspecified,
            [Dialect::AnthropicMessages, Dialect::OpenaiChat],
        ),
        (
            Dialect::GeminiGenerate,
            Endpoint::Stream,
            [Dialect::AnthropicMessages, Dialect::OpenaiChat],
        ),
    ] {
        let mut request = asked();
        request.dialect = asked_in as i32;
        request.endpoint = endpoint as i32;
        let answer = node.acquire(request).await;
        let dialects: Vec<_> = answer.candidates.iter().map(|one| one.dialect()).collect();
        assert_eq!(dialects, expected, "{asked_in:?}");
        assert_eq!(answer.candidates[0].url, "http://127.0.0.1:1/v1/messages");
    }
    let mut count = asked();
    count.dialect = Dialect::AnthropicMessages as i32;
    count.endpoint = Endpoint::CountTokens as i32;
    let answer = node.acquire(count).await;
    assert_eq!(answer.candidates.len(), 1, "{:?}", answer.candidates);
    let mut embed = asked();
    embed.dialect = Dialect::OpenaiEmbeddings as i32;
    assert_eq!(node.refused(embed).await.reason, Reason::InvalidRequest);
}

#[tokio::test]
async fn a_model_that_answers_but_counts_no_tokens_says_so() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let text = one_model(&account("a", ""), "targets: [{account: a, model: up}]");
    node.apply(&text).await;
    let mut create = asked();
    create.dialect = Dialect::AnthropicMessages as i32;
    assert_eq!(node.acquire(create.clone()).await.candidates.len(), 1);
    create.request_id = asked().request_id;
    create.endpoint = Endpoint::CountTokens as i32;
    let refused = node.refused(create).await;
    assert_eq!(
        (refused.reason, refused.param.as_deref()),
        (Reason::InvalidRequest, Some("model"))
    );
    assert!(
        refused.message.starts_with("tokens cannot be counted"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_cannot_serve_is_refused_by_its_own_name() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let text = one_model(
        &(account("a", ", dialects: [openai.chat]") + &account("b", "")),
        "capabilities: [stream], targets: [{account: a, model: up}]",
    );
    let text = format!("{text}  - {{name: other, accounts: [b]}}\n",);
    node.apply(&text).await;
    let mut unknown = asked();
    unknown.model = "nope".to_owned();
    assert_eq!(node.refused(unknown).await.reason, Reason::ModelNotFound);
    let other = asked_with(|demand| demand.group = "other".to_owned());
    assert_eq!(node.refused(other).await.reason, Reason::NoAccount);
    let gone = asked_with(|demand| demand.group = "gone".to_owned());
    assert_eq!(node.refused(gone).await.reason, Reason::NoAccount);
    let mut embed = asked();
    embed.dialect = Dialect::OpenaiEmbeddings as i32;
    let refused = node.refused(embed).await;
    assert_eq!(
        (refused.reason, refused.param.as_deref()),
        (Reason::InvalidRequest, Some("model"))
    );
    let mut tools = asked();
    tools.capabilities = vec!["tools".to_owned()];
    assert_eq!(node.refused(tools).await.reason, Reason::InvalidRequest);
    let mut broken = asked();
    broken.request_id = "x".to_owned();
    assert_eq!(
        node.refused(broken).await.param.as_deref(),
        Some("request_id")
    );
    assert_eq!(world.held().await, 0);

    node.apply(&text.replace("name: m,", "name: m, status: disabled,"))
        .await;
    assert_eq!(node.refused(asked()).await.reason, Reason::ModelNotFound);
}

#[tokio::test]
async fn a_call_goes_to_no_address_of_another_call() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    let claude = ", dialects: [anthropic.messages]";
    let answers = account(
        "answers",
        &format!("{claude}, url_template: \"{{base_url}}/at/messages\""),
    );
    let both = account("both", claude) + &answers;
    node.apply(&one_model(
        &both,
        "targets: [{account: answers, model: up}, {account: both, model: up, tier: 1}]",
    ))
    .await;
    let mut count = asked();
    count.dialect = Dialect::AnthropicMessages as i32;
    let mut create = count.clone();
    count.endpoint = Endpoint::CountTokens as i32;
    let answer = node.acquire(count.clone()).await;
    let urls: Vec<_> = answer.candidates.iter().map(|one| &one.url).collect();
    assert_eq!(urls, ["http://127.0.0.1:1/v1/messages/count_tokens"]);
    let why = answer.decision_json;
    assert!(
        why.contains(r#""filter":"address","pass":false,"detail":"has no address for"#),
        "{why}"
    );
    create.request_id = asked().request_id;
    create.stream = true;
    let streamed = node.acquire(create).await;
    assert_eq!(streamed.candidates.len(), 2);
    assert_eq!(
        streamed.candidates[0].url,
        "http://127.0.0.1:1/v1/at/messages"
    );

    node.apply(&one_model(
        &(answers + &account("chat", ", dialects: [openai.chat]")),
        "targets: [{account: answers, model: up}, {account: chat, model: up}]",
    ))
    .await;
    count.request_id = asked().request_id;
    let refused = node.refused(count).await;
    assert_eq!(refused.reason, Reason::InvalidRequest);
    assert!(
        refused.message.contains("no account has an address"),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let world = World::small(&Shape::default()).await;
    let node = world.node();
    node.apply(&one_model(
        &account("a", ""),
        "targets: [{account: a, model: up}]",
    ))
    .await;
    node.acquire(asked()).await;
    let mut unknown = asked();
    unknown.model = "nope".to_owned();
    node.refused(unknown).await;
    let text = world.metrics.render();
    for line in [
        "switchboard_acquire_total{outcome=\"granted\"} 1",
        "switchboard_acquire_total{outcome=\"not_found\"} 1",
        "switchboard_slots_held 1",
        "switchboard_queue_waiters 0",
        "switchboard_catalogue_version 1",
    ] {
        assert!(text.contains(line), "{line} not in\n{text}");
    }
}
