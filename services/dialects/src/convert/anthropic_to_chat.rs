//! A Messages caller served by a chat upstream (PROTOCOLS §11.3).

use std::borrow::Cow;

use super::anthropic::block::{Block, Content, Source};
use super::anthropic::request::{
    Request, Role, Thinking, ThinkingMode, Tool, ToolChoice, ToolKind, drop_all,
};
use super::chat::compose::{self, Messages, Part};
use super::fields::{Drops, Fields, Raw, Refusal};
use super::names::Names;
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target, openai};

/// Puts the request into chat's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let thinks = request.thinks();
    let mut saying = Saying::default();
    request.drop_effort_beside(&mut saying.drops);
    saying.system(request.system)?;
    for turn in request.turns {
        match turn.role {
            Role::User => saying.user(turn.blocks)?,
            Role::Assistant => saying.assistant(turn.blocks)?,
            Role::System => saying.system(turn.blocks)?,
        }
        turn.rest.drop_rest(&mut saying.drops);
    }
    let Saying {
        messages,
        mut drops,
    } = saying;
    let mut body = compose::body(target.model, target.stream);
    let (messages, mut names) = messages.finish();
    body.put("messages", messages);
    let mut tools = Vec::new();
    for tool in request.tools {
        tools.push(declare(tool, &mut names, &mut drops)?);
    }
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
        let choice = request.tool_choice.map(|choice| match choice {
            ToolChoice::Auto => Node::text("auto"),
            ToolChoice::Any => Node::text("required"),
            ToolChoice::Tool(name) => compose::this_tool(names.said(name)),
            ToolChoice::None => Node::text("none"),
        });
        body.put_some("tool_choice", choice);
        if request.one_call {
            body.put("parallel_tool_calls", Node::Bool(false));
        }
    }
    let limit = request.max_tokens.map(compose::number);
    body.put_some("max_completion_tokens", limit);
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
    let mut stop = request.stop;
    let most = model.stops();
    if stop.len() > most {
        stop.truncate(most);
        drops.note("stop_sequences");
    }
    if !stop.is_empty() {
        body.put(
            "stop",
            Node::Array(stop.into_iter().map(Node::Text).collect()),
        );
    }
    if let Some(schema) = &request.schema {
        let schema = compose::as_it_is(schema.text);
        let format = compose::schema_format("answer".into(), None, schema, Some(true));
        body.put("response_format", format);
    }
    match &request.thinking {
        Some(thinking) if thinking.is_off() => drops.note("thinking"),
        // What the model shows of its thoughts is its own affair.
        Some(thinking) if thinking.is_hidden() => drops.note("thinking.display"),
        _ => {}
    }
    body.put_some("reasoning_effort", effort.map(Node::Text));
    let user = request.user.map(compose::user);
    body.put_some("safety_identifier", user.map(Node::Text));
    for (name, left_out) in [
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
    match thinking.map(|thinking| thinking.mode) {
        None => effort,
        // Models that do not think know no effort, and not all that do know `none`.
        Some(ThinkingMode::Disabled) => None,
        Some(ThinkingMode::Budget(tokens)) => Some(compose::effort(tokens).into()),
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
            let schema = compose::as_it_is(schema.text);
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
    messages: Messages<'a>,
    drops: Drops,
}

impl<'a> Saying<'a> {
    fn system(&mut self, blocks: Vec<Block<'a>>) -> Result<(), Box<Refusal>> {
        let mut texts = Vec::new();
        for block in blocks {
            let path = block.path.clone();
            for part in self.shown(block)? {
                match part {
                    Part::Text(text) | Part::Marked(text, _) => texts.push(text),
                    Part::Other(_) => return Err(Refusal::invalid(path, "text in this place")),
                }
            }
        }
        let text = match &mut texts[..] {
            [only] => std::mem::take(only),
            _ => Cow::Owned(texts.join("\n\n")),
        };
        self.messages.instruct("system", text);
        Ok(())
    }

    /// Results of tools go first: they answer the turn before.
    fn user(&mut self, blocks: Vec<Block<'a>>) -> Result<(), Box<Refusal>> {
        let mut parts = Vec::new();
        for block in blocks {
            let Content::ToolResult { .. } = block.content else {
                parts.extend(self.shown(block)?);
                continue;
            };
            let (mark, rest) = (block.cache.map(|mark| mark.path), block.rest);
            if let Content::ToolResult {
                call,
                content,
                is_error,
            } = block.content
            {
                let mut given = Vec::new();
                for block in content {
                    given.extend(self.shown(block)?);
                }
                self.messages.output(call, given, is_error);
            }
            self.aside(mark, rest);
        }
        if !parts.is_empty() {
            self.messages.user(parts);
        }
        Ok(())
    }

    fn assistant(&mut self, blocks: Vec<Block<'a>>) -> Result<(), Box<Refusal>> {
        for block in blocks {
            let path = block.path;
            match block.content {
                Content::Text { text, citations } => {
                    self.messages.text(&text);
                    self.drop_some(citations);
                }
                Content::Thinking { text, signature } => {
                    let seal = Seal::read(Format::Anthropic, &signature);
                    if !self.messages.thought(&text, Some(seal)) {
                        self.drops.note(&format!("{path}.thinking"));
                    }
                }
                Content::Redacted { .. } => {
                    self.drops.note(&format!("{path}.redacted_thinking"));
                }
                Content::ToolUse { id, name, input } => {
                    self.messages.call(id, name, one_line(input), None);
                }
                Content::Other { kind, .. } => return Err(unknown(path, &kind)),
                _ => self.drops.note(&path),
            }
            self.aside(block.cache.map(|mark| mark.path), block.rest);
        }
        Ok(())
    }

    /// A block as parts of a content.
    fn shown(&mut self, block: Block<'a>) -> Result<Vec<Part<'a>>, Box<Refusal>> {
        let path = block.path;
        let parts = match block.content {
            Content::Text { text, citations } => {
                self.drop_some(citations);
                vec![Part::Text(text)]
            }
            Content::Image(source) => self.media(source, None, &path, true)?,
            Content::Document {
                source,
                title,
                context,
                citations,
            } => {
                self.drop_some(citations);
                let mut parts: Vec<_> = context.map(Part::Text).into_iter().collect();
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
                let mut parts = vec![Part::Text(Cow::Owned(format!("{title}\n{source}")))];
                for block in content {
                    parts.extend(self.shown(block)?);
                }
                parts
            }
            Content::Other { kind, .. } => return Err(unknown(path, &kind)),
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
    ) -> Result<Vec<Part<'a>>, Box<Refusal>> {
        Ok(match source {
            Source::Base64 { mime, data } => {
                let url = Cow::Owned(format!("data:{mime};base64,{data}"));
                vec![match image {
                    true => compose::image(url, None),
                    false => compose::file(url, title),
                }]
            }
            Source::Url(url) if image => vec![compose::image(url, None)],
            Source::Url(_) => {
                return Err(Refusal::unsupported(
                    format!("{path}.source.url"),
                    "it takes documents as bytes alone; send the document's content",
                ));
            }
            Source::Text(text) => {
                let title = title.map(Part::Text);
                title.into_iter().chain([Part::Text(text)]).collect()
            }
            Source::Blocks(blocks) => {
                let mut parts: Vec<_> = title.map(Part::Text).into_iter().collect();
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

    /// What stands beside the content: cache marks have no counterpart, these upstreams cache by themselves.
    fn aside(&mut self, mark: Option<String>, rest: Vec<Fields<'a>>) {
        if let Some(path) = mark {
            self.drops.note(&path);
        }
        drop_all(rest, &mut self.drops);
    }
}

fn unknown(path: String, kind: &str) -> Box<Refusal> {
    Refusal::unsupported(
        path,
        &format!("only Anthropic knows what a `{kind}` block is"),
    )
}

/// The way back.
#[derive(Debug)]
struct Back {
    thinks: bool,
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::chat::reader::ChatReader::new(&[], &self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::anthropic::writer::AnthropicWriter::new(
            &head,
            self.thinks,
            Format::Chat,
        ))
    }
}
