//! The current catalogue, followed from the scheduler for ever.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use switchboard_common::{grpc::Rpc, lifecycle::Lifecycle};
use switchboard_proto::scheduler::v1::{WatchCatalogueRequest, scheduler_client::SchedulerClient};
use tokio::sync::watch;

use crate::domain::catalogue::Catalogue;

/// The current catalogue. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    current: Arc<ArcSwapOption<Catalogue>>,
    version: watch::Receiver<u64>,
}

impl Supply {
    /// Follows the scheduler until the lifecycle stops.
    pub(crate) fn follow(
        mut scheduler: SchedulerClient<Rpc>,
        reconnect: Duration,
        lifecycle: &Lifecycle,
    ) -> Self {
        let current = Arc::new(ArcSwapOption::empty());
        let (sender, version) = watch::channel(0);
        let stopping = lifecycle.stopping();
        let store = Arc::clone(&current);
        let work = async move {
            let mut silent = false;
            loop {
                let since = *sender.borrow();
                match scheduler
                    .watch_catalogue(WatchCatalogueRequest { since })
                    .await
                {
                    Ok(stream) => {
                        silent = false;
                        let mut stream = stream.into_inner();
                        while let Ok(Some(snapshot)) = stream.message().await {
                            let version = snapshot.version;
                            store.store(Some(Arc::new(Catalogue::new(snapshot))));
                            // Before the first apply there is nothing to tell of.
                            if version > 0 {
                                tracing::info!(catalogue.version = version, "catalogue loaded");
                            }
                            sender.send_replace(version);
                        }
                    }
                    Err(error) if !silent => {
                        silent = true;
                        tracing::warn!(code = ?error.code(), "catalogue cannot be followed; trying on with what is known");
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(reconnect).await;
            }
        };
        lifecycle.spawn("catalogue", async move {
            tokio::select! {
                () = work => {}
                () = stopping.cancelled() => {}
            }
        });
        Self { current, version }
    }

    /// The current version; `None` before the first one came.
    pub(crate) fn current(&self) -> Option<Arc<Catalogue>> {
        self.current.load_full()
    }

    /// Sees each version's number; 0 before the first one.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.clone()
    }
}
