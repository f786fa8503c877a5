//! A Gemini caller served by an Anthropic upstream.

use std::borrow::Cow;

use super::anthropic::compose::model::Asked;
use super::anthropic::compose::settings::{self, Settings};
use super::anthropic::compose::tools::Tools;
use super::anthropic::compose::{self, Turns, media};
use super::anthropic::reader::{AnthropicReader, Way};
use super::fields::{Drops, Raw, Refusal};
use super::gemini::request::{Content, Mode, Output, Piece, Request, Role, drop_rest, given};
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
            Content::Text(text) => turns.instruct(text, None),
            Content::Nothing => {}
            _ => return Err(Refusal::invalid(piece.path, "text in this place")),
        }
    }
    for turn in request.turns {
        match turn.role {
            Role::User => user(&mut turns, turn.pieces)?,
            Role::Model => model(&mut turns, turn.pieces, &mut drops),
        }
    }
    let mut tools = Tools::default();
    for function in request.functions {
        let description = function.description.map(Node::Text);
        tools.function(function.name, description, function.parameters, false, None);
    }
    match request.choice.mode {
        Mode::None => tools.none(),
        Mode::Any => tools.required(&request.choice.allowed),
        Mode::Auto | Mode::Validated if !request.choice.allowed.is_empty() => {
            tools.only(&request.choice.allowed);
        }
        Mode::Auto | Mode::Validated => {}
    }
    let thinking = config.thinking.as_ref();
    let asked = thinking.and_then(|thinking| match (thinking.budget, thinking.effort()) {
        (Some(budget), _) if thinking.level.is_none() => Some(Asked::Budget(budget)),
        (_, Some(effort)) => Some(Asked::Effort(effort)),
        (_, None) => thinking.include.then_some(Asked::Freely),
    });
    let settings = Settings {
        limit: config.max_output,
        thought: asked.zip(thinking.map(|thinking| &*thinking.path)),
        show: thinking.is_some_and(|thinking| thinking.include),
        temperature: config.temperature,
        top_p: config.top_p,
        top_k: config.top_k,
        output: match config.output {
            Output::Text => settings::Output::Text,
            Output::Json => settings::Output::Json,
            Output::Schema(schema) => settings::Output::Schema(schema),
        },
        stop: (config.stop, &config.stop_path),
        user: None,
    };
    let (body, way) = settings::request(target, turns, tools, settings, &mut drops);
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
    drop_rest(request.rest, &mut drops);
    Ok(Opened {
        body,
        dropped: drops,
        answering: Box::new(Back { way }),
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
            match piece.content {
                Content::Text(text) => turns.user_text(text, None),
                content => {
                    if let Some(block) = shown(Piece { content, ..piece })? {
                        turns.user(block);
                    }
                }
            }
            continue;
        };
        let given = given(response.as_ref());
        let mut content = vec![compose::text_block(given.text, None)];
        for piece in media {
            content.extend(shown(piece)?);
        }
        turns.result(&id, content, given.error);
    }
    Ok(())
}

fn model<'a>(turns: &mut Turns<'a>, pieces: Vec<Piece<'a>>, drops: &mut Drops) {
    let mut thought = String::new();
    let mut path = String::new();
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
            Content::Text(text) => turns.text(text, None),
            Content::Call { id, name, args } => {
                let args = args.map_or("{}", |raw| raw.text);
                turns.call(&id, &name, Node::raw(one_line(args)));
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
}

/// A piece as a block of the user's.
fn shown(piece: Piece<'_>) -> Result<Option<Node<'_>>, Box<Refusal>> {
    Ok(match piece.content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(compose::text_block(text, None)),
        Content::Inline { mime, data, name } => {
            let mut block = media::inline(mime.clone(), data, &piece.path)?;
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
            Some(media::at_url(uri, image, &piece.path)?)
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
    way: Way,
}

impl Answering for Back {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(AnthropicReader::new(&self.way))
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(super::gemini::writer::GeminiWriter::new(&head))
    }
}
