//! Sealing (CRED-1): XChaCha20-Poly1305 with a random nonce per record. The associated data binds a record to its account and
//! generation, so that rows cannot be exchanged; the key id tells which master key sealed it.

use std::fmt;

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use rand::Rng;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use switchboard_common::secret::SubKey;
use zeroize::{Zeroize as _, Zeroizing};

const NONCE: usize = 24;

/// A secret as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Random, of this record alone.
    pub(crate) nonce: Vec<u8>,
    /// With its authenticator.
    pub(crate) ciphertext: Vec<u8>,
    /// Which key sealed it.
    pub(crate) key_id: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealed(key {})", self.key_id)
    }
}

/// Why a record does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
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
#[derive(Debug)]
pub(crate) struct SealError;

/// Seals and opens with the vault's key.
#[derive(Clone)]
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    key_id: String,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer(key {})", self.key_id)
    }
}

impl Sealer {
    /// With the sub-key of purpose `Vault`.
    pub(crate) fn new(key: &SubKey) -> Self {
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
    pub(crate) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Seals a secret for one account and generation.
    pub(crate) fn seal(
        &self,
        account: &str,
        generation: u64,
        secret: &SecretString,
        random: &mut impl Rng,
    ) -> Result<Sealed, SealError> {
        let mut nonce = [0_u8; NONCE];
        random.fill_bytes(&mut nonce);
        let ciphertext = self
            .cipher
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: secret.expose_secret().as_bytes(),
                    aad: &binding(account, generation),
                },
            )
            .map_err(|_| SealError)?;
        Ok(Sealed {
            nonce: nonce.to_vec(),
            ciphertext,
            key_id: self.key_id.clone(),
        })
    }

    /// Opens a record of this account and generation.
    pub(crate) fn open(
        &self,
        account: &str,
        generation: u64,
        sealed: &Sealed,
    ) -> Result<SecretString, OpenError> {
        if sealed.key_id != self.key_id {
            return Err(OpenError::OtherKey {
                stored: sealed.key_id.clone(),
                ours: self.key_id.clone(),
            });
        }
        let nonce: [u8; NONCE] = sealed
            .nonce
            .as_slice()
            .try_into()
            .map_err(|_| OpenError::Damaged)?;
        let plain = Zeroizing::new(
            self.cipher
                .decrypt(
                    &XNonce::from(nonce),
                    Payload {
                        msg: &sealed.ciphertext,
                        aad: &binding(account, generation),
                    },
                )
                .map_err(|_| OpenError::Damaged)?,
        );
        let mut text = std::str::from_utf8(&plain)
            .map_err(|_| OpenError::Damaged)?
            .to_owned();
        let secret = SecretString::from(text.as_str());
        text.zeroize();
        Ok(secret)
    }
}

/// Unambiguous: the generation has a fixed length.
fn binding(account: &str, generation: u64) -> Vec<u8> {
    let mut data = generation.to_be_bytes().to_vec();
    data.extend_from_slice(account.as_bytes());
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use rand::{SeedableRng as _, rngs::StdRng};
    use switchboard_common::secret::{MasterKey, Purpose};

    use super::*;

    fn sealer(byte: u8) -> Sealer {
        Sealer::new(&MasterKey::from_bytes([byte; 32]).subkey(Purpose::Vault))
    }

    fn seal(account: &str, generation: u64, secret: &str, seed: u64) -> Sealed {
        let mut random = StdRng::seed_from_u64(seed);
        sealer(1)
            .seal(
                account,
                generation,
                &SecretString::from(secret),
                &mut random,
            )
            .unwrap()
    }

    #[test]
    fn a_record_opens_only_as_what_it_was_sealed() {
        let sealed = seal("main", 3, "sk-upstream", 1);
        let open = |account, generation| {
            sealer(1)
                .open(account, generation, &sealed)
                .map(|secret| secret.expose_secret().to_owned())
        };
        assert_eq!(open("main", 3), Ok("sk-upstream".to_owned()));
        assert_eq!(
            open("main", 2),
            Err(OpenError::Damaged),
            "another generation"
        );
        assert_eq!(open("other", 3), Err(OpenError::Damaged), "another account");
        let mut changed = sealed.clone();
        changed.ciphertext[0] ^= 1;
        assert_eq!(
            sealer(1).open("main", 3, &changed).unwrap_err(),
            OpenError::Damaged
        );
        changed = sealed.clone();
        changed.nonce.pop();
        assert_eq!(
            sealer(1).open("main", 3, &changed).unwrap_err(),
            OpenError::Damaged
        );
    }

    #[test]
    fn another_master_key_is_told_as_such_and_nothing_of_a_key_is_printed() {
        let sealed = seal("main", 1, "sk-upstream", 1);
        let error = sealer(2).open("main", 1, &sealed).unwrap_err();
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

    proptest! {
        #[test]
        fn every_secret_survives_and_no_two_records_are_alike(secret in "\\PC{1,200}", seed in any::<u64>()) {
            let (first, second) = (seal("a", 1, &secret, seed), seal("a", 1, &secret, seed.wrapping_add(1)));
            assert_eq!(sealer(1).open("a", 1, &first).unwrap().expose_secret(), secret);
            assert_ne!(first.nonce, second.nonce);
            assert_ne!(first.ciphertext, second.ciphertext);
        }
    }
}
