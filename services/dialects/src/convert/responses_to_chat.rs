//! A Responses caller served by a chat upstream (PROTOCOLS §11.5).

use std::borrow::Cow;

use super::chat::compose::{self, Messages, Part};
use super::fields::{Drops, Raw, Refusal};
use super::names::Names;
use super::node::Node;
use super::part::{Head, Reader, Writer};
use super::responses::{Choice, Content, Item, Media, Request, Role, TextFormat, Tool};
use super::{Answering, Opened, Target, openai};

/// Puts the request into chat's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let mut request = Request::read(body)?;
    let mut drops = Drops::default();
    let mut messages = Messages::default();
    if let Some(text) = request.instructions.take() {
        messages.instruct("developer", text);
    }
    for item in std::mem::take(&mut request.input) {
        say(&mut messages, item, &mut drops)?;
    }
    let mut body = compose::body(target.model, target.stream);
    let (messages, mut names) = messages.finish();
    body.put("messages", messages);
    let tools = std::mem::take(&mut request.tools).into_iter();
    let tools: Vec<_> = tools
        .map(|tool| declare(tool, &mut names, &mut drops))
        .collect();
    for path in &request.hosted {
        drops.note(path);
    }
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
        let choice = request.choice.take().map(|choice| match choice {
            Choice::None => Node::text("none"),
            Choice::Auto => Node::text("auto"),
            Choice::Required => Node::text("required"),
            Choice::Tool { name, .. } => compose::this_tool(names.said(name)),
            Choice::Allowed {
                required,
                names: some,
            } => {
                let some = some.into_iter().map(|name| names.said(name)).collect();
                compose::some_tools(some, required)
            }
        });
        body.put_some("tool_choice", choice);
        let parallel = request.parallel_tool_calls.map(Node::Bool);
        body.put_some("parallel_tool_calls", parallel);
    }
    let limit = request.max_output_tokens.map(compose::number);
    body.put_some("max_completion_tokens", limit);
    match &request.format {
        TextFormat::Text => {}
        TextFormat::JsonObject => {
            let object = Node::object([("type", Node::text("json_object"))]);
            body.put("response_format", object);
        }
        TextFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => {
            let description = description.as_ref().map(|raw| Node::raw(raw.text));
            let schema = compose::as_it_is(schema.text);
            let format = compose::schema_format(name.clone(), description, schema, *strict);
            body.put("response_format", format);
        }
    }
    if request.logprobs {
        body.put("logprobs", Node::Bool(true));
        body.put_some("top_logprobs", request.top_logprobs.map(compose::number));
    }
    let reasoning = request.reasoning.take();
    let effort = reasoning
        .as_ref()
        .and_then(|reasoning| reasoning.effort.as_deref());
    let sampling = [
        ("temperature", request.temperature.take()),
        ("top_p", request.top_p.take()),
    ];
    openai::Model::named(target.model).sample(effort, sampling, &mut body, &mut drops);
    if let Some(reasoning) = reasoning {
        body.put_some("reasoning_effort", reasoning.effort.map(Node::Text));
        reasoning.rest.drop_rest(&mut drops);
    }
    for (name, raw) in [
        ("verbosity", request.verbosity.take()),
        ("metadata", request.metadata.take()),
        ("safety_identifier", request.safety_identifier.take()),
        ("user", request.user.take()),
        ("prompt_cache_key", request.prompt_cache_key.take()),
        ("service_tier", request.service_tier.take()),
        (
            "prompt_cache_options",
            request.rest.take("prompt_cache_options"),
        ),
        (
            "prompt_cache_retention",
            request.rest.take("prompt_cache_retention"),
        ),
        ("moderation", request.rest.take("moderation")),
    ] {
        body.put_some(name, raw.map(|raw| compose::as_it_is(raw.text)));
    }
    let back = Back {
        names,
        saying: request.saying(),
    };
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(back),
    })
}

fn say<'a>(
    messages: &mut Messages<'a>,
    item: Item<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    if let Item::Reasoning {
        summary, content, ..
    } = &item
    {
        let texts = if content.is_empty() { summary } else { content };
        if !messages.thought(&texts.join("\n\n"), item.seal()) {
            drops.note("input[].reasoning");
        }
    }
    match item {
        Item::Message {
            role,
            content,
            rest,
        } => {
            match role {
                Role::Assistant => spoken(messages, content, drops),
                Role::User => messages.user(shown(content, drops)?),
                Role::System => messages.instruct_in("system", plain(content, drops)?),
                Role::Developer => messages.instruct_in("developer", plain(content, drops)?),
            }
            let mut rest = rest;
            // Which part of an answer it was, commentary or the last word, chat does not tell.
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
            let arguments = if custom {
                Cow::Owned(compose::free_arguments(&arguments))
            } else {
                arguments
            };
            messages.call(id, name, arguments, None);
            rest.drop_rest(drops);
        }
        Item::Output {
            id, content, rest, ..
        } => {
            let mut parts = shown(content, drops)?;
            for part in &mut parts {
                // A tool's message is one text.
                if let Part::Marked(text, _) = part {
                    drops.note("input[].output[].prompt_cache_breakpoint");
                    *part = Part::Text(std::mem::take(text));
                }
            }
            messages.output(id, parts, false);
            rest.drop_rest(drops);
        }
        Item::Reasoning { rest, .. } => rest.drop_rest(drops),
        Item::Other { name } => drops.note(&name),
    }
    Ok(())
}

fn spoken<'a>(messages: &mut Messages<'a>, content: Vec<Content<'a>>, drops: &mut Drops) {
    for part in content {
        match part {
            Content::Text { text, rest } => {
                messages.text(&text);
                rest.drop_rest(drops);
            }
            Content::Refusal { text } => messages.refusal(text),
            Content::Image { path, .. }
            | Content::File { path, .. }
            | Content::Audio { path, .. } => drops.note(&path),
        }
    }
}

/// Instructions: texts.
fn plain<'a>(content: Vec<Content<'a>>, drops: &mut Drops) -> Result<Vec<Part<'a>>, Box<Refusal>> {
    for part in &content {
        match part {
            Content::Text { .. } | Content::Refusal { .. } => {}
            Content::Image { path, .. }
            | Content::File { path, .. }
            | Content::Audio { path, .. } => {
                return Err(Refusal::invalid(path, "text in this place"));
            }
        }
    }
    shown(content, drops)
}

fn shown<'a>(content: Vec<Content<'a>>, drops: &mut Drops) -> Result<Vec<Part<'a>>, Box<Refusal>> {
    let mut parts = Vec::with_capacity(content.len());
    for part in content {
        let (part, rest) = match part {
            Content::Text { text, rest } => (Part::Text(text), Some(rest)),
            Content::Refusal { text } => (Part::Text(text), None),
            Content::Image {
                source: Media::Url(url),
                detail,
                rest,
                ..
            } => (compose::image(url, detail.map(|raw| raw.text)), Some(rest)),
            Content::File {
                source: Media::Url(data),
                name,
                rest,
                ..
            } if data.starts_with("data:") => (compose::file(data, name), Some(rest)),
            Content::File {
                source: Media::Base64(data),
                name,
                rest,
                ..
            } => (compose::file(data, name), Some(rest)),
            Content::Image { path, .. } | Content::File { path, .. } => {
                let why = "it is kept elsewhere; send its content";
                return Err(Refusal::unsupported(path, why));
            }
            Content::Audio { data, format, .. } => (compose::sound(data, format), None),
        };
        let Some(mut rest) = rest else {
            parts.push(part);
            continue;
        };
        let mark = rest.take("prompt_cache_breakpoint");
        parts.push(match mark {
            Some(mark) => part.marked(compose::as_it_is(mark.text)),
            None => part,
        });
        rest.drop_rest(drops);
    }
    Ok(parts)
}

fn declare<'a>(tool: Tool<'a>, names: &mut Names, drops: &mut Drops) -> Node<'a> {
    let name = names.said(tool.name);
    let description = tool.description.map(|raw| compose::as_it_is(raw.text));
    let declared = if tool.custom {
        if let Some(format) = tool.format.filter(|format| format.text.contains("grammar")) {
            drops.note(&format.path);
        }
        compose::free_text(name, description)
    } else {
        let parameters = tool.parameters.map(|raw| compose::as_it_is(raw.text));
        compose::function(name, description, parameters, tool.strict)
    };
    tool.rest.drop_rest(drops);
    declared
}

/// The way back.
#[derive(Debug)]
struct Back {
    names: Names,
    saying: super::responses::Saying,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::chat::reader::ChatReader::new(
            &self.saying.custom(),
            &self.names,
        ))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::responses::writer::ResponsesWriter::new(
            self.saying.clone(),
            head,
        ))
    }
}
