//! Sheets by version, in memory: they never change.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use sea_orm::DbErr;
use switchboard_proto::scheduler::v1::Rates;

use crate::store::Store;

/// Rates by version. Bounded: when it is full it starts again.
#[derive(Clone, Debug)]
pub(crate) struct Sheets {
    store: Store,
    known: Arc<RwLock<HashMap<u64, Arc<Rates>>>>,
    most: usize,
}

impl Sheets {
    pub(crate) fn new(store: Store, most: usize) -> Self {
        Self {
            store,
            known: Arc::default(),
            most,
        }
    }

    /// What is in memory.
    pub(crate) fn known(&self, version: u64) -> Option<Arc<Rates>> {
        self.known.read().get(&version).cloned()
    }

    /// The sheet; absent when no sheet ever had this version (0: none was pinned).
    pub(crate) async fn get(&self, version: u64) -> Result<Option<Arc<Rates>>, DbErr> {
        if version == 0 {
            return Ok(None);
        }
        if let Some(rates) = self.known(version) {
            return Ok(Some(rates));
        }
        let Some(rates) = self.store.rates(version).await? else {
            return Ok(None);
        };
        let rates = Arc::new(rates);
        let mut known = self.known.write();
        if known.len() >= self.most {
            known.clear();
        }
        known.insert(version, Arc::clone(&rates));
        Ok(Some(rates))
    }
}
