//! No secret is on the disk or in a log line (CRED-1).

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use tracing_subscriber::fmt::MakeWriter;

use crate::world::{Place, World};

const SECRET: &str = "sk-upstream-secret-that-must-not-leak-0123456789";
const SECOND: &str = "another-upstream-secret-that-must-not-leak-98765";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

// One thread: what is logged by this test is logged here.
#[tokio::test(flavor = "current_thread")]
async fn no_secret_is_on_the_disk_or_in_a_log_line() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log is captured");

    let place = Place::sqlite();
    let world = World::open(&place).await;
    world
        .apply(&[("main", SECRET), ("seat", SECOND)])
        .await
        .unwrap();
    assert_eq!(world.get("main", 0).await.unwrap().secret, SECRET);
    world.apply(&[("main", SECOND)]).await.unwrap();
    assert_eq!(world.get("main", 1).await.unwrap().secret, SECOND);
    let mut refusals = Vec::new();
    for wrong in [format!("{SECRET}\n"), format!(" {SECRET}")] {
        refusals.push(world.apply(&[("main", &wrong)]).await.unwrap_err());
    }
    let component = format!("{:?}", world.component);
    let metrics = world.metrics.render();

    // While it is open, the write-ahead log holds the newest pages.
    let mut files = 0;
    let mut look = || {
        for entry in std::fs::read_dir(place.directory.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            files += 1;
            assert!(!holds(&bytes, SECRET) && !holds(&bytes, SECOND));
        }
    };
    look();
    world.close().await;
    look();
    assert!(files >= 3, "the database and its log were read");
    let database = std::fs::read(place.file()).unwrap();
    assert!(
        holds(&database, "main"),
        "the account is there in the clear"
    );

    assert!(World::open_with(&place, 9).await.is_err());
    let log = lines.0.lock().unwrap().clone();
    assert!(holds(&log, "the log is captured"));
    for secret in [SECRET, SECOND] {
        assert!(!holds(&log, secret));
        for text in [&component, &metrics, &format!("{refusals:?}")] {
            assert!(!text.contains(secret));
        }
    }
}
