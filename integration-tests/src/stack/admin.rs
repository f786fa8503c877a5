//! Administration through an edge, as the command line does it.

use std::net::SocketAddr;

use switchboard::apply::{self, AdminClients, Fragments, Outcome, SystemSecrets};
use switchboard_common::grpc::Rpc;
use switchboard_proto::common::v1::Actor;
use tonic::Status;
use tonic::transport::Endpoint;
use tower::ServiceExt as _;

/// What applying gave: the outcome, or what is printed.
pub type Applied = Result<Outcome, String>;

pub(super) fn clients(edge: SocketAddr, token: &str) -> AdminClients {
    AdminClients::over(rpc(&format!("http://{edge}"), token))
}

/// A transport to one address with a bearer token.
pub(super) fn rpc(address: &str, token: &str) -> Rpc {
    let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
    let bearer = http::HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
    let channel = endpoint
        .connect_lazy()
        .map_request(move |mut request: http::Request<tonic::body::Body>| {
            request
                .headers_mut()
                .insert(http::header::AUTHORIZATION, bearer.clone());
            request
        })
        .map_err(|error| Status::unavailable(error.to_string()));
    Rpc::new(channel)
}

pub(super) async fn apply(clients: &AdminClients, text: &str) -> Applied {
    let parsed = switchboard_catalogue::parse(text, "catalogue.yaml").map_err(|mistakes| {
        let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    let fragments =
        Fragments::of(&parsed.catalogue, &SystemSecrets).map_err(|lines| lines.join("\n"))?;
    let actor = Actor {
        name: "test".to_owned(),
        reason: "a scenario".to_owned(),
    };
    apply::apply(clients, &fragments, &actor)
        .await
        .map_err(|error| error.to_string())
}
