//! `apply` and `config check`: mistakes have their place, and nothing happens by halves unsaid (ROUTE-7, OPS-1).

use std::path::PathBuf;

use serde_json::json;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::auth::v1::IssuedKey;
use tempfile::TempDir;

use super::{administer, fake::Fake, run};

const GOOD: &str = "\
version: 1
accounts:
  - name: a
    provider: openai_compatible
    base_url: https://host.example/v1/chat/completions
    credential: none
  - name: g
    provider: gemini
    credential: none
models:
  - name: demo
    price: {input: 0.5, output: 1.5}
    targets: [{account: a, model: echo}]
groups:
  - name: everyone
    models: [demo]
tenants:
  - name: acme
    keys:
      - name: ci
        group: everyone
";

const BAD: &str = "\
version: 1
accounts:
  - name: a
    provider: openai_compatible
    base_url: https://host.example
    credential: none
models:
  - name: demo
    price: {input: 0.5, output: 1.5}
    targets: [{account: b}]
    colour: blue
";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_dry_run_plans_everywhere_and_commits_nowhere() {
    let (files, fake) = (Files::new(), Fake::default());
    let file = files.write("c.yaml", GOOD);
    let done = administer(&fake, &["apply", "-f", &file, "--dry-run"]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    assert_eq!(
        done.out,
        "\
~ price demo  output 1 → 2
- account old  left the file
+ tenant acme
3 to change; nothing was written; catalogue version is 3
"
    );
    assert!(
        fake.calls().iter().all(|call| call.contains(".plan")),
        "{:?}",
        fake.calls()
    );
    let done = administer(
        &fake,
        &["apply", "-f", &file, "--dry-run", "--output", "json"],
    )
    .await;
    let shown = done.json();
    assert_eq!(shown["dry_run"], json!(true));
    assert_eq!(shown["catalogue_version"], json!("3"));
    assert_eq!(shown["changes"][1]["kind"], json!("disable"));
}

#[tokio::test]
async fn an_apply_commits_in_order_and_shows_new_secrets_once() {
    let (files, fake) = (Files::new(), Fake::default());
    let file = files.write("c.yaml", GOOD);
    fake.script().issued = vec![IssuedKey {
        tenant: "acme".to_owned(),
        name: "ci".to_owned(),
        key_id: "id".to_owned(),
        secret: "sb-new".to_owned(),
    }];
    let done = administer(&fake, &["apply", "-f", &file, "--reason", "launch"]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    assert!(
        done.out
            .ends_with("3 changed; catalogue version 4\nkey acme/ci: sb-new   (shown once)\n"),
        "{}",
        done.out
    );
    let commits: Vec<_> = fake
        .calls()
        .into_iter()
        .filter(|call| call.contains(".apply"))
        .collect();
    assert_eq!(
        commits,
        [
            "credentials.apply",
            "billing.apply_prices",
            "scheduler.apply",
            "auth.apply",
            "billing.apply_tenants"
        ]
    );
    assert_eq!(fake.script().actors, [format!("file:{file} (launch)")]);
}

#[tokio::test]
async fn a_failure_in_the_middle_names_what_was_applied_and_loses_no_secret() {
    let (files, fake) = (Files::new(), Fake::default());
    let file = files.write("c.yaml", GOOD);
    {
        let mut script = fake.script();
        script.failing = Some((
            "billing.apply_tenants",
            Failure::new(Reason::Conflict, "somebody else was first"),
        ));
        script.issued = vec![IssuedKey {
            tenant: "acme".to_owned(),
            name: "ci".to_owned(),
            key_id: "id".to_owned(),
            secret: "sb-new".to_owned(),
        }];
    }
    let done = administer(&fake, &["apply", "-f", &file]).await;
    assert_eq!((done.exit, done.out.as_str()), (4, ""));
    for part in [
        "key acme/ci: sb-new   (shown once)",
        "somebody else was first",
        "applied before: credentials, prices, accounts, models and groups, tenants and keys",
    ] {
        assert!(done.err.contains(part), "{part}\n{}", done.err);
    }
    fake.script().failing = Some(("auth.plan", Failure::new(Reason::Unavailable, "away")));
    let done = administer(&fake, &["apply", "-f", &file]).await;
    assert_eq!(done.exit, 3);
    assert!(done.err.contains("nothing was applied"), "{}", done.err);
}

#[tokio::test]
async fn a_bad_catalogue_is_told_line_by_line_and_nobody_is_asked() {
    let (files, fake) = (Files::new(), Fake::default());
    let file = files.write("bad.yaml", BAD);
    let done = administer(&fake, &["apply", "-f", &file]).await;
    assert_eq!((done.exit, done.out.as_str()), (1, ""));
    assert!(
        done.err
            .contains(&format!("{file}:10:25: models[0].targets[0].account: ")),
        "{}",
        done.err
    );
    assert!(
        done.err
            .contains(&format!("{file}:11:5: models[0].colour: ")),
        "{}",
        done.err
    );
    assert!(fake.calls().is_empty());
    // It is wrong before it matters that nobody can be reached.
    let done = run(&[
        "apply",
        "-f",
        &file,
        "--addr",
        "127.0.0.1:1",
        "--token",
        "t",
    ])
    .await;
    assert_eq!(done.exit, 1, "{}", done.err);

    let secret = GOOD.replacen(
        "credential: none",
        "credential: file:/nonexistent/secret",
        1,
    );
    let file = files.write("secret.yaml", &secret);
    let done = administer(&fake, &["apply", "-f", &file]).await;
    assert_eq!(done.exit, 1);
    assert!(
        done.err
            .contains("accounts[0].credential: file /nonexistent/secret"),
        "{}",
        done.err
    );
}

#[tokio::test]
async fn a_check_shows_settings_without_secrets_and_final_addresses() {
    let files = Files::new();
    let file = files.write("c.yaml", GOOD);
    let settings = files.write(
        "s.yaml",
        "database:\n  url: postgres://u:hunter2@db/x\nshutdown:\n  grace: 7s\n",
    );
    let done = run(&["config", "check", "-f", &file, "--settings", &settings]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    assert!(!done.out.contains("hunter2"));
    for part in [
        "postgres://***@db/x",
        "grace: 7s",
        "a        openai.chat        https://host.example/v1/chat/completions\n",
        "a        openai.embeddings  https://host.example/v1/embeddings\n",
        "/v1beta/models/{model}:generateContent\n",
    ] {
        assert!(done.out.contains(part), "{part}\n{}", done.out);
    }
    let done = run(&[
        "config",
        "check",
        "-f",
        &file,
        "--settings",
        &settings,
        "--output",
        "json",
    ])
    .await;
    let shown = done.json();
    assert_eq!(
        shown["settings"]["database"]["url"],
        json!("postgres://***@db/x")
    );
    assert_eq!(
        shown["upstreams"][0],
        json!({"account": "a", "dialect": "openai.chat", "url": "https://host.example/v1/chat/completions"})
    );
    assert_eq!(shown["errors"], json!([]));
}

#[tokio::test]
async fn a_check_shows_what_counts_and_nothing_that_is_not_set() {
    let done = run(&["config", "check"]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    assert!(!done.out.contains("null"), "{}", done.out);
    for part in [
        "http: 127.0.0.1:8080\n",
        "grpc: 127.0.0.1:8081\n",
        "data_dir: switchboard-data\n",
        "master_key_file: switchboard-data/master.key\n",
    ] {
        assert!(done.out.contains(part), "{part}\n{}", done.out);
    }
    let done = run(&["config", "check", "--output", "json", "--data-dir", "d"]).await;
    let shown = done.json();
    assert_eq!(
        shown["settings"]["admin_token_file"],
        json!("d/admin.token")
    );
    assert_eq!(shown["settings"]["state"].get("sentinel_master"), None);
}

#[tokio::test]
async fn a_check_of_a_split_systems_settings_refuses_what_serve_refuses() {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/settings/split.yaml"
    );
    let expected = "error: database.url: expected a PostgreSQL URL: roles in several processes cannot share SQLite files";
    let check = run(&["config", "check", "--settings", sample]).await;
    assert_eq!(check.exit, 1);
    assert!(check.err.contains(expected), "{}", check.err);
    let served = std::process::Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(["serve", "--role", "billing", "--settings", sample])
        .output()
        .unwrap();
    let told = String::from_utf8(served.stderr).unwrap();
    assert_eq!((served.status.code(), told.trim_end()), (Some(1), expected));

    let files = Files::new();
    let text = std::fs::read_to_string(sample).unwrap()
        + "database: {url: postgres://switchboard@db/switchboard}\nredis: {url: redis://redis}\n";
    let whole = files.write("whole.yaml", &text);
    let check = run(&["config", "check", "--settings", &whole]).await;
    assert_eq!(check.exit, 0, "{}", check.err);
    // One role alone needs less, and none of them may be missing.
    let text = text.replace("  billing: [http://billing:7000]\n", "");
    let lacking = files.write("lacking.yaml", &text);
    let check = run(&["config", "check", "--settings", &lacking]).await;
    assert_eq!(check.exit, 1);
    assert!(check.err.contains("peers.billing"), "{}", check.err);
    let alone = [
        "config",
        "check",
        "--settings",
        &lacking,
        "--role",
        "billing",
    ];
    assert_eq!(run(&alone).await.exit, 0);
}

#[tokio::test]
async fn a_check_of_what_is_wrong_says_where() {
    let files = Files::new();
    let file = files.write("bad.yaml", BAD);
    let done = run(&["config", "check", "-f", &file]).await;
    assert_eq!(done.exit, 1);
    assert!(
        done.err.contains(&format!("{file}:10:25: ")),
        "{}",
        done.err
    );
    let done = run(&["config", "check", "-f", &file, "--output", "json"]).await;
    let shown = done.json();
    assert_eq!(
        (
            done.exit,
            &shown["errors"][0]["line"],
            &shown["errors"][0]["column"]
        ),
        (1, &json!(10), &json!(25))
    );
    assert_eq!(shown["errors"][1]["path"], json!("models[0].colour"));

    let settings = files.write("s.yaml", "database:\n  ulr: x\n");
    let done = run(&["config", "check", "--settings", &settings]).await;
    assert_eq!(done.exit, 1);
    assert!(
        done.err.contains("ulr") && done.err.contains("line 2"),
        "{}",
        done.err
    );
    let done = run(&["config", "check", "--role", "scheduler"]).await;
    assert_eq!(done.exit, 1);
    assert!(done.err.contains("database.url"), "{}", done.err);
}

#[tokio::test]
async fn a_construct_without_effect_is_a_warning_with_its_line() {
    let files = Files::new();
    let text = GOOD.replacen(
        "    credential: none\n",
        "    credential: none\n    gather: {events: 4, wait: 25ms}\n",
        1,
    );
    let file = files.write("w.yaml", &text);
    let done = run(&["config", "check", "-f", &file]).await;
    assert_eq!(done.exit, 0);
    assert!(
        done.err.contains(&format!("warning: {file}:7:")),
        "{}",
        done.err
    );
    let fake = Fake::default();
    let done = administer(&fake, &["apply", "-f", &file, "--dry-run"]).await;
    assert_eq!(done.exit, 0);
    assert!(
        done.err.contains(&format!("warning: {file}:7:")),
        "{}",
        done.err
    );
}
