//! The program itself: what a shell sees.

use std::process::{Command, Output};

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
