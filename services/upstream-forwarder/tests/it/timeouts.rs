//! How long each part of an attempt may take, and what the caller sees meanwhile (SPEC FWD-3, FWD-8; CASES D15).

use std::time::Duration;

use fake_upstream::{Gate, Script};
use switchboard_common::error::Reason;
use switchboard_proto::{billing::v1::Ending, common::v1::Dialect};

use crate::rig::{Answer, Rig, SECRET, chat, config};

fn error(status: u16) -> Script {
    Script::error(status, "server_error", None, "went wrong")
}

#[tokio::test]
async fn each_timeout_is_its_own_and_says_which() {
    let short = Duration::from_millis(50);
    let ms = u64::try_from(short.as_millis()).unwrap();
    let one = |change: fn(&mut switchboard_proto::scheduler::v1::Candidate, u64)| {
        Rig::with(config(), move |state| {
            state.candidates.truncate(1);
            change(&mut state.candidates[0], ms);
        })
    };
    // No answer.
    let rig = one(|candidate, ms| candidate.first_byte_timeout_ms = ms).await;
    rig.upstream.push(Script::hang());
    let failure = rig.chat(&chat(false)).await.failure.unwrap();
    assert_eq!(failure.reason, Reason::UpstreamTimeout);
    assert!(failure.message.contains("first byte"), "{failure}");
    rig.end().await;
    // Silence in the middle.
    let rig = one(|candidate, ms| candidate.idle_timeout_ms = ms).await;
    rig.upstream.push(Script::say(["a", "b"]).hang_after(1));
    let answer = rig.chat(&chat(true)).await;
    let failure = answer.failure.as_ref().unwrap();
    assert!(failure.message.contains("idle"), "{failure}");
    assert_eq!(answer.streamed(), "a");
    rig.upstream
        .wait_for(|log| log.in_flight == 0)
        .await
        .unwrap();
    rig.end().await;
    // A connection that comes to nothing: whoever listens there says nothing of TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://{}/v1/chat/completions",
        listener.local_addr().unwrap()
    );
    let rig = Rig::with(config(), move |state| {
        state.candidates.truncate(1);
        state.candidates[0].url = url;
        state.candidates[0].connect_timeout_ms = ms;
    })
    .await;
    let answer = rig.chat(&chat(true)).await;
    let failure = answer.failure.as_ref().unwrap();
    assert_eq!(failure.reason, Reason::UpstreamTimeout);
    assert!(failure.message.contains("(connect)"), "{failure}");
    let settlement = rig.settlement(&answer.id).await;
    let first = &settlement.attempts[0];
    assert_eq!(
        (first.error.as_str(), first.sent),
        ("connect_timeout", false)
    );
    rig.end().await;
    // A request that is not read: whoever listens there accepts, and that is all.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/chat", listener.local_addr().unwrap());
    let rig = Rig::with(config(), move |state| {
        state.candidates.truncate(1);
        state.candidates[0].url = url;
        state.candidates[0].first_byte_timeout_ms = ms;
    })
    .await;
    let mut asked = chat(false);
    asked["messages"][0]["content"] = "a".repeat(16 << 20).into();
    let answer = rig.chat(&asked).await;
    let failure = answer.failure.as_ref().unwrap();
    assert!(failure.message.contains("first byte"), "{failure}");
    let settlement = rig.settlement(&answer.id).await;
    let first = &settlement.attempts[0];
    assert_eq!(
        (first.error.as_str(), first.sent),
        ("first_byte_timeout", false)
    );
    assert!(settlement.charge_nothing);
    rig.end().await;
    // An address that refuses.
    let (address, _socket) = fake_upstream::nobody_listens().unwrap();
    let rig = Rig::with(config(), |state| {
        state.candidates[0].url = format!("http://{address}/v1/chat/completions");
    })
    .await;
    let answer = rig.chat(&chat(false)).await;
    assert_eq!(answer.status, 200);
    let settlement = rig.settlement(&answer.id).await;
    let first = &settlement.attempts[0];
    assert_eq!(
        (first.error.as_str(), first.sent, first.status),
        ("connection_refused", false, 0)
    );
    rig.end().await;
}

#[tokio::test]
async fn an_attempt_says_what_stood_in_the_way_of_its_connection() {
    // A label longer than any name server can be asked for.
    let nowhere = format!("http://{}.invalid/v1/chat/completions", "a".repeat(64));
    for kind in ["dns", "tls"] {
        let rig = Rig::with(config(), |state| {
            let url = &mut state.candidates[0].url;
            *url = match kind {
                "dns" => nowhere.clone(),
                // Whoever is there speaks no TLS.
                _ => url.replace("http://", "https://"),
            };
        })
        .await;
        let answer = rig.chat(&chat(false)).await;
        assert_eq!((answer.failure.clone(), answer.status), (None, 200));
        let settlement = rig.settlement(&answer.id).await;
        let attempts: Vec<_> = settlement
            .attempts
            .iter()
            .map(|attempt| attempt.error.as_str())
            .collect();
        assert_eq!(attempts, [kind, ""]);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_head_that_comes_early_is_no_answer_and_thinking_is_no_silence() {
    let (short, long) = (50, 20_000);
    let rig = |first_byte, idle| {
        Rig::with(config(), move |state| {
            state.candidates.truncate(1);
            state.candidates[0].first_byte_timeout_ms = first_byte;
            state.candidates[0].idle_timeout_ms = idle;
        })
    };
    for stream in [false, true] {
        // The head alone does not end the wait for the first byte.
        let patient = rig(short, long).await;
        let gate = Gate::new();
        patient
            .upstream
            .push(Script::say(["a"]).gate_at_byte(0, &gate));
        let answer = patient.chat(&chat(stream)).await;
        let failure = answer.failure.unwrap();
        assert!(
            failure.message.contains("first byte"),
            "{stream}: {failure}"
        );
        let settlement = patient.settlement(&answer.id).await;
        assert_eq!(settlement.attempts[0].error, "first_byte_timeout");
        patient.end().await;
        // Neither does it begin the time between bytes, nor does a stream's mere beginning.
        let hasty = rig(long, short).await;
        let pause = Duration::from_millis(4 * short);
        hasty
            .upstream
            .push(Script::say(["a"]).delay_after(0, pause));
        let answer = hasty.chat(&chat(stream)).await;
        assert_eq!((answer.failure, answer.status), (None, 200), "{stream}");
        hasty.end().await;
    }
}

#[tokio::test]
async fn the_total_time_counts_from_arrival() {
    let rig = Rig::start().await;
    rig.world.catalogue.send_modify(|catalogue| {
        catalogue.version = 4;
        catalogue.models[0].total_timeout_ms = 10_000;
    });
    let mut versions = rig.component.catalogue_versions();
    versions.wait_for(|version| *version == 4).await.unwrap();
    let mut head = rig.head(Dialect::OpenaiChat);
    head.arrived_us -= 9_950_000;
    rig.upstream.push(Script::hang());
    let answer = rig.relay(head, chat(false).to_string().into()).await;
    let failure = answer.failure.unwrap();
    assert_eq!(failure.reason, Reason::UpstreamTimeout);
    assert!(failure.message.contains("total"), "{failure}");
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(settlement.status, 504);
    assert_eq!(settlement.attempts[0].error, "total_timeout");
    assert!(settlement.attempts[0].total_us > 0);
    rig.end().await;
}

/// Asks for a stream whose head goes out before every account answers with this status.
async fn refused_in_the_stream(rig: &Rig, status: u16) -> Answer {
    let gate = Gate::new();
    rig.upstream.default(error(status).gate(&gate));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let mut answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    answers.message().await.unwrap().unwrap();
    gate.open();
    crate::rig::collect(id, answers).await
}

#[tokio::test]
async fn headers_go_out_early_and_moving_on_stays_possible_until_content() {
    let rig = Rig::start().await;
    rig.world.catalogue.send_modify(|catalogue| {
        catalogue.version = 4;
        catalogue.models[0].commit_after_ms = Some(1);
    });
    let mut versions = rig.component.catalogue_versions();
    versions.wait_for(|version| *version == 4).await.unwrap();
    let gate = Gate::new();
    rig.upstream.push_on_key(SECRET, error(500).gate(&gate));
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let mut answers = rig.open(head, chat(true).to_string().into()).await.unwrap();
    let first = answers.message().await.unwrap().unwrap();
    assert_eq!(first.head.as_ref().unwrap().status, 200);
    assert!(first.head.as_ref().unwrap().event_stream);
    assert_eq!(&*first.frame, b": keep-alive\n\n");
    gate.open();
    let answer = crate::rig::collect(id, answers).await;
    assert_eq!(answer.failure, None);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(rig.settlement(&answer.id).await.attempts.len(), 2);

    // The last failure is then an error of the running stream.
    let answer = refused_in_the_stream(&rig, 500).await;
    assert_eq!(answer.failure.unwrap().reason, Reason::UpstreamFailed);
    let settlement = rig.settlement(&answer.id).await;
    assert_eq!(
        (settlement.ending(), settlement.status),
        (Ending::Failed, 200)
    );
    assert_eq!(settlement.error_code, "upstream_failed");

    // So is the caller's own mistake, and the attempt's row says what it was (BILL-7).
    let answer = refused_in_the_stream(&rig, 400).await;
    assert_eq!(answer.failure.unwrap().reason, Reason::InvalidRequest);
    let settlement = rig.settlement(&answer.id).await;
    let attempt = settlement.attempts.last().unwrap();
    assert_eq!((attempt.status, attempt.error.as_str()), (400, "request"));
    assert!(attempt.total_us > 0);
    rig.end().await;
}
