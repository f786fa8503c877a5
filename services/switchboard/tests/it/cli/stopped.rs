//! A stopped data directory: the same commands, over the services that own its facts, started under its lock (SURF-4).

use serde_json::json;
use switchboard::data_dir::DataDir;

use super::run;

const CATALOGUE: &str = "\
version: 1
accounts:
  - name: a
    provider: openai_compatible
    base_url: https://host.example
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
    balance: 10
    keys:
      - name: ci
        group: everyone
";

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_database_is_named() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    drop(dir.master_key().unwrap());
    let file = root.path().join("auth.sqlite");
    std::fs::write(&file, "junk".repeat(1_000)).unwrap();
    let path = root.path().to_str().unwrap();
    let done = run(&["keys", "list", "--data-dir", path]).await;
    assert_eq!(done.exit, 1, "{}", done.err);
    let expected = format!("the auth database at {} cannot be opened", file.display());
    assert!(done.err.contains(&expected), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn is_administered_like_a_running_one() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(&root.path().join("d")).unwrap();
    drop(dir.master_key().unwrap());
    let path = dir.path().to_str().unwrap();
    let file = root.path().join("c.yaml");
    std::fs::write(&file, CATALOGUE).unwrap();
    let file = file.to_str().unwrap();

    let done = run(&["apply", "-f", file, "--data-dir", path, "--dry-run"]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    let done = run(&["tenants", "show", "acme", "--data-dir", path]).await;
    assert_eq!(done.exit, 4, "a dry run writes nothing: {}", done.out);

    let done = run(&["apply", "-f", file, "--data-dir", path]).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    assert!(done.out.contains("key acme/ci: "), "{}", done.out);
    let done = run(&["apply", "-f", file, "--data-dir", path]).await;
    assert!(done.out.starts_with("nothing to change; "), "{}", done.out);

    let done = run(&[
        "tenants",
        "show",
        "acme",
        "--data-dir",
        path,
        "--output",
        "json",
    ])
    .await;
    assert_eq!(
        done.json()["balance_nanos"],
        json!("10000000000"),
        "{}",
        done.err
    );
    assert_eq!(done.json()["keys"], json!("1"));
    let words = [
        "keys",
        "create",
        "--tenant",
        "acme",
        "--name",
        "two",
        "--group",
        "everyone",
        "--data-dir",
        path,
    ];
    let done = run(&words).await;
    assert_eq!(done.exit, 0, "{}", done.err);
    let done = run(&[
        "keys",
        "disable",
        "acme/two",
        "--data-dir",
        path,
        "--output",
        "json",
    ])
    .await;
    assert_eq!(
        done.json()["key"]["status"],
        json!("disabled"),
        "{}",
        done.err
    );
    let done = run(&["usage", "list", "--data-dir", path, "--output", "json"]).await;
    assert_eq!(done.json(), json!({"rows": []}), "{}", done.err);
    let done = run(&["ledger", "verify", "--data-dir", path]).await;
    assert_eq!(done.exit, 0, "{}{}", done.out, done.err);
    let done = run(&["audit", "list", "--data-dir", path]).await;
    assert!(done.out.contains("key.disable"), "{}", done.out);
    assert!(dir.lock().is_ok(), "the lock was given back");
}
