//! A Messages caller served by an upstream of the Responses API (PROTOCOLS §11.6).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::anthropic::block::{Block, Content, Source};
use super::anthropic::request::{
    Request, Role, Thinking, ThinkingMode, Tool, ToolChoice, ToolKind, drop_all,
};
use super::fields::{Drops, Raw, Refusal};
use super::names::{Names, shortened};
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::responses::compose::{self, Items};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target, openai};

/// The longest `safety_identifier`, characters.
const MAX_USER: usize = 64;

/// Puts the request into the Responses dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let thinks = request.thinks();
    let mut saying = Saying::default();
    request.drop_effort_beside(&mut saying.drops);
    let mut system = Vec::new();
    for block in request.system {
        system.extend(saying.shown(block)?);
    }
    saying.items.message("system", system);
    for turn in request.turns {
        saying.turn(turn.role, turn.blocks)?;
        turn.rest.drop_rest(&mut saying.drops);
    }
    let Saying { items, mut drops } = saying;
    let mut body = compose::body(target.model, target.stream);
    let (input, mut names) = items.finish();
    body.put("input", input);
    let mut tools = Vec::new();
    for tool in request.tools {
        tools.push(declare(tool, &mut names, &mut drops)?);
    }
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
    }
    let choice = request.tool_choice.map(|choice| match choice {
        ToolChoice::Auto => Node::text("auto"),
        ToolChoice::Any => Node::text("required"),
        ToolChoice::Tool(name) => compose::this_tool(names.said(name), false),
        ToolChoice::None => Node::text("none"),
    });
    body.put_some("tool_choice", choice);
    if request.one_call {
        body.put("parallel_tool_calls", Node::Bool(false));
    }
    body.put_some("max_output_tokens", request.max_tokens.map(compose::limit));
    if let Some(schema) = &request.schema {
        let format = compose::schema_format("answer".into(), None, Some(schema.text), Some(true));
        body.put("text", Node::object([("format", format)]));
    }
    let hidden = request.thinking.as_ref().is_some_and(Thinking::is_hidden);
    if request.thinking.as_ref().is_some_and(Thinking::is_off) {
        drops.note("thinking");
    }
    let path = match &request.thinking {
        Some(thinking) if matches!(thinking.mode, ThinkingMode::Budget(_)) => "thinking",
        _ => "output_config.effort",
    };
    let effort = effort(request.thinking.as_ref(), request.effort);
    let effort = openai::effort(target.model, effort, path, &mut drops);
    let sampling = [
        ("temperature", request.temperature),
        ("top_p", request.top_p),
    ];
    let model = openai::Model::named(target.model);
    model.sample(effort.as_deref(), sampling, &mut body, &mut drops);
    let reasons = openai::reasons(target.model);
    if thinks && !reasons {
        drops.note("thinking");
    }
    if effort.is_some() || (thinks && !hidden && reasons) {
        let mut reasoning = Node::object([]);
        match hidden {
            true => reasoning.put_some("effort", effort.map(Node::Text)),
            false => reasoning = compose::reasoning(effort),
        }
        body.put("reasoning", reasoning);
    }
    body.put_some("include", compose::include(reasons, false));
    let user = request.user.map(|user| shortened(user, MAX_USER));
    body.put_some("safety_identifier", user.map(Node::Text));
    for (name, left_out) in [
        ("stop_sequences", !request.stop.is_empty()),
        ("top_k", request.top_k.is_some()),
        ("cache_control", request.cache.is_some()),
        ("service_tier", request.service_tier.is_some()),
    ] {
        if left_out {
            drops.note(name);
        }
    }
    drop_all(request.rest, &mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back { thinks, names }),
    })
}

/// A budget as an effort; an effort beside says how much where no budget does.
fn effort<'a>(
    thinking: Option<&Thinking<'a>>,
    effort: Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    let by_budget = |tokens: u64| match tokens {
        0..=1024 => "low",
        1025..=8192 => "medium",
        _ => "high",
    };
    match thinking.map(|thinking| thinking.mode) {
        None => effort,
        // Models that do not think know no effort, and not all that do know `none`.
        Some(ThinkingMode::Disabled) => None,
        Some(ThinkingMode::Budget(tokens)) => Some(by_budget(tokens).into()),
        // Where nobody says how much, the model decides.
        Some(ThinkingMode::Adaptive | ThinkingMode::BetweenTools) => effort,
    }
}

fn declare<'a>(
    tool: Tool<'a>,
    names: &mut Names,
    drops: &mut Drops,
) -> Result<Node<'a>, Box<Refusal>> {
    let declared = match tool.kind {
        ToolKind::Custom {
            description,
            schema,
            strict,
        } => {
            let schema = Node::raw(one_line(schema.text));
            let strict = strict.unwrap_or(false);
            let name = names.said(tool.name);
            compose::function(name, description.map(Node::Text), Some(schema), strict)
        }
        ToolKind::Versioned(kind) => {
            return Err(Refusal::unsupported(
                format!("{}.type", tool.path),
                &format!("`{kind}` is a tool that Anthropic defines"),
            ));
        }
    };
    if let Some(mark) = tool.cache {
        drops.note(&mark.path);
    }
    tool.rest.drop_rest(drops);
    Ok(declared)
}

/// The conversation on its way.
#[derive(Default)]
struct Saying<'a> {
    items: Items<'a>,
    drops: Drops,
}

impl<'a> Saying<'a> {
    fn turn(&mut self, role: Role, blocks: Vec<Block<'a>>) -> Result<(), Box<Refusal>> {
        let speaker = match role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        // What is said in a row is one message.
        let mut parts = Vec::new();
        for block in blocks {
            match block.content {
                Content::Thinking { .. }
                | Content::Redacted { .. }
                | Content::ToolUse { .. }
                | Content::ToolResult { .. } => {
                    self.items.message(speaker, std::mem::take(&mut parts));
                    self.item(block)?;
                }
                Content::Text { text, citations } if role == Role::Assistant => {
                    parts.push(compose::output_text(text));
                    self.drop_some(citations);
                    self.aside(block.cache.map(|mark| mark.path), block.rest);
                }
                _ => parts.extend(self.shown(block)?),
            }
        }
        self.items.message(speaker, parts);
        Ok(())
    }

    /// A block that is an item of its own.
    fn item(&mut self, block: Block<'a>) -> Result<(), Box<Refusal>> {
        let path = block.path;
        match block.content {
            Content::Thinking { text, signature } => {
                let seal = Seal::read(Format::Anthropic, &signature);
                if !self.items.reasoning(&text, Some(seal)) {
                    self.drops.note(&format!("{path}.thinking"));
                }
            }
            Content::Redacted { data } => {
                let seal = Seal::read(Format::Anthropic, &data);
                if !self.items.reasoning("", Some(seal)) {
                    self.drops.note(&format!("{path}.redacted_thinking"));
                }
            }
            Content::ToolUse { id, name, input } => {
                self.items.call(id, name, one_line(input), false);
            }
            Content::ToolResult {
                call,
                content,
                is_error,
            } => {
                let mut parts = Vec::new();
                if is_error {
                    // The API has no place for it; the model reads it.
                    parts.push(compose::input_text("[error]"));
                }
                for block in content {
                    parts.extend(self.shown(block)?);
                }
                self.items.output(call, parts);
            }
            _ => self.drops.note(&path),
        }
        self.aside(block.cache.map(|mark| mark.path), block.rest);
        Ok(())
    }

    /// A block as parts of what goes in.
    fn shown(&mut self, block: Block<'a>) -> Result<Vec<Node<'a>>, Box<Refusal>> {
        let path = block.path;
        let parts = match block.content {
            Content::Text { text, citations } => {
                self.drop_some(citations);
                vec![compose::input_text(text)]
            }
            Content::Image(source) => self.media(source, None, &path, true)?,
            Content::Document {
                source,
                title,
                context,
                citations,
            } => {
                self.drop_some(citations);
                let mut parts: Vec<_> = context.map(compose::input_text).into_iter().collect();
                parts.extend(self.media(source, title, &path, false)?);
                parts
            }
            Content::SearchResult {
                source,
                title,
                content,
                citations,
            } => {
                self.drop_some(citations);
                let mut parts = vec![compose::input_text(format!("{title}\n{source}"))];
                for block in content {
                    parts.extend(self.shown(block)?);
                }
                parts
            }
            Content::Other { kind, .. } => {
                let why = format!("only Anthropic knows what a `{kind}` block is");
                return Err(Refusal::unsupported(path, &why));
            }
            _ => {
                let expected = "a text, an image or a document in this place";
                return Err(Refusal::invalid(path, expected));
            }
        };
        self.aside(block.cache.map(|mark| mark.path), block.rest);
        Ok(parts)
    }

    fn media(
        &mut self,
        source: Source<'a>,
        title: Option<Cow<'a, str>>,
        path: &str,
        image: bool,
    ) -> Result<Vec<Node<'a>>, Box<Refusal>> {
        Ok(match source {
            Source::Base64 { mime, data } => {
                let url = Cow::Owned(format!("data:{mime};base64,{data}"));
                vec![match image {
                    true => compose::image(url, None),
                    false => compose::file("file_data", url, title),
                }]
            }
            Source::Url(url) if image => vec![compose::image(url, None)],
            Source::Url(url) => vec![compose::file("file_url", url, title)],
            Source::Text(text) => {
                let title = title.map(compose::input_text);
                title
                    .into_iter()
                    .chain([compose::input_text(text)])
                    .collect()
            }
            Source::Blocks(blocks) => {
                let mut parts: Vec<_> = title.map(compose::input_text).into_iter().collect();
                for block in blocks {
                    parts.extend(self.shown(block)?);
                }
                parts
            }
            Source::File => {
                return Err(Refusal::unsupported(
                    format!("{path}.source.file_id"),
                    "the file is kept at Anthropic; send its content",
                ));
            }
        })
    }

    fn drop_some(&mut self, raw: Option<Raw<'_>>) {
        if let Some(raw) = raw.filter(|raw| raw.text.replace(' ', "") != r#"{"enabled":false}"#) {
            self.drops.note(&raw.path);
        }
    }

    /// What stands beside the content: cache marks have no counterpart, the API caches by itself.
    fn aside(&mut self, mark: Option<String>, rest: Vec<super::fields::Fields<'a>>) {
        if let Some(path) = mark {
            self.drops.note(&path);
        }
        drop_all(rest, &mut self.drops);
    }
}

/// The way back.
#[derive(Debug)]
struct Back {
    thinks: bool,
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::responses::reader::ResponsesReader::new(&self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::anthropic::writer::AnthropicWriter::new(
            &head,
            self.thinks,
            Format::Responses,
        ))
    }
}
