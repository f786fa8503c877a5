//! A Gemini caller served by a chat upstream.

use std::borrow::Cow;

use super::chat::compose::{self, Messages, Part};
use super::fields::{Drops, Raw, Refusal};
use super::gemini::request::{
    Config, Content, Mode, Output, Piece, Request, Role, drop_rest, given,
};
use super::names::Names;
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target, openai};

/// Puts the request into chat's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let mut drops = Drops::default();
    let mut messages = Messages::default();
    let mut system = Vec::new();
    for piece in request.system {
        let path = piece.path.clone();
        match shown(piece)? {
            Some(Part::Text(text) | Part::Marked(text, _)) => system.push(text),
            Some(Part::Other(_)) => return Err(Refusal::invalid(path, "text in this place")),
            None => {}
        }
    }
    messages.instruct("system", Cow::Owned(system.join("\n\n")));
    for turn in request.turns {
        match turn.role {
            Role::User => user(&mut messages, turn.pieces)?,
            Role::Model => model(&mut messages, turn.pieces, &mut drops),
        }
    }
    let mut body = compose::body(target.model, target.stream);
    let (messages, mut names) = messages.finish();
    body.put("messages", messages);
    let known: Vec<_> = request
        .functions
        .iter()
        .map(|one| names.said(one.name.clone()))
        .collect();
    let allowed = request.choice.allowed.into_iter();
    let allowed: Vec<_> = allowed.map(|name| names.said(name)).collect();
    let functions = request.functions.into_iter().zip(&known);
    let functions = functions.map(|(function, name)| {
        let description = function.description.map(Node::Text);
        compose::function(name.clone(), description, function.parameters, None)
    });
    let functions: Vec<_> = functions.collect();
    if !functions.is_empty() {
        body.put("tools", Node::Array(functions));
        body.put_some("tool_choice", choose(request.choice.mode, allowed, &known));
    }
    configure(&mut body, target.model, request.config, &mut drops);
    drop_rest(request.rest, &mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back { names }),
    })
}

fn choose<'a>(mode: Mode, allowed: Vec<Cow<'a, str>>, names: &[Cow<'a, str>]) -> Option<Node<'a>> {
    let required = match mode {
        Mode::Auto | Mode::Validated => false,
        Mode::Any => true,
        Mode::None => return Some(Node::text("none")),
    };
    if allowed.is_empty() || names.iter().all(|name| allowed.contains(name)) {
        return required.then(|| Node::text("required"));
    }
    match &allowed[..] {
        [only] if required => Some(compose::this_tool(only.clone())),
        _ => Some(compose::some_tools(allowed, required)),
    }
}

fn configure<'a>(body: &mut Node<'a>, model: &str, config: Config<'a>, drops: &mut Drops) {
    let candidates = config.candidates.0;
    if candidates > 1 {
        body.put("n", compose::number(candidates));
    }
    let effort = config.thinking.as_ref().and_then(|thinking| {
        let asked = thinking
            .effort()
            .map(|effort| Cow::Owned(effort.to_owned()));
        openai::effort(model, asked, &thinking.path, drops)
    });
    let sampling = [
        ("temperature", config.temperature),
        ("top_p", config.top_p),
        ("presence_penalty", config.presence_penalty),
        ("frequency_penalty", config.frequency_penalty),
    ];
    let model = openai::Model::named(model);
    model.sample(effort.as_deref(), sampling, body, drops);
    body.put_some("seed", config.seed.map(|raw| Node::raw(raw.text)));
    body.put_some(
        "max_completion_tokens",
        config.max_output.map(compose::number),
    );
    if let Some(raw) = config.top_k {
        drops.note(&raw.path);
    }
    let mut stop = config.stop;
    let most = model.stops();
    if stop.len() > most {
        stop.truncate(most);
        drops.note(&config.stop_path);
    }
    if !stop.is_empty() {
        body.put(
            "stop",
            Node::Array(stop.into_iter().map(Node::Text).collect()),
        );
    }
    match config.output {
        Output::Text => {}
        Output::Json => {
            let object = Node::object([("type", Node::text("json_object"))]);
            body.put("response_format", object);
        }
        Output::Schema(schema) => {
            let format = compose::schema_format("answer".into(), None, schema, None);
            body.put("response_format", format);
        }
    }
    if config.logprobs.is_some() {
        body.put("logprobs", Node::Bool(true));
        let top = config.top_logprobs.map(|raw| Node::raw(raw.text));
        body.put_some("top_logprobs", top);
    }
    body.put_some("reasoning_effort", effort.map(Node::Text));
}

fn user<'a>(messages: &mut Messages<'a>, pieces: Vec<Piece<'a>>) -> Result<(), Box<Refusal>> {
    let mut parts = Vec::new();
    for piece in pieces {
        let Content::Response {
            id,
            response,
            media,
            ..
        } = piece.content
        else {
            parts.extend(shown(piece)?);
            continue;
        };
        let given = given(response.as_ref());
        let mut output = vec![Part::Text(given.text)];
        for piece in media {
            output.extend(shown(piece)?);
        }
        messages.output(id, output, given.error);
    }
    if !parts.is_empty() {
        messages.user(parts);
    }
    Ok(())
}

fn model<'a>(messages: &mut Messages<'a>, pieces: Vec<Piece<'a>>, drops: &mut Drops) {
    let mut thought = String::new();
    for piece in pieces {
        let seal = piece.signature.as_deref();
        let seal = seal.map(|text| Seal::read(Format::Gemini, text));
        if !piece.thought {
            messages.thought(&std::mem::take(&mut thought), None);
        }
        match piece.content {
            Content::Text(text) if piece.thought => {
                // A seal comes in a part of its own, behind the text that it seals.
                thought.push_str(&text);
                if seal.is_some() && !messages.thought(&std::mem::take(&mut thought), seal) {
                    drops.note(&piece.path);
                }
                continue;
            }
            Content::Text(text) if text.is_empty() => {}
            Content::Text(text) => messages.text(&text),
            Content::Call { id, name, args } => {
                let args = args.map_or("{}", |raw| raw.text);
                if !messages.call(id, name, one_line(args), seal) {
                    drops.note(&piece.signature_path);
                }
                continue;
            }
            Content::Nothing => {}
            _ => drops.note(&piece.path),
        }
        if seal.is_some() {
            drops.note(&piece.signature_path);
        }
    }
    messages.thought(&thought, None);
}

/// A piece as a part of a content.
fn shown(piece: Piece<'_>) -> Result<Option<Part<'_>>, Box<Refusal>> {
    Ok(match piece.content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(Part::Text(text)),
        Content::Inline { mime, data, name } => {
            let url = || Cow::Owned(format!("data:{mime};base64,{data}"));
            match mime.split_once('/') {
                Some(("image", _)) => Some(compose::image(url(), None)),
                Some(("audio", "wav" | "x-wav" | "wave")) => {
                    Some(compose::sound(data, "wav".into()))
                }
                Some(("audio", "mp3" | "mpeg")) => Some(compose::sound(data, "mp3".into())),
                Some(("audio" | "video", _)) => {
                    let why = "it takes sound as wav or mp3 alone, and no film";
                    return Err(Refusal::unsupported(piece.path, why));
                }
                _ => Some(compose::file(url(), name)),
            }
        }
        Content::File { mime, uri } => {
            let image = mime.is_none_or(|mime| mime.starts_with("image/"));
            let kept = uri.contains("generativelanguage.googleapis.com");
            if !image || kept || !uri.starts_with("http") {
                let why = "it takes images from addresses that anyone can read, and nothing else";
                return Err(Refusal::unsupported(piece.path, why));
            }
            Some(compose::image(uri, None))
        }
        Content::Call { .. } | Content::Response { .. } => {
            return Err(Refusal::invalid(piece.path, "text or media in this place"));
        }
        Content::Nothing => None,
    })
}

/// The way back.
#[derive(Debug)]
struct Back {
    names: Names,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::chat::reader::ChatReader::new(&[], &self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::gemini::writer::GeminiWriter::new(&head))
    }
}
