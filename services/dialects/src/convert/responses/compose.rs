//! What the Responses API demands of a request that is written in it (PROTOCOLS §5.1, §11.4): items in order, flat tools with
//! an explicit `strict`, the text's form, no state.

use std::borrow::Cow;

use crate::convert::Format;
use crate::convert::filename::with_ending;
use crate::convert::names::{Names, shortened};
use crate::convert::node::{Node, one_line};
use crate::convert::seal::Seal;

/// The longest id that links a call with its output, characters.
const MAX_ID: usize = 64;
/// The least `max_output_tokens` that is taken.
const LEAST_OUTPUT: u64 = 16;

/// The items of `input`, in order.
#[derive(Debug, Default)]
pub(crate) struct Items<'a> {
    list: Vec<Node<'a>>,
    /// Ids of calls of tools of free text: their outputs are of another type.
    custom: Vec<Cow<'a, str>>,
    /// Names of tools.
    names: Names,
}

impl<'a> Items<'a> {
    /// A message. One that says nothing is none.
    pub(crate) fn message(&mut self, role: &'a str, content: Vec<Node<'a>>) {
        if !content.is_empty() {
            self.list.push(Node::object([
                ("type", Node::text("message")),
                ("role", Node::text(role)),
                ("content", Node::Array(content)),
            ]));
        }
    }

    /// Reasoning that its maker knows again. Only this API's own can go there: `false` where it is not.
    pub(crate) fn reasoning(&mut self, text: &str, seal: Option<Seal<'_>>) -> bool {
        let Some(sealed) = seal.and_then(|seal| seal.for_target(Format::Responses)) else {
            return false;
        };
        let summary = if text.is_empty() {
            Vec::new()
        } else {
            vec![Node::object([
                ("type", Node::text("summary_text")),
                ("text", Node::text(text.to_owned())),
            ])]
        };
        self.list.push(Node::object([
            ("type", Node::text("reasoning")),
            ("summary", Node::Array(summary)),
            ("encrypted_content", Node::text(sealed.to_owned())),
        ]));
        true
    }

    /// A call. Without arguments it has none: `{}`.
    pub(crate) fn call(
        &mut self,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
        custom: bool,
    ) {
        let (kind, member) = if custom {
            self.custom.push(id.clone());
            ("custom_tool_call", "input")
        } else {
            ("function_call", "arguments")
        };
        let arguments = if custom || !arguments.trim().is_empty() {
            arguments
        } else {
            Cow::Borrowed("{}")
        };
        self.list.push(Node::object([
            ("type", Node::text(kind)),
            ("call_id", Node::Text(shortened(id, MAX_ID))),
            ("name", Node::Text(self.names.said(name))),
            (member, Node::Text(arguments)),
        ]));
    }

    /// What a tool gave: a text where it is nothing else, else parts.
    pub(crate) fn output(&mut self, id: Cow<'a, str>, mut parts: Vec<Node<'a>>) {
        let custom = self.custom.contains(&id);
        let kind = if custom {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        };
        let output = match (parts.len(), parts.pop()) {
            (_, None) => Node::text(""),
            (1, Some(only)) => match text_of(only) {
                Ok(text) => text,
                Err(part) => Node::Array(vec![part]),
            },
            (_, Some(last)) => {
                parts.push(last);
                Node::Array(parts)
            }
        };
        self.list.push(Node::object([
            ("type", Node::text(kind)),
            ("call_id", Node::Text(shortened(id, MAX_ID))),
            ("output", output),
        ]));
    }

    /// The member `input`, and what tools are called in it.
    pub(crate) fn finish(self) -> (Node<'a>, Names) {
        (Node::Array(self.list), self.names)
    }
}

/// The text of a part that is nothing but text.
fn text_of(part: Node<'_>) -> Result<Node<'_>, Node<'_>> {
    match part {
        Node::Object(mut members)
            if members.len() == 2
                && members[0].1 == Node::text("input_text")
                && matches!(members[1].1, Node::Text(_)) =>
        {
            Ok(members.swap_remove(1).1)
        }
        part => Err(part),
    }
}

/// A text that goes in.
pub(crate) fn input_text<'a>(text: impl Into<Cow<'a, str>>) -> Node<'a> {
    typed("input_text", "text", text.into())
}

/// A text that came out.
pub(crate) fn output_text<'a>(text: impl Into<Cow<'a, str>>) -> Node<'a> {
    typed("output_text", "text", text.into())
}

/// A refusal that came out.
pub(crate) fn refusal<'a>(text: impl Into<Cow<'a, str>>) -> Node<'a> {
    typed("refusal", "refusal", text.into())
}

fn typed<'a>(kind: &'a str, member: &'a str, text: Cow<'a, str>) -> Node<'a> {
    Node::object([("type", Node::text(kind)), (member, Node::Text(text))])
}

/// An image, at an address or as a `data:` URL; how closely to look is JSON.
pub(crate) fn image<'a>(url: impl Into<Cow<'a, str>>, detail: Option<&'a str>) -> Node<'a> {
    let mut image = typed("input_image", "image_url", url.into());
    image.put("detail", Node::raw(detail.unwrap_or(r#""auto""#)));
    image
}

/// A file: `file_data` (a `data:` URL) or `file_url`.
pub(crate) fn file<'a>(
    member: &'a str,
    place: Cow<'a, str>,
    name: Option<Cow<'a, str>>,
) -> Node<'a> {
    // With bytes there has to be a name.
    let name = match member {
        "file_data" => Some(with_ending(name, &place)),
        _ => name,
    };
    let mut file = typed("input_file", member, place);
    file.put_some("filename", name.map(Node::Text));
    file
}

/// A tool that takes JSON. `strict` is always said: left out it means another thing here than elsewhere.
pub(crate) fn function<'a>(
    name: Cow<'a, str>,
    description: Option<Node<'a>>,
    parameters: Option<Node<'a>>,
    strict: bool,
) -> Node<'a> {
    let none = || Node::raw(r#"{"type":"object","properties":{}}"#);
    let mut tool = Node::object([("type", Node::text("function")), ("name", Node::Text(name))]);
    tool.put_some("description", description);
    tool.put("parameters", parameters.unwrap_or_else(none));
    tool.put("strict", Node::Bool(strict));
    tool
}

/// A choice of one tool.
pub(crate) fn this_tool<'a>(name: Cow<'a, str>, custom: bool) -> Node<'a> {
    let kind = if custom { "custom" } else { "function" };
    typed(kind, "name", name)
}

/// `text.format` of a schema.
pub(crate) fn schema_format<'a>(
    name: Cow<'a, str>,
    description: Option<Node<'a>>,
    schema: Option<&'a str>,
    strict: Option<bool>,
) -> Node<'a> {
    let mut format = Node::object([
        ("type", Node::text("json_schema")),
        ("name", Node::Text(name)),
    ]);
    format.put_some("description", description);
    let schema = schema.unwrap_or(r#"{"type":"object"}"#);
    format.put("schema", Node::raw(one_line(schema)));
    format.put_some("strict", strict.map(Node::Bool));
    format
}

/// The start of a body.
pub(crate) fn body<'a>(model: &'a str, stream: bool) -> Node<'a> {
    let mut body = Node::object([("model", Node::text(model))]);
    if stream {
        body.put("stream", Node::Bool(true));
    }
    // Nothing is to be kept there, so that reasoning has to come back to go in again.
    body.put("store", Node::Bool(false));
    body
}

/// `include`, with log probabilities where they are asked for.
pub(crate) fn include<'a>(reasons: bool, logprobs: bool) -> Option<Node<'a>> {
    let mut include = Vec::new();
    if reasons {
        include.push(Node::text("reasoning.encrypted_content"));
    }
    if logprobs {
        include.push(Node::text("message.output_text.logprobs"));
    }
    (!include.is_empty()).then_some(Node::Array(include))
}

/// `max_output_tokens`, raised to the least that is taken.
pub(crate) fn limit<'a>(tokens: u64) -> Node<'a> {
    Node::Number(i64::try_from(tokens.max(LEAST_OUTPUT)).unwrap_or(i64::MAX))
}

/// `reasoning`: how much, and its summary, which callers of other dialects see as thoughts.
pub(crate) fn reasoning<'a>(effort: Option<Cow<'a, str>>) -> Node<'a> {
    let silent = effort.as_deref() == Some("none");
    let mut reasoning = Node::object([]);
    reasoning.put_some("effort", effort.map(Node::Text));
    if !silent {
        reasoning.put("summary", Node::text("auto"));
    }
    reasoning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_keep_their_outputs() {
        let mut items = Items::default();
        items.call("c".into(), "f".into(), "".into(), false);
        items.call("d".into(), "g".into(), "free".into(), true);
        items.output("c".into(), vec![input_text("one")]);
        items.output("d".into(), vec![input_text("a"), input_text("b")]);
        assert_eq!(
            items.finish().0.render(),
            r#"[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"d","name":"g","input":"free"},{"type":"function_call_output","call_id":"c","output":"one"},{"type":"custom_tool_call_output","call_id":"d","output":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]"#
        );
    }
}
