//! Requests that are open when their process is killed are billed by tokens, however young they were (SPEC BILL-6).

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use fake_upstream::{FakeUpstream, Script};
use futures_util::stream;
use serde_json::json;
use switchboard_forwarder::Config;
use switchboard_proto::{
    billing::v1::Ending,
    common::v1::{Dialect, UsageSource},
    inference::v1::{RelayRequest, RelayResponse},
    scheduler::v1::CatalogueSnapshot,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime::{Builder, Runtime},
    task::{AbortHandle, JoinSet},
};

use crate::{
    dialects::{Spoken, Vendor, all},
    peers::{State, World},
    rig::{Rig, chat, config},
};

/// More bytes a token than the estimate takes.
const PROMPT: &str = "international international international international international";

/// Nothing is counted while it runs.
fn young() -> Config {
    Config {
        count_after: Duration::from_secs(3_600),
        ..config()
    }
}

/// The dialect's request with a longer text in it.
fn body(spoken: &Spoken, stream: bool) -> Bytes {
    let body = spoken.body(stream);
    let mut body = String::from_utf8(body.to_vec()).unwrap();
    for text in ["\"hi\"", "\"a cat\"", "\"q\""] {
        body = body.replace(text, &format!("\"{PROMPT}\""));
    }
    body.into()
}

/// Bytes of the files of a kind in the journal.
fn files(rig: &Rig, kind: &str) -> Vec<u8> {
    let files = std::fs::read_dir(rig.directory.path()).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension() == Some(kind.as_ref()));
    let read = |path: &PathBuf| std::fs::read(path).unwrap_or_default();
    files.iter().flat_map(read).collect()
}

fn is_in(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let meeting = async {
        while !met() {
            tokio::task::yield_now().await;
        }
    };
    let met = tokio::time::timeout(Duration::from_secs(30), meeting).await;
    assert!(met.is_ok(), "{what}");
}

/// Asks an upstream that says nothing until what is asked is on the disk. Then the caller leaves, or stays until its forwarder
/// is killed. Gives the request's id.
async fn ask(rig: &Rig, spoken: &Spoken, stream: bool, leaves: bool) -> String {
    rig.world.change(|state| {
        for candidate in &mut state.candidates {
            candidate.dialect = spoken.dialect as i32;
            let provider = match spoken.vendor {
                Vendor::OpenAi => "openai_compatible",
                Vendor::Anthropic => "anthropic",
                Vendor::Google => "gemini",
            };
            provider.clone_into(&mut candidate.provider);
        }
    });
    let (id, call) = open(rig, spoken, stream);
    until("it is in the journal, and what it asks", || {
        is_in(&files(rig, "journal"), &id) && is_in(&files(rig, "prompts"), &id)
    })
    .await;
    if leaves {
        call.abort();
    }
    id
}

/// Asks an upstream that says nothing.
fn open(rig: &Rig, spoken: &Spoken, streams: bool) -> (String, AbortHandle) {
    rig.upstream.push(Script::hang());
    let message = RelayRequest {
        turn: 0,
        head: Some(spoken.head(rig, streams)),
        body: body(spoken, streams),
        end: true,
    };
    let id = message.head.as_ref().unwrap().request_id.clone();
    let mut client = rig.client.clone();
    let mut calls = JoinSet::new();
    let call = calls.spawn(async move { client.relay(stream::iter([message])).await });
    calls.detach_all();
    (id, call)
}

async fn input(rig: &Rig, id: &str, ending: Ending) -> u64 {
    let settlement = rig.settlement(id).await;
    assert_eq!(settlement.ending(), ending);
    assert_eq!(settlement.usage_source(), UsageSource::Estimated);
    assert!(!settlement.provisional);
    let usage = settlement.usage.unwrap();
    let attempt = settlement.attempts.last().unwrap();
    assert_eq!(attempt.usage, Some(usage));
    usage.input_tokens.unwrap()
}

/// A forwarder that is killed after `work`, and what that gave.
fn killed<T>(config: Config, directory: &Arc<TempDir>, work: impl AsyncFnOnce(&Rig) -> T) -> T {
    // On one thread: when it stops, nothing runs any more.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let upstream = FakeUpstream::start().await.unwrap();
        let rig = Rig::on(upstream, config, |_| (), Arc::clone(directory)).await;
        work(&rig).await
    });
    drop(runtime);
    done
}

/// The forwarder that comes after it.
fn next(directory: Arc<TempDir>, work: impl AsyncFnOnce(&Rig)) {
    Runtime::new().unwrap().block_on(async {
        let catalogue = CatalogueSnapshot {
            version: 1,
            ..CatalogueSnapshot::default()
        };
        let world = World::new(catalogue, State::default());
        let upstream = FakeUpstream::start().await.unwrap();
        let rig = Rig::join(young(), upstream, world, directory).await;
        work(&rig).await;
        until("nothing that was asked is kept", || {
            files(&rig, "prompts").is_empty()
        })
        .await;
        rig.end().await;
    });
}

#[test]
fn what_a_killed_process_left_open_is_counted_as_if_it_had_ended_in_every_dialect() {
    let directory = Arc::new(TempDir::new().unwrap());
    let asked = killed(young(), &directory, async |rig| {
        let mut asked = Vec::new();
        for spoken in all() {
            for &stream in spoken.ways() {
                let what = format!("{}, stream {stream}", spoken.name);
                let left = ask(rig, &spoken, stream, true).await;
                let counted = input(rig, &left, Ending::CallerLeft).await;
                asked.push((what, counted, ask(rig, &spoken, stream, false).await));
            }
        }
        assert!(!is_in(&files(rig, "prompts"), "international"));
        asked
    });
    next(directory, async |rig| {
        for (what, counted, id) in asked {
            let lost = input(rig, &id, Ending::GatewayLost).await;
            assert_eq!(lost, counted, "{what}");
            assert!(lost < 15, "{what}: {lost} is bytes ÷ 4");
        }
    });
}

#[test]
fn a_body_that_is_larger_than_what_is_kept_stays_estimated() {
    let directory = Arc::new(TempDir::new().unwrap());
    let mut config = young();
    config.journal.prompt_bytes = 32;
    let id = killed(config, &directory, async |rig| {
        let (id, _) = open(rig, &all()[0], true);
        until("it is in the journal", || {
            is_in(&files(rig, "journal"), &id)
        })
        .await;
        assert!(files(rig, "prompts").is_empty());
        id
    });
    next(directory, async |rig| {
        let lost = input(rig, &id, Ending::GatewayLost).await;
        assert!(lost >= PROMPT.len() as u64 / 4, "{lost}");
    });
}

/// An upstream that answers has what it needs: the caller has nothing of the answer before the journal has its request (BILL-5).
#[tokio::test]
async fn a_request_that_is_answered_before_it_was_read_to_its_end_is_in_the_journal_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut early = JoinSet::new();
    early.spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tcp.read_exact(&mut [0; 16]).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let chunk = json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "well"}}]});
        let answer = format!("{head}data: {chunk}\n\n");
        tcp.write_all(answer.as_bytes()).await.unwrap();
        // The rest of the request fits into no buffer on the way, and is not read.
        std::future::pending::<()>().await;
    });
    // Only what is waited for is written.
    let mut config = young();
    config.journal.gather = Duration::from_secs(3_600);
    let rig = Rig::with(config, |state| {
        state.candidates.truncate(1);
        state.candidates[0].url = format!("http://{address}/v1/chat/completions");
    })
    .await;
    let mut body = chat(true);
    let image = format!("data:image/png;base64,{}", "A".repeat(16 << 20));
    body["messages"][0]["content"] = json!([{"type": "image_url", "image_url": {"url": image}}]);
    let head = rig.head(Dialect::OpenaiChat);
    let id = head.request_id.clone();
    let mut answers = rig.open(head, body.to_string().into()).await.unwrap();
    let said = |message: &RelayResponse| is_in(&message.frame, "well");
    while !said(&answers.message().await.unwrap().unwrap()) {}
    assert!(is_in(&files(&rig, "journal"), &id));
    drop(answers);
    drop(early);
    let settlement = rig.settlement(&id).await;
    assert!(settlement.attempts[0].sent);
    rig.end().await;
}
