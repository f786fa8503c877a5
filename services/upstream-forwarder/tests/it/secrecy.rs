//! What must not get out: our credential in an answer, our calls to private addresses (SPEC FWD-7, SEC-3).

use fake_upstream::Script;
use switchboard_common::error::Reason;
use switchboard_proto::scheduler::v1::{Blame, FailureKind};

use crate::rig::{Rig, SECRET, chat, config};

#[tokio::test]
async fn an_upstream_that_repeats_our_credential_is_not_repeated() {
    let rig = Rig::start().await;
    rig.upstream.push(Script::error(
        400,
        "invalid_request_error",
        None,
        &format!("bad key {SECRET}"),
    ));
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(answer.status, 400);
    assert!(!answer.text().contains(SECRET));
    rig.end().await;
}

#[tokio::test]
async fn private_addresses_are_refused_unless_the_account_allows_them() {
    let rig = Rig::with(config(), |state| {
        state.candidates[0].allow_private_address = false;
        let mut named = state.candidates[0].clone();
        named.account = "two".to_owned();
        named.url = named.url.replace("127.0.0.1", "localhost");
        state.candidates[1] = named;
    })
    .await;
    let answer = rig.chat(&chat(false)).await;
    let failure = answer.failure.unwrap();
    assert_eq!(failure.reason, Reason::UpstreamFailed);
    assert!(failure.message.contains("address"), "{failure}");
    for address in ["127.0.0.1", "localhost"] {
        assert!(!failure.message.contains(address), "{failure}");
    }
    // It rests, and no login is asked for.
    let told = rig.world.state().advanced[0].failed.clone().unwrap();
    assert_eq!(
        (told.blame(), told.failure()),
        (Blame::Account, FailureKind::Address)
    );
    assert_eq!(rig.upstream.log().connections, 0);
    let settlement = rig.settlement(&answer.id).await;
    let errors: Vec<_> = settlement
        .attempts
        .iter()
        .map(|a| a.error.as_str())
        .collect();
    assert_eq!(errors, ["address_refused", "address_refused"]);
    rig.end().await;
}

#[tokio::test]
async fn our_credential_is_in_no_form_of_an_answer() {
    let said = |secret: &str| {
        format!(
            r#"{{"error":{{"message":"bad key {secret}","type":"invalid_request_error","code":400}}}}"#
        )
    };
    let escaped = SECRET.replacen('-', "\\u002d", 1);
    assert_ne!(escaped, SECRET);
    for text in [said(SECRET), said(&escaped)] {
        for (name, stream, script) in [
            (
                "whole",
                false,
                Script::body(400, "application/json", text.clone()),
            ),
            (
                "in a 200",
                false,
                Script::body(200, "application/json", text.clone()),
            ),
            (
                "in a 200 for a stream",
                true,
                Script::body(200, "application/json", text.clone()),
            ),
            ("first event", true, Script::events([text.clone()])),
            (
                "later event",
                true,
                Script::say(["a"]).write_after(1, format!("data: {text}\n\n")),
            ),
        ] {
            let rig = Rig::start().await;
            rig.upstream.push(script);
            let answer = rig.chat(&chat(stream)).await;
            let seen = format!("{:?} {}", answer.failure, answer.text());
            assert!(
                !seen.contains(SECRET) && !seen.contains(&escaped),
                "{name}: {seen}"
            );
            rig.end().await;
        }
    }
    let rig = Rig::start().await;
    for stream in [false, true] {
        rig.upstream
            .push(Script::say(["a"]).header("openai-version", &format!("of {SECRET}")));
        let answer = rig.chat(&chat(stream)).await;
        assert_eq!(
            (answer.status, answer.header("openai-version")),
            (200, None)
        );
    }
    rig.end().await;
}
