//! `deploy/metrics.md` lists what a scrape has: no more, no less (OBS-2). `UPDATE_REFERENCE=1` rewrites it.

use std::{collections::BTreeMap, fmt::Write as _};

use switchboard::{
    composition::{Listeners, Process},
    data_dir::DataDir,
    settings::Settings,
};
use switchboard_common::grpc::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_and_the_list_of_metrics_agree() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    let mut settings = Settings::default();
    settings.listen.http = Some("127.0.0.1:0".parse().unwrap());
    settings.listen.grpc = Some("127.0.0.1:0".parse().unwrap());
    let listeners = Listeners::reserve(&settings, &Role::ALL).await.unwrap();
    let process = Box::pin(Process::start(settings, listeners, dir, &Role::ALL))
        .await
        .unwrap();
    let scrape = get(process.http, "/metrics").await;
    assert!(
        scrape.trim_end().ends_with("# EOF"),
        "one end mark, at the end"
    );
    assert_eq!(scrape.matches("# EOF").count(), 1);
    assert!(Box::pin(process.shutdown()).await);

    let mut found: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            found.entry(name).or_default().1 = help.trim_end_matches('.');
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            found.entry(name).or_default().0 = kind;
        }
    }
    let mut text = String::from(
        "# Metrics\n\nWhat `/metrics` of each role has, all roles together; a role has its own part. Counters get the suffix \
         `_total`, histograms `_bucket`, `_sum` and `_count`. Labels are bounded. Checked against a scrape.\n\n| metric | type | meaning |\n| --- | --- | --- |\n",
    );
    for (name, (kind, help)) in &found {
        assert!(name.starts_with("switchboard_"), "{name}");
        writeln!(text, "| `{name}` | {kind} | {help} |").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/metrics.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        known == text,
        "deploy/metrics.md is not what a scrape has; run `make reference` and read the difference"
    );
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
