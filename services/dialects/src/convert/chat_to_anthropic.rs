//! A chat caller served by an Anthropic upstream (PROTOCOLS §11.1).

use super::anthropic::compose::model::{Asked, Model};
use super::anthropic::compose::settings::{self, Output, Settings};
use super::anthropic::compose::tools::{Tools, object_schema};
use super::anthropic::compose::{self, Turns, mark, media};
use super::anthropic::reader::{AnthropicReader, Way};
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
    for message in std::mem::take(&mut request.messages) {
        say(&mut turns, message, &mut drops)?;
    }
    let mut tools = Tools::default();
    let model = Model::named(target.model);
    for tool in std::mem::take(&mut request.tools) {
        declare(&mut tools, tool, model, &mut drops)?;
    }
    choose(&mut tools, request.choice.take());
    if request.parallel_tool_calls == Some(false) {
        tools.one_call();
    }
    let effort = request.reasoning_effort.take();
    let thought = effort.as_deref();
    let older = request.rest.take("user");
    let user = match (request.rest.take("safety_identifier"), older) {
        (Some(user), older) => {
            older.iter().for_each(|older| drops.note(&older.path));
            Some(user)
        }
        (None, older) => older,
    };
    if let OutputFormat::JsonSchema {
        description: Some(raw),
        ..
    } = &request.format
    {
        drops.note(&raw.path);
    }
    let settings = Settings {
        limit: request.max_output,
        thought: thought.map(|effort| (Asked::Effort(effort), "reasoning_effort")),
        show: true,
        temperature: request.rest.take("temperature"),
        top_p: request.rest.take("top_p"),
        top_k: None,
        output: match &request.format {
            OutputFormat::Text => Output::Text,
            OutputFormat::JsonSchema {
                schema: Some(schema),
                ..
            } => Output::Schema(object_schema(schema)),
            OutputFormat::JsonObject | OutputFormat::JsonSchema { .. } => Output::Json,
        },
        stop: (std::mem::take(&mut request.stop), "stop"),
        user,
    };
    let (body, way) = settings::request(target, turns, tools, settings, &mut drops);
    let asked = request.asked;
    request.drop_rest(&mut drops);
    Ok(Opened {
        body,
        dropped: drops,
        answering: Box::new(Back { asked, way }),
    })
}

fn choose<'a>(tools: &mut Tools<'a>, choice: Option<chat::Choice<'a>>) {
    match choice {
        None | Some(chat::Choice::Auto) => {}
        Some(chat::Choice::None) => tools.none(),
        Some(chat::Choice::Required) => tools.required(&[]),
        Some(chat::Choice::Tool(named)) => tools.required(&[named.name]),
        Some(chat::Choice::Allowed {
            required,
            tools: named,
        }) => {
            let names: Vec<_> = named.into_iter().map(|named| named.name).collect();
            if required {
                tools.required(&names);
            } else {
                tools.only(&names);
            }
        }
    }
}

fn declare<'a>(
    tools: &mut Tools<'a>,
    tool: Tool<'a>,
    model: Model,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    let as_it_is = |raw: Raw<'a>| Node::raw(one_line(raw.text));
    let rest = match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            path,
            mut rest,
            older,
            ..
        } => {
            let [outer, inner] = &mut rest;
            let mark = mark(outer).or(mark(inner));
            let schema = parameters.map(|raw| Node::raw(one_line(raw.text)));
            let strict = strict == Some(true);
            if strict && !model.has_schemas() {
                let inner = if older { "" } else { ".function" };
                drops.note(&format!("{path}{inner}.strict"));
            }
            let strict = strict && model.has_schemas();
            tools.function(name, description.map(as_it_is), schema, strict, mark);
            rest
        }
        Tool::Custom {
            name,
            description,
            format,
            mut rest,
            ..
        } => {
            if let Some(format) = format.filter(|format| format.text.contains("grammar")) {
                drops.note(&format.path);
            }
            let [outer, inner] = &mut rest;
            let mark = mark(outer).or(mark(inner));
            tools.free_text(name, description.map(as_it_is), mark);
            rest
        }
        Tool::Other { kind, path } => {
            let why = format!("it has no tool of type `{kind}`");
            return Err(Refusal::unsupported(path, &why));
        }
    };
    rest.into_iter().for_each(|rest| rest.drop_rest(drops));
    Ok(())
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
                    Content::Text { text, mut rest } => {
                        turns.instruct(text, mark(&mut rest));
                        rest.drop_rest(drops);
                    }
                    Content::Refusal { text } => turns.instruct(text, None),
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
                match part {
                    Content::Text { text, mut rest } => {
                        turns.user_text(text, mark(&mut rest));
                        rest.drop_rest(drops);
                    }
                    part => turns.user(shown(part, drops)?),
                }
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
                    Content::Text { text, mut rest } => {
                        turns.text(text, mark(&mut rest));
                        rest.drop_rest(drops);
                    }
                    Content::Refusal { text } => turns.text(text, None),
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
                turns.call(&call.id, &call.name, input);
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
            turns.result(&id, given, false);
            rest
        }
    };
    rest.drop_rest(drops);
    Ok(())
}

fn shown<'a>(content: Content<'a>, drops: &mut Drops) -> Result<Node<'a>, Box<Refusal>> {
    let (mut block, mut rest) = match content {
        Content::Text { text, rest } => (compose::text_block(text, None), rest),
        Content::Refusal { text } => return Ok(compose::text_block(text, None)),
        Content::Image {
            url,
            detail,
            path,
            rest,
        } => {
            if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                drops.note(&detail.path);
            }
            (media::at_url(url, true, &path)?, rest)
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
                media::at_url(data, false, &path)?
            } else {
                media::file(name.as_deref(), data, &path)?
            };
            block.put_some("title", name.map(Node::Text));
            (block, rest)
        }
    };
    block.put_some("cache_control", mark(&mut rest));
    rest.drop_rest(drops);
    Ok(block)
}

/// The way back.
#[derive(Debug)]
struct Back {
    asked: AnswerShape,
    way: Way,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(AnthropicReader::new(&self.way))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::chat::writer::ChatWriter::new(self.asked, head))
    }
}
