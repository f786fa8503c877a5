//! How a catalogue's credentials differ from what is stored (ROUTE-7): what left is disabled, never deleted; what came from
//! elsewhere is not touched; the same secret twice is no difference. Pure.

use std::collections::{BTreeMap, HashSet};

use secrecy::{ExposeSecret as _, SecretString};

/// Longest secret, bytes.
const SECRET: usize = 64 * 1024;
/// Longest name of an account, characters.
const NAME: usize = 200;

/// Where the file's credentials come from.
pub(crate) const FILE: &str = "file";

/// A fault in a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub(crate) struct Problem {
    /// The field at fault, as a path.
    pub(crate) field: String,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// An account's credential as it was sent.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Whose.
    pub(crate) account: String,
    /// Empty: the account has none.
    pub(crate) secret: SecretString,
}

/// An account's newest stored generation.
#[derive(Debug)]
pub(crate) struct Current {
    /// Whose.
    pub(crate) account: String,
    /// From 1 on.
    pub(crate) generation: u64,
    /// Whether it may be used.
    pub(crate) active: bool,
    /// Who put it there.
    pub(crate) origin: String,
    /// `None`: it does not open with our key, so it counts as another secret.
    pub(crate) secret: Option<SecretString>,
}

/// What is to be written for one account.
#[derive(Debug)]
pub(crate) enum Step {
    /// A new generation.
    Put {
        /// Whose.
        account: String,
        /// One above the newest.
        generation: u64,
        /// What to seal.
        secret: SecretString,
        /// For people; empty when the account is new.
        detail: &'static str,
    },
    /// The newest generation may be used again.
    Enable {
        /// Whose.
        account: String,
    },
    /// It left the file.
    Disable {
        /// Whose.
        account: String,
    },
}

impl Step {
    /// Whose credential.
    pub(crate) fn account(&self) -> &str {
        match self {
            Self::Put { account, .. } | Self::Enable { account } | Self::Disable { account } => {
                account
            }
        }
    }

    /// `add`, `change`, `disable`, and one line for people.
    pub(crate) fn told(&self) -> (&'static str, &'static str) {
        match self {
            Self::Put { generation: 1, .. } => ("add", ""),
            Self::Put { detail, .. } => ("change", detail),
            Self::Enable { .. } => ("change", "status: disabled → active"),
            Self::Disable { .. } => ("disable", "it left the file"),
        }
    }
}

/// Checks what was sent.
///
/// # Errors
/// The first fault, by field; never with the secret.
pub(crate) fn validate(wanted: &[Wanted]) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    for (at, Wanted { account, secret }) in wanted.iter().enumerate() {
        let field = format!("credentials[{at}]");
        if account.is_empty()
            || account.chars().count() > NAME
            || account.chars().any(char::is_control)
        {
            return Err(Problem::new(
                format!("{field}.account"),
                format!("expected 1 to {NAME} characters, none of them a control character"),
            ));
        }
        if !seen.insert(account.as_str()) {
            return Err(Problem::new(
                format!("{field}.account"),
                format!("account `{account}` stands here twice"),
            ));
        }
        let text = secret.expose_secret();
        if text.len() > SECRET {
            return Err(Problem::new(
                format!("{field}.secret"),
                format!("is too long: {} bytes, at most {SECRET}", text.len()),
            ));
        }
        if text.trim() != text || text.chars().any(char::is_control) {
            return Err(Problem::new(
                format!("{field}.secret"),
                format!(
                    "the secret of account `{account}` begins or ends with a blank, or holds a line break or control character; write it alone, on one line"
                ),
            ));
        }
    }
    Ok(())
}

/// Compares.
///
/// # Errors
/// The file gives a secret to an account whose credential came from elsewhere.
pub(crate) fn plan(current: &[Current], wanted: Vec<Wanted>) -> Result<Vec<Step>, Problem> {
    let known: BTreeMap<&str, &Current> = current
        .iter()
        .map(|current| (current.account.as_str(), current))
        .collect();
    let mut kept = HashSet::new();
    let mut steps = Vec::new();
    for (at, Wanted { account, secret }) in wanted.into_iter().enumerate() {
        if secret.expose_secret().is_empty() {
            continue;
        }
        match known.get(account.as_str()) {
            None => steps.push(Step::Put {
                account: account.clone(),
                generation: 1,
                secret,
                detail: "",
            }),
            Some(old) if old.origin != FILE => {
                return Err(Problem::new(
                    format!("credentials[{at}].account"),
                    format!(
                        "the credential of account `{account}` came from `{}`, and a file does not touch what came from elsewhere",
                        old.origin
                    ),
                ));
            }
            Some(old) => match &old.secret {
                Some(stored) if stored.expose_secret() == secret.expose_secret() => {
                    if !old.active {
                        steps.push(Step::Enable {
                            account: account.clone(),
                        });
                    }
                }
                stored => steps.push(Step::Put {
                    account: account.clone(),
                    generation: old.generation + 1,
                    secret,
                    detail: if stored.is_some() {
                        "secret replaced"
                    } else {
                        "secret sealed with this master key; the stored one does not open with it"
                    },
                }),
            },
        }
        kept.insert(account);
    }
    for old in current {
        if old.active && old.origin == FILE && !kept.contains(&old.account) {
            steps.push(Step::Disable {
                account: old.account.clone(),
            });
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(account: &str, secret: &str) -> Wanted {
        Wanted {
            account: account.to_owned(),
            secret: SecretString::from(secret),
        }
    }

    fn current(account: &str, generation: u64, active: bool, secret: Option<&str>) -> Current {
        Current {
            account: account.to_owned(),
            generation,
            active,
            origin: FILE.to_owned(),
            secret: secret.map(SecretString::from),
        }
    }

    fn told(steps: &[Step]) -> Vec<String> {
        steps
            .iter()
            .map(|step| format!("{} {}", step.told().0, step.account()))
            .collect()
    }

    #[test]
    fn each_kind_of_difference_is_one_step() {
        let stored = [
            current("same", 1, true, Some("s")),
            current("replaced", 4, true, Some("s")),
            current("back", 2, false, Some("s")),
            current("left", 1, true, Some("s")),
            current("gone", 1, false, Some("s")),
            current("unopened", 1, true, None),
            current("emptied", 1, true, Some("s")),
        ];
        let file = vec![
            wanted("same", "s"),
            wanted("replaced", "t"),
            wanted("back", "s"),
            wanted("new", "s"),
            wanted("unopened", "s"),
            wanted("emptied", ""),
            wanted("none", ""),
        ];
        let steps = plan(&stored, file).unwrap();
        assert_eq!(
            told(&steps),
            [
                "change replaced",
                "change back",
                "add new",
                "change unopened",
                "disable left",
                "disable emptied",
            ]
        );
        assert!(matches!(&steps[0], Step::Put { generation: 5, .. }));
        assert!(!format!("{steps:?}").contains("\"t\""));
    }

    #[test]
    fn what_came_from_elsewhere_is_not_touched() {
        let mut login = current("seat", 1, true, Some("s"));
        login.origin = "login".to_owned();
        assert!(
            plan(std::slice::from_ref(&login), Vec::new())
                .unwrap()
                .is_empty()
        );
        let problem = plan(&[login], vec![wanted("seat", "t")]).unwrap_err();
        assert_eq!(problem.field, "credentials[0].account");
    }

    #[test]
    fn faults_name_the_field_and_not_the_secret() {
        for (file, field) in [
            (vec![wanted("", "s")], "credentials[0].account"),
            (
                vec![wanted("a", "s"), wanted("a", "t")],
                "credentials[1].account",
            ),
            (vec![wanted("a", "hunter2\n")], "credentials[0].secret"),
            (
                vec![wanted("a", &"x".repeat(SECRET + 1))],
                "credentials[0].secret",
            ),
        ] {
            let problem = validate(&file).unwrap_err();
            assert_eq!(problem.field, field);
            assert!(!problem.to_string().contains("hunter2"));
        }
    }
}
