//! Wake-up hints.

use bytes::Bytes;
use futures_util::StreamExt;

use crate::bed::Bed;

pub async fn a_hint_reaches_all_listeners(bed: &Bed) {
    let hints = &bed.state.hints;
    let mut first = hints.subscribe("east");
    let mut second = hints.subscribe("east");
    let mut other = hints.subscribe("west");
    // The subscription comes to be beside us: say it until it is heard.
    let heard = async {
        for listener in [&mut first, &mut second] {
            while listener.next().await.is_some_and(|hint| hint != "free") {}
        }
    };
    let saying = async {
        loop {
            hints
                .publish("east", Bytes::from_static(b"free"))
                .await
                .unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = heard => {}
        () = saying => {}
    }
    hints
        .publish("west", Bytes::from_static(b"last"))
        .await
        .unwrap();
    while let Some(hint) = other.next().await {
        assert_ne!(hint, "free", "another channel's");
        if hint == "last" {
            return;
        }
    }
    panic!("the stream ended");
}
