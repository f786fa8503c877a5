//! The whole catalogue, and how it is read.

use crate::accounts::{Account, OauthProvider};
use crate::decode::Decode;
use crate::diagnostic::{Diagnostic, Path, Problems};
use crate::groups::{Group, Subscription};
use crate::limits::LimitProfile;
use crate::models::{Defaults, Model};
use crate::notation::record;
use crate::prices::PriceList;
use crate::scalar::SecretRef;
use crate::tenants::Tenant;
use crate::{no_effect, tree, validate};

record! {
    /// Accounts, models, prices, groups, tenants and keys as one configuration.
    Catalogue {
        /// The language's version.
        version: u32 = 1,
        /// Supply: one upstream identity each.
        accounts: Vec<Account>,
        /// Where accounts sign in.
        oauth_providers: Vec<OauthProvider>,
        /// What holds for all models that say nothing else.
        defaults: Defaults = Defaults::fallback(),
        /// What callers may write in `model`.
        models: Vec<Model>,
        /// Prices of many models by name.
        price_lists: Vec<PriceList>,
        /// Products: demand meets supply here.
        groups: Vec<Group>,
        /// Named limits for keys.
        limit_profiles: Vec<LimitProfile>,
        /// Windows that are sold to tenants.
        subscriptions: Vec<Subscription>,
        /// Customers or teams.
        tenants: Vec<Tenant>,
    }
}

/// A catalogue without mistakes, and what in it has no effect yet or is worth a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What was written.
    pub catalogue: Catalogue,
    /// Constructs without effect in this version, and the like, in the order of their lines.
    pub warnings: Vec<Diagnostic>,
}

impl Default for Catalogue {
    /// A catalogue with nothing in it.
    fn default() -> Self {
        Self::fallback()
    }
}

impl Catalogue {
    /// What the scheduler needs: everything but tenants, the references to credentials taken out, so that a change of
    /// either makes no new version of the supply side. It still passes [`Catalogue::check`].
    pub fn supply(&self) -> Self {
        let mut supply = Self {
            tenants: Vec::new(),
            ..self.clone()
        };
        for account in &mut supply.accounts {
            account.credential = account.credential.as_ref().map(|_| SecretRef::None);
        }
        supply
    }

    /// Validates a catalogue that did not come from a file of its own: what [`parse`] checks beyond the notation. Its
    /// diagnostics have paths, and no lines.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<(), Vec<Diagnostic>> {
        let root = tree::Node {
            mark: tree::Mark::default(),
            value: tree::Value::Null,
        };
        let mut errors = Problems::new("catalogue", &root);
        validate::check(self, &mut errors, &mut Problems::new("catalogue", &root));
        match errors.into_sorted() {
            errors if errors.is_empty() => Ok(()),
            errors => Err(errors),
        }
    }
}

/// Reads and validates a catalogue. `file_name` only appears in diagnostics.
///
/// # Errors
/// All mistakes, each with line, column, path and what to do, in the order of their lines; at most
/// [`MAX_DIAGNOSTICS`](crate::MAX_DIAGNOSTICS). Text that is no YAML, or that is beyond the bounds, is one mistake.
pub fn parse(text: &str, file_name: &str) -> Result<Parsed, Vec<Diagnostic>> {
    let root = tree::read(text, file_name).map_err(|diagnostic| vec![diagnostic])?;
    let mut errors = Problems::new(file_name, &root);
    let mut warnings = Problems::new(file_name, &root);
    let catalogue = if matches!(root.value, tree::Value::Null) {
        errors.report(
            &Path::Root,
            "the catalogue is empty",
            "write at least `version: 1`",
        );
        Catalogue::default()
    } else {
        Catalogue::decode(&root, &Path::Root, &mut errors)
    };
    validate::check(&catalogue, &mut errors, &mut warnings);
    let errors = errors.into_sorted();
    if !errors.is_empty() {
        return Err(errors);
    }
    no_effect::warn(&mut warnings);
    Ok(Parsed {
        catalogue,
        warnings: warnings.into_sorted(),
    })
}
