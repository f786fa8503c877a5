//! What holds for every request.

use base64::Engine as _;
use switchboard_dialects::convert::{Format, Target, Translation};

use crate::json::Json;
use crate::valid;
use crate::wire;

/// Something that a request says and that comes once in it.
#[derive(Debug)]
struct Said {
    mark: String,
    /// Where: `messages[].content`.
    path: String,
    /// The whole text.
    whole: String,
}

/// Checks one request in one direction. `odd`: it may be wrong in its own dialect.
pub(super) fn request(
    pair: (Format, Format),
    model: &str,
    body: &Json,
    odd: bool,
) -> Result<(), String> {
    let text = body.compact();
    let asked = match wire::ask(pair.0, false, text.as_bytes()) {
        Ok(asked) => asked,
        Err(_) if odd => return Ok(()),
        Err(error) => return Err(format!("its own dialect refuses it: {error}")),
    };
    let target = Target {
        model,
        ..wire::target(pair.1, false)
    };
    match Translation::open(pair, &asked, text.as_bytes(), &target) {
        Ok(translation) => {
            let sent = wire::sent(model, &translation);
            let shown = |error| format!("{error}\n{sent}\ndropped {:?}", translation.dropped());
            let parsed = Json::parse(&sent).map_err(shown)?;
            valid::request(pair.1, model, &parsed).map_err(shown)?;
            if !odd {
                nothing_is_lost(pair, body, &sent, &parsed, translation.dropped())
                    .map_err(shown)?;
                order_stays(pair.0, body, &sent).map_err(shown)?;
            }
            Ok(())
        }
        Err(refusal) => {
            let param = &refusal.param;
            let root = plain(param.split(['.', '[']).next().unwrap_or(""));
            let known = body.keys().iter().any(|key| plain(key) == root);
            if !known && (!odd || root.is_empty()) {
                return Err(format!("refused without a field: {refusal:?}"));
            }
            if !refusal.unsupported && !odd {
                return Err(format!("refused as invalid: {refusal:?}"));
            }
            Ok(())
        }
    }
}

/// A name in the form of both of its spellings.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

/// All texts with a mark, and numbers that come once.
fn said(path: &str, value: &Json, all: &mut Vec<Said>) {
    let mut found = |whole: &str| {
        let mut rest = whole;
        while let Some(start) = rest.find("zq") {
            let inside = &rest[start + 2..];
            let Some(end) = inside.find("zq") else { break };
            let mark = &rest[start..start + end + 4];
            all.push(Said {
                mark: mark.to_owned(),
                path: path.to_owned(),
                whole: whole.to_owned(),
            });
            rest = &inside[end + 2..];
        }
    };
    match value {
        Json::Text(text) if text.starts_with("c3dpdGNoYm9hcmQu") => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            found(&String::from_utf8(bytes.unwrap()).unwrap());
        }
        Json::Text(text) => found(text),
        Json::Number(digits) if digits.starts_with("0.5") || digits.starts_with("770") => {
            all.push(Said {
                mark: digits.clone(),
                path: path.to_owned(),
                whole: digits.clone(),
            });
        }
        Json::List(items) => {
            let path = format!("{path}[]");
            items.iter().for_each(|item| said(&path, item, all));
        }
        Json::Object(members) => {
            for (key, value) in members {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                let opaque = value.is_object() && matches!(&**key, "input" | "args");
                let before = all.len();
                said(&path, value, all);
                // Of arguments the whole stays as it is.
                for said in all.iter_mut().skip(before).filter(|_| opaque) {
                    said.whole = value.compact();
                    said.path.clone_from(&path);
                }
            }
        }
        _ => {}
    }
}

/// All texts of a value, also those in JSON that is a text.
fn texts(value: &Json, all: &mut Vec<String>) {
    match value {
        Json::Text(text) => {
            all.push(text.clone());
            if let Ok(inside) = Json::parse(text) {
                texts(&inside, all);
            }
        }
        Json::List(items) => items.iter().for_each(|item| texts(item, all)),
        Json::Object(members) => members.iter().for_each(|(_, value)| texts(value, all)),
        _ => {}
    }
}

/// What was said is in what is sent, unchanged, or its field is named.
fn nothing_is_lost(
    pair: (Format, Format),
    body: &Json,
    sent: &str,
    parsed: &Json,
    dropped: &[String],
) -> Result<(), String> {
    let mut all = Vec::new();
    said("", body, &mut all);
    let mut out = Vec::new();
    texts(parsed, &mut out);
    for said in all {
        if named(&said.path, dropped) || left_out(pair, body, &said) {
            continue;
        }
        if !sent.contains(&said.mark) {
            return Err(format!("{} of {} is lost", said.mark, said.path));
        }
        // Names may have to be put differently; what they begin with stays.
        if said.path.ends_with("name") || said.path.ends_with("ames[]") {
            continue;
        }
        // Thoughts are told apart there, and put together again.
        if said.path.ends_with("reasoning_content") || said.whole.contains("reasoning.text") {
            continue;
        }
        // What ends a conversation may lose the white space at its end.
        let whole = said.whole.trim_end();
        let whole = match whole.split_once(',') {
            Some((kind, data)) if kind.starts_with("data:") => data,
            _ => whole,
        };
        let whole = whole
            .strip_prefix("switchboard.")
            .map_or(whole, |seal| &seal[2..]);
        let as_json = sent.contains(whole);
        if !as_json && !out.iter().any(|text| text.contains(whole)) {
            return Err(format!("{:?} of {} is changed", said.whole, said.path));
        }
    }
    Ok(())
}

/// Whether the field, or what it is in, is among those that were left out.
fn named(path: &str, dropped: &[String]) -> bool {
    let path = plain(path);
    let covers = |name: &String| {
        let name = plain(name);
        let rest = path.strip_prefix(&name);
        let whole = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        // Thoughts are named as a whole.
        let aliases: &[&str] = match &*name {
            "input[].reasoning" => &[
                "input[].summary",
                "input[].content",
                "input[].encryptedcontent",
            ],
            // So are items of tools that the provider ran.
            "input[].mcpcall" | "input[].websearchcall" => &["input[].xodd"],
            "messages[].content[].thinking" => &["messages[].content[].signature"],
            "messages[].content[].redactedthinking" => &["messages[].content[].data"],
            "messages[].reasoningdetails[]" => &["messages[].reasoningcontent"],
            _ => &[],
        };
        whole || aliases.iter().any(|alias| path.starts_with(alias))
    };
    dropped.iter().any(covers)
}

/// What the table of translation says is left out without a word.
fn left_out(pair: (Format, Format), body: &Json, said: &Said) -> bool {
    let path = plain(&said.path);
    // Of tools of which only some may be called the others are not declared where the dialect has no word for that.
    let choices = ["tool_choice", "toolConfig", "tool_config"];
    let some = choices.iter().any(|key| {
        let choice = plain(&body.get(key).compact());
        choice.contains("allowed")
    });
    let by_absence = matches!(pair.1, Format::Anthropic | Format::Gemini);
    if some && by_absence && path.starts_with("tools[]") {
        return true;
    }
    // What a chat upstream put on a call and what is not with that call any more.
    pair.1 == Format::Chat && said.whole.starts_with("switchboard.c.") && !said.whole.contains('{')
}

/// A turn without its thoughts.
fn spoken(turn: &Json) -> Json {
    let mut turn = turn.clone();
    if let Json::List(parts) = turn.get("parts").clone() {
        let mut parts = parts;
        parts.retain(|part| !part.has("thought"));
        turn.set("parts", Json::List(parts));
    }
    turn
}

/// Texts come in their order, and so do the arguments of calls.
fn order_stays(caller: Format, body: &Json, sent: &str) -> Result<(), String> {
    let turns = match caller {
        Format::Chat | Format::Anthropic => body.get("messages"),
        Format::Responses => body.get("input"),
        Format::Gemini => body.get("contents"),
    };
    let mut all = Vec::new();
    let mut leading = true;
    let words = ["content", "content[].text", "parts[].text"];
    for turn in turns.list() {
        let role = turn.get("role").str();
        let before = all.len();
        if role != "tool" {
            said("", &spoken(turn), &mut all);
        }
        // A turn in which nothing is said is none.
        let speaks =
            |said: &Said| words.contains(&&*said.path) || said.path.contains("content[].source");
        let speaks = turn.compact().contains("://") || all[before..].iter().any(speaks);
        leading &= matches!(role, "system" | "developer") || !speaks;
        if leading {
            all.truncate(before);
        }
    }
    let arguments = [
        "tool_calls[].function.arguments",
        "arguments",
        "content[].input",
        "parts[].functionCall.args",
    ];
    for kind in [&words[..], &arguments[..]] {
        let mut last = 0;
        for said in &all {
            let is = kind.iter().any(|path| said.path == *path);
            let Some(at) = sent.find(&said.mark).filter(|_| is) else {
                continue;
            };
            if at < last {
                return Err(format!("{} of {} comes too early", said.mark, said.path));
            }
            last = at;
        }
    }
    Ok(())
}
