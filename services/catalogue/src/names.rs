//! Name resolution: exact, alias, date suffix stripped, wildcard (ROUTE-3). Pure; the cost of a look-up does not grow with the
//! number of models but for the patterns among them (PERF-4).

use std::collections::HashMap;

use crate::groups::Group;
use crate::models::Model;

/// How a name was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is the model's name.
    Exact,
    /// It is an alias.
    Alias,
    /// It is the name or an alias once the date suffix is off.
    WithoutDate,
    /// A pattern stands for it.
    Wildcard,
}

/// A model that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved<'m> {
    /// Its position in the list that the index was made of.
    pub index: usize,
    /// Its canonical public name: the model's, or what was asked for if the model is a pattern.
    pub name: &'m str,
    /// How it was found.
    pub by: Match,
}

/// Names, aliases and patterns of a list of models.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    exact: HashMap<String, usize>,
    alias: HashMap<String, (usize, String)>,
    /// The most specific first.
    patterns: Vec<(String, usize)>,
}

impl NameIndex {
    /// Indexes the models; of two with the same name the first wins.
    pub fn new<'m>(models: impl IntoIterator<Item = &'m Model>) -> Self {
        let mut index = Self::default();
        for (position, model) in models.into_iter().enumerate() {
            if is_pattern(&model.name) {
                index.patterns.push((model.name.clone(), position));
            } else {
                index.exact.entry(model.name.clone()).or_insert(position);
            }
            for alias in &model.aliases {
                index
                    .alias
                    .entry(alias.clone())
                    .or_insert_with(|| (position, model.name.clone()));
            }
        }
        // Stable: equally specific patterns keep the catalogue's order.
        index.patterns.sort_by_key(|(pattern, _)| {
            std::cmp::Reverse(pattern.chars().filter(|c| *c != '*').count())
        });
        index
    }

    /// Finds what a caller wrote.
    pub fn resolve<'m>(&'m self, name: &'m str) -> Option<Resolved<'m>> {
        if let Some(found) = self.plain(name, Match::Exact, Match::Alias) {
            return Some(found);
        }
        if let Some(found) = without_date(name)
            .and_then(|plain| self.plain(plain, Match::WithoutDate, Match::WithoutDate))
        {
            return Some(found);
        }
        let (_, index) = self
            .patterns
            .iter()
            .find(|(pattern, _)| matches(pattern, name))?;
        Some(Resolved {
            index: *index,
            name,
            by: Match::Wildcard,
        })
    }

    /// Finds what a caller of this group wrote, the group's own names first; `None` if the group does not offer it.
    pub fn resolve_in<'m>(&'m self, group: &'m Group, name: &'m str) -> Option<Resolved<'m>> {
        let asked = match group.names.get(name) {
            Some(own) => own.as_str(),
            None => name,
        };
        let found = self.resolve(asked)?;
        self.offered(group, found.name).then_some(found)
    }

    /// Whether the group offers a model, by its canonical name. The group's list may call it by an alias or a date.
    pub fn offered(&self, group: &Group, name: &str) -> bool {
        let Some(models) = group.models.as_deref() else {
            return true;
        };
        listed(models, name)
            || models.iter().any(|entry| {
                !is_pattern(entry) && self.resolve(entry).is_some_and(|found| found.name == name)
            })
    }

    fn plain<'m>(&'m self, name: &str, exact: Match, alias: Match) -> Option<Resolved<'m>> {
        if let Some((own, index)) = self.exact.get_key_value(name) {
            return Some(Resolved {
                index: *index,
                name: own,
                by: exact,
            });
        }
        let (index, canonical) = self.alias.get(name)?;
        // The alias of a pattern names no model upstream; such an alias is refused by validation.
        Some(Resolved {
            index: *index,
            name: canonical,
            by: alias,
        })
    }
}

impl Group {
    /// Whether an account may serve the group.
    pub fn served_by(&self, account: &str) -> bool {
        self.accounts
            .as_deref()
            .is_none_or(|accounts| accounts.iter().any(|own| own == account))
    }
}

/// Whether a list of names and patterns holds a name.
fn listed(names: &[String], name: &str) -> bool {
    names
        .iter()
        .any(|listed| listed == name || (is_pattern(listed) && matches(listed, name)))
}

/// Whether a name is a pattern.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains('*')
}

/// Whether a pattern stands for a name; `*` is any text, also none. Time is at most length times length.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at_name < name.len() {
        if pattern.get(at_pattern) == Some(&b'*') {
            star = Some((at_pattern, at_name));
            at_pattern += 1;
        } else if pattern.get(at_pattern) == name.get(at_name) {
            at_pattern += 1;
            at_name += 1;
        } else if let Some((star_pattern, star_name)) = star {
            at_pattern = star_pattern + 1;
            at_name = star_name + 1;
            star = Some((star_pattern, star_name + 1));
        } else {
            return false;
        }
    }
    pattern
        .get(at_pattern..)
        .is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// The name without its date suffix, `-20250101` or `-2025-01-01`, if it has one.
pub fn without_date(name: &str) -> Option<&str> {
    for (length, hyphens) in [(9, [0, 0, 0]), (11, [0, 5, 8])] {
        let Some(start) = name.len().checked_sub(length).filter(|start| *start > 0) else {
            continue;
        };
        let Some(suffix) = name.get(start..) else {
            continue;
        };
        let fits = suffix.bytes().enumerate().all(|(at, byte)| {
            if hyphens.contains(&at) {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
        let digits: Vec<u8> = suffix
            .bytes()
            .filter(u8::is_ascii_digit)
            .map(|byte| byte - b'0')
            .collect();
        if fits
            && let [.., m1, m2, d1, d2] = digits.as_slice()
            && (1..=12).contains(&(m1 * 10 + m2))
            && (1..=31).contains(&(d1 * 10 + d2))
        {
            return name.get(..start);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Vec<Model> {
        crate::parse(
            r#"
accounts: [{name: a, provider: openai, credential: none}]
models:
  - {name: text-chat-v3, aliases: [chat, "qwen/qwen3:free"], price: {input: 1}, targets: [{account: a}]}
  - {name: "gpt-*", price: {input: 1}, targets: [{account: a}]}
  - {name: "gpt-4*", price: {input: 1}, targets: [{account: a}]}
  - {name: gpt-4o, price: {input: 1}, targets: [{account: a}]}
  - {name: 模型, price: {input: 1}, targets: [{account: a}]}
"#,
            "t",
        )
        .unwrap()
        .catalogue
        .models
    }

    #[test]
    fn resolves_exact_then_alias_then_date_then_wildcard() {
        let models = models();
        let index = NameIndex::new(&models);
        let found = |name: &'static str| {
            index
                .resolve(name)
                .map(|found| (found.index, found.name.to_owned(), found.by))
        };
        assert_eq!(
            found("text-chat-v3"),
            Some((0, "text-chat-v3".to_owned(), Match::Exact))
        );
        assert_eq!(
            found("qwen/qwen3:free"),
            Some((0, "text-chat-v3".to_owned(), Match::Alias))
        );
        assert_eq!(
            found("text-chat-v3-20250101"),
            Some((0, "text-chat-v3".to_owned(), Match::WithoutDate))
        );
        assert_eq!(
            found("chat-2025-01-01"),
            Some((0, "text-chat-v3".to_owned(), Match::WithoutDate))
        );
        assert_eq!(
            found("gpt-4o"),
            Some((3, "gpt-4o".to_owned(), Match::Exact))
        );
        assert_eq!(
            found("gpt-4o-2024-08-06"),
            Some((3, "gpt-4o".to_owned(), Match::WithoutDate))
        );
        assert_eq!(
            found("gpt-4.1"),
            Some((2, "gpt-4.1".to_owned(), Match::Wildcard))
        );
        assert_eq!(
            found("gpt-5"),
            Some((1, "gpt-5".to_owned(), Match::Wildcard))
        );
        assert_eq!(
            found("模型-20250101"),
            Some((4, "模型".to_owned(), Match::WithoutDate))
        );
        assert_eq!(found("llama"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn only_a_date_is_stripped() {
        assert_eq!(without_date("m-20250101"), Some("m"));
        assert_eq!(without_date("m-2025-12-31"), Some("m"));
        for name in [
            "m-20251301",
            "m-2025-01-32",
            "m-2025",
            "-20250101",
            "m20250101",
            "m-2025-0101",
            "型-2025010",
        ] {
            assert_eq!(without_date(name), None, "{name}");
        }
    }

    #[test]
    fn patterns_match_the_whole_name() {
        for (pattern, name, expected) in [
            ("gpt-*", "gpt-", true),
            ("gpt-*", "gp", false),
            ("*", "", true),
            ("*mini", "gpt-4o-mini", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("gpt", "gpt-4", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_group_has_its_own_names_and_offers_only_its_models() {
        let models = models();
        let index = NameIndex::new(&models);
        let group: Group =
            serde_json::from_str(r#"{"name": "g", "models": ["text-chat-v3", "gpt-4*"], "names": {"gpt-5": "text-chat-v3"}}"#)
                .unwrap();
        assert_eq!(
            index.resolve_in(&group, "gpt-5").unwrap().name,
            "text-chat-v3"
        );
        assert_eq!(index.resolve_in(&group, "gpt-4.1").unwrap().name, "gpt-4.1");
        assert_eq!(index.resolve_in(&group, "gpt-3"), None);
    }

    #[test]
    fn a_groups_list_may_call_a_model_by_an_alias_or_a_date() {
        let models = models();
        let index = NameIndex::new(&models);
        let canonical = models[0].name.as_str();
        let alias = models[0].aliases[0].as_str();
        for entry in [alias, &format!("{canonical}-20250101")] {
            let group = serde_json::json!({"name": "g", "models": [entry]});
            let group: Group = serde_json::from_value(group).unwrap();
            assert!(index.offered(&group, canonical), "{entry}");
            assert_eq!(index.resolve_in(&group, alias).unwrap().name, canonical);
            assert!(!index.offered(&group, "other"));
        }
    }
}
