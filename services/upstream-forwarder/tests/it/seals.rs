//! What one account sealed and another one of the same provider refuses (CASES C19): it is left out once, and the call is
//! answered. The caller is told; one who wants nothing left out gets the refusal.

use bytes::Bytes;
use fake_upstream::Script;
use serde_json::{Value, json};
use switchboard_proto::billing::v1::Ending;

use crate::{
    dialects::{Spoken, Vendor, streaming},
    rig::{Answer, KEY, Rig, SECRET},
};

/// A conversation with something sealed in it.
fn sealed(spoken: &Spoken, stream: bool) -> Value {
    match spoken.name {
        "chat" => {
            json!({"model": "text", "stream": stream, "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "theirs"}]},
            {"role": "user", "content": "go on"}]})
        }
        "responses" => {
            json!({"model": "text", "stream": stream, "store": false, "input": [{"role": "user", "content": "hi"},
            {"type": "reasoning", "summary": [], "encrypted_content": "theirs"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "go on"}]})
        }
        "messages" => {
            json!({"model": "text", "stream": stream, "max_tokens": 99, "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "theirs"}, {"type": "text", "text": "a"}]},
            {"role": "user", "content": "go on"}]})
        }
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"text": "a", "thoughtSignature": "theirs"}]},
            {"role": "user", "parts": [{"text": "go on"}]}]}),
    }
}

/// How a vendor refuses it.
fn refusal(vendor: Vendor) -> Value {
    match vendor {
        Vendor::OpenAi => {
            json!({"error": {"message": "The encrypted content for item rs_1 could not be verified.",
            "type": "invalid_request_error", "param": null, "code": "invalid_encrypted_content"}})
        }
        Vendor::Anthropic => vendor.error(
            400,
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        Vendor::Google => vendor.error(400, "Thought signature is not valid."),
    }
}

fn with_seals() -> impl Iterator<Item = Spoken> {
    let names = ["chat", "responses", "messages", "gemini"];
    streaming().filter(move |spoken| names.contains(&spoken.name))
}

async fn ask(rig: &Rig, spoken: &Spoken, stream: bool, body: &Value) -> Answer {
    let body = Bytes::from(body.to_string());
    rig.relay(spoken.head(rig, stream), body).await
}

/// The bodies that the upstream got, from the `from`th on.
fn bodies(rig: &Rig, from: usize) -> Vec<Value> {
    let log = rig.upstream.log();
    log.requests[from..].iter().map(|it| it.json()).collect()
}

#[tokio::test]
async fn what_another_account_sealed_is_left_out_once_and_the_call_is_answered() {
    for spoken in with_seals() {
        let rig = spoken.rig().await;
        for &stream in spoken.ways() {
            let what = format!("{}, stream {stream}", spoken.name);
            let before = rig.upstream.log().requests.len();
            let refused = Script::json(400, &refusal(spoken.vendor));
            rig.upstream.push_on_key(SECRET, refused);
            rig.upstream.push_on_key(SECRET, spoken.good(stream));
            let answer = ask(&rig, &spoken, stream, &sealed(&spoken, stream)).await;
            assert_eq!(
                (answer.failure.clone(), answer.status),
                (None, 200),
                "{what}"
            );
            assert!(
                answer.header("x-switchboard-dropped-params").is_some(),
                "{what}"
            );
            let asked = bodies(&rig, before);
            assert_eq!(asked.len(), 2, "{what}");
            assert!(asked[0].to_string().contains("theirs"), "{what}");
            assert!(!asked[1].to_string().contains("theirs"), "{what}");
            assert!(asked[1].to_string().contains("go on"), "{what}");
            let settlement = rig.settlement(&answer.id).await;
            assert_eq!(settlement.ending(), Ending::Complete, "{what}");
            let accounts: Vec<_> = settlement.attempts.iter().map(|it| &*it.account).collect();
            assert_eq!(accounts, ["one", "one"], "{what}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_refusal_in_a_stream_before_content_is_the_same() {
    for spoken in with_seals() {
        let rig = spoken.rig().await;
        let event = match spoken.vendor {
            Vendor::Anthropic => format!("event: error\ndata: {}\n\n", refusal(spoken.vendor)),
            _ => format!("data: {}\n\n", refusal(spoken.vendor)),
        };
        rig.upstream.push_on_key(SECRET, Script::event_bytes(event));
        rig.upstream.push_on_key(SECRET, spoken.good(true));
        let answer = ask(&rig, &spoken, true, &sealed(&spoken, true)).await;
        assert_eq!(answer.status, 200, "{}", spoken.name);
        let asked = bodies(&rig, 0);
        assert_eq!(asked.len(), 2, "{}", spoken.name);
        assert!(!asked[1].to_string().contains("theirs"), "{}", spoken.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn an_account_that_takes_over_gets_the_conversation_without_what_it_refuses() {
    for spoken in with_seals() {
        let rig = spoken.rig().await;
        rig.upstream
            .push_on_key(SECRET, Script::json(503, &json!({})));
        let refused = Script::json(400, &refusal(spoken.vendor));
        rig.upstream.push(refused);
        rig.upstream.push(spoken.good(false));
        let answer = ask(&rig, &spoken, false, &sealed(&spoken, false)).await;
        assert_eq!(answer.status, 200, "{}", spoken.name);
        let settlement = rig.settlement(&answer.id).await;
        let accounts: Vec<_> = settlement.attempts.iter().map(|it| &*it.account).collect();
        assert_eq!(accounts, ["one", "two", "two"], "{}", spoken.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn what_is_refused_for_good_is_told_as_the_upstream_said_it() {
    for spoken in with_seals() {
        let said = refusal(spoken.vendor);
        // It refuses again, though nothing is sealed any more.
        let rig = spoken.rig().await;
        for _ in 0..2 {
            let refused = Script::json(400, &said);
            rig.upstream.push_on_key(SECRET, refused);
        }
        let answer = ask(&rig, &spoken, false, &sealed(&spoken, false)).await;
        assert_eq!((answer.status, answer.json()), (400, said.clone()));
        assert_eq!(bodies(&rig, 0).len(), 2, "{}", spoken.name);
        // Nothing was sealed.
        rig.upstream.push_on_key(SECRET, Script::json(400, &said));
        let answer = spoken.ask(&rig, false).await;
        assert_eq!((answer.status, answer.json()), (400, said.clone()));
        assert_eq!(bodies(&rig, 2).len(), 1, "{}", spoken.name);
        rig.end().await;
        // The caller wants nothing left out.
        let rig = spoken.rig().await;
        let strict = |rig: &Rig| {
            let mut state = rig.world.state();
            state.principals.get_mut(KEY).unwrap().reject_unsupported = true;
        };
        strict(&rig);
        rig.upstream.push_on_key(SECRET, Script::json(400, &said));
        let answer = ask(&rig, &spoken, false, &sealed(&spoken, false)).await;
        assert_eq!((answer.status, answer.json()), (400, said));
        assert_eq!(bodies(&rig, 0).len(), 1, "{}", spoken.name);
        rig.end().await;
    }
}
