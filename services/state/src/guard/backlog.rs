//! Ends that wait for the store.

use std::collections::VecDeque;

use parking_lot::Mutex;
use switchboard_common::ids::{RequestId, TenantName};

use crate::{admission::Release, purses::PurseValue};

/// One end.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Release {
        release: Release,
        for_good: bool,
    },
    Settle {
        tenant: TenantName,
        requests: Vec<RequestId>,
        values: Vec<PurseValue>,
    },
}

/// Bounded, oldest first; beyond the bound the oldest go.
pub(crate) struct Backlog {
    ends: Mutex<VecDeque<End>>,
    most: usize,
}

impl Backlog {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            ends: Mutex::default(),
            most,
        }
    }

    pub(crate) fn push(&self, end: End) {
        let mut ends = self.ends.lock();
        while ends.len() >= self.most {
            if ends.pop_front().is_none() {
                return;
            }
        }
        ends.push_back(end);
    }

    /// Puts back what could not be brought in.
    pub(crate) fn put_back(&self, unsent: Vec<End>) {
        let mut ends = self.ends.lock();
        for end in unsent.into_iter().rev() {
            if ends.len() >= self.most {
                return;
            }
            ends.push_front(end);
        }
    }

    /// Takes out at most `count`, oldest first.
    pub(crate) fn take(&self, count: usize) -> Vec<End> {
        let mut ends = self.ends.lock();
        let count = count.min(ends.len());
        ends.drain(..count).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.lock().len()
    }
}
