//! A Gemini caller served by an upstream of the Responses API.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::fields::{Drops, Raw, Refusal};
use super::gemini::request::{
    Config, Content, Mode, Output, Piece, Request, Role, drop_rest, given,
};
use super::names::Names;
use super::node::Node;
use super::part::{Head, Reader, Writer};
use super::responses::compose::{self, Items};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target, openai};

/// Puts the request into the Responses dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let mut drops = Drops::default();
    let mut items = Items::default();
    let mut system = Vec::new();
    for piece in request.system {
        system.extend(shown(piece)?);
    }
    items.message("system", system);
    for turn in request.turns {
        match turn.role {
            Role::User => user(&mut items, turn.pieces)?,
            Role::Model => model(&mut items, turn.pieces, &mut drops)?,
        }
    }
    let mut body = compose::body(target.model, target.stream);
    let (input, mut names) = items.finish();
    body.put("input", input);
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
        compose::function(name.clone(), description, function.parameters, false)
    });
    let functions: Vec<_> = functions.collect();
    if !functions.is_empty() {
        body.put("tools", Node::Array(functions));
        body.put_some("tool_choice", choose(request.choice.mode, allowed, &known));
    }
    configure(&mut body, target.model, request.config, &mut drops)?;
    drop_rest(request.rest, &mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back { names }),
    })
}

fn choose<'a>(mode: Mode, allowed: Vec<Cow<'a, str>>, names: &[Cow<'a, str>]) -> Option<Node<'a>> {
    let word = match mode {
        Mode::Auto | Mode::Validated => "auto",
        Mode::Any => "required",
        Mode::None => return Some(Node::text("none")),
    };
    if allowed.is_empty() || names.iter().all(|name| allowed.contains(name)) {
        return (word != "auto").then(|| Node::text(word));
    }
    if let ([only], "required") = (&allowed[..], word) {
        return Some(compose::this_tool(only.clone(), false));
    }
    let tools = allowed
        .into_iter()
        .map(|name| compose::this_tool(name, false));
    Some(Node::object([
        ("type", Node::text("allowed_tools")),
        ("mode", Node::text(word)),
        ("tools", Node::Array(tools.collect())),
    ]))
}

fn configure<'a>(
    body: &mut Node<'a>,
    model: &str,
    config: Config<'a>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    if config.candidates.0 > 1 {
        return Err(Refusal::unsupported(
            config.candidates.1,
            "it gives one answer at a time",
        ));
    }
    let effort = config.thinking.as_ref().and_then(|thinking| {
        let asked = thinking
            .effort()
            .map(|effort| Cow::Owned(effort.to_owned()));
        openai::effort(model, asked, &thinking.path, drops)
    });
    let sampling = [("temperature", config.temperature), ("top_p", config.top_p)];
    openai::Model::named(model).sample(effort.as_deref(), sampling, body, drops);
    body.put_some("max_output_tokens", config.max_output.map(compose::limit));
    for raw in [
        config.top_k,
        config.seed,
        config.presence_penalty,
        config.frequency_penalty,
    ]
    .into_iter()
    .flatten()
    {
        drops.note(&raw.path);
    }
    if !config.stop.is_empty() {
        drops.note(&config.stop_path);
    }
    let format = match config.output {
        Output::Text => None,
        Output::Json => Some(Node::object([("type", Node::text("json_object"))])),
        Output::Schema(schema) => Some(Node::object([
            ("type", Node::text("json_schema")),
            ("name", Node::text("answer")),
            ("schema", schema),
            ("strict", Node::Bool(false)),
        ])),
    };
    if let Some(format) = format {
        body.put("text", Node::object([("format", format)]));
    }
    let logprobs = config.logprobs.is_some();
    let reasons = openai::reasons(model);
    body.put_some("include", compose::include(reasons, logprobs));
    if logprobs {
        let top = config
            .top_logprobs
            .map_or(Node::Number(0), |raw| Node::raw(raw.text));
        body.put("top_logprobs", top);
    }
    let shown = config.thinking.filter(|thinking| thinking.include);
    if let Some(thinking) = shown.as_ref().filter(|_| !reasons) {
        drops.note(&thinking.path);
    }
    if effort.is_some() || (shown.is_some() && reasons) {
        body.put("reasoning", compose::reasoning(effort));
    }
    Ok(())
}

fn user<'a>(items: &mut Items<'a>, pieces: Vec<Piece<'a>>) -> Result<(), Box<Refusal>> {
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
        items.message("user", std::mem::take(&mut parts));
        let given = given(response.as_ref());
        let mut output = Vec::new();
        if given.error {
            output.push(compose::input_text("[error]"));
        }
        output.push(compose::input_text(given.text));
        for piece in media {
            output.extend(shown(piece)?);
        }
        items.output(id, output);
    }
    items.message("user", parts);
    Ok(())
}

fn model<'a>(
    items: &mut Items<'a>,
    pieces: Vec<Piece<'a>>,
    drops: &mut Drops,
) -> Result<(), Box<Refusal>> {
    let mut parts = Vec::new();
    let (mut thought, mut path) = (String::new(), String::new());
    for piece in pieces {
        path.clone_from(&piece.path);
        let seal = piece.signature.as_deref();
        let seal = seal.map(|text| Seal::read(Format::Gemini, text));
        if !piece.thought && !thought.is_empty() {
            // Nobody sealed it, so that nobody takes it back.
            thought.clear();
            drops.note(&piece.path);
        }
        match piece.content {
            Content::Text(text) if piece.thought => {
                items.message("assistant", std::mem::take(&mut parts));
                // A seal comes in a part of its own, behind the text that it seals.
                thought.push_str(&text);
                if seal.is_some() {
                    let text = std::mem::take(&mut thought);
                    if !items.reasoning(&text, seal) {
                        drops.note(&piece.path);
                    }
                }
                continue;
            }
            Content::Text(text) => {
                if !text.is_empty() {
                    parts.push(compose::output_text(text));
                }
            }
            Content::Call { id, name, args } => {
                items.message("assistant", std::mem::take(&mut parts));
                let args = args.map_or("{}", |raw| raw.text);
                items.call(id, name, super::node::one_line(args), false);
            }
            Content::Nothing => {}
            _ => drops.note(&piece.path),
        }
        if seal.is_some() {
            drops.note(&piece.signature_path);
        }
    }
    if !thought.is_empty() {
        drops.note(&path);
    }
    items.message("assistant", parts);
    Ok(())
}

/// A piece as parts of what goes in.
fn shown(piece: Piece<'_>) -> Result<Option<Node<'_>>, Box<Refusal>> {
    Ok(match piece.content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(compose::input_text(text)),
        Content::Inline { mime, data, name } => {
            let url = Cow::Owned(format!("data:{mime};base64,{data}"));
            if mime.starts_with("image/") {
                Some(compose::image(url, None))
            } else if mime.starts_with("audio/") || mime.starts_with("video/") {
                return Err(Refusal::unsupported(
                    piece.path,
                    "it takes no sound and no film",
                ));
            } else {
                Some(compose::file("file_data", url, name))
            }
        }
        Content::File { mime, uri } => {
            if !uri.starts_with("http") || uri.contains("generativelanguage.googleapis.com") {
                return Err(Refusal::unsupported(
                    piece.path,
                    "the file is kept by Google",
                ));
            }
            if mime.is_some_and(|mime| mime.starts_with("image/")) {
                Some(compose::image(uri, None))
            } else {
                Some(compose::file("file_url", uri, None))
            }
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
        Box::new(super::responses::reader::ResponsesReader::new(&self.names))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::gemini::writer::GeminiWriter::new(&head))
    }
}
