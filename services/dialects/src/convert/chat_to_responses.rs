//! A chat caller served by an upstream of the Responses API (PROTOCOLS §11.4).

#[cfg(test)]
mod tests;

use super::chat::{
    AnswerShape, Choice, Content, FileSource, Message, Named, OutputFormat, Request, Tool,
};
use super::fields::{Drops, Raw, Refusal};
use super::names::Names;
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::responses::compose::{self, Items};
use super::{Answering, Opened, Target, openai};

/// Members that both dialects have under one name, with one meaning.
const SHARED: [&str; 8] = [
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "moderation",
];

/// Puts the request into the Responses dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let mut request = Request::read(body)?;
    if request.n > 1 {
        return Err(Refusal::unsupported("n", "it gives one answer at a time"));
    }
    let mut drops = Drops::default();
    let mut items = Items::default();
    for message in std::mem::take(&mut request.messages) {
        say(&mut items, message, &mut drops)?;
    }
    let mut body = compose::body(target.model, target.stream);
    let (input, mut names) = items.finish();
    body.put("input", input);
    let mut tools = Vec::new();
    for tool in std::mem::take(&mut request.tools) {
        tools.push(declare(tool, &mut names, &mut drops)?);
    }
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
    }
    let choice = request.choice.take();
    let choice = choice.map(|choice| choose(choice, &mut names));
    body.put_some("tool_choice", choice);
    let parallel = request.parallel_tool_calls.map(Node::Bool);
    body.put_some("parallel_tool_calls", parallel);
    body.put_some("max_output_tokens", request.max_output.map(compose::limit));
    let verbosity = request.rest.take("verbosity");
    let mut text = Node::object([]);
    text.put_some("format", format(&request.format));
    text.put_some("verbosity", verbosity.map(|raw| Node::raw(raw.text)));
    if text != Node::object([]) {
        body.put("text", text);
    }
    let effort = request.reasoning_effort.take();
    let sampling = ["temperature", "top_p"].map(|name| (name, request.rest.take(name)));
    let model = openai::Model::named(target.model);
    model.sample(effort.as_deref(), sampling, &mut body, &mut drops);
    if let Some(effort) = effort {
        body.put("reasoning", compose::reasoning(Some(effort)));
    }
    let reasons = openai::reasons(target.model);
    body.put_some("include", compose::include(reasons, request.logprobs));
    if request.logprobs {
        let top = request.top_logprobs.unwrap_or(0);
        body.put(
            "top_logprobs",
            Node::Number(i64::try_from(top).unwrap_or(20)),
        );
    }
    for name in SHARED {
        let shared = request.rest.take(name);
        body.put_some(name, shared.map(|raw| Node::raw(one_line(raw.text))));
    }
    if !request.stop.is_empty() {
        drops.note("stop");
    }
    let asked = request.asked;
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back { asked, names }),
    })
}

fn say<'a>(
    items: &mut Items<'a>,
    message: Message<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    let rest = match message {
        Message::Instructions {
            developer,
            content,
            rest,
        } => {
            let role = if developer { "developer" } else { "system" };
            items.message(role, shown(content, drops)?);
            rest
        }
        Message::User { content, rest } => {
            items.message("user", shown(content, drops)?);
            rest
        }
        Message::Assistant {
            thoughts,
            content,
            calls,
            rest,
            ..
        } => {
            for thought in &thoughts {
                if !items.reasoning(&thought.text, thought.seal()) {
                    drops.note(&thought.path);
                }
            }
            items.message("assistant", spoken(content, drops));
            for call in calls {
                let drop = call.seal().map(|_| format!("{}.extra_content", call.path));
                drop.iter().for_each(|path| drops.note(path));
                items.call(call.id, call.name, call.arguments, call.custom);
                call.rest.into_iter().for_each(|rest| rest.drop_rest(drops));
            }
            rest
        }
        Message::Tool {
            id, content, rest, ..
        } => {
            items.output(id, shown(content, drops)?);
            rest
        }
    };
    rest.drop_rest(drops);
    Ok(())
}

/// What the model said before.
fn spoken<'a>(content: Vec<Content<'a>>, drops: &mut Drops) -> Vec<Node<'a>> {
    let mut parts = Vec::with_capacity(content.len());
    for part in content {
        match part {
            Content::Text { text, rest } => {
                parts.push(compose::output_text(text));
                rest.drop_rest(drops);
            }
            Content::Refusal { text } => parts.push(compose::refusal(text)),
            Content::Image { path, .. }
            | Content::Audio { path, .. }
            | Content::File { path, .. } => drops.note(&path),
        }
    }
    parts
}

/// What goes in.
fn shown<'a>(content: Vec<Content<'a>>, drops: &mut Drops) -> Result<Vec<Node<'a>>, Box<Refusal>> {
    let mut parts = Vec::with_capacity(content.len());
    for part in content {
        let (mut part, mut rest) = match part {
            Content::Text { text, rest } => (compose::input_text(text), rest),
            Content::Refusal { text } => {
                parts.push(compose::input_text(text));
                continue;
            }
            Content::Image {
                url, detail, rest, ..
            } => (compose::image(url, detail.map(|raw| raw.text)), rest),
            Content::Audio { path, .. } => {
                return Err(Refusal::unsupported(path, "it hears no sound"));
            }
            Content::File {
                source: FileSource::Id(id),
                rest,
                ..
            } => (compose::file("file_id", id, None), rest),
            Content::File {
                source: FileSource::Data(data),
                name,
                rest,
                ..
            } => (compose::file("file_data", data, name), rest),
        };
        let mark = rest.take("prompt_cache_breakpoint");
        part.put_some(
            "prompt_cache_breakpoint",
            mark.map(|raw| Node::raw(one_line(raw.text))),
        );
        rest.drop_rest(drops);
        parts.push(part);
    }
    Ok(parts)
}

fn declare<'a>(
    tool: Tool<'a>,
    names: &mut Names,
    drops: &mut Drops,
) -> Result<Node<'a>, Box<Refusal>> {
    let as_it_is = |raw: Raw<'a>| Node::raw(one_line(raw.text));
    let (tool, rest) = match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            rest,
            ..
        } => {
            let (description, parameters) = (description.map(as_it_is), parameters.map(as_it_is));
            let strict = strict.unwrap_or(false);
            (
                compose::function(names.said(name), description, parameters, strict),
                rest,
            )
        }
        Tool::Custom {
            name,
            description,
            format,
            rest,
            ..
        } => {
            let mut tool = compose::this_tool(names.said(name), true);
            tool.put_some("description", description.map(as_it_is));
            let format = format.map(|format| flat(&format, drops)).transpose()?;
            tool.put_some("format", format);
            (tool, rest)
        }
        Tool::Other { kind, path } => {
            let why = format!("it has no tool of type `{kind}`");
            return Err(Refusal::unsupported(path, &why));
        }
    };
    rest.into_iter().for_each(|rest| rest.drop_rest(drops));
    Ok(tool)
}

/// The form of free text: chat has a grammar in an object of its own.
fn flat<'a>(format: &Raw<'a>, drops: &mut Drops) -> Result<Node<'a>, Box<Refusal>> {
    let mut fields = format.fields()?;
    let kind = fields.need("type", "`text` or `grammar`")?;
    let mut flat = Node::object([("type", Node::raw(kind.text))]);
    if let Some(mut grammar) = fields.fields("grammar")? {
        for name in ["definition", "syntax"] {
            let member = grammar.take(name);
            flat.put_some(name, member.map(|raw| Node::raw(raw.text)));
        }
        grammar.drop_rest(drops);
    }
    fields.drop_rest(drops);
    Ok(flat)
}

fn choose<'a>(choice: Choice<'a>, names: &mut Names) -> Node<'a> {
    let mut this = |named: Named<'a>| compose::this_tool(names.said(named.name), named.custom);
    match choice {
        Choice::None => Node::text("none"),
        Choice::Auto => Node::text("auto"),
        Choice::Required => Node::text("required"),
        Choice::Tool(named) => this(named),
        Choice::Allowed { required, tools } => Node::object([
            ("type", Node::text("allowed_tools")),
            (
                "mode",
                Node::text(if required { "required" } else { "auto" }),
            ),
            ("tools", Node::Array(tools.into_iter().map(this).collect())),
        ]),
    }
}

fn format<'a>(format: &OutputFormat<'a>) -> Option<Node<'a>> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(Node::object([("type", Node::text("json_object"))])),
        OutputFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => {
            let description = description.as_ref().map(|raw| Node::raw(raw.text));
            let schema = schema.as_ref().map(|raw| raw.text);
            Some(compose::schema_format(
                name.clone(),
                description,
                schema,
                *strict,
            ))
        }
    }
}

/// The way back.
#[derive(Debug)]
struct Back {
    asked: AnswerShape,
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::responses::reader::ResponsesReader::new(&self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::chat::writer::ChatWriter::new(self.asked, head))
    }
}
