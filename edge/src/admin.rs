//! Admin gRPC on the HTTP listener (SURF-4): the admin is proved, the frames pass unparsed to the owning service.
//!
//! Only services whose name ends in `Admin` are reachable. The admin's token goes no further than auth.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, Response, header},
};
use http_body_util::BodyExt as _;
use switchboard_common::{
    error::{Failure, Reason},
    grpc::{Rpc, complete_errors},
};
use switchboard_proto::auth::v1::{AuthenticateAdminRequest, auth_admin_client::AuthAdminClient};
use tonic::Status;
use tower::ServiceExt as _;

use crate::api::{Edge, unknown};

/// The way to each admin service, by its full name.
#[derive(Clone)]
pub struct Admins {
    auth: Rpc,
    /// Shared: the router clones what it serves with for each request.
    services: Arc<HashMap<&'static str, Rpc>>,
}

impl std::fmt::Debug for Admins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Admins")
            .field(&self.services.keys())
            .finish()
    }
}

impl Admins {
    /// Transports to the four services that have facts.
    #[must_use]
    pub fn new(auth: Rpc, scheduler: Rpc, credentials: Rpc, billing: Rpc) -> Self {
        Self {
            services: Arc::new(HashMap::from([
                ("switchboard.auth.v1.AuthAdmin", auth.clone()),
                ("switchboard.scheduler.v1.SchedulerAdmin", scheduler),
                ("switchboard.credentials.v1.CredentialsAdmin", credentials),
                ("switchboard.billing.v1.BillingAdmin", billing),
            ])),
            auth,
        }
    }
}

/// Passes one admin call on.
pub(crate) async fn pass(
    State(edge): State<Edge>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Response<Body> {
    let is_grpc = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let target = path
        .ok()
        .filter(|_| is_grpc)
        .and_then(|Path((service, _method))| edge.admins.services.get(service.as_str()));
    let Some(target) = target else {
        return unknown(State(edge), request).await;
    };
    let response = match prove(&edge.admins.auth, request.headers()).await {
        Ok(()) => forward(target.clone(), request).await,
        Err(status) => status.into_http(),
    };
    let response = complete_errors(response, &edge.clock);
    edge.observed.answered("admin", response.status().as_u16());
    response.map(Body::new)
}

async fn prove(auth: &Rpc, headers: &HeaderMap) -> Result<(), Status> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::new(
            Reason::InvalidApiKey,
            "an admin token is needed: set SWITCHBOARD_TOKEN, or use --data-dir",
        )
        .into());
    }
    let mut request = tonic::Request::new(AuthenticateAdminRequest {
        token: token.to_owned(),
    });
    request.set_timeout(std::time::Duration::from_secs(5));
    AuthAdminClient::new(auth.clone())
        .authenticate_admin(request)
        .await
        .map(drop)
}

async fn forward(target: Rpc, request: Request) -> Response<tonic::body::Body> {
    let (mut parts, body) = request.into_parts();
    // A stranger's metadata says nothing here.
    for name in ["authorization", "x-switchboard-service", "cookie"] {
        parts.headers.remove(name);
    }
    parts.extensions.clear();
    let body = body.map_err(|_| Status::cancelled("the caller is gone"));
    let request = Request::from_parts(parts, tonic::body::Body::new(body));
    match target.oneshot(request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(%error, "an admin service cannot be reached");
            Status::from(Failure::new(
                Reason::Unavailable,
                "the service that owns this cannot be reached; try again shortly",
            ))
            .into_http()
        }
    }
}
