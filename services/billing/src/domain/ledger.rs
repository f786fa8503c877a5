//! Double entry: what moves between accounts, in transactions whose lines sum to zero.
//!
//! A tenant's balance is what we owe it: a top-up raises it out of `funding`, a charge moves it to `revenue`. A prepaid
//! balance does not fall below zero: what a charge takes beyond it stands on the tenant's `overrun` account, negative, and is
//! paid back first by whatever comes in. A postpaid balance falls below zero: that is what the tenant owes. What an
//! attempt costs us moves from `cost` to what the provider is owed.

use std::fmt;

/// A ledger account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account<'a> {
    /// By tenant.
    Balance(&'a str),
    /// By tenant: debt beyond a prepaid balance.
    Overrun(&'a str),
    Revenue,
    Funding,
    Cost,
    /// By upstream account: what its provider is owed.
    Provider(&'a str),
}

/// The account's name in the tables.
impl fmt::Display for Account<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balance(tenant) => write!(f, "balance:{tenant}"),
            Self::Overrun(tenant) => write!(f, "overrun:{tenant}"),
            Self::Revenue => f.write_str("revenue"),
            Self::Funding => f.write_str("funding"),
            Self::Cost => f.write_str("cost"),
            Self::Provider(account) => write!(f, "provider:{account}"),
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) account: String,
    pub(crate) amount_nanos: i64,
}

/// The sum is beyond ±9.2 thousand million USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the balance would go beyond ±9223372036 USD")]
pub(crate) struct OutOfRange;

/// A tenant's two accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wallet {
    pub(crate) prepaid: bool,
    pub(crate) balance_nanos: i64,
    /// Never positive.
    pub(crate) overrun_nanos: i64,
}

impl Wallet {
    /// What the tenant has, debt taken off.
    pub(crate) fn worth(&self) -> i64 {
        self.balance_nanos.saturating_add(self.overrun_nanos)
    }

    /// Adds `nanos` (negative: takes) and gives the parts that fell on balance and overrun.
    fn add(&mut self, nanos: i64) -> Result<(i64, i64), OutOfRange> {
        let overrun = if nanos >= 0 {
            nanos.min(self.overrun_nanos.checked_neg().ok_or(OutOfRange)?.max(0))
        } else if self.prepaid {
            nanos.saturating_add(self.balance_nanos.max(0)).min(0)
        } else {
            0
        };
        let balance = nanos.checked_sub(overrun).ok_or(OutOfRange)?;
        let after = Self {
            balance_nanos: self.balance_nanos.checked_add(balance).ok_or(OutOfRange)?,
            overrun_nanos: self.overrun_nanos.checked_add(overrun).ok_or(OutOfRange)?,
            prepaid: self.prepaid,
        };
        after
            .balance_nanos
            .checked_add(after.overrun_nanos)
            .ok_or(OutOfRange)?;
        *self = after;
        Ok((balance, overrun))
    }

    /// Moves `nanos` between a tenant and `other`: positive into the wallet.
    pub(crate) fn post(
        &mut self,
        tenant: &str,
        other: Account<'_>,
        nanos: i64,
    ) -> Result<Vec<Entry>, OutOfRange> {
        let mut entries = Vec::with_capacity(3);
        if nanos == 0 {
            return Ok(entries);
        }
        let against = nanos.checked_neg().ok_or(OutOfRange)?;
        let (balance, overrun) = self.add(nanos)?;
        push(&mut entries, Account::Balance(tenant), balance);
        push(&mut entries, Account::Overrun(tenant), overrun);
        push(&mut entries, other, against);
        Ok(entries)
    }
}

/// What attempts cost us, by upstream account.
pub(crate) fn post_costs(
    entries: &mut Vec<Entry>,
    costs: impl IntoIterator<Item = (impl AsRef<str>, i64)>,
) -> Result<(), OutOfRange> {
    let mut total = 0_i64;
    for (account, nanos) in costs {
        total = total.checked_add(nanos).ok_or(OutOfRange)?;
        push(entries, Account::Provider(account.as_ref()), nanos);
    }
    push(
        entries,
        Account::Cost,
        total.checked_neg().ok_or(OutOfRange)?,
    );
    Ok(())
}

fn push(entries: &mut Vec<Entry>, account: Account<'_>, amount_nanos: i64) {
    if amount_nanos != 0 {
        entries.push(Entry {
            account: account.to_string(),
            amount_nanos,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prepaid(balance_nanos: i64) -> Wallet {
        Wallet {
            prepaid: true,
            balance_nanos,
            overrun_nanos: 0,
        }
    }

    fn sum(entries: &[Entry]) -> i128 {
        entries
            .iter()
            .map(|entry| i128::from(entry.amount_nanos))
            .sum()
    }

    #[test]
    fn what_a_charge_takes_beyond_a_prepaid_balance_is_overrun_debt_and_paid_back_first() {
        let mut wallet = prepaid(100);
        let entries = wallet.post("t", Account::Revenue, -160).unwrap();
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| (entry.account.as_str(), entry.amount_nanos))
            .collect();
        assert_eq!(
            lines,
            [("balance:t", -100), ("overrun:t", -60), ("revenue", 160)]
        );
        assert_eq!(
            (wallet.balance_nanos, wallet.overrun_nanos, wallet.worth()),
            (0, -60, -60)
        );
        wallet.post("t", Account::Funding, 100).unwrap();
        assert_eq!((wallet.balance_nanos, wallet.overrun_nanos), (40, 0));
    }

    #[test]
    fn a_postpaid_balance_falls_below_zero() {
        let mut wallet = Wallet::default();
        wallet.post("t", Account::Revenue, -5).unwrap();
        assert_eq!((wallet.balance_nanos, wallet.overrun_nanos), (-5, 0));
    }

    #[test]
    fn costs_are_owed_to_each_provider() {
        let mut entries = Vec::new();
        post_costs(&mut entries, [("a", 3), ("b", 4), ("c", 0)]).unwrap();
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| (entry.account.as_str(), entry.amount_nanos))
            .collect();
        assert_eq!(lines, [("provider:a", 3), ("provider:b", 4), ("cost", -7)]);
    }

    #[test]
    fn what_no_balance_can_hold_is_an_error_and_changes_nothing() {
        let mut wallet = prepaid(i64::MAX);
        assert_eq!(wallet.post("t", Account::Funding, 1), Err(OutOfRange));
        assert_eq!(wallet, prepaid(i64::MAX));
        assert_eq!(
            wallet.post("t", Account::Funding, i64::MIN),
            Err(OutOfRange)
        );
    }

    proptest! {
        #[test]
        fn every_transaction_sums_to_zero_and_a_prepaid_balance_stays_above(
            opening in 0_i64..1_000_000, moves in proptest::collection::vec(-1_000_000_i64..1_000_000, 0..50),
        ) {
            let mut wallet = prepaid(opening);
            let mut worth = opening;
            for nanos in moves {
                let entries = wallet.post("t", Account::Revenue, nanos).unwrap();
                worth += nanos;
                prop_assert_eq!(sum(&entries), 0);
                prop_assert_eq!(wallet.worth(), worth);
                prop_assert!(wallet.balance_nanos >= 0 && wallet.overrun_nanos <= 0);
                prop_assert!(wallet.balance_nanos == 0 || wallet.overrun_nanos == 0);
            }
        }

        #[test]
        fn nothing_panics(prepaid: bool, balance_nanos: i64, overrun_nanos: i64, nanos: i64) {
            let mut wallet = Wallet { prepaid, balance_nanos, overrun_nanos };
            if let Ok(entries) = wallet.post("t", Account::Revenue, nanos) {
                prop_assert_eq!(sum(&entries), 0);
            }
        }
    }
}
