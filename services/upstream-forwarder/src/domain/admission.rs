//! Who may do what: SPEC AUTH-4's checks in their order, over a principal that was looked up before.
//!
//! Pure. The order is part of the contract: what is told first is what the caller should repair first, and nothing is
//! told about a model before the caller is known to be let in.

use std::net::IpAddr;

use ipnet::IpNet;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    auth::v1::{Principal, Status},
    common::v1::{Dialect, TargetRule},
};

use super::catalogue::{Catalogue, Resolved};

/// A principal with what its checks need read once.
#[derive(Debug)]
pub(crate) struct Caller {
    /// As auth gave it.
    pub(crate) principal: Principal,
    key_ips: Vec<IpNet>,
    group_ips: Vec<IpNet>,
}

impl Caller {
    /// Reads the address lists. An entry that is no CIDR admits nobody: it was meant to restrict.
    pub(crate) fn new(principal: Principal) -> Self {
        Self {
            key_ips: networks(&principal.key_allow_ips),
            group_ips: networks(&principal.group_allow_ips),
            principal,
        }
    }

    /// May this caller come in at all?
    ///
    /// # Errors
    /// The first check of AUTH-4 that fails.
    pub(crate) fn admit(&self, peer: Option<IpAddr>, now_ms: i64) -> Result<(), Failure> {
        let who = &self.principal;
        if who.expires_at_ms.is_some_and(|end| end <= now_ms) {
            return Err(Failure::new(
                Reason::KeyExpired,
                "this API key has expired; ask for a new one",
            ));
        }
        if !active(who.key_status) {
            return Err(Failure::new(
                Reason::KeyDisabled,
                "this API key is disabled",
            ));
        }
        let admitted = inside(&who.key_allow_ips, &self.key_ips, peer)
            && inside(&who.group_allow_ips, &self.group_ips, peer);
        if !admitted {
            return Err(Failure::new(
                Reason::IpNotAllowed,
                "this API key may not be used from this address",
            ));
        }
        if !active(who.tenant_status) || !active(who.user_status) {
            return Err(Failure::new(
                Reason::TenantDisabled,
                "the tenant or user of this API key is disabled",
            ));
        }
        if !active(who.group_status) {
            return Err(Failure::new(
                Reason::GroupDisabled,
                "the group of this API key is disabled",
            ));
        }
        Ok(())
    }

    /// What the caller's name for a model means, if it may call it in this dialect.
    ///
    /// # Errors
    /// `model_not_found` outside the group (404 lists nothing), `model_not_allowed` when only the key's list lacks it.
    pub(crate) fn model(
        &self,
        catalogue: &Catalogue,
        name: &str,
        dialect: Dialect,
    ) -> Result<Resolved, Failure> {
        let who = &self.principal;
        let Some(resolved) = catalogue.resolve(&who.group, name) else {
            return Err(unknown_model(name));
        };
        if !catalogue.allows(&who.group, &who.models, &resolved) {
            return Err(Failure::new(
                Reason::ModelNotAllowed,
                format!("this API key may not call the model `{}`", shown(name)),
            )
            .param("model"));
        }
        let accepts = &resolved.model.accepts;
        if dialect != Dialect::OpenaiModels
            && !accepts.is_empty()
            && !accepts.contains(&(dialect as i32))
        {
            return Err(Failure::new(
                Reason::InvalidRequest,
                format!("the model `{}` does not serve this endpoint", shown(name)),
            )
            .param("model"));
        }
        Ok(resolved)
    }

    /// The tenant's own choice of accounts for a model (ROUTE-4): that of the very name first, then that of its pattern.
    pub(crate) fn route(&self, resolved: &Resolved) -> Option<&TargetRule> {
        let routes = &self.principal.routes;
        routes
            .get(&resolved.public_name)
            .or_else(|| routes.get(&resolved.model.name))
    }
}

/// 404 for a name that means nothing to the caller.
pub(crate) fn unknown_model(name: &str) -> Failure {
    let text = format!(
        "the model `{}` does not exist or is not yours to use",
        shown(name)
    );
    Failure::new(Reason::ModelNotFound, text).param("model")
}

/// A caller's text, short enough to be repeated.
fn shown(name: &str) -> &str {
    name.get(..name.floor_char_boundary(128)).unwrap_or("")
}

fn active(status: i32) -> bool {
    status == Status::Active as i32
}

fn networks(list: &[String]) -> Vec<IpNet> {
    let parse = |text: &String| {
        let net = text.parse::<IpNet>().ok();
        net.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
    };
    list.iter().filter_map(parse).collect()
}

fn inside(list: &[String], networks: &[IpNet], peer: Option<IpAddr>) -> bool {
    if list.is_empty() {
        return true;
    }
    // An IPv4 caller on a dual-stack socket shows as `::ffff:a.b.c.d`.
    let peer = peer.map(|peer| peer.to_canonical());
    peer.is_some_and(|peer| networks.iter().any(|net| net.contains(&peer)))
}

#[cfg(test)]
mod tests {
    use switchboard_proto::scheduler::v1::{CatalogueSnapshot, GroupModels, PublicModel};

    use super::*;

    fn principal() -> Principal {
        let active = Status::Active as i32;
        Principal {
            tenant: "acme".to_owned(),
            group: "standard".to_owned(),
            key_status: active,
            tenant_status: active,
            user_status: active,
            group_status: active,
            ..Principal::default()
        }
    }

    fn refusal(change: impl FnOnce(&mut Principal)) -> Option<Reason> {
        let mut principal = principal();
        change(&mut principal);
        let peer = "10.1.2.3".parse().ok();
        Caller::new(principal)
            .admit(peer, 1_000)
            .err()
            .map(|f| f.reason)
    }

    #[test]
    fn a_good_caller_comes_in() {
        assert_eq!(refusal(|_| ()), None);
        assert_eq!(refusal(|p| p.expires_at_ms = Some(1_001)), None);
        assert_eq!(
            refusal(|p| p.key_allow_ips = vec!["10.0.0.0/8".to_owned()]),
            None
        );
    }

    #[test]
    fn each_check_refuses_with_its_own_reason_and_the_first_one_that_fails_wins() {
        let off = Status::Disabled as i32;
        type Spoil = (fn(&mut Principal), Reason);
        let spoil: [Spoil; 6] = [
            (|p| p.expires_at_ms = Some(1_000), Reason::KeyExpired),
            (
                |p| p.key_status = Status::Disabled as i32,
                Reason::KeyDisabled,
            ),
            (
                |p| p.group_allow_ips = vec!["192.168.0.0/16".to_owned()],
                Reason::IpNotAllowed,
            ),
            (
                |p| p.tenant_status = Status::Disabled as i32,
                Reason::TenantDisabled,
            ),
            (
                |p| p.user_status = Status::Disabled as i32,
                Reason::TenantDisabled,
            ),
            (
                |p| p.group_status = Status::Disabled as i32,
                Reason::GroupDisabled,
            ),
        ];
        for (at, (_, expected)) in spoil.iter().enumerate() {
            let all_from_here = |p: &mut Principal| spoil.iter().skip(at).for_each(|(s, _)| s(p));
            assert_eq!(refusal(all_from_here), Some(*expected));
        }
        assert_eq!(refusal(|p| p.key_status = off), Some(Reason::KeyDisabled));
    }

    #[test]
    fn both_address_lists_must_admit_and_a_broken_entry_admits_nobody() {
        let both = |p: &mut Principal| {
            p.key_allow_ips = vec!["10.1.2.3".to_owned()];
            p.group_allow_ips = vec!["11.0.0.0/8".to_owned()];
        };
        assert_eq!(refusal(both), Some(Reason::IpNotAllowed));
        let broken = |p: &mut Principal| p.key_allow_ips = vec!["10.0.0.0/99".to_owned()];
        assert_eq!(refusal(broken), Some(Reason::IpNotAllowed));
        let caller = Caller::new(Principal {
            key_allow_ips: vec!["10.0.0.0/8".to_owned()],
            ..principal()
        });
        assert_eq!(caller.admit("::ffff:10.1.2.3".parse().ok(), 0), Ok(()));
        assert!(caller.admit(None, 0).is_err());
    }

    #[test]
    fn a_model_outside_the_group_is_unknown_and_one_off_the_keys_list_is_forbidden() {
        let model = |name: &str| PublicModel {
            name: name.to_owned(),
            active: true,
            accepts: vec![Dialect::OpenaiChat as i32],
            ..PublicModel::default()
        };
        let catalogue = Catalogue::new(CatalogueSnapshot {
            version: 1,
            models: vec![model("a"), model("b"), model("c")],
            groups: vec![GroupModels {
                name: "standard".to_owned(),
                models: vec!["a".to_owned(), "b".to_owned()],
                ..GroupModels::default()
            }],
        });
        let caller = Caller::new(Principal {
            models: vec!["a".to_owned()],
            ..principal()
        });
        let ask = |name, dialect| {
            caller
                .model(&catalogue, name, dialect)
                .map(|r| r.public_name)
        };
        let reason = |r: Result<String, Failure>| r.err().map(|f| f.reason);
        assert_eq!(ask("a", Dialect::OpenaiChat), Ok("a".to_owned()));
        assert_eq!(
            reason(ask("b", Dialect::OpenaiChat)),
            Some(Reason::ModelNotAllowed)
        );
        assert_eq!(
            reason(ask("c", Dialect::OpenaiChat)),
            Some(Reason::ModelNotFound)
        );
        assert_eq!(
            reason(ask("a", Dialect::OpenaiEmbeddings)),
            Some(Reason::InvalidRequest)
        );
    }
}
