//! A chat caller served by a Gemini upstream.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::chat::{
    AnswerShape, Call, Choice, Content, FileSource, Message, OutputFormat, Request, Tool,
};
use super::fields::{Drops, Fields, Raw, Refusal};
use super::gemini::compose::media;
use super::gemini::compose::model::{Model, Thought};
use super::gemini::compose::settings::{Settings, Tools};
use super::gemini::compose::{Contents, arguments, free_text};
use super::gemini::reader::GeminiReader;
use super::names::Names;
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::{Answering, Opened, Target};

/// Puts the request into Gemini's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let mut request = Request::read(body)?;
    let mut drops = Drops::default();
    let model = Model::named(target.model);
    let mut saying = Saying {
        contents: Contents::new(model),
        drops: &mut drops,
    };
    for message in std::mem::take(&mut request.messages) {
        saying.message(message)?;
    }
    let (mut body, mut names) = saying.contents.finish();
    let mut tools = Tools::default();
    for tool in std::mem::take(&mut request.tools) {
        declare(&mut tools, tool, &mut drops)?;
    }
    choose(&mut tools, request.choice.take());
    let custom = tools.finish(&mut names, &mut body);
    if request.parallel_tool_calls == Some(false) && !request.asked.functions {
        drops.note("parallel_tool_calls");
    }
    let mut settings = Settings::new();
    settings.number("maxOutputTokens", request.max_output);
    settings.number("candidateCount", Some(request.n).filter(|n| *n > 1));
    for (theirs, ours) in [
        ("temperature", "temperature"),
        ("topP", "top_p"),
        ("presencePenalty", "presence_penalty"),
        ("frequencyPenalty", "frequency_penalty"),
    ] {
        settings.raw(theirs, request.rest.take(ours));
    }
    let seed = request.rest.take("seed");
    if let Some(seed) = seed {
        // It has 32 bits there.
        match seed.text.trim().parse::<i32>() {
            Ok(_) => settings.raw("seed", Some(seed)),
            Err(_) => drops.note(&seed.path),
        }
    }
    settings.stop(std::mem::take(&mut request.stop), "stop", &mut drops);
    match &request.format {
        OutputFormat::Text => {}
        OutputFormat::JsonObject => settings.json(None),
        OutputFormat::JsonSchema {
            schema,
            description,
            ..
        } => {
            if let Some(raw) = description {
                drops.note(&raw.path);
            }
            settings.json(schema.as_ref());
        }
    }
    if request.logprobs {
        settings.put("responseLogprobs", Node::Bool(true));
        settings.number("logprobs", request.top_logprobs.filter(|top| *top > 0));
    }
    if let Some(effort) = &request.reasoning_effort {
        match model.thinking(Thought::Effort(effort), effort != "none") {
            Some(config) => settings.put("thinkingConfig", config),
            None if effort == "none" => {}
            None => drops.note("reasoning_effort"),
        }
    }
    settings.finish(&mut body);
    let asked = request.asked;
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back {
            asked,
            custom,
            names,
        }),
    })
}

fn declare<'a>(
    tools: &mut Tools<'a>,
    tool: Tool<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    let said = |raw: Raw<'a>| Node::raw(one_line(raw.text));
    let rest = match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            path,
            rest,
            older,
            ..
        } => {
            tools.function(name, description.map(said), parameters.as_ref());
            if strict == Some(true) {
                let inner = if older { "" } else { ".function" };
                drops.note(&format!("{path}{inner}.strict"));
            }
            rest
        }
        Tool::Custom {
            name,
            description,
            format,
            rest,
            ..
        } => {
            tools.free_text(name, description.map(said));
            if let Some(format) = format.filter(|format| format.text.contains("grammar")) {
                drops.note(&format.path);
            }
            rest
        }
        Tool::Other { kind, path } => {
            return Err(Refusal::unsupported(
                path,
                &format!("it has no tool of type `{kind}`"),
            ));
        }
    };
    rest.into_iter().for_each(|rest| rest.drop_rest(drops));
    Ok(())
}

fn choose<'a>(tools: &mut Tools<'a>, choice: Option<Choice<'a>>) {
    match choice {
        None | Some(Choice::Auto) => {}
        Some(Choice::None) => tools.none(),
        Some(Choice::Required) => tools.required(&[]),
        Some(Choice::Tool(named)) => tools.required(&[named.name]),
        Some(Choice::Allowed {
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

/// The conversation on its way.
struct Saying<'a, 'd> {
    contents: Contents<'a>,
    drops: &'d mut Drops,
}

impl<'a> Saying<'a, '_> {
    fn message(&mut self, message: Message<'a>) -> Result<(), Box<Refusal>> {
        match message {
            Message::Instructions { content, rest, .. } => {
                for part in content {
                    match self.shown(part)? {
                        Shown::Text(text) => self.contents.instruct(text),
                        Shown::Media(part) => self.contents.user(part),
                    }
                }
                rest.drop_rest(self.drops);
            }
            Message::User { content, rest } => {
                for part in content {
                    match self.shown(part)? {
                        Shown::Text(text) => self.contents.user_text(text),
                        Shown::Media(part) => self.contents.user(part),
                    }
                }
                rest.drop_rest(self.drops);
            }
            Message::Assistant {
                thoughts,
                content,
                calls,
                rest,
                ..
            } => {
                for thought in thoughts {
                    let seal = thought.seal();
                    if !self.contents.thought(thought.text.clone(), seal) {
                        self.drops.note(&thought.path);
                    }
                }
                for part in content {
                    match part {
                        Content::Image { path, .. }
                        | Content::Audio { path, .. }
                        | Content::File { path, .. } => self.drops.note(&path),
                        text => {
                            if let Shown::Text(text) = self.shown(text)? {
                                self.contents.model_text(text);
                            }
                        }
                    }
                }
                calls.into_iter().for_each(|call| self.call(call));
                rest.drop_rest(self.drops);
            }
            Message::Tool {
                id,
                content,
                path,
                rest,
            } => {
                let (mut texts, mut media) = (Vec::new(), Vec::new());
                for part in content {
                    match self.shown(part)? {
                        Shown::Text(text) => texts.push(text),
                        Shown::Media(part) => media.push(part),
                    }
                }
                let id = (&*id, format!("{path}.tool_call_id"));
                self.contents.answer(id, &texts.join("\n"), false, media)?;
                rest.drop_rest(self.drops);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: Call<'a>) {
        let args = if call.custom {
            free_text(&call.arguments)
        } else {
            arguments(call.arguments.clone())
        };
        let stranger = call
            .seal()
            .is_some_and(|seal| seal.for_target(super::Format::Gemini).is_none());
        if stranger {
            self.drops.note(&format!("{}.extra_content", call.path));
        }
        let named = (call.id.clone(), call.name.clone());
        self.contents.call(named, args, call.seal());
        for rest in call.rest {
            rest.drop_rest(self.drops);
        }
    }

    fn shown(&mut self, content: Content<'a>) -> Result<Shown<'a>, Box<Refusal>> {
        let (shown, rest): (_, Option<Fields<'a>>) = match content {
            Content::Text { text, rest } => (Shown::Text(text), Some(rest)),
            Content::Refusal { text } => (Shown::Text(text), None),
            Content::Image {
                url,
                detail,
                path,
                rest,
            } => {
                if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                    self.drops.note(&detail.path);
                }
                (Shown::Media(media::at_url(url, &path)?), Some(rest))
            }
            Content::Audio {
                data, format, rest, ..
            } => (Shown::Media(media::sound(&format, data)), Some(rest)),
            Content::File {
                source,
                name,
                path,
                rest,
            } => {
                let part = match source {
                    FileSource::Data(data) if data.starts_with("data:") => {
                        if name.is_some() {
                            self.drops.note(&format!("{path}.file.filename"));
                        }
                        media::at_url(data, &path)?
                    }
                    FileSource::Data(data) => media::file(name.as_deref(), data),
                    FileSource::Id(_) => {
                        return Err(Refusal::unsupported(
                            format!("{path}.file.file_id"),
                            "the file is kept at OpenAI; send its content as `file_data`",
                        ));
                    }
                };
                (Shown::Media(part), Some(rest))
            }
        };
        if let Some(rest) = rest {
            rest.drop_rest(self.drops);
        }
        Ok(shown)
    }
}

/// A part of a message.
enum Shown<'a> {
    Text(Cow<'a, str>),
    Media(Node<'a>),
}

/// The way back.
#[derive(Debug)]
struct Back {
    asked: AnswerShape,
    custom: Vec<String>,
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(GeminiReader::new(&self.custom, &self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::chat::writer::ChatWriter::new(self.asked, head))
    }
}
