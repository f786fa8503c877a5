use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use futures_util::future::join_all;
use rand::{SeedableRng as _, rngs::StdRng};
use sea_orm::DbErr;
use switchboard_common::{
    clock::ManualClock,
    metrics::Metrics,
    secret::{MasterKey, Purpose},
};
use switchboard_state::State;
use tokio::sync::Semaphore;

use super::*;
use crate::domain::identity::{Group, KeyTerms, Limits, Status, TIMES_ONE, Tenant};

/// A key store that counts, stalls and fails.
struct FakeReader {
    callers: Mutex<HashMap<KeyHash, Caller>>,
    head: AtomicU64,
    failing: AtomicBool,
    /// Readings wait here after they took their snapshot.
    gate: Semaphore,
    finds: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl FakeReader {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            callers: Mutex::default(),
            head: AtomicU64::new(1),
            failing: AtomicBool::new(false),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            finds: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn finds(&self) -> usize {
        self.finds.load(Ordering::SeqCst)
    }

    fn shut(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait::async_trait]
impl KeyReader for Arc<FakeReader> {
    async fn find(&self, hash: &KeyHash, _now_ms: i64) -> Result<Reading, Fault> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let reading = Reading {
            head: self.head.load(Ordering::SeqCst),
            caller: self.callers.lock().unwrap().get(hash).cloned(),
        };
        tokio::task::yield_now().await;
        drop(self.gate.acquire().await.unwrap());
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.failing.load(Ordering::SeqCst) {
            return Err(DbErr::Custom("gone".to_owned()).into());
        }
        Ok(reading)
    }
}

struct World {
    clock: Arc<ManualClock>,
    reader: Arc<FakeReader>,
    floors: Arc<Floors>,
    lifecycle: Lifecycle,
    authenticator: Authenticator,
}

fn hasher() -> KeyHasher {
    KeyHasher::new(&MasterKey::from_bytes([1; 32]).subkey(Purpose::ApiKeyHash))
}

fn world_with(config: Config) -> World {
    let clock = ManualClock::at_ms(1_000_000);
    let reader = FakeReader::new();
    let floors = Arc::new(Floors::new(1_000));
    let lifecycle = Lifecycle::new();
    let authenticator = Authenticator::new(Parts {
        config,
        clock: clock.clone(),
        lifecycle: lifecycle.clone(),
        hasher: hasher(),
        reader: Arc::new(Arc::clone(&reader)),
        cache: State::memory(clock.clone()).cache,
        floors: Arc::clone(&floors),
        meters: Meters::new(&Metrics::new()),
    });
    World {
        clock,
        reader,
        floors,
        lifecycle,
        authenticator,
    }
}

fn world() -> World {
    world_with(Config::default())
}

fn random_key(seed: u64) -> SecretString {
    key::generate(&mut StdRng::seed_from_u64(seed))
}

impl World {
    fn add(&self, text: &SecretString, status: Status) {
        let hash = hasher().key(text.expose_secret());
        let terms = KeyTerms {
            tenant: "acme".to_owned(),
            name: "ci".to_owned(),
            group: "standard".to_owned(),
            user: String::new(),
            models: Vec::new(),
            expires_at_ms: None,
            limits: Limits::default(),
            allow_ips: Vec::new(),
            reject_unsupported: false,
            cost_center: String::new(),
            tags: std::collections::BTreeMap::new(),
            status,
        };
        let caller = Caller {
            key_id: "id".to_owned(),
            hash,
            terms,
            tenant: Tenant {
                name: "acme".to_owned(),
                status: Status::Active,
                prepaid: false,
                strict_hold: false,
                serve_without_billing: false,
                abandoned_free: false,
                log_content: false,
                limits: Limits::default(),
                routes: std::collections::BTreeMap::new(),
            },
            user: None,
            group: Group {
                name: "standard".to_owned(),
                status: Status::Active,
                allow_ips: Vec::new(),
                limits: Limits::default(),
                user_limits: Limits::default(),
                multiplier: TIMES_ONE,
            },
        };
        self.reader.callers.lock().unwrap().insert(hash, caller);
    }

    /// A change of the key commits and reaches us.
    fn change(&self, text: &SecretString, status: Status) {
        let seq = self.reader.head.fetch_add(1, Ordering::SeqCst) + 1;
        self.add(text, status);
        self.floors.raise("key", "acme", seq);
    }

    async fn ask(&self, text: &SecretString) -> Result<Principal, Miss> {
        self.authenticator.authenticate(text).await
    }
}

const UNAVAILABLE: Miss = Miss::Unavailable(Duration::from_secs(1));

fn key_status(answer: &Result<Principal, Miss>) -> i32 {
    answer.as_ref().unwrap().key_status
}

#[tokio::test]
async fn concurrent_misses_of_one_key_are_one_look_up_and_later_calls_none() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    let answers = join_all((0..100).map(|_| world.ask(&key))).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().unwrap().key_id == "id")
    );
    assert_eq!(world.ask(&key).await.unwrap().change_seq, 1);
    assert_eq!(world.reader.finds(), 1);
}

#[tokio::test]
async fn ten_thousand_random_keys_make_at_most_64_look_ups_at_once_and_starve_nobody() {
    let world = world();
    let known = random_key(0);
    world.add(&known, Status::Active);
    let keys: Vec<_> = (0..=10_000).map(random_key).collect();
    // The known key comes last, behind all the others.
    let answers = join_all(keys.iter().rev().map(|key| world.ask(key))).await;
    let (found, others) = answers.split_last().unwrap();
    assert!(found.is_ok());
    assert!(others.iter().all(|answer| *answer == Err(Miss::Unknown)));
    assert_eq!(world.reader.most.load(Ordering::SeqCst), 64);
    assert_eq!(world.reader.finds(), 10_001);
}

#[tokio::test]
async fn what_has_the_wrong_form_never_reaches_the_database() {
    let world = world();
    let mut mistyped = random_key(1).expose_secret().to_owned();
    mistyped.replace_range(10..11, if &mistyped[10..11] == "a" { "b" } else { "a" });
    for text in [mistyped.as_str(), "", "short", "' OR 1=1--"] {
        assert_eq!(
            world.ask(&SecretString::from(text)).await,
            Err(Miss::Unknown)
        );
    }
    assert_eq!(world.reader.finds(), 0);
}

#[tokio::test]
async fn an_unknown_key_is_remembered_until_something_changes() {
    let world = world();
    let key = random_key(1);
    assert_eq!(world.ask(&key).await, Err(Miss::Unknown));
    assert_eq!(world.ask(&key).await, Err(Miss::Unknown));
    assert_eq!(world.reader.finds(), 1);
    world.change(&key, Status::Active);
    assert!(world.ask(&key).await.is_ok());
}

#[tokio::test]
async fn a_failed_look_up_is_unavailable_and_is_not_remembered() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    world.reader.failing.store(true, Ordering::SeqCst);
    assert_eq!(world.ask(&key).await, Err(UNAVAILABLE));
    assert_eq!(world.ask(&random_key(2)).await, Err(UNAVAILABLE));
    world.reader.failing.store(false, Ordering::SeqCst);
    assert!(world.ask(&key).await.is_ok());
    assert_eq!(world.ask(&random_key(2)).await, Err(Miss::Unknown));
}

#[tokio::test]
async fn cached_callers_live_through_the_grace_when_the_database_is_away() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    assert!(world.ask(&key).await.is_ok());
    world.reader.failing.store(true, Ordering::SeqCst);
    world.clock.advance_ms(300_001);
    assert!(
        world.ask(&key).await.is_ok(),
        "past its life, within its grace"
    );
    let finds = world.reader.finds();
    assert_eq!(finds, 2, "the database was tried first");
    assert!(world.ask(&key).await.is_ok());
    assert_eq!(
        world.reader.finds(),
        finds,
        "it failed a moment ago: not tried again"
    );
    world.clock.advance_ms(299_998);
    assert!(world.ask(&key).await.is_ok(), "last moment of the grace");
    world.clock.advance_ms(1);
    assert_eq!(world.ask(&key).await, Err(UNAVAILABLE));
}

#[tokio::test]
async fn an_entry_past_its_life_is_read_again_while_the_database_is_there() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    assert!(world.ask(&key).await.is_ok());
    world.clock.advance_ms(300_000);
    // The feed was cut: nobody told of this change.
    world.add(&key, Status::Disabled);
    assert_eq!(key_status(&world.ask(&key).await), 2);
}

#[tokio::test]
async fn a_cached_entry_older_than_its_tenants_or_groups_change_is_refused() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    assert_eq!(key_status(&world.ask(&key).await), 1);
    world.change(&key, Status::Disabled);
    assert_eq!(key_status(&world.ask(&key).await), 2);
    let finds = world.reader.finds();
    world.floors.raise("tenant", "other", 100);
    assert_eq!(key_status(&world.ask(&key).await), 2);
    assert_eq!(
        world.reader.finds(),
        finds,
        "another tenant's change costs nothing"
    );
    world.floors.raise("group", "standard", 100);
    world.reader.failing.store(true, Ordering::SeqCst);
    assert_eq!(
        world.ask(&key).await,
        Err(UNAVAILABLE),
        "refused, also when the database is away"
    );
}

#[tokio::test]
async fn a_slow_reader_does_not_bring_a_stale_entry_back() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    world.reader.shut();
    let authenticator = world.authenticator.clone();
    let presented = key.clone();
    let slow = world.lifecycle.spawn("slow", async move {
        authenticator.authenticate(&presented).await
    });
    while world.reader.finds() == 0 {
        tokio::task::yield_now().await;
    }
    // Its snapshot is taken; now the key is disabled, and everyone knows.
    world.change(&key, Status::Disabled);
    world.reader.open();
    assert_eq!(key_status(&slow.await.unwrap()), 2);
    assert_eq!(key_status(&world.ask(&key).await), 2);
    assert_eq!(
        world.reader.finds(),
        2,
        "the slow one read again; the second found its entry"
    );
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_take_the_look_up_from_others() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    world.reader.shut();
    let leaving = world.ask(&key);
    tokio::select! {
        biased;
        _ = leaving => unreachable!("the gate is shut"),
        () = async { while world.reader.finds() == 0 { tokio::task::yield_now().await } } => {}
    }
    let staying = world.ask(&key);
    world.reader.open();
    assert!(staying.await.is_ok());
    assert_eq!(world.reader.finds(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_look_ups_are_bounded_in_number_and_time() {
    let world = world_with(Config {
        lookups: 1,
        lookup_queue: 2,
        ..Config::default()
    });
    world.reader.shut();
    let (first, second, third) = (random_key(1), random_key(2), random_key(3));
    let mut running = Box::pin(world.ask(&first));
    let mut waiting = Box::pin(world.ask(&second));
    assert!(futures_util::poll!(running.as_mut()).is_pending());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    assert_eq!(
        world.ask(&third).await,
        Err(UNAVAILABLE),
        "the queue is full"
    );
    assert_eq!(
        waiting.await,
        Err(UNAVAILABLE),
        "its turn did not come in time"
    );
    world.reader.open();
    assert_eq!(running.await, Err(Miss::Unknown));
}

#[tokio::test]
async fn an_entry_survives_its_encoding_and_a_foreign_one_is_none() {
    let world = world();
    let key = random_key(1);
    world.add(&key, Status::Active);
    let entry = Entry {
        read_at_ms: 5,
        principal: world.ask(&key).await.unwrap(),
    };
    assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    assert_eq!(
        Entry::decode(&bytes::Bytes::from_static(b"\x02 another layout")),
        None
    );
    assert_eq!(Entry::decode(&bytes::Bytes::new()), None);
}
