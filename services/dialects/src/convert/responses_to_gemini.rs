//! A caller of the Responses API served by a Gemini upstream.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::fields::{Drops, Fields, Raw, Refusal};
use super::gemini::compose::media;
use super::gemini::compose::model::{Model, Thought};
use super::gemini::compose::settings::{Settings, Tools};
use super::gemini::compose::{Contents, arguments, free_text};
use super::gemini::reader::GeminiReader;
use super::names::Names;
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::responses::{Choice, Content, Item, Media, Request, Role, TextFormat, Tool};
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
    if let Some(text) = request.instructions.take() {
        saying.contents.instruct(text);
    }
    for item in std::mem::take(&mut request.input) {
        saying.item(item)?;
    }
    let (mut body, mut names) = saying.contents.finish();
    let mut tools = Tools::default();
    for tool in std::mem::take(&mut request.tools) {
        declare(&mut tools, tool, &mut drops);
    }
    match request.choice.take() {
        None | Some(Choice::Auto) => {}
        Some(Choice::None) => tools.none(),
        Some(Choice::Required) => tools.required(&[]),
        Some(Choice::Tool { name, .. }) => tools.required(&[name]),
        Some(Choice::Allowed {
            required: true,
            names,
        }) => tools.required(&names),
        Some(Choice::Allowed { names, .. }) => tools.only(&names),
    }
    let custom = tools.finish(&mut names, &mut body);
    let settings = settings(&mut request, model, &mut drops);
    settings.finish(&mut body);
    if request.parallel_tool_calls == Some(false) {
        drops.note("parallel_tool_calls");
    }
    let tier = request.service_tier.take();
    let tier = tier.filter(|tier| !matches!(tier.text, r#""auto""# | r#""default""#));
    let verbosity = request.verbosity.take();
    let verbosity = verbosity.filter(|verbosity| verbosity.text != r#""medium""#);
    for left in [
        request.metadata.take(),
        request.safety_identifier.take(),
        request.user.take(),
        request.prompt_cache_key.take(),
        tier,
        verbosity,
    ]
    .into_iter()
    .flatten()
    {
        drops.note(&left.path);
    }
    let back = Back {
        saying: request.saying(),
        custom,
        names,
    };
    request.drop_rest(&mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(back),
    })
}

fn settings<'a>(request: &mut Request<'a>, model: Model, drops: &mut Drops) -> Settings<'a> {
    let mut settings = Settings::new();
    settings.number("maxOutputTokens", request.max_output_tokens);
    settings.raw("temperature", request.temperature.take());
    settings.raw("topP", request.top_p.take());
    match &request.format {
        TextFormat::Text => {}
        TextFormat::JsonObject => settings.json(None),
        TextFormat::JsonSchema {
            schema,
            description,
            ..
        } => {
            if let Some(raw) = description {
                drops.note(&raw.path);
            }
            settings.json(Some(schema));
        }
    }
    if request.logprobs {
        settings.put("responseLogprobs", Node::Bool(true));
        settings.number("logprobs", request.top_logprobs.filter(|top| *top > 0));
    }
    if let Some(reasoning) = &request.reasoning {
        let effort = reasoning.effort.as_deref();
        let show = reasoning.summary.is_some();
        let thought = effort.map_or(Thought::Dynamic, Thought::Effort);
        if effort.is_some() || show {
            match model.thinking(thought, show) {
                Some(config) => settings.put("thinkingConfig", config),
                None if effort == Some("none") => {}
                None => drops.note("reasoning"),
            }
        }
    }
    settings
}

fn declare<'a>(tools: &mut Tools<'a>, tool: Tool<'a>, drops: &mut Drops) {
    let description = tool.description.map(|raw| Node::raw(one_line(raw.text)));
    if tool.custom {
        tools.free_text(tool.name, description);
        if let Some(format) = tool.format.filter(|format| format.text.contains("grammar")) {
            drops.note(&format.path);
        }
    } else {
        tools.function(tool.name, description, tool.parameters.as_ref());
    }
    if tool.strict == Some(true) {
        drops.note(&format!("{}.strict", tool.path));
    }
    tool.rest.drop_rest(drops);
}

/// The conversation on its way.
struct Saying<'a, 'd> {
    contents: Contents<'a>,
    drops: &'d mut Drops,
}

impl<'a> Saying<'a, '_> {
    fn item(&mut self, item: Item<'a>) -> Result<(), Box<Refusal>> {
        match item {
            Item::Message {
                role,
                content,
                mut rest,
            } => {
                for part in content {
                    self.said(role, part)?;
                }
                for told in ["id", "status", "phase"] {
                    rest.take(told);
                }
                rest.drop_rest(self.drops);
            }
            Item::Reasoning {
                summary,
                content,
                encrypted,
                mut rest,
            } => {
                let text = match summary.is_empty() {
                    true => content.join("\n\n"),
                    false => summary.join("\n\n"),
                };
                let seal = encrypted
                    .as_deref()
                    .map(|text| super::seal::Seal::read(super::Format::Responses, text));
                if !self.contents.thought(Cow::Owned(text), seal) {
                    self.drops.note("input[].reasoning");
                }
                for told in ["id", "status"] {
                    rest.take(told);
                }
                rest.drop_rest(self.drops);
            }
            Item::Call {
                id,
                name,
                arguments: said,
                custom,
                mut rest,
                ..
            } => {
                let args = if custom {
                    free_text(&said)
                } else {
                    arguments(said)
                };
                self.contents.call((id, name), args, None);
                for told in ["id", "status"] {
                    rest.take(told);
                }
                rest.drop_rest(self.drops);
            }
            Item::Output {
                id,
                content,
                path,
                mut rest,
                ..
            } => {
                let (mut texts, mut media) = (Vec::new(), Vec::new());
                for part in content {
                    match self.shown(part)? {
                        Shown::Text(text) => texts.push(text),
                        Shown::Media(part) => media.push(part),
                    }
                }
                let id = (&*id, format!("{path}.call_id"));
                self.contents.answer(id, &texts.join("\n"), false, media)?;
                for told in ["id", "status"] {
                    rest.take(told);
                }
                rest.drop_rest(self.drops);
            }
            Item::Other { name } => self.drops.note(&name),
        }
        Ok(())
    }

    fn said(&mut self, role: Role, part: Content<'a>) -> Result<(), Box<Refusal>> {
        if let (
            Role::Assistant,
            Content::Image { path, .. } | Content::File { path, .. } | Content::Audio { path, .. },
        ) = (role, &part)
        {
            self.drops.note(path);
            return Ok(());
        }
        match (self.shown(part)?, role) {
            (Shown::Text(text), Role::User) => self.contents.user_text(text),
            (Shown::Text(text), Role::Assistant) => self.contents.model_text(text),
            (Shown::Text(text), Role::System | Role::Developer) => self.contents.instruct(text),
            (Shown::Media(part), _) => self.contents.user(part),
        }
        Ok(())
    }

    fn shown(&mut self, content: Content<'a>) -> Result<Shown<'a>, Box<Refusal>> {
        let (shown, rest): (_, Option<Fields<'a>>) = match content {
            Content::Text { text, rest } => (Shown::Text(text), Some(rest)),
            Content::Refusal { text } => (Shown::Text(text), None),
            Content::Image {
                source,
                detail,
                path,
                rest,
            } => {
                if let Some(detail) = detail.filter(|detail| detail.text != "\"auto\"") {
                    self.drops.note(&detail.path);
                }
                (Shown::Media(media(source, None, &path)?), Some(rest))
            }
            Content::File {
                source,
                name,
                path,
                rest,
            } => {
                // Of bytes without a type it tells that.
                if name.is_some() && !matches!(source, Media::Base64(_)) {
                    self.drops.note(&format!("{path}.filename"));
                }
                let part = media(source, name.as_deref(), &path)?;
                (Shown::Media(part), Some(rest))
            }
            Content::Audio { data, format, .. } => {
                (Shown::Media(media::sound(&format, data)), None)
            }
        };
        if let Some(rest) = rest {
            rest.drop_rest(self.drops);
        }
        Ok(shown)
    }
}

fn media<'a>(source: Media<'a>, name: Option<&str>, path: &str) -> Result<Node<'a>, Box<Refusal>> {
    match source {
        Media::Url(url) => media::at_url(url, path),
        Media::Base64(data) => Ok(media::file(name, data)),
        Media::Id(_) => Err(Refusal::unsupported(
            format!("{path}.file_id"),
            "the file is kept at OpenAI; send its content",
        )),
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
    saying: super::responses::Saying,
    custom: Vec<String>,
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(GeminiReader::new(&self.custom, &self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::responses::writer::ResponsesWriter::new(
            self.saying.clone(),
            head,
        ))
    }
}
