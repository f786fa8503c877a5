//! Auth's second cache level.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use switchboard_state::cache::CacheEntry;

use crate::bed::Bed;

fn entry(seq: u64) -> CacheEntry {
    CacheEntry {
        // Every byte: values are not text.
        value: Bytes::from((0..=255).collect::<Vec<u8>>()),
        seq,
        scopes: vec!["tenant/acme".into(), "group/gold".into()],
    }
}

const LONG: Duration = Duration::from_secs(60);

pub async fn entries_live_for_their_time(bed: &Bed) {
    let cache = &bed.state.cache;
    assert_eq!(cache.get("hash").await.unwrap(), None);
    assert!(cache.put("hash", &entry(1), LONG).await.unwrap());
    assert_eq!(cache.get("hash").await.unwrap(), Some(entry(1)));
    cache.remove("hash").await.unwrap();
    assert_eq!(cache.get("hash").await.unwrap(), None);
    let bare = CacheEntry {
        scopes: vec![],
        value: Bytes::new(),
        seq: 0,
    };
    assert!(
        cache
            .put("brief", &bare, Duration::from_secs(1))
            .await
            .unwrap()
    );
    assert_eq!(cache.get("brief").await.unwrap(), Some(bare));
    bed.until("it ends", || async {
        cache.get("brief").await.unwrap().is_none()
    })
    .await;
}

pub async fn an_entry_older_than_a_floor_is_refused_both_ways(bed: &Bed) {
    let cache = &bed.state.cache;
    let gold: Arc<str> = "group/gold".into();
    assert!(cache.put("hash", &entry(5), LONG).await.unwrap());
    cache
        .raise_floor(std::slice::from_ref(&gold), 6)
        .await
        .unwrap();
    assert_eq!(cache.get("hash").await.unwrap(), None);
    assert!(
        !cache.put("hash", &entry(5), LONG).await.unwrap(),
        "a slow reader"
    );
    assert!(cache.put("hash", &entry(6), LONG).await.unwrap());
    cache.raise_floor(&[gold], 2).await.unwrap();
    assert!(
        !cache.put("other", &entry(5), LONG).await.unwrap(),
        "floors never fall"
    );
    cache
        .raise_floor(&["tenant/other".into()], 9)
        .await
        .unwrap();
    assert_eq!(cache.get("hash").await.unwrap(), Some(entry(6)));
}
