//! The real program as a process: started, killed, started again with the same directory; its log is kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use switchboard::data_dir::{DataDir, Endpoint};
use switchboard::settings::Settings;
use switchboard_common::grpc::Role;

use crate::stores::{Signal, Watched};

/// A running (or killed) `switchboard serve`.
#[derive(Debug)]
pub struct Program {
    name: String,
    watched: Watched,
    dir: PathBuf,
    log: PathBuf,
    internal: Option<String>,
    endpoint: Endpoint,
    runs: bool,
}

/// The program that the build put beside the tests.
///
/// # Errors
/// It is not there.
pub fn binary() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    // target/<profile>/deps/<test>, or target/<profile>/<program>.
    let places = here.ancestors().skip(1).take(2);
    let mut candidates = places.map(|place| place.join("switchboard"));
    candidates.find(|path| path.is_file()).with_context(|| {
        format!(
            "the program `switchboard` is not built beside {}: `make test` builds it, or `cargo build -p switchboard`",
            here.display()
        )
    })
}

impl Program {
    pub(super) async fn start(
        name: &str,
        roles: &[Role],
        settings: &Settings,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        // The watchdog removes its directory with the process, and the data must outlive that.
        let home = dir.with_extension("run");
        std::fs::create_dir_all(&home)?;
        let log = dir.with_extension("log");
        let file = dir.with_extension("settings.json");
        std::fs::write(&file, serde_json::to_string_pretty(settings)?)?;
        let mut command: Vec<String> = ["/bin/sh", "-c", r#"log=$0; exec "$@" 2>>"$log""#]
            .map(str::to_owned)
            .to_vec();
        command.push(log.display().to_string());
        command.push(binary()?.display().to_string());
        command.extend([
            "serve".to_owned(),
            "--settings".to_owned(),
            file.display().to_string(),
        ]);
        command.extend(["--data-dir".to_owned(), dir.display().to_string()]);
        let all = Role::ALL.iter().all(|role| roles.contains(role));
        for role in roles.iter().filter(|_| !all) {
            command.extend(["--role".to_owned(), role.to_string()]);
        }
        let started = Watched::start(&command, &home, Signal::Kill, "READY http=").await;
        let watched = started.with_context(|| format!("{name} does not start:\n{}", tail(&log)))?;
        let internal = settings.listen.internal.as_ref().map(ToString::to_string);
        let mut program = Self {
            name: name.to_owned(),
            watched,
            dir: dir.to_owned(),
            log,
            internal,
            endpoint: Endpoint {
                http: String::new(),
                grpc: String::new(),
                pid: 0,
            },
            runs: true,
        };
        program.read_endpoint()?;
        Ok(program)
    }

    fn read_endpoint(&mut self) -> anyhow::Result<()> {
        let dir = DataDir::create(&self.dir)?;
        self.endpoint = dir.endpoint().context("the program published no address")?;
        Ok(())
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// The watchdog does not answer.
    pub async fn kill(&mut self) {
        self.runs = false;
        self.watched
            .signal(Signal::Kill)
            .await
            .expect("the watchdog obeys");
    }

    /// Starts it again with the same directory and settings, and waits until it is ready.
    ///
    /// # Panics
    /// It does not get ready.
    pub async fn restart(&mut self) {
        let restarted = self.watched.restart().await;
        restarted.unwrap_or_else(|error| {
            panic!("{} is not back: {error:#}\n{}", self.name, self.log_tail())
        });
        self.runs = true;
        self.read_endpoint().expect("an address");
    }

    /// Freezes it.
    ///
    /// # Panics
    /// The watchdog does not answer.
    pub async fn pause(&mut self) {
        self.watched
            .signal(Signal::Stop)
            .await
            .expect("the watchdog obeys");
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// The watchdog does not answer.
    pub async fn resume(&mut self) {
        self.watched
            .signal(Signal::Continue)
            .await
            .expect("the watchdog obeys");
    }

    /// Whether it was not killed.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Its HTTP address.
    ///
    /// # Panics
    /// It published none.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.endpoint.http.parse().expect("an address")
    }

    /// Its public gRPC address.
    #[must_use]
    pub fn grpc(&self) -> String {
        self.endpoint.grpc.clone()
    }

    /// Its internal gRPC address.
    #[must_use]
    pub fn internal(&self) -> Option<String> {
        self.internal.clone()
    }

    /// All that it logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn log_tail(&self) -> String {
        format!("{}: {}", self.name, tail(&self.log))
    }

    /// Asks it to end and waits.
    pub(super) async fn stop(self) -> bool {
        !self.runs || self.watched.signal(Signal::Terminate).await.is_ok()
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
