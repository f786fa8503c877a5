//! The generated services: validate, call, map; nothing else.

use futures_util::stream::BoxStream;
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::grpc::{Role, caller};
use switchboard_proto::{
    common::v1::{Actor, PlannedChange, WatchChangesRequest, WatchChangesResponse},
    credentials::v1::{
        ApplyRequest, ApplyResponse, CredentialInfo, GetRequest, GetResponse, ListAuditRequest,
        ListAuditResponse, ListCredentialsRequest, ListCredentialsResponse,
        credentials_admin_server::CredentialsAdmin, credentials_server::Credentials,
    },
};
use tonic::{Request, Response, Status};

use crate::{
    domain::plan::{Problem, Step, Wanted},
    error::Fault,
    metrics::Meters,
    vault::Vault,
};

/// Both services. Clones share the vault.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) vault: Vault,
    pub(crate) meters: Meters,
}

impl Service {
    fn refuse(&self, fault: impl Into<Fault>) -> Status {
        match fault.into() {
            // Not the gateway's caller but another part of it is at fault: no row of the table is about that.
            Fault::Role => Status::permission_denied(Fault::Role.to_string()),
            fault => fault.into_failure(self.vault.config.retry_after).into(),
        }
    }
}

/// Only the forwarder may ask (SEC-1), whatever listener or transport the request came through.
fn forwarder<T>(request: &Request<T>) -> Result<(), Fault> {
    match caller(request) {
        Some(Role::Forwarder) => Ok(()),
        _ => Err(Fault::Role),
    }
}

#[tonic::async_trait]
impl Credentials for Service {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let allowed = forwarder(&request);
        let account = request.into_inner().account;
        let result = match allowed {
            Ok(()) => self.vault.get(&account).await,
            Err(fault) => Err(fault),
        };
        self.meters.asked(&result);
        let (secret, generation) = result.map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(GetResponse {
            secret: secret.expose_secret().to_owned(),
            generation,
            expires_at_ms: None,
        }))
    }

    type WatchChangesStream = BoxStream<'static, Result<WatchChangesResponse, Status>>;

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Result<Response<Self::WatchChangesStream>, Status> {
        forwarder(&request).map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(
            self.vault.feed.watch(request.into_inner().since),
        ))
    }
}

#[tonic::async_trait]
impl CredentialsAdmin for Service {
    async fn plan(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let (_, wanted) = split(request.into_inner());
        let steps = self
            .vault
            .plan(wanted)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(applied(&steps)))
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let (actor, wanted) = split(request.into_inner());
        let actor = actor
            .filter(|actor| !actor.name.is_empty())
            .ok_or_else(|| {
                self.refuse(Problem::new(
                    "actor.name",
                    "must say who does this, such as `cli` or `admin:ana`",
                ))
            })?;
        let steps = self
            .vault
            .apply(&actor, wanted)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(applied(&steps)))
    }

    async fn list_credentials(
        &self,
        _request: Request<ListCredentialsRequest>,
    ) -> Result<Response<ListCredentialsResponse>, Status> {
        let records = self
            .vault
            .list()
            .await
            .map_err(|fault| self.refuse(fault))?;
        let credentials = records
            .into_iter()
            .map(|record| CredentialInfo {
                status: record.status().to_owned(),
                account: record.account,
                generation: record.generation,
                updated_at_ms: record.updated_at_ms,
            })
            .collect();
        Ok(Response::new(ListCredentialsResponse { credentials }))
    }

    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        let entries = self
            .vault
            .audit(request.into_inner().limit)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(ListAuditResponse { entries }))
    }
}

fn split(request: ApplyRequest) -> (Option<Actor>, Vec<Wanted>) {
    let wanted = request
        .credentials
        .into_iter()
        .map(|credential| Wanted {
            account: credential.account,
            secret: SecretString::from(credential.secret),
        })
        .collect();
    (request.actor, wanted)
}

fn applied(steps: &[Step]) -> ApplyResponse {
    let changes = steps
        .iter()
        .map(|step| {
            let (kind, detail) = step.told();
            PlannedChange {
                section: "credential".to_owned(),
                name: step.account().to_owned(),
                kind: kind.to_owned(),
                detail: detail.to_owned(),
            }
        })
        .collect();
    ApplyResponse { changes }
}
