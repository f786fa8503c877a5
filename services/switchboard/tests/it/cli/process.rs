//! The program itself: what a shell sees.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn switchboard(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(words)
        .env("SWITCHBOARD_TOKEN", "sb-admin-from-the-environment")
        .output()
        .unwrap()
}

#[test]
fn help_is_a_result_and_shows_no_token() {
    let output = switchboard(&["usage", "list", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("SWITCHBOARD_TOKEN") && !text.contains("from-the-environment"),
        "{text}"
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn a_wrong_command_line_is_exit_2_and_nothing_on_standard_output() {
    for words in [
        vec!["frobnicate"],
        vec!["usage", "list", "--limit", "x"],
        vec![],
    ] {
        let output = switchboard(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn nobody_there_is_exit_3() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    drop(socket);
    let output = switchboard(&["ledger", "verify", "--addr", &address]);
    assert_eq!(output.status.code(), Some(3));
}

/// An address where nobody listens.
fn nobody() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}

/// `serve` on free ports, with the hot state at a Redis that is away.
fn serve(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(dir)
        .args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
        .env("SWITCHBOARD_REDIS__URL", format!("redis://{}", nobody()));
    command
}

#[test]
fn a_database_that_is_away_ends_the_start_with_one_line_and_exit_3() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "07".repeat(32)).unwrap();
    let database = nobody();
    let output = serve(dir.path())
        .args(["--role", "billing"])
        .env("SWITCHBOARD__MASTER_KEY_FILE", &key)
        .env(
            "SWITCHBOARD_DATABASE__URL",
            format!("postgres://sw:pa55w0rd@{database}/sw"),
        )
        .env("SWITCHBOARD_DATABASE__START_TIMEOUT", "300ms")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    let lines: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(
        lines[0].contains("database.url") && lines[0].contains(&database),
        "{told}"
    );
    assert!(!told.contains("pa55w0rd"), "{told}");
}

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_redis_that_is_away_does_not_hold_up_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = serve(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let _running = Running(child);
    // It says where it listens once it is ready.
    let ready = BufReader::new(out).lines().map_while(Result::ok);
    let http = ready.filter_map(|line| {
        let (_, rest) = line.split_once("http=")?;
        rest.split_whitespace().next().map(str::to_owned)
    });
    let http = http.take(1).next().unwrap();
    let mut probe = TcpStream::connect(http).unwrap();
    probe
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
