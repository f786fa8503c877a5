//! One thing that is compared: where it listens, which processes it is made of, what it has served.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stores::Stores;
use anyhow::Context as _;

use crate::arguments::Kind;
use crate::child::Child;
use crate::process::{Used, resident_bytes, resident_bytes_of_family};
use crate::verify::Counts;
use crate::workload::{Expected, Question, Workload};

/// One thing that is compared.
pub struct Target {
    pub kind: Kind,
    pub addr: SocketAddr,
    /// Of the gateway: none for a direct call.
    pub processes: Vec<Child>,
    pub stores: Option<StoreProcesses>,
    /// Where a Switchboard keeps its books.
    pub books: Option<Books>,
    /// Requests and what is to be answered, once seen and compared.
    pub known: BTreeMap<Workload, (Question, Expected)>,
    /// Right answers so far.
    pub answers: BTreeMap<Workload, u64>,
    /// What the upstream says that it served through this target.
    pub served: Counts,
}

/// The stores and their processes.
pub struct StoreProcesses {
    postgres: u32,
    redis: u32,
    _stores: Stores,
}

/// How to look into a Switchboard's books.
pub struct Books {
    /// Of billing's database, for reading.
    pub database_url: String,
    pub admin: Admin,
}

/// The command line of an administrator.
pub struct Admin {
    pub program: PathBuf,
    pub place: Vec<String>,
    pub token: Option<String>,
}

impl Admin {
    /// `switchboard WORDS…` at this installation.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).args(&self.place);
        if let Some(token) = &self.token {
            command.env("SWITCHBOARD_TOKEN", token);
        }
        command
    }
}

impl Target {
    pub fn new(kind: Kind, addr: SocketAddr, processes: Vec<Child>) -> Self {
        Self {
            kind,
            addr,
            processes,
            stores: None,
            books: None,
            known: BTreeMap::new(),
            answers: BTreeMap::new(),
            served: Counts::default(),
        }
    }

    /// What each gateway process has used.
    pub fn used(&self) -> anyhow::Result<Vec<(String, Used)>> {
        let of = |child: &Child| Ok((child.name().to_owned(), Used::by(child.pid())?));
        self.processes.iter().map(of).collect()
    }

    /// What the stores have used.
    pub fn stores_used(&self) -> anyhow::Result<Vec<(String, Used)>> {
        let Some(stores) = &self.stores else {
            return Ok(Vec::new());
        };
        Ok(vec![
            ("postgresql".to_owned(), Used::by_family(stores.postgres)?),
            ("redis".to_owned(), Used::by(stores.redis)?),
        ])
    }

    /// Resident bytes of each gateway process.
    pub fn resident(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let of = |child: &Child| Ok((child.name().to_owned(), resident_bytes(child.pid())?));
        self.processes.iter().map(of).collect()
    }

    /// Resident bytes of each store.
    pub fn stores_resident(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let Some(stores) = &self.stores else {
            return Ok(Vec::new());
        };
        let postgres = resident_bytes_of_family(stores.postgres)?;
        let redis = resident_bytes(stores.redis)?;
        Ok(vec![
            ("postgresql".to_owned(), postgres),
            ("redis".to_owned(), redis),
        ])
    }

    /// An error when a process is gone.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.processes.iter_mut().try_for_each(Child::check)
    }

    /// The ends of all logs, for errors.
    pub fn tails(&self) -> String {
        self.processes
            .iter()
            .map(|child| format!("\n{}{}", child.name(), child.tail()))
            .collect()
    }
}

impl StoreProcesses {
    pub fn of(stores: Stores) -> anyhow::Result<Self> {
        // The URL names the socket's directory; the server's process id stands below it.
        let (_, directory) = stores
            .database_url
            .rsplit_once("?host=")
            .context("the database's URL has no socket")?;
        let directory = directory.replace("%2F", "/");
        let pid = fs::read_to_string(Path::new(&directory).join("data/postmaster.pid"))?;
        let first = pid.lines().next().context("postmaster.pid is empty")?;
        Ok(Self {
            postgres: first.trim().parse()?,
            redis: stores.redis.pid(),
            _stores: stores,
        })
    }
}
