//! A chat request, typed (PROTOCOLS §3.1).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::message::{Message, read_messages};
use super::tools::{Choice, Tool, declared, read_choice, read_tools};
use crate::convert::calls::Calls;
use crate::convert::fields::{Drops, Fields, Raw, Refusal};

/// How much a model may be asked to think; Responses has the same words.
pub(crate) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request for a chat completion.
///
/// What a direction may carry over without looking into it stays in [`rest`](Self::rest), to be taken from there:
/// `temperature`, `top_p`, `frequency_penalty`, `presence_penalty`, `seed`, `logit_bias`, `verbosity`, `metadata`, `user`,
/// `safety_identifier`, `prompt_cache_key`, `prompt_cache_options`, `prompt_cache_retention`, `service_tier`, `prediction`,
/// `web_search_options`, `moderation`, and what is not known here.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The conversation.
    pub(crate) messages: Vec<Message<'a>>,
    /// The tools. The older `functions` are among them.
    pub(crate) tools: Vec<Tool<'a>>,
    /// Which tools may or must be called; `None`: as `auto`.
    pub(crate) choice: Option<Choice<'a>>,
    /// Whether several calls may come at once, where it says. With `functions` they may not: `function_call` is one.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// The most tokens of output: the smaller one of `max_completion_tokens` and `max_tokens`.
    pub(crate) max_output: Option<u64>,
    /// Stop sequences; none is empty.
    pub(crate) stop: Vec<Cow<'a, str>>,
    /// How many answers, 1 at least.
    pub(crate) n: u64,
    /// Whether log probabilities of the text are asked for.
    pub(crate) logprobs: bool,
    /// How many alternatives of each token, 0..20.
    pub(crate) top_logprobs: Option<u64>,
    /// The form of the text.
    pub(crate) format: OutputFormat<'a>,
    /// none, minimal, low, medium, high, xhigh, max.
    pub(crate) reasoning_effort: Option<Cow<'a, str>>,
    /// What shapes the answer.
    pub(crate) asked: AnswerShape,
    /// All else.
    pub(crate) rest: Fields<'a>,
    /// What was found to have no counterpart anywhere.
    dropped: Drops,
}

/// What a request says of the shape of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AnswerShape {
    /// `stream_options.include_usage`: a stream ends with a chunk of usage.
    pub(crate) include_usage: bool,
    /// The older `functions` are used: a call is said as `function_call`.
    pub(crate) functions: bool,
}

/// `response_format`.
#[derive(Debug)]
pub(crate) enum OutputFormat<'a> {
    /// Text.
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// Its name.
        name: Cow<'a, str>,
        /// What it is for, a string.
        description: Option<Raw<'a>>,
        /// The schema; any object will do where there is none.
        schema: Option<Raw<'a>>,
        /// Whether it is kept to exactly, where it says.
        strict: Option<bool>,
    },
}

impl<'a> Request<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// It asks for sound, refers to what a provider keeps, or a field makes no sense.
    pub(crate) fn read(body: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = body.fields()?;
        for ours in ["model", "stream"] {
            fields.take(ours);
        }
        refuse_sound(&mut fields)?;
        for (name, low, high) in [
            ("temperature", 0.0, 2.0),
            ("top_p", 0.0, 1.0),
            ("frequency_penalty", -2.0, 2.0),
            ("presence_penalty", -2.0, 2.0),
            ("top_logprobs", 0.0, 20.0),
            ("seed", f64::MIN, f64::MAX),
        ] {
            fields.within(name, low, high)?;
        }
        let mut dropped = Drops::default();
        let messages = fields.need("messages", "an array of messages")?;
        let messages = read_messages(&messages)?;
        answered(&messages)?;
        let tools = read_tools(&mut fields)?;
        let choice = read_choice(&mut fields)?;
        declared(choice.as_ref(), &tools)?;
        let functions = tools.iter().any(Tool::is_older);
        let parallel = fields.boolean("parallel_tool_calls")?;
        let limits = [
            fields.number("max_completion_tokens")?,
            fields.number("max_tokens")?,
        ];
        let logprobs = fields.boolean("logprobs")?.unwrap_or(false);
        let top_logprobs = fields.number("top_logprobs")?;
        if !logprobs && top_logprobs.is_some_and(|top| top > 0) {
            dropped.note("top_logprobs");
        }
        let asked = AnswerShape {
            include_usage: read_stream_options(&mut fields, &mut dropped)?,
            functions,
        };
        Ok(Self {
            messages,
            tools,
            choice,
            parallel_tool_calls: if functions { Some(false) } else { parallel },
            max_output: limits.into_iter().flatten().min(),
            stop: read_stop(&mut fields)?,
            n: fields.number("n")?.unwrap_or(1).max(1),
            logprobs,
            top_logprobs,
            format: read_format(&mut fields, &mut dropped)?,
            reasoning_effort: fields.word("reasoning_effort", &EFFORTS)?,
            asked,
            rest: fields,
            dropped,
        })
    }

    /// Refuses what a direction has nothing for and without which the answer would be another one: several answers,
    /// log probabilities.
    ///
    /// # Errors
    /// They are asked for.
    pub(crate) fn one_plain_answer(&self) -> Result<(), Box<Refusal>> {
        if self.n > 1 {
            return Err(Refusal::unsupported("n", "it gives one answer at a time"));
        }
        if self.logprobs {
            return Err(Refusal::unsupported(
                "logprobs",
                "it tells no log probabilities",
            ));
        }
        Ok(())
    }

    /// Notes what a direction did not take as left out, but for what is wanted anyway.
    pub(crate) fn drop_rest(self, drops: &mut Drops) {
        for name in self.dropped.names() {
            drops.note(name);
        }
        for (name, raw) in self.rest.rest() {
            let default = match &*name {
                "frequency_penalty" | "presence_penalty" => is_zero(raw.text),
                "logit_bias" => raw.text.bytes().all(|b| b"{} \t\r\n".contains(&b)),
                "service_tier" => matches!(raw.text, r#""auto""# | r#""default""#),
                "verbosity" => raw.text == r#""medium""#,
                // Nothing is kept anyway.
                "store" => raw.text == "false",
                _ => false,
            };
            if !default {
                drops.note(&raw.path);
            }
        }
    }
}

fn is_zero(number: &str) -> bool {
    number
        .bytes()
        .all(|byte| matches!(byte, b'0' | b'.' | b'-'))
}

/// Every call has its result.
fn answered(messages: &[Message<'_>]) -> Result<(), Box<Refusal>> {
    let mut waiting = Calls::default();
    for message in messages {
        match message {
            Message::Assistant { calls, .. } => {
                for call in calls {
                    waiting.called(&call.id, &*call.path);
                }
            }
            Message::Tool { id, path, .. } => {
                waiting.answered(id, format!("{path}.tool_call_id"))?;
            }
            Message::Instructions { .. } | Message::User { .. } => {}
        }
    }
    waiting.ended()
}

/// Sound as output is spoken by chat alone.
fn refuse_sound(fields: &mut Fields<'_>) -> Result<(), Box<Refusal>> {
    for modality in fields.items("modalities")? {
        if modality.text()? != "text" {
            let why = "it answers in text; leave `modalities` out";
            return Err(Refusal::unsupported("modalities", why));
        }
    }
    Ok(())
}

fn read_stream_options(fields: &mut Fields<'_>, drops: &mut Drops) -> Result<bool, Box<Refusal>> {
    let Some(mut options) = fields.fields("stream_options")? else {
        return Ok(false);
    };
    let include_usage = options.boolean("include_usage")?.unwrap_or(false);
    // It hides the sizes of pieces from who reads the wire; ours are not those of the model.
    options.take("include_obfuscation");
    options.drop_rest(drops);
    Ok(include_usage)
}

fn read_stop<'a>(fields: &mut Fields<'a>) -> Result<Vec<Cow<'a, str>>, Box<Refusal>> {
    let Some(raw) = fields.take("stop") else {
        return Ok(Vec::new());
    };
    let mut all = match raw.as_text() {
        Some(one) => vec![one],
        None => {
            let items = raw
                .items()
                .map_err(|_| raw.wrong("a string, or an array of strings"))?;
            let texts = items.iter().map(Raw::text);
            texts.collect::<Result<Vec<_>, _>>()?
        }
    };
    all.retain(|text| !text.is_empty());
    Ok(all)
}

fn read_format<'a>(
    fields: &mut Fields<'a>,
    drops: &mut Drops,
) -> Result<OutputFormat<'a>, Box<Refusal>> {
    let Some(mut format) = fields.fields("response_format")? else {
        return Ok(OutputFormat::Text);
    };
    let expected = "`text`, `json_object` or `json_schema`";
    let kind = format.need("type", expected)?;
    let read = match &*kind.text()? {
        "text" => OutputFormat::Text,
        "json_object" => OutputFormat::JsonObject,
        "json_schema" => {
            let named = "an object with `name` and `schema`";
            let mut schema = format.need("json_schema", named)?.fields()?;
            let read = OutputFormat::JsonSchema {
                name: schema.filled("name", "the schema's name")?,
                description: schema.take("description"),
                schema: schema.object("schema")?,
                strict: schema.boolean("strict")?,
            };
            schema.drop_rest(drops);
            read
        }
        _ => return Err(Refusal::invalid(kind.path, expected)),
    };
    format.drop_rest(drops);
    Ok(read)
}
