//! What was ended, for a while.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
};

use foldhash::fast::RandomState;

/// A set whose members leave after a fixed time.
#[derive(Debug)]
pub(crate) struct Tombstones<T> {
    members: HashSet<T, RandomState>,
    /// In the order of their ends, since all live equally long.
    ends: VecDeque<(i64, T)>,
}

impl<T> Default for Tombstones<T> {
    fn default() -> Self {
        Self {
            members: HashSet::default(),
            ends: VecDeque::new(),
        }
    }
}

impl<T: Copy + Eq + Hash> Tombstones<T> {
    /// Keeps `member` until `until_us`. One that is there keeps its end.
    pub(crate) fn add(&mut self, member: T, until_us: i64) {
        if self.members.insert(member) {
            self.ends.push_back((until_us, member));
        }
    }

    pub(crate) fn contains(&self, member: &T) -> bool {
        self.members.contains(member)
    }

    pub(crate) fn purge(&mut self, now_us: i64) {
        while let Some((until, member)) = self.ends.front() {
            if *until > now_us {
                return;
            }
            self.members.remove(member);
            self.ends.pop_front();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
