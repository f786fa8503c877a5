//! Who calls, and who may call what (SEC-1): one table.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One part of Switchboard, as a caller and as something to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// HTTP in.
    Edge,
    /// Identity.
    Auth,
    /// Catalogue and choice.
    Scheduler,
    /// The conductor.
    Forwarder,
    /// The vault.
    TokenRefresh,
    /// Money.
    Billing,
}

impl Role {
    /// All of them, in the order in which requests meet them.
    pub const ALL: [Self; 6] = [
        Self::Edge,
        Self::Forwarder,
        Self::Auth,
        Self::Scheduler,
        Self::TokenRefresh,
        Self::Billing,
    ];

    /// The name on command lines, in settings and in tokens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Auth => "auth",
            Self::Scheduler => "scheduler",
            Self::Forwarder => "forwarder",
            Self::TokenRefresh => "token-refresh",
            Self::Billing => "billing",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| {
                format!(
                    "`{text}` is no role; expected one of {}",
                    Self::ALL.map(Self::name).join(", ")
                )
            })
    }
}

/// The role that called, as the transport proved it. `None` on public listeners.
#[must_use]
pub fn caller<T>(request: &tonic::Request<T>) -> Option<Role> {
    request.extensions().get::<Caller>().map(|caller| caller.0)
}

/// Set by the transport alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub(super) Role);

/// Whether a role may call a method (`/package.Service/Method`) on an internal listener. What the table does not know,
/// nobody may call.
#[must_use]
pub fn may_call(role: Role, method: &str) -> bool {
    if method.starts_with("/grpc.health.v1.Health/") {
        return true;
    }
    let Some((service, _)) = method.trim_start_matches('/').rsplit_once('/') else {
        return false;
    };
    TABLE
        .iter()
        .find(|(entry, _)| *entry == service || *entry == method)
        .is_some_and(|(_, roles)| roles.contains(&role))
}

/// Method before service; the first match counts.
const TABLE: &[(&str, &[Role])] = &[
    ("/switchboard.inference.v1.Inference/Relay", &[Role::Edge]),
    // Typed inference is for callers with a key, on the public listener.
    ("switchboard.inference.v1.Inference", &[]),
    ("switchboard.auth.v1.Auth", &[Role::Forwarder]),
    ("switchboard.scheduler.v1.Scheduler", &[Role::Forwarder]),
    ("switchboard.credentials.v1.Credentials", &[Role::Forwarder]),
    ("switchboard.billing.v1.Billing", &[Role::Forwarder]),
    // Admins come through the edge, which proves them first (SURF-4).
    ("switchboard.auth.v1.AuthAdmin", &[Role::Edge]),
    ("switchboard.scheduler.v1.SchedulerAdmin", &[Role::Edge]),
    ("switchboard.credentials.v1.CredentialsAdmin", &[Role::Edge]),
    ("switchboard.billing.v1.BillingAdmin", &[Role::Edge]),
];
