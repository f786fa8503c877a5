//! What can be known to be wrong from settings alone: `serve` refuses it before it touches anything, `config check` in the same
//! words. It opens no file and reaches for nobody.

use switchboard_common::{
    db::url_problem,
    grpc::{Address, Role, check_peer},
};

use super::{Listen, Settings, have_facts, have_state, is_whole};

/// Settings that cannot be: which, what was expected, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Settings {
    /// Checks all that can be known from settings alone, for a process with these roles.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self, roles: &[Role]) -> Result<(), Error> {
        self.check_topology(roles)?;
        self.check_sections(roles).map_err(Error)
    }

    /// What no single section can see.
    fn check_topology(&self, roles: &[Role]) -> Result<(), Error> {
        let alone = is_whole(roles);
        let wrong = |setting: &str, message: String| Err(Error(format!("{setting}: {message}")));
        if alone && self.peers.are_given() {
            return wrong(
                "peers",
                "expected none: all roles run in this process and ask no others; name the roles that are to run here with --role"
                    .to_owned(),
            );
        }
        if let Some((setting, message)) = self.listen.of(roles).problem() {
            return wrong(setting, message);
        }
        if !alone && have_facts(roles) && self.database.url.is_empty() {
            return wrong(
                "database.url",
                "expected a PostgreSQL URL: roles in several processes cannot share SQLite files"
                    .to_owned(),
            );
        }
        if !alone && have_state(roles) && self.redis.url.is_empty() {
            return wrong(
                "redis.url",
                "expected a Redis URL: roles in several processes cannot share memory, and each would grant all slots"
                    .to_owned(),
            );
        }
        if !alone && self.master_key_file.is_none() {
            return wrong(
                "master_key_file",
                "expected a file with 64 hexadecimal digits, the same for all roles".to_owned(),
            );
        }
        if self.forwarder.progress >= self.billing.silence {
            return wrong(
                "forwarder.progress",
                "expected less than billing.silence: billing settles what shows no life for that long, though it may still run"
                    .to_owned(),
            );
        }
        let needed: &[(Role, &[Role])] = &[
            (
                Role::Edge,
                &[
                    Role::Forwarder,
                    Role::Auth,
                    Role::Scheduler,
                    Role::TokenRefresh,
                    Role::Billing,
                ],
            ),
            (
                Role::Forwarder,
                &[
                    Role::Auth,
                    Role::Scheduler,
                    Role::TokenRefresh,
                    Role::Billing,
                ],
            ),
        ];
        for (role, peers) in needed {
            for peer in peers.iter().filter(|_| roles.contains(role)) {
                if !roles.contains(peer) && self.peers.of(*peer).is_empty() {
                    return wrong(
                        "peers",
                        format!(
                            "expected peers.{peer}: the {role} needs it and it does not run here"
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    /// What each section knows of itself: those of all roles, and of the roles of this process.
    fn check_sections(&self, roles: &[Role]) -> Result<(), String> {
        fn said<T>(checked: Result<T, impl std::fmt::Display>) -> Result<(), String> {
            checked.map(drop).map_err(|error| error.to_string())
        }
        said(self.telemetry.check())?;
        if !self.database.url.is_empty()
            && let Some(problem) = url_problem(&self.database.url)
        {
            return Err(problem.to_owned());
        }
        let sections = self.clone().spread();
        said(sections.state.check())?;
        sections.grpc.problem().map_or(Ok(()), Err)?;
        for role in roles {
            match role {
                Role::Edge => sections.edge.problem().map_or(Ok(()), Err),
                Role::Forwarder => sections.forwarder.problem().map_or(Ok(()), Err),
                Role::Auth => said(sections.auth.check()),
                Role::Scheduler => said(sections.scheduler.check()),
                Role::TokenRefresh => said(sections.token_refresh.check()),
                Role::Billing => sections.billing.problem().map_or(Ok(()), Err),
            }?;
        }
        for role in Role::ALL {
            for peer in self.peers.of(role) {
                check_peer(peer).map_err(|problem| format!("peers.{role}: {problem}"))?;
            }
        }
        Ok(())
    }
}

impl Listen {
    /// What of it cannot be.
    fn problem(&self) -> Option<(&'static str, String)> {
        if let Some(Address::Unix(_)) = &self.http {
            let expected = "expected IP:PORT; HTTP does not listen on a Unix socket";
            return Some(("listen.http", expected.to_owned()));
        }
        let all = [
            ("listen.http", &self.http),
            ("listen.grpc", &self.grpc),
            ("listen.internal", &self.internal),
        ];
        let mut seen: Vec<(&str, &Address)> = Vec::new();
        for (setting, address) in all {
            let Some(address) = address else { continue };
            let is_any = matches!(address, Address::Tcp(tcp) if tcp.port() == 0);
            if let Some((other, _)) = seen.iter().find(|(_, seen)| *seen == address)
                && !is_any
            {
                let message = format!("expected an address of its own; {address} is {other}");
                return Some((setting, message));
            }
            seen.push((setting, address));
        }
        None
    }
}
