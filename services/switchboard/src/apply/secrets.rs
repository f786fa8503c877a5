//! Secrets by reference, resolved in the process that reads the file.

use secrecy::SecretString;
use switchboard_catalogue::SecretRef;

/// Where references lead. A parameter, so that tests need not touch the process's environment.
pub trait Secrets {
    /// The secret behind a reference; `None` for `none`.
    ///
    /// # Errors
    /// What is missing and what to do; never a secret.
    fn resolve(&self, reference: &SecretRef) -> Result<Option<SecretString>, String>;
}

/// The environment and the files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSecrets;

impl Secrets for SystemSecrets {
    fn resolve(&self, reference: &SecretRef) -> Result<Option<SecretString>, String> {
        let text = match reference {
            SecretRef::None => return Ok(None),
            SecretRef::Env(name) => std::env::var(name).map_err(|_| {
                format!("environment variable {name} is not set; set it where this file is read")
            })?,
            SecretRef::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("file {path} cannot be read ({error})"))?,
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(format!("{reference} is empty"));
        }
        Ok(Some(SecretString::from(text)))
    }
}
