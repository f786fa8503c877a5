//! A streamed response: items open and close in order, and say in the end what they said in pieces.

use std::collections::BTreeMap;

use super::{answer, envelope, whole_item};
use crate::json::Json;
use crate::valid::sse::Event;
use crate::valid::{Check, filled, need};

/// An item that is being said: its parts by their index, and what they have said.
#[derive(Default)]
struct Item {
    id: String,
    kind: String,
    parts: BTreeMap<u64, Part>,
    arguments: String,
    said_whole: bool,
    done: Option<Json>,
}

#[derive(Default)]
struct Part {
    kind: String,
    text: String,
    text_done: bool,
    done: bool,
}

pub(in crate::valid) fn stream(events: &[Event<'_>]) -> Check {
    let mut items: Vec<Item> = Vec::new();
    let count = events.len();
    let mut id = None;
    for (at, (named, data)) in events.iter().enumerate() {
        let event = Json::parse(data)?;
        let kind = event.get("type").str();
        let place = format!("event {at} {kind}");
        need(*named == Some(kind), || {
            format!("{place} is called {named:?}")
        })?;
        need(
            event.get("sequence_number").whole() == Some(at as u64),
            || format!("{place}: its number"),
        )?;
        let terminal = matches!(kind, "response.completed" | "response.incomplete");
        need(terminal == (at + 1 == count), || {
            format!("{place}, of {count}")
        })?;
        need((kind == "response.created") == (at == 0), || {
            format!("{place}: created first")
        })?;
        need((kind == "response.in_progress") == (at == 1), || {
            format!("{place}: in_progress second")
        })?;
        let response = event.get("response");
        if at == 0 {
            id = Some(response.get("id").clone());
        }
        if at < 2 {
            envelope(response, &["in_progress"])?;
            need(response.get("output").list().is_empty(), || {
                "output early".into()
            })?;
        } else if terminal {
            answer(response)?;
            need(
                kind == format!("response.{}", response.get("status").str()),
                || "status".into(),
            )?;
            let done: Option<Vec<_>> = items.iter().map(|item| item.done.clone()).collect();
            let done = done.ok_or("an item is not done")?;
            need(response.get("output").list() == done, || {
                "the output is not the items".into()
            })?;
        } else {
            said(&event, kind, &mut items).map_err(|error| format!("{place}: {error}"))?;
        }
        if at < 2 || terminal {
            need(Some(response.get("id")) == id.as_ref(), || {
                "the id changes".into()
            })?;
        }
    }
    need(count > 2, || "no end".into())
}

fn said(event: &Json, kind: &str, items: &mut Vec<Item>) -> Check {
    let index = event.get("output_index").whole().ok_or("no output_index")?;
    let index = usize::try_from(index).unwrap();
    let item = event.get("item");
    if kind == "response.output_item.added" {
        need(index == items.len(), || "output_index".into())?;
        filled("id", item.get("id"))?;
        items.push(Item {
            id: item.get("id").str().to_owned(),
            kind: item.get("type").str().to_owned(),
            ..Item::default()
        });
        let empty = match item.get("type").str() {
            "message" => item.get("content").list().is_empty() && item.get("content").is_list(),
            "reasoning" => item.get("summary").is_list(),
            "function_call" => {
                filled("call_id", item.get("call_id"))?;
                filled("name", item.get("name"))?;
                item.get("arguments").text() == Some("")
            }
            _ => true,
        };
        return need(empty, || format!("it is not empty: {}", item.compact()));
    }
    let Some(open) = items.get_mut(index) else {
        return Err("no such item".into());
    };
    need(open.done.is_none(), || "the item is done".into())?;
    if kind == "response.output_item.done" {
        need(item.get("id").str() == open.id, || {
            "the item's id changes".into()
        })?;
        need(item.get("type").str() == open.kind, || {
            "the item's type changes".into()
        })?;
        whole_item(item)?;
        agrees(open, item)?;
        open.done = Some(item.clone());
        return Ok(());
    }
    need(event.get("item_id").str() == open.id, || "item_id".into())?;
    match kind {
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            need(!open.said_whole, || "after the end of it".into())?;
            open.arguments.push_str(event.get("delta").str());
            Ok(())
        }
        "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
            open.said_whole = true;
            let custom = open.kind == "custom_tool_call";
            let whole = event.get(if custom { "input" } else { "arguments" });
            need(whole.str() == open.arguments, || {
                "not what was said in pieces".into()
            })
        }
        _ => part_said(event, kind, open),
    }
}

/// An event about a part of a message or of a reasoning.
fn part_said(event: &Json, kind: &str, item: &mut Item) -> Check {
    let summary = kind.starts_with("response.reasoning_summary");
    let key = if summary {
        "summary_index"
    } else {
        "content_index"
    };
    let at = event.get(key).whole().ok_or_else(|| format!("no {key}"))?;
    let added = matches!(
        kind,
        "response.content_part.added" | "response.reasoning_summary_part.added"
    );
    if added {
        need(at == item.parts.len() as u64, || key.into())?;
        need(item.parts.values().all(|part| part.done), || {
            "a part is open".into()
        })?;
        let kind = event.get("part").get("type").str().to_owned();
        item.parts.insert(
            at,
            Part {
                kind,
                ..Part::default()
            },
        );
        return Ok(());
    }
    let part = item.parts.get_mut(&at).ok_or("no such part")?;
    need(!part.done, || "the part is done".into())?;
    let expected = match kind.trim_start_matches("response.") {
        "output_text.delta" | "output_text.done" | "output_text.annotation.added" => "output_text",
        "refusal.delta" | "refusal.done" => "refusal",
        "reasoning_summary_text.delta" | "reasoning_summary_text.done" => "summary_text",
        "content_part.done" | "reasoning_summary_part.done" => {
            let last = event.get("part");
            let text = last.get(if part.kind == "refusal" {
                "refusal"
            } else {
                "text"
            });
            need(part.text_done && text.str() == part.text, || {
                "the part is not what was said".into()
            })?;
            part.done = true;
            return Ok(());
        }
        _ => return Err("no such event".into()),
    };
    need(part.kind == expected, || format!("of a part {}", part.kind))?;
    if kind.ends_with(".delta") {
        need(!part.text_done, || "after the end of it".into())?;
        filled("delta", event.get("delta"))?;
        part.text.push_str(event.get("delta").str());
    } else if kind.ends_with(".done") {
        let whole = event.get(if expected == "refusal" {
            "refusal"
        } else {
            "text"
        });
        need(whole.text() == Some(&part.text), || {
            "not what was said in pieces".into()
        })?;
        part.text_done = true;
    }
    Ok(())
}

/// A finished item says what its events said.
fn agrees(open: &Item, item: &Json) -> Check {
    need(open.parts.values().all(|part| part.done), || {
        "a part is open".into()
    })?;
    let texts: Vec<&str> = open.parts.values().map(|part| part.text.as_str()).collect();
    let parts = match open.kind.as_str() {
        "message" => item.get("content"),
        "reasoning" => item.get("summary"),
        "function_call" => {
            need(open.said_whole, || "its arguments have no end".into())?;
            return need(item.get("arguments").str() == open.arguments, || {
                "arguments".into()
            });
        }
        "custom_tool_call" => {
            return need(item.get("input").str() == open.arguments, || "input".into());
        }
        _ => return Ok(()),
    };
    let said = |part: &Json| match part.get("refusal") {
        Json::Null => part.get("text").str().to_owned(),
        refusal => refusal.str().to_owned(),
    };
    let said: Vec<String> = parts.list().iter().map(said).collect();
    need(said == texts, || format!("{said:?} is not {texts:?}"))
}
