//! The items of a conversation in the Responses API.

use std::borrow::Cow;

use super::tools::Names;
use crate::convert::Format;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::seal::Seal;
use crate::json::Kind;

/// An item of the input.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// Somebody says something.
    Message {
        /// Who.
        role: Role,
        /// What. A string is one text.
        content: Vec<Content<'a>>,
        /// All else (`phase`).
        rest: Fields<'a>,
    },
    /// The model thought.
    Reasoning {
        /// Its summary, part by part; none is empty.
        summary: Vec<Cow<'a, str>>,
        /// The thoughts themselves, where they were shown; none is empty.
        content: Vec<Cow<'a, str>>,
        /// The sealed thoughts: read by [`sealed`](Item::seal).
        encrypted: Option<Cow<'a, str>>,
        /// All else.
        rest: Fields<'a>,
    },
    /// The model called a tool.
    Call {
        /// Links it with its output.
        id: Cow<'a, str>,
        /// The tool, as an upstream knows it.
        name: Cow<'a, str>,
        /// The space that it was called in, until [`named`](Item::named) has made one name of both.
        namespace: Option<Cow<'a, str>>,
        /// JSON; of a custom tool free text. May be empty.
        arguments: Cow<'a, str>,
        /// A tool of free text.
        custom: bool,
        /// Where it stands.
        path: String,
        /// All else.
        rest: Fields<'a>,
    },
    /// What a tool gave.
    Output {
        /// The call's.
        id: Cow<'a, str>,
        /// What it gave. A string is one text.
        content: Vec<Content<'a>>,
        /// Where it stands.
        path: String,
        /// All else.
        rest: Fields<'a>,
    },
    /// What belongs to a tool that the provider runs: no other dialect has anything for it. It is left out, under `name`.
    Other {
        /// A name for it among what was left out.
        name: String,
    },
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The user.
    User,
    /// The platform.
    System,
    /// Who built the application.
    Developer,
    /// The model.
    Assistant,
}

/// A part of a message, or of what a tool gave.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Text (`input_text`, `output_text`).
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// `prompt_cache_breakpoint` and what else there may be.
        rest: Fields<'a>,
    },
    /// The model declined.
    Refusal {
        /// Its words.
        text: Cow<'a, str>,
    },
    /// An image.
    Image {
        /// Where it is.
        source: Media<'a>,
        /// How closely to look: auto, low, high, original.
        detail: Option<Raw<'a>>,
        /// Where it stands.
        path: String,
        /// All else.
        rest: Fields<'a>,
    },
    /// A file.
    File {
        /// Where it is.
        source: Media<'a>,
        /// Its name.
        name: Option<Cow<'a, str>>,
        /// Where it stands.
        path: String,
        /// All else (`detail`).
        rest: Fields<'a>,
    },
    /// Sound.
    Audio {
        /// Base64.
        data: Cow<'a, str>,
        /// wav, mp3.
        format: Cow<'a, str>,
        /// Where it stands.
        path: String,
    },
}

/// Where media are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Media<'a> {
    /// At a URL: `https:` or `data:`. `file_data` without `data:` is base64 of a type that only the file's name may tell.
    Url(Cow<'a, str>),
    /// Base64 whose type is not told.
    Base64(Cow<'a, str>),
    /// Kept at the provider, under an id that means nothing elsewhere.
    Id(Cow<'a, str>),
}

/// Reads the input; tools that are added in it go to the other tools.
pub(super) fn read_items<'a>(
    input: &Raw<'a>,
    tools: &mut Vec<Raw<'a>>,
    body: &mut Fields<'a>,
) -> Result<Vec<Item<'a>>, Box<Refusal>> {
    if let Some(text) = input.as_text() {
        let rest = Raw::body("{}").fields()?;
        let content = vec![Content::Text {
            text,
            rest: rest.clone(),
        }];
        let role = Role::User;
        return Ok(vec![Item::Message {
            role,
            content,
            rest,
        }]);
    }
    let items = input
        .items()
        .map_err(|_| input.wrong("a string, or a list of items"))?;
    let mut read = Vec::with_capacity(items.len());
    for raw in items {
        let mut fields = raw.fields()?;
        let kind = fields.text("type")?;
        let kind = kind.as_deref().unwrap_or("message");
        if kind == "additional_tools" {
            tools.extend(fields.items("tools")?);
            for told in ["id", "status", "role"] {
                fields.take(told);
            }
            body.absorb(fields);
        } else {
            read.push(Item::read(kind, raw.path, fields)?);
        }
    }
    Ok(read)
}

impl<'a> Item<'a> {
    fn read(kind: &str, path: String, mut fields: Fields<'a>) -> Result<Self, Box<Refusal>> {
        // They tell of the answer that it was part of, and nothing to a model.
        for told in ["id", "status"] {
            fields.take(told);
        }
        Ok(match kind {
            "message" => {
                let role = Role::read(&mut fields)?;
                let content = fields.need("content", "a string, or a list of parts")?;
                let content = read_content(&content, &mut fields)?;
                Self::Message {
                    role,
                    content,
                    rest: fields,
                }
            }
            "reasoning" => Self::Reasoning {
                summary: read_texts(&mut fields, "summary")?,
                content: read_texts(&mut fields, "content")?,
                encrypted: fields
                    .text("encrypted_content")?
                    .filter(|text| !text.is_empty()),
                rest: fields,
            },
            "function_call" | "custom_tool_call" => {
                let custom = kind == "custom_tool_call";
                let arguments = fields.text(if custom { "input" } else { "arguments" })?;
                // Who may call it is said with the tools.
                fields.take("caller");
                Self::Call {
                    id: fields.filled("call_id", "the id of the call")?,
                    name: fields.filled("name", "the name of a tool")?,
                    namespace: fields.text("namespace")?.filter(|space| !space.is_empty()),
                    arguments: arguments.unwrap_or_default(),
                    custom,
                    path,
                    rest: fields,
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                fields.take("caller");
                Self::Output {
                    id: fields.filled("call_id", "the id of the call")?,
                    content: {
                        let output = fields.need("output", "a string, or a list of parts")?;
                        read_content(&output, &mut fields)?
                    },
                    path,
                    rest: fields,
                }
            }
            "item_reference" => {
                let why = "the item is kept by the account that made it, and this upstream keeps none: send the item itself";
                return Err(Refusal::unsupported(path, why));
            }
            "compaction" | "compaction_summary" | "compaction_trigger" | "context_compaction" => {
                let why = "only OpenAI can read or make it: send the conversation itself";
                return Err(Refusal::unsupported(path, why));
            }
            other => Self::Other {
                name: format!("input[].{other}"),
            },
        })
    }

    /// The item with the name under which an upstream knows its tool.
    pub(super) fn named(self, names: &mut Names) -> Self {
        match self {
            Self::Call {
                id,
                name,
                namespace,
                arguments,
                custom,
                path,
                rest,
            } => Self::Call {
                name: names.of_call(namespace.as_deref(), name, custom),
                namespace: None,
                id,
                arguments,
                custom,
                path,
                rest,
            },
            other => other,
        }
    }

    /// The seal of a reasoning item.
    pub(crate) fn seal(&self) -> Option<Seal<'_>> {
        match self {
            Self::Reasoning { encrypted, .. } => {
                let text = encrypted.as_deref()?;
                Some(Seal::read(Format::Responses, text))
            }
            _ => None,
        }
    }
}

impl Role {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Box<Refusal>> {
        let expected = "`user`, `assistant`, `system` or `developer`";
        let role = fields.need("role", expected)?;
        match &*role.text()? {
            "user" => Ok(Self::User),
            "system" => Ok(Self::System),
            "developer" => Ok(Self::Developer),
            "assistant" => Ok(Self::Assistant),
            _ => Err(Refusal::invalid(role.path, expected)),
        }
    }
}

/// The texts of a reasoning item's parts.
fn read_texts<'a>(fields: &mut Fields<'a>, name: &str) -> Result<Vec<Cow<'a, str>>, Box<Refusal>> {
    let mut texts = Vec::new();
    for part in fields.items(name)? {
        let mut part = part.fields()?;
        part.take("type");
        let text = part.text("text")?;
        texts.extend(text.filter(|text| !text.is_empty()));
        fields.absorb(part);
    }
    Ok(texts)
}

fn read_content<'a>(
    raw: &Raw<'a>,
    item: &mut Fields<'a>,
) -> Result<Vec<Content<'a>>, Box<Refusal>> {
    if let Some(text) = raw.as_text() {
        let rest = Raw::body("{}").fields()?;
        return Ok(vec![Content::Text { text, rest }]);
    }
    let parts = raw
        .items()
        .map_err(|_| raw.wrong("a string, or a list of parts"))?;
    let read = |part| Content::read(part, item);
    parts.into_iter().map(read).collect()
}

impl<'a> Content<'a> {
    fn read(raw: Raw<'a>, item: &mut Fields<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = raw.fields()?;
        let expected = "the type of a part (`input_text`, `input_image`, `input_file`, `output_text`, `refusal`)";
        let kind = fields.need("type", expected)?;
        Ok(match &*kind.text()? {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
                let text = fields.need("text", "a string")?.text()?;
                // They tell of the answer that it was part of, and nothing to a model.
                for told in ["annotations", "logprobs"] {
                    fields.take(told);
                }
                Self::Text { text, rest: fields }
            }
            "refusal" => {
                let text = fields.need("refusal", "a string")?.text()?;
                item.absorb(fields);
                Self::Refusal { text }
            }
            "input_image" => Self::Image {
                source: read_image(&mut fields)?,
                detail: fields.take("detail"),
                path: raw.path,
                rest: fields,
            },
            "input_file" => Self::File {
                source: read_file(&mut fields)?,
                name: fields.text("filename")?,
                path: raw.path,
                rest: fields,
            },
            "input_audio" => {
                let mut audio = fields
                    .need("input_audio", "an object with `data` and `format`")?
                    .fields()?;
                let data = audio.filled("data", "base64")?;
                let format = audio.filled("format", "the format of the sound")?;
                item.absorb(audio);
                item.absorb(fields);
                Self::Audio {
                    data,
                    format,
                    path: raw.path,
                }
            }
            _ => return Err(Refusal::invalid(kind.path, expected)),
        })
    }
}

fn read_image<'a>(fields: &mut Fields<'a>) -> Result<Media<'a>, Box<Refusal>> {
    if let Some(id) = fields.text("file_id")? {
        return Ok(Media::Id(id));
    }
    let url = fields.need("image_url", "the image's URL, or `file_id`")?;
    // Some send chat's form.
    match url.kind() {
        Kind::String => Ok(Media::Url(url.address()?)),
        _ => {
            let mut inner = url.fields()?;
            let url = inner.need("url", "the image's URL")?.address()?;
            fields.absorb(inner);
            Ok(Media::Url(url))
        }
    }
}

fn read_file<'a>(fields: &mut Fields<'a>) -> Result<Media<'a>, Box<Refusal>> {
    if let Some(id) = fields.text("file_id")? {
        return Ok(Media::Id(id));
    }
    if let Some(url) = fields.take("file_url") {
        return Ok(Media::Url(url.address()?));
    }
    let expected = "the file's content, or `file_url`, or `file_id`";
    let data = fields.filled("file_data", expected)?;
    Ok(if data.starts_with("data:") {
        Media::Url(data)
    } else {
        Media::Base64(data)
    })
}
