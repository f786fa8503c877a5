//! A Gemini caller served by an Anthropic upstream.

use std::borrow::Cow;

use super::anthropic::compose::{self, Choice, Turns};
use super::chat;
use super::fields::{Drops, Raw, Refusal};
use super::gemini::request::{
    Content, Function, Mode, Output, Piece, Request, Role, drop_rest, given,
};
use super::node::{Node, one_line};
use super::part::{Head, Reader, Writer};
use super::seal::Seal;
use super::{Answering, Format, Opened, Target};

/// Puts the request into Anthropic's dialect.
pub(super) fn open(body: &Raw<'_>, target: &Target<'_>) -> Result<Opened, Box<Refusal>> {
    let request = Request::read(body)?;
    let config = request.config;
    if config.candidates.0 > 1 {
        return Err(Refusal::unsupported(
            config.candidates.1,
            "it gives one answer at a time",
        ));
    }
    if let Some(path) = config.logprobs {
        return Err(Refusal::unsupported(path, "it tells no log probabilities"));
    }
    let mut drops = Drops::default();
    let mut turns = Turns::default();
    for piece in request.system {
        match piece.content {
            Content::Text(text) => turns.instruct(text),
            Content::Nothing => {}
            _ => return Err(Refusal::invalid(piece.path, "text in this place")),
        }
    }
    if config.output == Output::Json {
        turns.instruct(compose::JSON_ONLY.into());
    }
    for turn in request.turns {
        match turn.role {
            Role::User => user(&mut turns, turn.pieces)?,
            Role::Model => model(&mut turns, turn.pieces, &mut drops),
        }
    }
    let mut body = Node::object([("model", Node::text(target.model))]);
    if target.stream {
        body.put("stream", Node::Bool(true));
    }
    turns.finish(&mut body);
    let choice = match request.choice.mode {
        Mode::Auto | Mode::Validated => None,
        Mode::None => Some(Choice::None),
        Mode::Any => match &request.choice.allowed[..] {
            [only] => Some(Choice::Tool(only.clone())),
            _ => Some(Choice::Any),
        },
    };
    let forced = choice.as_ref().is_some_and(Choice::forces);
    let allowed = request.choice.allowed;
    let left = |one: &Function<'_>| allowed.is_empty() || allowed.contains(&one.name);
    let tools = request.functions.into_iter().filter(left).map(|function| {
        let description = function.description.map(Node::Text);
        compose::tool(function.name, description, function.parameters, None)
    });
    let tools: Vec<_> = tools.collect();
    if !tools.is_empty() {
        body.put("tools", Node::Array(tools));
        body.put_some("tool_choice", compose::choice(choice, false));
    }
    let effort = config
        .thinking
        .as_ref()
        .and_then(|thinking| thinking.effort());
    let effort = effort.map(str::to_ascii_lowercase);
    let effort = effort.as_deref();
    let thought = compose::think(
        target.model,
        effort,
        config.max_output,
        target.max_output,
        forced,
    );
    let thinks = thought.thinking.is_some();
    if effort.is_some_and(|effort| effort != "none") && !thinks {
        drops.note("generationConfig.thinkingConfig");
    }
    body.put("max_tokens", chat::compose::number(thought.limit));
    body.put_some("thinking", thought.thinking);
    let schema = match config.output {
        Output::Schema(schema) => Some(schema),
        Output::Text | Output::Json => None,
    };
    body.put_some(
        "output_config",
        compose::output_config(thought.effort, schema),
    );
    if let Some(raw) = config.temperature {
        match compose::temperature(raw.text, thinks) {
            Some(number) => body.put("temperature", number),
            None => drops.note(&raw.path),
        }
    }
    for (name, raw) in [("top_p", config.top_p), ("top_k", config.top_k)] {
        match raw {
            Some(raw) if thinks => drops.note(&raw.path),
            raw => body.put_some(name, raw.map(|raw| Node::raw(raw.text))),
        }
    }
    for raw in [
        config.seed,
        config.presence_penalty,
        config.frequency_penalty,
    ]
    .into_iter()
    .flatten()
    {
        drops.note(&raw.path);
    }
    let stop: Vec<_> = config
        .stop
        .into_iter()
        .filter(|stop| !stop.trim().is_empty())
        .collect();
    if !stop.is_empty() {
        body.put(
            "stop_sequences",
            Node::Array(stop.into_iter().map(Node::Text).collect()),
        );
    }
    drop_rest(request.rest, &mut drops);
    Ok(Opened {
        body: body.render(),
        dropped: drops,
        answering: Box::new(Back),
    })
}

fn user<'a>(turns: &mut Turns<'a>, pieces: Vec<Piece<'a>>) -> Result<(), Box<Refusal>> {
    for piece in pieces {
        let Content::Response {
            id,
            response,
            media,
            ..
        } = piece.content
        else {
            if let Some(block) = shown(piece)? {
                turns.user(block);
            }
            continue;
        };
        let given = given(response.as_ref());
        let mut content = vec![compose::text_block(given.text)];
        for piece in media {
            content.extend(shown(piece)?);
        }
        turns.result(id, content, given.error);
    }
    Ok(())
}

fn model<'a>(turns: &mut Turns<'a>, pieces: Vec<Piece<'a>>, drops: &mut Drops) {
    let mut thought = String::new();
    for piece in pieces {
        let seal = piece.signature.as_deref();
        let seal = seal.map(|text| Seal::read(Format::Gemini, text));
        if !piece.thought && !thought.is_empty() {
            // Nobody sealed it, so that nobody takes it back.
            thought.clear();
            drops.note(&piece.path);
        }
        match piece.content {
            Content::Text(text) if piece.thought => {
                // A seal comes in a part of its own, behind the text that it seals.
                thought.push_str(&text);
                if seal.is_some() {
                    let text = std::mem::take(&mut thought);
                    if !turns.thought(&text, seal) {
                        drops.note(&piece.path);
                    }
                }
                continue;
            }
            Content::Text(text) => turns.text(text),
            Content::Call { id, name, args } => {
                let args = args.map_or("{}", |raw| raw.text);
                turns.call(id, name, Node::raw(one_line(args)));
            }
            Content::Nothing => {}
            _ => drops.note(&piece.path),
        }
        if seal.is_some() {
            drops.note(&format!("{}.thoughtSignature", piece.path));
        }
    }
}

/// A piece as a block of the user's.
fn shown(piece: Piece<'_>) -> Result<Option<Node<'_>>, Box<Refusal>> {
    Ok(match piece.content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(compose::text_block(text)),
        Content::Inline { mime, data, name } => {
            let mut block = compose::inline_media(mime.clone(), data, &piece.path)?;
            if !mime.starts_with("image/") {
                block.put_some("title", name.map(Node::Text));
            }
            Some(block)
        }
        Content::File { mime, uri } => {
            let kept = uri.contains("generativelanguage.googleapis.com");
            if kept || !uri.starts_with("http") {
                return Err(Refusal::unsupported(
                    piece.path,
                    "the file is kept by Google",
                ));
            }
            let image = mime
                .unwrap_or(Cow::Borrowed("image/"))
                .starts_with("image/");
            Some(compose::media(uri, image, &piece.path)?)
        }
        Content::Call { .. } | Content::Response { .. } => {
            return Err(Refusal::invalid(piece.path, "text or media in this place"));
        }
        Content::Nothing => None,
    })
}

/// The way back.
#[derive(Debug)]
struct Back;

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(super::anthropic::reader::AnthropicReader::default())
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::gemini::writer::GeminiWriter::new(&head))
    }
}
