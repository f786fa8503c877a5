//! What depends on the generation of OpenAI's models: those that reason take no sampling [OpenAI's guide to its newest models,
//! "parameter compatibility": o-series and GPT-5 never, GPT-5.1 and later only while they do not reason]. Models of others go by
//! other names, and take what they take.

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

impl Model {
    /// Reads an upstream's name of a model, whatever stands before its last `/`.
    pub(crate) fn named(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let digits = |text: &str| text.bytes().next().is_some_and(|one| one.is_ascii_digit());
        if name.strip_prefix('o').is_some_and(digits) {
            return Self::Reasons;
        }
        let Some(version) = name
            .strip_prefix("gpt-")
            .filter(|_| !name.contains("-chat"))
        else {
            return Self::Plain;
        };
        let end = version.find(|one: char| !one.is_ascii_digit() && one != '.');
        let (number, rest) = version.split_at(end.unwrap_or(version.len()));
        // `gpt-4o` and its like are no numbers.
        let ends = rest.is_empty() || rest.starts_with('-');
        match number.parse::<f32>() {
            Ok(number) if ends && number > 5.0 => Self::MayReason,
            Ok(number) if ends && number == 5.0 => Self::Reasons,
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
