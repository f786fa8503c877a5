//! What depends on the generation of the upstream's model: how much it thinks is said in levels from Gemini 3 on, in tokens
//! before; signatures of calls are demanded from Gemini 3 on [ai.google.dev, "Thinking", "Thought signatures"].

use crate::convert::node::Node;

/// What the name of a model tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model {
    generation: Generation,
    pro: bool,
    lite: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// No Gemini (Gemma), or one before 2.5: it does not think.
    Silent,
    /// 2.5: budgets.
    Budgets,
    /// 3 and later, and names without a number (`gemini-flash-latest`): levels.
    Levels,
}

/// How much is to be thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thought<'a> {
    /// An effort: none, minimal, low, medium, high, xhigh, max.
    Effort(&'a str),
    /// At most so many tokens.
    Budget(u64),
    /// As the model sees fit.
    Dynamic,
}

impl Model {
    /// Reads an upstream's name of a model, whatever stands before `gemini-`.
    pub(crate) fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let generation = match name.rsplit_once("gemini-") {
            None => Generation::Silent,
            Some((_, rest)) => {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
                let number = rest.get(..end.unwrap_or(rest.len())).unwrap_or("");
                match number.parse::<f32>() {
                    Err(_) => Generation::Levels,
                    Ok(number) if number >= 3.0 => Generation::Levels,
                    Ok(number) if number >= 2.5 => Generation::Budgets,
                    Ok(_) => Generation::Silent,
                }
            }
        };
        Self {
            generation,
            pro: name.contains("-pro"),
            lite: name.contains("-lite"),
        }
    }

    /// Whether a call must come back with a signature.
    pub(super) fn demands_signatures(self) -> bool {
        self.generation == Generation::Levels
    }

    /// Whether what a function gave may hold media (Gemini 3 on; before, it is refused) [ai.google.dev, "Function calling"].
    pub(super) fn takes_media_of_tools(self) -> bool {
        self.generation == Generation::Levels
    }

    /// `thinkingConfig`; `None` where the model has none, so that a wish to think is left out.
    ///
    /// Levels: none and minimal are `MINIMAL` (`LOW` with Pro, which cannot think less), a budget is low up to 1024 tokens,
    /// medium up to 8192, high above; so are xhigh and max. Budgets: none is 0 (128 with Pro), minimal 512, low 1024, medium
    /// 8192, high 24576, xhigh and max the most that the model takes; a number is kept within what it takes.
    pub(crate) fn thinking(self, thought: Thought<'_>, show: bool) -> Option<Node<'static>> {
        let mut config = Node::Object(Vec::new());
        match (self.generation, thought) {
            (Generation::Silent, _) => return None,
            (_, Thought::Dynamic) => {}
            (Generation::Levels, thought) => {
                config.put("thinkingLevel", Node::text(self.level(thought)));
            }
            (Generation::Budgets, thought) => {
                config.put("thinkingBudget", Node::Number(self.budget(thought)));
            }
        }
        if show {
            config.put("includeThoughts", Node::Bool(true));
        }
        Some(config)
    }

    fn level(self, thought: Thought<'_>) -> &'static str {
        match thought {
            Thought::Effort("none" | "minimal") | Thought::Budget(0) if !self.pro => "MINIMAL",
            Thought::Effort("none" | "minimal" | "low") | Thought::Budget(0..=1024) => "LOW",
            Thought::Effort("medium") | Thought::Budget(1025..=8192) => "MEDIUM",
            Thought::Effort(_) | Thought::Budget(_) | Thought::Dynamic => "HIGH",
        }
    }

    fn budget(self, thought: Thought<'_>) -> i64 {
        let (least, most) = match (self.pro, self.lite) {
            (true, _) => (128, 32_768),
            (false, true) => (512, 24_576),
            (false, false) => (1, 24_576),
        };
        let tokens = match thought {
            Thought::Effort("none") => 0,
            Thought::Effort("minimal") => 512,
            Thought::Effort("low") => 1024,
            Thought::Effort("medium") => 8192,
            Thought::Effort("high") => 24_576,
            Thought::Effort(_) | Thought::Dynamic => most,
            Thought::Budget(tokens) => i64::try_from(tokens).unwrap_or(most),
        };
        match tokens {
            0 if !self.pro => 0,
            tokens => tokens.clamp(least, most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, thought: Thought<'_>) -> String {
        let config = Model::named(name).thinking(thought, false);
        config.map(|config| config.render()).unwrap_or_default()
    }

    #[test]
    fn thinking_is_said_as_the_generation_takes_it() {
        for (name, thought, said) in [
            (
                "gemini-3-flash-preview",
                Thought::Effort("none"),
                r#"{"thinkingLevel":"MINIMAL"}"#,
            ),
            (
                "google/gemini-3.1-pro",
                Thought::Effort("minimal"),
                r#"{"thinkingLevel":"LOW"}"#,
            ),
            (
                "gemini-flash-latest",
                Thought::Effort("max"),
                r#"{"thinkingLevel":"HIGH"}"#,
            ),
            (
                "gemini-3-pro",
                Thought::Budget(8192),
                r#"{"thinkingLevel":"MEDIUM"}"#,
            ),
            (
                "models/gemini-2.5-flash",
                Thought::Effort("none"),
                r#"{"thinkingBudget":0}"#,
            ),
            (
                "gemini-2.5-pro",
                Thought::Effort("none"),
                r#"{"thinkingBudget":128}"#,
            ),
            (
                "gemini-2.5-flash",
                Thought::Budget(100_000),
                r#"{"thinkingBudget":24576}"#,
            ),
            (
                "gemini-2.5-flash-lite",
                Thought::Budget(10),
                r#"{"thinkingBudget":512}"#,
            ),
            ("gemini-2.5-pro", Thought::Dynamic, "{}"),
            ("gemini-2.0-flash", Thought::Effort("high"), ""),
            ("gemma-3-27b-it", Thought::Effort("high"), ""),
        ] {
            assert_eq!(config(name, thought), said, "{name} {thought:?}");
        }
        assert!(Model::named("gemini-3-pro").demands_signatures());
        assert!(!Model::named("gemini-2.5-pro").demands_signatures());
    }
}
