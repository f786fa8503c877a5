//! How a process ends (OPS-2, CASES B8).

use std::{net::SocketAddr, time::Duration};

use switchboard::{
    composition::{Listeners, Process},
    data_dir::DataDir,
    settings::Settings,
};
use switchboard_common::grpc::Role;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_not_ready_for_a_while_before_it_stops_accepting() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    let mut settings = Settings::default();
    settings.listen.http = Some("127.0.0.1:0".parse().unwrap());
    settings.listen.grpc = Some("127.0.0.1:0".parse().unwrap());
    settings.shutdown.announce = Duration::from_secs(3_600);
    let listeners = Listeners::reserve(&settings, &Role::ALL).await.unwrap();
    let process = Box::pin(Process::start(settings, listeners, dir, &Role::ALL))
        .await
        .unwrap();
    let address = process.http;
    let mut ending = JoinSet::new();
    ending.spawn(Box::pin(process.shutdown()));
    let not_ready = async {
        while !head(address, "/readyz").await.contains(" 503 ") {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), not_ready).await;
    assert!(waited.is_ok());
    assert!(head(address, "/livez").await.contains(" 200 "));
    assert!(head(address, "/v1/models").await.contains(" 401 "));
}

async fn head(address: SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap().to_owned()
}
