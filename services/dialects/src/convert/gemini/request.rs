//! A request of Gemini's dialect as values.

mod config;
#[cfg(test)]
mod tests;
mod tools;

use std::borrow::Cow;

pub(crate) use self::config::{Config, Output};
pub(crate) use self::tools::{Choice, Function, Mode};
use super::ids;
use super::members::Members;
use crate::convert::fields::{Drops, Fields, Raw, Refusal};
use crate::convert::node::{Node, one_line};
use crate::convert::seal::Seal;

/// A request. What no other dialect has anything for, and without which it would be another request (hosted tools, cached
/// content, answers that are no text), is refused by [`read`](Self::read).
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The system's instruction, part by part: texts, unless the caller sends something odd.
    pub(crate) system: Vec<Piece<'a>>,
    /// The conversation.
    pub(crate) turns: Vec<Turn<'a>>,
    /// The functions that may be called.
    pub(crate) functions: Vec<Function<'a>>,
    /// Which of them may or must be.
    pub(crate) choice: Choice<'a>,
    /// Everything else.
    pub(crate) config: Config<'a>,
    /// What was not taken, of all objects: what has no counterpart (`safetySettings`) and what
    /// is unknown.
    pub(crate) rest: Vec<Fields<'a>>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The caller, also with what functions gave back.
    User,
    /// The model.
    Model,
}

/// A content of the conversation.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// Who speaks.
    pub(crate) role: Role,
    /// The parts.
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// A part of a content.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// What it holds.
    pub(crate) content: Content<'a>,
    /// It is the model's reasoning.
    pub(crate) thought: bool,
    /// The seal on it, as it stands there (see [`Seal::read`](crate::convert::seal::Seal::read)).
    pub(crate) signature: Option<Cow<'a, str>>,
    /// Where that stands.
    pub(crate) signature_path: String,
    /// Where it stands.
    pub(crate) path: String,
}

/// What a part holds.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Text. Code that the provider ran, and what it put out, is text too, fenced.
    Text(Cow<'a, str>),
    /// Data.
    Inline {
        /// Its type.
        mime: Cow<'a, str>,
        /// Base64.
        data: Cow<'a, str>,
        /// The name of the file, where it has one; of images, sound and films it is in the rest.
        name: Option<Cow<'a, str>>,
    },
    /// A reference to data.
    File {
        /// Its type, if told.
        mime: Option<Cow<'a, str>>,
        /// An address: of the web, of a bucket (`gs://`) or of Google's own files.
        uri: Cow<'a, str>,
    },
    /// The model calls a function.
    Call {
        /// Its id: unique within the request, made where the caller gave none.
        id: Cow<'a, str>,
        /// The function.
        name: Cow<'a, str>,
        /// A JSON object; absent where it has no arguments.
        args: Option<Raw<'a>>,
    },
    /// What a function gave back.
    Response {
        /// The id of the call that it answers.
        id: Cow<'a, str>,
        /// The function.
        name: Cow<'a, str>,
        /// A JSON object; absent where it gave nothing.
        response: Option<Raw<'a>>,
        /// Media that it gave back.
        media: Vec<Piece<'a>>,
    },
    /// None of these: a signature alone, or something unknown (which then is in the rest).
    Nothing,
}

/// What a function gave back, as other dialects say it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Given<'a> {
    /// As text: the string that is the only member, `result` or `output` or `error`, else the JSON.
    pub(crate) text: Cow<'a, str>,
    /// It failed: `error` is the only member.
    pub(crate) error: bool,
}

/// Reads what [`Content::Response`] holds.
pub(crate) fn given<'a>(response: Option<&Raw<'a>>) -> Given<'a> {
    let whole = |raw: &Raw<'a>, error| Given {
        text: one_line(raw.text),
        error,
    };
    let Some(raw) = response else {
        return Given {
            text: Cow::Borrowed("{}"),
            error: false,
        };
    };
    let Ok(fields) = raw.fields() else {
        return whole(raw, false);
    };
    let mut members = fields.rest();
    match (members.next(), members.next()) {
        (Some((name, value)), None) if matches!(&*name, "result" | "output" | "error") => {
            let error = name == "error";
            match value.as_text() {
                Some(text) => Given { text, error },
                None => whole(raw, error),
            }
        }
        _ => whole(raw, false),
    }
}

impl<'a> Request<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A field is wrong, or no other dialect has anything for it.
    pub(crate) fn read(body: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut rest = Vec::new();
        let mut fields = Members(body.fields()?);
        if let Some(cached) = fields.take("cachedContent") {
            return Err(Refusal::unsupported(
                cached.path,
                "the cached content is kept by Google",
            ));
        }
        let system = match fields.object("systemInstruction")? {
            Some(mut content) => {
                // Its role means nothing.
                let _role = content.take("role");
                let pieces = pieces(&mut content, &mut rest)?;
                rest.push(content.0);
                pieces
            }
            None => Vec::new(),
        };
        let mut turns = Vec::new();
        for raw in fields.each("contents")? {
            turns.push(turn(&raw, &mut rest)?);
        }
        ids::assign(&mut turns)?;
        let functions = tools::functions(&mut fields, &mut rest)?;
        let choice = tools::choice(&mut fields, &functions, &mut rest)?;
        let config = Config::read(&mut fields, &mut rest)?;
        // The path names it; here it may stand again.
        let _model = fields.take("model");
        rest.push(fields.0);
        Ok(Self {
            system,
            turns,
            functions,
            choice,
            config,
            rest,
        })
    }
}

/// Notes all that was not taken as left out.
pub(crate) fn drop_rest(rest: Vec<Fields<'_>>, drops: &mut Drops) {
    for fields in rest {
        fields.drop_rest(drops);
    }
}

fn turn<'a>(raw: &Raw<'a>, rest: &mut Vec<Fields<'a>>) -> Result<Turn<'a>, Box<Refusal>> {
    let mut fields = Members(raw.fields()?);
    let role = match fields.take("role") {
        None => Role::User,
        Some(role) => match &*role.text()? {
            "model" => Role::Model,
            // the last one is the old role of function responses
            "user" | "" | "function" => Role::User,
            _ => return Err(Refusal::invalid(role.path, "`user` or `model`")),
        },
    };
    let pieces = pieces(&mut fields, rest)?;
    rest.push(fields.0);
    Ok(Turn { role, pieces })
}

fn pieces<'a>(
    content: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Vec<Piece<'a>>, Box<Refusal>> {
    let parts = content.each("parts")?;
    parts.iter().map(|raw| piece(raw, rest)).collect()
}

fn piece<'a>(raw: &Raw<'a>, rest: &mut Vec<Fields<'a>>) -> Result<Piece<'a>, Box<Refusal>> {
    let mut fields = Members(raw.fields()?);
    let thought = fields.boolean("thought")?.unwrap_or(false);
    let signature_path = fields.path("thoughtSignature");
    let signature = fields
        .text("thoughtSignature")?
        .filter(|seal| !seal.is_empty())
        .map(Seal::decoded);
    let content = content(&mut fields, rest)?;
    rest.push(fields.0);
    Ok(Piece {
        content,
        thought,
        signature,
        signature_path,
        path: raw.path.clone(),
    })
}

/// What a part holds: one of several members. Of two the first one in this order counts.
fn content<'a>(
    fields: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Content<'a>, Box<Refusal>> {
    if let Some(text) = fields.text("text")? {
        return Ok(Content::Text(text));
    }
    let content = if let Some(mut blob) = fields.object("inlineData")? {
        let mime = blob.mime("mimeType")?;
        // Nobody else has names for what is seen or heard.
        let named = !["image/", "audio/", "video/"]
            .iter()
            .any(|kind| mime.starts_with(kind));
        let content = Content::Inline {
            data: blob.0.filled("data", "base64")?,
            name: match named {
                true => blob.text("displayName")?,
                false => None,
            },
            mime,
        };
        rest.push(blob.0);
        content
    } else if let Some(mut file) = fields.object("fileData")? {
        let content = Content::File {
            mime: file.text("mimeType")?,
            uri: file.filled("fileUri", "an address")?,
        };
        rest.push(file.0);
        content
    } else if let Some(mut call) = fields.object("functionCall")? {
        let content = Content::Call {
            id: call.text("id")?.unwrap_or_default(),
            name: call.0.filled("name", "a string")?,
            args: call.take("args").map(Raw::object).transpose()?,
        };
        rest.push(call.0);
        content
    } else if let Some(mut response) = fields.object("functionResponse")? {
        let content = Content::Response {
            id: response.text("id")?.unwrap_or_default(),
            name: response.0.filled("name", "a string")?,
            response: response.take("response").map(Raw::object).transpose()?,
            media: pieces(&mut response, rest)?,
        };
        rest.push(response.0);
        content
    } else if let Some(mut code) = fields.object("executableCode")? {
        let language = code.text("language")?.unwrap_or_default();
        let source = code.text("code")?.unwrap_or_default();
        rest.push(code.0);
        Content::Text(Cow::Owned(super::code::source(&language, &source)))
    } else if let Some(mut result) = fields.object("codeExecutionResult")? {
        let outcome = result.text("outcome")?.unwrap_or_default();
        let output = result.text("output")?.unwrap_or_default();
        rest.push(result.0);
        Content::Text(Cow::Owned(super::code::output(&outcome, &output)))
    } else {
        Content::Nothing
    };
    Ok(content)
}

/// A schema that is JSON Schema already.
fn plain<'a>(raw: &Raw<'a>) -> Node<'a> {
    Node::raw(one_line(raw.text))
}
