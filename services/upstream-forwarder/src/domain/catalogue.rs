//! The catalogue as a forwarder reads it: one immutable snapshot with indexes, to which a request is pinned.
//!
//! A name is resolved in SPEC ROUTE-3's order (exact, alias, without date suffix, wildcard), a group's own names first.
//! Look-ups cost the same however many models there are; only wildcards are tried one by one.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use switchboard_proto::scheduler::v1::{CatalogueSnapshot, GroupModels, PublicModel};

use super::glob;

/// One version of the catalogue.
#[derive(Debug)]
pub(crate) struct Catalogue {
    version: u64,
    models: Vec<Arc<PublicModel>>,
    by_name: HashMap<String, usize>,
    by_alias: HashMap<String, usize>,
    /// Most specific first.
    patterns: Vec<usize>,
    groups: HashMap<String, Group>,
}

/// What a group's callers may ask for.
#[derive(Debug)]
struct Group {
    /// Its own names, each with the one it stands for.
    names: HashMap<String, String>,
    /// Models by name, a pattern's included; with nothing here it offers all.
    models: HashSet<String>,
    /// The patterns among them.
    patterns: Vec<String>,
}

impl Group {
    fn offers(&self, resolved: &Resolved) -> bool {
        self.models.is_empty()
            || self.models.contains(&resolved.model.name)
            || self.models.contains(&resolved.public_name)
            || fits_any(&self.patterns, resolved)
    }
}

/// What a caller's name means.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// The catalogue's entry; its name may be a pattern.
    pub(crate) model: Arc<PublicModel>,
    /// The name that rows, limits and answers bear.
    pub(crate) public_name: String,
}

impl Resolved {
    /// Billing's price version of what was asked for; `None`: it has no price.
    pub(crate) fn price_version(&self) -> Option<u64> {
        let listed = |name: &str| self.model.list_prices.get(name).copied();
        let version = if self.model.price_version > 0 {
            Some(self.model.price_version)
        } else {
            listed(&self.public_name).or_else(|| without_date(&self.public_name).and_then(listed))
        };
        version.filter(|version| *version > 0)
    }
}

impl Catalogue {
    /// Indexes a snapshot.
    pub(crate) fn new(snapshot: CatalogueSnapshot) -> Self {
        let mut by_name = HashMap::new();
        let mut by_alias = HashMap::new();
        let mut patterns = Vec::new();
        let models: Vec<_> = snapshot.models.into_iter().map(Arc::new).collect();
        for (at, model) in models.iter().enumerate() {
            by_name.insert(model.name.clone(), at);
            if glob::is_pattern(&model.name) {
                patterns.push(at);
            }
            for alias in &model.aliases {
                by_alias.insert(alias.clone(), at);
            }
        }
        let weight = |at: &usize| models.get(*at).map_or(0, |m| glob::weight(&m.name));
        patterns.sort_by_key(|at| std::cmp::Reverse(weight(at)));
        let mut catalogue = Self {
            version: snapshot.version,
            groups: HashMap::new(),
            models,
            by_name,
            by_alias,
            patterns,
        };
        let groups = snapshot.groups.into_iter();
        let groups = groups.map(|group| (group.name.clone(), catalogue.group(group)));
        catalogue.groups = groups.collect();
        catalogue
    }

    fn group(&self, mut group: GroupModels) -> Group {
        for entry in &mut group.models {
            self.call_by_its_name(entry);
        }
        let patterns = group.models.iter().filter(|entry| glob::is_pattern(entry));
        Group {
            patterns: patterns.cloned().collect(),
            models: group.models.into_iter().collect(),
            names: group.names,
        }
    }

    /// Lists of models are of names, aliases and patterns; what is compared with them is canonical (AUTH-4).
    fn call_by_its_name(&self, entry: &mut String) {
        if !glob::is_pattern(entry)
            && let Some(resolved) = self.lookup(entry)
        {
            *entry = resolved.public_name;
        }
    }

    /// The scheduler's number of this version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// What `name` means to callers of `group`; `None`: nothing that this group may see.
    pub(crate) fn resolve(&self, group: &str, name: &str) -> Option<Resolved> {
        let group = self.groups.get(group)?;
        let canonical = group.names.get(name).map_or(name, String::as_str);
        let resolved = self.lookup(canonical)?;
        let offered = resolved.model.active && group.offers(&resolved);
        offered.then_some(resolved)
    }

    /// Billing's price version of a model by its name, whoever may call it; `None`: it has none here.
    pub(crate) fn price_of(&self, name: &str) -> Option<u64> {
        self.lookup(name)?.price_version()
    }

    fn lookup(&self, name: &str) -> Option<Resolved> {
        let known = |name: &str| {
            let named = self.by_name.get(name).or_else(|| self.by_alias.get(name));
            named.and_then(|at| self.models.get(*at)).cloned()
        };
        if let Some(model) = known(name).or_else(|| without_date(name).and_then(known)) {
            let public_name = model.name.clone();
            // A pattern's own text is no name that anyone may call.
            return (!glob::is_pattern(&public_name)).then_some(Resolved { model, public_name });
        }
        let matching = |at: &&usize| {
            let model = self.models.get(**at);
            model.is_some_and(|m| m.active && glob::matches(&m.name, name))
        };
        let model = self.models.get(*self.patterns.iter().find(matching)?)?;
        Some(Resolved {
            model: Arc::clone(model),
            public_name: name.to_owned(),
        })
    }

    /// The names that callers of the group `name` with this list of `allowed` names may use, each once, in the catalogue's order:
    /// public names, names priced under a pattern, then the group's own.
    pub(crate) fn list(&self, name: &str, allowed: &[String]) -> Vec<(String, Arc<PublicModel>)> {
        let Some(group) = self.groups.get(name) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for model in self.models.iter().filter(|model| model.active) {
            if glob::is_pattern(&model.name) {
                let mut listed: Vec<_> = model.list_prices.keys().cloned().collect();
                listed.retain(|name| {
                    glob::matches(&model.name, name) && !self.by_name.contains_key(name)
                });
                listed.sort_unstable();
                names.extend(listed);
            } else {
                names.push(model.name.clone());
            }
        }
        let mut own: Vec<_> = group.names.keys().cloned().collect();
        own.sort_unstable();
        names.extend(own);
        let mut seen = HashSet::new();
        let visible = |public: String| {
            let resolved = self.resolve(name, &public)?;
            let fresh = self.allows(name, allowed, &resolved) && seen.insert(public.clone());
            fresh.then_some((public, resolved.model))
        };
        names.into_iter().filter_map(visible).collect()
    }

    /// Whether a key's list admits the model; an empty list admits all of its group's. It may call a model by any name that
    /// callers of the group may.
    pub(crate) fn allows(&self, group: &str, list: &[String], resolved: &Resolved) -> bool {
        let means = |entry: &String| {
            let meant = (!glob::is_pattern(entry)).then(|| self.resolve(group, entry));
            meant
                .flatten()
                .is_some_and(|meant| meant.public_name == resolved.public_name)
        };
        list.is_empty() || fits_any(list, resolved) || list.iter().any(means)
    }
}

/// Whether an entry is the model's own name or stands for the public one.
fn fits_any(list: &[String], resolved: &Resolved) -> bool {
    let fits = |entry: &String| {
        *entry == resolved.model.name || glob::matches(entry, &resolved.public_name)
    };
    list.iter().any(fits)
}

/// The name without `-20250101` or `-2025-01-01` at its end; `None` when it has neither.
fn without_date(name: &str) -> Option<&str> {
    let cut = |len: usize, form: &[u8]| {
        let at = name.len().checked_sub(len)?;
        let (base, suffix) = name.split_at_checked(at)?;
        let fits = suffix.bytes().zip(form).all(|(byte, form)| match form {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        (fits && !base.is_empty() && ends_in_a_day(suffix)).then_some(base)
    };
    cut(11, b"-0000-00-00").or_else(|| cut(9, b"-00000000"))
}

/// Whether the last digits of a date's form are a month and a day, as the catalogue's own index asks.
fn ends_in_a_day(suffix: &str) -> bool {
    let mut digits = suffix
        .bytes()
        .rev()
        .filter(u8::is_ascii_digit)
        .map(|digit| digit - b'0');
    let mut two = || Some(digits.next()? + 10 * digits.next()?);
    let (day, month) = (two(), two());
    day.is_some_and(|day| (1..=31).contains(&day))
        && month.is_some_and(|month| (1..=12).contains(&month))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, aliases: &[&str]) -> PublicModel {
        PublicModel {
            name: name.to_owned(),
            aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
            active: true,
            price_version: 1,
            ..PublicModel::default()
        }
    }

    fn catalogue() -> Catalogue {
        let mut draft = model("secret", &[]);
        draft.active = false;
        let mut pattern = model("gpt-*", &[]);
        pattern.price_version = 0;
        pattern.list_prices = [("gpt-4o".to_owned(), 7), ("other".to_owned(), 8)].into();
        Catalogue::new(CatalogueSnapshot {
            version: 3,
            models: vec![
                model("text", &["text-old"]),
                model("gpt-5", &[]),
                draft,
                pattern,
                model("gpt-4o-*", &[]),
            ],
            groups: vec![
                GroupModels {
                    name: "all".to_owned(),
                    models: Vec::new(),
                    names: [("mine".to_owned(), "text".to_owned())].into(),
                },
                GroupModels {
                    name: "few".to_owned(),
                    models: vec!["text".to_owned()],
                    names: [("gpt-5".to_owned(), "text".to_owned())].into(),
                },
            ],
        })
    }

    fn public(group: &str, name: &str) -> Option<(String, String)> {
        let found = catalogue().resolve(group, name)?;
        Some((found.model.name.clone(), found.public_name))
    }

    fn pair(a: &str, b: &str) -> Option<(String, String)> {
        Some((a.to_owned(), b.to_owned()))
    }

    #[test]
    fn a_model_has_its_price_whoever_may_call_it() {
        let catalogue = catalogue();
        assert_eq!(catalogue.price_of("gpt-5-20260101"), Some(1));
        assert_eq!(catalogue.price_of("gpt-4o"), Some(7));
        assert_eq!(catalogue.price_of("claude"), None);
    }

    #[test]
    fn names_resolve_in_order_exact_alias_date_wildcard() {
        assert_eq!(public("all", "text"), pair("text", "text"));
        assert_eq!(public("all", "text-old"), pair("text", "text"));
        assert_eq!(public("all", "text-20250101"), pair("text", "text"));
        assert_eq!(public("all", "text-old-2025-01-01"), pair("text", "text"));
        // Eight digits are not a date by that.
        assert_eq!(public("all", "text-20251301"), None);
        assert_eq!(public("all", "text-2025-01-32"), None);
        assert_eq!(public("all", "text-12345678"), None);
        assert_eq!(public("all", "gpt-5"), pair("gpt-5", "gpt-5"));
        assert_eq!(public("all", "gpt-5-20250101"), pair("gpt-5", "gpt-5"));
        assert_eq!(public("all", "gpt-4o"), pair("gpt-*", "gpt-4o"));
        assert_eq!(public("all", "gpt-4o-x"), pair("gpt-4o-*", "gpt-4o-x"));
        assert_eq!(public("all", "gpt-*"), None);
        assert_eq!(public("all", "nothing"), None);
        assert_eq!(public("all", "secret"), None);
    }

    #[test]
    fn a_groups_own_names_come_first_and_what_it_does_not_offer_does_not_exist() {
        assert_eq!(public("all", "mine"), pair("text", "text"));
        assert_eq!(public("few", "gpt-5"), pair("text", "text"));
        assert_eq!(public("few", "gpt-4o"), None);
        assert_eq!(public("unknown", "text"), None);
    }

    #[test]
    fn lists_of_models_may_use_any_of_a_models_names() {
        let group = |name: &str, models: &[&str]| GroupModels {
            name: name.to_owned(),
            models: models.iter().map(|entry| (*entry).to_owned()).collect(),
            names: [("mine".to_owned(), "text-old".to_owned())].into(),
        };
        let catalogue = Catalogue::new(CatalogueSnapshot {
            version: 3,
            models: vec![model("text", &["text-old"]), model("gpt-5", &[])],
            groups: vec![
                group("alias", &["text-old"]),
                group("dated", &["text-20250101"]),
                group("all", &[]),
            ],
        });
        for group in ["alias", "dated"] {
            for name in ["text", "text-old", "mine"] {
                let found = catalogue
                    .resolve(group, name)
                    .map(|found| found.public_name);
                assert_eq!(found.as_deref(), Some("text"), "{group} {name}");
            }
            assert!(catalogue.resolve(group, "gpt-5").is_none());
        }
        let (text, other) = ("text", "gpt-5");
        for entry in ["text", "text-old", "mine", "text-2025-01-01", "te*"] {
            let list = [entry.to_owned()];
            let allows = |name| {
                let resolved = catalogue.resolve("all", name).unwrap();
                catalogue.allows("all", &list, &resolved)
            };
            assert!(allows(text) && !allows(other), "{entry}");
        }
    }

    #[test]
    fn a_listed_name_has_its_own_price_and_an_unlisted_one_has_none() {
        let catalogue = catalogue();
        let price = |name| {
            catalogue
                .resolve("all", name)
                .and_then(|r| r.price_version())
        };
        assert_eq!(price("gpt-4o"), Some(7));
        assert_eq!(price("gpt-unlisted"), None);
        assert_eq!(price("text"), Some(1));
    }

    #[test]
    fn a_list_shows_what_the_key_may_call_each_name_once() {
        let names = |group, allowed: &[&str]| {
            let allowed: Vec<_> = allowed.iter().map(|a| (*a).to_owned()).collect();
            let list = catalogue().list(group, &allowed);
            list.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("all", &[]), ["text", "gpt-5", "gpt-4o", "mine"]);
        assert_eq!(names("all", &["gpt-*"]), ["gpt-5", "gpt-4o"]);
        assert_eq!(names("few", &[]), ["text", "gpt-5"]);
        assert_eq!(names("unknown", &[]), [""; 0]);
    }
}
