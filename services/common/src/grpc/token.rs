//! Signed service tokens: how a role proves itself to another over a socket (SEC-1).
//!
//! `1.<role>.<expiry, Unix seconds>.<HMAC-SHA-256 of what stands before, hex>`, under a sub-key of the master key. A
//! token proves a role, not a process; whoever has the master key is one of us.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderValue;
use sha2::Sha256;

use super::Role;
use crate::{
    clock::SharedClock,
    secret::{MasterKey, Purpose, SubKey},
};

pub(super) const HEADER: &str = "x-switchboard-service";

/// How far two machines' clocks may be apart.
const LEEWAY_SECS: i64 = 30;

/// Signs and checks service tokens. Clones share the token at hand.
#[derive(Clone)]
pub struct ServiceTokens {
    key: SubKey,
    clock: SharedClock,
    life_secs: i64,
    current: Arc<ArcSwapOption<(Role, i64, HeaderValue)>>,
}

impl std::fmt::Debug for ServiceTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServiceTokens(***)")
    }
}

impl ServiceTokens {
    /// Tokens that live for `life`.
    #[must_use]
    pub fn new(master: &MasterKey, clock: SharedClock, life: Duration) -> Self {
        Self {
            key: master.subkey(Purpose::ServiceToken),
            clock,
            life_secs: i64::try_from(life.as_secs()).unwrap_or(i64::MAX).max(2),
            current: Arc::default(),
        }
    }

    /// A token of this role with at least half of its life before it.
    #[must_use]
    pub fn token(&self, role: Role) -> HeaderValue {
        let now = self.clock.now_ms() / 1_000;
        if let Some(current) = self.current.load().as_ref()
            && current.0 == role
            && current.1 - now > self.life_secs / 2
        {
            return current.2.clone();
        }
        let expiry = now.saturating_add(self.life_secs);
        let body = format!("1.{role}.{expiry}");
        let signature = hex::encode(self.sign(&body).finalize().into_bytes());
        // Digits, letters, dots and dashes are always a header value.
        let mut value = HeaderValue::from_str(&format!("{body}.{signature}"))
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        self.current
            .store(Some(Arc::new((role, expiry, value.clone()))));
        value
    }

    /// The role that a token proves; `None` when it proves nothing.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<Role> {
        let (body, signature) = token.rsplit_once('.')?;
        let mut given = [0_u8; 32];
        hex::decode_to_slice(signature, &mut given).ok()?;
        // Compares in constant time.
        self.sign(body).verify_slice(&given).ok()?;
        let (version_and_role, expiry) = body.rsplit_once('.')?;
        let role = version_and_role.strip_prefix("1.")?.parse().ok()?;
        let expiry = expiry.parse::<i64>().ok()?;
        let now = self.clock.now_ms() / 1_000;
        (now <= expiry.saturating_add(LEEWAY_SECS)).then_some(role)
    }

    fn sign(&self, body: &str) -> Hmac<Sha256> {
        // HMAC takes keys of any length.
        #[expect(clippy::expect_used, reason = "HMAC-SHA-256 takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.bytes()).expect("HMAC takes any key");
        mac.update(body.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_token_proves_its_role_until_it_expires_and_nothing_else() {
        let clock = ManualClock::at_ms(1_000_000_000);
        let master = MasterKey::from_bytes([7; 32]);
        let tokens = ServiceTokens::new(&master, clock.clone(), Duration::from_secs(60));
        let value = tokens.token(Role::Forwarder);
        let text = value.to_str().unwrap();
        assert_eq!(tokens.verify(text), Some(Role::Forwarder));
        assert_eq!(tokens.verify(&text.replace("forwarder", "edge")), None);
        assert_eq!(tokens.verify(&text[..text.len() - 2]), None);
        for nothing in ["", ".", "1.edge.99999999999.", "1.edge.99999999999.00"] {
            assert_eq!(tokens.verify(nothing), None, "{nothing}");
        }
        let other = ServiceTokens::new(
            &MasterKey::from_bytes([8; 32]),
            clock.clone(),
            Duration::from_secs(60),
        );
        assert_eq!(other.verify(text), None);
        clock.advance_ms(91_000);
        assert_eq!(tokens.verify(text), None);
    }

    #[test]
    fn a_token_is_renewed_at_half_its_life_and_per_role() {
        let clock = ManualClock::at_ms(0);
        let tokens = ServiceTokens::new(
            &MasterKey::from_bytes([7; 32]),
            clock.clone(),
            Duration::from_secs(60),
        );
        let first = tokens.token(Role::Edge);
        assert_eq!(tokens.token(Role::Edge), first);
        clock.advance_ms(31_000);
        assert_ne!(tokens.token(Role::Edge), first);
        let auth = tokens.token(Role::Auth);
        assert_eq!(tokens.verify(auth.to_str().unwrap()), Some(Role::Auth));
    }
}
