//! The proxy before an echoing server.

use std::io::ErrorKind;
use std::time::Duration;

use switchboard_integration_tests::chaos::{ChaosProxy, Direction};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Sends back what it gets; ends with the test.
async fn echo() -> (std::net::SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    (addr, tasks)
}

async fn say(tcp: &mut TcpStream, words: &str) -> std::io::Result<String> {
    tcp.write_all(words.as_bytes()).await?;
    hear(tcp, words.len()).await
}

async fn hear(tcp: &mut TcpStream, length: usize) -> std::io::Result<String> {
    let mut heard = vec![0; length];
    tcp.read_exact(&mut heard).await?;
    Ok(String::from_utf8(heard).unwrap())
}

#[tokio::test]
async fn it_is_faithful_by_default_and_counts() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut tcp, "hello").await.unwrap(), "hello");
    tcp.shutdown().await.unwrap();
    assert_eq!(tcp.read(&mut [0; 8]).await.unwrap(), 0, "a clean end");
    proxy.wait_for(|traffic| traffic.open == 0).await.unwrap();
    let traffic = proxy.traffic();
    assert_eq!(
        (traffic.accepted, traffic.to_server, traffic.to_client),
        (1, 5, 5)
    );
}

#[tokio::test]
async fn a_stall_holds_bytes_of_its_direction_until_healed() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    say(&mut tcp, "a").await.unwrap();
    proxy.stall(Direction::ToClient);
    tcp.write_all(b"bc").await.unwrap();
    proxy
        .wait_for(|traffic| traffic.to_server == 3)
        .await
        .unwrap();
    assert_eq!(proxy.traffic().to_client, 1);
    let nothing = tcp.try_read(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    // A new connection is stalled as well.
    let mut other = TcpStream::connect(proxy.addr()).await.unwrap();
    other.write_all(b"xy").await.unwrap();
    proxy
        .wait_for(|traffic| traffic.to_server == 5)
        .await
        .unwrap();
    assert_eq!(proxy.traffic().to_client, 1);
    proxy.heal().unwrap();
    assert_eq!(hear(&mut tcp, 2).await.unwrap(), "bc");
    assert_eq!(hear(&mut other, 2).await.unwrap(), "xy");
}

#[tokio::test]
async fn a_cut_resets_running_connections_only() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    say(&mut tcp, "a").await.unwrap();
    proxy.cut();
    let end = tcp.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut tcp, "b").await.unwrap(), "b");
}

#[tokio::test]
async fn a_cut_after_bytes_passes_exactly_those() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    proxy.cut_after(Direction::ToClient, 3);
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    tcp.write_all(b"hello").await.unwrap();
    assert_eq!(hear(&mut tcp, 3).await.unwrap(), "hel");
    let end = tcp.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn refusing_is_a_closed_port_until_healed() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    say(&mut tcp, "a").await.unwrap();
    proxy.refuse().await;
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(tcp.read(&mut [0; 8]).await.is_err());
    proxy.heal().unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut tcp, "b").await.unwrap(), "b");
}

#[tokio::test]
async fn a_black_hole_accepts_and_is_silent() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    proxy.blackhole();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    tcp.write_all(b"abc").await.unwrap();
    proxy.wait_for(|traffic| traffic.open == 1).await.unwrap();
    assert_eq!(proxy.traffic().to_server, 0);
    proxy.heal().unwrap();
    assert_eq!(hear(&mut tcp, 3).await.unwrap(), "abc");
}

#[tokio::test]
async fn a_delay_holds_each_piece() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    let delay = Duration::from_millis(30);
    proxy.delay(Direction::ToServer, delay);
    let before = tokio::time::Instant::now();
    assert_eq!(say(&mut tcp, "a").await.unwrap(), "a");
    // A lower bound holds on the slowest machine.
    assert!(before.elapsed() >= delay);
}

#[tokio::test]
async fn dropping_it_closes_everything() {
    let (addr, _echo) = echo().await;
    let proxy = ChaosProxy::start(addr).unwrap();
    let mut tcp = TcpStream::connect(proxy.addr()).await.unwrap();
    say(&mut tcp, "a").await.unwrap();
    let addr = proxy.addr();
    drop(proxy);
    assert!(matches!(tcp.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    // The listener goes with its task, which runs when we wait.
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
