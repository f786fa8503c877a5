//! The forwarder's memory beyond its own death (SPEC BILL-5): what was sent, how far it got, and every settlement until
//! billing has acknowledged it.
//!
//! A directory of append-only segments of checksummed records. One thread writes, in batches, off every request's path. At
//! start what the directory holds is read back: settlements without an acknowledgement, and requests that were open when the
//! process died, which are settled as `gateway_lost`, with their input counted where that was not done before.
//!
//! Invariants:
//! - a request has at most one live record: its latest draft, or its settlement; an acknowledgement ends it;
//! - segments are deleted oldest first, so a record never outlives the one that supersedes it;
//! - a torn or damaged record costs itself and nothing else;
//! - a directory belongs to one process, by a lock file;
//! - what a request asks is in it only sealed, with a key made from the master key, and in files of their own, each of which
//!   goes as soon as no request in it is open whose input is neither counted nor reported; `prompt_bytes: 0` keeps none. Where the
//!   disk has no room for both they go for the lines.
//!
//! No completion text is ever in it, and no prompt that can be read without the master key.

mod files;
mod prompts;
mod queue;
mod record;
mod segments;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use switchboard_common::lifecycle::Lifecycle;
use switchboard_proto::billing::v1::Settlement;
use tokio::sync::oneshot;

pub(crate) use self::prompts::Seals;
use self::{queue::Queue, segments::Segments};
use crate::asked::Question;

/// Bounds of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalConfig {
    /// A segment that is larger is followed by a new one, bytes.
    pub segment_bytes: u64,
    /// All segments together, bytes. Beyond it new requests are refused; what runs is still settled.
    pub max_bytes: u64,
    /// Records wait this long for others, to be written together.
    #[serde(with = "switchboard_common::settings::duration")]
    pub gather: Duration,
    /// A settlement that is not acknowledged by then is forced to the disk.
    #[serde(with = "switchboard_common::settings::duration")]
    pub sync_after: Duration,
    /// Records that wait for the writer at most.
    pub queue: usize,
    /// The body of a request whose input is neither counted nor reported yet is kept, sealed, up to this size, so that its bill
    /// is right even if this process dies in that time (BILL-6); 0: none is ever kept.
    pub prompt_bytes: usize,
    /// All bodies that are kept, bytes; beyond it those of new requests are not, and their input is estimated.
    pub prompts_bytes: u64,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            max_bytes: 1 << 30,
            gather: Duration::from_millis(2),
            sync_after: Duration::from_secs(1),
            queue: 16_384,
            prompt_bytes: 128 << 10,
            prompts_bytes: 64 << 20,
        }
    }
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be used.
    #[error("journal directory {path}: {source}")]
    Io {
        /// Which directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process has it.
    #[error("journal directory {0} belongs to another running process")]
    Locked(PathBuf),
}

/// What the directory held of an earlier process. The settlements themselves are to be [loaded](Journal::load), those that
/// are to be counted first [taken](Journal::lost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Settlements to be handed to billing (again).
    pub(crate) owed: usize,
    /// Requests among them that were still open.
    pub(crate) lost: usize,
    /// Requests among those whose input is to be counted first: nothing of them is loaded before it is settled.
    pub(crate) uncounted: usize,
    /// Requests whose input cannot be counted, as another master key sealed what they asked.
    pub(crate) other_key: usize,
    /// Damaged records that were skipped.
    pub(crate) damaged: u64,
}

/// The way to the writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    sender: Arc<Sender>,
    state: Arc<State>,
}

/// Without it nothing more will come.
#[derive(Debug)]
struct Sender(Arc<Queue>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How far an open request is.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// What to settle if nothing follows.
    pub(crate) settlement: Settlement,
    /// The number of its input tokens is the last word: counted, or reported.
    pub(crate) input_known: bool,
    /// What it asks, to be kept until its input is known.
    pub(crate) question: Option<Question>,
}

/// A request that an earlier process left open, and whose input nobody has counted.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Its settlement, with an estimate for its input.
    pub(crate) settlement: Settlement,
    /// What it asked; `None`: that cannot be read.
    pub(crate) question: Option<Question>,
}

/// A record on its way to the file.
#[derive(Debug)]
pub(crate) struct Written(oneshot::Receiver<()>);

impl Written {
    /// Waits until the system has it; `false`: it was left out, or cannot be written.
    pub(crate) async fn wait(self) -> bool {
        self.0.await.is_ok()
    }
}

/// What others may see of the journal.
#[derive(Debug, Default)]
struct State {
    bytes: AtomicU64,
    unacknowledged: AtomicU64,
    full: AtomicBool,
    failed: AtomicBool,
}

#[derive(Debug)]
enum Command {
    /// The latest draft of an open request; `written` is told when the system has it.
    Draft {
        draft: Box<Draft>,
        written: Option<oneshot::Sender<()>>,
    },
    /// A settlement; `spilled`: nobody else keeps it until it is loaded again.
    Settled {
        settlement: Arc<Settlement>,
        spilled: bool,
    },
    /// Billing has them.
    Acknowledged(Vec<String>),
    /// The oldest spilled settlements, at most so many.
    Load(usize, oneshot::Sender<Vec<Settlement>>),
    /// The oldest request that was left open and is to be counted.
    Lost(oneshot::Sender<Option<Lost>>),
    /// Nothing more will come.
    Close,
}

impl Command {
    /// Someone goes on only when it is carried out.
    fn is_waited_for(&self) -> bool {
        matches!(
            self,
            Self::Draft {
                written: Some(_),
                ..
            } | Self::Load(..)
                | Self::Lost(_)
                | Self::Close
        )
    }

    /// Bytes that it brings to be sealed.
    fn asked(&self) -> usize {
        match self {
            Self::Draft { draft, .. } => draft.question.as_ref().map_or(0, |it| it.body.len()),
            _ => 0,
        }
    }

    /// Brings nothing to be sealed; tells how many bytes that were.
    fn leave_out_asked(&mut self) -> usize {
        let bytes = self.asked();
        if let Self::Draft { draft, .. } = self {
            draft.question = None;
        }
        bytes
    }
}

impl Journal {
    /// Opens the directory, makes it if need be, reads it back, and starts the writer on `lifecycle`.
    ///
    /// # Errors
    /// The directory is unusable or taken.
    pub(crate) async fn open(
        config: &JournalConfig,
        directory: &Path,
        seals: Seals,
        lifecycle: &Lifecycle,
    ) -> Result<(Self, Recovered), Error> {
        let (path, bounds) = (directory.to_owned(), config.clone());
        let opened =
            tokio::task::spawn_blocking(move || Segments::open(&path, &bounds, seals)).await;
        let (segments, recovered) = opened.map_err(|panic| Error::Io {
            path: directory.to_owned(),
            source: io::Error::other(panic),
        })??;
        let most_asked = usize::try_from(config.prompts_bytes).unwrap_or(usize::MAX);
        let queue = Arc::new(Queue::new(config.queue, most_asked));
        let journal = Self {
            sender: Arc::new(Sender(Arc::clone(&queue))),
            state: Arc::default(),
        };
        journal.state.show(&segments);
        let (state, config) = (Arc::clone(&journal.state), config.clone());
        lifecycle.spawn_blocking("journal", move || {
            let ending = Ending(queue, state);
            write(segments, &ending.0, &config, &ending.1);
        });
        Ok((journal, recovered))
    }

    /// Writes down how far an open request is. Never waits: under a flood the record is left out, and the request's
    /// settlement, which is never left out, supersedes it.
    pub(crate) fn draft(&self, draft: Draft) {
        let draft = Box::new(draft);
        self.sender.0.try_push(Command::Draft {
            draft,
            written: None,
        });
    }

    /// Like [`Journal::draft`], for the line of which an answer must not go ahead.
    pub(crate) fn sent(&self, draft: Draft) -> Written {
        let (told, written) = oneshot::channel();
        let draft = Box::new(draft);
        self.sender.0.try_push(Command::Draft {
            draft,
            written: Some(told),
        });
        Written(written)
    }

    /// Writes a draft down, however long the queue is. Returns when the system has it, or cannot take it.
    pub(crate) async fn write_down(&self, draft: Draft) {
        let (told, written) = oneshot::channel();
        let draft = Box::new(draft);
        self.post(Command::Draft {
            draft,
            written: Some(told),
        })
        .await;
        let _ = written.await;
    }

    /// Writes a settlement down. Waits while the writer is behind.
    pub(crate) async fn settled(&self, settlement: Arc<Settlement>, spilled: bool) {
        self.post(Command::Settled {
            settlement,
            spilled,
        })
        .await;
    }

    /// Billing has these.
    pub(crate) async fn acknowledged(&self, ids: Vec<String>) {
        self.post(Command::Acknowledged(ids)).await;
    }

    /// The oldest of those settlements that nobody keeps in memory, at most `limit`.
    pub(crate) async fn load(&self, limit: usize) -> Vec<Settlement> {
        let (answer, loaded) = oneshot::channel();
        self.post(Command::Load(limit, answer)).await;
        loaded.await.unwrap_or_default()
    }

    /// The oldest request that an earlier process left open and that is to be counted. Until it is settled it stays what it is,
    /// for the next process if this one dies. Each is given once.
    pub(crate) async fn lost(&self) -> Option<Lost> {
        let (answer, lost) = oneshot::channel();
        self.post(Command::Lost(answer)).await;
        lost.await.ok().flatten()
    }

    /// Ends the writer when it has written what came before.
    pub(crate) async fn close(&self) {
        self.post(Command::Close).await;
    }

    async fn post(&self, command: Command) {
        // The writer ends after the last request and the last acknowledgement.
        self.sender.0.push(command).await;
    }

    /// Size of all segments, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.bytes.load(Ordering::Relaxed)
    }

    /// Settlements without an acknowledgement.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.state.unacknowledged.load(Ordering::Relaxed)
    }

    /// Whether new requests must be refused: it is full, or cannot be written.
    pub(crate) fn refuses(&self) -> bool {
        self.state.full.load(Ordering::Relaxed) || self.state.failed.load(Ordering::Relaxed)
    }
}

impl State {
    fn show(&self, segments: &Segments) {
        self.bytes.store(segments.bytes(), Ordering::Relaxed);
        let open = segments.unacknowledged();
        self.unacknowledged.store(open, Ordering::Relaxed);
        self.full.store(segments.full(), Ordering::Relaxed);
    }
}

/// The writer: writes what comes, forces to the disk what waits too long. Ends when it is closed or no sender is left.
fn write(mut segments: Segments, queue: &Queue, config: &JournalConfig, state: &State) {
    let mut open = true;
    while open {
        let (patience, gather) = if segments.behind() {
            (Some(Duration::ZERO), Duration::ZERO)
        } else {
            let patience = segments.unsynced().then_some(config.sync_after);
            (patience, config.gather)
        };
        let Some(commands) = queue.take(patience, gather) else {
            return;
        };
        let written = apply(&mut segments, commands, &mut open);
        let synced = written.and_then(|()| segments.sync(config.sync_after));
        state.show(&segments);
        let failed = state.failed.swap(synced.is_err(), Ordering::Relaxed);
        match synced {
            Ok(()) if failed => tracing::info!("the journal can be written again"),
            // Told once: there is a batch for each of those that still run.
            Err(error) if !failed => {
                tracing::error!(%error, "the journal cannot be written; new requests are refused");
            }
            _ => {}
        }
    }
}

/// What is left to do when the writer ends, also by a panic.
struct Ending(Arc<Queue>, Arc<State>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abandon();
        if std::thread::panicking() {
            self.1.failed.store(true, Ordering::Relaxed);
            tracing::error!("the journal's writer panicked; new requests are refused");
        }
    }
}

/// Carries commands out; `open` tells whether more may come.
fn apply(segments: &mut Segments, commands: VecDeque<Command>, open: &mut bool) -> io::Result<()> {
    let mut waiting = Vec::new();
    for command in commands {
        match command {
            Command::Draft { draft, written } => {
                waiting.extend(segments.draft(*draft, written));
            }
            Command::Settled {
                settlement,
                spilled,
            } => segments.settled(&settlement, spilled),
            Command::Acknowledged(ids) => segments.acknowledged(ids),
            Command::Load(limit, answer) => {
                // What is to be read may still be in the buffer. A failure is told by the flush at the end: the commands
                // that follow must not be lost by it.
                let loaded = match segments.flush() {
                    Ok(()) => segments.load(limit),
                    Err(_) => Vec::new(),
                };
                let _ = answer.send(loaded);
            }
            Command::Lost(answer) => {
                let lost = segments.flush().ok().and_then(|()| segments.lost());
                let _ = answer.send(lost);
            }
            Command::Close => *open = false,
        }
    }
    segments.flush()?;
    for written in waiting {
        let _ = written.send(());
    }
    // Nobody waits for it.
    segments.tidy_prompts();
    Ok(())
}
