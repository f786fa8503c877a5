//! A Responses caller served by an Anthropic upstream (PROTOCOLS §11.6).

use std::borrow::Cow;

use super::anthropic::compose::{self, Choice, Turns};
use super::chat;
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
        turns.instruct(text);
    }
    if matches!(request.format, TextFormat::JsonObject) {
        turns.instruct(compose::JSON_ONLY.into());
    }
    for item in std::mem::take(&mut request.input) {
        say(&mut turns, item, &mut drops)?;
    }
    let mut body = Node::object([("model", Node::text(target.model))]);
    if target.stream {
        body.put("stream", Node::Bool(true));
    }
    turns.finish(&mut body);
    let (choice, only) = choose(request.choice.take());
    let tools = std::mem::take(&mut request.tools).into_iter();
    let tools: Vec<_> = tools
        .filter_map(|tool| declare(tool, &only, &mut drops))
        .collect();
    let forced = choice.as_ref().is_some_and(Choice::forces);
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
        let one_call = request.parallel_tool_calls == Some(false);
        body.put_some("tool_choice", compose::choice(choice, one_call));
    }
    let reasoning = request.reasoning.take();
    let effort = reasoning
        .as_ref()
        .and_then(|reasoning| reasoning.effort.clone());
    let effort = effort.as_deref();
    let limit = request.max_output_tokens;
    let thought = compose::think(target.model, effort, limit, target.max_output, forced);
    let thinks = thought.thinking.is_some();
    if effort.is_some_and(|effort| effort != "none") && !thinks {
        drops.note("reasoning.effort");
    }
    if let Some(reasoning) = reasoning {
        reasoning.rest.drop_rest(&mut drops);
    }
    body.put("max_tokens", chat::compose::number(thought.limit));
    body.put_some("thinking", thought.thinking);
    let schema = match &request.format {
        TextFormat::JsonSchema {
            schema,
            description,
            ..
        } => {
            if let Some(raw) = description {
                drops.note(&raw.path);
            }
            Some(Node::raw(one_line(schema.text)))
        }
        TextFormat::Text | TextFormat::JsonObject => None,
    };
    body.put_some(
        "output_config",
        compose::output_config(thought.effort, schema),
    );
    if let Some(raw) = request.temperature.take() {
        match compose::temperature(raw.text, thinks) {
            Some(number) => body.put("temperature", number),
            None => drops.note(&raw.path),
        }
    }
    if let Some(raw) = request.top_p.take() {
        match thinks {
            false => body.put("top_p", Node::raw(raw.text)),
            true => drops.note(&raw.path),
        }
    }
    let older = request.user.take();
    if let Some(raw) = request.safety_identifier.take().or(older) {
        body.put("metadata", Node::object([("user_id", Node::raw(raw.text))]));
    }
    for raw in [
        request.verbosity.take(),
        request.metadata.take(),
        request.prompt_cache_key.take(),
        request
            .service_tier
            .take()
            .filter(|tier| !matches!(tier.text, r#""auto""# | r#""default""#)),
    ]
    .into_iter()
    .flatten()
    {
        drops.note(&raw.path);
    }
    let back = Back {
        saying: request.saying(),
    };
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(back),
    })
}

/// The choice, and the tools that are left where it names some of them.
fn choose(
    choice: Option<responses::Choice<'_>>,
) -> (Option<Choice<'_>>, Option<Vec<Cow<'_, str>>>) {
    match choice {
        None => (None, None),
        Some(responses::Choice::None) => (Some(Choice::None), None),
        Some(responses::Choice::Auto) => (Some(Choice::Auto), None),
        Some(responses::Choice::Required) => (Some(Choice::Any), None),
        Some(responses::Choice::Tool { name, .. }) => (Some(Choice::Tool(name)), None),
        Some(responses::Choice::Allowed { required, names }) => {
            let choice = if required { Choice::Any } else { Choice::Auto };
            (Some(choice), Some(names))
        }
    }
}

fn declare<'a>(
    tool: Tool<'a>,
    only: &Option<Vec<Cow<'a, str>>>,
    drops: &mut Drops,
) -> Option<Node<'a>> {
    let is_left = only.as_ref().is_none_or(|only| only.contains(&tool.name));
    let description = tool.description.map(|raw| Node::raw(one_line(raw.text)));
    let declared = if tool.custom {
        if let Some(format) = tool.format.filter(|format| format.text.contains("grammar")) {
            drops.note(&format.path);
        }
        compose::free_tool(tool.name, description)
    } else {
        let schema = tool.parameters.map(|raw| Node::raw(one_line(raw.text)));
        compose::tool(tool.name, description, schema, tool.strict)
    };
    tool.rest.drop_rest(drops);
    is_left.then_some(declared)
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
        return Ok(());
    }
    match item {
        Item::Message {
            role,
            content,
            mut rest,
        } => {
            for part in content {
                match role {
                    Role::User => turns.user(shown(part, drops)?),
                    Role::Assistant => {
                        if let Some(text) = text_of(part, drops) {
                            turns.text(text);
                        }
                    }
                    Role::System | Role::Developer => {
                        if let Some(text) = text_of(part, drops) {
                            turns.instruct(text);
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
            turns.call(id, name, input);
            rest.drop_rest(drops);
        }
        Item::Output {
            id, content, rest, ..
        } => {
            let mut given = Vec::with_capacity(content.len());
            for part in content {
                given.push(shown(part, drops)?);
            }
            turns.result(id, given, false);
            rest.drop_rest(drops);
        }
        Item::Reasoning { .. } => {}
        Item::Other { name } => drops.note(&name),
    }
    Ok(())
}

fn text_of<'a>(part: Content<'a>, drops: &mut Drops) -> Option<Cow<'a, str>> {
    match part {
        Content::Text { text, rest } => {
            rest.drop_rest(drops);
            Some(text)
        }
        Content::Refusal { text } => Some(text),
        Content::Image { path, .. } | Content::File { path, .. } | Content::Audio { path, .. } => {
            drops.note(&path);
            None
        }
    }
}

fn shown<'a>(part: Content<'a>, drops: &mut Drops) -> Result<Node<'a>, Box<Refusal>> {
    let (block, rest) = match part {
        Content::Text { text, rest } => (compose::text_block(text), rest),
        Content::Refusal { text } => return Ok(compose::text_block(text)),
        Content::Image {
            source: Media::Url(url),
            detail,
            path,
            rest,
        } => {
            if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                drops.note(&detail.path);
            }
            (compose::media(url, true, &path)?, rest)
        }
        Content::File {
            source: Media::Url(url),
            name,
            path,
            rest,
        } => {
            let mut block = compose::media(url, false, &path)?;
            block.put_some("title", name.map(Node::Text));
            (block, rest)
        }
        Content::File {
            source: Media::Base64(data),
            name,
            path,
            rest,
        } => {
            let mut block = compose::inline_media("application/pdf".into(), data, &path)?;
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
    rest.drop_rest(drops);
    Ok(block)
}

/// The way back.
#[derive(Debug)]
struct Back {
    saying: responses::Saying,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::anthropic::reader::AnthropicReader::new(
            &self.saying.custom(),
        ))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(responses::writer::ResponsesWriter::new(
            self.saying.clone(),
            head,
        ))
    }
}
