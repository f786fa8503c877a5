//! Who comes in, and what is refused before anything is taken.

use std::time::Duration;

use bytes::Bytes;
use fake_upstream::Script;
use futures_util::{future::join_all, stream};
use serde_json::json;
use switchboard_common::error::Reason;
use switchboard_proto::{auth::v1::Status, common::v1::Dialect, inference::v1::RelayRequest};

use crate::rig::{Answer, KEY, Rig, chat, collect, config, principal};

fn reason(answer: &Answer) -> Option<Reason> {
    answer.failure.as_ref().map(|failure| failure.reason)
}

#[tokio::test]
async fn a_caller_is_looked_up_once_and_an_unknown_one_is_refused() {
    let rig = Rig::start().await;
    let body = chat(false);
    for answer in join_all((0..20).map(|_| rig.chat(&body))).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(rig.world.state().lookups, 1);
    for _ in 0..3 {
        let mut head = rig.head(Dialect::OpenaiChat);
        head.credential = "sk-sb-nobody".to_owned();
        let answer = rig.relay(head, chat(false).to_string().into()).await;
        assert_eq!(reason(&answer), Some(Reason::InvalidApiKey));
    }
    assert_eq!(rig.world.state().lookups, 2, "unknown keys are remembered");
    let mut head = rig.head(Dialect::OpenaiChat);
    head.credential = String::new();
    let answer = rig.relay(head, Bytes::new()).await;
    assert_eq!(reason(&answer), Some(Reason::InvalidApiKey));
    rig.end().await;
}

#[tokio::test]
async fn a_change_is_obeyed_and_a_stale_answer_of_auth_is_not_taken_for_new() {
    let rig = Rig::start().await;
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    // The change is known, but auth still answers from before it.
    rig.world.announce(5, "key", "acme");
    let stale = async {
        while rig.chat(&chat(false)).await.status == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stale)
        .await
        .unwrap();
    assert_eq!(
        reason(&rig.chat(&chat(false)).await),
        Some(Reason::Unavailable)
    );
    rig.world.change(|state| {
        let mut changed = principal();
        changed.key_status = Status::Disabled as i32;
        changed.change_seq = 5;
        state.principals.insert(KEY.to_owned(), changed);
    });
    assert_eq!(
        reason(&rig.chat(&chat(false)).await),
        Some(Reason::KeyDisabled)
    );
    // Another tenant's change costs no look-up.
    let before = rig.world.state().lookups;
    rig.world.announce(6, "tenant", "other");
    assert_eq!(
        reason(&rig.chat(&chat(false)).await),
        Some(Reason::KeyDisabled)
    );
    assert_eq!(rig.world.state().lookups, before);
    rig.end().await;
}

#[tokio::test]
async fn known_callers_go_on_while_auth_is_down_and_unknown_ones_are_told_to_come_back() {
    let mut config = config();
    config.principals.ttl = Duration::ZERO;
    let rig = Rig::with(config, |_| ()).await;
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    rig.world.change(|state| state.auth_down = true);
    assert_eq!(rig.chat(&chat(false)).await.status, 200);
    let mut head = rig.head(Dialect::OpenaiChat);
    head.credential = "sk-sb-other".to_owned();
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(reason(&answer), Some(Reason::Unavailable));
    assert!(answer.failure.unwrap().retry_after.is_some());
    rig.world.change(|state| {
        state.auth_down = false;
        let known = state.principals[KEY].clone();
        state.principals.insert("sk-sb-other".to_owned(), known);
    });
    let mut head = rig.head(Dialect::OpenaiChat);
    head.credential = "sk-sb-other".to_owned();
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(answer.status, 200, "a failed look-up is not remembered");
    rig.end().await;
}

#[tokio::test]
async fn bad_requests_are_refused_with_the_field_and_cost_nothing() {
    let rig = Rig::start().await;
    for (body, param) in [
        ("", None),
        ("[]", None),
        ("{", None),
        (
            r#"{"messages":[{"role":"user","content":"x"}]}"#,
            Some("model"),
        ),
        (r#"{"model":"text"}"#, Some("messages")),
        (r#"{"model":"text","messages":[]}"#, Some("messages")),
        (
            r#"{"model":"text","messages":[{"role":"user","content":"x"}],"stream":"yes"}"#,
            Some("stream"),
        ),
        (
            r#"{"model":"text","messages":[{"role":"user","content":"x"}],"n":0}"#,
            Some("n"),
        ),
    ] {
        let answer = rig.relay(rig.head(Dialect::OpenaiChat), body.into()).await;
        let failure = answer.failure.unwrap();
        assert_eq!(failure.reason, Reason::InvalidRequest, "{body}");
        assert_eq!(failure.param.as_deref(), param, "{body}: {failure}");
    }
    for (name, expected) in [
        ("other", Reason::ModelNotFound),
        ("nothing", Reason::ModelNotFound),
    ] {
        let body = json!({"model": name, "messages": [{"role": "user", "content": "x"}]});
        assert_eq!(reason(&rig.chat(&body).await), Some(expected));
    }
    let taken = rig
        .world
        .change(|state| state.reserved.len() + state.acquired.len());
    assert_eq!(taken, 0);
    rig.end().await;
}

#[tokio::test]
async fn bodies_come_in_pieces_within_their_bounds() {
    let mut config = config();
    config.body_limit = 1_000;
    let rig = Rig::with(config, |_| ()).await;
    let send = |pieces: Vec<Vec<u8>>, length: Option<u64>| {
        let mut head = rig.head(Dialect::OpenaiChat);
        head.content_length = length;
        let id = head.request_id.clone();
        let last = pieces.len() - 1;
        let messages: Vec<_> = pieces
            .into_iter()
            .enumerate()
            .map(|(at, body)| RelayRequest {
                turn: 0,
                head: (at == 0).then(|| head.clone()),
                body: body.into(),
                end: at == last,
            })
            .collect();
        let mut client = rig.client.clone();
        async move {
            match client.relay(stream::iter(messages)).await {
                Ok(answers) => collect(id, answers.into_inner()).await,
                Err(status) => Answer {
                    id,
                    failure: Some(switchboard_common::error::Failure::from_status(&status)),
                    ..Answer::default()
                },
            }
        }
    };
    let text = chat(false).to_string().into_bytes();
    let pieces = text.chunks(7).map(<[u8]>::to_vec).collect();
    assert_eq!(send(pieces, None).await.status, 200);
    let large = vec![b' '; 600];
    let answer = send(vec![large.clone(), large.clone()], None).await;
    assert_eq!(reason(&answer), Some(Reason::BodyTooLarge));
    assert!(answer.failure.unwrap().message.contains("1000"));
    let answer = send(vec![large], Some(5_000)).await;
    assert_eq!(reason(&answer), Some(Reason::BodyTooLarge));
    rig.end().await;
}

#[tokio::test]
async fn too_many_bytes_in_flight_and_loops_between_gateways_are_refused() {
    let mut config = config();
    config.body_total = 10;
    let rig = Rig::with(config, |_| ()).await;
    let gate = fake_upstream::Gate::new();
    rig.upstream.push(Script::say(["x"]).gate(&gate));
    let body = chat(false);
    let first = rig.chat(&body);
    let second = async {
        rig.upstream
            .wait_for(|log| log.in_flight == 1)
            .await
            .unwrap();
        let answer = rig.chat(&chat(false)).await;
        gate.open();
        answer
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.status, 200);
    assert_eq!(reason(&second), Some(Reason::Unavailable));
    let mut head = rig.head(Dialect::OpenaiChat);
    head.hops = 6;
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(reason(&answer), Some(Reason::InvalidRequest));
    rig.end().await;
}

#[tokio::test]
async fn without_billing_only_those_are_served_who_may_be() {
    let rig = Rig::with(config(), |state| state.billing_down = true).await;
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(reason(&answer), Some(Reason::Unavailable));
    assert!(answer.failure.unwrap().retry_after.is_some());
    rig.world.change(|state| {
        let mut trusted = principal();
        trusted.serve_without_billing = true;
        trusted.tenant = "postpaid".to_owned();
        state
            .principals
            .insert("sk-sb-postpaid".to_owned(), trusted);
    });
    let mut head = rig.head(Dialect::OpenaiChat);
    head.credential = "sk-sb-postpaid".to_owned();
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    assert_eq!(answer.status, 200);
    rig.world.change(|state| state.billing_down = false);
    assert_eq!(rig.settlement(&answer.id).await.status, 200);
    rig.end().await;
}
