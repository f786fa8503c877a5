//! Where a process listens: taken before anything is made on the disk, and answering once its roles have started.

use switchboard_common::{
    grpc::{self, Address, Bound, Listener, Reserved, Role},
    lifecycle::Lifecycle,
};
use tokio::net::TcpListener;
use tonic::service::Routes;

use super::{Error, Ground, Owners};
use crate::settings::Settings;

/// Addresses that a process took.
#[derive(Debug)]
pub struct Listeners {
    http: Reserved,
    grpc: Option<Reserved>,
    internal: Option<Reserved>,
}

/// Where gRPC is spoken.
pub(super) struct Spoken {
    pub(super) grpc: Option<Address>,
    pub(super) internal: Option<Address>,
}

const HTTP: &str = "listen.http (--http)";
const GRPC: &str = "listen.grpc (--grpc)";
const INTERNAL: &str = "listen.internal (--internal)";

impl Listeners {
    /// Takes what the settings of a process with these roles name. Nobody is answered yet.
    ///
    /// # Errors
    /// The settings do not hold, or addresses that are taken: all of them.
    pub async fn reserve(settings: &Settings, roles: &[Role]) -> Result<Self, Error> {
        settings.check(roles)?;
        let listen = settings.listen.of(roles);
        let mut taken = Vec::new();
        let http = reserve(HTTP, listen.http.as_ref(), &mut taken).await;
        let grpc = reserve(GRPC, listen.grpc.as_ref(), &mut taken).await;
        let internal = reserve(INTERNAL, listen.internal.as_ref(), &mut taken).await;
        match http {
            Some(http) if taken.is_empty() => Ok(Self {
                http,
                grpc,
                internal,
            }),
            _ => Err(Error::Listen(format!(
                "{}; free what is taken, or give other addresses",
                taken.join("; ")
            ))),
        }
    }

    /// Answers: other roles, callers over gRPC, and whoever gets the HTTP listener.
    pub(super) async fn listen(
        self,
        ground: &Ground,
        owners: &Owners,
        forwarder: Option<&switchboard_forwarder::Component>,
        life: &Lifecycle,
    ) -> Result<(TcpListener, Spoken), Error> {
        let internal = match self.internal {
            Some(reserved) => Some(internally(reserved, ground, owners, forwarder).await?),
            None => None,
        };
        let grpc = match (self.grpc, forwarder) {
            (Some(reserved), Some(forwarder)) => {
                Some(publicly(reserved, ground, forwarder, life).await?)
            }
            _ => None,
        };
        match listening(HTTP, self.http).await?.into_socket() {
            Bound::Tcp(http) => Ok((http, Spoken { grpc, internal })),
            Bound::Unix(_) => Err(Error::Listen(format!("{HTTP}: expected IP:PORT"))),
        }
    }
}

async fn reserve(
    setting: &str,
    address: Option<&Address>,
    taken: &mut Vec<String>,
) -> Option<Reserved> {
    let reserved = Reserved::new(address?).await;
    reserved
        .map_err(|error| taken.push(format!("{setting}: {error}")))
        .ok()
}

async fn listening(setting: &str, reserved: Reserved) -> Result<Listener, Error> {
    let listener = reserved.listen().await;
    listener.map_err(|error| Error::Listen(format!("{setting}: {error}")))
}

/// Serves the other roles.
async fn internally(
    reserved: Reserved,
    ground: &Ground,
    owners: &Owners,
    forwarder: Option<&switchboard_forwarder::Component>,
) -> Result<Address, Error> {
    let listener = listening(INTERNAL, reserved).await?;
    let address = listener.address().clone();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    let mut routes = owners.add_to(Routes::new(health));
    if let Some(forwarder) = forwarder {
        routes = routes.add_service(forwarder.server());
    }
    grpc::serve(
        listener,
        routes.prepare(),
        ground.tokens.clone(),
        &ground.settings.grpc,
        &ground.life,
    );
    Ok(address)
}

/// Serves callers with an API key.
async fn publicly(
    reserved: Reserved,
    ground: &Ground,
    forwarder: &switchboard_forwarder::Component,
    life: &Lifecycle,
) -> Result<Address, Error> {
    let listener = listening(GRPC, reserved).await?;
    let address = listener.address().clone();
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in ["", "switchboard.inference.v1.Inference"] {
        reporter
            .set_service_status(service, tonic_health::ServingStatus::Serving)
            .await;
    }
    let routes = Routes::new(forwarder.public_server()).add_service(health);
    let routes = grpc::with_reflection(routes)
        .map_err(|error| Error::service(Role::Forwarder)(error.into()))?;
    grpc::serve_public(
        listener,
        routes.prepare(),
        ground.clock.clone(),
        &ground.settings.grpc,
        life,
    );
    Ok(address)
}
