//! `switchboard.auth.v1.AuthAdmin`, for admins, through the edge.

use secrecy::SecretString;
use switchboard_proto::auth::v1::{
    ApplyRequest, ApplyResponse, AuthenticateAdminRequest, AuthenticateAdminResponse,
    CreateKeyRequest, CreateKeyResponse, DisableKeyRequest, DisableKeyResponse, GetTenantRequest,
    GetTenantResponse, ListAuditRequest, ListAuditResponse, ListKeysRequest, ListKeysResponse,
    auth_admin_server::AuthAdmin,
};
use tonic::{Request, Response, Status};

use super::convert;
use crate::{admin::Administration, domain::validate::Problem, error::Fault};

/// The service.
#[derive(Clone)]
pub(crate) struct AdminService(pub(crate) Administration);

impl AdminService {
    fn refuse(&self, fault: impl Into<Fault>) -> Status {
        fault.into().into_failure(self.0.retry_after()).into()
    }
}

#[tonic::async_trait]
impl AuthAdmin for AdminService {
    async fn authenticate_admin(
        &self,
        request: Request<AuthenticateAdminRequest>,
    ) -> Result<Response<AuthenticateAdminResponse>, Status> {
        let token = SecretString::from(request.into_inner().token);
        let name = self
            .0
            .authenticate(&token)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(AuthenticateAdminResponse { name }))
    }

    async fn plan(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let request = request.into_inner();
        let draft =
            convert::draft(request.groups, request.tenants).map_err(|fault| self.refuse(fault))?;
        let differences = self
            .0
            .plan(draft)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(ApplyResponse {
            changes: differences.into_iter().map(convert::planned).collect(),
            issued: Vec::new(),
        }))
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let request = request.into_inner();
        let actor = convert::actor(request.actor).map_err(|fault| self.refuse(fault))?;
        let draft =
            convert::draft(request.groups, request.tenants).map_err(|fault| self.refuse(fault))?;
        let (differences, issued) = self
            .0
            .apply(&actor, draft)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(ApplyResponse {
            changes: differences.into_iter().map(convert::planned).collect(),
            issued: issued.into_iter().map(Into::into).collect(),
        }))
    }

    async fn create_key(
        &self,
        request: Request<CreateKeyRequest>,
    ) -> Result<Response<CreateKeyResponse>, Status> {
        let request = request.into_inner();
        let actor = convert::actor(request.actor).map_err(|fault| self.refuse(fault))?;
        let key = request
            .key
            .ok_or_else(|| self.refuse(Problem::new("key", "must say which key to make")))?;
        let draft =
            convert::key_in("key", &request.tenant, key).map_err(|fault| self.refuse(fault))?;
        let issued = self
            .0
            .create_key(&actor, draft)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(CreateKeyResponse {
            issued: Some(issued.into()),
        }))
    }

    async fn list_keys(
        &self,
        request: Request<ListKeysRequest>,
    ) -> Result<Response<ListKeysResponse>, Status> {
        let tenant = request.into_inner().tenant;
        let (keys, now_ms) = self
            .0
            .keys(&tenant)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(ListKeysResponse {
            keys: keys
                .into_iter()
                .map(|key| convert::key_info(key, now_ms))
                .collect(),
        }))
    }

    async fn disable_key(
        &self,
        request: Request<DisableKeyRequest>,
    ) -> Result<Response<DisableKeyResponse>, Status> {
        let request = request.into_inner();
        let actor = convert::actor(request.actor).map_err(|fault| self.refuse(fault))?;
        let (key, now_ms) = self
            .0
            .disable_key(&actor, &request.key)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(DisableKeyResponse {
            key: Some(convert::key_info(key, now_ms)),
        }))
    }

    async fn get_tenant(
        &self,
        request: Request<GetTenantRequest>,
    ) -> Result<Response<GetTenantResponse>, Status> {
        let name = request.into_inner().name;
        let (tenant, users, keys) = self
            .0
            .tenant(&name)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(convert::tenant_out(tenant, users, keys)))
    }

    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        let entries = self
            .0
            .audit(request.into_inner().limit)
            .await
            .map_err(|fault| self.refuse(fault))?;
        Ok(Response::new(ListAuditResponse { entries }))
    }
}
