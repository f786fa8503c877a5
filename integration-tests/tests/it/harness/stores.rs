//! Real servers come, obey and go.

use std::path::Path;
use std::time::Duration;

use sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DbBackend, DbErr, Statement,
};
use switchboard_integration_tests::chaos::Direction;
use switchboard_integration_tests::stores::{Durability, Redis, Stores};

async fn connect(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

async fn run(database: &DatabaseConnection, sql: &str) -> Result<(), DbErr> {
    database.execute_unprepared(sql).await.map(drop)
}

async fn redis(url: &str) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    let client = redis::Client::open(url)?;
    client.get_multiplexed_async_connection().await
}

async fn get(
    connection: &mut redis::aio::MultiplexedConnection,
) -> redis::RedisResult<Option<String>> {
    redis::cmd("GET").arg("k").query_async(connection).await
}

async fn set(connection: &mut redis::aio::MultiplexedConnection) -> redis::RedisResult<()> {
    redis::cmd("SET")
        .arg("k")
        .arg("v")
        .query_async(connection)
        .await
}

#[tokio::test]
async fn each_has_a_database_and_a_redis_of_its_own() {
    let (one, two) = (
        Stores::start().await.unwrap(),
        Stores::start().await.unwrap(),
    );
    assert_ne!(one.database_url, two.database_url);
    assert_ne!(one.redis_url, two.redis_url);
    let (first, second) = (
        connect(&one.database_url).await,
        connect(&two.database_url).await,
    );
    run(&first, "CREATE TABLE t (a int)").await.unwrap();
    assert!(run(&second, "SELECT * FROM t").await.is_err());
    let (mut first, mut second) = (
        redis(&one.redis_url).await.unwrap(),
        redis(&two.redis_url).await.unwrap(),
    );
    set(&mut first).await.unwrap();
    assert_eq!(get(&mut first).await.unwrap().as_deref(), Some("v"));
    assert_eq!(get(&mut second).await.unwrap(), None);
    let url = one.database_url.clone();
    one.stop().await.unwrap();
    let gone = Database::connect(url).await.unwrap_err();
    assert!(gone.to_string().contains("does not exist"), "{gone}");
}

#[tokio::test]
async fn a_proxy_gives_tcp_and_faults() {
    let stores = Stores::start().await.unwrap();
    let (database_proxy, url) = stores.database_proxy().unwrap();
    let mut options = ConnectOptions::new(&url);
    // The pool tries again and again until then.
    options
        .acquire_timeout(Duration::from_millis(200))
        .sqlx_logging(false);
    let database = Database::connect(options).await.unwrap();
    run(&database, "SELECT 1").await.unwrap();
    database_proxy.refuse().await;
    assert!(run(&database, "SELECT 1").await.is_err());

    let (redis_proxy, url) = stores.redis_proxy().unwrap();
    let mut connection = redis(&url).await.unwrap();
    set(&mut connection).await.unwrap();
    redis_proxy.stall(Direction::ToClient);
    assert!(get(&mut connection).await.unwrap_err().is_timeout());
}

#[tokio::test]
async fn only_durable_stores_sync_their_commits() {
    for (durability, expected) in [(Durability::Processes, "off"), (Durability::Machine, "on")] {
        let stores = Stores::start_with(durability).await.unwrap();
        let database = connect(&stores.database_url).await;
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            let show = Statement::from_string(DbBackend::Postgres, format!("SHOW {setting}"));
            let row = database.query_one_raw(show).await.unwrap().unwrap();
            let value: String = row.try_get("", setting).unwrap();
            assert_eq!(value, expected, "{setting} of {durability:?}");
        }
    }
}

#[tokio::test]
async fn ended_sessions_are_noticed() {
    let stores = Stores::start().await.unwrap();
    let mut options = ConnectOptions::new(&stores.database_url);
    options
        .max_connections(1)
        .test_before_acquire(false)
        .sqlx_logging(false);
    let database = Database::connect(options).await.unwrap();
    run(&database, "SELECT 1").await.unwrap();
    stores.end_database_sessions().await.unwrap();
    assert!(run(&database, "SELECT 1").await.is_err());
    run(&database, "SELECT 1").await.unwrap();
}

#[tokio::test]
async fn redis_is_paused_killed_emptied_and_started_again() {
    let server = Redis::start().await.unwrap();
    let mut connection = redis(&server.url()).await.unwrap();
    set(&mut connection).await.unwrap();

    server.pause().await.unwrap();
    assert!(get(&mut connection).await.unwrap_err().is_timeout());
    server.resume().await.unwrap();
    assert_eq!(get(&mut connection).await.unwrap().as_deref(), Some("v"));

    server.flush_all().await.unwrap();
    assert_eq!(get(&mut connection).await.unwrap(), None);

    set(&mut connection).await.unwrap();
    let pid = server.pid();
    server.kill().await.unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(get(&mut connection).await.is_err());
    assert!(redis(&server.url()).await.is_err());
    server.restart().await.unwrap();
    assert_ne!(server.pid(), pid);
    let mut connection = redis(&server.url()).await.unwrap();
    assert_eq!(get(&mut connection).await.unwrap(), None);
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_redis() {
    for state in ["running", "paused", "killed"] {
        let server = Redis::start().await.unwrap();
        match state {
            "paused" => server.pause().await.unwrap(),
            "killed" => server.kill().await.unwrap(),
            _ => {}
        }
        let (pid, socket) = (server.pid(), server.socket());
        let directory = socket.parent().unwrap().to_owned();
        assert!(directory.exists());
        drop(server);
        assert!(!directory.exists(), "{state}");
        assert!(
            pid == 0 || !Path::new(&format!("/proc/{pid}")).exists(),
            "{state}"
        );
    }
}

/// Runs this test binary's sleeper test in a process of its own, kills it, and looks for what it left.
#[tokio::test]
async fn nothing_is_left_of_a_killed_test_process() {
    use std::io::{BufRead as _, BufReader};
    let mut sleeper = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "harness::stores::holds_stores_until_killed",
            "--nocapture",
            "--ignored",
        ])
        .env("SWITCHBOARD_HOLD_STORES", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut directories = Vec::new();
    for line in BufReader::new(sleeper.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((_, directory)) = line.split_once("HOLDING ") {
            directories.push(directory.to_owned());
        }
        if directories.len() == 2 {
            break;
        }
    }
    assert_eq!(directories.len(), 2);
    assert!(
        directories
            .iter()
            .all(|directory| Path::new(directory).exists())
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let gone = async {
        while directories
            .iter()
            .any(|directory| Path::new(directory).exists())
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone)
        .await
        .unwrap();
}

/// No test: the process that the test above kills.
#[tokio::test]
#[ignore = "started by nothing_is_left_of_a_killed_test_process"]
async fn holds_stores_until_killed() {
    if std::env::var_os("SWITCHBOARD_HOLD_STORES").is_none() {
        return;
    }
    let stores = Stores::start().await.unwrap();
    let database = stores
        .database_url
        .split_once("host=")
        .unwrap()
        .1
        .replace("%2F", "/");
    println!("\nHOLDING {database}");
    println!(
        "\nHOLDING {}",
        stores.redis.socket().parent().unwrap().display()
    );
    std::future::pending::<()>().await;
}
