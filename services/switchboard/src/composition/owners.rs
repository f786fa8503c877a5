//! The four services that have facts: auth, scheduler, token-refresh, billing.

use rand::{SeedableRng as _, rngs::StdRng};
use switchboard_common::{
    db::Database,
    grpc::{Role, local},
    lifecycle::Lifecycle,
    metrics::Metrics,
    probes::Readiness,
    secret::Purpose,
};
use switchboard_migrations::Owner;
use tonic::service::Routes;

use super::{Error, Ground};
use crate::{apply::AdminClients, migrate, settings::redacted};

/// Those of the four that run in this process.
#[derive(Default)]
pub struct Owners {
    /// Identity.
    pub auth: Option<switchboard_auth::Component>,
    /// Catalogue and choice.
    pub scheduler: Option<switchboard_scheduler::Component>,
    /// The vault.
    pub token_refresh: Option<switchboard_token_refresh::Component>,
    /// Money.
    pub billing: Option<switchboard_billing::Component>,
    databases: Vec<Database>,
}

impl std::fmt::Debug for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owners")
    }
}

impl Owners {
    /// Starts those among `roles`. SQLite files are migrated here; PostgreSQL by its own job.
    ///
    /// # Errors
    /// The first that cannot start.
    pub async fn start(
        ground: &Ground,
        roles: &[Role],
        life: &Lifecycle,
        metrics: &mut Vec<Metrics>,
    ) -> Result<Self, Error> {
        let mut owners = Self::default();
        for role in roles {
            let owner = match role {
                Role::Auth => Owner::Auth,
                Role::Scheduler => Owner::Scheduler,
                Role::TokenRefresh => Owner::TokenRefresh,
                Role::Billing => Owner::Billing,
                Role::Edge | Role::Forwarder => continue,
            };
            let database = open(ground, owner).await?;
            owners.databases.push(database.clone());
            let own = Metrics::new();
            metrics.push(own.clone());
            owners.start_one(ground, *role, database, own, life).await?;
        }
        Ok(owners)
    }

    async fn start_one(
        &mut self,
        ground: &Ground,
        role: Role,
        database: Database,
        metrics: Metrics,
        life: &Lifecycle,
    ) -> Result<(), Error> {
        let settings = &ground.settings;
        let clock = ground.clock.clone();
        let lifecycle = life.clone();
        let failed = Error::service(role);
        match role {
            Role::Auth => {
                let deps = switchboard_auth::Deps {
                    clock,
                    lifecycle,
                    metrics,
                    database,
                    cache: ground.state.cache.clone(),
                    key_hash: ground.master.subkey(Purpose::ApiKeyHash),
                    admin_token: ground.admin_token.clone(),
                    random: system_random(),
                };
                let started = switchboard_auth::Component::start(settings.auth.clone(), deps).await;
                self.auth = Some(started.map_err(|error| failed(error.into()))?);
            }
            Role::Scheduler => {
                let deps = switchboard_scheduler::Deps {
                    clock,
                    lifecycle,
                    metrics,
                    database,
                    state: ground.state.clone(),
                    lease_ttl: settings.state.lease_ttl,
                };
                let started =
                    switchboard_scheduler::Component::start(settings.scheduler.clone(), deps).await;
                self.scheduler = Some(started.map_err(|error| failed(error.into()))?);
            }
            Role::TokenRefresh => {
                let deps = switchboard_token_refresh::Deps {
                    clock,
                    lifecycle,
                    metrics,
                    database,
                    vault_key: ground.master.subkey(Purpose::Vault),
                    random: system_random(),
                };
                let started = switchboard_token_refresh::Component::start(
                    settings.token_refresh.clone(),
                    deps,
                )
                .await;
                self.token_refresh = Some(started.map_err(|error| failed(error.into()))?);
            }
            Role::Billing => {
                let deps = switchboard_billing::Deps {
                    clock,
                    lifecycle,
                    metrics,
                    database,
                    state: ground.state.clone(),
                };
                let started =
                    switchboard_billing::Component::start(settings.billing.clone(), deps).await;
                self.billing = Some(started.map_err(|error| failed(error.into()))?);
            }
            Role::Edge | Role::Forwarder => {}
        }
        Ok(())
    }

    /// Adds their conditions of readiness.
    pub fn require(&self, readiness: &Readiness) {
        if let Some(auth) = self.auth.clone() {
            readiness.require("auth", move || auth.ready());
        }
        if let Some(scheduler) = self.scheduler.clone() {
            readiness.require("scheduler", move || scheduler.ready());
        }
        if let Some(vault) = self.token_refresh.clone() {
            readiness.require("token-refresh", move || vault.ready());
        }
        if let Some(billing) = self.billing.clone() {
            readiness.require("billing", move || billing.ready());
        }
    }

    /// Adds their gRPC services to a listener's.
    #[must_use]
    pub fn add_to(&self, mut routes: Routes) -> Routes {
        if let Some(auth) = &self.auth {
            routes = routes
                .add_service(auth.server())
                .add_service(auth.admin_server());
        }
        if let Some(scheduler) = &self.scheduler {
            routes = routes
                .add_service(scheduler.server())
                .add_service(scheduler.admin_server());
        }
        if let Some(vault) = &self.token_refresh {
            routes = routes
                .add_service(vault.server())
                .add_service(vault.admin_server());
        }
        if let Some(billing) = &self.billing {
            routes = routes
                .add_service(billing.server())
                .add_service(billing.admin_server());
        }
        routes
    }

    /// Clients of all admin services, where all four run here.
    #[must_use]
    pub fn admin(&self) -> Option<AdminClients> {
        Some(AdminClients::new(
            local(self.auth.as_ref()?.admin_server(), Role::Edge),
            local(self.scheduler.as_ref()?.admin_server(), Role::Edge),
            local(self.token_refresh.as_ref()?.admin_server(), Role::Edge),
            local(self.billing.as_ref()?.admin_server(), Role::Edge),
        ))
    }

    /// Closes their databases.
    pub async fn close(self) {
        for database in self.databases {
            database.close().await;
        }
    }
}

async fn open(ground: &Ground, owner: Owner) -> Result<Database, Error> {
    let config = ground.settings.database(owner, &ground.dir);
    let settings = &ground.settings.database;
    if settings.url.is_empty() {
        return Ok(migrate::open(&config, owner).await?);
    }
    let database = Database::open(&config)
        .await
        .map_err(|source| migrate::Error::closed(&config, owner, source))?;
    // What cannot work ends at once; a database that goes away later is waited for.
    let within = settings.start_timeout;
    match database.reach(within).await {
        Ok(()) => Ok(database),
        Err(source) => Err(Error::DatabaseAway {
            url: redacted(&settings.url),
            within,
            source,
        }),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the composition root seeds from the system's random source"
)]
pub(super) fn system_random() -> StdRng {
    StdRng::from_rng(&mut rand::rng())
}
