//! What depends on the generation of OpenAI's models: those that reason take no sampling [OpenAI's guide to its newest models,
//! "parameter compatibility": o-series and GPT-5 never, GPT-5.1 and later only while they do not reason], and each takes some
//! efforts [its reference of `reasoning_effort`]. Models of others go by other names, and take what they take.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::fields::{Drops, Raw};
use super::node::Node;

/// What the name of a model tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// Takes all parameters.
    Plain,
    /// Reasons always.
    Reasons,
    /// Reasons where an effort is asked for.
    MayReason,
}

/// A name in lower case, without what stands before its last `/`.
fn bare(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase()
}

/// Whether it is a name of the o-series.
fn is_of_series_o(name: &str) -> bool {
    let digit = |text: &str| text.bytes().next().is_some_and(|one| one.is_ascii_digit());
    name.strip_prefix('o').is_some_and(digit)
}

/// The number of a GPT; Azure's `gpt-35` is none.
fn number(name: &str) -> Option<f32> {
    let version = name.strip_prefix("gpt-")?;
    let end = version.find(|one: char| !one.is_ascii_digit() && one != '.');
    let (number, _) = version.split_at(end.unwrap_or(version.len()));
    number.parse().ok().filter(|number| *number < 35.0)
}

/// All efforts, the least first.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The efforts that a model takes; `None`: its name does not tell.
fn efforts(name: &str) -> Option<&'static [&'static str]> {
    let name = bare(name);
    let has = |word: &str| name.split('-').any(|part| part == word);
    if is_of_series_o(&name) {
        return Some(&["low", "medium", "high"]);
    }
    let number = number(&name)?;
    if has("chat") {
        // The first of them does not reason; of later ones nothing is written down.
        return (number <= 5.0).then_some(&[]);
    }
    Some(match number {
        ..5.0 => &[],
        5.0 if has("pro") => &["high"],
        5.0 if has("codex") => &["low", "medium", "high"],
        5.0 => &["minimal", "low", "medium", "high"],
        5.1 if has("codex") && !has("max") => &["low", "medium", "high"],
        _ if has("codex") => &["low", "medium", "high", "xhigh"],
        5.1 => &["none", "low", "medium", "high"],
        _ if has("pro") => &["medium", "high", "xhigh"],
        _ => &["none", "low", "medium", "high", "xhigh"],
    })
}

/// Whether a model may reason, for all that its name tells: OpenAI's that do not refuse what concerns reasoning.
pub(crate) fn reasons(name: &str) -> bool {
    efforts(name) != Some(&[])
}

/// An effort that was asked for in words of another dialect: the nearest that the model takes. Where it takes none, or reasons
/// though it is not to, `path` is named.
pub(crate) fn effort<'a>(
    model: &str,
    asked: Option<Cow<'a, str>>,
    path: &str,
    drops: &mut Drops,
) -> Option<Cow<'a, str>> {
    let asked = asked?;
    let rank = |word: &str| EFFORTS.iter().position(|known| *known == word);
    let (Some(known), Some(wanted)) = (efforts(model), rank(&asked)) else {
        return Some(asked);
    };
    let distance = |word: &&&str| {
        let rank = rank(word).unwrap_or_default();
        (rank.abs_diff(wanted), Reverse(rank))
    };
    let nearest = known.iter().min_by_key(distance);
    // What does not reason is not asked to.
    let meant = nearest.map_or("none", |word| word);
    if (asked == "none") != (meant == "none") {
        drops.note(path);
    }
    nearest.map(|word| Cow::Borrowed(*word))
}

impl Model {
    /// Reads an upstream's name of a model, whatever stands before its last `/`.
    pub(crate) fn named(name: &str) -> Self {
        let name = bare(name);
        if is_of_series_o(&name) {
            return Self::Reasons;
        }
        match number(&name).filter(|_| !name.contains("-chat")) {
            Some(number) if number > 5.0 => Self::MayReason,
            Some(5.0) => Self::Reasons,
            _ => Self::Plain,
        }
    }

    /// Whether it takes sampling at this effort.
    fn samples(self, effort: Option<&str>) -> bool {
        match self {
            Self::Plain => true,
            Self::Reasons => false,
            Self::MayReason => effort.is_none_or(|effort| effort == "none"),
        }
    }

    /// How many stop sequences chat takes for it.
    pub(crate) const fn stops(self) -> usize {
        match self {
            Self::Reasons => 0,
            Self::Plain | Self::MayReason => 4,
        }
    }

    /// Puts sampling into a body, by the names that it has there: what the model does not take is left out, and named unless it
    /// says what goes without saying.
    pub(crate) fn sample<'a, const N: usize>(
        self,
        effort: Option<&str>,
        sampling: [(&'a str, Option<Raw<'a>>); N],
        body: &mut Node<'a>,
        drops: &mut Drops,
    ) {
        for (name, raw) in sampling {
            let Some(raw) = raw else {
                continue;
            };
            if self.samples(effort) {
                body.put(name, Node::raw(raw.text));
                continue;
            }
            let default = if name.ends_with("penalty") { 0.0 } else { 1.0 };
            if raw.text.trim().parse::<f64>() != Ok(default) {
                drops.note(&raw.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_whether_a_model_reasons() {
        for (name, model) in [
            ("gpt-4o", Model::Plain),
            ("gpt-4.1-mini", Model::Plain),
            ("gpt-5-chat-latest", Model::Plain),
            ("gpt-oss-120b", Model::Plain),
            ("gpt-35-turbo", Model::Plain),
            ("deepseek-reasoner", Model::Plain),
            ("olmo-3", Model::Plain),
            ("o1", Model::Reasons),
            ("o4-mini-2025-04-16", Model::Reasons),
            ("gpt-5", Model::Reasons),
            ("openai/gpt-5-codex", Model::Reasons),
            ("gpt-5.1", Model::MayReason),
            ("gpt-5.4-pro", Model::MayReason),
        ] {
            assert_eq!(Model::named(name), model, "{name}");
        }
    }

    #[test]
    fn an_effort_is_the_nearest_that_the_model_takes() {
        let said = |model: &str, asked: &'static str| {
            let mut drops = Drops::default();
            let said = effort(model, Some(asked.into()), "thinking", &mut drops);
            let word = said.map_or_else(|| "-".to_owned(), Cow::into_owned);
            (word, !drops.names().is_empty())
        };
        for (model, asked, expected, named) in [
            ("o3", "none", "low", true),
            ("o3", "minimal", "low", false),
            ("o4-mini", "max", "high", false),
            ("gpt-5", "none", "minimal", true),
            ("openai/gpt-5-mini", "xhigh", "high", false),
            ("gpt-5-codex", "minimal", "low", false),
            ("gpt-5-pro", "low", "high", false),
            ("gpt-5.1", "none", "none", false),
            ("gpt-5.1", "minimal", "low", false),
            ("gpt-5.1", "xhigh", "high", false),
            ("gpt-5.1-codex", "max", "high", false),
            ("gpt-5.1-codex-max", "max", "xhigh", false),
            ("gpt-5.2-2025-12-11", "max", "xhigh", false),
            ("gpt-5.2-pro", "low", "medium", false),
            ("gpt-4o", "high", "-", true),
            ("gpt-4.1-mini", "none", "-", false),
            ("gpt-5-chat-latest", "low", "-", true),
            // Names that tell nothing
            ("gpt-oss-120b", "max", "max", false),
            ("deepseek-reasoner", "none", "none", false),
            ("gpt-5.1", "deeper", "deeper", false),
        ] {
            let expected = (expected.to_owned(), named);
            assert_eq!(said(model, asked), expected, "{model} {asked}");
        }
    }

    #[test]
    fn sampling_goes_only_to_models_that_take_it() {
        let sampled = |name: &str, effort: Option<&str>| {
            let fields = Raw::body(r#"{"temperature":0.2,"top_p":1,"presence_penalty":0}"#);
            let mut fields = fields.fields().unwrap();
            let (mut body, mut drops) = (Node::object([]), Drops::default());
            let sampling = [
                ("temperature", fields.take("temperature")),
                ("top_p", fields.take("top_p")),
                ("presence_penalty", fields.take("presence_penalty")),
            ];
            Model::named(name).sample(effort, sampling, &mut body, &mut drops);
            (body.render(), drops.names().to_vec())
        };
        let all = r#"{"temperature":0.2,"top_p":1,"presence_penalty":0}"#;
        for (name, effort, taken) in [
            ("gpt-4o", Some("high"), true),
            ("gpt-5", None, false),
            ("o3", Some("low"), false),
            ("gpt-5.2", None, true),
            ("gpt-5.2", Some("none"), true),
            ("gpt-5.2", Some("low"), false),
        ] {
            let (body, dropped) = sampled(name, effort);
            if taken {
                assert_eq!((&*body, dropped), (all, vec![]), "{name} {effort:?}");
            } else {
                // What goes without saying is no loss.
                assert_eq!(body, "{}", "{name} {effort:?}");
                assert_eq!(dropped, ["temperature"]);
            }
        }
    }
}
