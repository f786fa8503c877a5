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

#[test]
fn migrations_of_a_database_that_is_away_are_exit_3() {
    let database = nobody();
    let output = switchboard(&[
        "migrate",
        "--database-url",
        &format!("postgres://switchboard:pa55w0rd@{database}/switchboard"),
    ]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    let expected =
        format!("the auth database at postgres://***@{database}/switchboard cannot be opened");
    assert!(told.contains(&expected), "{told}");
    assert!(!told.contains("pa55w0rd"), "{told}");
    // What is no address of PostgreSQL is not waited for.
    let output = switchboard(&["migrate", "--database-url", "sqlite://x"]);
    assert_eq!(output.status.code(), Some(2));
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

/// `serve` until it is ready.
fn started(dir: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.arg("serve").arg("--data-dir").arg(dir).args(words);
    command.args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    // Whoever is not done by then ends with a failure.
    command.env("SWITCHBOARD_SHUTDOWN__GRACE", "1s");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let ready = lines
        .map(Result::unwrap)
        .any(|line| line.starts_with("READY "));
    assert!(ready, "{:?}", child.wait());
    child
}

/// One Ctrl-C; the exit code.
fn interrupted(mut child: Child) -> Option<i32> {
    // The shell's own: there may be no program of this name.
    let kill = format!("kill -INT {}", child.id());
    let told = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(told.success());
    child.wait().unwrap().code()
}

#[test]
fn one_signal_ends_the_demo() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        assert_eq!(interrupted(started(dir.path(), &["--demo"])), Some(0));
    }
}

#[test]
fn the_demo_disables_nothing_of_an_installation() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.yaml");
    let own = "version: 1
accounts:
  - {name: own, provider: openai_compatible, base_url: 'http://127.0.0.1:9/v1', allow_private_address: true, credential: none, dialects: [openai.chat]}
models:
  - {name: m, price: {input: 0.50, output: 1.50}, targets: [{account: own, model: m}]}
groups:
  - {name: g, models: [m]}
";
    std::fs::write(&file, own).unwrap();
    let data = dir.path().join("data");
    let serving = started(&data, &["-f", file.to_str().unwrap()]);
    assert_eq!(interrupted(serving), Some(0));
    let mut demo = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    demo.arg("serve").arg("--demo").arg("--data-dir").arg(&data);
    let output = demo
        .args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("a catalogue of its own, which --demo would disable"),
        "{told}"
    );
}
