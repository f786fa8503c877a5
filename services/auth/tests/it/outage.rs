//! The database away, slow to come, or flooded (AUTH-5, AUTH-6, CASES B5).

use std::time::Duration;

use futures_util::future::join_all;
use rand::{SeedableRng as _, rngs::StdRng};
use secrecy::ExposeSecret as _;
use switchboard_auth::{Config, domain::key::generate};
use switchboard_common::{
    db::Database,
    error::{Failure, Reason},
};
use switchboard_migrations::{Owner, migrate};
use tonic::{Code, Status};

use crate::world::{OWN, Place, World, catalogue, eventually, key, reason};

fn assert_unavailable(status: &Status) {
    let failure = Failure::from_status(status);
    assert_eq!(
        (status.code(), failure.reason),
        (Code::Unavailable, Reason::Unavailable)
    );
    assert!(failure.retry_after.is_some());
}

#[tokio::test]
async fn cached_callers_go_on_and_others_get_503_while_the_database_is_away() {
    for place in Place::all("away") {
        let world = World::open(&place).await;
        let (cached, other) = (format!("{OWN}1"), format!("{OWN}2"));
        world
            .apply(catalogue(vec![key("a", &cached), key("b", &other)]))
            .await
            .unwrap();
        // Cached once every change has been seen.
        eventually("it is cached", || async {
            world.ask(&cached).await.unwrap();
            world
                .metrics
                .render()
                .contains("auth_answers_total{source=\"State\"")
        })
        .await;
        world
            .sql("ALTER TABLE api_key RENAME TO api_key_away")
            .await;
        assert!(world.ask(&cached).await.is_ok());
        for unknown in [other.as_str(), "own-key-that-nobody-knows-0123456789"] {
            assert_unavailable(&world.ask(unknown).await.unwrap_err());
        }
        world.clock.advance_ms(300_001);
        assert!(world.ask(&cached).await.is_ok(), "in its grace");
        world.clock.advance_ms(300_000);
        assert_unavailable(&world.ask(&cached).await.unwrap_err());
        world
            .sql("ALTER TABLE api_key_away RENAME TO api_key")
            .await;
        for known in [&cached, &other] {
            assert!(world.ask(known).await.is_ok());
        }
        let status = world
            .ask("own-key-that-nobody-knows-0123456789")
            .await
            .unwrap_err();
        assert_eq!(reason(&status), Reason::InvalidApiKey);
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn auth_waits_for_its_schema_and_says_so() {
    for place in Place::all("schema") {
        let database = Database::open(&place.config).await.unwrap();
        let world = World::start(&place, database.clone(), Config::default()).await;
        assert!(!world.component.ready());
        assert_unavailable(&world.ask(&format!("{OWN}1")).await.unwrap_err());
        migrate(database.writer(), Owner::Auth).await.unwrap();
        eventually("ready", || async { world.component.ready() }).await;
        world
            .apply(catalogue(vec![key("ci", &format!("{OWN}1"))]))
            .await
            .unwrap();
        eventually("the key is known", || async {
            world.ask(&format!("{OWN}1")).await.is_ok()
        })
        .await;
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_flood_of_random_keys_starves_nobody() {
    for place in Place::all("flood") {
        // A loaded test machine may be slow; that nobody waits too long is another test's. With no more look-ups at one time
        // than there are connections, none waits for one, which has a limit of its own.
        let patient = Config {
            lookups: 2,
            lookup_wait: Duration::from_secs(60),
            query_timeout: Duration::from_secs(60),
            ..Config::default()
        };
        let world = World::start(&place, place.database().await, patient).await;
        let own = format!("{OWN}1");
        world.apply(catalogue(vec![key("ci", &own)])).await.unwrap();
        let mut random = StdRng::seed_from_u64(99);
        let flood: Vec<String> = (0..10_000)
            .map(|_| generate(&mut random).expose_secret().to_owned())
            .collect();
        let strangers = join_all(flood.iter().map(|key| world.ask(key)));
        let (strangers, caller) = tokio::join!(strangers, world.ask(&own));
        assert!(caller.is_ok());
        for stranger in strangers {
            assert_eq!(reason(&stranger.unwrap_err()), Reason::InvalidApiKey);
        }
        assert!(world.ask(&own).await.is_ok());
        world.close().await;
        place.clear().await;
    }
}

#[tokio::test]
async fn a_setting_that_cannot_be_right_is_named() {
    let place = Place::embedded();
    let database = place.database().await;
    let state = switchboard_state::State::memory(switchboard_common::clock::ManualClock::at_ms(0));
    let error = switchboard_auth::Component::start(
        Config {
            lookups: 0,
            ..Config::default()
        },
        switchboard_auth::Deps {
            clock: switchboard_common::clock::ManualClock::at_ms(0),
            lifecycle: switchboard_common::lifecycle::Lifecycle::new(),
            metrics: switchboard_common::metrics::Metrics::new(),
            database,
            cache: state.cache,
            key_hash: switchboard_common::secret::MasterKey::from_bytes([1; 32])
                .subkey(switchboard_common::secret::Purpose::ApiKeyHash),
            admin_token: None,
            random: StdRng::seed_from_u64(1),
        },
    )
    .await
    .unwrap_err();
    assert_eq!(error.to_string(), "auth.lookups: must be above 0");
}
