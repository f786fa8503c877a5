//! OpenAI's chat answers, whole and in chunks, as typed messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_dialects::{UsageReport as Reported, json::Cursor};
use switchboard_proto::{
    common::v1::UsageSource,
    inference::v1::{Choice, GenerateResponse, ToolCall, UsageReport},
};

use crate::usage::to_wire;

/// A chunk or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chat<'a> {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    created: i64,
    #[serde(default)]
    choices: Vec<OneChoice>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OneChoice {
    #[serde(default)]
    index: u32,
    #[serde(default, alias = "message")]
    delta: Option<Message>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Message {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    index: Option<u32>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

impl Chat<'_> {
    pub(super) fn into_response(self) -> GenerateResponse {
        GenerateResponse {
            id: self.id,
            model: self.model,
            created: self.created,
            choices: self.choices.into_iter().map(choice).collect(),
            usage: self.usage.and_then(|usage| report(usage.get())),
        }
    }
}

fn choice(choice: OneChoice) -> Choice {
    let message = choice.delta.unwrap_or_default();
    let calls = message.tool_calls.unwrap_or_default().into_iter().zip(0..);
    Choice {
        index: choice.index,
        role: message.role.unwrap_or_default(),
        content: message.content.unwrap_or_default(),
        reasoning_content: message.reasoning_content.unwrap_or_default(),
        refusal: message.refusal.unwrap_or_default(),
        tool_calls: calls.map(tool_call).collect(),
        finish_reason: choice.finish_reason.unwrap_or_default(),
    }
}

fn tool_call((call, place): (Call, u32)) -> ToolCall {
    let function = call.function.unwrap_or_default();
    ToolCall {
        id: call.id.unwrap_or_default(),
        name: function.name.unwrap_or_default(),
        arguments: function.arguments.unwrap_or_default(),
        index: call.index.unwrap_or(place),
    }
}

/// A usage object in canonical form.
pub(super) fn report(text: &str) -> Option<UsageReport> {
    let value = Cursor::new(text).skip().ok()?;
    let reported = Reported::from_openai(text, value)?.usage;
    Some(UsageReport {
        usage: Some(to_wire(&reported)),
        source: UsageSource::Provider as i32,
    })
}
