//! The Responses API.

mod stream;

pub(super) use self::stream::stream;
use super::{Check, between, filled, name, need, once, one_of, only, parts_of};
use crate::json::Json;

const REQUEST: &[&str] = &[
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "conversation",
    "store",
    "background",
    "stream",
    "stream_options",
    "include",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "text",
    "temperature",
    "top_p",
    "top_logprobs",
    "truncation",
    "context_management",
    "metadata",
    "service_tier",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "safety_identifier",
    "user",
    "moderation",
    "prompt_cache_retention",
];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

pub(super) fn request(body: &Json) -> Check {
    only("the body", body, REQUEST)?;
    filled("model", body.get("model"))?;
    match body.get("input") {
        Json::Text(text) => need(!text.is_empty(), || "an empty input".into())?,
        input => items(input.list())?,
    }
    if let Some(limit) = body.get("max_output_tokens").number() {
        need(limit >= 16.0, || format!("max_output_tokens {limit}"))?;
    }
    between("temperature", body.get("temperature"), 0.0, 2.0)?;
    between("top_p", body.get("top_p"), 0.0, 1.0)?;
    between("top_logprobs", body.get("top_logprobs"), 0.0, 20.0)?;
    let reasoning = body.get("reasoning");
    only(
        "reasoning",
        reasoning,
        &["effort", "summary", "context", "mode"],
    )?;
    if reasoning.has("effort") {
        one_of("reasoning.effort", reasoning.get("effort"), EFFORTS)?;
    }
    if reasoning.has("summary") {
        one_of(
            "reasoning.summary",
            reasoning.get("summary"),
            &["auto", "concise", "detailed"],
        )?;
    }
    let format = body.get("text").get("format");
    only("text", body.get("text"), &["format", "verbosity"])?;
    if !format.is_null() {
        one_of(
            "text.format",
            format.get("type"),
            &["text", "json_object", "json_schema"],
        )?;
        if format.get("type").str() == "json_schema" {
            name("text.format.name", format.get("name"), 64)?;
            need(format.get("schema").is_object(), || "no schema".into())?;
        }
    }
    let user = body.get("safety_identifier").str();
    need(user.len() <= 64, || "safety_identifier is too long".into())?;
    tools(body)
}

fn items(items: &[Json]) -> Check {
    need(!items.is_empty(), || "no input".into())?;
    let mut open: Vec<&str> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = format!("input[{at}]");
        let kind = item.get("type").text().unwrap_or("message");
        match kind {
            "message" => {
                let role = item.get("role").str();
                let kinds: &[&str] = match role {
                    "assistant" => &["output_text", "refusal"],
                    "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
                    _ => return Err(format!("{place}: no role {role:?}")),
                };
                let content = item.get("content");
                need(content.is_text() || !content.list().is_empty(), || {
                    format!("{place} is empty")
                })?;
                for part in content.list() {
                    one_of(&place, part.get("type"), kinds)?;
                    content_part(&place, part)?;
                }
            }
            "function_call" | "custom_tool_call" => {
                filled(&format!("{place}.call_id"), item.get("call_id"))?;
                name(&format!("{place}.name"), item.get("name"), 128)?;
                let said = if kind == "function_call" {
                    "arguments"
                } else {
                    "input"
                };
                need(item.get(said).is_text(), || format!("{place}.{said}"))?;
                let id = item.get("id").str();
                need(
                    id.is_empty() || id.starts_with("fc_") || id.starts_with("ctc_"),
                    || format!("{place}.id {id}"),
                )?;
                let length = item.get("call_id").str().chars().count();
                need(length <= 64, || {
                    format!("{place}: an id of {length} characters")
                })?;
                open.push(item.get("call_id").str());
            }
            "function_call_output" | "custom_tool_call_output" => {
                let id = item.get("call_id").str();
                let call = open.iter().position(|open| *open == id);
                let call = call.ok_or_else(|| format!("{place} answers {id:?}, of {open:?}"))?;
                open.remove(call);
                let output = item.get("output");
                need(output.is_text() || output.is_list(), || {
                    format!("{place}.output")
                })?;
                for part in output.list() {
                    one_of(
                        &place,
                        part.get("type"),
                        &["input_text", "input_image", "input_file"],
                    )?;
                    content_part(&place, part)?;
                }
            }
            "reasoning" => {
                need(item.get("summary").is_list(), || format!("{place}.summary"))?;
                for part in item.get("summary").list() {
                    one_of(&place, part.get("type"), &["summary_text"])?;
                }
            }
            other => return Err(format!("{place}: an item of type {other:?}")),
        }
    }
    need(open.is_empty(), || format!("{open:?} are not answered"))
}

fn content_part(place: &str, part: &Json) -> Check {
    match part.get("type").str() {
        "input_text" | "output_text" => {
            need(part.get("text").is_text(), || format!("{place}: no text"))
        }
        "refusal" => need(part.get("refusal").is_text(), || {
            format!("{place}: no refusal")
        }),
        "input_image" => need(
            part.get("image_url").is_text() != part.has("file_id"),
            || format!("{place}: {}", part.compact()),
        ),
        _ => {
            let sources = ["file_data", "file_url", "file_id"];
            let count = sources.iter().filter(|key| part.has(key)).count();
            need(count == 1, || format!("{place}: {}", part.compact()))
        }
    }
}

fn tools(body: &Json) -> Check {
    let mut names = Vec::new();
    for tool in body.get("tools").list() {
        one_of("a tool", tool.get("type"), &["function", "custom"])?;
        name("a tool's name", tool.get("name"), 128)?;
        if tool.get("type").str() == "function" {
            need(tool.has("strict"), || "`strict` is not said".into())?;
            need(!tool.has("function"), || "a nested tool".into())?;
        }
        names.push(tool.get("name").str());
    }
    need(!body.has("tools") || !names.is_empty(), || {
        "an empty list of tools".into()
    })?;
    once("a tool", &names)?;
    match body.get("tool_choice") {
        Json::Null => Ok(()),
        choice if choice.is_text() => {
            need(choice.str() != "required" || !names.is_empty(), || {
                "a call is required, of no tool".into()
            })?;
            one_of("tool_choice", choice, &["none", "auto", "required"])
        }
        choice if choice.get("type").str() == "allowed_tools" => {
            one_of("mode", choice.get("mode"), &["auto", "required"])?;
            let tools = choice.get("tools").list();
            need(!tools.is_empty(), || "no tool is allowed".into())?;
            tools.iter().try_for_each(|tool| {
                let wanted = tool.get("name").str();
                need(names.contains(&wanted), || format!("no tool {wanted:?}"))
            })
        }
        choice => need(names.contains(&choice.get("name").str()), || {
            choice.compact()
        }),
    }
}

fn envelope(response: &Json, statuses: &[&str]) -> Check {
    let id = response.get("id").str();
    need(id.starts_with("resp_") && id.len() > 5, || {
        format!("id {id:?}")
    })?;
    one_of("object", response.get("object"), &["response"])?;
    need(response.get("created_at").number().is_some(), || {
        "created_at".into()
    })?;
    one_of("status", response.get("status"), statuses)?;
    filled("model", response.get("model"))?;
    need(response.get("output").is_list(), || "output".into())?;
    need(response.get("error").is_null(), || "error".into())?;
    let incomplete = response.get("status").str() == "incomplete";
    let details = response.get("incomplete_details");
    need(incomplete != details.is_null(), || {
        "incomplete_details".into()
    })?;
    if incomplete {
        one_of(
            "reason",
            details.get("reason"),
            &["max_output_tokens", "content_filter"],
        )?;
    }
    Ok(())
}

pub(super) fn answer(response: &Json) -> Check {
    envelope(response, &["completed", "incomplete"])?;
    let mut ids = Vec::new();
    for item in response.get("output").list() {
        whole_item(item)?;
        ids.push(item.get("id").str());
    }
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    need(ids.len() == count, || "an item's id comes twice".into())?;
    usage(response.get("usage"))
}

fn whole_item(item: &Json) -> Check {
    let id = item.get("id").str();
    let (prefix, place) = match item.get("type").str() {
        "message" => ("msg_", "a message"),
        "reasoning" => ("rs_", "a reasoning"),
        "function_call" => ("fc_", "a call"),
        "custom_tool_call" => ("ctc_", "a custom call"),
        "image_generation_call" => ("ig_", "an image"),
        other => return Err(format!("an item of type {other:?}")),
    };
    need(id.starts_with(prefix), || format!("{place} of id {id:?}"))?;
    match item.get("type").str() {
        "message" => {
            one_of("status", item.get("status"), &["completed", "incomplete"])?;
            one_of("role", item.get("role"), &["assistant"])?;
            need(item.get("content").is_list(), || "content".into())?;
            for part in item.get("content").list() {
                one_of(place, part.get("type"), &["output_text", "refusal"])?;
                content_part(place, part)?;
                if part.get("type").str() == "output_text" {
                    need(part.get("annotations").is_list(), || "annotations".into())?;
                }
            }
            Ok(())
        }
        "reasoning" => need(item.get("summary").is_list(), || "summary".into()),
        "function_call" => {
            filled("call_id", item.get("call_id"))?;
            filled("name", item.get("name"))?;
            one_of("status", item.get("status"), &["completed", "incomplete"])?;
            let read = Json::parse(item.get("arguments").str())?;
            need(read.is_object(), || format!("arguments {}", read.compact()))
        }
        "custom_tool_call" => {
            filled("call_id", item.get("call_id"))?;
            need(item.get("input").is_text(), || "input".into())
        }
        _ => Ok(()),
    }
}

fn usage(usage: &Json) -> Check {
    if usage.is_null() {
        return Ok(());
    }
    let (input, output) = (usage.get("input_tokens"), usage.get("output_tokens"));
    let details = usage.get("input_tokens_details");
    let cached = details.get("cached_tokens");
    need(cached.whole().is_some(), || {
        "input_tokens_details.cached_tokens".into()
    })?;
    need(details.get("cache_write_tokens").whole().is_some(), || {
        "cache_write_tokens".into()
    })?;
    parts_of(
        "input_tokens",
        input,
        &[cached, details.get("cache_write_tokens")],
    )?;
    let reasoning = usage.get("output_tokens_details").get("reasoning_tokens");
    need(reasoning.whole().is_some(), || "reasoning_tokens".into())?;
    parts_of("output_tokens", output, &[reasoning])?;
    let sum = input.whole().zip(output.whole()).map(|(a, b)| a + b);
    let total = usage.get("total_tokens").whole();
    need(total.is_some() && total == sum, || {
        format!("usage {}", usage.compact())
    })
}
