//! What Anthropic's API demands of a request that is written in it (PROTOCOLS §7.1, §11.1): turns that alternate, results of tools
//! first in the turn after their calls and in the order of the calls, ids of a narrow alphabet, a limit of output.

use std::borrow::Cow;

use crate::convert::Format;
use crate::convert::fields::Refusal;
use crate::convert::node::{Node, one_line};
use crate::convert::seal::Seal;
use crate::json::{Cursor, Kind};

/// `max_tokens` where neither the caller nor the catalogue says: what all models since Claude 3.5 can give.
const OUTPUT: u64 = 8192;
/// The least budget of thought that is taken, tokens.
const LEAST_BUDGET: u64 = 1024;

/// The conversation.
#[derive(Debug, Default)]
pub(crate) struct Turns<'a> {
    system: Vec<Node<'a>>,
    list: Vec<Turn<'a>>,
    /// Ids as they came, of calls, by their number.
    ids: Vec<Cow<'a, str>>,
}

#[derive(Debug)]
struct Turn<'a> {
    user: bool,
    /// Results of tools with the number of their calls; they come first.
    results: Vec<(usize, Node<'a>)>,
    blocks: Vec<Node<'a>>,
}

impl<'a> Turns<'a> {
    fn turn(&mut self, user: bool) -> &mut Turn<'a> {
        if self.list.last().is_none_or(|turn| turn.user != user) {
            self.list.push(Turn {
                user,
                results: Vec::new(),
                blocks: Vec::new(),
            });
        }
        let last = self.list.len() - 1;
        // There is one: it was pushed or found.
        #[expect(
            clippy::indexing_slicing,
            reason = "the index is that of the last turn, which exists"
        )]
        &mut self.list[last]
    }

    /// Instructions. Those amid the conversation cannot stand in `system` without losing their place: they are said by the user, marked.
    pub(crate) fn instruct(&mut self, text: Cow<'a, str>) {
        if text.is_empty() {
            return;
        }
        if self.list.is_empty() {
            self.system.push(text_block(text));
        } else {
            let marked = format!("<system>\n{text}\n</system>");
            self.turn(true).blocks.push(text_block(marked.into()));
        }
    }

    /// The user says or shows something.
    pub(crate) fn user(&mut self, block: Node<'a>) {
        self.turn(true).blocks.push(block);
    }

    /// The model said something.
    pub(crate) fn text(&mut self, text: Cow<'a, str>) {
        if !text.trim().is_empty() {
            self.turn(false).blocks.push(text_block(text));
        }
    }

    /// The model thought. Only this API's own thoughts can go back to it: `false` where they are left out.
    pub(crate) fn thought(&mut self, text: &str, seal: Option<Seal<'_>>) -> bool {
        let Some(seal) = seal else {
            return false;
        };
        let Some(value) = seal.for_target(Format::Anthropic) else {
            return false;
        };
        let block = if seal.redacted {
            Node::object([
                ("type", Node::text("redacted_thinking")),
                ("data", Node::text(value.to_owned())),
            ])
        } else {
            Node::object([
                ("type", Node::text("thinking")),
                ("thinking", Node::text(text.to_owned())),
                ("signature", Node::text(value.to_owned())),
            ])
        };
        self.turn(false).blocks.push(block);
        true
    }

    /// The model called a tool; `input` is an object.
    pub(crate) fn call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, input: Node<'a>) {
        let number = self.number(id);
        let id = self.id(number);
        self.turn(false).blocks.push(Node::object([
            ("type", Node::text("tool_use")),
            ("id", Node::Text(id)),
            ("name", Node::Text(name)),
            ("input", input),
        ]));
    }

    /// What a tool gave.
    pub(crate) fn result(&mut self, id: Cow<'a, str>, mut content: Vec<Node<'a>>, error: bool) {
        let number = self.number(id);
        let id = self.id(number);
        let mut block = Node::object([
            ("type", Node::text("tool_result")),
            ("tool_use_id", Node::Text(id)),
        ]);
        if let Some(only) = plain(&mut content) {
            block.put("content", only);
        } else if !content.is_empty() {
            block.put("content", Node::Array(content));
        }
        if error {
            block.put("is_error", Node::Bool(true));
        }
        self.turn(true).results.push((number, block));
    }

    /// The number of a call, by its id.
    fn number(&mut self, id: Cow<'a, str>) -> usize {
        let known = self.ids.iter().position(|known| *known == id);
        known.unwrap_or_else(|| {
            self.ids.push(id);
            self.ids.len() - 1
        })
    }

    /// The id under which a call goes out: as it came, or one of the alphabet that no other has.
    fn id(&self, number: usize) -> Cow<'a, str> {
        let Some(id) = self.ids.get(number) else {
            return Cow::Borrowed("toolu");
        };
        if !id.is_empty() && id.chars().all(allowed) {
            return id.clone();
        }
        let kept: String = id
            .chars()
            .map(|c| if allowed(c) { c } else { '_' })
            .collect();
        let mut made = format!("{kept}_{number}");
        while self.ids.iter().any(|other| *other == made) {
            made.push('_');
        }
        Cow::Owned(made)
    }

    /// Puts `system` and `messages` into a body.
    pub(crate) fn finish(mut self, body: &mut Node<'a>) {
        if let Some(only) = plain(&mut self.system) {
            body.put("system", only);
        } else if !self.system.is_empty() {
            body.put("system", Node::Array(self.system));
        }
        let turns = self.list.into_iter().map(|mut turn| {
            turn.results.sort_by_key(|(number, _)| *number);
            let results = turn.results.into_iter().map(|(_, block)| block);
            let mut blocks: Vec<_> = results.chain(turn.blocks).collect();
            let role = if turn.user { "user" } else { "assistant" };
            let content = plain(&mut blocks).unwrap_or(Node::Array(blocks));
            Node::object([("role", Node::text(role)), ("content", content)])
        });
        body.put("messages", Node::Array(turns.collect()));
    }
}

const fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The text where it is all that there is, as a string.
fn plain<'a>(blocks: &mut [Node<'a>]) -> Option<Node<'a>> {
    let [Node::Object(members)] = blocks else {
        return None;
    };
    let text = members.len() == 2
        && members
            .first()
            .is_some_and(|(_, kind)| *kind == Node::text("text"));
    let (_, text) = text.then(|| members.pop()).flatten()?;
    Some(text)
}

/// A text block.
pub(crate) fn text_block(text: Cow<'_, str>) -> Node<'_> {
    Node::object([("type", Node::text("text")), ("text", Node::Text(text))])
}

/// An image or a document at a URL; of a `data:` URL its bytes.
///
/// # Errors
/// It is of a kind that this API does not read.
pub(crate) fn media<'a>(
    url: Cow<'a, str>,
    image: bool,
    path: &str,
) -> Result<Node<'a>, Box<Refusal>> {
    let Some(inline) = url.strip_prefix("data:") else {
        let source = Node::object([("type", Node::text("url")), ("url", Node::Text(url))]);
        return Ok(block(image, source));
    };
    let Some((kind, data)) = inline.split_once(',') else {
        return Err(Refusal::invalid(path, "a `data:` URL with base64"));
    };
    let Some(mime) = kind.strip_suffix(";base64") else {
        return Err(Refusal::invalid(path, "a `data:` URL with base64"));
    };
    inline_media(mime.to_owned().into(), data.to_owned().into(), path)
}

/// An image, a PDF or a plain text as base64.
///
/// # Errors
/// It is of another kind.
pub(crate) fn inline_media<'a>(
    mime: Cow<'a, str>,
    data: Cow<'a, str>,
    path: &str,
) -> Result<Node<'a>, Box<Refusal>> {
    let image = mime.starts_with("image/");
    if !image && mime != "application/pdf" {
        let why = format!("it reads images and PDF documents, not `{mime}`");
        return Err(Refusal::unsupported(path, &why));
    }
    let source = Node::object([
        ("type", Node::text("base64")),
        ("media_type", Node::Text(mime)),
        ("data", Node::Text(data)),
    ]);
    Ok(block(image, source))
}

fn block<'a>(image: bool, source: Node<'a>) -> Node<'a> {
    let kind = if image { "image" } else { "document" };
    Node::object([("type", Node::text(kind)), ("source", source)])
}

/// Arguments as an object: none are `{}`; what is no object goes into `_raw` of one, so that nothing of it is lost.
pub(crate) fn input<'a>(arguments: Cow<'a, str>) -> Node<'a> {
    let text = arguments.trim();
    if text.is_empty() {
        return Node::raw("{}");
    }
    let mut cursor = Cursor::new(text);
    let valid = cursor.skip().is_ok_and(|value| value.kind == Kind::Object) && cursor.end().is_ok();
    if valid {
        return Node::raw(one_line(text).into_owned());
    }
    Node::object([("_raw", Node::text(text.to_owned()))])
}

/// The input of a tool of free text.
pub(crate) fn free_input<'a>(text: Cow<'a, str>) -> Node<'a> {
    Node::object([("input", Node::Text(text))])
}

/// A tool. Its schema is an object's.
pub(crate) fn tool<'a>(
    name: Cow<'a, str>,
    description: Option<Node<'a>>,
    schema: Option<Node<'a>>,
    strict: Option<bool>,
) -> Node<'a> {
    let mut tool = Node::object([("name", Node::Text(name))]);
    tool.put_some("description", description);
    let none = || Node::raw(r#"{"type":"object","properties":{}}"#);
    tool.put("input_schema", schema.unwrap_or_else(none));
    if strict == Some(true) {
        tool.put("strict", Node::Bool(true));
    }
    tool
}

/// A tool of free text as one that takes it in `input`.
pub(crate) fn free_tool<'a>(name: Cow<'a, str>, description: Option<Node<'a>>) -> Node<'a> {
    let schema = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;
    tool(name, description, Some(Node::raw(schema)), None)
}

/// Which tools may or must be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// As the model likes.
    Auto,
    /// None.
    None,
    /// Some.
    Any,
    /// This one.
    Tool(Cow<'a, str>),
}

impl Choice<'_> {
    /// Whether a call is forced: then there is no thinking by a budget.
    pub(crate) const fn forces(&self) -> bool {
        matches!(self, Self::Any | Self::Tool(_))
    }
}

/// The member `tool_choice`, where it says something.
pub(crate) fn choice<'a>(choice: Option<Choice<'a>>, one_call: bool) -> Option<Node<'a>> {
    let (word, name) = match choice {
        None | Some(Choice::Auto) if one_call => ("auto", None),
        None | Some(Choice::Auto) => return None,
        Some(Choice::None) => ("none", None),
        Some(Choice::Any) => ("any", None),
        Some(Choice::Tool(name)) => ("tool", Some(name)),
    };
    let mut out = Node::object([("type", Node::text(word))]);
    out.put_some("name", name.map(Node::Text));
    if one_call && word != "none" {
        out.put("disable_parallel_tool_use", Node::Bool(true));
    }
    Some(out)
}

/// Whether a model thinks as it sees fit, under an effort (since Claude 4.6), or by a budget of tokens (Claude 3.7 to 4.5). Names of
/// earlier models and names that tell no generation count as the newer kind.
pub(crate) fn adaptive(model: &str) -> bool {
    let older = [
        "claude-3",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-opus-4-5",
        "claude-opus-4-2",
        "claude-sonnet-4-0",
        "claude-sonnet-4-2",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
    ];
    !older.iter().any(|name| model.contains(name))
}

/// How much is to be thought, and the limit of output that belongs to it.
#[derive(Debug)]
pub(crate) struct Thought<'a> {
    /// `thinking`.
    pub(crate) thinking: Option<Node<'a>>,
    /// `output_config.effort`.
    pub(crate) effort: Option<Node<'a>>,
    /// `max_tokens`.
    pub(crate) limit: u64,
}

/// Thinking by an effort of OpenAI's (none, minimal, low, medium, high, xhigh, max). Where a call is forced there is none by a budget.
pub(crate) fn think<'a>(
    model: &str,
    effort: Option<&str>,
    limit: Option<u64>,
    most: Option<u64>,
    forced: bool,
) -> Thought<'a> {
    let limit = limit.or(most).unwrap_or(OUTPUT);
    let none = Thought {
        thinking: None,
        effort: None,
        limit,
    };
    let Some(effort) = effort else {
        return none;
    };
    if effort == "none" {
        return none;
    }
    if adaptive(model) {
        let word = match effort {
            "minimal" | "low" => "low",
            "medium" => "medium",
            "xhigh" => "xhigh",
            "max" => "max",
            _ => "high",
        };
        return Thought {
            thinking: Some(Node::object([("type", Node::text("adaptive"))])),
            effort: Some(Node::text(word)),
            limit,
        };
    }
    if forced {
        return none;
    }
    let budget: u64 = match effort {
        "minimal" | "low" => 1024,
        "medium" => 2048,
        "high" => 4096,
        _ => 8192,
    };
    // It is a part of the limit, which is the caller's and what was held for: a quarter stays for the answer.
    let budget = budget.min(limit / 4 * 3);
    if budget < LEAST_BUDGET {
        return none;
    }
    let budget_node = Node::Number(i64::try_from(budget).unwrap_or(1024));
    Thought {
        thinking: Some(Node::object([
            ("type", Node::text("enabled")),
            ("budget_tokens", budget_node),
        ])),
        effort: None,
        limit,
    }
}

/// A temperature of OpenAI's or Gemini's range (0..2) in this API's (0..1); `None` while the model thinks, when only its own is taken.
pub(crate) fn temperature<'a>(raw: &'a str, thinks: bool) -> Option<Node<'a>> {
    if thinks {
        return None;
    }
    let above = raw.trim().parse::<f64>().is_ok_and(|number| number > 1.0);
    Some(Node::raw(if above { "1" } else { raw }))
}

/// `output_config`: an effort, a schema.
pub(crate) fn output_config<'a>(
    effort: Option<Node<'a>>,
    schema: Option<Node<'a>>,
) -> Option<Node<'a>> {
    if effort.is_none() && schema.is_none() {
        return None;
    }
    let mut config = Node::object([]);
    config.put_some("effort", effort);
    let format = schema
        .map(|schema| Node::object([("type", Node::text("json_schema")), ("schema", schema)]));
    config.put_some("format", format);
    Some(config)
}

/// Words for a model that is to answer in JSON without a schema.
pub(crate) const JSON_ONLY: &str = "Answer with a single JSON object and nothing else.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thought_never_raises_the_callers_limit() {
        let budget = |limit| {
            let thought = think("claude-sonnet-4-5", Some("high"), Some(limit), None, false);
            assert_eq!(thought.limit, limit);
            thought.thinking.map(|thinking| thinking.render())
        };
        let enabled =
            |tokens: u64| Some(format!(r#"{{"type":"enabled","budget_tokens":{tokens}}}"#));
        assert_eq!(budget(16_000), enabled(4096));
        assert_eq!(budget(2000), enabled(1500));
        assert_eq!(budget(1000), None);
    }
}
