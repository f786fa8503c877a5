//! The master key and the sub-keys made from it, one per purpose (HKDF-SHA-256).
//!
//! The composition root holds the master key and hands each service only the sub-keys it needs; the vault's goes to
//! token-refresh alone. Nothing here prints a key.

use std::{fmt, io, path::Path};

use hkdf::Hkdf;
use rand::Rng as _;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// What a sub-key is for. The text is part of the derivation: changing one changes the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Keyed hash of API keys (auth).
    ApiKeyHash,
    /// Signatures of service tokens (every role).
    ServiceToken,
    /// Encryption of upstream credentials (token-refresh).
    Vault,
    /// Encryption of what open requests ask (forwarder).
    Journal,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::ApiKeyHash => b"switchboard/api-key-hash/1",
            Self::ServiceToken => b"switchboard/service-token/1",
            Self::Vault => b"switchboard/vault/1",
            Self::Journal => b"switchboard/journal/1",
        }
    }
}

/// 256 bits from which all sub-keys are made.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; 32]);

/// A key for one purpose.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SubKey([u8; 32]);

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("master key file {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("master key file {0}: expected 64 hexadecimal digits (32 bytes) and nothing else")]
    Malformed(String),
}

impl MasterKey {
    /// From its 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// The file is missing, unreadable or malformed.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut text = std::fs::read_to_string(path).map_err(|source| Error::Io {
            path: path.display().to_string(),
            source,
        })?;
        let mut bytes = [0_u8; 32];
        let decoded = hex::decode_to_slice(text.trim(), &mut bytes);
        text.zeroize();
        decoded.map_err(|_| Error::Malformed(path.display().to_string()))?;
        Ok(Self(bytes))
    }

    /// Reads the file, or makes a new key and writes it there for its owner alone (0600).
    ///
    /// # Errors
    /// As [`MasterKey::load`], and when the file cannot be written.
    pub fn load_or_create(path: &Path) -> Result<Self, Error> {
        if path.exists() {
            return Self::load(path);
        }
        let mut bytes = [0_u8; 32];
        #[expect(
            clippy::disallowed_methods,
            reason = "a key must come from the system's source"
        )]
        rand::rng().fill_bytes(&mut bytes);
        let mut text = hex::encode(bytes);
        let written = write_private(path, text.as_bytes());
        text.zeroize();
        match written {
            Ok(()) => Ok(Self(bytes)),
            // Another process was first: its key counts.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(path),
            Err(source) => Err(Error::Io {
                path: path.display().to_string(),
                source,
            }),
        }
    }

    /// The sub-key for a purpose.
    #[must_use]
    pub fn subkey(&self, purpose: Purpose) -> SubKey {
        let mut key = [0_u8; 32];
        // Expanding 32 bytes of SHA-256 cannot be too long.
        let expanded = Hkdf::<Sha256>::new(None, &self.0).expand(purpose.label(), &mut key);
        debug_assert!(expanded.is_ok(), "32 bytes are within HKDF's bound");
        SubKey(key)
    }
}

impl SubKey {
    /// The bytes, for the primitive that needs them.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(***)")
    }
}

impl fmt::Debug for SubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubKey(***)")
    }
}

/// Creates a file that only its owner may read, durably and whole: it appears with its content or not at all.
///
/// # Errors
/// `AlreadyExists` when there is one; else what the system says.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    // A hard link fails when the name is taken; a rename would replace it.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_key_is_made_once_and_each_purpose_has_its_own_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        let first = MasterKey::load_or_create(&path).unwrap();
        let second = MasterKey::load_or_create(&path).unwrap();
        assert_eq!(
            first.subkey(Purpose::Vault).bytes(),
            second.subkey(Purpose::Vault).bytes()
        );
        assert_ne!(
            first.subkey(Purpose::Vault).bytes(),
            first.subkey(Purpose::ApiKeyHash).bytes()
        );
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(format!("{first:?}"), "MasterKey(***)");
    }

    #[test]
    fn a_malformed_file_is_named_and_its_content_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        std::fs::write(&path, "hunter2").unwrap();
        let error = MasterKey::load_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("master.key") && !error.contains("hunter2"));
    }
}
