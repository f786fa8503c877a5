//! What an admin changes, every process obeys at once, also when the process that changed it died right after its commit.

use std::sync::Arc;
use std::time::Duration;

use fake_upstream::{Gate, Script};
use rand::SeedableRng as _;
use switchboard::data_dir::DataDir;
use switchboard_auth::{Component, Deps};
use switchboard_common::clock::SystemClock;
use switchboard_common::db::Database;
use switchboard_common::grpc::{Role, local};
use switchboard_common::lifecycle::Lifecycle;
use switchboard_common::metrics::Metrics;
use switchboard_common::secret::{MasterKey, Purpose};
use switchboard_integration_tests::caller::{Caller, streamed};
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, Stack, eventually};
use switchboard_migrations::Owner;
use switchboard_proto::auth::v1::DisableKeyRequest;
use switchboard_proto::auth::v1::auth_admin_client::AuthAdminClient;
use switchboard_proto::common::v1::Actor;
use switchboard_state::State;

scenarios! { [in_process, split] {
    a_disabled_key_is_refused_everywhere,
    a_key_that_was_disabled_by_a_process_that_died_is_refused_everywhere,
    a_slow_request_does_not_bring_a_disabled_key_back,
    changed_limits_and_models_of_a_used_key_count_everywhere,
    a_new_model_and_a_new_weight_need_no_restart,
} }

fn actor() -> Option<Actor> {
    Some(Actor {
        name: "test".to_owned(),
        reason: "a scenario".to_owned(),
    })
}

/// Long lives for everything that is cached: only the change feed can be as quick as these tests want it. Two forwarders
/// with an edge each.
fn warm(builder: Builder) -> Builder {
    builder.forwarders(2).settings(|settings| {
        settings.forwarder.principals.ttl = Duration::from_secs(3_600);
        settings.auth.cache_ttl = Duration::from_secs(3_600);
    })
}

/// Uses the key at every edge, so that every process knows it.
async fn use_everywhere(stack: &Stack, caller: &Caller) {
    for edge in 0..stack.edges().len() {
        for _ in 0..4 {
            caller.clone().at(edge).chat("m").await.expect(200);
        }
    }
}

/// Every edge and forwarder refuses, and goes on refusing.
async fn refused_everywhere(stack: &Stack, caller: &Caller, status: u16, code: &str) {
    for edge in 0..stack.edges().len() {
        let caller = caller.clone().at(edge);
        eventually("it is refused", async || {
            caller.chat("m").await.status == status
        })
        .await;
    }
    for edge in 0..stack.edges().len() {
        for _ in 0..4 {
            let answer = caller.clone().at(edge).chat("m").await.expect(status);
            assert_eq!(answer.code(), code);
        }
    }
}

async fn disable(stack: &Stack) {
    let request = DisableKeyRequest {
        actor: actor(),
        key: "acme/k".to_owned(),
    };
    stack.admin().auth.disable_key(request).await.unwrap();
}

async fn a_disabled_key_is_refused_everywhere(builder: Builder) {
    let stack = warm(builder).start().await;
    let caller = stack.caller("k");
    use_everywhere(&stack, &caller).await;
    disable(&stack).await;
    refused_everywhere(&stack, &caller, 401, "key_disabled").await;
    stack.finish().await;
}

/// An auth of its own on the same facts, which nobody hears: it commits and is gone.
async fn disable_and_die(stack: &Stack) {
    let dir = DataDir::create(&stack.data_dir(Role::Auth)).unwrap();
    let database = Database::open(&stack.settings().database(Owner::Auth, &dir))
        .await
        .unwrap();
    let master = MasterKey::load(&stack.master_key_file()).unwrap();
    let life = Lifecycle::new();
    let deps = Deps {
        clock: Arc::new(SystemClock),
        lifecycle: life.clone(),
        metrics: Metrics::new(),
        database: database.clone(),
        cache: State::memory(Arc::new(SystemClock)).cache,
        key_hash: master.subkey(Purpose::ApiKeyHash),
        admin_token: None,
        random: rand::rngs::StdRng::from_seed([7; 32]),
    };
    let auth = Component::start(stack.settings().auth.clone(), deps)
        .await
        .unwrap();
    let request = DisableKeyRequest {
        actor: actor(),
        key: "acme/k".to_owned(),
    };
    let mut client = AuthAdminClient::new(local(auth.admin_server(), Role::Edge));
    client.disable_key(request).await.unwrap();
    life.kill();
    drop((auth, client));
    database.close().await;
}

async fn a_key_that_was_disabled_by_a_process_that_died_is_refused_everywhere(builder: Builder) {
    let stack = warm(builder).start().await;
    let caller = stack.caller("k");
    use_everywhere(&stack, &caller).await;
    disable_and_die(&stack).await;
    refused_everywhere(&stack, &caller, 401, "key_disabled").await;
    stack.finish().await;
}

async fn a_slow_request_does_not_bring_a_disabled_key_back(builder: Builder) {
    let stack = warm(builder).start().await;
    let caller = stack.caller("k");
    use_everywhere(&stack, &caller).await;
    let gate = Gate::new();
    stack.upstream.push(Script::tokens(3).gate_after(1, &gate));
    let mut slow = caller.open(&streamed("m")).await;
    slow.deltas(1).await;
    disable(&stack).await;
    refused_everywhere(&stack, &caller, 401, "key_disabled").await;
    gate.open();
    // What was admitted before is served to its end.
    assert!(slow.rest().await.done());
    refused_everywhere(&stack, &caller, 401, "key_disabled").await;
    stack.finish().await;
}

async fn changed_limits_and_models_of_a_used_key_count_everywhere(builder: Builder) {
    let mut stack = warm(builder).start().await;
    let caller = stack.caller("k");
    use_everywhere(&stack, &caller).await;
    // Narrower.
    let narrow = stack
        .setup()
        .model(
            "other",
            "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}]",
        )
        .key("k", "models: [other]");
    stack.apply(narrow).await;
    refused_everywhere(&stack, &caller, 403, "model_not_allowed").await;
    // Wider again: grants count for a key that is in use as well.
    let wide = stack.setup().key("k", "limits: {concurrency: 1}");
    stack.apply(wide).await;
    for edge in 0..stack.edges().len() {
        let caller = caller.clone().at(edge);
        eventually("it is served again", async || {
            caller.chat("m").await.status == 200
        })
        .await;
    }
    // And limited: one at a time, over all processes.
    let queueless = stack.setup().model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}], queue: none",
    );
    stack.apply(queueless).await;
    let gate = Gate::new();
    eventually("the limit counts", async || {
        stack.upstream.push(Script::tokens(2).gate_after(1, &gate));
        let mut one = caller.clone().at(0).open(&streamed("m")).await;
        if one.status != 200 {
            return false;
        }
        one.deltas(1).await;
        let two = caller.clone().at(stack.edges().len() - 1).stream("m").await;
        two.status == 429 && two.as_answer().code() == "concurrency_full"
    })
    .await;
    gate.open();
    stack.finish().await;
}

async fn a_new_model_and_a_new_weight_need_no_restart(builder: Builder) {
    let setup = Setup::simple().account("b", "");
    let mut stack = warm(builder).setup(setup).start().await;
    let caller = stack.caller("k");
    use_everywhere(&stack, &caller).await;
    // Half and half, then all on `b`: weight 0 drains.
    let drained = "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m, weight: 0}, {account: b, model: up-m, weight: 1}]";
    let setup = stack.setup().model("m", drained).model(
        "new",
        "price: {input: 1.00, output: 2.00}, targets: [{account: b, model: up-new}]",
    );
    let version = stack.apply(setup).await.catalogue_version;
    assert!(version >= 2);
    stack.when_serving().await;
    for edge in 0..stack.edges().len() {
        let caller = caller.clone().at(edge);
        let answer = caller.chat("new").await.expect(200);
        let row = stack.row(&answer.request_id()).await;
        assert_eq!(
            (row.account.as_str(), row.upstream_model.as_str()),
            ("b", "up-new")
        );
        let answer = caller.chat("m").await.expect(200);
        assert_eq!(stack.row(&answer.request_id()).await.account, "b");
    }
    // The same file again changes nothing.
    let again = stack.try_apply(&stack.setup()).await.unwrap();
    assert_eq!(again.catalogue_version, version);
    assert_eq!(again.changes, []);
    stack.finish().await;
}
