//! Processes that this program starts, and that cannot outlive it.
//!
//! Each is started through this program itself (`under`), which asks the kernel for the parent-death signal and then
//! becomes the other program. The signal comes when the *thread* that started it ends, so children are started by the
//! main thread alone.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// How long a program may take to get ready or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of a log that an error shows.
const SHOWN_LINES: usize = 15;

/// Becomes `program`.
pub fn become_program(program: &Path, arguments: &[String]) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let error = process::Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// What is to be started.
pub struct Program<'a> {
    /// For errors, and the name of its log.
    pub name: &'a str,
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    /// Its log is made here.
    pub directory: &'a Path,
    /// The first word of the line that says that it is ready.
    pub ready: &'a str,
}

/// A running program; dropping it ends it.
pub struct Child {
    name: String,
    process: process::Child,
    log: PathBuf,
    /// What followed the word in the line.
    said: String,
    started_in: Duration,
}

impl Child {
    /// Starts it and waits for its line.
    pub fn start(program: Program<'_>) -> anyhow::Result<Self> {
        let log = program.directory.join(format!("{}.log", program.name));
        let begin = Instant::now();
        let mut process = process::Command::new(std::env::current_exe()?)
            .arg("under")
            .arg(program.program)
            .args(&program.arguments)
            .envs(program.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.name))?;
        let stdout = process.stdout.take();
        let mut child = Self {
            name: program.name.to_owned(),
            process,
            log,
            said: String::new(),
            started_in: Duration::ZERO,
        };
        let lines = lines(stdout.context("the program has no output")?)?;
        loop {
            match lines.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
                Ok((at, line)) => {
                    let rest = line.strip_prefix(program.ready);
                    if let Some(said) = rest.filter(|rest| rest.starts_with([' ', ':'])) {
                        child.started_in = at.duration_since(begin);
                        said.trim().clone_into(&mut child.said);
                        return Ok(child);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!(
                        "{} was not ready within {PATIENCE:?}{}",
                        child.name,
                        child.tail()
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("{} ended before it was ready{}", child.name, child.tail())
                }
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What followed the ready word.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// `VALUE` of `NAME=VALUE` in the line.
    pub fn field(&self, name: &str) -> anyhow::Result<&str> {
        self.said
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            .with_context(|| format!("{} did not say `{name}=` but `{}`", self.name, self.said))
    }

    /// From the start of the process to its line.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// An error when it ended by itself.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("{} ended: {status}{}", self.name, self.tail()),
        }
    }

    /// Asks it to end and waits until it has.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.process.try_wait()? {
                anyhow::ensure!(
                    status.success(),
                    "{} ended with {status}{}",
                    self.name,
                    self.tail()
                );
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!(
            "{} did not end within {PATIENCE:?}{}",
            self.name,
            self.tail()
        )
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        Ok(kill_process(pid.context("no process id")?, signal)?)
    }

    /// The end of its log, for errors.
    pub fn tail(&self) -> String {
        let Ok(file) = File::open(&self.log) else {
            return String::new();
        };
        let mut tail = VecDeque::new();
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            tail.push_back(line);
            if tail.len() > SHOWN_LINES {
                tail.pop_front();
            }
        }
        if tail.is_empty() {
            return String::new();
        }
        format!("; its last words:\n{}", Vec::from(tail).join("\n"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines as they come, with the time; the reader stays to the end, so that the program never blocks on a full pipe.
fn lines(stdout: process::ChildStdout) -> anyhow::Result<mpsc::Receiver<(Instant, String)>> {
    let (sender, lines) = mpsc::channel();
    std::thread::Builder::new()
        .name("child-output".to_owned())
        .spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // After the first line nobody listens.
                let _ = sender.send((Instant::now(), line));
            }
        })?;
    Ok(lines)
}
