//! Migrations on real databases: again, and at the same time.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use futures_util::future::join_all;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};
use switchboard_migrations::{Owner, migrate};

async fn sqlite(directory: &tempfile::TempDir, owner: Owner) -> DatabaseConnection {
    let path = directory.path().join(format!("{owner}.sqlite"));
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.expect("opens")
}

async fn count(connection: &DatabaseConnection, sql: &str) -> i64 {
    connection
        .query_one_raw(Statement::from_string(
            connection.get_database_backend(),
            sql,
        ))
        .await
        .expect("query")
        .expect("row")
        .try_get_by_index(0)
        .expect("integer")
}

#[tokio::test]
async fn each_owner_migrates_an_empty_sqlite_file_and_a_second_time_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for owner in Owner::ALL {
        let connection = sqlite(&directory, owner).await;
        migrate(&connection, owner).await.expect("first");
        let applied = count(&connection, "SELECT COUNT(*) FROM seaql_migrations").await;
        migrate(&connection, owner).await.expect("second");
        assert_eq!(
            count(&connection, "SELECT COUNT(*) FROM seaql_migrations").await,
            applied
        );
    }
}

#[tokio::test]
async fn sqlite_replicas_that_start_together_all_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let connections = replicas(&directory).await;
    let runs = connections
        .iter()
        .map(|connection| migrate(connection, Owner::Auth));
    for run in join_all(runs).await {
        run.expect("migrates");
    }
    assert_eq!(
        count(&connections[0], "SELECT COUNT(*) FROM api_key").await,
        0
    );
}

async fn replicas(directory: &tempfile::TempDir) -> Vec<DatabaseConnection> {
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(sqlite(directory, Owner::Auth).await);
    }
    connections
}

/// Runs where the test runner gives a PostgreSQL server.
#[tokio::test]
async fn postgres_replicas_that_start_together_create_the_schema_once() {
    let Ok(url) = std::env::var("SWITCHBOARD_TEST_DATABASE_URL") else {
        return;
    };
    let schema = format!("sb_migrations_{}", std::process::id());
    let mut connections = Vec::new();
    for _ in 0..6 {
        let mut options = ConnectOptions::new(url.clone());
        options
            .max_connections(1)
            .sqlx_logging(false)
            .set_schema_search_path(schema.clone());
        connections.push(Database::connect(options).await.expect("connects"));
    }
    let runs = connections
        .iter()
        .map(|connection| migrate(connection, Owner::TokenRefresh));
    for run in join_all(runs).await {
        run.expect("migrates");
    }
    assert_eq!(
        count(&connections[0], "SELECT COUNT(*) FROM credential").await,
        0
    );
    connections[0]
        .execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE"))
        .await
        .expect("drops");
}
