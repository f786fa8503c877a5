//! A catalogue with mistakes: each is named with line, column and what to do, nothing is applied, and the running system
//! goes on with what it has. A failure in the middle of applying converges when it is run again.

use switchboard::apply::AdminClients;
use switchboard_common::grpc::Rpc;
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, Stack, eventually};
use switchboard_proto::auth::v1::auth_admin_client::AuthAdminClient;
use switchboard_proto::billing::v1::billing_admin_client::BillingAdminClient;
use switchboard_proto::scheduler::v1::scheduler_admin_client::SchedulerAdminClient;
use tonic::Status;
use tower::ServiceExt as _;

scenarios! { [in_process, split] {
    each_kind_of_mistake_is_named_and_nothing_is_applied,
    a_secret_that_leads_nowhere_is_named_and_nothing_is_applied,
    an_apply_that_failed_in_the_middle_converges_when_run_again,
    what_left_the_file_is_disabled_and_never_deleted,
} }

const MODEL: &str = "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}]";

/// The running system as it was: the old model answers, the new one is unknown.
async fn serves_the_old(stack: &Stack) {
    let caller = stack.caller("k");
    caller.chat("m").await.expect(200);
    caller.chat("new").await.expect(404);
}

async fn each_kind_of_mistake_is_named_and_nothing_is_applied(builder: Builder) {
    let stack = builder.start().await;
    let good = stack.setup().model("new", MODEL);
    let wrong: [(&str, Setup, &str); 10] = [
        (
            "an unknown key",
            good.clone().account("a", "concurency: 5"),
            "concurrency",
        ),
        (
            "a wrong type",
            good.clone().account("a", "concurrency: many"),
            "concurrency",
        ),
        (
            "a missing account",
            good.clone().model(
                "new",
                "price: {input: 1.00, output: 2.00}, targets: [{account: nobody}]",
            ),
            "nobody",
        ),
        (
            "a model without a price",
            good.clone().model("new", "targets: [{account: a}]"),
            "price",
        ),
        (
            "an amount that is none",
            good.clone().model(
                "new",
                "price: {input: cheap, output: 2.00}, targets: [{account: a}]",
            ),
            "cheap",
        ),
        (
            "a duration that is none",
            good.clone()
                .model("new", &format!("{MODEL}, timeouts: {{idle: soon}}")),
            "soon",
        ),
        (
            "a key's unknown model",
            good.clone().key("k", "models: [nothing]"),
            "nothing",
        ),
        (
            "an address range that is none",
            good.clone().key("k", "allow_ips: [here]"),
            "here",
        ),
        (
            "a fallback in a circle",
            good.clone()
                .model("m", &format!("{MODEL}, fallback: new"))
                .model("new", &format!("{MODEL}, fallback: m")),
            "fallback",
        ),
        (
            "no account speaks it",
            good.clone()
                .account("a", "dialects: [openai.chat]")
                .model("new", &format!("accepts: [openai.embeddings], {MODEL}")),
            "embeddings",
        ),
    ];
    for (name, setup, about) in wrong {
        let said = stack.try_apply(&setup).await.unwrap_err();
        let line = said.lines().next().unwrap();
        let mut parts = line.split(':');
        assert_eq!(parts.next(), Some("catalogue.yaml"), "{name}: {said}");
        let place: Vec<u64> = parts
            .take(2)
            .filter_map(|part| part.trim().parse().ok())
            .collect();
        assert_eq!(place.len(), 2, "{name}: line and column: {said}");
        let text = stack.catalogue_text(&setup);
        let lines = text.lines().count() as u64;
        assert!(
            (1..=lines).contains(&place[0]) && place[1] >= 1,
            "{name}: {said}"
        );
        assert!(said.contains(about), "{name}: {said}");
        assert!(!said.contains("-secret-of-"), "{name}: {said}");
        serves_the_old(&stack).await;
    }
    stack.finish().await;
}

async fn a_secret_that_leads_nowhere_is_named_and_nothing_is_applied(builder: Builder) {
    let stack = builder.start().await;
    let setup = stack
        .setup()
        .model("new", MODEL)
        .group("all", "")
        .key("k", "user: nobody@acme.example");
    let said = stack.try_apply(&setup).await.unwrap_err();
    assert!(said.contains("nobody@acme.example"), "{said}");
    serves_the_old(&stack).await;
    let text = stack.catalogue_text(&stack.setup().model("new", MODEL));
    let text = text.replace("/account-a", "/account-that-is-not-there");
    let parsed = switchboard_catalogue::parse(&text, "catalogue.yaml").unwrap();
    let problems =
        switchboard::apply::Fragments::of(&parsed.catalogue, &switchboard::apply::SystemSecrets)
            .unwrap_err();
    assert!(
        problems[0].contains("accounts[0].credential")
            && problems[0].contains("account-that-is-not-there"),
        "{problems:?}"
    );
    serves_the_old(&stack).await;
    stack.finish().await;
}

/// A transport on which one method fails, as a service does that dies before it commits.
fn failing(stack: &Stack, method: &'static str) -> Rpc {
    let rpc = stack.admin_rpc();
    Rpc::new(tower::service_fn(
        move |request: http::Request<tonic::body::Body>| {
            let rpc = rpc.clone();
            async move {
                if request.uri().path().ends_with(method) {
                    return Err(Status::unavailable("gone"));
                }
                rpc.oneshot(request).await
            }
        },
    ))
}

async fn an_apply_that_failed_in_the_middle_converges_when_run_again(builder: Builder) {
    let mut stack = builder.start().await;
    let setup = stack
        .setup()
        .account("b", "")
        .model(
            "new",
            "price: {input: 1.00, output: 2.00}, targets: [{account: b, model: up-new}]",
        )
        .tenant("other", "balance: 5.00")
        .key("other-key", "");
    let clients = stack.admin();
    let steps = [
        ("/PlanTenants", "balances and budgets"),
        ("/ApplyPrices", "prices"),
        ("SchedulerAdmin/Apply", "accounts, models and groups"),
        ("AuthAdmin/Apply", "tenants and keys"),
        ("/ApplyTenants", "balances and budgets"),
    ];
    for (method, step) in steps {
        let rpc = failing(&stack, method);
        let broken = AdminClients {
            auth: AuthAdminClient::new(rpc.clone()),
            scheduler: SchedulerAdminClient::new(rpc.clone()),
            credentials: clients.credentials.clone(),
            billing: BillingAdminClient::new(rpc),
        };
        let said = stack.try_apply_with(&broken, &setup).await.unwrap_err();
        assert!(said.contains(step), "{method}: {said}");
        // Whatever was applied, what served before serves on.
        stack.caller("k").chat("m").await.expect(200);
    }
    stack.apply(setup).await;
    stack.when_serving().await;
    let answer = stack.caller("other-key").chat("new").await.expect(200);
    let row = stack.row(&answer.request_id()).await;
    assert_eq!(row.account, "b");
    assert_eq!(
        stack.tenant("other").await.balance_nanos,
        5_000_000_000 - row.charge_nanos
    );
    // The opening balance is set once: running it again pays nobody twice.
    let again = stack.try_apply(&stack.setup()).await.unwrap();
    assert_eq!(again.changes, []);
    assert_eq!(
        stack.tenant("other").await.balance_nanos,
        5_000_000_000 - row.charge_nanos
    );
    stack.finish().await;
}

async fn what_left_the_file_is_disabled_and_never_deleted(builder: Builder) {
    let setup = Setup::simple().model("new", MODEL).key("second", "");
    let mut stack = builder.setup(setup).start().await;
    let id = stack
        .caller("second")
        .chat("new")
        .await
        .expect(200)
        .request_id();
    stack.row(&id).await;
    let less = Setup::simple();
    stack.apply(less).await;
    let second = stack.caller("second");
    eventually("the key is disabled", async || {
        let answer = second.chat("m").await;
        answer.status == 401 && answer.code() == "key_disabled"
    })
    .await;
    let caller = stack.caller("k");
    eventually("the model is gone", async || {
        caller.chat("new").await.status == 404
    })
    .await;
    caller.chat("m").await.expect(200);
    // What it did is still told.
    let row = stack.row(&id).await;
    assert_eq!(
        (row.key.as_str(), row.public_model.as_str()),
        ("second", "new")
    );
    stack.finish().await;
}
