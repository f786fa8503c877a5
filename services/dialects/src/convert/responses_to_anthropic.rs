//! A Responses caller served by an Anthropic upstream (PROTOCOLS §11.6).

use std::borrow::Cow;

use super::anthropic::compose::model::{Asked, Model};
use super::anthropic::compose::settings::{self, Output, Settings};
use super::anthropic::compose::tools::{Tools, object_schema};
use super::anthropic::compose::{self, Turns, mark, media};
use super::anthropic::reader::{AnthropicReader, Way};
use super::fields::{Drops, Raw, Refusal};
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::responses::{self, Content, Item, Media, Request, Role, TextFormat, Tool};
use super::{Answering, Opened, Target};

/// Puts the request into Anthropic's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let mut request = Request::read(body)?;
    if request.logprobs {
        return Err(Refusal::unsupported(
            "top_logprobs",
            "it tells no log probabilities",
        ));
    }
    let mut drops = Drops::default();
    let mut turns = Turns::default();
    if let Some(text) = request.instructions.take() {
        turns.instruct(text, None);
    }
    for item in std::mem::take(&mut request.input) {
        say(&mut turns, item, &mut drops)?;
    }
    let mut tools = Tools::default();
    let model = Model::named(target.model);
    for tool in std::mem::take(&mut request.tools) {
        declare(&mut tools, tool, model, &mut drops);
    }
    choose(&mut tools, request.choice.take());
    if request.parallel_tool_calls == Some(false) {
        tools.one_call();
    }
    let (mut effort, mut show) = (None, false);
    if let Some(reasoning) = request.reasoning.take() {
        (effort, show) = (reasoning.effort, reasoning.summary.is_some());
        reasoning.rest.drop_rest(&mut drops);
    }
    let thought = match effort.as_deref() {
        Some(effort) => Some((Asked::Effort(effort), "reasoning.effort")),
        None if show => Some((Asked::Freely, "reasoning.summary")),
        None => None,
    };
    let older = request.user.take();
    let user = match (request.safety_identifier.take(), older) {
        (Some(user), older) => {
            older.iter().for_each(|older| drops.note(&older.path));
            Some(user)
        }
        (None, older) => older,
    };
    if let TextFormat::JsonSchema {
        description: Some(raw),
        ..
    } = &request.format
    {
        drops.note(&raw.path);
    }
    let settings = Settings {
        limit: request.max_output_tokens,
        thought,
        show,
        temperature: request.temperature.take(),
        top_p: request.top_p.take(),
        top_k: None,
        output: match &request.format {
            TextFormat::Text => Output::Text,
            TextFormat::JsonObject => Output::Json,
            TextFormat::JsonSchema { schema, .. } => Output::Schema(object_schema(schema)),
        },
        stop: (Vec::new(), "stop"),
        user,
    };
    let (body, way) = settings::request(target, turns, tools, settings, &mut drops);
    let said = |raw: &Raw<'_>, default: [&str; 2]| !default.contains(&raw.text);
    let tier = request.service_tier.take();
    let verbosity = request.verbosity.take();
    for raw in [
        request.metadata.take(),
        request.prompt_cache_key.take(),
        tier.filter(|tier| said(tier, [r#""auto""#, r#""default""#])),
        verbosity.filter(|verbosity| said(verbosity, [r#""medium""#; 2])),
    ]
    .into_iter()
    .flatten()
    {
        drops.note(&raw.path);
    }
    let saying = request.saying();
    request.drop_rest(&mut drops);
    Ok(Opened {
        body,
        dropped: drops,
        answering: Box::new(Back { saying, way }),
    })
}

fn choose<'a>(tools: &mut Tools<'a>, choice: Option<responses::Choice<'a>>) {
    match choice {
        None | Some(responses::Choice::Auto) => {}
        Some(responses::Choice::None) => tools.none(),
        Some(responses::Choice::Required) => tools.required(&[]),
        Some(responses::Choice::Tool { name, .. }) => tools.required(&[name]),
        Some(responses::Choice::Allowed {
            required: true,
            names,
        }) => tools.required(&names),
        Some(responses::Choice::Allowed { names, .. }) => tools.only(&names),
    }
}

fn declare<'a>(tools: &mut Tools<'a>, mut tool: Tool<'a>, model: Model, drops: &mut Drops) {
    let description = tool.description.map(|raw| Node::raw(one_line(raw.text)));
    let mark = mark(&mut tool.rest);
    if tool.custom {
        if let Some(format) = tool.format.filter(|format| format.text.contains("grammar")) {
            drops.note(&format.path);
        }
        tools.free_text(tool.name, description, mark);
    } else {
        let schema = tool.parameters.map(|raw| Node::raw(one_line(raw.text)));
        let strict = tool.strict == Some(true);
        if strict && !model.has_schemas() {
            drops.note(&format!("{}.strict", tool.path));
        }
        let strict = strict && model.has_schemas();
        tools.function(tool.name, description, schema, strict, mark);
    }
    tool.rest.drop_rest(drops);
}

fn say<'a>(turns: &mut Turns<'a>, item: Item<'a>, drops: &mut Drops) -> Result<(), Box<Refusal>> {
    if let Item::Reasoning {
        summary, content, ..
    } = &item
    {
        let texts = if content.is_empty() { summary } else { content };
        if !turns.thought(&texts.join("\n\n"), item.seal()) {
            drops.note("input[].reasoning");
        }
    }
    match item {
        Item::Message {
            role,
            content,
            mut rest,
        } => {
            for part in content {
                match (role, part) {
                    (Role::User, Content::Text { text, mut rest }) => {
                        turns.user_text(text, mark(&mut rest));
                        rest.drop_rest(drops);
                    }
                    (Role::User, part) => turns.user(shown(part, drops)?),
                    (role, part) => {
                        let Some((text, mark)) = text_of(part, drops) else {
                            continue;
                        };
                        match role {
                            Role::Assistant => turns.text(text, mark),
                            _ => turns.instruct(text, mark),
                        }
                    }
                }
            }
            // Which part of an answer it was, commentary or the last word, is not told there.
            rest.take("phase");
            rest.drop_rest(drops);
        }
        Item::Call {
            id,
            name,
            arguments,
            custom,
            rest,
            ..
        } => {
            let input = match custom {
                true => compose::free_input(arguments),
                false => compose::input(arguments),
            };
            turns.call(&id, &name, input);
            rest.drop_rest(drops);
        }
        Item::Output {
            id, content, rest, ..
        } => {
            let mut given = Vec::with_capacity(content.len());
            for part in content {
                given.push(shown(part, drops)?);
            }
            turns.result(&id, given, false);
            rest.drop_rest(drops);
        }
        Item::Reasoning { rest, .. } => rest.drop_rest(drops),
        Item::Other { name } => drops.note(&name),
    }
    Ok(())
}

/// A text and its cache mark.
type Marked<'a> = (Cow<'a, str>, Option<Node<'a>>);

fn text_of<'a>(part: Content<'a>, drops: &mut Drops) -> Option<Marked<'a>> {
    match part {
        Content::Text { text, mut rest } => {
            let mark = mark(&mut rest);
            rest.drop_rest(drops);
            Some((text, mark))
        }
        Content::Refusal { text } => Some((text, None)),
        Content::Image { path, .. } | Content::File { path, .. } | Content::Audio { path, .. } => {
            drops.note(&path);
            None
        }
    }
}

fn shown<'a>(part: Content<'a>, drops: &mut Drops) -> Result<Node<'a>, Box<Refusal>> {
    let (mut block, mut rest) = match part {
        Content::Text { text, rest } => (compose::text_block(text, None), rest),
        Content::Refusal { text } => return Ok(compose::text_block(text, None)),
        Content::Image {
            source: Media::Url(url),
            detail,
            path,
            rest,
        } => {
            if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                drops.note(&detail.path);
            }
            (media::at_url(url, true, &path)?, rest)
        }
        Content::File {
            source: Media::Url(url),
            name,
            path,
            rest,
        } => {
            let mut block = media::at_url(url, false, &path)?;
            block.put_some("title", name.map(Node::Text));
            (block, rest)
        }
        Content::File {
            source: Media::Base64(data),
            name,
            path,
            rest,
        } => {
            let mut block = media::file(name.as_deref(), data, &path)?;
            block.put_some("title", name.map(Node::Text));
            (block, rest)
        }
        Content::Image { path, .. } | Content::File { path, .. } => {
            let why = "it is kept elsewhere; send its content";
            return Err(Refusal::unsupported(path, why));
        }
        Content::Audio { path, .. } => {
            return Err(Refusal::unsupported(path, "it hears no sound"));
        }
    };
    block.put_some("cache_control", mark(&mut rest));
    rest.drop_rest(drops);
    Ok(block)
}

/// The way back.
#[derive(Debug)]
struct Back {
    saying: responses::Saying,
    way: Way,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(AnthropicReader::new(&self.way))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(responses::writer::ResponsesWriter::new(
            self.saying.clone(),
            head,
        ))
    }
}
