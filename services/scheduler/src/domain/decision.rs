//! Why this account (SCHED-10): a choice as proto3 JSON of `scheduler.v1.Decision`, ready for the usage row.
//!
//! Written once per request and straight into text: as a message with its maps it would cost more than the choice itself.

use std::fmt::Write as _;

use super::{
    choice::{Choice, Considered},
    filter::{self, Ask, Filter},
    score,
};

/// More targets than this are not explained: those that were drawn first, then others.
const EXPLAINED: usize = 64;

/// All filters passed.
const ALL_PASS: &str = concat!(
    r#"[{"filter":"group","pass":true},{"filter":"tenant","pass":true},{"filter":"model","pass":true},{"filter":"capability","pass":true},"#,
    r#"{"filter":"dialect","pass":true},{"filter":"enabled","pass":true},{"filter":"weight","pass":true},"#,
    r#"{"filter":"cooldown","pass":true},{"filter":"response","pass":true},{"filter":"address","pass":true}]"#
);

/// Writes a choice down.
#[must_use]
pub fn json(
    version: u64,
    choice: &Choice<'_>,
    ask: &Ask<'_>,
    public_model: &str,
    queued_ms: u64,
) -> String {
    let shown = choice.considered.len().min(EXPLAINED);
    let mut text = String::with_capacity(160 + shown * 640);
    let _ = write!(
        text,
        r#"{{"catalogueVersion":"{version}","policy":"{}","layer":"{}","queuedMs":"{queued_ms}","targets":["#,
        choice.policy.name(),
        if ask.bound.is_some() {
            "response"
        } else {
            "scored"
        }
    );
    let drawn = choice.order.iter().enumerate();
    let mut first = true;
    let mut left = EXPLAINED;
    for (place, index) in drawn.take(EXPLAINED) {
        if let Some(one) = choice.considered.get(*index) {
            separate(&mut text, &mut first);
            target(&mut text, one, ask, public_model, Some(place));
            left -= 1;
        }
    }
    let filtered = choice.considered.iter().filter(|one| one.scored.is_none());
    for one in filtered.take(left) {
        separate(&mut text, &mut first);
        target(&mut text, one, ask, public_model, None);
    }
    text.push_str("]}");
    text
}

fn separate(text: &mut String, first: &mut bool) {
    if !std::mem::take(first) {
        text.push(',');
    }
}

fn target(
    text: &mut String,
    one: &Considered<'_>,
    ask: &Ask<'_>,
    public_model: &str,
    place: Option<usize>,
) {
    text.push_str(r#"{"account":"#);
    quoted(text, one.target.account.name.as_str());
    text.push_str(r#","upstreamModel":"#);
    quoted(text, one.target.upstream_model(public_model));
    let _ = write!(
        text,
        r#","tier":{},"weight":{},"filters":"#,
        one.target.tier,
        ask.weight(one.target)
    );
    if one.outcomes.pass() && !ask.rule.any() {
        text.push_str(ALL_PASS);
    } else {
        filters(text, one, ask);
    }
    if let Some((score, factors)) = one.scored {
        text.push_str(r#","score":"#);
        fraction(text, score);
        text.push_str(r#","factors":{"#);
        for (at, (name, factor)) in score::NAMES.iter().zip(factors).enumerate() {
            text.push_str(if at == 0 { "\"" } else { ",\"" });
            text.push_str(name);
            text.push_str("\":");
            fraction(text, factor);
        }
        text.push('}');
    }
    if let Some(place) = place {
        let _ = write!(text, r#","drawn":{place}"#);
    }
    if one.full {
        text.push_str(r#","full":true"#);
    }
    text.push('}');
}

fn filters(text: &mut String, one: &Considered<'_>, ask: &Ask<'_>) {
    text.push('[');
    for (at, filter) in Filter::ALL.into_iter().enumerate() {
        let pass = one.outcomes.passed(filter);
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"filter":"{}","pass":{pass}"#,
            filter.name()
        );
        let detail = match (pass, filter) {
            (false, _) => Some(filter::detail(filter, ask, one.target, one.rests_until_ms)),
            (true, Filter::Tenant) => filter::remark(ask, one.target),
            (true, _) => None,
        };
        if let Some(detail) = detail {
            text.push_str(r#","detail":"#);
            quoted(text, &detail);
        }
        text.push('}');
        if filter == Filter::Tenant {
            // Whoever asks for a model that is not active never gets this far.
            text.push_str(r#",{"filter":"model","pass":true}"#);
        }
    }
    text.push(']');
}

/// A number from 0 to 1 with four digits: exact printing of floats would be most of the cost of an explanation.
fn fraction(text: &mut String, value: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=10,000"
    )]
    let parts = (value.clamp(0.0, 1.0) * 1e4).round() as u32;
    if parts >= 10_000 {
        text.push('1');
        return;
    }
    text.push_str("0.");
    for place in [1_000, 100, 10, 1] {
        text.push(char::from_digit(parts / place % 10, 10).unwrap_or('0'));
    }
}

/// A JSON string.
fn quoted(text: &mut String, value: &str) {
    text.push('"');
    if value
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        text.push_str(value);
    } else {
        for character in value.chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                control if control < ' ' => {
                    let _ = write!(text, "\\u{:04x}", u32::from(control));
                }
                other => text.push(other),
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};
    use serde_json::Value;

    use super::*;
    use crate::domain::{
        choice::choose,
        fixture::{self, ask},
        known::Why,
    };

    #[test]
    fn every_target_is_there_with_every_filter_and_the_drawn_order() {
        let model = fixture::model(vec![
            fixture::target("cold \"one\"", 0, 1),
            fixture::target("good", 0, 3),
            fixture::target("later", 1, 1),
        ]);
        model.targets[0]
            .account
            .known
            .rest
            .hold(4_200, Why::RateLimited, 0);
        let ask = ask(&model);
        let mut choice = choose(&ask, |_| None, |_| None, 10, &mut StdRng::seed_from_u64(1));
        choice.considered[1].full = true;
        let text = json(12, &choice, &ask, "m", 7);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["catalogueVersion"], "12");
        assert_eq!(value["policy"], "weighted_score");
        assert_eq!(value["queuedMs"], "7");
        let targets = value["targets"].as_array().unwrap();
        let accounts: Vec<_> = targets
            .iter()
            .map(|t| t["account"].as_str().unwrap())
            .collect();
        assert_eq!(accounts, ["good", "later", "cold \"one\""]);
        for target in targets {
            let names: Vec<_> = target["filters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|f| f["filter"].as_str().unwrap())
                .collect();
            assert_eq!(
                names,
                [
                    "group",
                    "tenant",
                    "model",
                    "capability",
                    "dialect",
                    "enabled",
                    "weight",
                    "cooldown",
                    "response",
                    "address"
                ]
            );
        }
        assert_eq!(targets[0]["drawn"], 0);
        assert_eq!(targets[0]["full"], true);
        let factors = targets[0]["factors"].as_object().unwrap();
        assert_eq!(factors.len(), 6);
        assert_eq!(
            (&factors["load"], &factors["ttft"]),
            (&1.into(), &0.5.into())
        );
        assert_eq!(targets[1]["drawn"], 1);
        let cold = &targets[2]["filters"][7];
        assert_eq!(cold["pass"], false);
        assert_eq!(cold["detail"], "rate limited for 4 s more");
        assert!(targets[2].get("drawn").is_none() && targets[2].get("score").is_none());
    }

    #[test]
    fn a_thousand_targets_do_not_make_a_row_of_a_megabyte() {
        let model = fixture::model(
            (0..1_000)
                .map(|n| fixture::target(&n.to_string(), 0, 1))
                .collect(),
        );
        let ask = ask(&model);
        let choice = choose(&ask, |_| None, |_| None, 10, &mut StdRng::seed_from_u64(1));
        assert!(json(1, &choice, &ask, "m", 0).len() < 64 * 1_024);
    }
}
