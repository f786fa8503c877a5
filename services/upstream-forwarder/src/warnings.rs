//! Warnings of what lasts: one when it begins, and not one a request.

use std::collections::HashMap;

use parking_lot::Mutex;

/// How long an account is not warned of again.
const QUIET_MS: i64 = 60_000;
/// Accounts that are remembered; the catalogue has fewer.
const MAX_ACCOUNTS: usize = 4_096;

/// When each account was warned of last.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<HashMap<String, i64>>);

impl Warnings {
    /// Whether to warn of the account now; then not for a while.
    pub(crate) fn due(&self, account: &str, now_ms: i64) -> bool {
        let mut told = self.0.lock();
        if let Some(last) = told.get_mut(account) {
            let due = now_ms.saturating_sub(*last) >= QUIET_MS;
            if due {
                *last = now_ms;
            }
            return due;
        }
        if told.len() >= MAX_ACCOUNTS {
            told.clear();
        }
        told.insert(account.to_owned(), now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_warned_of_once_a_minute() {
        let warnings = Warnings::default();
        assert!(warnings.due("a", 1_000));
        assert!(!warnings.due("a", 60_999));
        assert!(warnings.due("b", 60_999));
        assert!(warnings.due("a", 61_000));
        assert!(!warnings.due("a", 61_001));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let warnings = Warnings::default();
        for account in 0..=MAX_ACCOUNTS {
            assert!(warnings.due(&account.to_string(), 0));
        }
        assert_eq!(warnings.0.lock().len(), 1);
    }
}
