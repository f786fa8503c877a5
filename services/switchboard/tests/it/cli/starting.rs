//! How `serve` starts, and what is left where it cannot.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use switchboard::data_dir::{DataDir, Installation};
use switchboard_common::grpc::Role;

fn serve(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.arg("serve").arg("--data-dir").arg(dir).args(words);
    command
}

const FREE: [&str; 4] = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];

fn refused(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn every_taken_address_is_named_with_its_setting_and_nothing_is_left_behind() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let taken = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [http, grpc, internal] = taken
        .each_ref()
        .map(|t| t.local_addr().unwrap().to_string());
    let words = ["--http", &http, "--grpc", &grpc, "--internal", &internal];
    let (code, told) = refused(&mut serve(&dir, &words));
    assert_eq!(code, Some(1), "{told}");
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 1, "{told}");
    for (setting, address) in [
        ("listen.http (--http)", http),
        ("listen.grpc (--grpc)", grpc),
        ("listen.internal (--internal)", internal),
    ] {
        let part = format!("{setting}: cannot listen on {address}: ");
        assert!(told.contains(&part), "{part}\n{told}");
    }
    assert!(!dir.exists());
}

#[test]
fn a_catalogue_that_cannot_be_served_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let wrong = root.path().join("wrong.yaml");
    std::fs::write(&wrong, "version: 1\nmodles: []\n").unwrap();
    for (file, part) in [
        ("/nonexistent/c.yaml", "/nonexistent/c.yaml cannot be read"),
        (wrong.to_str().unwrap(), "wrong.yaml:2:1"),
    ] {
        let (code, told) = refused(serve(&dir, &["-f", file]).args(FREE));
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(part), "{told}");
        assert!(!dir.exists());
    }
}

#[test]
fn an_admin_token_of_nothing_does_not_start() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("token");
    std::fs::write(&file, "\n").unwrap();
    let mut command = serve(&root.path().join("data"), &FREE);
    command.env("SWITCHBOARD__ADMIN_TOKEN_FILE", &file);
    let (code, told) = refused(&mut command);
    assert_eq!(code, Some(1), "{told}");
    let expected = format!("error: admin token file {} is empty", file.display());
    assert!(told.starts_with(&expected), "{told}");
}

#[test]
fn a_directory_that_is_in_use_is_told_of_before_its_addresses() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    let _lock = dir.lock().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (code, told) = refused(&mut serve(root.path(), &["--http", &taken]));
    assert_eq!(code, Some(1));
    assert!(told.contains("in use by another program"), "{told}");
}

#[test]
fn the_demo_ends_its_greeting_with_the_call_and_one_line_of_its_log_tells_what_runs() {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("log");
    let data = root.path().join("data");
    let mut command = serve(&data, &["--demo"]);
    command.args(FREE).stdout(Stdio::piped());
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut out = String::new();
    let mut byte = [0];
    while !(out.contains("curl ") && out.ends_with('\n')) {
        let read = child.stdout.as_mut().unwrap().read(&mut byte).unwrap();
        assert_eq!(read, 1, "{out}");
        out.push(char::from(byte[0]));
    }
    let log = std::fs::read_to_string(&log).unwrap();
    let kill = format!("kill -INT {}", child.id());
    let told = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(told.success());
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let lines: Vec<_> = out.lines().collect();
    assert!(
        lines.last().unwrap().starts_with("curl -s http://"),
        "{out}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("READY http=")),
        "{out}"
    );

    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() <= 3, "{log}");
    let serving: Vec<_> = lines.iter().filter(|l| l["message"] == "serving").collect();
    let [serving] = serving.as_slice() else {
        panic!("{log}");
    };
    assert_eq!(serving["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        serving["roles"],
        "edge,forwarder,auth,scheduler,token-refresh,billing"
    );
    let http = serving["http"].as_str().unwrap();
    assert!(out.contains(&format!("READY http={http} ")), "{http} {out}");
    assert_eq!(serving["data_dir"], data.to_str().unwrap());
    assert_eq!(serving["catalogue.version"], 1);
    assert_eq!(
        (&serving["facts"], &serving["state"]),
        (&"sqlite".into(), &"memory".into())
    );

    let lives = Installation {
        roles: Role::ALL.to_vec(),
        has_facts: true,
    };
    let dir = DataDir::create(&data).unwrap();
    assert_eq!(dir.installation(), Some(lives));
}

#[test]
fn an_edge_keeps_nothing_and_connects_to_no_store() {
    let root = tempfile::tempdir().unwrap();
    let key = root.path().join("key");
    std::fs::write(&key, "07".repeat(32)).unwrap();
    let store = TcpListener::bind("127.0.0.1:0").unwrap();
    store.set_nonblocking(true).unwrap();
    let log = root.path().join("log");
    let mut command = serve(&root.path().join("data"), &["--role", "edge"]);
    command
        .args(["--http", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    command.stderr(std::fs::File::create(&log).unwrap());
    command.env("SWITCHBOARD__MASTER_KEY_FILE", &key);
    for url in ["SWITCHBOARD_REDIS__URL", "SWITCHBOARD_DATABASE__URL"] {
        let scheme = if url.contains("REDIS") {
            "redis"
        } else {
            "postgres"
        };
        command.env(url, format!("{scheme}://{}", store.local_addr().unwrap()));
    }
    for peer in ["AUTH", "SCHEDULER", "FORWARDER", "TOKEN_REFRESH", "BILLING"] {
        command.env(format!("SWITCHBOARD_PEERS__{peer}"), "127.0.0.1:9");
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.unwrap().starts_with("READY "));
    child.kill().unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(ready, "{log}");
    let asked = store.accept().map(drop).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [serving] = lines.as_slice() else {
        panic!("{log}");
    };
    assert_eq!(
        (
            &serving["roles"],
            serving.get("facts"),
            serving.get("state")
        ),
        (&"edge".into(), None, None)
    );
}
