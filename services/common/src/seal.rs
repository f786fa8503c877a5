//! Sealing of what is kept at rest: XChaCha20-Poly1305 with a random nonce per record. The associated data binds a record to
//! what it belongs to, so that records cannot be exchanged; the key id tells which master key sealed it.

use std::fmt;

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use rand::Rng;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::secret::SubKey;

const NONCE: usize = 24;

/// What was sealed, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Random, of this record alone.
    pub nonce: Vec<u8>,
    /// With its authenticator.
    pub ciphertext: Vec<u8>,
    /// Which key sealed it.
    pub key_id: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealed(key {})", self.key_id)
    }
}

/// Why a record does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another master key is needed.
    #[error("it was sealed with another master key ({stored}; this process has {ours})")]
    OtherKey {
        /// Id of the key that sealed it.
        stored: String,
        /// Id of ours.
        ours: String,
    },
    /// It was changed, or stands in another record's place.
    #[error("it is damaged")]
    Damaged,
}

/// A record that could not be sealed; the cipher gives no reason.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be sealed")]
pub struct SealError;

/// Seals and opens with one sub-key.
#[derive(Clone)]
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    key_id: String,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer(key {})", self.key_id)
    }
}

impl Sealer {
    /// With a sub-key whose purpose is sealing.
    #[must_use]
    pub fn new(key: &SubKey) -> Self {
        // The label is the vault's, which was first: its rows bear ids that were made with it.
        let digest = Sha256::new()
            .chain_update(b"switchboard/vault-key-id/1")
            .chain_update(key.bytes())
            .finalize();
        Self {
            cipher: XChaCha20Poly1305::new(key.bytes().into()),
            key_id: hex::encode(&digest[..8]),
        }
    }

    /// Names the key, without telling it.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Seals `plain` as belonging to `binding`.
    ///
    /// # Errors
    /// It is longer than the cipher allows (256 GiB).
    pub fn seal(
        &self,
        plain: &[u8],
        binding: &[u8],
        random: &mut impl Rng,
    ) -> Result<Sealed, SealError> {
        let mut nonce = [0_u8; NONCE];
        random.fill_bytes(&mut nonce);
        let payload = Payload {
            msg: plain,
            aad: binding,
        };
        let ciphertext = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError)?;
        Ok(Sealed {
            nonce: nonce.to_vec(),
            ciphertext,
            key_id: self.key_id.clone(),
        })
    }

    /// Opens what was sealed as belonging to `binding`. What it gives is erased when dropped.
    ///
    /// # Errors
    /// Another key sealed it, or it was changed or belongs elsewhere.
    pub fn open(&self, sealed: &Sealed, binding: &[u8]) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        if sealed.key_id != self.key_id {
            return Err(OpenError::OtherKey {
                stored: sealed.key_id.clone(),
                ours: self.key_id.clone(),
            });
        }
        let nonce = <[u8; NONCE]>::try_from(&*sealed.nonce).map_err(|_| OpenError::Damaged)?;
        let payload = Payload {
            msg: &sealed.ciphertext,
            aad: binding,
        };
        let plain = self.cipher.decrypt(&XNonce::from(nonce), payload);
        plain.map(Zeroizing::new).map_err(|_| OpenError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;
    use crate::secret::{MasterKey, Purpose};

    fn sealer(byte: u8) -> Sealer {
        Sealer::new(&MasterKey::from_bytes([byte; 32]).subkey(Purpose::Vault))
    }

    fn seal(plain: &[u8], binding: &[u8], seed: u64) -> Sealed {
        let mut random = StdRng::seed_from_u64(seed);
        sealer(1).seal(plain, binding, &mut random).unwrap()
    }

    #[test]
    fn a_record_opens_only_whole_and_as_what_it_was_sealed() {
        let sealed = seal(b"sk-upstream", b"main", 1);
        assert_eq!(**sealer(1).open(&sealed, b"main").unwrap(), *b"sk-upstream");
        let damaged = |sealed: &Sealed, binding: &[u8]| {
            assert_eq!(sealer(1).open(sealed, binding), Err(OpenError::Damaged));
        };
        damaged(&sealed, b"other");
        let mut changed = sealed.clone();
        changed.ciphertext[0] ^= 1;
        damaged(&changed, b"main");
        changed = sealed;
        changed.nonce.pop();
        damaged(&changed, b"main");
    }

    #[test]
    fn another_master_key_is_told_as_such_and_nothing_of_a_key_is_printed() {
        let sealed = seal(b"sk-upstream", b"main", 1);
        let error = sealer(2).open(&sealed, b"main").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("it was sealed with another master key")
        );
        let printed = format!("{sealed:?} {:?} {error:?} {error}", sealer(1));
        let key = MasterKey::from_bytes([1; 32]).subkey(Purpose::Vault);
        assert!(!printed.contains(&hex::encode(&key.bytes()[..8])));
        assert!(!printed.contains("sk-upstream"));
    }

    /// Stored credentials bear it: another one would lock them up.
    #[test]
    fn the_id_of_a_key_stays_what_it_is() {
        assert_eq!(sealer(1).key_id(), "30602a5aba9b159e");
    }

    proptest! {
        #[test]
        fn whatever_is_sealed_survives_and_no_two_records_are_alike(
            plain in prop::collection::vec(any::<u8>(), 1..200),
            seed in any::<u64>(),
        ) {
            let (first, second) = (seal(&plain, b"a", seed), seal(&plain, b"a", seed.wrapping_add(1)));
            assert_eq!(**sealer(1).open(&first, b"a").unwrap(), *plain);
            assert_ne!(first.nonce, second.nonce);
            assert_ne!(first.ciphertext, second.ciphertext);
        }
    }
}
