//! Which installation, as whom, and how it ends when nobody or the wrong one answers (CON-2).

use switchboard::data_dir::{DataDir, Endpoint, Installation};
use switchboard_common::grpc::Role;

use super::{
    fake::{Fake, TOKEN},
    run,
};

#[tokio::test]
async fn over_a_socket_the_token_goes_along() {
    let address = Fake::default().listen().await.to_string();
    // With and without the scheme.
    for addr in [address.clone(), format!("http://{address}")] {
        let done = run(&["keys", "list", "--addr", &addr, "--token", TOKEN]).await;
        assert_eq!(
            (done.exit, done.out.as_str()),
            (0, "no keys\n"),
            "{}",
            done.err
        );
    }
}

/// What a shell would run, with roots of its own to trust.
async fn over_tls(addr: &str, roots: &str) -> std::process::Output {
    tokio::process::Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(["keys", "list", "--addr", addr, "--token", TOKEN])
        .env("SSL_CERT_FILE", roots)
        .env_remove("SSL_CERT_DIR")
        .output()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_only_a_server_that_the_platform_trusts_gets_the_token() {
    let fake = Fake::default();
    let port = fake.listen_tls().await.port();
    let addr = format!("https://localhost:{port}");
    let roots = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli/tls/root.pem");
    let output = over_tls(&addr, roots).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(output.stdout, b"no keys\n");
    assert_eq!(fake.calls().len(), 1);

    // A root that signed nothing of it; a name that the certificate does not have.
    let stranger = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli/tls/stranger.pem");
    let elsewhere = format!("https://127.0.0.1:{port}");
    for (addr, roots) in [(&addr, stranger), (&elsewhere, roots)] {
        let output = over_tls(addr, roots).await;
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{told}");
        assert!(told.contains(addr.as_str()), "{told}");
    }
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_shown_nowhere() {
    let fake = Fake::default();
    let address = fake.listen().await.to_string();
    let done = run(&[
        "keys",
        "list",
        "--addr",
        &address,
        "--token",
        "sb-admin-wrong",
    ])
    .await;
    assert_eq!((done.exit, done.out.as_str()), (4, ""));
    assert_eq!(done.err, "error: invalid_api_key: this is no admin token\n");
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn where_nobody_listens_is_unreachable() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    drop(socket);
    let done = run(&["ledger", "verify", "--addr", &address, "--token", TOKEN]).await;
    assert_eq!((done.exit, done.out.as_str()), (3, ""));
    assert!(done.err.contains(&address), "{}", done.err);
}

#[tokio::test]
async fn what_makes_no_sense_is_usage() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nothing");
    let missing = missing.to_str().unwrap();
    let empty = dir.path().to_str().unwrap();
    for (words, told) in [
        (vec!["keys", "list", "--data-dir", missing], missing),
        (vec!["keys", "list", "--data-dir", empty], empty),
        (
            vec!["keys", "list", "--addr", "ftp://h:1", "--token", "t"],
            "http://HOST:PORT",
        ),
        (
            vec!["keys", "list", "--addr", "http://", "--token", "t"],
            "http://HOST:PORT",
        ),
        (
            vec!["keys", "list", "--addr", "h:1", "--token", "a\nb"],
            "token",
        ),
        (
            vec!["keys", "list", "--addr", "h:1", "--token", ""],
            "SWITCHBOARD_TOKEN",
        ),
    ] {
        let done = run(&words).await;
        assert_eq!(done.exit, 2, "{words:?}: {}", done.err);
        assert!(done.err.contains(told), "{words:?}: {}", done.err);
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "looking leaves nothing behind"
    );
}

#[tokio::test]
async fn a_running_data_directory_leads_to_its_program() {
    let fake = Fake::default();
    let http = fake.listen().await.to_string();
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    std::fs::write(root.path().join("admin.token"), format!("{TOKEN}\n")).unwrap();
    let lock = dir.lock().unwrap();
    let path = root.path().to_str().unwrap();

    let done = run(&["keys", "list", "--data-dir", path]).await;
    assert_eq!(done.exit, 3, "it has not said where it is: {}", done.err);
    assert!(done.err.contains("not ready"), "{}", done.err);

    let endpoint = Endpoint {
        http,
        grpc: String::new(),
        pid: 1,
    };
    dir.publish(&endpoint).unwrap();
    // Another installation's token in the environment does not count here.
    let done = run(&["keys", "list", "--data-dir", path, "--token", "other"]).await;
    assert_eq!(
        (done.exit, done.out.as_str()),
        (0, "no keys\n"),
        "{}",
        done.err
    );
    drop(lock);
}

#[tokio::test]
async fn a_role_of_a_split_system_leads_to_its_edge() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    // Also where a master key lies, with which SQLite files could be made.
    drop(dir.master_key().unwrap());
    let of = |roles: &[Role]| Installation {
        roles: roles.to_vec(),
        has_facts: false,
    };
    let path = root.path().to_str().unwrap();
    let file = root.path().join("c.yaml");
    std::fs::write(&file, "version: 1\n").unwrap();
    let file = file.to_str().unwrap();
    let commands = [
        vec!["apply", "-f", file, "--data-dir", path],
        vec!["keys", "list", "--data-dir", path],
        vec!["ledger", "verify", "--data-dir", path],
    ];
    for running in [false, true] {
        let _lock = running.then(|| dir.lock().unwrap());
        for (roles, named) in [
            (&[Role::Auth][..], "of auth in"),
            (
                &[Role::Billing, Role::TokenRefresh],
                "of billing, token-refresh in",
            ),
        ] {
            dir.describe(&of(roles)).unwrap();
            for words in &commands {
                let done = run(words).await;
                assert_eq!((done.exit, done.out.as_str()), (2, ""), "{}", done.err);
                for part in [path, named, "--addr", "edge", "SWITCHBOARD_TOKEN"] {
                    assert!(done.err.contains(part), "{part}: {}", done.err);
                }
            }
        }
    }
    let databases = std::fs::read_dir(root.path()).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|end| end == "sqlite")
    });
    assert_eq!(databases.count(), 0);

    // An edge that runs is the way itself.
    let fake = Fake::default();
    let http = fake.listen().await.to_string();
    let _lock = dir.lock().unwrap();
    dir.describe(&of(&[Role::Edge, Role::Forwarder])).unwrap();
    let endpoint = Endpoint {
        http,
        grpc: String::new(),
        pid: 1,
    };
    dir.publish(&endpoint).unwrap();
    let done = run(&["keys", "list", "--data-dir", path, "--token", TOKEN]).await;
    assert_eq!(
        (done.exit, done.out.as_str()),
        (0, "no keys\n"),
        "{}",
        done.err
    );
}

#[tokio::test]
async fn facts_in_postgresql_are_not_looked_for_in_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::create(root.path()).unwrap();
    drop(dir.master_key().unwrap());
    dir.describe(&Installation {
        roles: Role::ALL.to_vec(),
        has_facts: false,
    })
    .unwrap();
    let path = root.path().to_str().unwrap();
    let done = run(&["keys", "list", "--data-dir", path]).await;
    assert_eq!(done.exit, 3, "{}", done.err);
    assert!(done.err.contains("PostgreSQL"), "{}", done.err);
    assert!(!root.path().join("auth.sqlite").exists());
}
