//! API keys: their form (CON-5) and their keyed hash (AUTH-2).

mod form;
#[cfg(test)]
mod tests;

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use switchboard_common::secret::SubKey;
use zeroize::Zeroize as _;

pub use form::{
    Form, ISSUED_LENGTH, MAXIMUM, OWN_MINIMUM, PREFIX, form, generate, looks_issued, shown,
};

/// A key as it is stored and looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// From a stored value; `None` when it has another length.
    #[must_use]
    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHash(***)")
    }
}

/// Hashes keys with a key of its own (HMAC-SHA-256): the stored hashes are worth nothing without the master key.
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    /// With the sub-key of purpose `ApiKeyHash`.
    #[must_use]
    pub fn new(key: &SubKey) -> Self {
        // HMAC pads a shorter key with zeros to its block; a whole block cannot be refused.
        let mut block = [0_u8; 64];
        block[..32].copy_from_slice(key.bytes());
        let keyed = Hmac::<Sha256>::new(&block.into());
        block.zeroize();
        Self(keyed)
    }

    /// The hash of a caller's key.
    #[must_use]
    pub fn key(&self, text: &str) -> KeyHash {
        self.hash(b"key\0", text)
    }

    /// The hash of an admin's token; never equal to that of a key.
    #[must_use]
    pub fn admin_token(&self, text: &str) -> KeyHash {
        self.hash(b"admin\0", text)
    }

    /// A value that takes the place of a hash whose text now belongs to another key; no text hashes to it.
    #[must_use]
    pub fn retired(&self, key_id: &str) -> KeyHash {
        self.hash(b"retired\0", key_id)
    }

    fn hash(&self, domain: &[u8], text: &str) -> KeyHash {
        let mut mac = self.0.clone();
        mac.update(domain);
        mac.update(text.as_bytes());
        KeyHash(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHasher(***)")
    }
}
