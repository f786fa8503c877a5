//! A chat caller served by an Anthropic upstream (PROTOCOLS §11.1).

use std::borrow::Cow;

use super::anthropic::compose::{self, Choice, Turns};
use super::chat::{self, AnswerShape, Content, FileSource, Message, OutputFormat, Request, Tool};
use super::fields::{Drops, Raw, Refusal};
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::{Answering, Opened, Target};

/// Puts the request into Anthropic's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let mut request = Request::read(body)?;
    request.one_plain_answer()?;
    let mut drops = Drops::default();
    let mut turns = Turns::default();
    if matches!(request.format, OutputFormat::JsonObject) {
        turns.instruct(compose::JSON_ONLY.into());
    }
    for message in std::mem::take(&mut request.messages) {
        say(&mut turns, message, &mut drops)?;
    }
    let mut body = Node::object([("model", Node::text(target.model))]);
    if target.stream {
        body.put("stream", Node::Bool(true));
    }
    turns.finish(&mut body);
    let (choice, only) = choose(request.choice.take());
    let mut custom = Vec::new();
    let mut tools = Vec::new();
    for tool in std::mem::take(&mut request.tools) {
        let declared = declare(tool, &only, &mut custom, &mut drops)?;
        tools.extend(declared);
    }
    let forced = choice.as_ref().is_some_and(Choice::forces);
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
        let one_call = request.parallel_tool_calls == Some(false);
        body.put_some("tool_choice", compose::choice(choice, one_call));
    }
    let effort = request.reasoning_effort.as_deref();
    let thought = compose::think(
        target.model,
        effort,
        request.max_output,
        target.max_output,
        forced,
    );
    let thinks = thought.thinking.is_some();
    if effort.is_some_and(|effort| effort != "none") && !thinks {
        drops.note("reasoning_effort");
    }
    body.put("max_tokens", chat::compose::number(thought.limit));
    body.put_some("thinking", thought.thinking);
    let schema = match &request.format {
        OutputFormat::JsonSchema {
            schema,
            description,
            ..
        } => {
            if let Some(raw) = description {
                drops.note(&raw.path);
            }
            let any = Node::raw(r#"{"type":"object"}"#);
            Some(
                schema
                    .as_ref()
                    .map_or(any, |raw| Node::raw(one_line(raw.text))),
            )
        }
        OutputFormat::Text | OutputFormat::JsonObject => None,
    };
    body.put_some(
        "output_config",
        compose::output_config(thought.effort, schema),
    );
    if let Some(raw) = request.rest.take("temperature") {
        match compose::temperature(raw.text, thinks) {
            Some(number) => body.put("temperature", number),
            None => drops.note(&raw.path),
        }
    }
    if let Some(raw) = request.rest.take("top_p") {
        match thinks {
            false => body.put("top_p", Node::raw(raw.text)),
            true => drops.note(&raw.path),
        }
    }
    if request.stop.iter().any(|stop| stop.trim().is_empty()) {
        // It takes none that is nothing but white space.
        request.stop.retain(|stop| !stop.trim().is_empty());
        drops.note("stop");
    }
    if !request.stop.is_empty() {
        let stop = std::mem::take(&mut request.stop);
        body.put(
            "stop_sequences",
            Node::Array(stop.into_iter().map(Node::Text).collect()),
        );
    }
    let user = request.rest.take("safety_identifier");
    let older = request.rest.take("user");
    if let Some(raw) = user.or(older) {
        body.put("metadata", Node::object([("user_id", Node::raw(raw.text))]));
    }
    let asked = request.asked;
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back { asked, custom }),
    })
}

/// The choice, and the tools that are left where it names some of them.
fn choose(choice: Option<chat::Choice<'_>>) -> (Option<Choice<'_>>, Option<Vec<Cow<'_, str>>>) {
    match choice {
        None => (None, None),
        Some(chat::Choice::None) => (Some(Choice::None), None),
        Some(chat::Choice::Auto) => (Some(Choice::Auto), None),
        Some(chat::Choice::Required) => (Some(Choice::Any), None),
        Some(chat::Choice::Tool(named)) => (Some(Choice::Tool(named.name)), None),
        Some(chat::Choice::Allowed { required, tools }) => {
            let names = tools.into_iter().map(|named| named.name).collect();
            let choice = if required { Choice::Any } else { Choice::Auto };
            (Some(choice), Some(names))
        }
    }
}

fn declare<'a>(
    tool: Tool<'a>,
    only: &Option<Vec<Cow<'a, str>>>,
    custom: &mut Vec<String>,
    drops: &mut Drops,
) -> Result<Option<Node<'a>>, Box<Refusal>> {
    let as_it_is = |raw: Raw<'a>| Node::raw(one_line(raw.text));
    let left = |name: &Cow<'a, str>| only.as_ref().is_none_or(|only| only.contains(name));
    let (declared, rest) = match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            rest,
            ..
        } => {
            let (description, schema) = (description.map(as_it_is), parameters.map(as_it_is));
            let is_left = left(&name);
            let tool = compose::tool(name, description, schema, strict);
            (is_left.then_some(tool), rest)
        }
        Tool::Custom {
            name,
            description,
            format,
            rest,
            ..
        } => {
            if let Some(format) = format.filter(|format| format.text.contains("grammar")) {
                drops.note(&format.path);
            }
            custom.push(name.clone().into_owned());
            let is_left = left(&name);
            let tool = compose::free_tool(name, description.map(as_it_is));
            (is_left.then_some(tool), rest)
        }
        Tool::Other { kind, path } => {
            let why = format!("it has no tool of type `{kind}`");
            return Err(Refusal::unsupported(path, &why));
        }
    };
    let mut declared = declared;
    for mut rest in rest {
        // Many clients mark what is to be cached in Anthropic's own way.
        if let (Some(tool), Some(mark)) = (&mut declared, rest.take("cache_control")) {
            tool.put("cache_control", Node::raw(one_line(mark.text)));
        }
        rest.drop_rest(drops);
    }
    Ok(declared)
}

fn say<'a>(
    turns: &mut Turns<'a>,
    message: Message<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    let rest = match message {
        Message::Instructions { content, rest, .. } => {
            for part in content {
                match part {
                    Content::Text { text, rest } => {
                        turns.instruct(text);
                        rest.drop_rest(drops);
                    }
                    Content::Refusal { text } => turns.instruct(text),
                    Content::Image { path, .. }
                    | Content::Audio { path, .. }
                    | Content::File { path, .. } => {
                        return Err(Refusal::invalid(path, "text in this place"));
                    }
                }
            }
            rest
        }
        Message::User { content, rest } => {
            for part in content {
                turns.user(shown(part, drops)?);
            }
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
                if !turns.thought(&thought.text, thought.seal()) {
                    drops.note(&thought.path);
                }
            }
            for part in content {
                match part {
                    Content::Text { text, rest } => {
                        turns.text(text);
                        rest.drop_rest(drops);
                    }
                    Content::Refusal { text } => turns.text(text),
                    Content::Image { path, .. }
                    | Content::Audio { path, .. }
                    | Content::File { path, .. } => drops.note(&path),
                }
            }
            for call in calls {
                if call.seal().is_some() {
                    drops.note(&format!("{}.extra_content", call.path));
                }
                let input = match call.custom {
                    true => compose::free_input(call.arguments),
                    false => compose::input(call.arguments),
                };
                turns.call(call.id, call.name, input);
                call.rest.into_iter().for_each(|rest| rest.drop_rest(drops));
            }
            rest
        }
        Message::Tool {
            id, content, rest, ..
        } => {
            let mut given = Vec::with_capacity(content.len());
            for part in content {
                given.push(shown(part, drops)?);
            }
            turns.result(id, given, false);
            rest
        }
    };
    rest.drop_rest(drops);
    Ok(())
}

fn shown<'a>(content: Content<'a>, drops: &mut Drops) -> Result<Node<'a>, Box<Refusal>> {
    let (mut block, mut rest) = match content {
        Content::Text { text, rest } => (compose::text_block(text), rest),
        Content::Refusal { text } => return Ok(compose::text_block(text)),
        Content::Image {
            url,
            detail,
            path,
            rest,
        } => {
            if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                drops.note(&detail.path);
            }
            (compose::media(url, true, &path)?, rest)
        }
        Content::Audio { path, .. } => {
            return Err(Refusal::unsupported(path, "it hears no sound"));
        }
        Content::File {
            source: FileSource::Id(_),
            path,
            ..
        } => {
            return Err(Refusal::unsupported(
                format!("{path}.file.file_id"),
                "the file is kept at OpenAI; send its content as `file_data`",
            ));
        }
        Content::File {
            source: FileSource::Data(data),
            name,
            path,
            rest,
        } => {
            let mut block = if data.starts_with("data:") {
                compose::media(data, false, &path)?
            } else {
                compose::inline_media("application/pdf".into(), data, &path)?
            };
            block.put_some("title", name.map(Node::Text));
            (block, rest)
        }
    };
    let breakpoint = rest
        .take("prompt_cache_breakpoint")
        .map(|_| r#"{"type":"ephemeral"}"#);
    let own = rest.take("cache_control").map(|mark| mark.text);
    let mark = own.or(breakpoint).map(|mark| Node::raw(one_line(mark)));
    block.put_some("cache_control", mark);
    rest.drop_rest(drops);
    Ok(block)
}

/// The way back.
#[derive(Debug)]
struct Back {
    asked: AnswerShape,
    custom: Vec<String>,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::anthropic::reader::AnthropicReader::new(&self.custom))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::chat::writer::ChatWriter::new(self.asked, head))
    }
}
