//! The official Python clients, unchanged, against a whole Switchboard (ERR-2).
//!
//! They have their own scripted upstream, `clients/fake_upstream.py`, whose directives stand in the prompts.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use switchboard_integration_tests::setup::{Setup, secret_of};
use switchboard_integration_tests::stack::{Builder, Stack};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

/// What is not served yet.
const SKIP: &str = "tag:ws,tag:lanes";

/// What the client's upstream speaks, as far as it is served.
const DIALECTS: &str = "openai.chat, openai.responses, openai.embeddings, openai.completions, openai.images, openai.audio, openai.moderations";

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// The virtual environment, made once.
async fn python() -> &'static Path {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    MADE.get_or_init(async || {
        let wanted = std::fs::read_to_string(here().join("requirements.txt")).unwrap();
        let directory = std::env::current_exe().unwrap();
        let target = directory.ancestors().nth(3).expect("target/<profile>/deps");
        let venv = target.join("clients-venv");
        let python = venv.join("bin/python");
        let stamp = venv.join("requirements.installed");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return python;
        }
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv))
        .await;
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ]);
        run(pip.arg(here().join("requirements.txt"))).await;
        std::fs::write(stamp, wanted).unwrap();
        python
    })
    .await
}

async fn run(command: &mut Command) {
    let output = command
        .output()
        .await
        .expect("python3 is installed: `make test` sees to it");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The client's own upstream and its address; it ends when dropped.
async fn upstream(python: &Path) -> (Child, std::net::SocketAddr) {
    let mut child = Command::new(python)
        .arg(here().join("fake_upstream.py"))
        .args([
            "--port",
            "0",
            "--models",
            "fake-chat,fake-responses,fake-embed,fake-image,fake-audio,fake-moderation,fake-instruct",
        ])
        .env("PYTHONUNBUFFERED", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(said) = line.strip_prefix("LISTENING ") {
            let address = said.split_whitespace().next().unwrap();
            let address = address.trim_start_matches("http://").trim_end_matches('/');
            return (child, address.parse().unwrap());
        }
    }
    panic!("the clients' upstream does not start");
}

/// One run of a script.
struct Run<'a> {
    script: &'a str,
    /// Further settings of the script: models, cases.
    settings: &'a [(&'a str, &'a str)],
    /// Cases that are left out.
    skip: &'a str,
}

/// A whole Switchboard before the clients' upstream. Models `over-…` are served by an upstream of that dialect alone.
async fn stack(builder: Builder, address: std::net::SocketAddr) -> Stack {
    let price = "price: {input: 1.00, output: 2.00}";
    // The cases make the one account fail on purpose, again and again.
    let patient = "cooldown: {max: 0s}, breaker: off";
    let mut setup = Setup::new()
        .account_at(
            "fake",
            address,
            &format!("{patient}, dialects: [{DIALECTS}]"),
        )
        .account_at(
            "google",
            address,
            &format!("provider: gemini, dialects: [gemini.generate], {patient}"),
        )
        .account_at(
            "anthropic",
            address,
            &format!("provider: anthropic, dialects: [anthropic.messages], {patient}"),
        )
        .account_at(
            "chat",
            address,
            &format!("{patient}, dialects: [openai.chat]"),
        )
        .account_at(
            "responses",
            address,
            &format!("{patient}, dialects: [openai.responses]"),
        )
        .model(
            "fake-chat",
            &format!("{price}, targets: [{{account: fake}}]"),
        )
        .tenant("acme", "hold: estimate")
        .key("k", "");
    for (model, dialect, account) in [
        ("fake-responses", "openai.responses", "fake"),
        ("fake-gemini", "gemini.generate", "google"),
        ("fake-claude", "anthropic.messages", "anthropic"),
        ("fake-embed", "openai.embeddings", "fake"),
        ("fake-image", "openai.images", "fake"),
        ("fake-audio", "openai.audio", "fake"),
        ("fake-moderation", "openai.moderations", "fake"),
        ("fake-instruct", "openai.completions", "fake"),
    ] {
        let more = format!("accepts: [{dialect}], {price}, targets: [{{account: {account}}}]");
        setup = setup.model(model, &more);
    }
    for (model, account, upstream) in [
        ("over-chat", "chat", "fake-chat"),
        ("over-responses", "responses", "fake-responses"),
        ("over-anthropic", "anthropic", "fake-claude"),
        ("over-gemini", "google", "fake-gemini"),
    ] {
        let target = format!("{{account: {account}, model: {upstream}}}");
        setup = setup.model(model, &format!("{price}, targets: [{target}]"));
    }
    let builder = builder.settings(|settings| settings.forwarder.retries_in_hand = 10_000);
    builder.setup(setup).start().await
}

/// Runs the scripts, one after the other; no case may fail.
async fn accept(builder: Builder, runs: &[Run<'_>]) {
    let python = python().await;
    let (_upstream, address) = upstream(python).await;
    let stack = stack(builder, address).await;
    let mut wrong = Vec::new();
    for run in runs {
        let output = Command::new(python)
            .arg(here().join(run.script))
            .env("BASE_URL", format!("http://{}/v1", stack.edges()[0]))
            .env("API_KEY", secret_of("k"))
            .env("BAD_API_KEY", "sk-nobody-has-this-key-at-all-000000000000")
            .env("UPSTREAM_LOG", format!("http://{address}"))
            .env("GATEWAY", "1")
            .env("SKIP", run.skip)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(run.settings.iter().copied())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = said.lines().filter(|line| line.starts_with("FAIL"));
        let failed: Vec<&str> = failed.collect();
        let last = said.lines().last().unwrap_or_default();
        if !output.status.success() || !failed.is_empty() || !last.contains(" 0 failed") {
            let errors = String::from_utf8_lossy(&output.stderr);
            let (script, settings) = (run.script, run.settings);
            wrong.push(format!(
                "{script} {settings:?}: {last}\n{}\n{errors}",
                failed.join("\n")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stack.finish().await;
}

/// The cases of one script in the caller's own dialect.
const fn own<'a>(script: &'a str, skip: &'a str) -> Run<'a> {
    Run {
        script,
        settings: &[],
        skip,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_official_python_client_is_served_by_one_process() {
    let runs = [own("accept_openai.py", SKIP)];
    Box::pin(accept(Stack::in_process(), &runs)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_official_python_client_is_served_by_a_split_system() {
    let runs = [own("accept_openai.py", SKIP)];
    Box::pin(accept(Stack::split(), &runs)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn googles_python_client_is_served_by_one_process() {
    Box::pin(accept(Stack::in_process(), &[own("accept_gemini.py", "")])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn googles_python_client_is_served_by_a_split_system() {
    Box::pin(accept(Stack::split(), &[own("accept_gemini.py", "")])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn anthropics_python_client_is_served_by_one_process() {
    Box::pin(accept(
        Stack::in_process(),
        &[own("accept_anthropic.py", "")],
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn anthropics_python_client_is_served_by_a_split_system() {
    Box::pin(accept(Stack::split(), &[own("accept_anthropic.py", "")])).await;
}

mod translated;
