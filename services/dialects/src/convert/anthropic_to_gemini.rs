//! A Messages caller served by a Gemini upstream.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::anthropic::block::{Block, Content, Source};
use super::anthropic::request::{
    Request, Role, ThinkingMode, Tool, ToolChoice, ToolKind, drop_all,
};
use super::fields::{Drops, Raw, Refusal};
use super::gemini::compose::media;
use super::gemini::compose::model::{Model, Thought};
use super::gemini::compose::settings::{Settings, Tools};
use super::gemini::compose::{Contents, arguments};
use super::gemini::reader::GeminiReader;
use super::names::Names;
use super::node::Node;
use super::part::{Head, Reader, Writer};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target};

/// Puts the request into Gemini's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let thinks = request.thinks();
    let mut drops = Drops::default();
    request.drop_effort_beside(&mut drops);
    let model = Model::named(target.model);
    let mut saying = Saying {
        contents: Contents::new(model),
        drops: &mut drops,
    };
    for block in request.system {
        saying.block(Role::System, block)?;
    }
    for turn in request.turns {
        for block in turn.blocks {
            saying.block(turn.role, block)?;
        }
        turn.rest.drop_rest(saying.drops);
    }
    let (mut body, mut names) = saying.contents.finish();
    let mut tools = Tools::default();
    for tool in request.tools {
        declare(&mut tools, tool, &mut drops)?;
    }
    match request.tool_choice {
        None | Some(ToolChoice::Auto) => {}
        Some(ToolChoice::Any) => tools.required(&[]),
        Some(ToolChoice::Tool(name)) => tools.required(&[name]),
        Some(ToolChoice::None) => tools.none(),
    }
    tools.finish(&mut names, &mut body);
    if request.one_call {
        drops.note("tool_choice.disable_parallel_tool_use");
    }
    let mut settings = Settings::new();
    settings.number("maxOutputTokens", request.max_tokens);
    settings.raw("temperature", request.temperature);
    settings.raw("topP", request.top_p);
    settings.raw("topK", request.top_k);
    settings.stop(request.stop, "stop_sequences", &mut drops);
    if let Some(schema) = &request.schema {
        settings.json(Some(schema));
    }
    let wish = request.thinking.map(|thinking| {
        let shown = thinking.display.is_none_or(|display| display != "omitted");
        (thinking.mode, shown)
    });
    let effort = request.effort.as_deref();
    if let Some((thought, show)) = thought(wish, effort) {
        match model.thinking(thought, show) {
            Some(config) => settings.put("thinkingConfig", config),
            None if thought == Thought::Effort("none") => {}
            None => drops.note("thinking"),
        }
    }
    settings.finish(&mut body);
    for (name, is_there) in [
        ("metadata.user_id", request.user.is_some()),
        ("cache_control", request.cache.is_some()),
        ("service_tier", request.service_tier.is_some()),
    ] {
        if is_there {
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

/// How much is to be thought, and whether it is shown. An effort beside says how much where no budget does.
fn thought(
    wish: Option<(ThinkingMode, bool)>,
    effort: Option<&str>,
) -> Option<(Thought<'_>, bool)> {
    let (how, show) = match wish {
        None => return effort.map(|effort| (Thought::Effort(effort), false)),
        Some((ThinkingMode::Disabled, _)) => (Thought::Effort("none"), false),
        Some((ThinkingMode::Budget(tokens), show)) => (Thought::Budget(tokens), show),
        Some((ThinkingMode::Adaptive | ThinkingMode::BetweenTools, show)) => {
            (effort.map_or(Thought::Dynamic, Thought::Effort), show)
        }
    };
    Some((how, show))
}

fn declare<'a>(
    tools: &mut Tools<'a>,
    tool: Tool<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    match tool.kind {
        ToolKind::Custom {
            description,
            schema,
            strict,
        } => {
            tools.function(tool.name, description.map(Node::text), Some(&schema));
            if strict == Some(true) {
                drops.note(&format!("{}.strict", tool.path));
            }
        }
        ToolKind::Versioned(kind) => {
            return Err(Refusal::unsupported(
                format!("{}.type", tool.path),
                &format!("`{kind}` is a tool that Anthropic defines"),
            ));
        }
    }
    if let Some(mark) = tool.cache {
        drops.note(&mark.path);
    }
    tool.rest.drop_rest(drops);
    Ok(())
}

/// The conversation on its way.
struct Saying<'a, 'd> {
    contents: Contents<'a>,
    drops: &'d mut Drops,
}

impl<'a> Saying<'a, '_> {
    fn block(&mut self, role: Role, block: Block<'a>) -> Result<(), Box<Refusal>> {
        let path = block.path;
        match block.content {
            Content::Text { text, citations } => {
                self.text(role, text);
                self.drop_some(citations);
            }
            Content::Image(source) => self.media(source, &path)?,
            Content::Document {
                source,
                title,
                context,
                citations,
            } => {
                for text in [title, context].into_iter().flatten() {
                    self.text(role, text);
                }
                self.media(source, &path)?;
                self.drop_some(citations);
            }
            Content::SearchResult { .. } => {
                let text = self.plain(vec![Block {
                    path,
                    rest: Vec::new(),
                    cache: None,
                    content: block.content,
                }])?;
                self.text(role, Cow::Owned(text.0));
                text.1.into_iter().for_each(|part| self.contents.user(part));
            }
            Content::Thinking { text, signature } => {
                let seal = Seal::read(Format::Anthropic, &signature);
                if !self.contents.thought(text, Some(seal)) {
                    self.drops.note(&format!("{path}.thinking"));
                }
            }
            Content::Redacted { data } => {
                let seal = Seal::read(Format::Anthropic, &data);
                if !self.contents.thought(Cow::Borrowed(""), Some(seal)) {
                    self.drops.note(&format!("{path}.redacted_thinking"));
                }
            }
            Content::ToolUse { id, name, input } => {
                let args = arguments(Cow::Borrowed(input));
                self.contents.call((id, name), args, None);
            }
            Content::ToolResult {
                call,
                content,
                is_error,
            } => {
                let (text, media) = self.plain(content)?;
                let id = (&*call, format!("{path}.tool_use_id"));
                self.contents.answer(id, &text, is_error, media)?;
            }
            Content::Other { kind, .. } => return Err(unknown(path, &kind)),
        }
        if let Some(mark) = block.cache {
            self.drops.note(&mark.path);
        }
        drop_all(block.rest, self.drops);
        Ok(())
    }

    fn text(&mut self, role: Role, text: Cow<'a, str>) {
        match role {
            Role::User => self.contents.user_text(text),
            Role::Assistant => self.contents.model_text(text),
            Role::System => self.contents.instruct(text),
        }
    }

    fn drop_some(&mut self, raw: Option<Raw<'_>>) {
        if let Some(raw) = raw.filter(|raw| raw.text.replace(' ', "") != r#"{"enabled":false}"#) {
            self.drops.note(&raw.path);
        }
    }

    fn media(&mut self, source: Source<'a>, path: &str) -> Result<(), Box<Refusal>> {
        if let Source::Blocks(blocks) = source {
            for block in blocks {
                self.block(Role::User, block)?;
            }
            return Ok(());
        }
        let part = shown(source, path)?;
        self.contents.user(part);
        Ok(())
    }

    /// What a tool said: its texts, with line ends between them, and its media.
    fn plain(&mut self, blocks: Vec<Block<'a>>) -> Result<(String, Vec<Node<'a>>), Box<Refusal>> {
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for block in blocks {
            match block.content {
                Content::Text { text, citations } => {
                    texts.push(text.into_owned());
                    self.drop_some(citations);
                }
                Content::Image(source) => media.push(shown(source, &block.path)?),
                Content::Document {
                    source,
                    title,
                    context,
                    citations,
                } => {
                    self.drop_some(citations);
                    let about = [title, context].into_iter().flatten();
                    texts.extend(about.map(Cow::into_owned));
                    match source {
                        Source::Text(text) => texts.push(text.into_owned()),
                        Source::Blocks(inner) => {
                            let (text, more) = self.plain(inner)?;
                            texts.push(text);
                            media.extend(more);
                        }
                        source => media.push(shown(source, &block.path)?),
                    }
                }
                Content::SearchResult {
                    source,
                    title,
                    content,
                    citations,
                } => {
                    self.drop_some(citations);
                    let (text, more) = self.plain(content)?;
                    texts.push(format!("{title}\n{source}\n{text}"));
                    media.extend(more);
                }
                Content::Other { kind, .. } => return Err(unknown(block.path, &kind)),
                _ => {
                    let expected = "a text, an image or a document in this place";
                    return Err(Refusal::invalid(block.path, expected));
                }
            }
            if let Some(mark) = block.cache {
                self.drops.note(&mark.path);
            }
            drop_all(block.rest, self.drops);
        }
        Ok((texts.join("\n"), media))
    }
}

fn unknown(path: String, kind: &str) -> Box<Refusal> {
    Refusal::unsupported(
        path,
        &format!("only Anthropic knows what a `{kind}` block is"),
    )
}

fn shown<'a>(source: Source<'a>, path: &str) -> Result<Node<'a>, Box<Refusal>> {
    match source {
        Source::Base64 { mime, data } => Ok(media::inline(mime, data)),
        Source::Url(url) => media::at_url(url, path),
        Source::Text(text) => Ok(Node::object([("text", Node::text(text))])),
        Source::File => Err(Refusal::unsupported(
            format!("{path}.source.file_id"),
            "the file is kept at Anthropic; send its content",
        )),
        Source::Blocks(_) => Err(Refusal::invalid(
            format!("{path}.source.type"),
            "base64, url or text",
        )),
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
        Box::new(GeminiReader::new(&[], &self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::anthropic::writer::AnthropicWriter::new(
            &head,
            self.thinks,
            Format::Gemini,
        ))
    }
}
