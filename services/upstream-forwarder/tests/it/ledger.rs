//! No settlement is lost: billing away, the process killed.

use std::{sync::Arc, time::Duration};

use fake_upstream::{FakeUpstream, Gate, Script, UsageShape};
use switchboard_proto::{
    billing::v1::{Ending, Touch},
    common::v1::{Dialect, UsageSource},
    scheduler::v1::CatalogueSnapshot,
};
use tempfile::TempDir;

use crate::{
    peers::{State, World},
    rig::{Rig, chat, config},
};

#[tokio::test]
async fn settlements_wait_for_billing_beyond_what_memory_holds_and_arrive_once() {
    let mut config = config();
    config.pending = 3;
    config.batch = 2;
    let rig = Rig::with(config, |_| ()).await;
    rig.world.change(|state| {
        state.billing_down = true;
        for principal in state.principals.values_mut() {
            principal.serve_without_billing = true;
        }
    });
    let mut ids = Vec::new();
    for _ in 0..10 {
        let answer = rig.chat(&chat(false)).await;
        assert_eq!(answer.status, 200);
        ids.push(answer.id);
    }
    let written = async {
        while rig.component.gauges().unacknowledged < 10 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), written)
        .await
        .unwrap();
    rig.world.change(|state| state.billing_down = false);
    for id in ids {
        rig.settlement(&id).await;
    }
    rig.end().await;
}

#[tokio::test]
async fn a_running_request_shows_signs_of_life() {
    let mut config = config();
    config.progress = Duration::from_millis(20);
    config.lease_renew = Duration::from_millis(20);
    let rig = Rig::with(config, |_| ()).await;
    let gate = Gate::new();
    rig.upstream
        .push(Script::say(["hello world ", "again"]).gate_after(1, &gate));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let mut answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    answers.message().await.unwrap().unwrap();
    // Earlier touches tell of a request that was not sent yet.
    let content = |touch: &Touch| {
        let usage = touch.draft.as_ref().and_then(|draft| draft.usage);
        usage.is_some_and(|usage| usage.output_tokens == Some(3))
    };
    rig.world
        .until("a touch with content and a renewal", |state| {
            state.touched.iter().any(content) && state.renewed.contains(&id)
        })
        .await;
    let touch = rig
        .world
        .change(|state| state.touched.iter().find(|t| content(t)).cloned());
    let touch = touch.unwrap();
    assert_eq!(
        (touch.request_id.as_str(), touch.held_nanos),
        (id.as_str(), 1_000)
    );
    let draft = touch.draft.unwrap();
    assert!(draft.provisional);
    assert_eq!(draft.ending(), Ending::GatewayLost);
    assert!(draft.attempts[0].sent);
    gate.open();
    let answer = crate::rig::collect(id, answers).await;
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.fingerprint, draft.fingerprint);
    rig.end().await;
}

/// However long it waits: silence would end its hold before it runs (BILL-3). It has no row if its process dies (CON-1).
#[tokio::test]
async fn a_request_that_waits_for_an_account_keeps_its_hold_and_has_no_draft() {
    let mut config = config();
    config.progress = Duration::from_millis(20);
    let rig = Rig::with(config, |state| state.queue = true).await;
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let call = rig.open(head, chat(true).to_string().into());
    let of_it = |touch: &&Touch| touch.request_id == id;
    tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        () = rig.world.until("a touch", |state| state.touched.iter().any(|touch| of_it(&touch))) => {}
    }
    let touched = rig.world.state().touched.clone();
    let touch = touched.iter().find(of_it).unwrap();
    assert_eq!((touch.held_nanos, &touch.draft), (1_000, &None));
    assert!(!touch.tenant.is_empty());
    rig.settlement(&id).await;
    rig.world.change(|state| state.queue = false);
    rig.end().await;
}

/// More bytes a token than the estimate takes: five words, and the end of the text.
const PROMPT: &str = "international international international international international";
const COUNTED: u64 = 6;

fn long_words() -> serde_json::Value {
    let mut body = chat(true);
    body["messages"][0]["content"] = PROMPT.into();
    body
}

#[tokio::test]
async fn the_input_of_what_runs_for_long_is_counted_before_it_ends() {
    let mut config = config();
    config.count_after = Duration::from_millis(10);
    let rig = Rig::with(config, |_| ()).await;
    let gate = Gate::new();
    rig.upstream.push(
        Script::say(["hello ", "again"])
            .gate_after(1, &gate)
            .usage_shape(UsageShape::Absent),
    );
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let body = long_words().to_string().into();
    let answers = rig.open(head, body).await.unwrap();
    let input = |touch: &Touch| {
        let usage = touch.draft.as_ref().and_then(|draft| draft.usage);
        usage.and_then(|usage| usage.input_tokens)
    };
    rig.world
        .until("a touch with what was counted", |state| {
            state
                .touched
                .iter()
                .any(|touch| input(touch) == Some(COUNTED))
        })
        .await;
    gate.open();
    let answer = crate::rig::collect(id, answers).await;
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.usage_source(), UsageSource::Estimated);
    assert_eq!(settlement.usage.unwrap().input_tokens, Some(COUNTED));
    rig.end().await;
}

#[test]
fn a_killed_forwarder_settles_from_its_journal_when_it_is_back() {
    let directory = Arc::new(TempDir::new().unwrap());
    // The upstream outlives the forwarder.
    let outside = tokio::runtime::Runtime::new().unwrap();
    let upstream = outside.block_on(FakeUpstream::start()).unwrap();
    // On one thread: when it stops, nothing runs any more that could see its caller leave.
    let mut first = tokio::runtime::Builder::new_current_thread();
    let first = first.enable_all().build().unwrap();
    let kept = Arc::clone(&directory);
    let (id, done, _upstream) = first.block_on(async {
        let trusting = |state: &mut State| {
            for principal in state.principals.values_mut() {
                principal.serve_without_billing = true;
            }
        };
        let mut counting = config();
        counting.count_after = Duration::from_millis(10);
        let rig = Rig::on(upstream, counting, trusting, kept).await;
        rig.world.change(|state| state.billing_down = true);
        // One is settled, but billing does not have it.
        let done = rig.chat(&chat(false)).await.id;
        // One is in mid-stream.
        let gate = Gate::new();
        rig.upstream
            .push(Script::say(["hello world hello world ", "never"]).gate_after(1, &gate));
        let head = rig.head(Dialect::OpenaiChat);
        let id = head.request_id.clone();
        let body = long_words().to_string().into();
        let mut answers = rig.open(head, body).await.unwrap();
        answers.message().await.unwrap().unwrap();
        // Both are on the disk; the journal is written in the background.
        let written = async {
            loop {
                let files = std::fs::read_dir(rig.directory.path()).unwrap();
                let bytes: Vec<u8> = files
                    .flat_map(|f| std::fs::read(f.unwrap().path()).unwrap())
                    .collect();
                let times = |id: &str| {
                    bytes
                        .windows(id.len())
                        .filter(|w| *w == id.as_bytes())
                        .count()
                };
                // Sent, then first content, then its input counted; sent, then settled.
                if times(&id) >= 3 && times(&done) >= 2 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), written)
            .await
            .unwrap();
        std::mem::forget(answers);
        (id, done, rig.upstream)
    });
    drop(first);

    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        let catalogue = CatalogueSnapshot {
            version: 1,
            ..CatalogueSnapshot::default()
        };
        let world = World::new(catalogue, State::default());
        let upstream = FakeUpstream::start().await.unwrap();
        let rig = Rig::join(config(), upstream, world, directory).await;
        let lost = rig.settlement(&id).await;
        assert_eq!(lost.ending(), Ending::GatewayLost);
        assert!(!lost.provisional);
        assert_eq!(lost.usage_source(), UsageSource::Estimated);
        let usage = lost.usage.unwrap();
        assert_eq!(usage.output_tokens, Some(6), "24 bytes of text");
        assert_eq!(usage.input_tokens, Some(COUNTED));
        assert_eq!(lost.party.as_ref().unwrap().tenant, "acme");
        let settled = rig.settlement(&done).await;
        assert_eq!(settled.ending(), Ending::Complete);
        rig.end().await;
    });
}
