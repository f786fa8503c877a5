//! What the model said as the caller's next request has it, and what the upstream gets of it.

use switchboard_dialects::convert::Format;

use super::said::joined;
use crate::json::Json;

fn text(words: &str) -> Json {
    Json::of(words)
}

fn add(body: &mut Json, key: &str, items: Vec<Json>) {
    let mut all = body.get(key).list().to_vec();
    all.extend(items);
    body.set(key, Json::List(all));
}

/// The request that goes on from an answer: with its turn, a result for each of its calls, and a word of the user's.
pub(super) fn go_on(caller: Format, mut request: Json, answer: &Json) -> Json {
    match caller {
        Format::Chat => {
            let message = answer.get("choices").list()[0].get("message").clone();
            let results = message.get("tool_calls").list().iter().map(|call| {
                Json::object([
                    ("role", text("tool")),
                    ("tool_call_id", call.get("id").clone()),
                    ("content", text("done")),
                ])
            });
            let mut turns: Vec<_> = results.collect();
            turns.insert(0, message);
            turns.push(Json::object([
                ("role", text("user")),
                ("content", text("Go on")),
            ]));
            add(&mut request, "messages", turns);
        }
        Format::Responses => {
            let user =
                |words: &Json| Json::object([("role", text("user")), ("content", words.clone())]);
            let mut items = vec![user(request.get("input"))];
            items.extend_from_slice(answer.get("output").list());
            for call in answer.get("output").list() {
                let kind = call.get("type").str();
                if matches!(kind, "function_call" | "custom_tool_call") {
                    items.push(Json::object([
                        ("type", text(&format!("{kind}_output"))),
                        ("call_id", call.get("call_id").clone()),
                        ("output", text("done")),
                    ]));
                }
            }
            items.push(user(&text("Go on")));
            request.set("input", Json::List(items));
        }
        Format::Anthropic => {
            let blocks = answer.get("content");
            let calls = blocks
                .list()
                .iter()
                .filter(|block| block.get("type").str() == "tool_use");
            let results = calls.map(|call| {
                Json::object([
                    ("type", text("tool_result")),
                    ("tool_use_id", call.get("id").clone()),
                    ("content", text("done")),
                ])
            });
            let mut user: Vec<_> = results.collect();
            user.push(Json::object([
                ("type", text("text")),
                ("text", text("Go on")),
            ]));
            let turn = |role: &str, content: Json| {
                Json::object([("role", text(role)), ("content", content)])
            };
            let mut turns = vec![
                turn("assistant", blocks.clone()),
                turn("user", Json::List(user)),
            ];
            if blocks.list().is_empty() {
                turns.remove(0);
            }
            add(&mut request, "messages", turns);
        }
        Format::Gemini => {
            let content = answer.get("candidates").list()[0].get("content").clone();
            let calls = content
                .get("parts")
                .list()
                .iter()
                .map(|part| part.get("functionCall"));
            let results = calls.filter(|call| call.is_object()).map(|call| {
                let response = Json::object([
                    ("id", call.get("id").clone()),
                    ("name", call.get("name").clone()),
                    ("response", Json::object([("result", text("done"))])),
                ]);
                Json::object([("functionResponse", response)])
            });
            let mut user: Vec<_> = results.collect();
            user.push(Json::object([("text", text("Go on"))]));
            let turn = Json::object([("role", text("user")), ("parts", Json::List(user))]);
            add(&mut request, "contents", vec![content, turn]);
        }
    }
    request
}

/// What the model said, of an answer in its dialect.
pub(super) fn answered(upstream: Format, answer: &Json) -> Json {
    match upstream {
        Format::Chat => answer.get("choices").list()[0].get("message").clone(),
        Format::Responses => answer.get("output").clone(),
        Format::Anthropic => Json::List(joined(answer.get("content").list().to_vec())),
        Format::Gemini => {
            let content = answer.get("candidates").list().first();
            let parts = content.map(|one| one.get("content").get("parts").list().to_vec());
            let mut parts = parts.unwrap_or_default();
            // A thought that nobody sealed is not taken back.
            parts.retain(|part| !part.has("thought") || part.has("thoughtSignature"));
            Json::List(joined(parts))
        }
    }
}

/// What the model said, of a request in its dialect.
pub(super) fn sent(upstream: Format, request: &Json) -> Json {
    let (turns, role) = match upstream {
        Format::Chat | Format::Anthropic => ("messages", "assistant"),
        Format::Responses => ("input", "assistant"),
        Format::Gemini => ("contents", "model"),
    };
    let spoken = request.get(turns).list().iter().filter(|turn| {
        turn.get("role").str() == role
            || matches!(
                turn.get("type").str(),
                "reasoning" | "function_call" | "custom_tool_call"
            )
    });
    let spoken: Vec<Json> = spoken.cloned().collect();
    match upstream {
        Format::Chat => spoken.first().cloned().unwrap_or(Json::Null),
        Format::Responses => Json::List(spoken),
        Format::Anthropic | Format::Gemini => {
            let key = if upstream == Format::Gemini {
                "parts"
            } else {
                "content"
            };
            let parts = spoken.iter().flat_map(|turn| match turn.get(key) {
                Json::Text(words) => vec![Json::object([
                    ("type", text("text")),
                    ("text", text(words)),
                ])],
                parts => parts.list().to_vec(),
            });
            Json::List(joined(parts.collect()))
        }
    }
}
