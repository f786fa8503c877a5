//! What the models take, told by their names (PROTOCOLS §7.1, §11.1).
//!
//! A name of Claude's holds its generation (`claude-3-5-haiku-20241022`, `claude-opus-4-6`, `anthropic.claude-sonnet-4-5-v1:0`); one
//! without (`claude-latest`) counts as the newest. Models of others that speak this dialect count as Claude 4.5: that is what
//! they copied.

use crate::convert::node::Node;

/// The smallest budget of thought that there is.
const LEAST_BUDGET: u64 = 1_024;

/// A model's generation: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Model(u32, u32);

/// How much is asked to be thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    /// One of none, minimal, low, medium, high, xhigh and max.
    Effort(&'a str),
    /// At most so many tokens.
    Budget(u64),
    /// As the model likes.
    Freely,
}

/// How much is thought.
#[derive(Debug, Default)]
pub(crate) struct Thought<'a> {
    /// `thinking`.
    pub(crate) thinking: Option<Node<'a>>,
    /// `output_config.effort`.
    pub(crate) effort: Option<&'static str>,
    /// It thinks.
    pub(crate) thinks: bool,
    /// What was asked cannot be said.
    pub(crate) lost: bool,
}

/// What there is to know besides, to say how much is thought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// The thoughts are to be shown.
    pub(crate) show: bool,
    /// `max_tokens`.
    pub(crate) limit: u64,
    /// A call is forced: no model thinks then.
    pub(crate) forced: bool,
    /// The turn that goes on begins without the thoughts that it had: none by a budget can follow.
    pub(crate) resumes: bool,
}

impl Model {
    /// The generation that a name tells.
    pub(crate) fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let Some((_, rest)) = name.rsplit_once("claude") else {
            return Self(4, 5);
        };
        let words = rest.split(|c: char| !c.is_ascii_alphanumeric());
        // longer numbers are dates
        let number = |word: &str| {
            let digits = word.strip_prefix('v').unwrap_or(word);
            digits.parse().ok().filter(|_| digits.len() <= 2)
        };
        let mut words = words.map(number).skip_while(Option::is_none);
        match (words.next().flatten(), words.next().flatten()) {
            (Some(major), minor) => Self(major, minor.unwrap_or(0)),
            (None, _) => Self(u32::MAX, 0),
        }
    }

    /// It takes a temperature and its like; since Claude 4.7 only the default ones are taken.
    pub(crate) fn samples(self) -> bool {
        self < Self(4, 7)
    }

    /// It takes one of temperature and `top_p` alone.
    pub(crate) fn samples_by_one(self) -> bool {
        self >= Self(4, 1)
    }

    /// It keeps to a schema of the answer, and to those of tools (`strict`), since Claude 4.5.
    pub(crate) fn has_schemas(self) -> bool {
        self >= Self(4, 5)
    }

    /// How much it is to think: since Claude 4.6 as it sees fit under an effort, from 3.7 on by a budget, before that not at all.
    ///
    /// An effort is a budget of 1024 (minimal, low), 2048 (medium), 4096 (high), or 8192 (xhigh, max) tokens. A budget is an effort by
    /// the same bounds. A budget is part of the output limit, which is never raised for it: a quarter of that is left for the
    /// answer.
    pub(crate) fn think<'a>(self, asked: Asked<'_>, around: Around) -> Thought<'a> {
        let none = matches!(asked, Asked::Effort("none") | Asked::Budget(0));
        if self < Self(3, 7) {
            return Thought {
                lost: !none,
                ..Thought::default()
            };
        }
        if none {
            return Thought {
                thinking: Some(Node::object([("type", Node::text("disabled"))])),
                ..Thought::default()
            };
        }
        if self >= Self(4, 6) {
            let mut thinking = Node::object([("type", Node::text("adaptive"))]);
            if self >= Self(4, 7) {
                // it shows nothing unless it is told to
                let display = if around.show { "summarized" } else { "omitted" };
                thinking.put("display", Node::text(display));
            }
            let thinks = !around.forced;
            return Thought {
                thinking: thinks.then_some(thinking),
                effort: self.effort(asked),
                thinks,
                lost: !thinks && asked == Asked::Freely,
            };
        }
        let budget = budget(asked).min(around.limit - around.limit / 4);
        if around.forced || around.resumes || budget < LEAST_BUDGET {
            return Thought {
                lost: true,
                ..Thought::default()
            };
        }
        let tokens = Node::Number(i64::try_from(budget).unwrap_or(i64::MAX));
        Thought {
            thinking: Some(Node::object([
                ("type", Node::text("enabled")),
                ("budget_tokens", tokens),
            ])),
            thinks: true,
            ..Thought::default()
        }
    }

    fn effort(self, asked: Asked<'_>) -> Option<&'static str> {
        Some(match asked {
            Asked::Effort("minimal" | "low") => "low",
            Asked::Effort("medium") => "medium",
            Asked::Effort("max") => "max",
            Asked::Effort("xhigh") if self >= Self(4, 7) => "xhigh",
            Asked::Effort(_) => "high",
            Asked::Budget(..=1_024) => "low",
            Asked::Budget(..=8_192) => "medium",
            Asked::Budget(_) => "high",
            Asked::Freely => return None,
        })
    }
}

fn budget(asked: Asked<'_>) -> u64 {
    match asked {
        Asked::Budget(budget) => budget.max(LEAST_BUDGET),
        Asked::Effort("minimal" | "low") => 1_024,
        Asked::Effort("high") => 4_096,
        Asked::Effort("xhigh" | "max") => 8_192,
        Asked::Effort(_) | Asked::Freely => 2_048,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_generation() {
        for (name, generation) in [
            ("claude-3-5-haiku-20241022", Model(3, 5)),
            ("claude-3-7-sonnet-latest", Model(3, 7)),
            ("claude-sonnet-4-20250514", Model(4, 0)),
            ("claude-sonnet-4@20250514", Model(4, 0)),
            ("claude-opus-4-1", Model(4, 1)),
            ("us.anthropic.claude-opus-4-6-v1:0", Model(4, 6)),
            ("anthropic/claude-haiku-4.5", Model(4, 5)),
            ("anthropic.claude-v2:1", Model(2, 1)),
            ("claude-sonnet-5", Model(5, 0)),
            ("claude-latest", Model(u32::MAX, 0)),
            ("deepseek-chat", Model(4, 5)),
        ] {
            assert_eq!(Model::named(name), generation, "{name}");
        }
    }

    fn said(model: &str, asked: Asked<'_>, limit: u64, forced: bool, resumes: bool) -> String {
        let around = Around {
            show: true,
            limit,
            forced,
            resumes,
        };
        let thought = Model::named(model).think(asked, around);
        let thinking = thought.thinking.map(|node| node.render());
        format!(
            "{} {} {}",
            thinking.unwrap_or_default(),
            thought.effort.unwrap_or_default(),
            thought.lost
        )
    }

    #[test]
    fn an_effort_is_said_as_the_generation_takes_it() {
        let effort = Asked::Effort;
        let of = |model, asked| said(model, asked, 8192, false, false);
        assert_eq!(of("claude-3-5-haiku", effort("high")), "  true");
        assert_eq!(
            of("claude-sonnet-4-5", effort("high")),
            r#"{"type":"enabled","budget_tokens":4096}  false"#
        );
        assert_eq!(
            of("claude-opus-4-6", effort("xhigh")),
            r#"{"type":"adaptive"} high false"#
        );
        assert_eq!(
            of("claude-opus-4-7", effort("xhigh")),
            r#"{"type":"adaptive","display":"summarized"} xhigh false"#
        );
        assert_eq!(
            of("claude-opus-4-7", effort("none")),
            r#"{"type":"disabled"}  false"#
        );
        assert_eq!(
            of("claude-opus-4-6", Asked::Budget(5000)),
            r#"{"type":"adaptive"} medium false"#
        );
    }

    #[test]
    fn a_budget_fits_into_the_limit_and_gives_way_to_a_forced_call() {
        let of = |limit, forced, resumes| {
            said(
                "claude-sonnet-4-5",
                Asked::Effort("high"),
                limit,
                forced,
                resumes,
            )
        };
        assert_eq!(
            of(2000, false, false),
            r#"{"type":"enabled","budget_tokens":1500}  false"#
        );
        assert_eq!(of(1000, false, false), "  true");
        assert_eq!(of(8192, true, false), "  true");
        assert_eq!(of(8192, false, true), "  true");
        let adaptive = said("claude-opus-4-6", Asked::Effort("high"), 8192, true, false);
        assert_eq!(adaptive, " high false");
    }
}
