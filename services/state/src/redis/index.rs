//! Which tenants or pools the store may know something of: a set in its own hash slot.
//!
//! Names are added when this process first meets them, and again with every look, so that a store that lost its memory knows
//! them soon. They are never taken out: there are as many as the catalogue has.

use std::{collections::HashSet, sync::Arc};

use parking_lot::RwLock;

use super::link::{Arguments, Link};
use crate::error::Error;

/// One index.
pub(crate) struct Index {
    link: Arc<Link>,
    key: String,
    known: RwLock<HashSet<Box<str>>>,
}

impl Index {
    pub(crate) fn new(link: Arc<Link>, name: &str) -> Self {
        Self {
            key: format!("{}{{i}}:{name}", link.prefix),
            link,
            known: RwLock::default(),
        }
    }

    /// Adds a name; asks the store only when it is new to this process, and even when the breaker is open.
    pub(crate) async fn note(&self, name: &str) {
        if self.known.read().contains(name) {
            return;
        }
        let mut arguments = Arguments::default();
        arguments.add(name);
        let added = self
            .link
            .call_anyway::<Vec<String>>(&self.link.scripts.index, &[&self.key], &arguments)
            .await;
        if added.is_ok() {
            self.known.write().insert(name.into());
        }
    }

    /// All names, of all processes.
    pub(crate) async fn all(&self) -> Result<Vec<String>, Error> {
        let mut arguments = Arguments::default();
        for name in self.known.read().iter() {
            arguments.add(&**name);
        }
        arguments.add("");
        let mut names: Vec<String> = self
            .link
            .call(&self.link.scripts.index, &[&self.key], &arguments)
            .await?;
        names.retain(|name| !name.is_empty());
        Ok(names)
    }
}
