//! Which price sheets a catalogue implies, and under which subject each is known (BILL-2).
//!
//! A model has the sheet of its name; a pattern that is priced by a list has one for each entry. Every name that callers may
//! write leads to one model, so an entry's sheet bears the entry's name where that name leads to this very pattern. Where it
//! leads elsewhere, but leads here with a date behind it, the sheet is `entry@pattern`: another model's sheet of the same name
//! is never taken for it. An entry that leads here in neither way prices nothing.

use crate::catalogue::Catalogue;
use crate::models::{Model, ModelStatus};
use crate::names::{NameIndex, is_pattern};
use crate::prices::Price;

/// Any date: it shows where an entry's name leads with a date behind it.
const DATES: [&str; 2] = ["-20250101", "-2025-01-01"];

/// A price sheet.
#[derive(Clone, Debug)]
pub struct Priced<'c> {
    /// Whose callers pay by it.
    pub model: &'c Model,
    /// The model's name, or the entry of its price list.
    pub entry: &'c str,
    /// The name under which the sheet is known; unique among all of a catalogue.
    pub subject: String,
    /// What is paid.
    pub price: &'c Price,
}

impl Catalogue {
    /// All price sheets, in the order of the models and of their lists' entries. A model that is disabled has none: nobody
    /// pays for it, and its names may lead to another.
    pub fn priced(&self) -> Vec<Priced<'_>> {
        let models: Vec<&Model> = self
            .models
            .iter()
            .filter(|one| may_be_called(one))
            .collect();
        let index = NameIndex::new(models.iter().copied());
        let leads_to =
            |name: &str, at: usize| index.resolve(name).is_some_and(|found| found.index == at);
        let mut priced = Vec::new();
        for (at, model) in models.iter().copied().enumerate() {
            let list = match &model.price_list {
                Some(list) if is_pattern(&model.name) => list,
                _ => {
                    priced.extend(self.price(model, &model.name).map(|price| Priced {
                        model,
                        entry: &model.name,
                        subject: model.name.clone(),
                        price,
                    }));
                    continue;
                }
            };
            let entries = self
                .price_lists
                .iter()
                .filter(|known| known.name == *list)
                .flat_map(|list| &list.prices);
            for (entry, price) in entries {
                let dated = |date: &&str| leads_to(&format!("{entry}{date}"), at);
                let subject = if leads_to(entry, at) {
                    entry.clone()
                } else if DATES.iter().any(dated) {
                    format!("{entry}@{}", model.name)
                } else {
                    continue;
                };
                priced.push(Priced {
                    model,
                    entry,
                    subject,
                    price,
                });
            }
        }
        priced
    }
}

/// A draft keeps its own name from others, a pattern that is one stands for nothing yet.
fn may_be_called(model: &Model) -> bool {
    match model.status {
        ModelStatus::Active => true,
        ModelStatus::Draft => !is_pattern(&model.name),
        ModelStatus::Disabled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(models: &str) -> Vec<(String, String, String)> {
        let text = format!(
            "
version: 1
accounts: [{{name: a, provider: openai, credential: none}}]
price_lists:
  - {{name: one, prices: {{gpt-4o: {{input: 1}}, gpt-5: {{input: 2}}, claude: {{input: 3}}}}}}
  - {{name: two, prices: {{gpt-4o: {{input: 4}}, gpt-4o-mini: {{input: 5}}}}}}
models:
{models}"
        );
        let catalogue = crate::parse(&text, "t.yaml").unwrap().catalogue;
        let shown = |one: Priced<'_>| {
            let input = one.price.input.unwrap().to_string();
            (one.model.name.clone(), one.subject, input)
        };
        catalogue.priced().into_iter().map(shown).collect()
    }

    fn row(model: &str, subject: &str, input: &str) -> (String, String, String) {
        (model.to_owned(), subject.to_owned(), input.to_owned())
    }

    #[test]
    fn a_model_of_its_own_has_its_own_price_wherever_a_pattern_stands() {
        let pattern = "  - {name: 'gpt-*', price_list: one, targets: [{account: a}]}\n";
        let own = "  - {name: gpt-4o, price: {input: 9}, targets: [{account: a}]}\n";
        let (pattern_row, own_row) = (row("gpt-*", "gpt-5", "2"), row("gpt-4o", "gpt-4o", "9"));
        assert_eq!(
            subjects(&format!("{pattern}{own}")),
            [pattern_row.clone(), own_row.clone()]
        );
        assert_eq!(subjects(&format!("{own}{pattern}")), [own_row, pattern_row]);
    }

    #[test]
    fn each_of_two_patterns_has_the_prices_of_its_own_list() {
        let models = "  - {name: 'gpt-*', price_list: one, targets: [{account: a}]}
  - {name: 'gpt-4*', price_list: two, targets: [{account: a}]}\n";
        let expected = [
            row("gpt-*", "gpt-5", "2"),
            row("gpt-4*", "gpt-4o", "4"),
            row("gpt-4*", "gpt-4o-mini", "5"),
        ];
        assert_eq!(subjects(models), expected);
    }

    #[test]
    fn an_entry_that_only_dated_names_lead_to_has_a_subject_of_its_own() {
        let models = "  - {name: 'gpt-*', price_list: one, targets: [{account: a}]}
  - {name: 'gpt-4o-*', price_list: two, targets: [{account: a}]}\n";
        let expected = [
            row("gpt-*", "gpt-4o", "1"),
            row("gpt-*", "gpt-5", "2"),
            row("gpt-4o-*", "gpt-4o@gpt-4o-*", "4"),
            row("gpt-4o-*", "gpt-4o-mini", "5"),
        ];
        assert_eq!(subjects(models), expected);
    }

    #[test]
    fn a_disabled_model_leaves_its_name_to_the_pattern() {
        let models =
            "  - {name: gpt-4o, status: disabled, price: {input: 9}, targets: [{account: a}]}
  - {name: 'gpt-4*', price_list: one, targets: [{account: a}]}\n";
        assert_eq!(subjects(models), [row("gpt-4*", "gpt-4o", "1")]);
    }
}
