//! What open requests ask, sealed, so that their input can be counted after this process was killed (SPEC BILL-6).
//! Synchronous: runs on the writer's thread alone.
//!
//! A prompt is needed from the line that its request was sent until its input is known or the request is settled. A file is
//! removed as soon as none in it is needed, and the one that is written is cut back to nothing: without open requests nothing of
//! any prompt is on the disk. Nothing here can fail a request: what cannot be kept or read is not there.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use prost::Message as _;
use rand::rngs::StdRng;
use switchboard_common::seal::{Sealed, Sealer};

use super::{
    files::{self, PROMPTS},
    record::{self, Kind, Line, SealedPrompt},
};
use crate::asked::Question;

/// A file that is larger is followed by a new one, bytes: what is needed for long keeps so much of others' at most.
const FILE_BYTES: u64 = 256 << 10;

/// No file is larger than with one more record, bytes.
const MOST_FILE_BYTES: u64 = FILE_BYTES + record::MAX_BYTES;

/// What a record has beside what is asked and the request's id, bytes, at most.
const OVERHEAD: u64 = 128;

/// How prompts are sealed.
pub(crate) struct Seals {
    /// With the key of purpose `Journal`.
    pub(crate) sealer: Sealer,
    /// For nonces.
    pub(crate) random: StdRng,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sealer.fmt(f)
    }
}

/// Where a prompt lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: u64,
    at: u64,
    length: u64,
}

/// What an earlier process left of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// It may be opened.
    Sealed(Place),
    /// Sealed with another master key.
    OtherKey,
}

/// All prompts.
#[derive(Debug)]
pub(super) struct Prompts {
    directory: PathBuf,
    /// All files together, bytes.
    most: u64,
    seals: Seals,
    /// By number, the one that is written included.
    files: BTreeMap<u64, Size>,
    current: Option<File>,
    number: u64,
    bytes: u64,
    buffer: Vec<u8>,
    /// The last write failed, and that was told.
    unwritten: bool,
    /// The same of the last removal.
    unremoved: bool,
}

#[derive(Debug, Default)]
struct Size {
    bytes: u64,
    needed: u64,
}

impl Prompts {
    /// Reads back what is in a directory: by request, and how many damaged stretches were skipped. Of that nothing is needed
    /// until it is [claimed](Self::claim).
    pub(super) fn open(
        directory: &Path,
        most: u64,
        seals: Seals,
    ) -> io::Result<(Self, HashMap<String, Left>, u64)> {
        let mut prompts = Self {
            directory: directory.to_owned(),
            most,
            seals,
            files: BTreeMap::new(),
            current: None,
            number: 0,
            bytes: 0,
            buffer: Vec::new(),
            unwritten: false,
            unremoved: false,
        };
        let (mut left, mut damaged) = (HashMap::new(), 0);
        for file in files::numbers(directory, PROMPTS)? {
            prompts.number = file;
            let bytes = whole(&files::path(directory, file, PROMPTS)).unwrap_or_else(|error| {
                tracing::warn!(%error, "prompts in the journal cannot be read; the input of open requests stays estimated");
                Vec::new()
            });
            let size = prompts.files.entry(file).or_default();
            size.bytes = bytes.len() as u64;
            prompts.bytes += size.bytes;
            damaged += record::scan(&bytes, |range, record| {
                let Some(Kind::Prompt(prompt)) = record.kind else {
                    return;
                };
                let place = Place {
                    file,
                    at: range.start as u64,
                    length: range.len() as u64,
                };
                let ours = prompt.key_id == prompts.seals.sealer.key_id();
                let found = if ours {
                    Left::Sealed(place)
                } else {
                    Left::OtherKey
                };
                left.insert(prompt.request_id, found);
            });
        }
        Ok((prompts, left, damaged))
    }

    /// What an earlier process left is needed.
    pub(super) fn claim(&mut self, place: Place) {
        if let Some(size) = self.files.get_mut(&place.file) {
            size.needed += 1;
        }
    }

    /// Nobody needs it any more.
    pub(super) fn release(&mut self, place: Place) {
        if let Some(size) = self.files.get_mut(&place.file) {
            size.needed = size.needed.saturating_sub(1);
        }
    }

    /// Seals what a request asks, to be [written](Self::write) next; `None` where there is no room.
    pub(super) fn add(&mut self, request_id: &str, question: &Question) -> Option<Place> {
        let needed = (question.encoded_len() + request_id.len()) as u64 + OVERHEAD;
        if self.bytes + needed > self.most {
            return None;
        }
        if let Err(error) = self.begin() {
            tell(&mut self.unwritten, &error);
            return None;
        }
        let Seals { sealer, random } = &mut self.seals;
        let sealed = sealer.seal(&question.encode_to_vec(), request_id.as_bytes(), random);
        let sealed = sealed.ok()?;
        let prompt = SealedPrompt {
            request_id: request_id.to_owned(),
            nonce: sealed.nonce,
            ciphertext: sealed.ciphertext,
            key_id: sealed.key_id,
        };
        let size = self.files.get_mut(&self.number)?;
        let length = record::append(&mut self.buffer, Line::Prompt(&prompt));
        let place = Place {
            file: self.number,
            at: size.bytes,
            length,
        };
        size.bytes += length;
        size.needed += 1;
        self.bytes += length;
        Some(place)
    }

    /// Sees to it that there is a file that is not too large.
    fn begin(&mut self) -> io::Result<()> {
        let size = self.files.get(&self.number).map_or(0, |size| size.bytes);
        if self.current.is_some() && size < FILE_BYTES {
            return Ok(());
        }
        self.hand_over()?;
        self.number += 1;
        self.current = Some(files::create(&self.directory, self.number, PROMPTS)?);
        self.files.insert(self.number, Size::default());
        Ok(())
    }

    /// Hands what was added to the system.
    pub(super) fn write(&mut self) {
        if let Err(error) = self.hand_over() {
            tell(&mut self.unwritten, &error);
        }
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = match &mut self.current {
            Some(file) => file.write_all(&self.buffer),
            None => Ok(()),
        };
        self.buffer.clear();
        self.unwritten &= written.is_err();
        if written.is_err() {
            // Where a prompt lies in it is not known any more. The next one begins a new file.
            self.current = None;
            if let Some(size) = self.files.get_mut(&self.number) {
                size.needed = 0;
            }
        }
        written
    }

    /// Gives up what is kept, where the disk has no room for lines; tells whether that made some. From now on half as much is
    /// kept at most, so that it does not come to this again and again.
    pub(super) fn make_room(&mut self) -> bool {
        let kept = self.bytes;
        self.most = self.most.min(kept / 2);
        self.buffer.clear();
        // Places in it are still known: they must not be given again.
        self.current = None;
        self.files.values_mut().for_each(|size| size.needed = 0);
        self.tidy();
        self.bytes < kept
    }

    /// Removes what nobody needs.
    pub(super) fn tidy(&mut self) {
        match self.remove() {
            Ok(()) => self.unremoved = false,
            Err(error) => tell(&mut self.unremoved, &error),
        }
    }

    /// One that cannot be removed keeps no other.
    fn remove(&mut self) -> io::Result<()> {
        let unneeded = |(number, size): (&u64, &Size)| (size.needed == 0).then_some(*number);
        let unneeded: Vec<_> = self.files.iter().filter_map(unneeded).collect();
        let mut removed = Ok(());
        for number in unneeded {
            removed = self.remove_file(number).and(removed);
        }
        removed
    }

    fn remove_file(&mut self, number: u64) -> io::Result<()> {
        let written = self.files.get(&number).map_or(0, |size| size.bytes);
        let current = self.current.as_mut().filter(|_| number == self.number);
        match current {
            Some(_) if written == 0 => return Ok(()),
            Some(file) => {
                file.set_len(0)?;
                self.files.insert(number, Size::default());
            }
            None => {
                files::remove(&self.directory, number, PROMPTS)?;
                self.files.remove(&number);
            }
        }
        self.bytes = self.bytes.saturating_sub(written);
        Ok(())
    }

    /// What a request asked; `None`: it cannot be read.
    pub(super) fn read(&self, request_id: &str, place: Place) -> Option<Question> {
        let read = self.record(place);
        let Ok(Some(Kind::Prompt(prompt))) = read else {
            return None;
        };
        let sealed = Sealed {
            nonce: prompt.nonce,
            ciphertext: prompt.ciphertext,
            key_id: prompt.key_id,
        };
        let plain = self.seals.sealer.open(&sealed, request_id.as_bytes());
        Question::decode(plain.ok()?.as_slice()).ok()
    }

    fn record(&self, place: Place) -> io::Result<Option<Kind>> {
        let mut file = File::open(files::path(&self.directory, place.file, PROMPTS))?;
        file.seek(SeekFrom::Start(place.at))?;
        let mut bytes = Vec::new();
        file.take(place.length).read_to_end(&mut bytes)?;
        Ok(record::read(&bytes).and_then(|record| record.kind))
    }
}

/// A file as we write them; any that is larger is none of ours.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    if file.metadata()?.len() > MOST_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    file.take(MOST_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Tells of a failure, once until that is over.
fn tell(failing: &mut bool, error: &io::Error) {
    if !std::mem::replace(failing, true) {
        tracing::warn!(%error, "the journal's prompts cannot be written or removed; what is not there is estimated if this process dies");
    }
}
