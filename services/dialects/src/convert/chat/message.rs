//! The messages of a chat request.

use std::borrow::Cow;

pub(crate) use super::thought::Thought;
use super::thought::read_thoughts;
use crate::convert::Format;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::seal::Seal;
use crate::json::Kind;

/// A message. `rest` may hold `name`.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Role `system` or `developer`: how the model is to behave. May stand anywhere.
    Instructions {
        /// From who built the application, not from the platform.
        developer: bool,
        /// Texts.
        content: Vec<Content<'a>>,
        /// All else.
        rest: Fields<'a>,
    },
    /// The user speaks.
    User {
        /// What is said or shown.
        content: Vec<Content<'a>>,
        /// All else.
        rest: Fields<'a>,
    },
    /// The model spoke: first its thoughts, then its text, then its calls.
    Assistant {
        /// Its thoughts.
        thoughts: Vec<Thought<'a>>,
        /// Texts and refusals.
        content: Vec<Content<'a>>,
        /// Its calls. The older `function_call` is one of them.
        calls: Vec<Call<'a>>,
        /// All else.
        rest: Fields<'a>,
    },
    /// What a tool gave. The older role `function` is one.
    Tool {
        /// The call's id.
        id: Cow<'a, str>,
        /// What it gave.
        content: Vec<Content<'a>>,
        /// Where it stands.
        path: String,
        /// All else.
        rest: Fields<'a>,
    },
}

/// A part of a message. A content that is a string is one text; empty texts are left out.
///
/// `rest` may hold `prompt_cache_breakpoint`, or Anthropic's `cache_control`, which many clients use here.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Text. Not empty.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// All else.
        rest: Fields<'a>,
    },
    /// The model declined. Not empty.
    Refusal {
        /// Its words.
        text: Cow<'a, str>,
    },
    /// An image.
    Image {
        /// `https:` or `data:`.
        url: Cow<'a, str>,
        /// How closely to look: auto, low, high.
        detail: Option<Raw<'a>>,
        /// Where it stands.
        path: String,
        /// All else.
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
        /// All else.
        rest: Fields<'a>,
    },
    /// A file.
    File {
        /// Where it is.
        source: FileSource<'a>,
        /// Its name.
        name: Option<Cow<'a, str>>,
        /// Where it stands.
        path: String,
        /// All else.
        rest: Fields<'a>,
    },
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileSource<'a> {
    /// In the request: a `data:` URL, or base64 alone, whose type only the file's name may tell.
    Data(Cow<'a, str>),
    /// Kept at the provider, under an id that means nothing elsewhere.
    Id(Cow<'a, str>),
}

/// A tool was called.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// Links it with its result. Not empty.
    pub(crate) id: Cow<'a, str>,
    /// The tool.
    pub(crate) name: Cow<'a, str>,
    /// JSON, not checked, maybe empty; of a custom tool free text.
    pub(crate) arguments: Cow<'a, str>,
    /// A tool of free text.
    pub(crate) custom: bool,
    /// Where it stands.
    pub(crate) path: String,
    /// All else, of the call and of its function.
    pub(crate) rest: [Fields<'a>; 2],
    signature: Option<Cow<'a, str>>,
}

impl Call<'_> {
    /// The seal that came with it (Gemini).
    pub(crate) fn seal(&self) -> Option<Seal<'_>> {
        let text = self.signature.as_deref()?;
        // `extra_content.google` is Google's own place for it, so that what is not marked is Google's.
        Some(Seal::read(Format::Gemini, text))
    }
}

/// Reads the messages.
pub(super) fn read_messages<'a>(raw: &Raw<'a>) -> Result<Vec<Message<'a>>, Box<Refusal>> {
    let mut messages: Vec<Message<'a>> = Vec::new();
    for item in raw.items()? {
        let message = read_message(&item, &messages)?;
        messages.push(message);
    }
    Ok(messages)
}

fn read_message<'a>(raw: &Raw<'a>, before: &[Message<'a>]) -> Result<Message<'a>, Box<Refusal>> {
    let mut rest = raw.fields()?;
    let expected = "`developer`, `system`, `user`, `assistant`, `tool` or `function`";
    let role = rest.need("role", expected)?;
    let word = role.text()?;
    let path = raw.path.clone();
    match &*word {
        "system" | "developer" => Ok(Message::Instructions {
            developer: word == "developer",
            content: read_content(&mut rest)?,
            rest,
        }),
        "user" => Ok(Message::User {
            content: read_content(&mut rest)?,
            rest,
        }),
        "assistant" => read_assistant(rest, before.len()),
        "tool" => Ok(Message::Tool {
            id: rest.filled("tool_call_id", "the id of a call")?,
            content: read_content(&mut rest)?,
            path,
            rest,
        }),
        "function" => {
            let name = rest.need("name", "the function's name")?;
            Ok(Message::Tool {
                id: older_id(before, &name)?,
                content: read_content(&mut rest)?,
                path,
                rest,
            })
        }
        _ => Err(Refusal::invalid(role.path, expected)),
    }
}

fn read_assistant<'a>(mut rest: Fields<'a>, place: usize) -> Result<Message<'a>, Box<Refusal>> {
    if rest.has("audio") {
        let why =
            "the sound that it names is kept at the provider; send its transcript as `content`";
        return Err(Refusal::unsupported(rest.path("audio"), why));
    }
    let thoughts = read_thoughts(&mut rest)?;
    let mut content = read_content(&mut rest)?;
    if let Some(text) = rest.text("refusal")?.filter(|text| !text.is_empty()) {
        content.push(Content::Refusal { text });
    }
    let mut calls = Vec::new();
    for item in rest.items("tool_calls")? {
        calls.push(read_call(&item)?);
    }
    if let Some(older) = rest.take("function_call") {
        // It has no id of its own: its place in the conversation is one.
        let id = Cow::Owned(format!("call_function_{place}"));
        let outer = Raw::body("{}").fields()?;
        calls.push(read_function_call(id, &older, outer)?);
    }
    // An answer that is sent back as it came may have these; they say nothing about the conversation.
    rest.take("annotations");
    Ok(Message::Assistant {
        thoughts,
        content,
        calls,
        rest,
    })
}

/// The id of the last call of an older function of that name.
fn older_id<'a>(before: &[Message<'a>], name: &Raw<'a>) -> Result<Cow<'a, str>, Box<Refusal>> {
    let wanted = name.text()?;
    let calls = before.iter().rev().filter_map(|message| match message {
        Message::Assistant { calls, .. } => calls.iter().rev().find(|call| call.name == wanted),
        _ => None,
    });
    let mut calls = calls;
    let call = calls.next().ok_or_else(|| {
        Refusal::invalid(&*name.path, "the name of a function that was called before")
    })?;
    Ok(call.id.clone())
}

fn read_call<'a>(raw: &Raw<'a>) -> Result<Call<'a>, Box<Refusal>> {
    let mut outer = raw.fields()?;
    let id = outer.need("id", "the call's id")?;
    let id = match id.text()? {
        empty if empty.is_empty() => return Err(Refusal::invalid(id.path, "the call's id")),
        id => id,
    };
    let kind = outer.text("type")?;
    if kind.as_deref() != Some("custom") {
        let function = outer.need("function", "an object with `name` and `arguments`")?;
        return Ok(Call {
            path: raw.path.clone(),
            ..read_function_call(id, &function, outer)?
        });
    }
    let mut inner = outer
        .need("custom", "an object with `name` and `input`")?
        .fields()?;
    Ok(Call {
        id,
        name: inner.filled("name", "the tool's name")?,
        arguments: inner.text("input")?.unwrap_or_default(),
        custom: true,
        path: raw.path.clone(),
        signature: read_signature(&mut outer)?,
        rest: [outer, inner],
    })
}

fn read_function_call<'a>(
    id: Cow<'a, str>,
    raw: &Raw<'a>,
    mut outer: Fields<'a>,
) -> Result<Call<'a>, Box<Refusal>> {
    let mut inner = raw.fields()?;
    Ok(Call {
        id,
        name: inner.filled("name", "the function's name")?,
        arguments: inner.text("arguments")?.unwrap_or_default(),
        custom: false,
        path: raw.path.clone(),
        signature: read_signature(&mut outer)?,
        rest: [outer, inner],
    })
}

/// `extra_content.google.thought_signature`: where Google's own chat endpoint has it.
fn read_signature<'a>(call: &mut Fields<'a>) -> Result<Option<Cow<'a, str>>, Box<Refusal>> {
    // `index` is of no use in a list: clients that gather a stream leave it there.
    call.take("index");
    let Some(mut extra) = call.fields("extra_content")? else {
        return Ok(None);
    };
    let mut signature = None;
    if let Some(mut google) = extra.fields("google")? {
        signature = google.text("thought_signature")?;
        extra.absorb(google);
    }
    call.absorb(extra);
    Ok(signature)
}

/// Reads `content`: a string, parts, or nothing.
fn read_content<'a>(message: &mut Fields<'a>) -> Result<Vec<Content<'a>>, Box<Refusal>> {
    let Some(raw) = message.take("content") else {
        return Ok(Vec::new());
    };
    if let Some(text) = raw.as_text() {
        let rest = Raw::body("{}").fields()?;
        let one = Content::Text { text, rest };
        return Ok([one].into_iter().filter(Content::says_something).collect());
    }
    let parts = raw
        .items()
        .map_err(|_| raw.wrong("a string, or an array of parts"))?;
    let mut content = Vec::with_capacity(parts.len());
    for part in parts {
        match read_part(&part, message)? {
            Content::Text { text, rest } if text.is_empty() => message.absorb(rest),
            part if part.says_something() => content.push(part),
            _ => {}
        }
    }
    Ok(content)
}

impl Content<'_> {
    fn says_something(&self) -> bool {
        match self {
            Self::Text { text, .. } | Self::Refusal { text } => !text.is_empty(),
            Self::Image { .. } | Self::Audio { .. } | Self::File { .. } => true,
        }
    }
}

fn read_part<'a>(raw: &Raw<'a>, message: &mut Fields<'a>) -> Result<Content<'a>, Box<Refusal>> {
    let mut rest = raw.fields()?;
    let path = raw.path.clone();
    let expected = "`text`, `image_url`, `input_audio`, `file` or `refusal`";
    let kind = rest.need("type", expected)?;
    match &*kind.text()? {
        "text" => Ok(Content::Text {
            text: rest.need("text", "a string")?.text()?,
            rest,
        }),
        "refusal" => {
            let text = rest.need("refusal", "a string")?.text()?;
            message.absorb(rest);
            Ok(Content::Refusal { text })
        }
        "image_url" => read_image(path, rest),
        "input_audio" => {
            let mut audio = rest.need("input_audio", "an object")?.fields()?;
            let data = audio.filled("data", "base64")?;
            let format = audio.filled("format", "`wav` or `mp3`")?;
            rest.absorb(audio);
            Ok(Content::Audio {
                data,
                format,
                path,
                rest,
            })
        }
        "file" => read_file(path, rest),
        _ => Err(Refusal::invalid(kind.path, expected)),
    }
}

fn read_image<'a>(path: String, mut rest: Fields<'a>) -> Result<Content<'a>, Box<Refusal>> {
    let image = rest.need("image_url", "an object with `url`")?;
    // A bare URL is what many servers bear.
    let (url, detail) = match image.kind() {
        Kind::String => (image.address()?, None),
        _ => {
            let mut image = image.fields()?;
            let url = image.need("url", "a URL")?.address()?;
            let detail = image.take("detail");
            rest.absorb(image);
            (url, detail)
        }
    };
    Ok(Content::Image {
        url,
        detail,
        path,
        rest,
    })
}

fn read_file<'a>(path: String, mut rest: Fields<'a>) -> Result<Content<'a>, Box<Refusal>> {
    let mut file = rest
        .need("file", "an object with `file_data` or `file_id`")?
        .fields()?;
    let source = match (file.text("file_data")?, file.text("file_id")?) {
        (Some(data), _) if !data.is_empty() => FileSource::Data(data),
        (_, Some(id)) => FileSource::Id(id),
        (_, None) => {
            return Err(Refusal::invalid(
                file.path("file_data"),
                "a file as base64, got nothing",
            ));
        }
    };
    let name = file.text("filename")?;
    rest.absorb(file);
    Ok(Content::File {
        source,
        name,
        path,
        rest,
    })
}
