//! The mode for benches, and the program.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use fake_upstream::{FakeUpstream, Stats};
use serde_json::{Value, json};

use crate::client::{Client, events, frames, read, stream};

async fn start() -> (FakeUpstream, Client) {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let upstream = FakeUpstream::bind_fast(addr).await.unwrap();
    let client = Client::new(&upstream);
    (upstream, client)
}

fn asked(model: &str, stream_too: bool) -> Value {
    let mut body = stream(true);
    body["model"] = json!(model);
    body["stream"] = json!(stream_too);
    body["messages"][0]["content"] = json!(format!("[[mark:{model}]]"));
    body
}

#[tokio::test]
async fn shapes_are_answered_and_counted() {
    let (upstream, client) = start().await;
    let whole = read(client.chat(&asked("whole-2048", false)).await.unwrap()).await;
    assert_eq!(whole.len(), 2048);
    assert!(serde_json::from_slice::<Value>(&whole).is_ok());
    for model in ["burst-5", "chunks-5", "paced-5-1"] {
        let (seen, well) = frames(client.chat(&asked(model, true)).await.unwrap()).await;
        assert!(well);
        let (events, last) = events(&seen.concat());
        assert_eq!((events.len(), last.as_str()), (8, "[DONE]"), "{model}");
        assert_eq!(events[7]["usage"]["completion_tokens"], 5);
    }
    let stats = upstream.stats();
    let expected = Stats {
        total: 4,
        in_flight: 0,
        max_in_flight: 1,
        connections: stats.connections,
        completed: 4,
        prompt_tokens: 40,
        completion_tokens: 31,
    };
    assert_eq!(stats, expected);
    let served = upstream.served();
    assert_eq!(served[3].mark.as_deref(), Some("paced-5-1"));
    assert_eq!(served[3].usage.completion, 5);
}

/// Ends the program also when the test fails.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
}

#[tokio::test]
async fn the_program_tells_its_address_and_its_counts() {
    let child = Command::new(env!("CARGO_BIN_EXE_fake-upstream"))
        .args(["--fast", "--threads", "1"])
        .stdout(Stdio::piped())
        .spawn();
    let mut program = Running(child.unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let addr = line.trim().strip_prefix("LISTENING ").unwrap();
    let client = Client::at(&format!("http://{addr}"));
    let body = asked("burst-3", true);
    read(
        client
            .send("k", "/v1/chat/completions", &body)
            .await
            .unwrap(),
    )
    .await;
    let stats: Stats = serde_json::from_value(client.get("/_fake/stats").await).unwrap();
    assert_eq!((stats.completed, stats.completion_tokens), (1, 3));
    let served = client.get("/_fake/served").await;
    assert_eq!(served[0]["mark"], "burst-3");
    client.send("k", "/_fake/clear", &json!({})).await.unwrap();
    assert_eq!(client.get("/_fake/stats").await["completed"], 0);
}
