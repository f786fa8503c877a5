//! The PostgreSQL cluster of this process, on a Unix socket.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection};
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::watched::{Signal, Watched};
use super::{Durability, directory, program};

/// The port is but a part of the socket's name: no TCP port is opened.
const SOCKET: &str = ".s.PGSQL.5432";
/// The account that a server started by root runs as; PostgreSQL refuses to run as root.
const ACCOUNT: &str = "postgres";

/// A running cluster.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    /// Statics are never dropped: the watchdog sees the end of the process.
    _watched: Watched,
}

static FAST: OnceCell<Postgres> = OnceCell::const_new();
static DURABLE: OnceCell<Postgres> = OnceCell::const_new();

impl Postgres {
    /// This process's cluster, started at the first call.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn shared(durability: Durability) -> anyhow::Result<&'static Self> {
        let cell = match durability {
            Durability::Processes => &FAST,
            Durability::Machine => &DURABLE,
        };
        cell.get_or_try_init(|| Self::start(durability)).await
    }

    async fn start(durability: Durability) -> anyhow::Result<Self> {
        let installed = installed();
        let initdb = program("initdb", &installed)?;
        let server = program("postgres", &installed)?;
        let directory = directory("sb-pg-")?;
        let drop_root = drop_root(&directory).await?;
        let data = directory.join("data");

        let mut words = drop_root.clone();
        words.push(initdb.display().to_string());
        words.extend(
            [
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ]
            .map(str::to_owned),
        );
        words.push(format!("--pgdata={}", data.display()));
        let (first, rest) = words.split_first().context("an empty command")?;
        let made = Command::new(first)
            .args(rest)
            .env("LC_ALL", "C")
            .current_dir(&directory)
            .output()
            .await
            .with_context(|| format!("cannot run {first}"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            std::fs::remove_dir_all(&directory)?;
            anyhow::bail!("initdb failed: {said}");
        }

        let mut command = drop_root;
        command.push(server.display().to_string());
        command.extend(["-D".to_owned(), data.display().to_string()]);
        command.extend(["-k".to_owned(), directory.display().to_string()]);
        for setting in settings(durability) {
            command.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let ready = "database system is ready to accept connections";
        let watched = Watched::start(&command, &directory, Signal::Quit, ready).await?;
        Ok(Self {
            directory,
            _watched: watched,
        })
    }

    /// URL of a database, over the Unix socket.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let directory = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost/{database}?host={directory}")
    }

    /// Path of the socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Creates an empty database. `name` must be a plain identifier.
    ///
    /// # Errors
    /// When PostgreSQL refuses, so for all methods here.
    pub async fn create_database(&self, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await
    }

    /// Removes a database, with the sessions in it.
    ///
    /// # Errors
    /// As [`create_database`](Self::create_database).
    pub async fn drop_database(&self, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await
    }

    /// Ends all sessions in a database.
    ///
    /// # Errors
    /// As [`create_database`](Self::create_database).
    pub async fn end_sessions(&self, name: &str) -> anyhow::Result<()> {
        self.execute(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        ))
        .await
    }

    async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        let connection = self.connect().await?;
        let done = connection.execute_unprepared(sql).await;
        connection.close().await?;
        done.map(drop).with_context(|| sql.to_owned())
    }

    async fn connect(&self) -> anyhow::Result<DatabaseConnection> {
        let mut options = ConnectOptions::new(self.url("postgres"));
        options.max_connections(1).sqlx_logging(false);
        Ok(Database::connect(options).await?)
    }
}

fn settings(durability: Durability) -> &'static [&'static str] {
    const COMMON: &[&str] = &[
        "listen_addresses=",
        "max_connections=500",
        "shared_buffers=64MB",
        "autovacuum_naptime=10s",
        "log_min_messages=warning",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
    ];
    match durability {
        Durability::Processes => COMMON,
        Durability::Machine => &COMMON[..COMMON.len() - 3],
    }
}

/// Where distributions keep the binaries, newest version first.
fn installed() -> Vec<PathBuf> {
    let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = versions
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// As root: hands the directory to PostgreSQL's account and returns the words that start a program as that account.
async fn drop_root(directory: &Path) -> anyhow::Result<Vec<String>> {
    if std::fs::metadata(directory)?.uid() != 0 {
        return Ok(Vec::new());
    }
    let (user, group) = (id("-u").await?, id("-g").await?);
    chown(directory, Some(user), Some(group))?;
    let setpriv = program("setpriv", &[])?;
    Ok(vec![
        setpriv.display().to_string(),
        format!("--reuid={user}"),
        format!("--regid={group}"),
        "--clear-groups".to_owned(),
        "--".to_owned(),
    ])
}

async fn id(which: &str) -> anyhow::Result<u32> {
    let output = Command::new("id").args([which, ACCOUNT]).output().await?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| {
        format!("PostgreSQL does not run as root, and there is no account `{ACCOUNT}` to run it as")
    })
}
