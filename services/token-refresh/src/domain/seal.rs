//! Sealing of credentials (CRED-1): each is bound to its account and generation, so that rows cannot be exchanged.

use rand::Rng;
use secrecy::{ExposeSecret as _, SecretString};
use switchboard_common::seal::{OpenError, SealError, Sealed, Sealer};

/// Seals a secret for one account and generation.
pub(crate) fn seal(
    sealer: &Sealer,
    account: &str,
    generation: u64,
    secret: &SecretString,
    random: &mut impl Rng,
) -> Result<Sealed, SealError> {
    let secret = secret.expose_secret().as_bytes();
    sealer.seal(secret, &binding(account, generation), random)
}

/// Opens a record of this account and generation.
pub(crate) fn open(
    sealer: &Sealer,
    account: &str,
    generation: u64,
    sealed: &Sealed,
) -> Result<SecretString, OpenError> {
    let plain = sealer.open(sealed, &binding(account, generation))?;
    let text = std::str::from_utf8(&plain).map_err(|_| OpenError::Damaged)?;
    Ok(SecretString::from(text))
}

/// Unambiguous: the generation has a fixed length.
fn binding(account: &str, generation: u64) -> Vec<u8> {
    let mut data = generation.to_be_bytes().to_vec();
    data.extend_from_slice(account.as_bytes());
    data
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};
    use switchboard_common::secret::{MasterKey, Purpose};

    use super::*;

    #[test]
    fn a_credential_opens_only_as_the_account_and_generation_that_it_was_sealed_for() {
        let sealer = Sealer::new(&MasterKey::from_bytes([1; 32]).subkey(Purpose::Vault));
        let secret = SecretString::from("sk-upstream");
        let mut random = StdRng::seed_from_u64(1);
        let sealed = seal(&sealer, "main", 3, &secret, &mut random).unwrap();
        let open = |account, generation| {
            let secret = open(&sealer, account, generation, &sealed);
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        assert_eq!(open("main", 3), Ok("sk-upstream".to_owned()));
        assert_eq!(open("main", 2), Err(OpenError::Damaged));
        assert_eq!(open("other", 3), Err(OpenError::Damaged));
    }
}
