//! Whether a target's answer says what the upstream said. It is read once per target and workload, to the last field; from
//! then on every answer must have its very bytes.

use anyhow::Context as _;
use serde_json::Value;

use crate::arguments::Kind;
use crate::workload::Workload;

/// Compares a target's answer with the upstream's own.
pub fn check(kind: Kind, workload: Workload, direct: &[u8], answer: &[u8]) -> anyhow::Result<()> {
    let what = || {
        format!(
            "{kind}, {}: the answer is not what the upstream said",
            workload.name()
        )
    };
    if !kind.is_switchboard() {
        anyhow::ensure!(answer == direct, what());
        return well_formed(workload, answer).with_context(what);
    }
    if !workload.streams() {
        // FWD-1: to the byte, but for the model's name.
        let renamed = renamed(workload, std::str::from_utf8(direct)?);
        anyhow::ensure!(answer == renamed.as_bytes(), what());
        return Ok(());
    }
    if workload == Workload::Translated {
        return messages(workload, answer).with_context(what);
    }
    well_formed(workload, answer).with_context(what)?;
    let (expected, got) = (events(direct)?, events(answer)?);
    anyhow::ensure!(
        expected.len() == got.len(),
        "{}: {} events, not {}",
        what(),
        got.len(),
        expected.len()
    );
    for (number, (expected, got)) in expected.iter().zip(&got).enumerate() {
        let expected = meaning(&renamed(workload, expected));
        anyhow::ensure!(
            expected == meaning(got),
            "{}: event {number} is `{got}`",
            what()
        );
    }
    Ok(())
}

fn renamed(workload: Workload, text: &str) -> String {
    let name = |name: String| format!("\"model\":\"{name}\"");
    text.replace(
        &name(workload.upstream_model()),
        &name(workload.public_model()),
    )
}

/// The payload of each event.
fn events(stream: &[u8]) -> anyhow::Result<Vec<&str>> {
    let text = std::str::from_utf8(stream)?;
    Ok(text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect())
}

/// An event's JSON, without a usage of null: upstreams that were asked for usage send one in each chunk.
fn meaning(event: &str) -> Value {
    let mut value = serde_json::from_str(event).unwrap_or_else(|_| Value::from(event));
    if let Some(object) = value.as_object_mut()
        && object.get("usage").is_some_and(Value::is_null)
    {
        object.remove("usage");
    }
    value
}

/// A stream of `anthropic.messages` that says what the upstream said.
fn messages(workload: Workload, answer: &[u8]) -> anyhow::Result<()> {
    let events: Result<Vec<Value>, _> = events(answer)?
        .into_iter()
        .map(serde_json::from_str)
        .collect();
    let events = events?;
    let deltas = events
        .iter()
        .filter(|event| event["delta"]["text"] == " token")
        .count();
    let usage = events.iter().find(|event| event["type"] == "message_delta");
    let usage = usage.map(|event| &event["usage"]);
    let said = (
        deltas as u64,
        usage.and_then(|usage| usage["input_tokens"].as_u64()),
        usage.and_then(|usage| usage["output_tokens"].as_u64()),
        events.last().and_then(|event| event["type"].as_str()),
    );
    let expected = (
        workload.output_tokens(),
        Some(workload.input_tokens()),
        Some(workload.output_tokens()),
        Some("message_stop"),
    );
    anyhow::ensure!(said == expected, "it says {said:?}, not {expected:?}");
    Ok(())
}

fn well_formed(workload: Workload, answer: &[u8]) -> anyhow::Result<()> {
    if !workload.streams() {
        let value: Value = serde_json::from_slice(answer)?;
        let tokens = &value["usage"]["completion_tokens"];
        anyhow::ensure!(
            *tokens == workload.output_tokens(),
            "it reports {tokens} tokens"
        );
        return Ok(());
    }
    let events = events(answer)?;
    anyhow::ensure!(
        events.last() == Some(&"[DONE]"),
        "the stream does not end with [DONE]"
    );
    let tokens = events
        .iter()
        .filter(|event| event.contains("\" token\""))
        .count();
    anyhow::ensure!(
        tokens as u64 == workload.output_tokens(),
        "it has {tokens} tokens"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(model: &str, extra: &str, tokens: usize) -> Vec<u8> {
        let event = format!(
            "data: {{\"model\":\"{model}\",\"choices\":[{{\"delta\":{{\"content\":\" token\"}}}}]{extra}}}\n\n"
        );
        (event.repeat(tokens) + "data: [DONE]\n\n").into_bytes()
    }

    #[test]
    fn a_stream_may_differ_in_name_and_in_a_usage_of_null() {
        let direct = stream("burst-100", "", 100);
        let check = |answer: &[u8]| check(Kind::One, Workload::Burst, &direct, answer);
        assert!(check(&stream("bench-burst", "", 100)).is_ok());
        assert!(check(&stream("bench-burst", ",\"usage\":null", 100)).is_ok());
        assert!(check(&stream("burst-100", "", 100)).is_err());
        assert!(check(&stream("bench-burst", ",\"usage\":{}", 100)).is_err());
        assert!(check(&stream("bench-burst", "", 99)).is_err());
    }

    #[test]
    fn a_whole_answer_differs_in_name_alone() {
        let direct = br#"{"model":"whole-1024","usage":{"completion_tokens":16}}"#;
        let right = br#"{"model":"bench-whole","usage":{"completion_tokens":16}}"#;
        assert!(check(Kind::One, Workload::Whole, direct, right).is_ok());
        assert!(check(Kind::One, Workload::Whole, direct, direct).is_err());
        assert!(check(Kind::Proxy, Workload::Whole, direct, direct).is_ok());
        assert!(check(Kind::Proxy, Workload::Whole, direct, right).is_err());
    }
}
