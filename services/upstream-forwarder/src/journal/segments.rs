//! The journal's files. Synchronous: runs on the writer's thread alone.

mod recovery;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use switchboard_proto::billing::v1::Settlement;
use tokio::sync::oneshot;

use super::{
    Draft, Error, JournalConfig, Recovered, Seals,
    files::{self, SEGMENTS},
    prompts::{self, Prompts},
    record::{self, Ids, Kind, Line, Record},
};
use crate::asked::Question;

/// All segments with an index of what is live in them.
#[derive(Debug)]
pub(super) struct Segments {
    directory: PathBuf,
    config: JournalConfig,
    /// Held for the process's life.
    _lock: File,
    current: File,
    number: u64,
    /// By number, the current one included.
    sizes: BTreeMap<u64, Size>,
    live: HashMap<String, Place>,
    /// Settlements that nobody keeps in memory, in order of arrival.
    spilled: BTreeMap<u64, String>,
    next_spill: u64,
    unacknowledged: u64,
    prompts: Prompts,
    /// What requests ask whose lines are written first.
    asked: VecDeque<Asked>,
    /// Bytes of that.
    asked_bytes: u64,
    /// Requests that an earlier process left open and that are to be counted, in order.
    lost: VecDeque<String>,
    buffer: Vec<u8>,
    /// Since when a settlement waits to be forced to the disk.
    unsynced: Option<Instant>,
}

/// What a request asks, until it is sealed.
#[derive(Debug)]
struct Asked {
    id: String,
    question: Question,
    /// Who goes on when it is kept.
    written: Option<oneshot::Sender<()>>,
}

/// So much is sealed at once, bytes: sealing takes time, in which lines wait.
const SEALED_AT_ONCE: usize = 64 << 10;

#[derive(Debug, Default)]
struct Size {
    bytes: u64,
    live: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    segment: u64,
    at: u64,
    length: u64,
    standing: Standing,
}

/// What is known of a live record.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    settled: bool,
    spill: Option<u64>,
    /// Of an open request: nobody has to count its input.
    input_known: bool,
    /// Of an open request: what it asks, until its input is known.
    prompt: Option<prompts::Place>,
}

impl Segments {
    /// Opens a directory and reads back what it holds; a new segment is begun.
    pub(super) fn open(
        directory: &Path,
        config: &JournalConfig,
        seals: Seals,
    ) -> Result<(Self, Recovered), Error> {
        let io = |source| Error::Io {
            path: directory.to_owned(),
            source,
        };
        fs::create_dir_all(directory).map_err(io)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(directory.join("lock"))
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::Locked(directory.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        let found = files::numbers(directory, SEGMENTS).map_err(io)?;
        let prompts = Prompts::open(directory, config.prompts_bytes, seals).map_err(io)?;
        let (prompts, left, damaged) = prompts;
        let number = found.last().map_or(1, |last| last.saturating_add(1));
        let mut segments = Self {
            directory: directory.to_owned(),
            config: config.clone(),
            _lock: lock,
            current: files::create(directory, number, SEGMENTS).map_err(io)?,
            number,
            sizes: BTreeMap::from([(number, Size::default())]),
            live: HashMap::new(),
            spilled: BTreeMap::new(),
            next_spill: 0,
            unacknowledged: 0,
            prompts,
            asked: VecDeque::new(),
            asked_bytes: 0,
            lost: VecDeque::new(),
            buffer: Vec::new(),
            unsynced: None,
        };
        let mut recovered = segments.recover(&found, &left).map_err(io)?;
        recovered.damaged += damaged;
        Ok((segments, recovered))
    }

    fn is_settled(&self, id: &str) -> bool {
        let standing = self.live.get(id).map(|place| place.standing);
        standing.is_some_and(|standing| standing.settled)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sizes.values().map(|size| size.bytes).sum()
    }

    pub(super) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    pub(super) fn full(&self) -> bool {
        self.bytes() >= self.config.max_bytes
    }

    /// Whether something waits to be sealed: that goes on with the next [flush](Self::flush).
    pub(super) fn behind(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether something waits to be written or forced to the disk.
    pub(super) fn unsynced(&self) -> bool {
        self.unsynced.is_some() || !self.buffer.is_empty()
    }

    /// A draft, and who goes on when it is written and what it asks is kept. Gives those back who need wait for the line alone.
    pub(super) fn draft(
        &mut self,
        draft: Draft,
        written: Option<oneshot::Sender<()>>,
    ) -> Option<oneshot::Sender<()>> {
        let (settlement, input_known) = (draft.settlement, draft.input_known);
        let id = &settlement.request_id;
        if self.is_settled(id) {
            return written;
        }
        let kept = self.live.get(id).and_then(|place| place.standing.prompt);
        let standing = Standing {
            input_known,
            prompt: kept.filter(|_| !input_known),
            ..Standing::default()
        };
        self.add(id, Line::Draft(&settlement, !input_known), standing);
        let room = self.config.prompts_bytes.saturating_sub(self.asked_bytes);
        match draft.question {
            Some(question) if question.body.len() as u64 <= room => {
                self.asked_bytes += question.body.len() as u64;
                self.asked.push_back(Asked {
                    id: settlement.request_id,
                    question,
                    written,
                });
                None
            }
            _ => written,
        }
    }

    pub(super) fn settled(&mut self, settlement: &Settlement, spilled: bool) {
        let spill = spilled.then(|| {
            self.next_spill += 1;
            self.spilled
                .insert(self.next_spill, settlement.request_id.clone());
            self.next_spill
        });
        let standing = Standing {
            settled: true,
            spill,
            ..Standing::default()
        };
        let line = Line::Settled(settlement);
        self.add(&settlement.request_id, line, standing);
        self.unsynced.get_or_insert_with(Instant::now);
    }

    pub(super) fn acknowledged(&mut self, mut ids: Vec<String>) {
        ids.retain(|id| self.live.contains_key(id));
        if ids.is_empty() {
            return;
        }
        ids.iter().for_each(|id| self.forget(id));
        let length = record::append(&mut self.buffer, Line::Acknowledged(&Ids { ids }));
        self.grow(length);
        if self.unacknowledged == 0 {
            self.unsynced = None;
        }
    }

    fn add(&mut self, id: &str, line: Line<'_>, standing: Standing) {
        let at = self.sizes.get(&self.number).map_or(0, |size| size.bytes);
        let length = record::append(&mut self.buffer, line);
        self.grow(length);
        self.place(
            id,
            Place {
                segment: self.number,
                at,
                length,
                standing,
            },
        );
    }

    fn grow(&mut self, length: u64) {
        if let Some(size) = self.sizes.get_mut(&self.number) {
            size.bytes += length;
        }
    }

    fn place(&mut self, id: &str, place: Place) {
        self.sizes.entry(place.segment).or_default().live += 1;
        self.unacknowledged += u64::from(place.standing.settled);
        if let Some(old) = self.live.insert(id.to_owned(), place) {
            self.leave(old, place.standing);
        }
    }

    fn forget(&mut self, id: &str) {
        if let Some(old) = self.live.remove(id) {
            self.leave(old, Standing::default());
        }
    }

    /// Nothing is at `old` any more that is not part of `new`.
    fn leave(&mut self, old: Place, new: Standing) {
        let standing = old.standing;
        self.unacknowledged -= u64::from(standing.settled);
        if let Some(size) = self.sizes.get_mut(&old.segment) {
            size.live -= 1;
        }
        if let Some(spill) = standing.spill.filter(|_| standing.spill != new.spill) {
            self.spilled.remove(&spill);
        }
        if let Some(prompt) = standing.prompt.filter(|_| standing.prompt != new.prompt) {
            self.prompts.release(prompt);
        }
    }

    /// Hands the buffer to the system, and then some of what was asked; begins a new segment when this one is large; deletes
    /// what nobody needs.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Err(error) = self.write_out() {
            self.asked.clear();
            self.asked_bytes = 0;
            return Err(error);
        }
        self.keep();
        let size = self.sizes.get(&self.number).map_or(0, |size| size.bytes);
        if size >= self.config.segment_bytes {
            self.rotate()?;
        }
        self.tidy()
    }

    /// Seals what was asked by those that are still open and whose input is not known by now.
    fn keep(&mut self) {
        let (mut sealed, mut waiting) = (0, Vec::new());
        while sealed < SEALED_AT_ONCE
            && let Some(asked) = self.asked.pop_front()
        {
            let bytes = asked.question.body.len();
            self.asked_bytes = self.asked_bytes.saturating_sub(bytes as u64);
            let place = self.live.get_mut(&asked.id);
            let open = place
                .map(|place| &mut place.standing)
                .filter(|it| !it.settled && !it.input_known && it.prompt.is_none());
            if let Some(standing) = open {
                standing.prompt = self.prompts.add(&asked.id, &asked.question);
                sealed += bytes;
            }
            waiting.extend(asked.written);
        }
        self.prompts.write();
        for written in waiting {
            let _ = written.send(());
        }
    }

    /// Removes prompts that nobody needs.
    pub(super) fn tidy_prompts(&mut self) {
        self.prompts.tidy();
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.current.sync_data()?;
        self.unsynced = None;
        let number = self.number + 1;
        self.current = files::create(&self.directory, number, SEGMENTS)?;
        self.number = number;
        self.sizes.insert(number, Size::default());
        if self.bytes() >= self.config.max_bytes / 2 {
            self.carry_oldest()?;
        }
        Ok(())
    }

    /// Copies what is live in the oldest segment to the current one, so that the oldest can go.
    fn carry_oldest(&mut self) -> io::Result<()> {
        let Some((&oldest, _)) = self.sizes.first_key_value() else {
            return Ok(());
        };
        if oldest == self.number {
            return Ok(());
        }
        let mut moved: Vec<_> = self
            .live
            .iter()
            .filter(|(_, p)| p.segment == oldest)
            .collect();
        moved.sort_unstable_by_key(|(_, place)| place.at);
        let moved: Vec<_> = moved.into_iter().map(|(id, p)| (id.clone(), *p)).collect();
        for (id, place) in moved {
            // A file that cannot be read right now is no damage: its records stay where they are.
            match self.read(place)? {
                Some(record) => {
                    if let Some(line) = record.line() {
                        self.add(&id, line, place.standing);
                    }
                }
                None => self.forget(&id),
            }
        }
        self.write_out()?;
        self.current.sync_data()
    }

    /// Hands the buffer to the system. Lines matter more than prompts: these go where there is no room for both.
    fn write_out(&mut self) -> io::Result<()> {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        match self.write_buffer() {
            Err(error) if full.contains(&error.kind()) && self.prompts.make_room() => {
                tracing::warn!(%error, "the disk has no room for all of the journal: its prompts were given up for its lines, and fewer are kept until the next start; what is not there is estimated if this process dies");
                self.write_buffer()
            }
            written => written,
        }
    }

    /// A write that fails half-way is taken back and tried again next time, so that every place stays where the index has it.
    fn write_buffer(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.current.write_all(&self.buffer);
        if written.is_err() {
            let size = self.sizes.get(&self.number).map_or(0, |size| size.bytes);
            let before = size.saturating_sub(self.buffer.len() as u64);
            self.current.set_len(before)?;
        } else {
            self.buffer.clear();
        }
        written
    }

    fn tidy(&mut self) -> io::Result<()> {
        while let Some((&oldest, size)) = self.sizes.first_key_value()
            && size.live == 0
            && oldest != self.number
        {
            files::remove(&self.directory, oldest, SEGMENTS)?;
            self.sizes.remove(&oldest);
        }
        Ok(())
    }

    /// Forces to the disk what has waited for `after`.
    pub(super) fn sync(&mut self, after: Duration) -> io::Result<()> {
        if self.unsynced.is_some_and(|since| since.elapsed() >= after) {
            self.current.sync_data()?;
            self.unsynced = None;
        }
        Ok(())
    }

    /// Takes the oldest spilled settlements.
    pub(super) fn load(&mut self, limit: usize) -> Vec<Settlement> {
        let mut loaded = Vec::new();
        while loaded.len() < limit
            && let Some((spill, id)) = self.spilled.pop_first()
        {
            let Some(place) = self.live.get(&id).copied() else {
                continue;
            };
            let read = match self.read(place) {
                Ok(read) => read,
                Err(error) => {
                    // Not lost: it is read when this is asked again.
                    tracing::warn!(%error, "the journal cannot be read right now");
                    self.spilled.insert(spill, id);
                    break;
                }
            };
            if let Some(place) = self.live.get_mut(&id) {
                place.standing.spill = None;
            }
            match read {
                Some(Record {
                    kind: Some(Kind::Settled(settlement)),
                    ..
                }) => loaded.push(settlement),
                _ => {
                    tracing::error!(request_id = %id, "a settlement in the journal cannot be read")
                }
            }
        }
        loaded
    }

    /// The record at a place; `None` when it is damaged.
    fn read(&self, place: Place) -> io::Result<Option<Record>> {
        let mut file = File::open(files::path(&self.directory, place.segment, SEGMENTS))?;
        file.seek(SeekFrom::Start(place.at))?;
        let mut bytes = Vec::new();
        file.take(place.length).read_to_end(&mut bytes)?;
        Ok(record::read(&bytes))
    }
}
