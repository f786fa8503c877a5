//! What an operator sees: usage rows, balances, the ledger, gauges.

use switchboard_common::grpc::Role;
use switchboard_proto::billing::v1::{
    ExplainRequest, ExplainResponse, GetTenantRequest, GetTenantResponse, ListUsageRequest,
    UsageRow, VerifyLedgerRequest, VerifyLedgerResponse,
};
use switchboard_state::State;

use super::{PATIENCE, Stack};
use crate::caller::Caller;

/// A tenant's money.
pub type Tenant = GetTenantResponse;

impl Stack {
    /// The newest usage rows, newest first.
    ///
    /// # Panics
    /// Billing does not answer.
    pub async fn usage(&self, limit: u32) -> Vec<UsageRow> {
        let request = ListUsageRequest {
            limit,
            ..ListUsageRequest::default()
        };
        let answer = self.admin().billing.list_usage(request).await;
        answer.expect("billing lists usage").into_inner().rows
    }

    /// The row of one request, as soon as it is there.
    ///
    /// # Panics
    /// It does not come.
    pub async fn row(&self, request_id: &str) -> UsageRow {
        self.row_when(request_id, |_| true).await
    }

    /// The row of one request, as soon as it is so.
    ///
    /// # Panics
    /// It does not come, or stays otherwise.
    pub async fn row_when(&self, request_id: &str, so: impl Fn(&UsageRow) -> bool) -> UsageRow {
        let mut seen = None;
        let looking = async {
            loop {
                let rows = self.usage(1_000).await;
                let mut of_it = rows.into_iter().filter(|row| row.request_id == request_id);
                let row = of_it.next();
                assert!(of_it.next().is_none(), "two rows of {request_id}");
                match row {
                    Some(row) if so(&row) => return row,
                    row => seen = row,
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(row) => row,
            Err(_) => panic!("the row of {request_id} does not come; last seen: {seen:?}"),
        }
    }

    /// Waits until there are exactly so many rows, and gives them.
    ///
    /// # Panics
    /// There are never so many, or more.
    pub async fn rows(&self, count: usize) -> Vec<UsageRow> {
        let mut seen = 0;
        let looking = async {
            loop {
                let rows = self.usage(1_000).await;
                seen = rows.len();
                assert!(
                    seen <= count,
                    "{seen} rows where {count} were expected: {rows:?}"
                );
                if seen == count {
                    return rows;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(rows) => rows,
            Err(_) => panic!("{seen} usage rows instead of {count}"),
        }
    }

    /// What `explain` says of a request.
    ///
    /// # Panics
    /// It knows nothing of it.
    pub async fn explain(&self, id: &str) -> ExplainResponse {
        let request = ExplainRequest { id: id.to_owned() };
        let answer = self.admin().billing.explain(request).await;
        answer.expect("billing explains").into_inner()
    }

    /// A tenant's money.
    ///
    /// # Panics
    /// There is no such tenant.
    pub async fn tenant(&self, name: &str) -> Tenant {
        let request = GetTenantRequest {
            name: name.to_owned(),
        };
        let answer = self.admin().billing.get_tenant(request).await;
        answer.expect("billing knows the tenant").into_inner()
    }

    /// What `ledger verify` says.
    ///
    /// # Panics
    /// Billing does not answer.
    pub async fn verify(&self) -> VerifyLedgerResponse {
        let answer = self
            .admin()
            .billing
            .verify_ledger(VerifyLedgerRequest {})
            .await;
        answer.expect("billing verifies").into_inner()
    }

    /// The sum of a gauge or counter over all processes with a role.
    ///
    /// # Panics
    /// A process does not answer.
    pub async fn metric(&self, role: Role, name: &str) -> u64 {
        let mut sum = 0;
        for part in self.parts_of(role) {
            if part.as_program().is_none_or(super::Program::runs) {
                sum += scrape(part.http(), name).await;
            }
        }
        sum
    }

    /// The value of a gauge or counter at each process with a role.
    ///
    /// # Panics
    /// A process does not answer.
    pub async fn metric_each(&self, role: Role, name: &str) -> Vec<u64> {
        let mut all = Vec::new();
        for part in self.parts_of(role) {
            all.push(scrape(part.http(), name).await);
        }
        all
    }

    /// Waits until so many running requests have written their progress into the forwarders' journals again.
    ///
    /// # Panics
    /// They do not.
    pub async fn progress_written(&self, requests: u64) {
        /// No line of progress is shorter.
        const LINE: u64 = 200;
        let size = async || {
            self.metric(Role::Forwarder, "switchboard_journal_size_bytes")
                .await
        };
        let before = size().await;
        super::eventually("progress is written", async || {
            size().await >= before + requests * LINE
        })
        .await;
    }

    /// The state store, where there is a way to it.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        let own = self.own_state.as_ref().map(|(state, _)| state);
        own.or_else(|| self.parts.iter().find_map(super::part::Part::state))
    }
}

async fn scrape(address: std::net::SocketAddr, name: &str) -> u64 {
    let answer = Caller::new(&[address], "").get("/metrics").await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let values = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let series = series.split('{').next()?;
        (series == name)
            .then(|| value.parse::<f64>().ok())
            .flatten()
    });
    let sum: f64 = values.sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "gauges of bytes and counts are small and not negative when a test looks"
    )]
    let whole = sum.max(0.0) as u64;
    whole
}
