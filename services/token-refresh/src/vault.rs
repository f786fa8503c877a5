//! What the vault does: gives a forwarder a credential, and takes new ones from a catalogue.
//!
//! Each admin action is one transaction of records, audit row and change rows, after which the feed is woken.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use sea_orm::{ConnectionTrait, DbErr};
use secrecy::SecretString;
use switchboard_common::{
    audit,
    clock::SharedClock,
    db::Database,
    feed::{self, Feed},
    seal::{OpenError, Sealed, Sealer},
};
use switchboard_proto::common::v1::{Actor, AuditEntry};

use crate::{
    config::Config,
    domain::{
        plan::{self, Current, FILE, Step, Wanted},
        seal,
    },
    error::Fault,
    store::{self, Record},
};

/// What the vault works with. Clones share it.
#[derive(Clone)]
pub(crate) struct Vault {
    pub(crate) config: Config,
    pub(crate) database: Database,
    pub(crate) feed: Feed,
    pub(crate) clock: SharedClock,
    pub(crate) sealer: Sealer,
    pub(crate) random: Arc<Mutex<StdRng>>,
}

impl Vault {
    /// The newest usable generation of an account's credential. The caller compares it with the one that was refused: the same
    /// means that there is no newer one.
    pub(crate) async fn get(&self, account: &str) -> Result<(SecretString, u64), Fault> {
        let query = store::newest_of(self.database.reader(), account);
        let record = tokio::time::timeout(self.config.query_timeout, query)
            .await
            .map_err(|_| DbErr::Custom("the query took too long".to_owned()))??
            .ok_or_else(|| Fault::NotFound(account.to_owned()))?;
        if !record.active {
            return Err(Fault::Disabled(account.to_owned()));
        }
        let secret = self.open(&record).map_err(|source| Fault::Open {
            account: account.to_owned(),
            source,
        })?;
        Ok((secret, record.generation))
    }

    /// The first active record that another master key sealed: account and key id.
    pub(crate) async fn foreign(&self) -> Result<Option<(String, String)>, Fault> {
        let records = store::newest(self.database.reader()).await?;
        Ok(records
            .into_iter()
            .find(|record| record.active && record.sealed.key_id != self.sealer.key_id())
            .map(|record| (record.account, record.sealed.key_id)))
    }

    /// What an `apply` would do.
    pub(crate) async fn plan(&self, wanted: Vec<Wanted>) -> Result<Vec<Step>, Fault> {
        plan::validate(&wanted)?;
        self.compare(self.database.reader(), wanted).await
    }

    /// Makes the catalogue's credentials true. Nothing is written when they already are.
    pub(crate) async fn apply(
        &self,
        actor: &Actor,
        wanted: Vec<Wanted>,
    ) -> Result<Vec<Step>, Fault> {
        plan::validate(&wanted)?;
        let tx = self.database.begin().await?;
        store::lock(&tx).await?;
        let steps = self.compare(&tx, wanted).await?;
        if steps.is_empty() {
            tx.rollback().await?;
            return Ok(steps);
        }
        let now_ms = self.clock.now_ms();
        for step in &steps {
            match step {
                Step::Put {
                    account,
                    generation,
                    secret,
                    ..
                } => {
                    let record = Record {
                        account: account.clone(),
                        generation: *generation,
                        sealed: self.seal(account, *generation, secret)?,
                        active: true,
                        origin: FILE.to_owned(),
                        updated_at_ms: now_ms,
                    };
                    store::put(&tx, &record, self.config.generations).await?;
                }
                Step::Enable { account } => store::set_active(&tx, account, true, now_ms).await?,
                Step::Disable { account } => store::set_active(&tx, account, false, now_ms).await?,
            }
        }
        audit::append(&tx, now_ms, actor, "apply", &summary(&steps)).await?;
        let changes: Vec<_> = steps
            .iter()
            .map(|step| ("credential", step.account()))
            .collect();
        feed::append(&tx, now_ms, &changes).await?;
        tx.commit().await?;
        self.feed.wake();
        Ok(steps)
    }

    fn seal(&self, account: &str, generation: u64, secret: &SecretString) -> Result<Sealed, Fault> {
        let random = &mut *self.random.lock();
        seal::seal(&self.sealer, account, generation, secret, random)
            .map_err(|_| Fault::Seal(account.to_owned()))
    }

    fn open(&self, record: &Record) -> Result<SecretString, OpenError> {
        let Record {
            account,
            generation,
            sealed,
            ..
        } = record;
        seal::open(&self.sealer, account, *generation, sealed)
    }

    async fn compare(
        &self,
        db: &impl ConnectionTrait,
        wanted: Vec<Wanted>,
    ) -> Result<Vec<Step>, Fault> {
        let mut current = Vec::new();
        for record in store::newest(db).await? {
            let secret = match self.open(&record) {
                Ok(secret) => Some(secret),
                Err(OpenError::OtherKey { .. }) => None,
                Err(OpenError::Damaged) => {
                    tracing::error!(account = record.account, "stored credential is damaged");
                    None
                }
            };
            current.push(Current {
                account: record.account,
                generation: record.generation,
                active: record.active,
                origin: record.origin,
                secret,
            });
        }
        Ok(plan::plan(&current, wanted)?)
    }

    /// Every account's newest generation.
    pub(crate) async fn list(&self) -> Result<Vec<Record>, Fault> {
        store::newest(self.database.reader()).await
    }

    /// The newest audit rows; 0 means 100.
    pub(crate) async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Fault> {
        let limit = if limit == 0 { 100 } else { limit };
        Ok(audit::list(self.database.reader(), limit).await?)
    }
}

/// What an `apply` did, for the audit row; names only.
fn summary(steps: &[Step]) -> String {
    const MOST: usize = 200;
    let mut lines: Vec<String> = steps
        .iter()
        .take(MOST)
        .map(|step| {
            let (verb, detail) = step.told();
            let colon = if detail.is_empty() { "" } else { ": " };
            format!("{verb} credential {}{colon}{detail}", step.account())
        })
        .collect();
    if steps.len() > MOST {
        lines.push(format!("and {} more", steps.len() - MOST));
    }
    lines.join("; ")
}
