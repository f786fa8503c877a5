//! Tenants: customers or teams with their users, apps, keys and money (AUTH-1, BILL-3).

use std::collections::BTreeMap;

use crate::amount::{Amount, Multiplier};
use crate::limits::{Budget, Limits};
use crate::models::Unsupported;
use crate::notation::{record, words};
use crate::scalar::{Cidr, Date, SecretRef};

words! {
    /// How much is set aside before a request runs.
    Hold {
        Strict = "strict": "The most it can cost.",
        Estimate = "estimate": "What it is expected to cost.",
    }
}

words! {
    /// What happens when billing cannot be reached.
    WithoutBilling {
        Refuse = "refuse": "503.",
        Serve = "serve": "Served; postpaid tenants only.",
    }
}

words! {
    /// Who pays when a caller left before the first token.
    Abandoned {
        Input = "input": "The caller pays the input.",
        Free = "free": "Nobody.",
    }
}

words! {
    /// What a user may do.
    Role {
        Member = "member": "Uses keys of their own.",
        Owner = "owner": "Everything, money and admins included.",
        Admin = "admin": "Users, keys, limits.",
        Viewer = "viewer": "Sees, changes nothing.",
    }
}

record! {
    /// A customer or a team.
    Tenant {
        /// Unique name.
        name: String,
        /// Prepaid opening balance in USD, set once, never overwritten.
        (shown "postpaid")
        balance: Option<Amount>,
        /// How much is set aside before a request runs.
        (shown "strict when prepaid, else estimate")
        hold: Option<Hold>,
        /// What happens when billing cannot be reached.
        without_billing: WithoutBilling = WithoutBilling::Refuse,
        /// Who pays when a caller left before the first token.
        abandoned: Abandoned = Abandoned::Input,
        /// Whether the caller's x-request-id is an idempotency key.
        request_id_is_idempotency_key: bool = false,
        /// Whether conversations are kept, to carry on when an account is lost.
        conversation_store: bool = false,
        /// Whether prompts and answers may be logged.
        log_content: bool = false,
        /// One of `subscriptions`.
        subscription: Option<String>,
        /// Where its days and months begin.
        time_zone: String = "UTC".to_owned(),
        /// Its own fallback models.
        fallbacks: BTreeMap<String, String>,
        /// Its own choice of accounts, by model.
        routes: BTreeMap<String, Route>,
        /// Its people.
        users: Vec<User>,
        /// Budgets of all its traffic.
        budgets: Vec<Budget>,
        /// Internal callers that exchange a secret for a token.
        apps: Vec<App>,
        /// API keys.
        keys: Vec<Key>,
    }
}

record! {
    /// A tenant's choice of accounts for a model (ROUTE-4).
    Route {
        /// Only these accounts.
        pin: Vec<String>,
        /// Not these accounts.
        forbid: Vec<String>,
        /// Other weights.
        weights: BTreeMap<String, u32>,
    }
}

record! {
    /// A person.
    User {
        /// E-mail address, unique in the tenant.
        email: String,
        /// What they may do.
        role: Role = Role::Member,
        /// What prices are multiplied by, on top of the group's.
        multiplier: Multiplier = Multiplier::ONE,
        /// Limits of all their keys together.
        limits: Option<Limits>,
        /// Budgets of all their keys together.
        budgets: Vec<Budget>,
    }
}

record! {
    /// An internal caller.
    App {
        /// Unique id.
        app_id: String,
        /// Its secret, by reference.
        secret: SecretRef,
        /// Its group.
        group: String,
    }
}

record! {
    /// An API key.
    Key {
        /// Name, unique in the tenant.
        name: String,
        /// Your own secret of at least 32 characters, by reference.
        (shown "generated, and shown once")
        secret: Option<SecretRef>,
        /// Its group.
        group: String,
        /// The user it belongs to.
        user: Option<String>,
        /// Models it may use: names, or patterns with `*`.
        (shown "all of the group")
        models: Option<Vec<String>>,
        /// Its last day, in UTC.
        (shown "never")
        expires: Option<Date>,
        /// Its limits.
        limits: Option<Limits>,
        /// One of `limit_profiles` instead.
        profile: Option<String>,
        /// Its budgets.
        budgets: Vec<Budget>,
        /// Addresses it may be used from.
        (shown "all")
        allow_ips: Option<Vec<Cidr>>,
        /// What happens to a parameter that an upstream does not understand.
        (shown "the account's, else defaults.unsupported")
        unsupported: Option<Unsupported>,
        /// For reports.
        cost_center: Option<String>,
        /// For reports.
        tags: BTreeMap<String, String>,
    }
}
