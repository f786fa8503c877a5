//! The data directory (CON-3): keys, databases, journal, the address of the running program, and a lock so that only one
//! program uses it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rand::Rng as _;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use switchboard_common::{
    grpc::Role,
    secret::{self, MasterKey, write_private},
};

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing in it.
    #[error("data directory {path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Reading the admin token.
    #[error("admin token file {path}: {source}")]
    Token {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Another program has it.
    #[error("data directory {0} is in use by another program; stop it first, or use its address")]
    InUse(String),
    /// The master key.
    #[error(transparent)]
    Key(#[from] secret::Error),
    /// The key is gone, and what it sealed is not.
    #[error(
        "{0} is missing, but the databases beside it were made with it: put it back; a new key would open no credential and know no API key"
    )]
    KeyGone(String),
    /// Something is there whose key is not.
    #[error(
        "the databases in data directory {0} were made with a master key that is not in it: put master.key back, or, where a setting keeps it somewhere else, start the program and give --addr"
    )]
    KeyElsewhere(String),
    /// A token of nothing.
    #[error(
        "admin token file {0} is empty; expected a line with the token (without the file in the data directory one is made)"
    )]
    NoToken(String),
    /// There is none.
    #[error("there is no data directory {0}; give the one that `switchboard serve` uses")]
    Missing(String),
}

/// Where a running program can be reached; `endpoint.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// HTTP address.
    pub http: String,
    /// Public gRPC address.
    pub grpc: String,
    /// Process id.
    pub pid: u32,
}

/// What lives in a data directory, for whoever finds it without its program; `installation.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// The roles that were last started in it.
    pub roles: Vec<Role>,
    /// Whether its facts lie in it (SQLite), not in PostgreSQL.
    pub has_facts: bool,
}

/// A data directory. Holding one says nothing about its use; a [`Lock`] does.
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

/// The right to use a data directory; given back when dropped, also when the process dies.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] File);

impl DataDir {
    /// At a path, made when missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => io::Error::new(
                    io::ErrorKind::NotADirectory,
                    "this is a file; expected a directory, or a path where one can be made",
                ),
                _ => source,
            })
            .map_err(|source| at(path, source))?;
        Ok(Self(path.to_owned()))
    }

    /// At a path that exists.
    ///
    /// # Errors
    /// It does not.
    pub fn existing(path: &Path) -> Result<Self, Error> {
        let (dir, shown) = (Self(path.to_owned()), path.display().to_string());
        let key = path.join("master.key");
        if key.try_exists().map_err(|source| at(&key, source))? {
            Ok(dir)
        } else if dir.has_databases().unwrap_or_default() {
            Err(Error::KeyElsewhere(shown))
        } else {
            Err(Error::Missing(shown))
        }
    }

    /// Whether a program has the lock of the directory at a path. An unlocked one is left as it is.
    ///
    /// # Errors
    /// The lock cannot be looked at.
    pub fn is_in_use(path: &Path) -> Result<bool, Error> {
        if !path.join("lock").is_file() {
            return Ok(false);
        }
        match Self(path.to_owned()).lock() {
            Ok(_) => Ok(false),
            Err(Error::InUse(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// Another program has it.
    pub fn lock(&self) -> Result<Lock, Error> {
        let path = self.0.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| at(&path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(Error::InUse(self.0.display().to_string()))
            }
            Err(std::fs::TryLockError::Error(source)) => Err(at(&path, source)),
        }
    }

    /// The master key; made when the directory is new.
    ///
    /// # Errors
    /// It cannot be read or made, or it is gone: databases are there that were made with it.
    pub fn master_key(&self) -> Result<MasterKey, Error> {
        let path = self.0.join("master.key");
        if !path.exists() && self.has_databases()? {
            return Err(Error::KeyGone(path.display().to_string()));
        }
        Ok(MasterKey::load_or_create(&path)?)
    }

    fn has_databases(&self) -> Result<bool, Error> {
        for entry in std::fs::read_dir(&self.0).map_err(|source| at(&self.0, source))? {
            let name = entry.map_err(|source| at(&self.0, source))?.file_name();
            if Path::new(&name).extension() == Some("sqlite".as_ref()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The admin token, and whether it was made just now.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn admin_token(&self) -> Result<(SecretString, bool), Error> {
        let path = self.0.join("admin.token");
        if !path.exists() {
            let token = format!("sb-admin-{}", random_hex());
            return match write_private(&path, token.as_bytes()) {
                Ok(()) => Ok((SecretString::from(token), true)),
                Err(source) => Err(at(&path, source)),
            };
        }
        Ok((read_token(&path)?, false))
    }

    /// A secret of this directory's own under a name, made when missing: for the demo's key.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn own_secret(&self, name: &str, prefix: &str) -> Result<(PathBuf, String), Error> {
        let path = self.0.join(name);
        if !path.exists() {
            let secret = format!("{prefix}{}", random_hex());
            write_private(&path, secret.as_bytes()).map_err(|source| at(&path, source))?;
        }
        let secret = std::fs::read_to_string(&path).map_err(|source| at(&path, source))?;
        Ok((path, secret.trim().to_owned()))
    }

    /// Says where the running program is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn publish(&self, endpoint: &Endpoint) -> Result<(), Error> {
        self.replace("endpoint.json", endpoint)
    }

    /// Says what lives here.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn describe(&self, installation: &Installation) -> Result<(), Error> {
        self.replace("installation.json", installation)
    }

    /// What was last said to live here; `None`: nothing was ever started in it.
    #[must_use]
    pub fn installation(&self) -> Option<Installation> {
        let text = std::fs::read_to_string(self.0.join("installation.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn replace(&self, name: &str, content: &impl Serialize) -> Result<(), Error> {
        let path = self.0.join(name);
        let draft = self.0.join(format!(".{name}"));
        let text = serde_json::to_string(content).unwrap_or_default();
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(&draft, &path))
            .map_err(|source| at(&path, source))
    }

    /// Where the running program said it is. It may have died since: the lock tells.
    #[must_use]
    pub fn endpoint(&self) -> Option<Endpoint> {
        let text = std::fs::read_to_string(self.0.join("endpoint.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Takes back what [`DataDir::publish`] said.
    pub fn retract(&self) {
        // A program that ends can do no more about it.
        let _ = std::fs::remove_file(self.0.join("endpoint.json"));
    }

    /// Writes a file for people once; an existing one is theirs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_once(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.0.join(name);
        if path.exists() {
            return Ok(());
        }
        std::fs::write(&path, text).map_err(|source| at(&path, source))
    }

    /// A service's database file.
    #[must_use]
    pub fn database(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.sqlite"))
    }

    /// The forwarder's journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The admin token in a file.
///
/// # Errors
/// It cannot be read, or is empty.
pub fn read_token(path: &Path) -> Result<SecretString, Error> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| Error::Token {
        path: shown(),
        source,
    })?;
    match text.trim() {
        "" => Err(Error::NoToken(shown())),
        token => Ok(SecretString::from(token.to_owned())),
    }
}

fn at(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.display().to_string(),
        source,
    }
}

fn random_hex() -> String {
    let mut bytes = [0_u8; 32];
    #[expect(
        clippy::disallowed_methods,
        reason = "a secret must come from the system's source"
    )]
    rand::rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn one_program_at_a_time_and_the_token_is_made_once() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::create(&root.path().join("d")).unwrap();
        let lock = dir.lock().unwrap();
        assert!(matches!(dir.lock(), Err(Error::InUse(_))));
        drop(lock);
        assert!(dir.lock().is_ok());
        let (first, made) = dir.admin_token().unwrap();
        assert!(made);
        let (second, made) = dir.admin_token().unwrap();
        assert!(!made);
        assert_eq!(first.expose_secret(), second.expose_secret());
    }

    #[test]
    fn a_lost_master_key_is_not_replaced_beside_what_it_sealed() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::create(root.path()).unwrap();
        assert!(dir.master_key().is_ok());
        std::fs::write(root.path().join("auth.sqlite"), "").unwrap();
        assert!(dir.master_key().is_ok());
        std::fs::remove_file(root.path().join("master.key")).unwrap();
        assert!(matches!(dir.master_key(), Err(Error::KeyGone(_))));
        assert!(!root.path().join("master.key").exists());
    }

    #[test]
    fn a_token_of_nothing_is_none() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::create(root.path()).unwrap();
        std::fs::write(root.path().join("admin.token"), "\n").unwrap();
        assert!(matches!(dir.admin_token(), Err(Error::NoToken(_))));
        let missing = read_token(&root.path().join("other")).unwrap_err();
        let told = missing.to_string();
        assert!(told.starts_with("admin token file "), "{told}");
    }

    #[test]
    fn a_directory_whose_key_is_gone_is_not_called_missing() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("auth.sqlite"), "").unwrap();
        let error = DataDir::existing(root.path()).unwrap_err();
        assert!(matches!(error, Error::KeyElsewhere(_)), "{error}");
        let file = DataDir::create(&root.path().join("auth.sqlite")).unwrap_err();
        assert!(file.to_string().contains("expected a directory"), "{file}");
    }

    #[test]
    fn a_directory_that_is_none_is_named() {
        let error = DataDir::existing(Path::new("/nonexistent/here")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/here"));
    }
}
