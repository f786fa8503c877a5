//! `switchboard serve`: from flags and files to a running process, and its end.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use secrecy::ExposeSecret as _;
use switchboard_common::{
    grpc::{Address, Role},
    settings::{Override, load},
    telemetry::Telemetry,
};
use switchboard_proto::common::v1::Actor;
use tokio::net::TcpListener;

use crate::{
    apply::{self, AdminClients, Fragments, SystemSecrets},
    composition::{self, Ground, Listeners, Owners, Process},
    data_dir::{self, DataDir, Endpoint, Installation, Lock},
    demo,
    settings::{Settings, have_facts, have_state, is_whole, redacted},
};

/// What `serve` was asked for.
#[derive(Clone, Debug, Default)]
pub struct ServeArgs {
    /// `-f`: the catalogue to apply at start.
    pub file: Option<PathBuf>,
    /// `--settings`.
    pub settings: Option<PathBuf>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--http`.
    pub http: Option<Address>,
    /// `--grpc`.
    pub grpc: Option<Address>,
    /// `--internal`.
    pub internal: Option<Address>,
    /// `--role`, repeatable; empty: all.
    pub roles: Vec<Role>,
    /// `--demo`.
    pub demo: bool,
}

/// Why `serve` ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A settings file cannot be read.
    #[error("settings file {0}: {1}")]
    SettingsFile(String, std::io::Error),
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] switchboard_common::settings::Error),
    /// Telemetry cannot start.
    #[error(transparent)]
    Telemetry(#[from] switchboard_common::telemetry::Error),
    /// The process cannot start.
    #[error(transparent)]
    Start(#[from] composition::Error),
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] crate::data_dir::Error),
    /// The catalogue, one line a mistake.
    #[error("{0}")]
    Catalogue(String),
    /// The catalogue was refused.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// Flags that do not go together.
    #[error("{0}")]
    Usage(&'static str),
    /// Output.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

/// Reads settings from file, environment and flags, in that order.
///
/// # Errors
/// The file cannot be read, or a setting is wrong.
pub fn read_settings(file: Option<&Path>, flags: &[Override]) -> Result<Settings, Error> {
    let text = match file {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .map_err(|error| Error::SettingsFile(path.display().to_string(), error))?,
        ),
        None => None,
    };
    let name = file.map(|path| path.display().to_string());
    let file = name.as_deref().zip(text.as_deref());
    let mut overrides = Override::from_env(std::env::vars());
    overrides.extend(flags.iter().cloned());
    Ok(load(file, &overrides)?)
}

/// Runs until told to stop.
///
/// # Errors
/// It cannot start; the message says what to change.
pub async fn run(args: ServeArgs, out: &mut (dyn Write + Send)) -> Result<ExitCode, Error> {
    let settings = read_settings(args.settings.as_deref(), &flags(&args))?;
    let telemetry = Telemetry::start(&settings.telemetry, "switchboard")?;
    let served = Box::pin(serve(args, settings, out)).await;
    telemetry.flush(Duration::from_secs(3)).await;
    served
}

async fn serve(
    args: ServeArgs,
    settings: Settings,
    out: &mut (dyn Write + Send),
) -> Result<ExitCode, Error> {
    let roles = if args.roles.is_empty() {
        Role::ALL.to_vec()
    } else {
        args.roles.clone()
    };
    let alone = is_whole(&roles);
    if !alone && (args.file.is_some() || args.demo) {
        return Err(Error::Usage(
            "-f and --demo need all roles in one process; a split system is changed by `switchboard apply`",
        ));
    }
    if args.demo && args.file.is_some() {
        return Err(Error::Usage(
            "--demo brings a catalogue of its own; give either --demo or -f",
        ));
    }
    // What cannot work ends here, before anything is made on the disk. A program that has the directory mostly has the
    // addresses too, and is what there is to tell of.
    let path = settings.data_dir();
    if DataDir::is_in_use(&path)? {
        return Err(data_dir::Error::InUse(path.display().to_string()).into());
    }
    let listeners = Listeners::reserve(&settings, &roles).await?;
    let catalogue = match &args.file {
        Some(path) => Some(CatalogueFile::read(path)?),
        None => None,
    };
    let dir = DataDir::create(&path)?;
    let _lock = dir.lock()?;
    dir.describe(&Installation {
        roles: roles.clone(),
        has_facts: settings.database.url.is_empty(),
    })?;
    if alone {
        dir.write_once("catalogue.sample.yaml", switchboard_catalogue::SAMPLE)?;
    }
    let mut stop = Signals::new()?;
    let process = Box::pin(Process::start(settings, listeners, dir.clone(), &roles)).await?;
    let mut version = 0;
    if let Some(catalogue) = &catalogue {
        version = load_catalogue(&process, catalogue, true, out).await?;
    }
    let mut demo_key = None;
    if args.demo {
        let (key, applied) = start_demo(&process, &dir, out).await?;
        (demo_key, version) = (Some(key), applied);
    }
    tokio::select! {
        () = ready(&process, version) => {}
        () = stop.wait() => return Ok(end(process, &mut stop).await),
    }
    told(&process, &roles);
    dir.publish(&Endpoint {
        http: process.http.to_string(),
        grpc: process
            .grpc
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        pid: std::process::id(),
    })?;
    greet(
        &process,
        &dir,
        demo_key.as_deref(),
        args.file.is_some(),
        out,
    )?;
    stop.wait().await;
    dir.retract();
    Ok(end(process, &mut stop).await)
}

/// Ends gently; a second signal ends what the first began.
async fn end(process: Process, stop: &mut Signals) -> ExitCode {
    tracing::info!("stopping");
    let clean = tokio::select! {
        clean = process.shutdown() => clean,
        () = stop.wait() => false,
    };
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A catalogue that may be applied.
struct CatalogueFile {
    name: String,
    fragments: Fragments,
}

impl CatalogueFile {
    fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Catalogue(format!("{name} cannot be read: {error}")))?;
        Self::parse(&text, &name)
    }

    /// Parses a text, logs its warnings and resolves its secrets.
    fn parse(text: &str, name: &str) -> Result<Self, Error> {
        let parsed = switchboard_catalogue::parse(text, name).map_err(|mistakes| {
            let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            Error::Catalogue(lines.join("\n"))
        })?;
        for warning in &parsed.warnings {
            tracing::warn!(target: "switchboard::catalogue", "{warning}");
        }
        let fragments = Fragments::of(&parsed.catalogue, &SystemSecrets).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(|p| format!("{name}: {p}")).collect();
            Error::Catalogue(lines.join("\n"))
        })?;
        Ok(Self {
            name: name.to_owned(),
            fragments,
        })
    }
}

/// Applies a catalogue to the services of this process. Gives the version that is current then.
async fn load_catalogue(
    process: &Process,
    catalogue: &CatalogueFile,
    replaces: bool,
    out: &mut (dyn Write + Send),
) -> Result<u64, Error> {
    let fragments = &catalogue.fragments;
    let clients = process
        .admin()
        .ok_or(Error::Usage("the catalogue's owners do not run here"))?;
    let actor = Actor {
        name: format!("file:{}", catalogue.name),
        reason: "serve -f".to_owned(),
    };
    if !replaces {
        let planned = apply::plan(&clients, fragments, &actor).await?;
        if planned
            .changes
            .iter()
            .any(|change| change.kind == "disable")
        {
            return Err(Error::Usage(
                "this data directory has a catalogue of its own, which --demo would disable; give it another one with --data-dir",
            ));
        }
    }
    let outcome = apply::apply(&clients, fragments, &actor).await?;
    for issued in &outcome.issued {
        // Shown once, and never logged: a log would keep it.
        writeln!(
            out,
            "key {}/{}: {}   (shown once)",
            issued.tenant, issued.name, issued.secret
        )?;
    }
    Ok(outcome.catalogue_version)
}

async fn start_demo(
    process: &Process,
    dir: &DataDir,
    out: &mut (dyn Write + Send),
) -> Result<(String, u64), Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    demo::serve(listener, process.ground.clock.clone(), &process.ground.life);
    let (path, key) = dir.own_secret("demo.key", "sk-demo-")?;
    let path = std::path::absolute(&path)?;
    let text = demo::catalogue(address, &path.display().to_string());
    let catalogue = CatalogueFile::parse(&text, "demo")?;
    let version = load_catalogue(process, &catalogue, false, out).await?;
    Ok((key, version))
}

/// Waits until everything is there that serving needs, and the catalogue's version among it.
async fn ready(process: &Process, version: u64) {
    if let Some(forwarder) = &process.forwarder {
        // The sender lives as long as the forwarder.
        let _ = forwarder
            .catalogue_versions()
            .wait_for(|known| *known >= version)
            .await;
    }
    let mut said = false;
    let started = tokio::time::Instant::now();
    while !process.readiness.is_ready() {
        if !said && started.elapsed() > Duration::from_secs(3) {
            said = true;
            tracing::warn!(missing = ?process.readiness.missing(), "still waiting to become ready");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One line of what runs here, where it listens and where its facts and state lie.
fn told(process: &Process, roles: &[Role]) {
    let settings = &process.ground.settings;
    let or_here = |url: &str, here: &str| match url {
        "" => here.to_owned(),
        url => redacted(url),
    };
    let names: Vec<_> = roles.iter().map(|role| role.name()).collect();
    let shown = |address: &Option<Address>| address.as_ref().map(ToString::to_string);
    let facts = have_facts(roles).then(|| or_here(&settings.database.url, "sqlite"));
    let state = have_state(roles).then(|| or_here(&settings.redis.url, "memory"));
    let catalogue = process.forwarder.as_ref();
    let catalogue = catalogue.map(|forwarder| *forwarder.catalogue_versions().borrow());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        roles = names.join(","),
        http = %process.http,
        grpc = shown(&process.grpc),
        internal = shown(&process.internal),
        data_dir = %process.ground.dir.path().display(),
        facts,
        state,
        catalogue.version = catalogue,
        "serving"
    );
}

fn greet(
    process: &Process,
    dir: &DataDir,
    demo_key: Option<&str>,
    has_catalogue: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    if process.ground.first_run
        && let Some(token) = &process.ground.admin_token
    {
        writeln!(
            out,
            "admin token (shown once, kept in {}): {}",
            dir.path().join("admin.token").display(),
            token.expose_secret()
        )?;
        if process.admin().is_none() {
            writeln!(
                out,
                "next: once all roles run, SWITCHBOARD_TOKEN=<this token> switchboard apply -f catalogue.yaml --addr <the edge's address>"
            )?;
        } else if demo_key.is_none() && !has_catalogue {
            writeln!(
                out,
                "next: edit {sample}, then switchboard apply -f {sample} --data-dir {dir}",
                sample = dir.path().join("catalogue.sample.yaml").display(),
                dir = dir.path().display()
            )?;
        }
    }
    write!(out, "READY http={}", process.http)?;
    if let Some(grpc) = &process.grpc {
        write!(out, " grpc={grpc}")?;
    }
    if let Some(internal) = &process.internal {
        write!(out, " internal={internal}")?;
    }
    writeln!(out)?;
    if let Some(key) = demo_key {
        writeln!(
            out,
            "\ntry it:\n\ncurl -s http://{}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' -d '{{\"model\":\"demo\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'",
            process.http
        )?;
    }
    out.flush()?;
    Ok(())
}

fn flags(args: &ServeArgs) -> Vec<Override> {
    let mut flags = Vec::new();
    let mut flag = |name: &str, path: &str, value: Option<String>| {
        if let Some(value) = value {
            flags.push(Override::flag(name, path, value));
        }
    };
    let shown = |path: &PathBuf| path.display().to_string();
    flag("--data-dir", "data_dir", args.data_dir.as_ref().map(shown));
    flag(
        "--http",
        "listen.http",
        args.http.as_ref().map(ToString::to_string),
    );
    flag(
        "--grpc",
        "listen.grpc",
        args.grpc.as_ref().map(ToString::to_string),
    );
    flag(
        "--internal",
        "listen.internal",
        args.internal.as_ref().map(ToString::to_string),
    );
    flags
}

/// Asks to stop.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The services of a stopped data directory, open for admin calls under its lock.
pub struct AdminGuard {
    owners: Owners,
    ground: Ground,
    _lock: Lock,
}

impl std::fmt::Debug for AdminGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminGuard")
    }
}

impl AdminGuard {
    /// Ends them and gives the lock back.
    pub async fn close(self) {
        let last = self.ground.settings.shutdown.last;
        self.ground.life.shutdown(last, last).await;
        self.owners.close().await;
    }
}

/// Opens the services that own facts, of a stopped program's data directory, in this process.
///
/// # Errors
/// The directory is in use, or a service cannot start.
pub async fn open_admin(path: &Path) -> Result<(AdminClients, AdminGuard), Error> {
    let dir = DataDir::existing(path)?;
    let lock = dir.lock()?;
    let ground = Ground::prepare(Settings::default(), dir, &Role::ALL).await?;
    let owners = Owners::start(&ground, &Role::ALL, &ground.life.clone(), &mut Vec::new()).await?;
    let clients = owners
        .admin()
        .ok_or(Error::Usage("the catalogue's owners do not run here"))?;
    Ok((
        clients,
        AdminGuard {
            owners,
            ground,
            _lock: lock,
        },
    ))
}
