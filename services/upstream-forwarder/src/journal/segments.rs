//! The journal's files. Synchronous: runs on the writer's thread alone.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use switchboard_proto::billing::v1::Settlement;

use super::{
    Error, JournalConfig, Recovered,
    record::{self, Ids, Kind, Line},
};

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
    buffer: Vec<u8>,
    /// Since when a settlement waits to be forced to the disk.
    unsynced: Option<Instant>,
}

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
    settled: bool,
    spill: Option<u64>,
}

impl Segments {
    /// Opens a directory and reads back what it holds; a new segment is begun.
    pub(super) fn open(
        directory: &Path,
        config: &JournalConfig,
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
        let mut found = numbers(directory).map_err(io)?;
        found.sort_unstable();
        let number = found.last().map_or(1, |last| last.saturating_add(1));
        let mut segments = Self {
            directory: directory.to_owned(),
            config: config.clone(),
            _lock: lock,
            current: create(directory, number).map_err(io)?,
            number,
            sizes: BTreeMap::from([(number, Size::default())]),
            live: HashMap::new(),
            spilled: BTreeMap::new(),
            next_spill: 0,
            unacknowledged: 0,
            buffer: Vec::new(),
            unsynced: None,
        };
        let recovered = segments.recover(&found).map_err(io)?;
        Ok((segments, recovered))
    }

    fn recover(&mut self, found: &[u64]) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        // In order of their first record, so that the oldest is settled first.
        let mut order = Vec::new();
        let mut owed: HashMap<String, Settlement> = HashMap::new();
        for &segment in found {
            let bytes = fs::read(path(&self.directory, segment))?;
            self.sizes.entry(segment).or_default().bytes = bytes.len() as u64;
            recovered.damaged += record::scan(&bytes, |range, kind| {
                let place = |settled| Place {
                    segment,
                    at: range.start as u64,
                    length: range.len() as u64,
                    settled,
                    spill: None,
                };
                match kind {
                    Kind::Draft(draft) => {
                        // A draft after the settlement is late news.
                        if !self.live.get(&draft.request_id).is_some_and(|p| p.settled) {
                            self.place(&draft.request_id, place(false));
                            order.push(draft.request_id.clone());
                            owed.insert(draft.request_id.clone(), draft);
                        }
                    }
                    Kind::Settled(settlement) => {
                        self.place(&settlement.request_id, place(true));
                        order.push(settlement.request_id.clone());
                        owed.insert(settlement.request_id.clone(), settlement);
                    }
                    Kind::Acknowledged(ids) => {
                        for id in ids.ids {
                            self.forget(&id);
                            owed.remove(&id);
                        }
                    }
                }
            });
        }
        for id in order {
            let Some(mut settlement) = owed.remove(&id) else {
                continue;
            };
            recovered.owed += 1;
            if self.live.get(&id).is_some_and(|place| !place.settled) {
                recovered.lost += 1;
                // Nobody else will ever say more about this request: its last word is final.
                settlement.provisional = false;
            }
            // Written anew, in order, to be loaded by who hands it to billing.
            self.settled(&settlement, true);
        }
        self.flush()?;
        self.current.sync_data()?;
        self.unsynced = None;
        Ok(recovered)
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

    /// Whether something waits to be written or forced to the disk.
    pub(super) fn unsynced(&self) -> bool {
        self.unsynced.is_some() || !self.buffer.is_empty()
    }

    pub(super) fn draft(&mut self, draft: &Settlement) {
        if self.live.get(&draft.request_id).is_some_and(|p| p.settled) {
            return;
        }
        self.add(&draft.request_id, Line::Draft(draft), false, None);
    }

    pub(super) fn settled(&mut self, settlement: &Settlement, spilled: bool) {
        let spill = spilled.then(|| {
            self.next_spill += 1;
            self.spilled
                .insert(self.next_spill, settlement.request_id.clone());
            self.next_spill
        });
        self.add(
            &settlement.request_id,
            Line::Settled(settlement),
            true,
            spill,
        );
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

    fn add(&mut self, id: &str, line: Line<'_>, settled: bool, spill: Option<u64>) {
        let at = self.sizes.get(&self.number).map_or(0, |size| size.bytes);
        let length = record::append(&mut self.buffer, line);
        self.grow(length);
        self.place(
            id,
            Place {
                segment: self.number,
                at,
                length,
                settled,
                spill,
            },
        );
    }

    fn grow(&mut self, length: u64) {
        if let Some(size) = self.sizes.get_mut(&self.number) {
            size.bytes += length;
        }
    }

    fn place(&mut self, id: &str, place: Place) {
        self.forget(id);
        self.sizes.entry(place.segment).or_default().live += 1;
        self.unacknowledged += u64::from(place.settled);
        self.live.insert(id.to_owned(), place);
    }

    fn forget(&mut self, id: &str) {
        let Some(old) = self.live.remove(id) else {
            return;
        };
        self.unacknowledged -= u64::from(old.settled);
        if let Some(size) = self.sizes.get_mut(&old.segment) {
            size.live -= 1;
        }
        if let Some(spill) = old.spill {
            self.spilled.remove(&spill);
        }
    }

    /// Hands the buffer to the system; begins a new segment when this one is large; deletes what nobody needs.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_out()?;
        let size = self.sizes.get(&self.number).map_or(0, |size| size.bytes);
        if size >= self.config.segment_bytes {
            self.rotate()?;
        }
        self.tidy()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.current.sync_data()?;
        self.unsynced = None;
        let number = self.number + 1;
        self.current = create(&self.directory, number)?;
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
                Some(kind) => self.add(&id, Line::from(&kind), place.settled, place.spill),
                None => self.forget(&id),
            }
            if let (Some(spill), Some(_)) = (place.spill, self.live.get(&id)) {
                self.spilled.insert(spill, id);
            }
        }
        self.write_out()?;
        self.current.sync_data()
    }

    /// Hands the buffer to the system. A write that fails half-way is taken back and tried again next time, so that every
    /// place stays where the index has it.
    fn write_out(&mut self) -> io::Result<()> {
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
            fs::remove_file(path(&self.directory, oldest))?;
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
                place.spill = None;
            }
            match read {
                Some(Kind::Settled(settlement)) => loaded.push(settlement),
                _ => {
                    tracing::error!(request_id = %id, "a settlement in the journal cannot be read")
                }
            }
        }
        loaded
    }

    /// The record at a place; `None` when it is damaged.
    fn read(&self, place: Place) -> io::Result<Option<Kind>> {
        let mut file = File::open(path(&self.directory, place.segment))?;
        file.seek(SeekFrom::Start(place.at))?;
        let mut bytes = Vec::new();
        file.take(place.length).read_to_end(&mut bytes)?;
        Ok(record::read(&bytes))
    }
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:012}.journal"))
}

fn create(directory: &Path, number: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).append(true);
    options.open(path(directory, number))
}

fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".journal"));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(found)
}
