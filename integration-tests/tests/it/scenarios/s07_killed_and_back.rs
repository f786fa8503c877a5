//! Programs killed and started again: nothing is lost and nothing is billed twice.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_upstream::{Gate, Script};
use serde_json::json;
use switchboard_common::grpc::Role;
use switchboard_integration_tests::caller::{Caller, content, streamed};
use switchboard_integration_tests::setup::Setup;
use switchboard_integration_tests::stack::{Builder, binary, eventually};
use tokio::task::JoinSet;

mod billing {
    scenarios! { [processes] {
        a_killed_billing_loses_nothing_and_bills_nothing_twice,
    } }
    use super::a_killed_billing_loses_nothing_and_bills_nothing_twice;
}

mod program {
    scenarios! { [embedded] {
        the_killed_program_bills_its_five_open_streams_once_from_its_journal,
        the_killed_program_bills_a_young_request_by_tokens_and_keeps_nothing_of_what_it_asked,
        the_program_killed_again_and_again_bills_each_answer_once,
    } }
    use super::{
        the_killed_program_bills_a_young_request_by_tokens_and_keeps_nothing_of_what_it_asked,
        the_killed_program_bills_its_five_open_streams_once_from_its_journal,
        the_program_killed_again_and_again_bills_each_answer_once,
    };
}

async fn a_killed_billing_loses_nothing_and_bills_nothing_twice(builder: Builder) {
    let setup = Setup::simple().tenant("acme", "balance: 100.00");
    let mut stack = builder.setup(setup).start().await;
    let gate = Gate::new();
    stack
        .upstream
        .default(Script::tokens(4).prompt_tokens(10).gate_after(2, &gate));
    let caller = stack.caller("k");
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = caller.open(&streamed("m")).await;
        stream.deltas(2).await;
        streams.push(stream);
    }
    let ids: Vec<String> = streams.iter().map(|stream| stream.request_id()).collect();
    stack.program(Role::Billing, 0).kill().await;
    // Running streams see nothing of it.
    gate.open();
    for stream in streams {
        let answer = stream.rest().await;
        assert!(answer.done() && answer.clean, "{:?}", answer.events);
    }
    // New work cannot be paid for.
    let refused = caller.chat("m").await.expect(503);
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    eventually("the settlements wait", async || {
        let name = "switchboard_journal_unacknowledged_settlements";
        stack.metric(Role::Forwarder, name).await >= 8
    })
    .await;

    stack.program(Role::Billing, 0).restart().await;
    let rows = stack.rows(8).await;
    for row in &rows {
        assert!(ids.contains(&row.request_id));
        assert_eq!((row.ending.as_str(), row.provisional), ("complete", false));
        assert_eq!(row.charge_nanos, 10 * 1_000 + 4 * 2_000);
    }
    let tenant = stack.tenant("acme").await;
    assert_eq!(tenant.balance_nanos, 100_000_000_000 - 8 * 18_000);
    eventually("it serves again", async || {
        caller.chat("m").await.status == 200
    })
    .await;

    // Killed again and again while it works: each call is billed once.
    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let caller = caller.clone();
        calls.spawn(async move { caller.chat("m").await });
    }
    stack.program(Role::Billing, 0).kill().await;
    stack.program(Role::Billing, 0).restart().await;
    let answers = calls.join_all().await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(
        answers
            .iter()
            .all(|answer| [200, 503].contains(&answer.status))
    );
    stack.rows(9 + served).await;
    let tenant = stack.tenant("acme").await;
    let expected = i64::try_from(9 + served).unwrap() * 18_000;
    assert_eq!(tenant.balance_nanos, 100_000_000_000 - expected);
    stack.finish().await;
}

async fn the_killed_program_bills_its_five_open_streams_once_from_its_journal(builder: Builder) {
    let builder = builder.settings(|settings| {
        settings.billing.silence = Duration::from_secs(3);
        settings.billing.reaper_grace = Duration::from_secs(1);
        settings.billing.reaper_interval = Duration::from_millis(500);
    });
    let mut stack = builder.start().await;
    let caller = stack.caller("k");
    let complete = caller.chat("m").await.expect(200).request_id();
    stack.row(&complete).await;
    stack.upstream.default(Script::tokens(9).hang_after(4));
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = caller.open(&streamed("m")).await;
        stream.deltas(4).await;
        streams.push(stream);
    }
    let ids: Vec<String> = streams.iter().map(|stream| stream.request_id()).collect();
    // Progress is written down every so often; the last of it is what is billed.
    stack.progress_written(5).await;
    stack.program(Role::Edge, 0).kill().await;
    for stream in streams {
        assert!(
            !stream.rest().await.clean,
            "the caller sees its connection cut"
        );
    }
    stack.program(Role::Edge, 0).restart().await;
    let rows = stack.rows(6).await;
    for id in &ids {
        let row = rows.iter().find(|row| row.request_id == *id).unwrap();
        assert_eq!(
            (row.ending.as_str(), row.usage_source.as_str()),
            ("gateway_lost", "estimated")
        );
        assert!(
            row.input_tokens.unwrap() > 0 && row.output_tokens.unwrap() > 0,
            "{row:?}"
        );
        assert!(row.charge_nanos > 0);
    }
    let charged: i64 = rows.iter().map(|row| row.charge_nanos).sum();
    let tenant = stack.tenant("acme").await;
    assert_eq!(
        (tenant.balance_nanos, tenant.held_nanos),
        (100_000_000_000 - charged, 0)
    );
    stack.upstream.default(Script::tokens(1));
    stack.caller("k").chat("m").await.expect(200);

    // The command line finds the same, on the running program and on its stopped directory.
    let verify = |dir: &std::path::Path| {
        let output = Command::new(binary().unwrap())
            .args([
                "--data-dir",
                &dir.display().to_string(),
                "--output",
                "json",
                "ledger",
                "verify",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["balanced"], json!(true), "{json}");
    };
    let dir = stack.data_dir(Role::Billing);
    stack.rows(7).await;
    verify(&dir);
    stack.check_end().await;
    stack.program(Role::Edge, 0).kill().await;
    verify(&dir);
    stack.program(Role::Edge, 0).restart().await;
    stack.rows(7).await;
    stack.finish().await;
}

/// More bytes a token than the estimate takes: five words, and the end of the text.
const PROMPT: &str = "international international international international international";
const COUNTED: u64 = 6;

/// The files of what open requests ask.
fn prompts(journal: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(journal).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension() == Some("prompts".as_ref()));
    files
}

/// No prompt can be read in a directory.
fn assert_sealed(journal: &Path) {
    for entry in std::fs::read_dir(journal).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains("international"), "{path:?}");
    }
}

async fn nothing_is_kept(journal: &Path) {
    eventually("nothing of what was asked is kept", async || {
        let empty = |path: &PathBuf| path.metadata().is_ok_and(|it| it.len() == 0);
        prompts(journal).iter().all(empty)
    })
    .await;
}

async fn the_killed_program_bills_a_young_request_by_tokens_and_keeps_nothing_of_what_it_asked(
    builder: Builder,
) {
    // As if it were killed within its first second, however slow this machine is.
    let builder = builder.settings(|settings| {
        settings.forwarder.count_after = Duration::from_secs(3_600);
    });
    let mut stack = builder.start().await;
    stack.upstream.default(Script::tokens(9).hang_after(1));
    let caller = stack.caller("k");
    let mut asked = streamed("m");
    asked["messages"] = json!([{"role": "user", "content": PROMPT}]);
    let mut stream = caller.open(&asked).await;
    stream.deltas(1).await;
    let id = stream.request_id();
    let journal = stack.data_dir(Role::Forwarder).join("journal");
    assert!(!prompts(&journal).is_empty());
    stack.program(Role::Edge, 0).kill().await;
    assert!(!stream.rest().await.clean);
    assert_sealed(&journal);

    stack.program(Role::Edge, 0).restart().await;
    let row = stack.row_when(&id, |row| !row.provisional).await;
    assert_eq!(
        (row.ending.as_str(), row.usage_source.as_str()),
        ("gateway_lost", "estimated")
    );
    assert_eq!(row.input_tokens, Some(COUNTED), "not bytes ÷ 4");
    nothing_is_kept(&journal).await;
    stack.upstream.default(Script::tokens(1));
    stack.caller("k").chat("m").await.expect(200);
    stack.rows(2).await;
    stack.finish().await;
}

/// Asks again and again until nobody answers; notes the id of each answer of which something came.
async fn ask_on(caller: Caller, heard: Arc<Mutex<HashSet<String>>>) {
    let mut asked = streamed("m");
    asked["messages"] = json!([{"role": "user", "content": PROMPT.repeat(100)}]);
    while let Ok(mut stream) = caller.try_open(&asked).await {
        while let Some(event) = stream.next().await {
            if content(&event).is_some() {
                heard.lock().unwrap().insert(stream.request_id());
            }
        }
    }
}

async fn the_program_killed_again_and_again_bills_each_answer_once(builder: Builder) {
    let mut stack = builder.start().await;
    let answers = Script::tokens(4).token_delay(Duration::from_millis(5));
    stack.upstream.default(answers);
    let journal = stack.data_dir(Role::Forwarder).join("journal");
    let heard = Arc::new(Mutex::new(HashSet::new()));
    for round in 0..4 {
        let callers: JoinSet<()> = (0..8)
            .map(|_| ask_on(stack.caller("k"), Arc::clone(&heard)))
            .collect();
        let enough = heard.lock().unwrap().len() + 10;
        eventually("answers come", async || {
            heard.lock().unwrap().len() >= enough
        })
        .await;
        stack.program(Role::Edge, 0).kill().await;
        callers.join_all().await;
        assert_sealed(&journal);
        stack.program(Role::Edge, 0).restart().await;
        if round % 2 == 1 {
            // While it may still count and settle what the one before left.
            stack.program(Role::Edge, 0).kill().await;
            assert_sealed(&journal);
            stack.program(Role::Edge, 0).restart().await;
        }
    }
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    eventually("each answer is billed", async || {
        let rows = stack.usage(1_000).await;
        let ids: HashSet<_> = rows.iter().map(|row| &row.request_id).collect();
        assert_eq!(ids.len(), rows.len(), "two rows of one request");
        let billed = rows
            .iter()
            .filter(|row| !row.provisional && row.charge_nanos > 0);
        let billed: HashSet<_> = billed.map(|row| row.request_id.clone()).collect();
        heard.is_subset(&billed)
    })
    .await;
    nothing_is_kept(&journal).await;
    stack.check_end().await;
    let rows = stack.usage(1_000).await;
    let charged: i64 = rows.iter().map(|row| row.charge_nanos).sum();
    let tenant = stack.tenant("acme").await;
    assert_eq!(tenant.balance_nanos, 100_000_000_000 - charged);
    stack.finish().await;
}
