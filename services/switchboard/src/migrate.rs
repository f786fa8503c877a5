//! Schema migrations as a job of their own: what runs before a split deployment. The embedded default migrates itself.

use switchboard_common::db::{Database, DatabaseConfig};
use switchboard_migrations::Owner;

use crate::settings::redacted;

/// Why a schema is not up to date.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be opened.
    #[error("the {owner} database at {place} cannot be opened: {source}")]
    Open {
        /// Whose.
        owner: Owner,
        /// Its file, or its URL without the password.
        place: String,
        /// The cause.
        source: sea_orm::DbErr,
    },
    /// A migration failed; nothing of it is left.
    #[error(transparent)]
    Migrate(#[from] switchboard_migrations::Error),
}

impl Error {
    pub(crate) fn closed(config: &DatabaseConfig, owner: Owner, source: sea_orm::DbErr) -> Self {
        let place = match config {
            DatabaseConfig::Sqlite { path, .. } => path.display().to_string(),
            DatabaseConfig::Postgres { url, .. } => redacted(url),
        };
        Self::Open {
            owner,
            place,
            source,
        }
    }
}

/// Opens an owner's database and brings its schema up to date.
///
/// # Errors
/// It cannot be opened or migrated.
pub async fn open(config: &DatabaseConfig, owner: Owner) -> Result<Database, Error> {
    let closed = |source| Error::closed(config, owner, source);
    let database = Database::open(config).await.map_err(closed)?;
    // A pool opens no connection before it is asked for one.
    database.writer().ping().await.map_err(closed)?;
    switchboard_migrations::migrate(database.writer(), owner).await?;
    Ok(database)
}

/// Brings every owner's schema in a PostgreSQL database up to date. Safe to run many times and at once.
///
/// # Errors
/// The first that fails.
pub async fn run(settings: &crate::settings::Settings) -> Result<(), Error> {
    for owner in Owner::ALL {
        let config = DatabaseConfig::Postgres {
            url: settings.database.url.clone(),
            schema: owner.name().replace('-', "_"),
            max_connections: 2,
        };
        open(&config, owner).await?.close().await;
    }
    Ok(())
}
