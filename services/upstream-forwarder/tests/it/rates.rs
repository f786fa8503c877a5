//! Every answer to a caller that has rate limits carries them (SPEC FLOW-5), whoever refuses.

use fake_upstream::{Script, Usage};
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::{Dialect, Limits},
    scheduler::v1::RateLimitState,
};

use crate::rig::{Answer, KEY, Rig, chat, config, principal};

/// A world whose caller has a limit of sixty requests a minute, four of which are left.
async fn limited(change: impl FnOnce(&mut crate::peers::State)) -> Rig {
    Rig::with(config(), |state| {
        let mut who = principal();
        who.key_limits = Some(Limits {
            requests_per_minute: Some(60),
            ..Limits::default()
        });
        state.principals.insert(KEY.to_owned(), who);
        state.rate_limits = vec![RateLimitState {
            unit: "requests".to_owned(),
            level: "key".to_owned(),
            limit: 60,
            remaining: 4,
            reset_ms: 1_500,
        }];
        change(state);
    })
    .await
}

fn shown(answer: &Answer, name: &str) -> Option<String> {
    match &answer.failure {
        Some(failure) => {
            let mut headers = failure.headers.iter();
            headers.find(|(own, _)| own == name).map(|(_, v)| v.clone())
        }
        None => answer.header(name).map(str::to_owned),
    }
}

fn assert_shown(answer: &Answer) {
    for (name, value) in [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "4"),
        ("x-ratelimit-reset-requests", "1.5s"),
    ] {
        assert_eq!(shown(answer, name).as_deref(), Some(value), "{answer:?}");
    }
}

fn money(reason: Reason) -> Option<Failure> {
    Some(Failure::new(reason, "no money"))
}

#[tokio::test]
async fn refused_money_shows_them_as_acquire_told_them_or_as_they_are() {
    for reason in [Reason::InsufficientQuota, Reason::QuotaExceeded] {
        for queue in [false, true] {
            let rig = limited(|state| {
                state.reserve_error = money(reason);
                state.queue = queue;
            })
            .await;
            let answer = rig.chat(&chat(false)).await;
            assert_shown(&answer);
            let failure = answer.failure.unwrap();
            assert_eq!(failure.reason, reason);
            assert!(failure.retry_after_secs() >= Some(1));
            rig.world.change(|state| state.queue = false);
            rig.end().await;
        }
    }
}

#[tokio::test]
async fn a_refusal_of_both_shows_the_rates_that_the_scheduler_refused_with() {
    let rig = limited(|state| {
        state.reserve_error = money(Reason::InsufficientQuota);
        state.acquire_error = Some(
            Failure::new(Reason::ConcurrencyFull, "key is full")
                .header("x-ratelimit-limit-requests", "60")
                .header("x-ratelimit-remaining-requests", "4")
                .header("x-ratelimit-reset-requests", "1.5s"),
        );
    })
    .await;
    let answer = rig.chat(&chat(false)).await;
    assert_shown(&answer);
    assert_eq!(answer.failure.unwrap().reason, Reason::InsufficientQuota);
    rig.end().await;
}

#[tokio::test]
async fn what_is_refused_before_anything_is_taken_shows_the_callers_own() {
    let rig = limited(|_| ()).await;
    let mut unknown = chat(false);
    unknown["model"] = "nobody's".into();
    for (body, reason) in [
        ("{".to_owned(), Reason::InvalidRequest),
        (unknown.to_string(), Reason::ModelNotFound),
    ] {
        let answer = rig.relay(rig.head(Dialect::OpenaiChat), body.into()).await;
        assert_shown(&answer);
        assert_eq!(answer.failure.unwrap().reason, reason);
    }
    // The list of models is answered, not refused.
    let listed = rig.relay(rig.head(Dialect::OpenaiModels), "".into()).await;
    assert_eq!(listed.status, 200);
    assert_shown(&listed);
    // A dialect without such headers has none, and another has its own.
    let rig_head = rig.head(Dialect::AnthropicMessages);
    let answer = rig.relay(rig_head, "{".into()).await;
    let left = shown(&answer, "anthropic-ratelimit-requests-remaining");
    assert_eq!(left.as_deref(), Some("4"));
    // Who is not known, or not let in, has no limits.
    let mut head = rig.head(Dialect::OpenaiChat);
    head.credential = "sk-sb-nobody".to_owned();
    let looked = rig.world.state().looked.len();
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(answer.failure.unwrap().headers, []);
    assert_eq!(rig.world.state().looked.len(), looked);
    rig.end().await;
}

#[tokio::test]
async fn a_caller_without_rates_costs_no_question() {
    let rig = Rig::start().await;
    let answer = rig.relay(rig.head(Dialect::OpenaiChat), "{".into()).await;
    assert_eq!(answer.failure.unwrap().headers, []);
    assert!(rig.world.state().looked.is_empty());
    rig.end().await;
}

#[tokio::test]
async fn a_head_that_goes_out_while_the_request_waits_shows_them() {
    let rig = limited(|state| state.queue = true).await;
    let mut catalogue = rig.world.catalogue.borrow().clone();
    catalogue.version += 1;
    for model in &mut catalogue.models {
        model.commit_after_ms = Some(0);
    }
    let version = catalogue.version;
    rig.world.catalogue.send_replace(catalogue);
    let mut versions = rig.component.catalogue_versions();
    versions.wait_for(|known| *known == version).await.unwrap();
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    // The first word comes while the queue is still closed.
    let answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    rig.world.change(|state| state.queue = false);
    let answer = crate::rig::collect(id, answers).await;
    assert_eq!((answer.status, answer.failure.is_none()), (200, true));
    assert_shown(&answer);
    rig.end().await;
}

/// CASES A25: what the caller asks next is judged by what was used, not by what was expected.
#[tokio::test]
async fn tokens_that_are_nearly_used_up_are_counted_before_the_answer_ends() {
    let usage = Usage::of(100, 500);
    for stream in [false, true] {
        for remaining in [0, 990] {
            let rig = limited(|state| {
                state.rate_limits.push(RateLimitState {
                    unit: "tokens".to_owned(),
                    level: "key".to_owned(),
                    limit: 1_000,
                    remaining,
                    reset_ms: 600,
                });
            })
            .await;
            rig.upstream.push(Script::say(["hello"]).usage(usage));
            let mut asked = chat(stream);
            asked["max_tokens"] = 5.into();
            let answer = rig.chat(&asked).await;
            assert!(answer.failure.is_none(), "{answer:?}");
            // What else was learned is known after the end alone.
            let first = rig.world.state().released.first().cloned();
            let (_, first) = first.expect("counted by the end of the answer");
            assert_eq!((first.used_tokens, first.outcome), (Some(600), None));
            rig.end().await;
        }
    }
}
