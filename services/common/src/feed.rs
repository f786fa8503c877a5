//! The change feed (DESIGN §5): every admin transaction appends to its service's `change` table; services tail it and
//! stream it to watchers.
//!
//! The table is the truth, a wake-up is only a hint: a change reaches watchers also when the process that made it died
//! right after its commit. On PostgreSQL an advisory lock makes the order of `seq` the order of commits, so that a tail
//! never steps over a row that commits later.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::BoxStream};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde::{Deserialize, Serialize};
use switchboard_proto::common::v1::{Change, WatchChangesResponse};
use tokio::sync::{Notify, watch};
use tonic::{Status, Streaming};

use crate::{db::Database, lifecycle::Lifecycle};

/// How the feed is tailed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeedConfig {
    /// How often the table is looked at when no hint comes.
    #[serde(with = "crate::settings::duration")]
    pub poll: Duration,
    /// Changes in one message at most.
    pub batch: u32,
    /// How long a watcher waits before it connects again.
    #[serde(with = "crate::settings::duration")]
    pub reconnect: Duration,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(250),
            batch: 1_000,
            reconnect: Duration::from_millis(200),
        }
    }
}

/// Appends changes in the transaction that makes them and tells the last `seq`. `scope` and `id` as in `common.v1.Change`.
///
/// # Errors
/// The database's.
pub async fn append(
    tx: &impl ConnectionTrait,
    at_ms: i64,
    changes: &[(&str, &str)],
) -> Result<u64, DbErr> {
    let backend = tx.get_database_backend();
    if backend == DbBackend::Postgres {
        // Per schema: each owner has its own order.
        tx.execute_raw(Statement::from_string(
            backend,
            "SELECT pg_advisory_xact_lock(hashtextextended('change:' || current_schema(), 0))",
        ))
        .await?;
    }
    let mut last = 0;
    for (scope, id) in changes {
        let row = tx
            .query_one_raw(Statement::from_sql_and_values(
                backend,
                "INSERT INTO change (scope, id, at_ms) VALUES ($1, $2, $3) RETURNING seq",
                [(*scope).into(), (*id).into(), at_ms.into()],
            ))
            .await?;
        if let Some(row) = row {
            last = u64::try_from(row.try_get::<i64>("", "seq")?).unwrap_or(0);
        }
    }
    Ok(last)
}

/// The newest committed `seq`; 0 when nothing changed yet. Read it in the same transaction as the facts it is to date.
///
/// # Errors
/// The database's.
pub async fn head(db: &impl ConnectionTrait) -> Result<u64, DbErr> {
    let row = db
        .query_one_raw(Statement::from_string(
            db.get_database_backend(),
            "SELECT COALESCE(MAX(seq), 0) AS head FROM change",
        ))
        .await?;
    row.map_or(Ok(0), |row| {
        row.try_get::<i64>("", "head")
            .map(|seq| u64::try_from(seq).unwrap_or(0))
    })
}

async fn after(db: &impl ConnectionTrait, seq: u64, limit: u32) -> Result<Vec<Change>, DbErr> {
    let rows = db
        .query_all_raw(Statement::from_sql_and_values(
            db.get_database_backend(),
            "SELECT seq, scope, id FROM change WHERE seq > $1 ORDER BY seq LIMIT $2",
            [
                i64::try_from(seq).unwrap_or(i64::MAX).into(),
                i64::from(limit).into(),
            ],
        ))
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Change {
                seq: u64::try_from(row.try_get::<i64>("", "seq")?).unwrap_or(0),
                scope: row.try_get("", "scope")?,
                id: row.try_get("", "id")?,
            })
        })
        .collect()
}

/// A service's own tail of its own table. Clones share it.
#[derive(Clone, Debug)]
pub struct Feed {
    database: Database,
    config: FeedConfig,
    wake: Arc<Notify>,
    head: watch::Receiver<Option<u64>>,
}

impl Feed {
    /// Starts the tail. It survives the database's absence.
    #[must_use]
    pub fn start(database: Database, config: FeedConfig, lifecycle: &Lifecycle) -> Self {
        let wake = Arc::new(Notify::new());
        let (sender, receiver) = watch::channel(None);
        let stopping = lifecycle.stopping();
        let tail = {
            let (database, config, wake) = (database.clone(), config.clone(), Arc::clone(&wake));
            async move {
                let mut failing = false;
                loop {
                    match head(database.reader()).await {
                        Ok(seq) => {
                            failing = false;
                            sender.send_if_modified(|known| {
                                // `seq` never falls; a lagging read must not take it back.
                                let newer = known.is_none_or(|known| known < seq);
                                if newer {
                                    *known = Some(seq);
                                }
                                newer
                            });
                        }
                        Err(error) if !failing => {
                            failing = true;
                            tracing::warn!(%error, "change feed cannot be read; watchers live on their time-outs");
                        }
                        Err(_) => {}
                    }
                    tokio::select! {
                        () = stopping.cancelled() => break,
                        () = wake.notified() => {}
                        () = tokio::time::sleep(config.poll) => {}
                    }
                }
            }
        };
        lifecycle.spawn("change feed", tail);
        Self {
            database,
            config,
            wake,
            head: receiver,
        }
    }

    /// Looks at once: something was just committed here.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// The newest known `seq`; `None` until the table was read once.
    #[must_use]
    pub fn head(&self) -> Option<u64> {
        *self.head.borrow()
    }

    /// Sees each new head; for caches in the same service.
    #[must_use]
    pub fn heads(&self) -> watch::Receiver<Option<u64>> {
        self.head.clone()
    }

    /// Changes after `since` in commit order, for ever; `since` 0 starts at the present.
    #[must_use]
    pub fn watch(&self, since: u64) -> BoxStream<'static, Result<WatchChangesResponse, Status>> {
        let (database, batch) = (self.database.clone(), self.config.batch);
        let heads = self.head.clone();
        futures_util::stream::unfold(
            (heads, since, true),
            move |(mut heads, mut known, first)| {
                let database = database.clone();
                async move {
                    loop {
                        let head = *heads.borrow_and_update();
                        if let Some(head) = head {
                            if first && known == 0 {
                                known = head;
                            }
                            if first && known >= head {
                                // A watcher may know of a commit sooner than the tail does.
                                let head = match known > head {
                                    true => self::head(database.reader()).await.unwrap_or(head),
                                    false => head,
                                };
                                let answer = WatchChangesResponse {
                                    changes: Vec::new(),
                                    head,
                                };
                                // One that is ahead of the table has seen another database; it starts again from here.
                                return Some((Ok(answer), (heads, known.min(head), false)));
                            }
                            if known < head {
                                let answer = match after(database.reader(), known, batch).await {
                                    Ok(changes) => {
                                        known = changes.last().map_or(head, |last| last.seq);
                                        Ok(WatchChangesResponse { changes, head })
                                    }
                                    Err(error) => {
                                        tracing::warn!(%error, "change feed cannot be read");
                                        Err(Status::unavailable("the change feed cannot be read"))
                                    }
                                };
                                return Some((answer, (heads, known, false)));
                            }
                        }
                        // The sender lives as long as the service.
                        heads.changed().await.ok()?;
                    }
                }
            },
        )
        .boxed()
    }
}

/// What a follower learns.
#[derive(Debug)]
pub enum News<'a> {
    /// The feed is connected; everything up to this `seq` was delivered or lies before the start.
    Connected(u64),
    /// Committed changes, in order.
    Changes(&'a [Change]),
    /// The feed is cut; until it is back the time-outs of caches bound staleness.
    Lost,
}

/// Follows another service's feed for ever, through `connect(since)`.
pub fn follow<C, F, N>(
    name: &'static str,
    config: FeedConfig,
    lifecycle: &Lifecycle,
    mut connect: C,
    mut on_news: N,
) where
    C: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = Result<Streaming<WatchChangesResponse>, Status>> + Send,
    N: FnMut(News<'_>) + Send + 'static,
{
    let stopping = lifecycle.stopping();
    lifecycle.spawn(name, async move {
        let mut since = 0;
        let mut lost = false;
        let work = async {
            loop {
                match connect(since).await {
                    Ok(mut stream) => {
                        let mut connected = false;
                        while let Ok(Some(message)) = stream.message().await {
                            if !message.changes.is_empty() {
                                on_news(News::Changes(&message.changes));
                                since = message.changes.last().map_or(since, |last| last.seq);
                            } else {
                                since = message.head;
                            }
                            if !connected {
                                connected = true;
                                if lost {
                                    tracing::info!(feed = name, "change feed is back");
                                }
                                lost = false;
                                on_news(News::Connected(since));
                            }
                        }
                        on_news(News::Lost);
                    }
                    Err(error) if !lost => {
                        tracing::warn!(feed = name, code = ?error.code(), "change feed cannot be reached");
                        on_news(News::Lost);
                    }
                    Err(_) => {}
                }
                lost = true;
                tokio::time::sleep(config.reconnect).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stopping.cancelled() => {}
        }
    });
}
