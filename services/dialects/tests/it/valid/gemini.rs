//! Gemini's generateContent.

use super::sse::Event;
use super::{Check, filled, need, once, one_of, only, parts_of};
use crate::json::Json;

const REQUEST: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "model",
];
const CONFIG: &[&str] = &[
    "temperature",
    "topP",
    "topK",
    "candidateCount",
    "maxOutputTokens",
    "stopSequences",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseLogprobs",
    "logprobs",
    "thinkingConfig",
    "responseModalities",
    "speechConfig",
    "mediaResolution",
];
const LEVELS: &[&str] = &["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"];
const DATA: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
];
const REASONS: &[&str] = &[
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "OTHER",
];

/// `model`: Google's third generation wants the signatures of its calls back.
pub(super) fn request(model: &str, body: &Json) -> Check {
    let signed = model.starts_with("gemini-3");
    only("the body", body, REQUEST)?;
    contents(body.get("contents").list(), signed)?;
    let system = body.get("systemInstruction");
    need(
        system.is_null() || !system.get("parts").list().is_empty(),
        || "systemInstruction".into(),
    )?;
    for part in system.get("parts").list() {
        filled("systemInstruction", part.get("text"))?;
    }
    let config = body.get("generationConfig");
    only("generationConfig", config, CONFIG)?;
    need(config.get("stopSequences").list().len() <= 5, || {
        "more than 5 stops".into()
    })?;
    let (schema, json) = (
        config.get("responseSchema"),
        config.get("responseJsonSchema"),
    );
    need(schema.is_null() || json.is_null(), || "two schemas".into())?;
    let wants_json = config.get("responseMimeType").str() == "application/json";
    need((schema.is_null() && json.is_null()) || wants_json, || {
        "responseMimeType".into()
    })?;
    let thinking = config.get("thinkingConfig");
    only(
        "thinkingConfig",
        thinking,
        &["includeThoughts", "thinkingBudget", "thinkingLevel"],
    )?;
    need(
        !(thinking.has("thinkingBudget") && thinking.has("thinkingLevel")),
        || "two levels".into(),
    )?;
    if thinking.has("thinkingLevel") {
        one_of("thinkingLevel", thinking.get("thinkingLevel"), LEVELS)?;
    }
    tools(body)
}

/// `signed`: calls come back with their signatures.
fn contents(contents: &[Json], signed: bool) -> Check {
    need(!contents.is_empty(), || "no contents".into())?;
    let mut open: Vec<(Option<&str>, &str)> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = content.get("role").str();
        let place = format!("contents[{at}] ({role})");
        let expected = if at % 2 == 0 { "user" } else { "model" };
        need(role == expected, || {
            format!("{place}: the turns do not alternate")
        })?;
        let parts = content.get("parts").list();
        need(!parts.is_empty(), || format!("{place} is empty"))?;
        for piece in parts {
            part(&place, role, piece)?;
        }
        let of = |key: &'static str| {
            let parts = parts.iter().map(move |part| part.get(key));
            let found = parts.filter(|value| !value.is_null());
            found
                .map(|value| (value.get("id").text(), value.get("name").str()))
                .collect::<Vec<_>>()
        };
        let answers = of("functionResponse");
        need(
            answers.len() == open.len() && answers.iter().all(|answer| open.contains(answer)),
            || format!("{place}: answers {answers:?} of {open:?}"),
        )?;
        let first = parts.iter().find(|part| part.has("functionCall"));
        need(
            !signed || first.is_none_or(|first| first.has("thoughtSignature")),
            || format!("{place}: a call without its signature"),
        )?;
        open = of("functionCall");
    }
    need(open.is_empty(), || format!("{open:?} are not answered"))
}

fn part(place: &str, role: &str, part: &Json) -> Check {
    only(
        place,
        part,
        &[DATA, &["thought", "thoughtSignature"]].concat(),
    )?;
    let kinds: Vec<_> = DATA.iter().filter(|key| part.has(key)).collect();
    need(kinds.len() == 1, || {
        format!("{place}: one of {DATA:?}: {}", part.compact())
    })?;
    match *kinds[0] {
        "text" => {
            let sealed = part.has("thoughtSignature");
            let said = role == "answer" || sealed || !part.get("text").str().is_empty();
            need(part.get("text").is_text() && said, || {
                format!("{place}: text")
            })
        }
        "functionCall" => {
            let call = part.get("functionCall");
            only(place, call, &["id", "name", "args"])?;
            need(role != "user", || format!("{place} calls"))?;
            function_name(call.get("name"))?;
            need(
                call.get("args").is_null() || call.get("args").is_object(),
                || format!("{place}: args"),
            )
        }
        "functionResponse" => {
            let response = part.get("functionResponse");
            need(role == "user", || format!("{place} answers"))?;
            function_name(response.get("name"))?;
            need(response.get("response").is_object(), || {
                format!("{place}: response")
            })
        }
        "inlineData" => {
            let mime = part.get("inlineData").get("mimeType").str();
            need(mime.contains('/'), || format!("{place}: a type {mime:?}"))?;
            filled(place, part.get("inlineData").get("data"))
        }
        _ => filled(place, part.get("fileData").get("fileUri")),
    }
}

fn function_name(value: &Json) -> Check {
    let text = value.str();
    let first = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    need(first && text.len() <= 128 && text.bytes().all(rest), || {
        format!("a function called {text:?}")
    })
}

fn tools(body: &Json) -> Check {
    let mut names = Vec::new();
    for tool in body.get("tools").list() {
        for declared in tool.get("functionDeclarations").list() {
            function_name(declared.get("name"))?;
            let two = declared.has("parameters") && declared.has("parametersJsonSchema");
            need(!two, || "two schemas of parameters".into())?;
            only(
                "a function",
                declared,
                &["name", "description", "parameters", "parametersJsonSchema"],
            )?;
            names.push(declared.get("name").str());
        }
    }
    need(
        !body.has("tools") || !body.get("tools").list().is_empty(),
        || "an empty list of tools".into(),
    )?;
    once("a function", &names)?;
    let choice = body.get("toolConfig").get("functionCallingConfig");
    if choice.is_null() {
        return Ok(());
    }
    one_of(
        "mode",
        choice.get("mode"),
        &["AUTO", "ANY", "NONE", "VALIDATED"],
    )?;
    let allowed = choice.get("allowedFunctionNames");
    let forced = matches!(choice.get("mode").str(), "ANY" | "VALIDATED");
    need(allowed.is_null() || forced, || {
        "allowed names without ANY".into()
    })?;
    for name in allowed.list() {
        need(names.contains(&name.str()), || {
            format!("no function {}", name.compact())
        })?;
    }
    Ok(())
}

/// A whole answer, or a chunk of one.
fn answered(body: &Json) -> Check {
    need(!body.has("error"), || "an error".into())?;
    filled("modelVersion", body.get("modelVersion"))?;
    filled("responseId", body.get("responseId"))?;
    let candidates = body.get("candidates");
    let blocked = body.get("promptFeedback").has("blockReason");
    need(
        candidates.is_list() || blocked || body.has("usageMetadata"),
        || "nothing".into(),
    )?;
    need(
        !candidates.is_list() || !candidates.list().is_empty(),
        || "no candidates".into(),
    )?;
    for candidate in candidates.list() {
        need(candidate.get("index").whole().is_some(), || "index".into())?;
        let content = candidate.get("content");
        if !content.is_null() {
            one_of("role", content.get("role"), &["model"])?;
            for piece in content.get("parts").list() {
                part("the answer", "answer", piece)?;
            }
        }
        if !candidate.get("finishReason").is_null() {
            let reason = candidate.get("finishReason");
            one_of("finishReason", reason, REASONS)?;
        }
    }
    usage(body.get("usageMetadata"))
}

fn usage(usage: &Json) -> Check {
    if usage.is_null() {
        return Ok(());
    }
    let count = |key: &str| usage.get(key).whole().unwrap_or(0);
    parts_of(
        "promptTokenCount",
        usage.get("promptTokenCount"),
        &[usage.get("cachedContentTokenCount")],
    )?;
    let keys = [
        "promptTokenCount",
        "toolUsePromptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
    ];
    let sum: u64 = keys.into_iter().map(count).sum();
    let told = usage.has("totalTokenCount");
    need(!told || count("totalTokenCount") == sum, || {
        format!("usage {}", usage.compact())
    })
}

pub(super) fn answer(body: &Json) -> Check {
    answered(body)?;
    for candidate in body.get("candidates").list() {
        filled("finishReason", candidate.get("finishReason"))?;
    }
    Ok(())
}

pub(super) fn stream(events: &[Event<'_>]) -> Check {
    let mut ended: Vec<u64> = Vec::new();
    let mut begun: Vec<u64> = Vec::new();
    let mut blocked = false;
    let mut id = None;
    for (at, (named, data)) in events.iter().enumerate() {
        need(named.is_none(), || "an event with a name".into())?;
        let chunk = Json::parse(data)?;
        answered(&chunk).map_err(|error| format!("chunk {at}: {error}"))?;
        let first = id.get_or_insert_with(|| chunk.get("responseId").clone());
        need(first == chunk.get("responseId"), || {
            "responseId changes".into()
        })?;
        blocked |= chunk.get("promptFeedback").has("blockReason");
        for candidate in chunk.get("candidates").list() {
            let index = candidate.get("index").whole().unwrap_or(0);
            need(!ended.contains(&index), || {
                format!("chunk {at} after the end")
            })?;
            begun.push(index);
            if !candidate.get("finishReason").is_null() {
                ended.push(index);
            }
        }
    }
    need(!ended.is_empty() || blocked, || "no end".into())?;
    need(begun.iter().all(|index| ended.contains(index)), || {
        "a candidate does not end".into()
    })
}
