mod prompts;

use proptest::prelude::*;
use rand::{SeedableRng as _, rngs::StdRng};
use switchboard_common::{
    seal::Sealer,
    secret::{MasterKey, Purpose},
};
use switchboard_proto::billing::v1::Ending;
use tempfile::TempDir;

use super::{
    record::{Kind, Line, append, scan},
    *,
};

fn settlement(id: &str, provisional: bool) -> Settlement {
    let ending = if provisional {
        Ending::GatewayLost
    } else {
        Ending::Complete
    };
    Settlement {
        request_id: id.to_owned(),
        ending: ending as i32,
        provisional,
        ..Settlement::default()
    }
}

fn open(id: &str) -> Draft {
    Draft {
        settlement: settlement(id, true),
        input_known: true,
        question: None,
    }
}

fn seals(key: u8) -> Seals {
    Seals {
        sealer: Sealer::new(&MasterKey::from_bytes([key; 32]).subkey(Purpose::Journal)),
        random: StdRng::seed_from_u64(1),
    }
}

fn segments(directory: &TempDir, config: &JournalConfig) -> (Segments, Recovered) {
    Segments::open(directory.path(), config, seals(1)).unwrap()
}

async fn journal(directory: &TempDir, config: &JournalConfig) -> (Journal, Recovered, Lifecycle) {
    let lifecycle = Lifecycle::new();
    let opened = Journal::open(config, directory.path(), seals(1), &lifecycle).await;
    let (journal, recovered) = opened.unwrap();
    (journal, recovered, lifecycle)
}

fn config() -> JournalConfig {
    JournalConfig {
        gather: Duration::ZERO,
        ..JournalConfig::default()
    }
}

trait Drafts {
    /// A draft for which nobody waits.
    fn note(&mut self, draft: Draft);
}

impl Drafts for Segments {
    fn note(&mut self, draft: Draft) {
        assert!(self.draft(draft, None).is_none());
    }
}

fn reopen(directory: &TempDir) -> (Vec<Settlement>, Recovered) {
    let (mut segments, recovered) = segments(directory, &config());
    let loaded = segments.load(usize::MAX);
    assert_eq!(loaded.len(), recovered.owed);
    (loaded, recovered)
}

/// As a process finds it that starts after this one was killed.
fn copy(directory: &TempDir) -> TempDir {
    let copy = TempDir::new().unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn ids(settlements: &[Settlement]) -> Vec<&str> {
    settlements.iter().map(|s| s.request_id.as_str()).collect()
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_back_and_open_requests_are_lost_for_good() {
    let directory = TempDir::new().unwrap();
    let (journal, recovered, lifecycle) = journal(&directory, &config()).await;
    assert_eq!(recovered, Recovered::default());
    journal.draft(open("open"));
    journal.draft(open("done"));
    journal
        .settled(settlement("done", false).into(), false)
        .await;
    journal
        .settled(settlement("owed", false).into(), false)
        .await;
    journal.draft(open("owed"));
    journal.acknowledged(vec!["done".to_owned()]).await;
    assert_eq!(journal.load(10).await, []);
    let shown = async {
        while journal.unacknowledged() != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), shown)
        .await
        .unwrap();
    journal.close().await;
    assert!(
        lifecycle
            .shutdown(Duration::from_secs(30), Duration::ZERO)
            .await
    );

    let (settlements, recovered) = reopen(&directory);
    assert_eq!(ids(&settlements), ["open", "owed"]);
    assert_eq!((recovered.lost, recovered.damaged), (1, 0));
    let open = settlements.first().unwrap();
    assert_eq!(
        (open.ending(), open.provisional),
        (Ending::GatewayLost, false)
    );
    // Reading back changes nothing, however often the process dies.
    let (again, recovered) = reopen(&directory);
    assert_eq!(again, settlements);
    assert_eq!(recovered.lost, 0);
}

#[test]
fn files_that_someone_copied_or_removed_keep_no_process_from_its_own() {
    let directory = TempDir::new().unwrap();
    let small = JournalConfig {
        segment_bytes: 1,
        ..config()
    };
    let (mut first, _) = segments(&directory, &small);
    for id in ["one", "two"] {
        first.settled(&settlement(id, false), false);
        first.flush().unwrap();
    }
    first.note(open("open"));
    first.flush().unwrap();
    let path = |name: &str| directory.path().join(name);
    let own = path("000000000001.journal");
    for copy in [
        "1.journal",
        "+00000000001.journal",
        "9999999999999.journal",
        "x.journal",
    ] {
        std::fs::copy(&own, path(copy)).unwrap();
    }
    std::fs::write(path("18446744073709551615.prompts"), "x").unwrap();
    // It is not needed any more, and gone before we remove it.
    first.acknowledged(vec!["one".to_owned()]);
    std::fs::remove_file(&own).unwrap();
    first.flush().unwrap();
    drop(first);
    let (settlements, recovered) = reopen(&directory);
    assert_eq!(ids(&settlements), ["two", "open"]);
    assert_eq!((recovered.lost, recovered.damaged), (1, 0));
    assert!(path("1.journal").exists(), "what is not ours stays");
}

#[test]
fn a_directory_belongs_to_one_process() {
    let directory = TempDir::new().unwrap();
    let first = segments(&directory, &config());
    let second = Segments::open(directory.path(), &config(), seals(1));
    assert!(matches!(second, Err(Error::Locked(_))));
    drop(first);
    let third = Segments::open(directory.path(), &config(), seals(1));
    assert!(third.is_ok());
}

#[test]
fn segments_go_when_nothing_in_them_is_owed_and_a_long_stream_does_not_keep_them() {
    let directory = TempDir::new().unwrap();
    let config = JournalConfig {
        segment_bytes: 200,
        max_bytes: 2_000,
        ..config()
    };
    let (mut segments, _) = segments(&directory, &config);
    segments.note(open("long"));
    for n in 0..1_000 {
        let id = format!("short-{n}");
        segments.settled(&settlement(&id, false), false);
        segments.flush().unwrap();
        segments.acknowledged(vec![id]);
        segments.flush().unwrap();
        assert!(!segments.full(), "full after {n}");
    }
    segments.settled(&settlement("spilled", false), true);
    for n in 0..100 {
        segments.note(open(&format!("open-{n}")));
        segments.flush().unwrap();
    }
    assert!(segments.full());
    let loaded = segments.load(10);
    assert_eq!(loaded, [settlement("spilled", false)]);
    assert_eq!(segments.load(10), []);
    drop(segments);
    let (settlements, recovered) = reopen(&directory);
    assert_eq!((recovered.owed, recovered.lost), (102, 101));
    assert_eq!(settlements.len(), 102);
}

/// A journal file and where each record ends.
fn file(count: usize) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for n in 0..count {
        append(
            &mut bytes,
            Line::Settled(&settlement(&format!("id-{n}"), false)),
        );
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn scanned(bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    scan(bytes, |_, record| {
        if let Some(Kind::Settled(settlement)) = record.kind {
            found.push(settlement.request_id);
        }
    });
    found
}

proptest! {
    #[test]
    fn a_torn_tail_loses_no_earlier_record(count in 1_usize..20, cut in any::<prop::sample::Index>()) {
        let (mut bytes, ends) = file(count);
        let cut = cut.index(bytes.len() + 1);
        bytes.truncate(cut);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        prop_assert_eq!(scanned(&bytes).len(), whole);
    }

    #[test]
    fn damage_costs_the_records_that_it_hits_and_no_other(
        count in 1_usize..20,
        at in any::<prop::sample::Index>(),
        damage in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let (mut bytes, ends) = file(count);
        let from = at.index(bytes.len());
        let mut to = from;
        for (byte, new) in bytes.iter_mut().skip(from).zip(&damage) {
            *byte = *new;
            to += 1;
        }
        let mut start = 0;
        let found = scanned(&bytes);
        for (n, end) in ends.iter().enumerate() {
            if *end <= from || start >= to {
                prop_assert!(found.contains(&format!("id-{n}")), "record {} lost", n);
            }
            start = *end;
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let directory = TempDir::new().unwrap();
        for kind in ["journal", "prompts"] {
            let path = directory.path().join("000000000001").with_extension(kind);
            std::fs::write(path, &bytes).unwrap();
        }
        prop_assert!(Segments::open(directory.path(), &config(), seals(1)).is_ok());
    }
}

#[test]
fn a_file_that_cannot_be_read_for_a_moment_loses_no_settlement() {
    let directory = TempDir::new().unwrap();
    let (mut segments, _) = segments(&directory, &config());
    segments.settled(&settlement("owed", false), true);
    segments.flush().unwrap();
    let file = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension() == Some("journal".as_ref()))
        .unwrap();
    let away = file.with_extension("away");
    std::fs::rename(&file, &away).unwrap();
    assert_eq!(segments.load(10), []);
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(segments.load(10), [settlement("owed", false)]);
}

#[tokio::test]
async fn a_line_that_is_waited_for_is_in_the_file_and_waits_for_no_others() {
    let directory = TempDir::new().unwrap();
    let config = JournalConfig {
        gather: Duration::from_secs(3_600),
        ..config()
    };
    let (journal, _, _lifecycle) = journal(&directory, &config).await;
    let sent = journal.sent(open("sent"));
    let waited = tokio::time::timeout(Duration::from_secs(30), sent.wait()).await;
    assert_eq!(waited, Ok(true));
    let (settlements, recovered) = reopen(&copy(&directory));
    assert_eq!((ids(&settlements), recovered.lost), (vec!["sent"], 1));
}
