//! Admin services that answer from a script and write down what they were asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use switchboard::apply::AdminClients;
use switchboard_common::{
    error::{Failure, Reason},
    grpc::{Role, local},
};
use switchboard_proto::{
    auth::v1::{self as auth, auth_admin_server as auth_server},
    billing::v1::{self as billing, billing_admin_server as billing_server},
    common::v1::{AuditEntry, PlannedChange},
    credentials::v1::{self as credentials, credentials_admin_server as credentials_server},
    scheduler::v1::{self as scheduler, scheduler_admin_server as scheduler_server},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// The token that [`Fake::listen`] takes.
pub const TOKEN: &str = "sb-admin-good";

/// What is answered, and what was asked.
#[derive(Default)]
pub struct Script {
    /// Methods in the order of their calls.
    pub calls: Vec<String>,
    /// A method that fails.
    pub failing: Option<(&'static str, Failure)>,
    pub rows: Vec<billing::UsageRow>,
    pub ledger: billing::VerifyLedgerResponse,
    /// Requests whose dead letters were resolved.
    pub resolved: Vec<String>,
    pub money: Option<billing::GetTenantResponse>,
    pub access: Option<auth::GetTenantResponse>,
    pub explained: billing::ExplainResponse,
    pub keys: Vec<auth::KeyInfo>,
    pub created: Option<auth::CreateKeyRequest>,
    pub topped_up: Option<billing::TopUpRequest>,
    pub issued: Vec<auth::IssuedKey>,
    pub actors: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<Script>>);

type Answer<T> = Result<Response<T>, Status>;

impl Fake {
    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    pub fn calls(&self) -> Vec<String> {
        self.script().calls.clone()
    }

    fn called(&self, method: &'static str) -> Result<MutexGuard<'_, Script>, Status> {
        let mut script = self.script();
        script.calls.push(method.to_owned());
        match &script.failing {
            Some((failing, failure)) if *failing == method => Err(failure.clone().into()),
            _ => Ok(script),
        }
    }

    /// In this process.
    pub fn clients(&self) -> AdminClients {
        AdminClients::new(
            local(auth_server::AuthAdminServer::new(self.clone()), Role::Edge),
            local(
                scheduler_server::SchedulerAdminServer::new(self.clone()),
                Role::Edge,
            ),
            local(
                credentials_server::CredentialsAdminServer::new(self.clone()),
                Role::Edge,
            ),
            local(
                billing_server::BillingAdminServer::new(self.clone()),
                Role::Edge,
            ),
        )
    }

    /// On a socket, for those who bear [`TOKEN`].
    pub async fn listen(&self) -> SocketAddr {
        self.listen_on(tonic::transport::Server::builder()).await
    }

    /// The same with TLS, as `localhost`; `tls/root.pem` signed it. The key protects nothing.
    pub async fn listen_tls(&self) -> SocketAddr {
        let identity = tonic::transport::Identity::from_pem(
            include_str!("tls/localhost.pem"),
            include_str!("tls/localhost.key"),
        );
        let tls = tonic::transport::ServerTlsConfig::new().identity(identity);
        let server = tonic::transport::Server::builder().tls_config(tls);
        self.listen_on(server.unwrap()).await
    }

    async fn listen_on(&self, mut server: tonic::transport::Server) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let prove = |request: Request<()>| {
            let expected = format!("Bearer {TOKEN}");
            match request.metadata().get("authorization") {
                Some(value) if value.as_bytes() == expected.as_bytes() => Ok(request),
                _ => Err(Failure::new(Reason::InvalidApiKey, "this is no admin token").into()),
            }
        };
        let served = server
            .add_service(auth_server::AuthAdminServer::with_interceptor(
                self.clone(),
                prove,
            ))
            .add_service(scheduler_server::SchedulerAdminServer::with_interceptor(
                self.clone(),
                prove,
            ))
            .add_service(
                credentials_server::CredentialsAdminServer::with_interceptor(self.clone(), prove),
            )
            .add_service(billing_server::BillingAdminServer::with_interceptor(
                self.clone(),
                prove,
            ))
            .serve_with_incoming(TcpListenerStream::new(listener));
        #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
        tokio::spawn(served);
        address
    }
}

fn change(section: &str, name: &str, kind: &str, detail: &str) -> PlannedChange {
    PlannedChange {
        section: section.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        detail: detail.to_owned(),
    }
}

fn audit(seq: u64, at_ms: i64, action: &str) -> AuditEntry {
    AuditEntry {
        seq,
        at_ms,
        actor: "cli".to_owned(),
        reason: String::new(),
        action: action.to_owned(),
        detail: "first\nsecond".to_owned(),
    }
}

#[tonic::async_trait]
impl auth_server::AuthAdmin for Fake {
    async fn authenticate_admin(
        &self,
        _: Request<auth::AuthenticateAdminRequest>,
    ) -> Answer<auth::AuthenticateAdminResponse> {
        Err(Status::unimplemented("not asked by the command line"))
    }

    async fn plan(&self, _: Request<auth::ApplyRequest>) -> Answer<auth::ApplyResponse> {
        drop(self.called("auth.plan")?);
        Ok(Response::new(auth::ApplyResponse {
            changes: vec![change("tenant", "acme", "add", "")],
            issued: Vec::new(),
        }))
    }

    async fn apply(&self, request: Request<auth::ApplyRequest>) -> Answer<auth::ApplyResponse> {
        let mut script = self.called("auth.apply")?;
        let actor = request.into_inner().actor.unwrap();
        script
            .actors
            .push(format!("{} ({})", actor.name, actor.reason));
        Ok(Response::new(auth::ApplyResponse {
            changes: vec![change("tenant", "acme", "add", "")],
            issued: script.issued.clone(),
        }))
    }

    async fn create_key(
        &self,
        request: Request<auth::CreateKeyRequest>,
    ) -> Answer<auth::CreateKeyResponse> {
        let mut script = self.called("auth.create_key")?;
        let request = request.into_inner();
        let issued = auth::IssuedKey {
            tenant: request.tenant.clone(),
            name: request.key.clone().unwrap().name,
            key_id: "id-1".to_owned(),
            secret: "sb-issued".to_owned(),
        };
        script.created = Some(request);
        Ok(Response::new(auth::CreateKeyResponse {
            issued: Some(issued),
        }))
    }

    async fn list_keys(
        &self,
        request: Request<auth::ListKeysRequest>,
    ) -> Answer<auth::ListKeysResponse> {
        let tenant = request.into_inner().tenant;
        let keys = self.called("auth.list_keys")?.keys.clone();
        let keys = keys
            .into_iter()
            .filter(|key| tenant.is_empty() || key.tenant == tenant)
            .collect();
        Ok(Response::new(auth::ListKeysResponse { keys }))
    }

    async fn disable_key(
        &self,
        request: Request<auth::DisableKeyRequest>,
    ) -> Answer<auth::DisableKeyResponse> {
        drop(self.called("auth.disable_key")?);
        let key = auth::KeyInfo {
            key_id: request.into_inner().key,
            status: "disabled".to_owned(),
            ..auth::KeyInfo::default()
        };
        Ok(Response::new(auth::DisableKeyResponse { key: Some(key) }))
    }

    async fn get_tenant(
        &self,
        request: Request<auth::GetTenantRequest>,
    ) -> Answer<auth::GetTenantResponse> {
        let name = request.into_inner().name;
        let script = self.called("auth.get_tenant")?;
        script
            .access
            .clone()
            .filter(|access| access.name == name)
            .map(Response::new)
            .ok_or_else(|| {
                Failure::new(Reason::NotFound, format!("there is no tenant `{name}`")).into()
            })
    }

    async fn list_audit(
        &self,
        _: Request<auth::ListAuditRequest>,
    ) -> Answer<auth::ListAuditResponse> {
        drop(self.called("auth.list_audit")?);
        Ok(Response::new(auth::ListAuditResponse {
            entries: vec![audit(2, 2_000, "key.create"), audit(1, 500, "apply")],
        }))
    }
}

#[tonic::async_trait]
impl billing_server::BillingAdmin for Fake {
    async fn plan_prices(
        &self,
        request: Request<billing::ApplyPricesRequest>,
    ) -> Answer<billing::ApplyPricesResponse> {
        drop(self.called("billing.plan_prices")?);
        Ok(Response::new(billing::ApplyPricesResponse {
            changes: vec![change("price", "demo", "change", "output 1 → 2")],
            sheets: request.into_inner().sheets,
        }))
    }

    async fn apply_prices(
        &self,
        request: Request<billing::ApplyPricesRequest>,
    ) -> Answer<billing::ApplyPricesResponse> {
        drop(self.called("billing.apply_prices")?);
        Ok(Response::new(billing::ApplyPricesResponse {
            changes: vec![change("price", "demo", "change", "output 1 → 2")],
            sheets: request.into_inner().sheets,
        }))
    }

    async fn plan_tenants(
        &self,
        _: Request<billing::ApplyTenantsRequest>,
    ) -> Answer<billing::ApplyTenantsResponse> {
        drop(self.called("billing.plan_tenants")?);
        Ok(Response::new(billing::ApplyTenantsResponse::default()))
    }

    async fn apply_tenants(
        &self,
        _: Request<billing::ApplyTenantsRequest>,
    ) -> Answer<billing::ApplyTenantsResponse> {
        drop(self.called("billing.apply_tenants")?);
        Ok(Response::new(billing::ApplyTenantsResponse::default()))
    }

    async fn get_tenant(
        &self,
        _: Request<billing::GetTenantRequest>,
    ) -> Answer<billing::GetTenantResponse> {
        let script = self.called("billing.get_tenant")?;
        script.money.clone().map(Response::new).ok_or_else(|| {
            Failure::new(Reason::NotFound, "billing does not know this tenant").into()
        })
    }

    async fn top_up(
        &self,
        request: Request<billing::TopUpRequest>,
    ) -> Answer<billing::TopUpResponse> {
        let mut script = self.called("billing.top_up")?;
        script.topped_up = Some(request.into_inner());
        Ok(Response::new(billing::TopUpResponse {
            balance_nanos: 7_500_000_000,
        }))
    }

    /// Gives two rows at most, whatever was asked for.
    async fn list_usage(
        &self,
        request: Request<billing::ListUsageRequest>,
    ) -> Answer<billing::ListUsageResponse> {
        let script = self.called("billing.list_usage")?;
        let request = request.into_inner();
        let rows = script
            .rows
            .iter()
            .filter(|row| request.tenant.is_empty() || row.tenant == request.tenant)
            .filter(|row| request.before.is_empty() || row.request_id < request.before)
            .take(2.min(request.limit as usize))
            .cloned()
            .collect();
        Ok(Response::new(billing::ListUsageResponse { rows }))
    }

    async fn explain(
        &self,
        _: Request<billing::ExplainRequest>,
    ) -> Answer<billing::ExplainResponse> {
        let script = self.called("billing.explain")?;
        Ok(Response::new(script.explained.clone()))
    }

    async fn verify_ledger(
        &self,
        _: Request<billing::VerifyLedgerRequest>,
    ) -> Answer<billing::VerifyLedgerResponse> {
        let script = self.called("billing.verify_ledger")?;
        Ok(Response::new(script.ledger.clone()))
    }

    async fn resolve_dead_letter(
        &self,
        request: Request<billing::ResolveDeadLetterRequest>,
    ) -> Answer<billing::ResolveDeadLetterResponse> {
        let mut script = self.called("billing.resolve_dead_letter")?;
        let request = request.into_inner();
        let resolved = u64::from(!script.resolved.contains(&request.request_id));
        script.resolved.push(request.request_id);
        Ok(Response::new(billing::ResolveDeadLetterResponse {
            resolved,
        }))
    }

    async fn list_audit(
        &self,
        _: Request<billing::ListAuditRequest>,
    ) -> Answer<billing::ListAuditResponse> {
        drop(self.called("billing.list_audit")?);
        Ok(Response::new(billing::ListAuditResponse {
            entries: vec![audit(9, 1_000, "top_up")],
        }))
    }
}

#[tonic::async_trait]
impl scheduler_server::SchedulerAdmin for Fake {
    async fn plan(&self, _: Request<scheduler::ApplyRequest>) -> Answer<scheduler::ApplyResponse> {
        drop(self.called("scheduler.plan")?);
        Ok(Response::new(scheduler::ApplyResponse {
            changes: vec![change("account", "old", "disable", "left the file")],
            version: 3,
        }))
    }

    async fn apply(&self, _: Request<scheduler::ApplyRequest>) -> Answer<scheduler::ApplyResponse> {
        drop(self.called("scheduler.apply")?);
        Ok(Response::new(scheduler::ApplyResponse {
            changes: vec![change("account", "old", "disable", "left the file")],
            version: 4,
        }))
    }

    async fn list_versions(
        &self,
        _: Request<scheduler::ListVersionsRequest>,
    ) -> Answer<scheduler::ListVersionsResponse> {
        drop(self.called("scheduler.list_versions")?);
        Ok(Response::new(scheduler::ListVersionsResponse {
            versions: vec![scheduler::CatalogueVersion {
                version: 4,
                created_at_ms: 1_000,
                actor: "cli".to_owned(),
                reason: String::new(),
                diff: "+ account a\n~ model m".to_owned(),
                current: true,
            }],
        }))
    }

    async fn rollback(
        &self,
        request: Request<scheduler::RollbackRequest>,
    ) -> Answer<scheduler::ApplyResponse> {
        drop(self.called("scheduler.rollback")?);
        let version = request.into_inner().version;
        Ok(Response::new(scheduler::ApplyResponse {
            changes: vec![change("model", "m", "change", "")],
            version: version + 10,
        }))
    }

    async fn reset_cooldowns(
        &self,
        request: Request<scheduler::ResetCooldownsRequest>,
    ) -> Answer<scheduler::ResetCooldownsResponse> {
        drop(self.called("scheduler.reset_cooldowns")?);
        let lifted = if request.into_inner().account.is_empty() {
            5
        } else {
            1
        };
        Ok(Response::new(scheduler::ResetCooldownsResponse { lifted }))
    }

    async fn list_audit(
        &self,
        _: Request<scheduler::ListAuditRequest>,
    ) -> Answer<scheduler::ListAuditResponse> {
        drop(self.called("scheduler.list_audit")?);
        Ok(Response::new(scheduler::ListAuditResponse {
            entries: vec![audit(7, 3_000, "rollback")],
        }))
    }
}

#[tonic::async_trait]
impl credentials_server::CredentialsAdmin for Fake {
    async fn plan(
        &self,
        _: Request<credentials::ApplyRequest>,
    ) -> Answer<credentials::ApplyResponse> {
        drop(self.called("credentials.plan")?);
        Ok(Response::new(credentials::ApplyResponse::default()))
    }

    async fn apply(
        &self,
        _: Request<credentials::ApplyRequest>,
    ) -> Answer<credentials::ApplyResponse> {
        drop(self.called("credentials.apply")?);
        Ok(Response::new(credentials::ApplyResponse::default()))
    }

    async fn list_credentials(
        &self,
        _: Request<credentials::ListCredentialsRequest>,
    ) -> Answer<credentials::ListCredentialsResponse> {
        drop(self.called("credentials.list_credentials")?);
        Ok(Response::new(credentials::ListCredentialsResponse {
            credentials: Vec::new(),
        }))
    }

    async fn list_audit(
        &self,
        _: Request<credentials::ListAuditRequest>,
    ) -> Answer<credentials::ListAuditResponse> {
        drop(self.called("credentials.list_audit")?);
        Ok(Response::new(credentials::ListAuditResponse::default()))
    }
}
