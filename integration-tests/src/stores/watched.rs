//! A server process that cannot outlive its owner.
//!
//! It is started by a small shell script, the watchdog, which holds one end of a pipe from this process. Commands go
//! through that pipe; when it closes, because the owner dropped it or because the whole test process is gone for
//! whatever reason, the watchdog ends the server and removes its directory. (The kernel's parent-death signal would
//! not do: it fires when the *thread* that started the child ends, and tests run on threads.) Signals are sent by the
//! server's own parent, so they can never hit a stranger with a reused process id.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::watch;

/// How long a server may take to start or to obey.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines of the server's output that are kept for errors.
const KEPT_LINES: usize = 30;
/// What the watchdog's own lines begin with.
const ACK: &str = "#watchdog ";

/// The script; its first lines tell what it takes.
const WATCHDOG: &str = include_str!("watchdog.sh");

/// What can be sent to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Freezes the process: its sockets stay open and nothing is answered.
    Stop,
    /// Lets a frozen process go on.
    Continue,
    /// Ends it without a chance to clean up.
    Kill,
    /// Asks it to end, and waits.
    Terminate,
    /// PostgreSQL's immediate shutdown.
    Quit,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "STOP",
            Self::Continue => "CONT",
            Self::Kill => "KILL",
            Self::Terminate => "TERM",
            Self::Quit => "QUIT",
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    acks: u64,
    pid: u32,
    ready: u64,
    tail: VecDeque<String>,
    ended: bool,
}

/// A server under its watchdog.
#[derive(Debug)]
pub struct Watched {
    watchdog: Mutex<Child>,
    commands: Mutex<Option<ChildStdin>>,
    /// One command at a time; starts and acknowledgements are counted under it.
    turn: tokio::sync::Mutex<u64>,
    seen: watch::Receiver<Seen>,
}

impl Watched {
    /// Starts `command` and waits until its output has a line with `ready`.
    ///
    /// `directory` belongs to the server and is removed with it; `last` is the signal that ends it.
    ///
    /// # Errors
    /// When it cannot be started, or is not ready in time; the error has its last lines of output.
    pub async fn start(
        command: &[String],
        directory: &Path,
        last: Signal,
        ready: &'static str,
    ) -> anyhow::Result<Self> {
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(directory)
            .arg(last.name())
            .args(command)
            .env("LC_ALL", "C")
            .current_dir(directory)
            // A Ctrl-C in the terminal is for the tests; the pipe tells us when they are gone.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start /bin/sh")?;
        let commands = watchdog.stdin.take();
        let output = watchdog
            .stdout
            .take()
            .context("the watchdog has no output")?;
        let (sender, seen) = watch::channel(Seen::default());
        std::thread::Builder::new()
            .name("server-output".to_owned())
            .spawn(move || read(output, ready, &sender))?;
        let watched = Self {
            watchdog: Mutex::new(watchdog),
            commands: Mutex::new(commands),
            turn: tokio::sync::Mutex::new(1),
            seen,
        };
        watched
            .wait(|seen| seen.acks >= 1 && seen.ready >= 1)
            .await?;
        Ok(watched)
    }

    /// The process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.seen.borrow().pid
    }

    /// Sends a signal and waits until it has taken effect: a stopped process is stopped, an ended one is gone.
    ///
    /// # Errors
    /// When the watchdog is gone or does not answer.
    pub async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let mut turn = self.turn.lock().await;
        self.command(signal.name(), &mut turn).await
    }

    /// Starts the server again after it was ended, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready; the error has its last lines of output.
    pub async fn restart(&self) -> anyhow::Result<()> {
        let mut turn = self.turn.lock().await;
        let ready = self.seen.borrow().ready;
        self.command("START", &mut turn).await?;
        self.wait(|seen| seen.ready > ready).await
    }

    async fn command(&self, word: &str, turn: &mut u64) -> anyhow::Result<()> {
        let sent = match self.commands.lock().as_mut() {
            Some(pipe) => writeln!(pipe, "{word}").and_then(|()| pipe.flush()),
            None => anyhow::bail!("the watchdog was told to end"),
        };
        sent.context("the watchdog is gone")?;
        *turn += 1;
        let turn = *turn;
        self.wait(|seen| seen.acks >= turn).await
    }

    async fn wait(&self, mut condition: impl FnMut(&Seen) -> bool) -> anyhow::Result<()> {
        let mut seen = self.seen.clone();
        let waiting = seen.wait_for(|seen| seen.ended || condition(seen));
        let why = match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(seen)) if !seen.ended => return Ok(()),
            Ok(_) => "the server ended",
            Err(_) => "the server did not get ready or obey in time",
        };
        let tail: Vec<String> = self.seen.borrow().tail.iter().cloned().collect();
        anyhow::bail!("{why}; its last output:\n{}", tail.join("\n"))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.commands.lock().take());
        // It ends as soon as the server has; there is nothing to do about a failure to wait.
        let _ = self.watchdog.lock().wait();
    }
}

/// Follows the output of server and watchdog until both are gone.
fn read(output: ChildStdout, ready: &str, sender: &watch::Sender<Seen>) {
    for line in BufReader::new(output).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        sender.send_modify(|seen| {
            if let Some(pid) = line.strip_prefix(ACK) {
                seen.acks += 1;
                seen.pid = pid.trim().parse().unwrap_or(0);
                return;
            }
            if line.contains(ready) {
                seen.ready += 1;
            }
            seen.tail.push_back(line);
            if seen.tail.len() > KEPT_LINES {
                seen.tail.pop_front();
            }
        });
    }
    sender.send_modify(|seen| seen.ended = true);
}
