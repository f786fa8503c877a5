//! Admin actions: each one transaction of facts, audit row and change rows, after which the feed is woken (ADM-4, DESIGN §5).
//!
//! Admin transactions run one after the other, so that a plan is made on what it is applied to. Secrets are made here and
//! leave once, in the answer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::{
    audit,
    clock::SharedClock,
    db::Database,
    feed::{self, Feed},
    ids::KeyId,
};
use switchboard_proto::{
    auth::v1 as proto,
    common::v1::{Actor, AuditEntry},
};

use crate::{
    config::Config,
    domain::{
        identity::{Key, KeySecret, Origin, Status, Tenant, User},
        key::{self, KeyHasher},
        plan::{self, Difference, Plan, Terms},
        validate::{self, Draft, Fragment, KeyDraft, NewKey, Problem},
    },
    error::Fault,
    lookup::Invalidation,
    store,
};

/// Longest detail of an audit row, characters.
const DETAIL: usize = 16_000;

/// What admin actions work with. Clones share it.
#[derive(Clone)]
pub(crate) struct Administration {
    pub(crate) config: Config,
    pub(crate) database: Database,
    pub(crate) feed: Feed,
    pub(crate) invalidation: Invalidation,
    pub(crate) clock: SharedClock,
    pub(crate) hasher: KeyHasher,
    pub(crate) random: Arc<Mutex<StdRng>>,
}

/// A key that was just made.
#[derive(Debug)]
pub(crate) struct Issued {
    tenant: String,
    name: String,
    key_id: String,
    /// `None`: the operator brought its own.
    secret: Option<SecretString>,
}

impl From<Issued> for proto::IssuedKey {
    fn from(issued: Issued) -> Self {
        Self {
            tenant: issued.tenant,
            name: issued.name,
            key_id: issued.key_id,
            secret: issued
                .secret
                .map_or_else(String::new, |secret| secret.expose_secret().to_owned()),
        }
    }
}

impl Administration {
    /// What callers are told to wait when the database is away.
    pub(crate) fn retry_after(&self) -> Duration {
        self.config.retry_after
    }

    /// The name of the admin whose token this is.
    pub(crate) async fn authenticate(&self, token: &SecretString) -> Result<String, Fault> {
        let presented = self.hasher.admin_token(token.expose_secret());
        let tokens = store::admin_tokens(self.database.reader()).await?;
        // Every stored token is compared, whichever matches.
        let mut name = None;
        for (candidate, hash) in tokens {
            if hash.matches(&presented) {
                name = Some(candidate);
            }
        }
        name.ok_or(Fault::Token)
    }

    /// Makes this token the bootstrap admin's; one audit row when it was another.
    pub(crate) async fn set_bootstrap_token(&self, token: &SecretString) -> Result<(), Fault> {
        const NAME: &str = "bootstrap";
        let hash = self.hasher.admin_token(token.expose_secret());
        let tx = self.database.begin().await?;
        store::lock(&tx).await?;
        let stored = store::admin_tokens(&tx).await?;
        if stored
            .iter()
            .any(|(name, known)| name == NAME && known.matches(&hash))
        {
            return Ok(tx.rollback().await?);
        }
        let now_ms = self.clock.now_ms();
        store::put_admin_token(&tx, now_ms, NAME, &hash).await?;
        let actor = Actor {
            name: "system".to_owned(),
            reason: "start".to_owned(),
        };
        audit::append(&tx, now_ms, &actor, "admin_token.set", NAME).await?;
        Ok(tx.commit().await?)
    }

    /// What an `apply` would do.
    pub(crate) async fn plan(&self, draft: Draft) -> Result<Vec<Difference>, Fault> {
        let fragment = validate::fragment(draft, &self.hasher)?;
        let plan = self.compare(self.database.reader(), fragment).await?;
        Ok(plan.differences)
    }

    /// Makes the catalogue's access side true. Nothing is written when it already is.
    pub(crate) async fn apply(
        &self,
        actor: &Actor,
        draft: Draft,
    ) -> Result<(Vec<Difference>, Vec<Issued>), Fault> {
        let fragment = validate::fragment(draft, &self.hasher)?;
        let tx = self.database.begin().await?;
        store::lock(&tx).await?;
        let plan = self.compare(&tx, fragment).await?;
        if plan.is_empty() {
            tx.rollback().await?;
            return Ok((Vec::new(), Vec::new()));
        }
        let now_ms = self.clock.now_ms();
        store::put_groups(&tx, now_ms, &plan.groups).await?;
        store::put_tenants(&tx, now_ms, &plan.tenants).await?;
        store::put_users(&tx, now_ms, &plan.users).await?;
        store::replace_keys(&tx, now_ms, &plan.keys, &self.hasher).await?;
        let mut issued = Vec::new();
        for key in plan.new_keys {
            let brought = key.secret.is_some();
            let made = self.insert(&tx, now_ms, key, Origin::File).await?;
            if !brought {
                issued.push(made);
            }
        }
        let changes: Vec<(&str, &str)> = plan
            .changes
            .iter()
            .map(|(scope, id)| (*scope, id.as_str()))
            .collect();
        audit::append(&tx, now_ms, actor, "apply", &summary(&plan.differences)).await?;
        self.commit(tx, now_ms, &changes).await?;
        Ok((plan.differences, issued))
    }

    async fn compare(&self, db: &impl ConnectionTrait, fragment: Fragment) -> Result<Plan, Fault> {
        let names: Vec<(String, String)> = fragment
            .keys
            .iter()
            .map(|key| (key.terms.tenant.clone(), key.terms.name.clone()))
            .collect();
        let hashes: Vec<_> = fragment
            .keys
            .iter()
            .filter_map(|key| key.secret.as_ref().map(|secret| secret.hash))
            .collect();
        let stored = store::snapshot(db, &names, &hashes).await?;
        let terms = Terms {
            now_ms: self.clock.now_ms(),
            overlap_ms: i64::try_from(self.config.rotation_overlap.as_millis()).unwrap_or(i64::MAX),
            hasher: &self.hasher,
        };
        Ok(plan::plan(&stored, fragment, &terms)?)
    }

    /// Makes one key.
    pub(crate) async fn create_key(&self, actor: &Actor, draft: KeyDraft) -> Result<Issued, Fault> {
        let key = validate::new_key("key".to_owned(), draft, &self.hasher)?;
        let now_ms = self.clock.now_ms();
        if key.terms.expires_at_ms.is_some_and(|at| at <= now_ms) {
            return Err(Problem::new("key.expires_at_ms", "lies in the past").into());
        }
        let tx = self.database.begin().await?;
        store::lock(&tx).await?;
        self.check_new(&tx, &key).await?;
        let tenant = key.terms.tenant.clone();
        let issued = self.insert(&tx, now_ms, key, Origin::Admin).await?;
        let detail = format!("{}/{} ({})", issued.tenant, issued.name, issued.key_id);
        audit::append(&tx, now_ms, actor, "key.create", &detail).await?;
        self.commit(tx, now_ms, &[("key", &tenant)]).await?;
        Ok(issued)
    }

    async fn check_new(&self, tx: &DatabaseTransaction, key: &NewKey) -> Result<(), Fault> {
        let terms = &key.terms;
        if store::tenant(tx, &terms.tenant).await?.is_none() {
            return Err(
                Problem::new("tenant", format!("unknown tenant `{}`", terms.tenant)).into(),
            );
        }
        let groups = store::groups(tx).await?;
        let active: BTreeSet<&str> = groups
            .iter()
            .filter(|group| group.status == Status::Active)
            .map(|group| group.name.as_str())
            .collect();
        plan::known_group(&key.field, terms, &active)?;
        if !terms.user.is_empty() {
            let users = store::users(tx, &terms.tenant).await?;
            if !users.iter().any(|user| user.email == terms.user) {
                return Err(plan::unknown_user(&key.field, terms).into());
            }
        }
        if store::key_by_name(tx, &terms.tenant, &terms.name)
            .await?
            .is_some()
        {
            return Err(Fault::Conflict(Problem::new(
                "key.name",
                format!(
                    "tenant `{}` already has a key `{}`; choose another name",
                    terms.tenant, terms.name
                ),
            )));
        }
        if let Some(secret) = &key.secret
            && store::hash_taken(tx, &secret.hash).await?
        {
            return Err(Fault::Conflict(Problem::new(
                "key.secret",
                "is already that of another key; each key needs its own",
            )));
        }
        Ok(())
    }

    async fn insert(
        &self,
        tx: &DatabaseTransaction,
        now_ms: i64,
        key: NewKey,
        origin: Origin,
    ) -> Result<Issued, Fault> {
        let (secret, shown) = match key.secret {
            Some(secret) => (secret, None),
            None => {
                let text = key::generate(&mut *self.random.lock());
                let secret = KeySecret {
                    hash: self.hasher.key(text.expose_secret()),
                    prefix: key::shown(text.expose_secret()),
                };
                (secret, Some(text))
            }
        };
        let key = Key {
            id: KeyId::generate(now_ms).into(),
            disabled_by: (key.terms.status == Status::Disabled).then_some(origin),
            terms: key.terms,
            secret,
            previous: None,
            origin,
            created_at_ms: now_ms,
        };
        store::insert_key(tx, now_ms, &key).await?;
        Ok(Issued {
            tenant: key.terms.tenant,
            name: key.terms.name,
            key_id: key.id,
            secret: shown,
        })
    }

    /// Keys of a tenant, or all, and the time at which they are looked at.
    pub(crate) async fn keys(&self, tenant: &str) -> Result<(Vec<Key>, i64), Fault> {
        Ok((
            store::keys(self.database.reader(), tenant).await?,
            self.clock.now_ms(),
        ))
    }

    /// Disables a key, by its id or as tenant/name. A file cannot re-enable it with the same secret.
    pub(crate) async fn disable_key(
        &self,
        actor: &Actor,
        which: &str,
    ) -> Result<(Key, i64), Fault> {
        let tx = self.database.begin().await?;
        store::lock(&tx).await?;
        let found = match which.split_once('/') {
            Some((tenant, name)) => store::key_by_name(&tx, tenant, name).await?,
            None => store::key_by_id(&tx, which).await?,
        };
        let mut key = found.ok_or_else(|| {
            // A whole key given by mistake must not come back in an error or reach a log.
            let shown: String = if key::looks_issued(which) {
                key::shown(which) + "…"
            } else {
                which.chars().take(200).collect()
            };
            Fault::NotFound(format!(
                "there is no key `{shown}`; expected a key's id, or tenant/name"
            ))
        })?;
        let now_ms = self.clock.now_ms();
        if key.disabled_by == Some(Origin::Admin) {
            tx.rollback().await?;
            return Ok((key, now_ms));
        }
        key.terms.status = Status::Disabled;
        key.disabled_by = Some(Origin::Admin);
        key.previous = None;
        store::replace_keys(&tx, now_ms, std::slice::from_ref(&key), &self.hasher).await?;
        let detail = format!("{}/{} ({})", key.terms.tenant, key.terms.name, key.id);
        audit::append(&tx, now_ms, actor, "key.disable", &detail).await?;
        let tenant = key.terms.tenant.clone();
        self.commit(tx, now_ms, &[("key", &tenant)]).await?;
        Ok((key, now_ms))
    }

    /// A tenant, its people, how many keys it has.
    pub(crate) async fn tenant(&self, name: &str) -> Result<(Tenant, Vec<User>, u64), Fault> {
        let db = self.database.reader();
        let tenant = store::tenant(db, name)
            .await?
            .ok_or_else(|| Fault::NotFound(format!("there is no tenant `{name}`")))?;
        Ok((
            tenant,
            store::users(db, name).await?,
            store::key_count(db, name).await?,
        ))
    }

    /// The newest audit rows; 0 means 100.
    pub(crate) async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Fault> {
        let limit = if limit == 0 { 100 } else { limit };
        Ok(audit::list(self.database.reader(), limit).await?)
    }

    /// The last statement takes the feed's lock, so that it is held briefly.
    async fn commit(
        &self,
        tx: DatabaseTransaction,
        now_ms: i64,
        changes: &[(&str, &str)],
    ) -> Result<(), Fault> {
        let seq = feed::append(&tx, now_ms, changes).await?;
        tx.commit().await?;
        // Other processes learn it from the feed; this one does not answer before it obeys.
        let changes: Vec<_> = changes
            .iter()
            .map(|(scope, id)| (*scope, *id, seq))
            .collect();
        self.invalidation.raise(&changes).await;
        self.feed.wake();
        Ok(())
    }
}

/// What an `apply` did, for the audit row.
fn summary(differences: &[Difference]) -> String {
    let mut text = String::new();
    for (at, difference) in differences.iter().enumerate() {
        let line = format!(
            "{} {} {}",
            difference.verb(),
            difference.section,
            difference.name
        );
        if text.len() + line.len() + difference.detail().len() > DETAIL {
            let left = differences.len() - at;
            text.push_str(&format!("; and {left} more"));
            break;
        }
        if at > 0 {
            text.push_str("; ");
        }
        text.push_str(&line);
        if !difference.detail().is_empty() {
            text.push_str(": ");
            text.push_str(difference.detail());
        }
    }
    text
}
