//! What chat demands of a request that is written in it (PROTOCOLS §3.1, §11.3): a list of messages, results of tools right
//! after their calls, contents as plain strings where they are nothing but text.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::convert::Format;
use crate::convert::filename::with_ending;
use crate::convert::names::{Names, shortened};
use crate::convert::node::{Node, one_line};
use crate::convert::seal::Seal;
use crate::json::{Cursor, Kind};

/// The longest id of a call, characters.
const MAX_ID: usize = 40;
/// The longest `safety_identifier`, characters.
const MAX_USER: usize = 64;

/// A part of a content.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Text with a `prompt_cache_breakpoint`.
    Marked(Cow<'a, str>, Node<'a>),
    /// Anything else.
    Other(Node<'a>),
}

impl<'a> Part<'a> {
    /// With a `prompt_cache_breakpoint`.
    pub(crate) fn marked(self, mark: Node<'a>) -> Self {
        match self {
            Self::Text(text) | Self::Marked(text, _) => Self::Marked(text, mark),
            Self::Other(mut node) => {
                node.put("prompt_cache_breakpoint", mark);
                Self::Other(node)
            }
        }
    }
}

/// The model's message while it is put together.
#[derive(Debug, Default)]
struct Spoken<'a> {
    reasoning: String,
    /// Items of `reasoning_details`.
    details: Vec<Node<'a>>,
    /// The seal of the call that follows.
    signature: Option<String>,
    text: String,
    refusal: Option<Cow<'a, str>>,
    calls: Vec<Node<'a>>,
    ids: Vec<Cow<'a, str>>,
}

/// A message.
#[derive(Debug)]
struct Message<'a> {
    node: Node<'a>,
    /// The calls that are in it and have no output yet.
    ids: Vec<Cow<'a, str>>,
    /// It is what a tool gave.
    output: bool,
}

/// The messages.
#[derive(Debug, Default)]
pub(crate) struct Messages<'a> {
    list: Vec<Message<'a>>,
    spoken: Option<Spoken<'a>>,
    /// Media that tools gave: chat's tool messages hold text alone, so that these follow as the user's.
    media: Vec<Part<'a>>,
    /// Names of tools.
    pub(crate) names: Names,
}

impl<'a> Messages<'a> {
    /// Instructions, from the platform or from who built the application.
    pub(crate) fn instruct(&mut self, role: &'a str, text: Cow<'a, str>) {
        self.turn();
        if !text.is_empty() {
            self.push(role, Node::Text(text));
        }
    }

    /// Instructions that consist of parts.
    pub(crate) fn instruct_in(&mut self, role: &'a str, mut parts: Vec<Part<'a>>) {
        if parts.iter().any(|part| !matches!(part, Part::Text(_))) {
            self.turn();
            return self.push(role, content(parts));
        }
        let texts = parts.iter_mut().filter_map(|part| match part {
            Part::Text(text) => Some(std::mem::take(text)),
            _ => None,
        });
        let mut texts: Vec<_> = texts.collect();
        let text = match &mut texts[..] {
            [only] => std::mem::take(only),
            _ => Cow::Owned(texts.join("\n\n")),
        };
        self.instruct(role, text);
    }

    /// The user speaks.
    pub(crate) fn user(&mut self, parts: Vec<Part<'a>>) {
        self.close();
        let mut all = std::mem::take(&mut self.media);
        all.extend(parts);
        if !all.is_empty() {
            self.push("user", content(all));
        }
    }

    /// The model thought. Only what its maker did not seal can be told to another model: `false` where it is left out.
    /// What another chat upstream sealed goes back as it came: a detail to the others, a call's signature to the call.
    pub(crate) fn thought(&mut self, text: &str, seal: Option<Seal<'_>>) -> bool {
        if seal.is_some_and(|seal| seal.maker != Format::Chat || seal.redacted) {
            return false;
        }
        let value = seal.and_then(|seal| seal.for_target(Format::Chat));
        let detail = value.and_then(|value| detail(value, text));
        if text.is_empty() && value.is_none() {
            return true;
        }
        let spoken = self.spoken();
        spoken.reasoning.push_str(text);
        match (detail, value) {
            (Some(detail), _) => spoken.details.push(Node::raw(detail)),
            (None, Some(value)) if text.is_empty() => spoken.signature = Some(value.to_owned()),
            _ => {}
        }
        true
    }

    /// The model spoke.
    pub(crate) fn text(&mut self, text: &str) {
        self.spoken().text.push_str(text);
    }

    /// The model declined.
    pub(crate) fn refusal(&mut self, text: Cow<'a, str>) {
        let refusal = &mut self.spoken().refusal;
        *refusal = match refusal.take() {
            None => Some(text),
            Some(before) => Some(before + text),
        };
    }

    /// The model called a tool. Without arguments it has none: `{}`. `false`: its seal is a stranger's, and is left out.
    pub(crate) fn call(
        &mut self,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
        seal: Option<Seal<'_>>,
    ) -> bool {
        let (id, name) = (shortened(id, MAX_ID), self.names.said(name));
        let arguments = if arguments.trim().is_empty() {
            Cow::Borrowed("{}")
        } else {
            arguments
        };
        let function = Node::object([
            ("name", Node::Text(name)),
            ("arguments", Node::Text(arguments)),
        ]);
        let mut call = Node::object([
            ("id", Node::Text(id.clone())),
            ("type", Node::text("function")),
            ("function", function),
        ]);
        let own = seal.and_then(|seal| seal.for_target(Format::Chat));
        let spoken = self.spoken();
        if let Some(signature) = own.map(str::to_owned).or(spoken.signature.take()) {
            let google = Node::object([("thought_signature", Node::text(signature))]);
            call.put("extra_content", Node::object([("google", google)]));
        }
        spoken.calls.push(call);
        spoken.ids.push(id);
        seal.is_none() || own.is_some()
    }

    /// What a tool gave: text in its own message, media in the user's that follows.
    pub(crate) fn output(&mut self, id: Cow<'a, str>, parts: Vec<Part<'a>>, error: bool) {
        self.close();
        let mut texts = Vec::new();
        if error {
            texts.push(Cow::Borrowed("[error]"));
        }
        for part in parts {
            match part {
                Part::Text(text) | Part::Marked(text, _) => texts.push(text),
                media @ Part::Other(_) => self.media.push(media),
            }
        }
        let id = shortened(id, MAX_ID);
        let at = self.place(&id);
        let node = Node::object([
            ("role", Node::text("tool")),
            ("tool_call_id", Node::Text(id)),
            ("content", Node::text(texts.join("\n"))),
        ]);
        self.list.insert(
            at,
            Message {
                node,
                ids: Vec::new(),
                output: true,
            },
        );
    }

    /// Where a call's output stands: behind the message with the call and the outputs that follow that. Other dialects let
    /// something else come between. It is the output of the first call of this id that has none.
    fn place(&mut self, id: &str) -> usize {
        let end = self.list.len();
        let waits = |message: &Message<'_>| message.ids.iter().position(|known| known == id);
        let mut asked = self.list.iter_mut().enumerate();
        let found = asked.find_map(|(at, message)| Some((at, waits(message)?, message)));
        let Some((call, at, message)) = found else {
            return end;
        };
        message.ids.remove(at);
        let behind = self.list.iter().enumerate().skip(call + 1);
        let mut others = behind.filter(|(_, message)| !message.output);
        others.next().map_or(end, |(at, _)| at)
    }

    /// The member `messages`, and what tools are called in it.
    pub(crate) fn finish(mut self) -> (Node<'a>, Names) {
        self.turn();
        let list = self.list.into_iter().map(|message| message.node).collect();
        (Node::Array(list), self.names)
    }

    fn spoken(&mut self) -> &mut Spoken<'a> {
        if self.spoken.is_none() {
            self.turn();
        }
        self.spoken.get_or_insert_default()
    }

    /// Ends what the model said, and says what is left of the tools'.
    fn turn(&mut self) {
        self.close();
        let media = std::mem::take(&mut self.media);
        if !media.is_empty() {
            self.push("user", content(media));
        }
    }

    fn close(&mut self) {
        let Some(spoken) = self.spoken.take() else {
            return;
        };
        let mut message = Node::object([("role", Node::text("assistant"))]);
        let text = match spoken.text {
            text if text.is_empty() && !spoken.calls.is_empty() => Node::Null,
            text => Node::text(text),
        };
        message.put("content", text);
        if !spoken.reasoning.is_empty() {
            message.put("reasoning_content", Node::text(spoken.reasoning));
        }
        if !spoken.details.is_empty() {
            message.put("reasoning_details", Node::Array(spoken.details));
        }
        message.put_some("refusal", spoken.refusal.map(Node::Text));
        if !spoken.calls.is_empty() {
            message.put("tool_calls", Node::Array(spoken.calls));
        }
        self.list.push(Message {
            node: message,
            ids: spoken.ids,
            output: false,
        });
    }

    fn push(&mut self, role: &'a str, content: Node<'a>) {
        let node = Node::object([("role", Node::text(role)), ("content", content)]);
        self.list.push(Message {
            node,
            ids: Vec::new(),
            output: false,
        });
    }
}

/// An item of `reasoning_details` with its text again (see the reader); nothing where the seal is none.
fn detail(sealed: &str, text: &str) -> Option<String> {
    let mut cursor = Cursor::new(sealed);
    let whole = cursor
        .skip()
        .ok()
        .filter(|value| value.kind == Kind::Object);
    whole.filter(|_| cursor.end().is_ok())?;
    let kind = crate::json::member(sealed, "type").and_then(|kind| kind.text());
    let name = match kind.map(|kind| kind.decode(sealed)).as_deref() {
        Some("reasoning.text") => "text",
        Some("reasoning.summary") => "summary",
        _ => return Some(sealed.to_owned()),
    };
    let inside = sealed.trim_start().strip_prefix('{')?;
    let text = Node::object([(name, Node::text(text))]).render();
    Some(format!("{},{inside}", text.strip_suffix('}')?))
}

/// A content: one text is a string, as every server understands it.
fn content(mut parts: Vec<Part<'_>>) -> Node<'_> {
    if let [Part::Text(text)] = &mut parts[..] {
        return Node::Text(std::mem::take(text));
    }
    let text = |text| Node::object([("type", Node::text("text")), ("text", Node::Text(text))]);
    let part = |part| match part {
        Part::Text(said) => text(said),
        Part::Marked(said, mark) => {
            let mut part = text(said);
            part.put("prompt_cache_breakpoint", mark);
            part
        }
        Part::Other(node) => node,
    };
    Node::Array(parts.into_iter().map(part).collect())
}

/// An image, at an address or as a `data:` URL; how closely to look is JSON.
pub(crate) fn image<'a>(url: Cow<'a, str>, detail: Option<&'a str>) -> Part<'a> {
    let mut image = Node::object([("url", Node::Text(url))]);
    image.put_some("detail", detail.map(Node::raw));
    Part::Other(Node::object([
        ("type", Node::text("image_url")),
        ("image_url", image),
    ]))
}

/// A file, given as a `data:` URL.
pub(crate) fn file<'a>(data: Cow<'a, str>, name: Option<Cow<'a, str>>) -> Part<'a> {
    let name = with_ending(name, &data);
    let file = Node::object([
        ("file_data", Node::Text(data)),
        ("filename", Node::Text(name)),
    ]);
    Part::Other(Node::object([("type", Node::text("file")), ("file", file)]))
}

/// Sound: base64 and its form.
pub(crate) fn sound<'a>(data: Cow<'a, str>, format: Cow<'a, str>) -> Part<'a> {
    let audio = Node::object([("data", Node::Text(data)), ("format", Node::Text(format))]);
    Part::Other(Node::object([
        ("type", Node::text("input_audio")),
        ("input_audio", audio),
    ]))
}

/// A tool.
pub(crate) fn function<'a>(
    name: Cow<'a, str>,
    description: Option<Node<'a>>,
    parameters: Option<Node<'a>>,
    strict: Option<bool>,
) -> Node<'a> {
    let mut function = Node::object([("name", Node::Text(name))]);
    function.put_some("description", description);
    function.put_some("parameters", parameters);
    function.put_some("strict", strict.map(Node::Bool));
    Node::object([("type", Node::text("function")), ("function", function)])
}

/// A tool of free text as one that takes it in `input`; `syntax` says what the text must be, where that is told.
pub(crate) fn free_text<'a>(name: Cow<'a, str>, description: Option<Node<'a>>) -> Node<'a> {
    let parameters = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;
    function(name, description, Some(Node::raw(parameters)), None)
}

/// The arguments of a tool of free text, as `free_text` declares it.
pub(crate) fn free_arguments(input: &str) -> String {
    Node::object([("input", Node::text(input))]).render()
}

/// A choice of one tool.
pub(crate) fn this_tool(name: Cow<'_, str>) -> Node<'_> {
    let function = Node::object([("name", Node::Text(name))]);
    Node::object([("type", Node::text("function")), ("function", function)])
}

/// A choice among some of the tools.
pub(crate) fn some_tools(names: Vec<Cow<'_, str>>, required: bool) -> Node<'_> {
    let mode = if required { "required" } else { "auto" };
    let tools = names.into_iter().map(this_tool).collect();
    let allowed = Node::object([("mode", Node::text(mode)), ("tools", Node::Array(tools))]);
    Node::object([
        ("type", Node::text("allowed_tools")),
        ("allowed_tools", allowed),
    ])
}

/// `response_format` of a schema.
pub(crate) fn schema_format<'a>(
    name: Cow<'a, str>,
    description: Option<Node<'a>>,
    schema: Node<'a>,
    strict: Option<bool>,
) -> Node<'a> {
    let mut inner = Node::object([("name", Node::Text(name))]);
    inner.put_some("description", description);
    inner.put("schema", schema);
    inner.put_some("strict", strict.map(Node::Bool));
    Node::object([("type", Node::text("json_schema")), ("json_schema", inner)])
}

/// JSON that is carried over.
pub(crate) fn as_it_is(text: &str) -> Node<'_> {
    Node::raw(one_line(text))
}

/// The start of a body.
pub(crate) fn body(model: &str, stream: bool) -> Node<'_> {
    let mut body = Node::object([("model", Node::text(model))]);
    if stream {
        body.put("stream", Node::Bool(true));
        let usage = Node::object([("include_usage", Node::Bool(true))]);
        body.put("stream_options", usage);
    }
    body
}

/// A limit of tokens.
pub(crate) fn number<'a>(tokens: u64) -> Node<'a> {
    Node::Number(i64::try_from(tokens).unwrap_or(i64::MAX))
}

/// A `safety_identifier` of the allowed length; of a longer one its beginning and a digest.
pub(crate) fn user(user: Cow<'_, str>) -> Cow<'_, str> {
    shortened(user, MAX_USER)
}

/// A budget of thought as an effort (PROTOCOLS §11.3).
pub(crate) const fn effort(budget: u64) -> &'static str {
    match budget {
        0..=1024 => "low",
        1025..=8192 => "medium",
        _ => "high",
    }
}

/// The free text in arguments that [`free_text`] asked for; the arguments themselves where they are something else.
pub(crate) fn free_input(arguments: &str) -> Cow<'_, str> {
    let inside = crate::json::member(arguments, "input").and_then(|value| value.text());
    match inside {
        Some(text) => text.decode(arguments),
        None => Cow::Borrowed(arguments),
    }
}
