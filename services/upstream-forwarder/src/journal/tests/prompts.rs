//! What open requests ask.

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

use switchboard_proto::{
    billing::v1::Attempt,
    common::v1::{Dialect, Usage, UsageSource},
};

use super::*;
use crate::journal::{
    prompts::Prompts,
    record::{SealedPrompt, read},
};

const SECRET: &str = "the quick brown fox jumps over the lazy dog";

fn question() -> Question {
    Question {
        dialect: Dialect::OpenaiChat as i32,
        body: format!("{{\"asked\": \"{SECRET}\"}}").into(),
        ..Question::default()
    }
}

/// An open request whose input is a guess.
fn guessed(id: &str) -> Draft {
    let usage = Some(Usage {
        input_tokens: Some(77),
        output_tokens: Some(5),
        ..Usage::default()
    });
    let attempt = Attempt {
        usage,
        usage_source: UsageSource::Estimated as i32,
        ..Attempt::default()
    };
    Draft {
        settlement: Settlement {
            usage,
            usage_source: UsageSource::Estimated as i32,
            attempts: vec![attempt],
            ..settlement(id, true)
        },
        input_known: false,
        question: Some(question()),
    }
}

fn files(directory: &TempDir) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory.path()).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension() == Some("prompts".as_ref()));
    files
}

/// Bytes of prompts on the disk.
fn kept(directory: &TempDir) -> u64 {
    let size = |path: &PathBuf| path.metadata().unwrap().len();
    files(directory).iter().map(size).sum()
}

async fn until_nothing_is_kept(directory: &TempDir) {
    let gone = async {
        while kept(directory) > 0 {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), gone).await;
    waited.unwrap();
}

#[tokio::test]
async fn what_is_asked_is_on_the_disk_sealed_and_no_longer_than_it_is_needed() {
    let directory = TempDir::new().unwrap();
    let (journal, _, _lifecycle) = journal(&directory, &config()).await;
    for (counted, id) in [(false, "settled"), (true, "counted")] {
        assert!(journal.sent(guessed(id)).wait().await);
        assert!(kept(&directory) > SECRET.len() as u64);
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let found = memchr::memmem::find(&bytes, &SECRET.as_bytes()[4..]);
            assert_eq!(found, None, "{path:?}");
        }
        for path in files(&directory) {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        if counted {
            journal.draft(open(id));
        } else {
            journal.settled(settlement(id, false).into(), false).await;
        }
        until_nothing_is_kept(&directory).await;
    }
    let printed = format!("{:?}", guessed("printed"));
    assert!(!printed.contains("fox"), "{printed}");
}

#[test]
fn an_open_request_is_counted_by_the_next_process_however_often_that_dies() {
    let directory = TempDir::new().unwrap();
    let (mut first, _) = segments(&directory, &config());
    first.note(guessed("open"));
    // A line without anything new, as of a retry, takes nothing away.
    first.note(Draft {
        question: None,
        ..guessed("open")
    });
    first.note(guessed("counted"));
    first.note(open("counted"));
    first.flush().unwrap();
    drop(first);
    for _ in 0..2 {
        let (mut next, recovered) = segments(&directory, &config());
        assert_eq!(recovered.uncounted, 1);
        assert_eq!(ids(&next.load(10)), ["counted"]);
        let lost = next.lost().unwrap();
        assert!(!lost.settlement.provisional);
        assert_eq!(lost.settlement.request_id, "open");
        assert_eq!(lost.question, Some(question()));
        assert!(next.lost().is_none());
    }
    let (mut last, _) = segments(&directory, &config());
    let lost = last.lost().unwrap();
    assert!(kept(&directory) > 0);
    last.settled(&lost.settlement, false);
    last.flush().unwrap();
    last.tidy_prompts();
    assert_eq!(kept(&directory), 0);
    drop(last);
    let (_, recovered) = reopen(&directory);
    assert_eq!((recovered.owed, recovered.lost), (2, 0));
}

#[test]
fn only_an_estimate_from_bytes_is_counted() {
    let directory = TempDir::new().unwrap();
    let (mut first, _) = segments(&directory, &config());
    let mut free = guessed("free");
    free.settlement.usage_source = UsageSource::None as i32;
    let mut reported = guessed("reported");
    reported.settlement.usage_source = UsageSource::Provider as i32;
    for draft in [free, reported] {
        first.note(draft);
    }
    first.flush().unwrap();
    drop(first);
    let (settlements, recovered) = reopen(&directory);
    assert_eq!(ids(&settlements), ["free", "reported"]);
    assert_eq!((recovered.lost, recovered.uncounted), (2, 0));
    assert_eq!(kept(&directory), 0);
}

#[test]
fn what_cannot_be_opened_leaves_the_estimate_and_stops_nothing() {
    let sent = || {
        let directory = TempDir::new().unwrap();
        let (mut first, _) = segments(&directory, &config());
        first.note(guessed("open"));
        first.flush().unwrap();
        drop(first);
        let path = files(&directory).pop().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (directory, path, bytes)
    };
    let (directory, path, mut bytes) = sent();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (settlements, recovered) = reopen(&directory);
    assert_eq!((recovered.uncounted, recovered.damaged), (0, 1));
    let usage = settlements[0].usage.unwrap();
    assert_eq!(usage.input_tokens, Some(77));

    // A whole record that was sealed for another request.
    let (directory, path, bytes) = sent();
    let Some(Kind::Prompt(prompt)) = read(&bytes).unwrap().kind else {
        panic!("no prompt");
    };
    let mut bytes = Vec::new();
    append(
        &mut bytes,
        Line::Prompt(&SealedPrompt {
            key_id: prompt.key_id.clone(),
            ..SealedPrompt::default()
        }),
    );
    append(
        &mut bytes,
        Line::Prompt(&SealedPrompt {
            ciphertext: vec![0; 40],
            ..prompt
        }),
    );
    std::fs::write(&path, bytes).unwrap();
    let (mut next, recovered) = segments(&directory, &config());
    assert_eq!((recovered.uncounted, recovered.damaged), (1, 0));
    let lost = next.lost().unwrap();
    assert_eq!(
        (lost.settlement.request_id.as_str(), lost.question),
        ("open", None)
    );

    let (directory, path, _) = sent();
    std::fs::remove_file(path).unwrap();
    let (settlements, _) = reopen(&directory);
    assert_eq!(ids(&settlements), ["open"]);
}

#[test]
fn another_master_key_leaves_the_estimate_and_is_told() {
    let directory = TempDir::new().unwrap();
    let (mut first, _) = segments(&directory, &config());
    first.note(guessed("open"));
    first.flush().unwrap();
    drop(first);
    let other = Segments::open(directory.path(), &config(), seals(2));
    let (mut next, recovered) = other.unwrap();
    assert_eq!((recovered.other_key, recovered.uncounted), (1, 0));
    assert_eq!(ids(&next.load(10)), ["open"]);
    assert_eq!(kept(&directory), 0);
}

#[test]
fn what_is_kept_is_bounded() {
    let directory = TempDir::new().unwrap();
    let config = JournalConfig {
        prompts_bytes: 2_000,
        ..config()
    };
    let (mut journal, _) = segments(&directory, &config);
    for n in 0..100 {
        journal.note(guessed(&format!("many-{n}")));
    }
    journal.flush().unwrap();
    let full = kept(&directory);
    assert!((1_000..=2_000).contains(&full), "{full}");
    for n in 0..100 {
        journal.settled(&settlement(&format!("many-{n}"), false), false);
    }
    journal.flush().unwrap();
    journal.tidy_prompts();
    assert_eq!(kept(&directory), 0);
    journal.note(guessed("again"));
    journal.flush().unwrap();
    assert!(kept(&directory) > 0, "there is room again");
}

#[test]
fn one_long_request_keeps_little_of_others() {
    let directory = TempDir::new().unwrap();
    let (mut journal, _) = segments(&directory, &config());
    journal.note(guessed("long"));
    let large = Question {
        body: vec![b'a'; 100 << 10].into(),
        ..question()
    };
    for n in 0..100 {
        let id = format!("short-{n}");
        journal.note(Draft {
            question: Some(large.clone()),
            ..guessed(&id)
        });
        journal.flush().unwrap();
        journal.settled(&settlement(&id, false), false);
        journal.flush().unwrap();
        journal.tidy_prompts();
        assert!(kept(&directory) <= 800 << 10, "{}", kept(&directory));
    }
    let kept: Vec<_> = files(&directory);
    assert!(kept.len() <= 2, "{kept:?}");
}

#[tokio::test]
async fn prompts_that_cannot_be_written_keep_no_line_back() {
    let directory = TempDir::new().unwrap();
    let (journal, _, _lifecycle) = journal(&directory, &config()).await;
    let taken = directory.path().join("000000000001.prompts");
    std::fs::create_dir(&taken).unwrap();
    assert!(journal.sent(guessed("one")).wait().await);
    assert!(!journal.refuses());
    assert!(journal.sent(guessed("two")).wait().await);
    std::fs::remove_dir(&taken).unwrap();
    let next = copy(&directory);
    let (mut next, recovered) = segments(&next, &config());
    assert_eq!((recovered.lost, recovered.uncounted), (2, 1));
    assert_eq!(ids(&next.load(10)), ["one"]);
}

#[test]
fn a_file_that_cannot_be_removed_keeps_no_other() {
    let directory = TempDir::new().unwrap();
    let (mut first, _) = segments(&directory, &config());
    first.note(guessed("open"));
    first.flush().unwrap();
    drop(first);
    // The first in order.
    let stuck = directory.path().join("000000000000.prompts");
    std::fs::create_dir(&stuck).unwrap();
    let (mut next, recovered) = segments(&directory, &config());
    assert_eq!((recovered.uncounted, recovered.damaged), (1, 0));
    let lost = next.lost().unwrap();
    next.settled(&lost.settlement, false);
    next.note(guessed("another"));
    next.flush().unwrap();
    next.tidy_prompts();
    next.settled(&settlement("another", false), false);
    next.flush().unwrap();
    next.tidy_prompts();
    let mut left = files(&directory);
    left.retain(|path| *path != stuck && path.metadata().unwrap().len() > 0);
    assert_eq!(left, [] as [PathBuf; 0]);
}

#[test]
fn prompts_make_room_for_lines() {
    let directory = TempDir::new().unwrap();
    let (mut prompts, _, _) = Prompts::open(directory.path(), 1 << 20, seals(1)).unwrap();
    let add = |prompts: &mut Prompts, id: &str| {
        let place = prompts.add(id, &question());
        prompts.write();
        place
    };
    let lost = add(&mut prompts, "lost").unwrap();
    for n in 0..20 {
        add(&mut prompts, &format!("many-{n}")).unwrap();
    }
    let full = kept(&directory);
    assert!(prompts.make_room());
    assert_eq!(kept(&directory), 0);
    // What was known of the others touches none that comes after them.
    let next = add(&mut prompts, "next").unwrap();
    prompts.release(lost);
    prompts.tidy();
    assert_eq!(prompts.read("next", next), Some(question()));
    assert_eq!(prompts.read("lost", lost), None);
    while add(&mut prompts, "more").is_some() {}
    let again = kept(&directory);
    assert!((full / 4..=full / 2).contains(&again), "{again} of {full}");
    assert!(prompts.make_room());
    assert!(!prompts.make_room(), "there is nothing to give up");
}

#[test]
fn a_file_that_is_none_of_ours_is_not_read_and_goes() {
    let directory = TempDir::new().unwrap();
    let (mut first, _) = segments(&directory, &config());
    first.note(guessed("open"));
    first.flush().unwrap();
    drop(first);
    // A terabyte without a byte in it.
    let huge = directory.path().join("000000000000.prompts");
    let file = std::fs::File::create(&huge).unwrap();
    file.set_len(1 << 40).unwrap();
    let (mut next, recovered) = segments(&directory, &config());
    assert_eq!((recovered.uncounted, recovered.damaged), (1, 0));
    assert_eq!(next.lost().unwrap().question, Some(question()));
    assert!(!huge.exists());
}

#[test]
fn lines_do_not_wait_for_what_others_ask() {
    let directory = TempDir::new().unwrap();
    let (mut journal, _) = segments(&directory, &config());
    let large = Question {
        body: vec![b'a'; 100 << 10].into(),
        ..question()
    };
    let mut told = Vec::new();
    for id in ["one", "two", "three"] {
        let (written, hears) = oneshot::channel();
        let draft = Draft {
            question: Some(large.clone()),
            ..guessed(id)
        };
        assert!(Segments::draft(&mut journal, draft, Some(written)).is_none());
        told.push(hears);
    }
    for sealed in 1..=3 {
        assert!(journal.behind());
        journal.flush().unwrap();
        let (_, recovered) = segments(&copy(&directory), &config());
        assert_eq!((recovered.lost, recovered.uncounted), (3, sealed));
        for (hears, number) in told.iter_mut().zip(1..) {
            // Each is told once, when what it asks is kept.
            assert_eq!(
                hears.try_recv().is_ok(),
                number == sealed,
                "{number} of {sealed}"
            );
        }
    }
    assert!(!journal.behind());
}

#[test]
fn what_waits_to_be_sealed_is_bounded() {
    let bytes = question().body.len();
    let queue = Queue::new(10, 2 * bytes);
    for id in ["one", "two", "three"] {
        queue.try_push(Command::Draft {
            draft: Box::new(guessed(id)),
            written: None,
        });
    }
    let taken = queue.take(None, Duration::ZERO).unwrap();
    let brought: Vec<_> = taken.iter().map(Command::asked).collect();
    assert_eq!(brought, [bytes, bytes, 0]);
}
