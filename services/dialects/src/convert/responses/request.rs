//! A request for a response, typed (PROTOCOLS §5.1).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::input::{Item, read_items};
use super::tools::{Choice, Names, Tool};
use crate::convert::calls::Calls;
use crate::convert::chat::EFFORTS;
use crate::convert::fields::{Drops, Fields, Raw, Refusal};

/// Members that a response repeats from its request; given out again as they came.
pub(crate) const ECHOED: [&str; 17] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// What `include` may name of answers that hosted tools gave, or of images in the input: none of it is in an answer without them,
/// so nothing is missing.
const OF_HOSTED_TOOLS: [&str; 6] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// A request for a response that needs no state. Names of tools are those under which an upstream knows them
/// ([`Named`](super::Named)).
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// What precedes the input, as from a developer. Not empty.
    pub(crate) instructions: Option<Cow<'a, str>>,
    /// The conversation.
    pub(crate) input: Vec<Item<'a>>,
    /// Tools that the caller runs; those of namespaces and those that were added within the input are among them.
    pub(crate) tools: Vec<Tool<'a>>,
    /// Paths of tools that the provider would run; they have no counterpart.
    pub(crate) hosted: Vec<String>,
    /// Which tools may or must be called; `None`: as `auto`.
    pub(crate) choice: Option<Choice<'a>>,
    /// Whether several calls may come at once, where it says.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// The most tokens of output.
    pub(crate) max_output_tokens: Option<u64>,
    /// The form of the text.
    pub(crate) format: TextFormat<'a>,
    /// `text.verbosity`: `low`, `medium`, `high`.
    pub(crate) verbosity: Option<Raw<'a>>,
    /// How to think.
    pub(crate) reasoning: Option<Reasoning<'a>>,
    /// 0..2, a number.
    pub(crate) temperature: Option<Raw<'a>>,
    /// 0..1, a number.
    pub(crate) top_p: Option<Raw<'a>>,
    /// Whether log probabilities of the text are asked for.
    pub(crate) logprobs: bool,
    /// How many alternatives of each token, 0..20.
    pub(crate) top_logprobs: Option<u64>,
    /// Pairs of strings.
    pub(crate) metadata: Option<Raw<'a>>,
    /// Who uses it, hashed by the caller.
    pub(crate) safety_identifier: Option<Raw<'a>>,
    /// The older name of the same.
    pub(crate) user: Option<Raw<'a>>,
    /// What requests with a common beginning share.
    pub(crate) prompt_cache_key: Option<Raw<'a>>,
    /// The tier of service.
    pub(crate) service_tier: Option<Raw<'a>>,
    /// What a response repeats of its request: member and JSON.
    pub(crate) echo: Vec<(&'static str, &'a str)>,
    /// The names of tools.
    pub(crate) names: Names,
    /// All else.
    pub(crate) rest: Fields<'a>,
    /// What was found to have no counterpart anywhere.
    dropped: Drops,
}

/// `text.format`.
#[derive(Debug)]
pub(crate) enum TextFormat<'a> {
    /// Text.
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// Its name.
        name: Cow<'a, str>,
        /// What it is for.
        description: Option<Raw<'a>>,
        /// The schema.
        schema: Raw<'a>,
        /// Whether it is kept to exactly, where it says.
        strict: Option<bool>,
    },
}

/// `reasoning`.
#[derive(Debug)]
pub(crate) struct Reasoning<'a> {
    /// none, minimal, low, medium, high, xhigh, max.
    pub(crate) effort: Option<Cow<'a, str>>,
    /// Whether the reasoning is to be shown: auto, concise, detailed.
    pub(crate) summary: Option<Cow<'a, str>>,
    /// All else.
    pub(crate) rest: Fields<'a>,
}

impl<'a> Request<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// It continues or uses what is kept at a provider, is to be made in the background, forces a tool that the provider would
    /// run, or a field makes no sense.
    pub(crate) fn read(body: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = body.fields()?;
        refuse_state(&mut fields)?;
        for (name, low, high) in [
            ("temperature", 0.0, 2.0),
            ("top_p", 0.0, 1.0),
            ("top_logprobs", 0.0, 20.0),
        ] {
            fields.within(name, low, high)?;
        }
        let echo = ECHOED
            .iter()
            .filter_map(|name| Some((*name, fields.peek(name)?)))
            .collect();
        for ours in ["model", "stream", "stream_options", "store"] {
            fields.take(ours);
        }
        let mut tools = fields.items("tools")?;
        let input = fields.need("input", "a string, or a list of items")?;
        let input = read_items(&input, &mut tools, &mut fields)?;
        answered(&input)?;
        let mut names = Names::default();
        let (tools, hosted) = Tool::read_all(tools, &mut names, &mut fields)?;
        let choice = fields.take("tool_choice");
        let choice = choice
            .map(|raw| Choice::read(&raw, &names, &mut fields))
            .transpose()?;
        if let (Some(Choice::Required), [], [first, ..]) = (&choice, &*tools, &*hosted) {
            return Err(Refusal::unsupported(
                first,
                "it must be called, and only OpenAI runs it",
            ));
        }
        if choice == Some(Choice::Required) && tools.is_empty() {
            let expected = "tools beside it, of which one is to be called";
            return Err(Refusal::invalid("tool_choice", expected));
        }
        let (format, verbosity, mut dropped) = read_text(&mut fields)?;
        let input = input
            .into_iter()
            .map(|item| item.named(&mut names))
            .collect();
        let top_logprobs = fields.number("top_logprobs")?;
        let logprobs = read_include(&mut fields, &mut dropped)? || top_logprobs.unwrap_or(0) > 0;
        Ok(Self {
            instructions: fields.text("instructions")?.filter(|text| !text.is_empty()),
            input,
            tools,
            hosted,
            choice,
            parallel_tool_calls: fields.boolean("parallel_tool_calls")?,
            max_output_tokens: fields.number("max_output_tokens")?,
            format,
            verbosity,
            reasoning: read_reasoning(&mut fields)?,
            temperature: fields.take("temperature"),
            top_p: fields.take("top_p"),
            logprobs,
            top_logprobs,
            metadata: fields.take("metadata"),
            safety_identifier: fields.take("safety_identifier"),
            user: fields.take("user"),
            prompt_cache_key: fields.take("prompt_cache_key"),
            service_tier: fields.take("service_tier"),
            echo,
            names,
            rest: fields,
            dropped,
        })
    }

    /// What its answer takes over from it.
    pub(crate) fn saying(&self) -> super::Saying {
        super::Saying::new(&self.echo, self.names.clone())
    }

    /// Notes what has no counterpart in any other dialect: tools that the provider would run, and all that is not known.
    /// The members that a direction has nothing for are its own to note.
    pub(crate) fn drop_rest(self, drops: &mut Drops) {
        for path in &self.hosted {
            drops.note(path);
        }
        for name in self.dropped.names() {
            drops.note(name);
        }
        if let Some(reasoning) = self.reasoning {
            reasoning.rest.drop_rest(drops);
        }
        for (name, raw) in self.rest.rest() {
            // What they say by default is no wish.
            let default = match &*name {
                "background" => raw.text == "false",
                "truncation" => raw.text == "\"disabled\"",
                _ => false,
            };
            if !default {
                drops.note(&raw.path);
            }
        }
    }
}

/// Every call has its output.
fn answered(items: &[Item<'_>]) -> Result<(), Box<Refusal>> {
    let mut waiting = Calls::default();
    for item in items {
        match item {
            Item::Call { id, path, .. } => waiting.called(id, &**path),
            Item::Output { id, path, .. } => waiting.answered(id, format!("{path}.call_id"))?,
            Item::Message { .. } | Item::Reasoning { .. } | Item::Other { .. } => {}
        }
    }
    waiting.ended()
}

/// Refuses what only who keeps the state can serve.
fn refuse_state(fields: &mut Fields<'_>) -> Result<(), Box<Refusal>> {
    let kept = "what it names is kept by the account that made it, and this upstream keeps none: send the conversation itself as `input`";
    for name in ["previous_response_id", "conversation"] {
        if fields.take(name).is_some() {
            return Err(Refusal::unsupported(name, kept));
        }
    }
    if fields.take("prompt").is_some() {
        let why = "prompts are kept at OpenAI: send `instructions` and `input`";
        return Err(Refusal::unsupported("prompt", why));
    }
    if fields.boolean("background")? == Some(true) {
        let why = "this upstream makes no answers in the background";
        return Err(Refusal::unsupported("background", why));
    }
    Ok(())
}

type Text<'a> = (TextFormat<'a>, Option<Raw<'a>>, Drops);

fn read_text<'a>(fields: &mut Fields<'a>) -> Result<Text<'a>, Box<Refusal>> {
    let mut drops = Drops::default();
    let Some(mut text) = fields.fields("text")? else {
        return Ok((TextFormat::Text, None, drops));
    };
    let verbosity = text.take("verbosity");
    let format = text.fields("format")?;
    text.drop_rest(&mut drops);
    let Some(mut format) = format else {
        return Ok((TextFormat::Text, verbosity, drops));
    };
    let expected = "`text`, `json_object` or `json_schema`";
    let kind = format.need("type", expected)?;
    let read = match &*kind.text()? {
        "text" => TextFormat::Text,
        "json_object" => TextFormat::JsonObject,
        "json_schema" => TextFormat::JsonSchema {
            name: format.filled("name", "the schema's name")?,
            description: format.take("description"),
            schema: format.need("schema", "a JSON schema")?.object()?,
            strict: format.boolean("strict")?,
        },
        _ => return Err(Refusal::invalid(kind.path, expected)),
    };
    format.drop_rest(&mut drops);
    Ok((read, verbosity, drops))
}

fn read_reasoning<'a>(fields: &mut Fields<'a>) -> Result<Option<Reasoning<'a>>, Box<Refusal>> {
    let Some(mut reasoning) = fields.fields("reasoning")? else {
        return Ok(None);
    };
    let older = reasoning.text("generate_summary")?;
    Ok(Some(Reasoning {
        effort: reasoning.word("effort", &EFFORTS)?,
        summary: reasoning.text("summary")?.or(older),
        rest: reasoning,
    }))
}

/// Whether `include` asks for log probabilities. Sealed reasoning is always given.
fn read_include(fields: &mut Fields<'_>, drops: &mut Drops) -> Result<bool, Box<Refusal>> {
    let mut logprobs = false;
    for item in fields.items("include")? {
        match &*item.text()? {
            "message.output_text.logprobs" => logprobs = true,
            "reasoning.encrypted_content" => {}
            other if OF_HOSTED_TOOLS.contains(&other) => {}
            _ => drops.note("include"),
        }
    }
    Ok(logprobs)
}
