//! `scheduler.v1.SchedulerAdmin`.

use std::sync::Arc;

use switchboard_catalogue::Catalogue;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::{Actor, PlannedChange},
    scheduler::v1::{
        ApplyRequest, ApplyResponse, CatalogueVersion, ListAuditRequest, ListAuditResponse,
        ListVersionsRequest, ListVersionsResponse, ResetCooldownsRequest, ResetCooldownsResponse,
        RollbackRequest, scheduler_admin_server::SchedulerAdmin,
    },
};
use tonic::{Request, Response, Status};

use crate::{Error, domain::document::Planned, flow::Core};

/// Rows of a list, unless fewer are asked for.
const LISTED: u32 = 100;

/// The service. Clones share it.
#[derive(Clone)]
pub struct AdminService {
    core: Arc<Core>,
}

impl AdminService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

fn status(error: Error) -> Status {
    Failure::from(error).into()
}

fn actor(actor: Option<&Actor>) -> Result<&Actor, Status> {
    actor.filter(|actor| !actor.name.is_empty()).ok_or_else(|| {
        Failure::new(
            Reason::InvalidRequest,
            "actor: expected who makes the change",
        )
        .param("actor")
        .into()
    })
}

fn catalogue(json: &[u8]) -> Result<Catalogue, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Failure::new(
            Reason::InvalidRequest,
            format!("catalogue_json: expected a catalogue as JSON: {error}"),
        )
        .param("catalogue_json")
        .into()
    })
}

fn limit(asked: u32) -> u32 {
    match asked {
        0 => LISTED,
        asked => asked.min(1_000),
    }
}

fn answer((planned, version): (Vec<Planned>, u64)) -> Response<ApplyResponse> {
    Response::new(ApplyResponse {
        changes: planned
            .into_iter()
            .map(|change| PlannedChange {
                section: change.section,
                name: change.name,
                kind: change.kind.to_owned(),
                detail: change.detail,
            })
            .collect(),
        version,
    })
}

#[tonic::async_trait]
impl SchedulerAdmin for AdminService {
    async fn plan(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let request = request.get_ref();
        let incoming = catalogue(&request.catalogue_json)?;
        let planned = self.core.catalogue.plan(incoming, &request.sheets).await;
        planned.map(answer).map_err(status)
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let request = request.get_ref();
        let actor = actor(request.actor.as_ref())?;
        let incoming = catalogue(&request.catalogue_json)?;
        let applied = self
            .core
            .catalogue
            .apply(actor, incoming, &request.sheets)
            .await;
        applied.map(answer).map_err(status)
    }

    async fn list_versions(
        &self,
        request: Request<ListVersionsRequest>,
    ) -> Result<Response<ListVersionsResponse>, Status> {
        let listed = self
            .core
            .catalogue
            .list(limit(request.get_ref().limit))
            .await;
        let newest = self
            .core
            .catalogue
            .versions()
            .head()
            .await
            .map_err(|e| status(e.into()))?;
        Ok(Response::new(ListVersionsResponse {
            versions: listed
                .map_err(status)?
                .into_iter()
                .map(|version| CatalogueVersion {
                    version: version.version,
                    created_at_ms: version.created_at_ms,
                    actor: version.actor,
                    reason: version.reason,
                    diff: version.diff,
                    current: version.version == newest,
                })
                .collect(),
        }))
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let request = request.get_ref();
        let actor = actor(request.actor.as_ref())?;
        let done = self.core.catalogue.rollback(actor, request.version).await;
        done.map(answer).map_err(status)
    }

    async fn reset_cooldowns(
        &self,
        request: Request<ResetCooldownsRequest>,
    ) -> Result<Response<ResetCooldownsResponse>, Status> {
        let request = request.get_ref();
        let actor = actor(request.actor.as_ref())?;
        let account = (!request.account.is_empty()).then(|| request.account.as_str().into());
        if let Some(account) = &account
            && self.core.catalogue.is_loaded()
            && !self.core.catalogue.current().accounts.contains_key(account)
        {
            let told = format!("there is no account `{account}`");
            return Err(Failure::new(Reason::NotFound, told).param("account").into());
        }
        let lifted = self
            .core
            .reset_cooldowns(account.as_ref())
            .await
            .map_err(status)?;
        let detail = match &account {
            Some(account) => format!("account {account}: {lifted} lifted"),
            None => format!("all accounts: {lifted} lifted"),
        };
        let now_ms = self.core.clock.now_ms();
        let versions = self.core.catalogue.versions();
        let recorded = versions
            .record(now_ms, actor, "reset cooldowns", &detail)
            .await;
        recorded.map_err(|error| status(error.into()))?;
        Ok(Response::new(ResetCooldownsResponse { lifted }))
    }

    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        let entries = self
            .core
            .catalogue
            .versions()
            .audit(limit(request.get_ref().limit))
            .await;
        Ok(Response::new(ListAuditResponse {
            entries: entries.map_err(|error| status(error.into()))?,
        }))
    }
}
