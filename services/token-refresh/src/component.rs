//! Puts the vault together; the only file that knows all layers.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use switchboard_common::{
    clock::SharedClock, db::Database, feed::Feed, grpc::MAX_MESSAGE, lifecycle::Lifecycle,
    metrics::Metrics, seal::Sealer, secret::SubKey,
};
use switchboard_proto::credentials::v1::{
    credentials_admin_server::{CredentialsAdmin, CredentialsAdminServer},
    credentials_server::{Credentials, CredentialsServer},
};

use crate::{config::Config, error::Error, grpc::Service, metrics::Meters, vault::Vault};

/// What the vault is given.
pub struct Deps {
    /// Time of day.
    pub clock: SharedClock,
    /// Life of its tasks.
    pub lifecycle: Lifecycle,
    /// Where it counts.
    pub metrics: Metrics,
    /// The vault's own facts.
    pub database: Database,
    /// Sub-key of purpose `Vault`; nobody else has it.
    pub vault_key: SubKey,
    /// Where nonces come from; seeded by the system.
    pub random: StdRng,
}

impl fmt::Debug for Deps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deps").finish_non_exhaustive()
    }
}

/// The vault, running. Clones share it.
#[derive(Clone)]
pub struct Component {
    service: Service,
    ready: Arc<AtomicBool>,
}

impl fmt::Debug for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Component")
            .field("ready", &self.ready())
            .finish_non_exhaustive()
    }
}

impl Component {
    /// Starts the vault. With its schema in reach it is ready when this returns; else it becomes ready as soon as the schema
    /// appears.
    ///
    /// # Errors
    /// A setting that cannot be right, or a master key that is not the one with which the stored credentials were sealed.
    pub async fn start(config: Config, deps: Deps) -> Result<Self, Error> {
        config.check()?;
        let feed = Feed::start(deps.database.clone(), config.feed.clone(), &deps.lifecycle);
        let poll = config.feed.poll;
        let vault = Vault {
            config,
            database: deps.database,
            feed,
            clock: deps.clock,
            sealer: Sealer::new(&deps.vault_key),
            random: Arc::new(Mutex::new(deps.random)),
        };
        let ready = Arc::new(AtomicBool::new(false));
        match vault.foreign().await {
            Ok(None) => ready.store(true, Ordering::Release),
            Ok(Some((account, stored))) => return Err(wrong_key(&vault, account, stored)),
            Err(fault) => {
                tracing::warn!(error = %fault, "credential database is not usable yet; waiting for it");
                let (waiting, ready) = (vault.clone(), Arc::clone(&ready));
                let stopping = deps.lifecycle.stopping();
                deps.lifecycle.spawn("credential database", async move {
                    let mut told = false;
                    let open = async {
                        loop {
                            tokio::time::sleep(poll).await;
                            match waiting.foreign().await {
                                Ok(None) => return ready.store(true, Ordering::Release),
                                Ok(Some((account, stored))) if !told => {
                                    told = true;
                                    let error = wrong_key(&waiting, account, stored);
                                    tracing::error!(%error, "vault stays closed");
                                }
                                Ok(Some(_)) | Err(_) => {}
                            }
                        }
                    };
                    tokio::select! {
                        () = open => {}
                        () = stopping.cancelled() => {}
                    }
                });
            }
        }
        Ok(Self {
            service: Service {
                vault,
                meters: Meters::new(&deps.metrics),
            },
            ready,
        })
    }

    /// Whether credentials can be given.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// `switchboard.credentials.v1.Credentials`; it answers forwarders alone.
    pub fn server(&self) -> CredentialsServer<impl Credentials + Clone + use<>> {
        CredentialsServer::new(self.service.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// `switchboard.credentials.v1.CredentialsAdmin`.
    pub fn admin_server(&self) -> CredentialsAdminServer<impl CredentialsAdmin + Clone + use<>> {
        CredentialsAdminServer::new(self.service.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }
}

fn wrong_key(vault: &Vault, account: String, stored: String) -> Error {
    Error::MasterKey {
        account,
        stored,
        ours: vault.sealer.key_id().to_owned(),
    }
}
