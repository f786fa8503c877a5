//! Redis paused, killed, emptied, refusing (OPS-5; CASES B1, B2, A7).

use std::{sync::Arc, time::Duration};

use switchboard_state::{
    Breaker, Policies, Policy, State, StateConfig,
    admission::{AccountGrant, AccountTake, Correction, Release, Renewal, Scope, TenantGrant},
    purses::HoldGrant,
};

use crate::{
    admission::{account, account_release, account_take, tenant_take, user},
    bed::{Bed, Server, fresh, settings},
    purses::{acme, balance, hold_take, nanos, touch, value},
};

fn quick(server: &Server) -> StateConfig {
    StateConfig {
        url: Some(server.url().into()),
        timeout: Duration::from_secs(1),
        breaker_failures: 3,
        replicas: 3,
        ..settings()
    }
}

async fn bed(config: &StateConfig, server: &Arc<Server>) -> Bed {
    Bed::open(config, Some(Arc::clone(server))).await
}

async fn grants(state: &State, limit: u64) -> usize {
    let mut granted = 0;
    for _ in 0..limit + 2 {
        let grant = state.admission.take_account(&account_take(limit)).await;
        granted += usize::from(matches!(grant, Ok(AccountGrant::Granted { .. })));
    }
    granted
}

fn degraded(state: &State) -> bool {
    state.status().degraded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_store_leaves_a_share_and_gets_all_back() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    let bed = bed(&quick(&server), &server).await;
    let state = &bed.state;
    let before = account_take(9);
    state.admission.take_account(&before).await.unwrap();
    state
        .purses
        .load(&acme(), &[value("balance", 900, 1)])
        .await
        .unwrap();
    let settled = hold_take(vec![balance(300, 1)]);
    assert_eq!(state.purses.reserve(&settled).await.unwrap(), nanos(300));
    server.kill();

    assert_eq!(grants(state, 9).await, 3, "9 among 3 processes");
    assert_eq!(state.status().breaker, Breaker::Open);
    let kept = hold_take(vec![balance(1_000, 1)]);
    assert_eq!(
        state.purses.reserve(&kept).await.unwrap(),
        nanos(300),
        "a third of the last value"
    );
    // Ends wait for the store.
    state
        .purses
        .settle(&acme(), &[settled.request], &[value("balance", 850, 2)])
        .await
        .unwrap();
    state
        .admission
        .release(&[account_release(before.request, Some(1))])
        .await
        .unwrap();
    assert_eq!(state.status().backlog, 2);

    server.restart();
    bed.until("the store is back", || async { !degraded(state) })
        .await;
    bed.until("all is handed over", || async {
        let gauges = state.gauges().await.unwrap();
        gauges.held_leases == 3 && gauges.open_holds == 1 && gauges.status.backlog == 0
    })
    .await;
    assert_eq!(
        state.purses.reserve(&settled).await.unwrap(),
        HoldGrant::Gone,
        "the settlement reached it"
    );
    assert_eq!(
        state
            .purses
            .reserve(&hold_take(vec![balance(1_000, 1)]))
            .await
            .unwrap(),
        nanos(550),
        "850 less the 300 that were held meanwhile"
    );
    assert_eq!(
        state.admission.take_account(&before).await.unwrap(),
        AccountGrant::Gone
    );
    assert!(
        state.status().losses >= 1,
        "another process has another memory"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_store_costs_a_few_timeouts_and_then_nothing() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    let bed = bed(&quick(&server), &server).await;
    let state = &bed.state;
    server.signal("-STOP");
    assert_eq!(grants(state, 30).await, 10);
    assert!(degraded(state));
    let failures = state.status().failures;
    assert!(failures >= 3);
    server.signal("-CONT");
    bed.until("the store is back", || async { !degraded(state) })
        .await;
    bed.until("what was held here is there", || async {
        state.admission.held().await.unwrap() >= 10
    })
    .await;
    assert_eq!(state.status().losses, 0, "it kept its memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_store_is_noticed_and_filled_again() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    let bed = bed(&quick(&server), &server).await;
    let state = &bed.state;
    state
        .purses
        .load(&acme(), &[value("balance", 100, 4)])
        .await
        .unwrap();
    let hold = hold_take(vec![balance(40, 1)]);
    assert_eq!(state.purses.reserve(&hold).await.unwrap(), nanos(40));
    let slot = tenant_take(vec![user(1)], vec![]);
    state.admission.take_tenant(&slot).await.unwrap();
    server.sends(&["FLUSHALL"]);
    bed.until("the loss is seen", || async { state.status().losses == 1 })
        .await;
    assert!(state.status().recovered_ms > 0 && !degraded(state));

    let next = hold_take(vec![balance(100, 1)]);
    assert_eq!(
        state.purses.reserve(&next).await.unwrap(),
        HoldGrant::Unknown { indexes: vec![0] }
    );
    // Absolute and with its version: loading it many times is loading it once (CASES A7).
    for _ in 0..3 {
        state
            .purses
            .load(&acme(), &[value("balance", 100, 4)])
            .await
            .unwrap();
    }
    let items = [touch(hold.request, hold.takes.clone(), "draft")];
    state.purses.touch(&items).await.unwrap();
    assert_eq!(state.purses.reserve(&next).await.unwrap(), nanos(60));
    let renewals = [Renewal::Tenant {
        tenant: acme(),
        request: slot.request,
        slots: vec![(Scope::User, "bob@acme".into())],
    }];
    let renewed = state
        .admission
        .renew(&renewals, Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(renewed.restored, 1);
    let full = state
        .admission
        .take_tenant(&tenant_take(vec![user(1)], vec![]))
        .await;
    assert!(matches!(full, Ok(TenantGrant::Refused { .. })));
    let gauges = state.gauges().await.unwrap();
    assert_eq!((gauges.held_leases, gauges.open_holds), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_concern_follows_its_policy() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    let with = |slots, holds| StateConfig {
        on_failure: Policies {
            slots,
            holds,
            ..Policies::default()
        },
        ..quick(&server)
    };
    let closed = bed(&with(Policy::Closed, Policy::Closed), &server).await;
    let open = bed(&with(Policy::Open, Policy::Open), &server).await;
    server.kill();
    assert_eq!(grants(&closed.state, 9).await, 0);
    assert!(
        closed
            .state
            .purses
            .reserve(&hold_take(vec![balance(7, 7)]))
            .await
            .is_err()
    );
    assert_eq!(grants(&open.state, 9).await, 11, "no limit");
    let hold = open
        .state
        .purses
        .reserve(&hold_take(vec![balance(7, 7)]))
        .await
        .unwrap();
    assert_eq!(hold, nanos(7));
    assert_eq!(open.state.cache.get("hash").await.unwrap(), None);
    assert!(open.state.health.snapshot().await.unwrap().is_empty());
    // Rates of their own policy: a closed one refuses only what asks for it.
    let no_limit = AccountTake {
        limit: None,
        ..account_take(0)
    };
    assert!(closed.state.admission.take_account(&no_limit).await.is_ok());
    assert!(
        closed.state.purses.stale(0, 10).await.is_err(),
        "nobody is called silent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_at_the_start_is_waited_for() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    server.kill();
    let bed = bed(&quick(&server), &server).await;
    assert!(degraded(&bed.state));
    assert_eq!(grants(&bed.state, 3).await, 1);
    server.restart();
    bed.until("it comes", || async { !degraded(&bed.state) })
        .await;
    let release = Release::Tenant {
        tenant: acme(),
        request: fresh(),
        correction: Correction::Keep,
    };
    bed.state.admission.release(&[release]).await.unwrap();
    assert_eq!(bed.state.status().backlog, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_is_refused() {
    let arguments = ["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::start(&arguments).map(Arc::new) else {
        return;
    };
    let lifecycle = switchboard_common::lifecycle::Lifecycle::new();
    let clock = Arc::new(switchboard_common::clock::SystemClock);
    let refused = State::open(&quick(&server), clock, &lifecycle).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("noeviction"), "{error}");
    assert_eq!(lifecycle.tasks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_run_where_script_load_and_evalsha_are_refused() {
    let arguments = [
        "--rename-command",
        "SCRIPT",
        "",
        "--rename-command",
        "EVALSHA",
        "",
    ];
    let Some(server) = Server::start(&arguments).map(Arc::new) else {
        return;
    };
    let bed = bed(&quick(&server), &server).await;
    assert_eq!(grants(&bed.state, 4).await, 4);
    assert_eq!(bed.state.admission.usage(&[account()]).await.unwrap(), [4]);
    assert_eq!(bed.state.status().failures, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_one_limit() {
    let Some(server) = Server::start(&[]).map(Arc::new) else {
        return;
    };
    let config = quick(&server);
    let (one, two) = (bed(&config, &server).await, bed(&config, &server).await);
    assert_eq!(grants(&one.state, 7).await, 7);
    assert_eq!(grants(&two.state, 7).await, 0);
    assert_eq!(two.state.gauges().await.unwrap().held_leases, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_leads_to_its_master() {
    let Some(master) = Server::start_on_tcp(&[]).map(Arc::new) else {
        return;
    };
    let sentinel = Server::start_sentinel_of(&master).unwrap();
    let config = StateConfig {
        url: Some(format!("redis://127.0.0.1:1,{}", sentinel.tcp_url()).into()),
        sentinel_master: Some("main".to_owned()),
        ..quick(&master)
    };
    let bed = bed(&config, &master).await;
    bed.until("the master is found", || async { !degraded(&bed.state) })
        .await;
    assert_eq!(grants(&bed.state, 4).await, 4);
    assert!(master.sends(&["KEYS", "*"]).contains("a:east"));
    master.restart();
    bed.until("it is found again", || async {
        bed.state.status().losses == 1 && !degraded(&bed.state)
    })
    .await;
    assert_eq!(grants(&bed.state, 4).await, 4);
}
