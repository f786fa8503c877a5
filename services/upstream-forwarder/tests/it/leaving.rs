//! Callers that leave, at each stage: the upstream is cancelled, the slot comes back, the row is right.

use std::time::Duration;

use fake_upstream::{Gate, Outcome, Script, Usage, UsageShape};
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    billing::v1::{Ending, Settlement},
    common::v1::{Dialect, UsageSource},
};

use crate::{
    peers::State,
    rig::{Rig, chat, config},
};

/// Opens a call, waits until the upstream has it, and leaves.
async fn leave_while_waiting(rig: &Rig, stream: bool) -> Settlement {
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let call = rig.open(head, chat(stream).to_string().into());
    let seen = rig.upstream.wait_for(|log| log.in_flight == 1);
    tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        seen = seen => seen.unwrap(),
    }
    rig.upstream
        .wait_for(|log| log.in_flight == 0)
        .await
        .unwrap();
    assert_eq!(rig.upstream.log().count(Outcome::CallerLeft), 1);
    rig.settlement(&id).await
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_first_token_pays_for_input() {
    for stream in [false, true] {
        let rig = Rig::start().await;
        rig.upstream.push(Script::hang());
        let settlement = leave_while_waiting(&rig, stream).await;
        assert_eq!(settlement.ending(), Ending::CallerLeft);
        assert_eq!(
            (settlement.status, settlement.error_code.as_str()),
            (499, "caller_left")
        );
        assert_eq!(settlement.usage_source(), UsageSource::Estimated);
        let usage = settlement.usage.unwrap();
        assert!(usage.input_tokens.unwrap() > 0);
        assert_eq!(usage.output_tokens, Some(0));
        assert_eq!(settlement.attempts.len(), 1, "no retry after the departure");
        assert_eq!(settlement.attempts[0].usage, settlement.usage);
        rig.end().await;
    }
}

/// Who refused the only attempt works on nothing, and charges nothing.
#[tokio::test]
async fn a_caller_that_leaves_while_a_refusal_is_waited_out_pays_nothing() {
    let mut config = config();
    config.progress = Duration::from_millis(20);
    let rig = Rig::with(config, |state| state.candidates.truncate(1)).await;
    rig.upstream.push(Script::rate_limited(Some(3)));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let call = rig.open(head, chat(false).to_string().into());
    let draft = |state: &State| {
        let mut drafts = state.touched.iter().filter_map(|touch| touch.draft.clone());
        drafts.find(|draft| draft.attempts[0].error == "rate_limited")
    };
    tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        () = rig.world.until("a touch after the refusal", |state| draft(state).is_some()) => {}
    }
    let draft = rig.world.change(|state| draft(state)).unwrap();
    assert!(draft.charge_nothing, "nor if the process dies");
    let settlement = rig.settlement(&id).await;
    assert_eq!(settlement.ending(), Ending::CallerLeft);
    assert!(settlement.charge_nothing);
    for settlement in [draft, settlement] {
        assert_eq!(settlement.usage, None);
        let costs: Vec<_> = settlement.attempts.iter().map(|it| it.usage).collect();
        assert_eq!(costs, [None]);
    }
    rig.end().await;
}

#[tokio::test]
async fn a_caller_that_leaves_before_its_request_was_read_pays_nothing() {
    // Whoever listens there accepts, and reads nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://{}/v1/chat/completions",
        listener.local_addr().unwrap()
    );
    let rig = Rig::with(config(), |state| state.candidates[0].url = url).await;
    let mut asked = chat(true);
    asked["messages"][0]["content"] = "a".repeat(16 << 20).into();
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let call = rig.open(head, asked.to_string().into());
    let arrived = async {
        let (tcp, _) = listener.accept().await.unwrap();
        tcp.peek(&mut [0]).await.unwrap();
        tcp
    };
    let _unread = tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        tcp = arrived => tcp,
    };
    let settlement = rig.settlement(&id).await;
    assert_eq!(settlement.ending(), Ending::CallerLeft);
    assert_eq!((settlement.usage, settlement.charge_nothing), (None, true));
    let attempt = &settlement.attempts[0];
    assert_eq!((attempt.sent, attempt.usage), (false, None));
    rig.end().await;
}

#[tokio::test]
async fn an_abandoned_request_is_free_where_the_tenant_has_it_so() {
    let rig = Rig::with(config(), |state| {
        for principal in state.principals.values_mut() {
            principal.abandoned_free = true;
        }
    })
    .await;
    rig.upstream.push(Script::hang());
    let settlement = leave_while_waiting(&rig, true).await;
    assert!(settlement.charge_nothing);
    assert_eq!(settlement.usage, None);
    assert!(
        settlement.attempts[0].usage.is_some(),
        "the provider is paid"
    );
    rig.end().await;
}

#[tokio::test]
async fn a_caller_that_leaves_in_mid_stream_pays_for_what_it_got() {
    let words = ["hello world ", "hello world ", "hello world ", "never seen"];
    for shape in [UsageShape::AsAsked, UsageShape::EveryChunk] {
        let rig = Rig::start().await;
        let gate = Gate::new();
        let usage = Usage::of(1_000, 50);
        rig.upstream.push(
            Script::say(words)
                .usage(usage)
                .usage_shape(shape)
                .gate_after(3, &gate),
        );
        let head = rig.head(Dialect::OpenaiChat);
        let id = head.request_id.clone();
        let mut answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
        let mut seen = String::new();
        while seen.matches("hello").count() < 3 {
            let message = answers.message().await.unwrap().unwrap();
            seen.push_str(std::str::from_utf8(&message.frame).unwrap());
        }
        drop(answers);
        rig.upstream
            .wait_for(|log| log.in_flight == 0)
            .await
            .unwrap();
        assert_eq!(rig.upstream.log().count(Outcome::CallerLeft), 1);
        let settlement = rig.settlement(&id).await;
        assert_eq!(
            (settlement.ending(), settlement.status),
            (Ending::CallerLeft, 499)
        );
        let paid = settlement.usage.unwrap();
        if shape == UsageShape::EveryChunk {
            assert_eq!(settlement.usage_source(), UsageSource::Provider);
            assert_eq!(paid.input_tokens, Some(1_000));
        } else {
            assert_eq!(settlement.usage_source(), UsageSource::Estimated);
            assert!((6..=7).contains(&paid.output_tokens.unwrap()), "{paid:?}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_takes_nothing_and_has_a_row() {
    let rig = Rig::with(config(), |state| state.queue = true).await;
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let call = rig.open(head, chat(true).to_string().into());
    tokio::select! {
        answer = call => panic!("answered: {answer:?}"),
        () = rig.world.until("waiting", |state| state.waiting == 1 && !state.reserved.is_empty()) => {}
    }
    rig.world
        .until("left the queue", |state| state.left_queue == 1)
        .await;
    let settlement = rig.settlement(&id).await;
    assert_eq!(
        (settlement.ending(), settlement.status),
        (Ending::CallerLeft, 499)
    );
    assert!(settlement.charge_nothing);
    assert!(settlement.attempts.is_empty());
    rig.world
        .until("undone", |state| {
            !state.voided.is_empty() && !state.released.is_empty()
        })
        .await;
    assert!(rig.world.state().released[0].1.undo);
    assert_eq!(rig.upstream.log().total, 0);
    rig.world.change(|state| state.queue = false);
    rig.end().await;
}

#[tokio::test]
async fn a_refusal_of_one_undoes_the_other_and_moneys_word_counts() {
    let poor = Failure::new(Reason::InsufficientQuota, "no money");
    let full = Failure::new(Reason::ConcurrencyFull, "key is full");
    for (reserve, acquire, expected) in [
        (Some(poor.clone()), None, Reason::InsufficientQuota),
        (None, Some(full.clone()), Reason::ConcurrencyFull),
        (Some(poor), Some(full), Reason::InsufficientQuota),
    ] {
        let refused_money = reserve.is_some();
        let rig = Rig::with(config(), |state| {
            state.reserve_error = reserve;
            state.acquire_error = acquire;
        })
        .await;
        let answer = rig.chat(&chat(false)).await;
        assert_eq!(answer.failure.unwrap().reason, expected);
        rig.world
            .until("released", |state| state.released.len() == 1)
            .await;
        assert!(rig.world.state().released[0].1.undo);
        rig.world
            .until("voided", |state| state.voided.len() == 1)
            .await;
        assert!(
            rig.world.state().settled.is_empty(),
            "refusals are no rows; refused money: {refused_money}"
        );
        assert_eq!(rig.upstream.log().total, 0);
        rig.end().await;
    }
}

#[tokio::test]
async fn refused_money_is_told_at_once_also_when_all_accounts_are_full() {
    let rig = Rig::with(config(), |state| {
        state.queue = true;
        state.reserve_error = Some(Failure::new(Reason::InsufficientQuota, "no money"));
    })
    .await;
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(answer.failure.unwrap().reason, Reason::InsufficientQuota);
    rig.world.change(|state| state.queue = false);
    rig.end().await;
}

#[tokio::test]
async fn a_stalled_reader_slows_its_own_upstream_and_memory_is_bounded() {
    let mut config = config();
    config.stream_buffer = 32 << 10;
    let rig = Rig::with(config, |_| ()).await;
    let big = "x".repeat(8 << 10);
    rig.upstream.push(Script::say(vec![big; 4_000]));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    // Another caller is served while the first one does not read.
    let other = rig.chat(&chat(true)).await;
    assert_eq!(other.failure, None);
    let held = rig.component.gauges().buffered_bytes;
    assert!(held < 512 << 10, "{held}");
    let written = rig.upstream.log().requests[0].bytes_written;
    assert!(written < 30 << 20, "the upstream was not slowed: {written}");
    let answer = crate::rig::collect(id, answers).await;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.streamed().len(), 4_000 * (8 << 10));
    rig.end().await;
}

#[tokio::test]
async fn shutdown_lets_streams_finish_and_then_cuts_and_settles_them() {
    let rig = Rig::start().await;
    let gate = Gate::new();
    rig.upstream
        .push(Script::say(["hello ", "world"]).gate_after(1, &gate));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let mut answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    answers.message().await.unwrap().unwrap();
    rig.lifecycle.stop();
    assert!(!rig.component.ready());
    let refused = rig.chat(&chat(false)).await;
    assert_eq!(refused.failure.unwrap().reason, Reason::Unavailable);
    rig.lifecycle.kill();
    let answer = crate::rig::collect(id, answers).await;
    assert_eq!(answer.failure.unwrap().reason, Reason::Unavailable);
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.ending(), Ending::GatewayLost);
    assert!(!settlement.provisional);
    assert!(settlement.usage.unwrap().output_tokens.unwrap() > 0);
    rig.end().await;
}

#[tokio::test]
async fn a_panic_is_an_error_a_settlement_and_a_release() {
    for (stream, deltas) in [(false, 0), (true, 1)] {
        let rig = Rig::start().await;
        let gate = Gate::new();
        let script = Script::say(["hello ", "world"]);
        rig.upstream.push(if stream {
            script.gate_after(deltas, &gate).reset_after(deltas)
        } else {
            script.gate(&gate)
        });
        let head = rig.head(Dialect::OpenaiChat);
        let id = head.request_id.clone();
        let spring = async {
            gate.reached(1).await;
            if !stream {
                rig.trap.set();
                gate.open();
            }
        };
        let opened = rig.open(head, chat(stream).to_string().into());
        let (opened, ()) = tokio::join!(opened, spring);
        let failure = match opened {
            Ok(mut answers) => {
                answers.message().await.unwrap().unwrap();
                rig.trap.set();
                gate.open();
                crate::rig::collect(id.clone(), answers)
                    .await
                    .failure
                    .unwrap()
            }
            Err(status) => Failure::from_status(&status),
        };
        assert_eq!(failure.reason, Reason::Internal);
        assert!(!failure.message.contains("trap"));
        let settlement = rig.settlement(&id).await;
        if stream {
            assert_eq!(settlement.ending(), Ending::GatewayLost);
            assert_eq!(settlement.usage_source(), UsageSource::Estimated);
        } else {
            assert_eq!(
                (settlement.ending(), settlement.status),
                (Ending::Failed, 500)
            );
            assert!(settlement.charge_nothing);
        }
        rig.end().await;
    }
}
