//! What is shown, what counts and what is refused.

use super::*;

#[test]
fn a_password_is_not_shown() {
    assert_eq!(
        redacted("postgres://u:p@ss@db:5432/x"),
        "postgres://***@db:5432/x"
    );
    for (url, shown) in [
        ("postgres:/u:hunter2@db/x", "***@db/x"),
        ("u:hunter2@db/x", "***@db/x"),
        ("redis://:hun,ter2@r:6379", "redis://***@r:6379"),
        (
            "redis://:a@r:1,redis://:b@s:2",
            "redis://***@r:1,redis://***@s:2",
        ),
        ("postgres://db/x?password=hunter2", "postgres://db/x?***"),
    ] {
        assert_eq!(redacted(url), shown);
    }
    let mut settings = Settings::default();
    settings.redis.url = "redis://:hunter2@r:6379".to_owned();
    let text = format!("{settings:?}") + &serde_json::to_string(&settings.shown()).unwrap();
    assert!(!text.contains("hunter2"));
}

#[test]
fn a_split_process_refuses_private_memory_and_private_files() {
    let settings = Settings::default();
    assert!(settings.check(&Role::ALL).is_ok());
    let said = |settings: &Settings, role| settings.check(&[role]).unwrap_err().to_string();
    let error = said(&settings, Role::Scheduler);
    assert!(error.starts_with("database.url: "), "{error}");
    let mut settings = settings;
    settings.database.url = "postgres://db/x".to_owned();
    let error = said(&settings, Role::Scheduler);
    assert!(error.starts_with("redis.url: "), "{error}");
    settings.redis.url = "redis://r".to_owned();
    settings.master_key_file = Some("k".into());
    assert!(settings.check(&[Role::Scheduler]).is_ok());
    let error = said(&settings, Role::Edge);
    assert!(error.contains("peers.forwarder"), "{error}");
}

#[test]
fn what_a_section_knows_of_itself_is_told_before_anything_starts() {
    let said = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check(&Role::ALL).unwrap_err().to_string()
    };
    let told = said(&|s| s.billing.batch = 0);
    assert_eq!(told, "billing.batch is 0; expected at least 1");
    let told = said(&|s| s.forwarder.batch = 0);
    assert_eq!(told, "forwarder.batch is 0; expected more");
    let told = said(&|s| s.edge.connections = 0);
    assert_eq!(told, "edge.connections is 0; expected more");
    let told = said(&|s| s.grpc.streams_per_connection = 0);
    assert_eq!(told, "grpc.streams_per_connection is 0; expected more");
    let told = said(&|s| s.auth.lookups = 0);
    assert_eq!(told, "auth.lookups: must be above 0");
    let told = said(&|s| s.token_refresh.generations = 0);
    assert_eq!(told, "token-refresh.generations: must be above 0");
    for (change, part) in [
        (
            (&|s: &mut Settings| s.scheduler.tries = 0) as &dyn Fn(&mut Settings),
            "scheduler.tries",
        ),
        (&|s| s.state.replicas = 0, "state.replicas"),
        (
            &|s| s.forwarder.progress = s.billing.silence,
            "forwarder.progress: expected less than billing.silence",
        ),
        (&|s| s.feed.poll = Duration::ZERO, "feed.poll"),
        (&|s| s.telemetry.log = "a=b=c".to_owned(), "telemetry.log"),
        (
            &|s| s.database.url = "mysql://u:hunter2@db/x".to_owned(),
            "database.url",
        ),
        (
            &|s| s.redis.url = "http://u:hunter2@r".to_owned(),
            "redis.url",
        ),
        (&|s| s.peers.auth = vec!["auth:1".to_owned()], "--role"),
        (
            &|s| s.listen.http = Some(Address::Unix("s".into())),
            "listen.http",
        ),
        (
            &|s| s.listen.grpc = Some("127.0.0.1:8080".parse().unwrap()),
            "listen.grpc: expected an address of its own; 127.0.0.1:8080 is listen.http",
        ),
    ] {
        let told = said(change);
        assert!(told.contains(part) && !told.contains("hunter2"), "{told}");
    }
    let mut settings = Settings::default();
    settings.database.url = "postgres://db/x".to_owned();
    settings.redis.url = "redis://r".to_owned();
    settings.master_key_file = Some("k".into());
    settings.peers.forwarder = vec!["no address".to_owned()];
    for role in [
        Role::Auth,
        Role::Scheduler,
        Role::TokenRefresh,
        Role::Billing,
    ] {
        let error = settings.check(&[role]).unwrap_err().to_string();
        assert!(error.starts_with("peers.forwarder: "), "{error}");
    }
}

#[test]
fn what_counts_in_a_process_depends_on_its_roles() {
    let effective = Settings::default().effective(&Role::ALL);
    let shown = |address: &Option<Address>| address.as_ref().map(ToString::to_string);
    let listen = effective.listen;
    assert_eq!(shown(&listen.http).as_deref(), Some("127.0.0.1:8080"));
    assert_eq!(shown(&listen.grpc).as_deref(), Some("127.0.0.1:8081"));
    assert_eq!(listen.internal, None);
    assert_eq!(effective.data_dir, Some("switchboard-data".into()));
    let key = effective.master_key_file.unwrap();
    assert_eq!(key, PathBuf::from("switchboard-data/master.key"));
    let auth = Settings::default().effective(&[Role::Auth]);
    assert_eq!(shown(&auth.listen.internal).as_deref(), Some("127.0.0.1:0"));
    assert_eq!((auth.listen.grpc, auth.master_key_file), (None, None));
    assert_eq!(
        Settings::default().effective(&[Role::Edge]).listen.internal,
        None
    );
}
