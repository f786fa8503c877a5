//! Starts the real programs: upstream, proxy, Switchboard in one process, Switchboard with a process a role.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::stores::{Durability, Stores};
use anyhow::Context as _;
use serde_json::{Value, json};

use crate::arguments::Kind;
use crate::catalogue;
use crate::child::{Child, Program};
use crate::target::{Admin, Books, StoreProcesses, Target};
use crate::workload::Workload;

/// The roles, each after those that it calls.
const ROLES: [&str; 6] = [
    "token-refresh",
    "auth",
    "scheduler",
    "billing",
    "forwarder",
    "edge",
];
/// Connections to PostgreSQL of each role.
const MAX_CONNECTIONS: u32 = 10;

/// Where programs and data lie, and what is served.
pub struct Ground {
    /// The directory of `switchboard` and `fake-upstream`.
    pub programs: PathBuf,
    /// For data directories and logs.
    pub directory: PathBuf,
    /// The callers' key.
    pub key: String,
    /// All that is asked in this run.
    pub workloads: Vec<Workload>,
}

/// How long Switchboard took from start to ready.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// On an empty directory, with a catalogue to apply.
    pub empty: Duration,
    /// On that directory again.
    pub existing: Duration,
}

impl Ground {
    fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.programs.join(name);
        anyhow::ensure!(
            path.is_file(),
            "{} does not exist: `make release` builds it",
            path.display()
        );
        Ok(path)
    }

    fn child(
        &self,
        name: &str,
        program: &Path,
        ready: &str,
        arguments: Vec<OsString>,
    ) -> anyhow::Result<Child> {
        Child::start(Program {
            name,
            program,
            arguments,
            environment: self.secrets(),
            directory: &self.directory,
            ready,
        })
    }

    fn secrets(&self) -> Vec<(String, String)> {
        vec![
            (catalogue::KEY_VARIABLE.to_owned(), self.key.clone()),
            (
                catalogue::UPSTREAM_VARIABLE.to_owned(),
                "upstream-credential-of-the-bench".to_owned(),
            ),
        ]
    }

    /// The upstream in its fast mode.
    pub fn upstream(&self) -> anyhow::Result<(Child, SocketAddr)> {
        let program = self.program("fake-upstream")?;
        let child = self.child("upstream", &program, "LISTENING", vec!["--fast".into()])?;
        let addr = child.said().parse()?;
        Ok((child, addr))
    }

    /// The bare proxy: this program once more.
    pub fn proxy(&self, upstream: SocketAddr) -> anyhow::Result<Target> {
        let arguments = vec!["proxy".into(), upstream.to_string().into()];
        let program = std::env::current_exe()?;
        let child = self.child("proxy", &program, "LISTENING", arguments)?;
        let addr = child.said().parse()?;
        Ok(Target::new(Kind::Proxy, addr, vec![child]))
    }

    fn write_catalogue(&self, upstream: SocketAddr) -> anyhow::Result<PathBuf> {
        let path = self.directory.join("catalogue.yaml");
        std::fs::write(&path, catalogue::text(upstream, &self.workloads))?;
        Ok(path)
    }

    /// Switchboard in one process: started, stopped and started again on what it left.
    pub fn one(&self, upstream: SocketAddr) -> anyhow::Result<(Target, Readiness)> {
        let program = self.program("switchboard")?;
        let data = self.directory.join("one");
        let arguments = words(&[
            "serve",
            "-f",
            text(&self.write_catalogue(upstream)?)?,
            "--data-dir",
            text(&data)?,
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
        ]);
        let start = || self.child("one", &program, "READY", arguments.clone());
        let first = start()?;
        let empty = first.started_in();
        first.stop()?;
        let child = start()?;
        let readiness = Readiness {
            empty,
            existing: child.started_in(),
        };
        let addr = address(child.field("http")?)?;
        let mut target = Target::new(Kind::One, addr, vec![child]);
        target.books = Some(Books {
            database_url: format!("sqlite://{}?mode=ro", text(&data.join("billing.sqlite"))?),
            admin: Admin {
                program,
                place: vec!["--data-dir".to_owned(), text(&data)?.to_owned()],
                token: None,
            },
        });
        Ok((target, readiness))
    }

    /// Switchboard with a process a role, on stores of its own that sync to disk.
    pub fn split(
        &self,
        upstream: SocketAddr,
        runtime: &tokio::runtime::Runtime,
    ) -> anyhow::Result<Target> {
        let program = self.program("switchboard")?;
        let stores = runtime.block_on(Stores::start_with(Durability::Machine))?;
        let master_key = self.directory.join("split.master.key");
        std::fs::write(&master_key, "5b".repeat(32))?;
        let mut settings = json!({
            "master_key_file": master_key,
            "database": {"url": stores.database_url, "max_connections": MAX_CONNECTIONS},
            "redis": {"url": stores.redis_url},
        });
        let file = self.settings("migrate", &settings)?;
        run(Command::new(&program).args(["migrate", "--settings", text(&file)?]))?;

        let mut processes = Vec::new();
        for role in ROLES {
            settings["data_dir"] = json!(self.directory.join(format!("split-{role}")));
            let file = self.settings(role, &settings)?;
            let arguments = words(&[
                "serve",
                "--role",
                role,
                "--settings",
                text(&file)?,
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                "--internal",
                "127.0.0.1:0",
            ]);
            let child = self.child(role, &program, "READY", arguments)?;
            // Nobody calls the edge but callers.
            if let Ok(internal) = child.field("internal") {
                settings["peers"][role] = json!([internal]);
            }
            processes.push(child);
        }
        let edge = processes.last().context("no role was started")?;
        let addr = address(edge.field("http")?)?;
        let token = std::fs::read_to_string(self.directory.join("split-auth/admin.token"))
            .context("auth's admin token")?;
        let admin = Admin {
            program: program.clone(),
            place: vec!["--addr".to_owned(), format!("http://{addr}")],
            token: Some(token.trim().to_owned()),
        };
        let catalogue = self.write_catalogue(upstream)?;
        let mut apply = admin.command(&["apply", "-f", text(&catalogue)?]);
        run(apply.envs(self.secrets()))?;

        let mut target = Target::new(Kind::Split, addr, processes);
        target.books = Some(Books {
            database_url: stores.database_url.clone(),
            admin,
        });
        target.stores = Some(StoreProcesses::of(stores)?);
        Ok(target)
    }

    fn settings(&self, name: &str, settings: &Value) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(format!("split.{name}.settings.yaml"));
        // JSON is YAML.
        std::fs::write(&path, settings.to_string())?;
        Ok(path)
    }
}

/// Runs a command to its end; its output is in the error.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    anyhow::ensure!(
        output.status.success(),
        "`switchboard {}` ended with {}: {said}{}",
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

fn address(said: &str) -> anyhow::Result<SocketAddr> {
    let bare = said.strip_prefix("http://").unwrap_or(said);
    bare.parse()
        .with_context(|| format!("`{said}` is no address"))
}
