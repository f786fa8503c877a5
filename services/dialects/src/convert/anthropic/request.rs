//! A Messages request as its caller sent it, in borrowed values (PROTOCOLS §7.1).
//!
//! What is opaque stays the JSON text that it was: schemas, inputs, sampling numbers. What was not taken of an object is kept
//! in its `rest`, so that a direction can name what it leaves out.

use std::borrow::Cow;

use super::block::{Block, CacheMark, Content};
use crate::convert::calls::Calls;
use crate::convert::fields::{Drops, Fields, Raw, Refusal};

/// The request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The most tokens of the answer, thinking included. Required in this dialect.
    pub(crate) max_tokens: Option<u64>,
    /// The system prompt, text blocks.
    pub(crate) system: Vec<Block<'a>>,
    /// The turns as they were sent: not merged.
    pub(crate) turns: Vec<Turn<'a>>,
    /// The tools.
    pub(crate) tools: Vec<Tool<'a>>,
    /// Which tool is to be called.
    pub(crate) tool_choice: Option<ToolChoice<'a>>,
    /// At most one call at a time.
    pub(crate) one_call: bool,
    /// Whether the model thinks.
    pub(crate) thinking: Option<Thinking<'a>>,
    /// `output_config.effort`: low, medium, high, xhigh or max.
    pub(crate) effort: Option<Cow<'a, str>>,
    /// The JSON schema of the answer (`output_config.format`, once `output_format`).
    pub(crate) schema: Option<Raw<'a>>,
    /// Texts that end the answer.
    pub(crate) stop: Vec<Cow<'a, str>>,
    /// A number from 0 to 1.
    pub(crate) temperature: Option<Raw<'a>>,
    /// A number from 0 to 1.
    pub(crate) top_p: Option<Raw<'a>>,
    /// A whole number.
    pub(crate) top_k: Option<Raw<'a>>,
    /// `metadata.user_id`.
    pub(crate) user: Option<Cow<'a, str>>,
    /// Where it is another than `auto`, which is what everyone gets: `standard_only`.
    pub(crate) service_tier: Option<Raw<'a>>,
    /// The mark at the top: on the last block that can be cached.
    pub(crate) cache: Option<CacheMark<'a>>,
    /// What is left of the request and of its `metadata`, `output_config`, `thinking` and `tool_choice`.
    pub(crate) rest: Vec<Fields<'a>>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The user, and the results of tools.
    User,
    /// The model.
    Assistant,
    /// Instructions amid the turns.
    System,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// Who speaks.
    pub(crate) role: Role,
    /// What is said; a plain string is one text block.
    pub(crate) blocks: Vec<Block<'a>>,
    /// What is left of it.
    pub(crate) rest: Fields<'a>,
}

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool<'a> {
    /// Its name.
    pub(crate) name: Cow<'a, str>,
    /// Who runs it.
    pub(crate) kind: ToolKind<'a>,
    /// A cache mark on it.
    pub(crate) cache: Option<CacheMark<'a>>,
    /// Where it stands.
    pub(crate) path: String,
    /// What is left of it; of a tool with a versioned type all but type and name.
    pub(crate) rest: Fields<'a>,
}

/// Who runs a tool.
#[derive(Debug)]
pub(crate) enum ToolKind<'a> {
    /// The caller.
    Custom {
        /// What it does.
        description: Option<Cow<'a, str>>,
        /// The schema of its input, an object.
        schema: Raw<'a>,
        /// The input is held to the schema.
        strict: Option<bool>,
    },
    /// A tool that the provider knows by this versioned type (`web_search_20250305`, `bash_20250124`).
    Versioned(Cow<'a, str>),
}

/// Which tool is to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolChoice<'a> {
    /// As the model likes.
    Auto,
    /// Some tool.
    Any,
    /// This one.
    Tool(Cow<'a, str>),
    /// None.
    None,
}

/// Whether the model thinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thinking<'a> {
    /// How much.
    pub(crate) mode: ThinkingMode,
    /// `summarized` or `omitted`: whether its text is shown.
    pub(crate) display: Option<Cow<'a, str>>,
}

/// How much it thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingMode {
    /// Not at all.
    Disabled,
    /// As it sees fit.
    Adaptive,
    /// As it sees fit, between calls of tools alone.
    BetweenTools,
    /// At most so many tokens, a part of `max_tokens`.
    Budget(u64),
}

impl Thinking<'_> {
    /// It is not to think.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == ThinkingMode::Disabled
    }

    /// Its text is not to be shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.display.as_deref() == Some("omitted")
    }
}

impl<'a> Request<'a> {
    /// Reads a body that [`MessagesRequest`](crate::anthropic::MessagesRequest) took before.
    ///
    /// # Errors
    /// A field that is known is of the wrong kind.
    pub(crate) fn read(body: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = body.fields()?;
        // The target's name takes its place, and who asks says whether it streams.
        for ours in ["model", "stream"] {
            fields.take(ours);
        }
        for (name, high) in [("temperature", 1.0), ("top_p", 1.0), ("top_k", f64::MAX)] {
            fields.within(name, 0.0, high)?;
        }
        let mut rest = Vec::new();
        let (tool_choice, one_call) = read_choice(&mut fields, &mut rest)?;
        let tools = each(fields.items("tools")?, Tool::read)?;
        if let Some(ToolChoice::Tool(name)) = &tool_choice
            && !tools.iter().any(|tool| tool.name == *name)
        {
            let expected = "the name of a tool that is declared";
            return Err(Refusal::invalid("tool_choice.name", expected));
        }
        if tool_choice == Some(ToolChoice::Any) && tools.is_empty() {
            let expected = "tools beside it, of which one is to be called";
            return Err(Refusal::invalid("tool_choice", expected));
        }
        let (effort, schema) = read_output(&mut fields, &mut rest)?;
        Ok(Self {
            max_tokens: fields.number("max_tokens")?,
            system: match fields.take("system") {
                Some(system) => Block::list(&system)?,
                None => Vec::new(),
            },
            turns: {
                let turns = each(fields.items("messages")?, Turn::read)?;
                answered(&turns)?;
                turns
            },
            tools,
            tool_choice,
            one_call,
            thinking: read_thinking(&mut fields, &mut rest)?,
            effort,
            schema,
            stop: each(fields.items("stop_sequences")?, |stop| stop.text())?,
            temperature: fields.take("temperature"),
            top_p: fields.take("top_p"),
            top_k: fields.take("top_k"),
            user: read_user(&mut fields, &mut rest)?,
            service_tier: fields
                .take("service_tier")
                .filter(|tier| tier.text != "\"auto\""),
            cache: CacheMark::take(&mut fields)?,
            rest: {
                rest.push(fields);
                rest
            },
        })
    }
}

impl Request<'_> {
    /// Whether thinking is asked for.
    pub(crate) fn thinks(&self) -> bool {
        let mode = self.thinking.as_ref().map(|thinking| thinking.mode);
        mode.is_some_and(|mode| mode != ThinkingMode::Disabled)
    }

    /// Notes an effort that stands beside a budget, or beside thinking that is off: these say how much is thought, and what an
    /// effort says besides other dialects have no word for.
    pub(crate) fn drop_effort_beside(&self, drops: &mut Drops) {
        let mode = self.thinking.as_ref().map(|thinking| thinking.mode);
        let decided = matches!(mode, Some(ThinkingMode::Budget(_) | ThinkingMode::Disabled));
        if decided && self.effort.is_some() {
            drops.note("output_config.effort");
        }
    }
}

/// Every call has its result.
fn answered(turns: &[Turn<'_>]) -> Result<(), Box<Refusal>> {
    let mut waiting = Calls::default();
    for block in turns.iter().flat_map(|turn| &turn.blocks) {
        match &block.content {
            Content::ToolUse { id, .. } => waiting.called(id, &*block.path),
            Content::ToolResult { call, .. } => {
                waiting.answered(call, format!("{}.tool_use_id", block.path))?;
            }
            _ => {}
        }
    }
    waiting.ended()
}

/// Notes what is left of several objects as left out.
pub(crate) fn drop_all(rest: Vec<Fields<'_>>, drops: &mut Drops) {
    for fields in rest {
        fields.drop_rest(drops);
    }
}

/// Reads each of a list.
pub(super) fn each<'a, T>(
    items: Vec<Raw<'a>>,
    read: impl Fn(&Raw<'a>) -> Result<T, Box<Refusal>>,
) -> Result<Vec<T>, Box<Refusal>> {
    items.iter().map(read).collect()
}

impl<'a> Turn<'a> {
    fn read(raw: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = raw.fields()?;
        let said = fields.need("role", "user, assistant or system")?;
        let role = match &*said.text()? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => return Err(Refusal::invalid(said.path, "user, assistant or system")),
        };
        let content = fields.need("content", "a string or an array of blocks")?;
        Ok(Self {
            role,
            blocks: Block::list(&content)?,
            rest: fields,
        })
    }
}

impl<'a> Tool<'a> {
    fn read(raw: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = raw.fields()?;
        let versioned = fields.text("type")?.filter(|kind| kind != "custom");
        let name = fields.filled("name", "the tool's name")?;
        let cache = CacheMark::take(&mut fields)?;
        let kind = match versioned {
            Some(kind) => ToolKind::Versioned(kind),
            None => ToolKind::Custom {
                description: fields.text("description")?,
                schema: fields.need("input_schema", "a JSON schema")?.object()?,
                strict: fields.boolean("strict")?,
            },
        };
        Ok(Self {
            name,
            kind,
            cache,
            path: raw.path.clone(),
            rest: fields,
        })
    }
}

type Choice<'a> = (Option<ToolChoice<'a>>, bool);

fn read_choice<'a>(
    fields: &mut Fields<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Choice<'a>, Box<Refusal>> {
    let Some(mut choice) = fields.fields("tool_choice")? else {
        return Ok((None, false));
    };
    let kind = choice.need("type", "auto, any, tool or none")?;
    let said = match &*kind.text()? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Any,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Tool(choice.filled("name", "a tool's name")?),
        _ => return Err(Refusal::invalid(kind.path, "auto, any, tool or none")),
    };
    let one_call = choice
        .boolean("disable_parallel_tool_use")?
        .unwrap_or(false);
    rest.push(choice);
    Ok((Some(said), one_call))
}

fn read_thinking<'a>(
    fields: &mut Fields<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Option<Thinking<'a>>, Box<Refusal>> {
    const KINDS: &str = "enabled, adaptive, between_tools or disabled";
    let Some(mut thinking) = fields.fields("thinking")? else {
        return Ok(None);
    };
    let kind = thinking.need("type", KINDS)?;
    let mode = match &*kind.text()? {
        "disabled" => ThinkingMode::Disabled,
        "adaptive" => ThinkingMode::Adaptive,
        "between_tools" => ThinkingMode::BetweenTools,
        "enabled" => {
            ThinkingMode::Budget(thinking.need("budget_tokens", "a whole number")?.number()?)
        }
        _ => return Err(Refusal::invalid(kind.path, KINDS)),
    };
    let display = thinking.text("display")?;
    rest.push(thinking);
    Ok(Some(Thinking { mode, display }))
}

type Output<'a> = (Option<Cow<'a, str>>, Option<Raw<'a>>);

/// `output_config`, and `output_format` as it was called before.
fn read_output<'a>(
    fields: &mut Fields<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Output<'a>, Box<Refusal>> {
    let mut config = fields.fields("output_config")?;
    let effort = match &mut config {
        Some(config) => config.word("effort", &["low", "medium", "high", "xhigh", "max"])?,
        None => None,
    };
    let format = match &mut config {
        Some(config) => config.fields("format")?,
        None => None,
    };
    let format = match format {
        Some(format) => Some(format),
        None => fields.fields("output_format")?,
    };
    rest.extend(config);
    let Some(mut format) = format else {
        return Ok((effort, None));
    };
    let kind = format.need("type", "json_schema")?;
    if kind.text()? != "json_schema" {
        return Err(Refusal::invalid(kind.path, "json_schema"));
    }
    let schema = format.need("schema", "a JSON schema")?.object()?;
    rest.push(format);
    Ok((effort, Some(schema)))
}

fn read_user<'a>(
    fields: &mut Fields<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Option<Cow<'a, str>>, Box<Refusal>> {
    let Some(mut metadata) = fields.fields("metadata")? else {
        return Ok(None);
    };
    let user = metadata.text("user_id")?;
    rest.push(metadata);
    Ok(user)
}
