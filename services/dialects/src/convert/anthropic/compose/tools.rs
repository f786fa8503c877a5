//! Tools, and which of them may or must be called.

use std::borrow::Cow;

use crate::convert::fields::Raw;
use crate::convert::names::Names;
use crate::convert::node::Node;

/// The schema of a tool that takes nothing.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;
/// The schema of a tool of free text.
const FREE_TEXT: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;

/// Tools that are declared.
#[derive(Debug, Default)]
pub(crate) struct Tools<'a> {
    declared: Vec<(Cow<'a, str>, Node<'a>)>,
    custom: Vec<String>,
    choice: Choice<'a>,
    only: Option<Vec<Cow<'a, str>>>,
    one_call: bool,
}

/// Which tools may or must be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Choice<'a> {
    #[default]
    Auto,
    None,
    Any,
    Tool(Cow<'a, str>),
}

/// A schema whose root is an object, as all must be: a root that tells no type is one.
pub(crate) fn object_schema<'a>(raw: &Raw<'a>) -> Node<'a> {
    let text = crate::convert::node::one_line(raw.text);
    let typed = raw.fields().map_or(true, |fields| fields.has("type"));
    if typed {
        return Node::Raw(text);
    }
    let inside = text.trim().strip_prefix('{').unwrap_or("}").trim_start();
    let comma = if inside == "}" { "" } else { "," };
    Node::raw(format!(r#"{{"type":"object"{comma}{inside}"#))
}

/// The same of a schema that was written anew.
fn rooted(schema: Node<'_>) -> Node<'_> {
    match schema {
        Node::Raw(text) => match object_schema(&Raw::body(&text)) {
            Node::Raw(Cow::Owned(rooted)) => Node::raw(rooted),
            _ => Node::Raw(text),
        },
        Node::Object(mut members) if members.iter().all(|(key, _)| key != "type") => {
            members.insert(0, ("type".into(), Node::text("object")));
            Node::Object(members)
        }
        schema => schema,
    }
}

impl<'a> Tools<'a> {
    /// A tool that takes JSON of a schema.
    pub(crate) fn function(
        &mut self,
        name: Cow<'a, str>,
        description: Option<Node<'a>>,
        schema: Option<Node<'a>>,
        strict: bool,
        mark: Option<Node<'a>>,
    ) {
        let mut tool = Node::object([]);
        tool.put_some("description", description);
        let schema = schema.unwrap_or_else(|| Node::raw(NOTHING));
        tool.put("input_schema", rooted(schema));
        if strict {
            tool.put("strict", Node::Bool(true));
        }
        tool.put_some("cache_control", mark);
        self.declared.push((name, tool));
    }

    /// A tool of free text, as one that takes it in `input`.
    pub(crate) fn free_text(
        &mut self,
        name: Cow<'a, str>,
        description: Option<Node<'a>>,
        mark: Option<Node<'a>>,
    ) {
        self.custom.push(name.clone().into_owned());
        let schema = Some(Node::raw(FREE_TEXT));
        self.function(name, description, schema, false, mark);
    }

    /// None may be called.
    pub(crate) fn none(&mut self) {
        self.choice = Choice::None;
    }

    /// Some must be called: one of these, where any are named.
    pub(crate) fn required(&mut self, names: &[Cow<'a, str>]) {
        match names {
            [only] => self.choice = Choice::Tool(only.clone()),
            names => {
                self.choice = Choice::Any;
                self.only = (!names.is_empty()).then(|| names.to_vec());
            }
        }
    }

    /// Only these may be called. This dialect has no word for that: the others are left out.
    pub(crate) fn only(&mut self, names: &[Cow<'a, str>]) {
        self.only = Some(names.to_vec());
    }

    /// One call at a time.
    pub(crate) fn one_call(&mut self) {
        self.one_call = true;
    }

    /// Whether a call is forced.
    pub(super) const fn forces(&self) -> bool {
        matches!(self.choice, Choice::Any | Choice::Tool(_))
    }

    /// Whether a tool goes by this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.declared.iter().any(|(known, _)| known == name)
    }

    /// Declares a tool that takes the answer, and has it called.
    pub(super) fn answer(&mut self, name: &'static str, schema: Node<'a>) {
        let alone = self.declared.is_empty() || self.choice == Choice::None;
        let description = "Gives the final answer.";
        self.function(
            name.into(),
            Some(Node::text(description)),
            Some(schema),
            false,
            None,
        );
        self.one_call = true;
        if let Some(only) = &mut self.only {
            only.push(name.into());
        }
        self.choice = match &self.choice {
            Choice::Tool(forced) => Choice::Tool(forced.clone()),
            _ if alone => Choice::Tool(name.into()),
            _ => Choice::Any,
        };
    }

    /// Puts `tools` and `tool_choice` into a body. `called` are the tools that the conversation calls: one with calls must declare
    /// tools, so that without any these are declared, and may not be called. Gives the names of tools of free text.
    pub(super) fn finish(
        mut self,
        (called, names): (Vec<String>, &mut Names),
        body: &mut Node<'a>,
    ) -> Vec<String> {
        if let Some(only) = &self.only {
            self.declared.retain(|(name, _)| only.contains(name));
        }
        if self.declared.is_empty() {
            self.choice = Choice::None;
            for name in called {
                self.function(name.into(), None, None, false, None);
            }
        }
        if self.declared.is_empty() {
            return self.custom;
        }
        let declared = self.declared.into_iter().map(|(name, mut tool)| {
            if let Node::Object(members) = &mut tool {
                members.insert(0, ("name".into(), Node::Text(names.said(name))));
            }
            tool
        });
        body.put("tools", Node::Array(declared.collect()));
        let (word, name) = match self.choice {
            Choice::Auto if !self.one_call => return self.custom,
            Choice::Auto => ("auto", None),
            Choice::None => ("none", None),
            Choice::Any => ("any", None),
            Choice::Tool(name) => ("tool", Some(names.said(name))),
        };
        let mut choice = Node::object([("type", Node::text(word))]);
        choice.put_some("name", name.map(Node::Text));
        if self.one_call && word != "none" {
            choice.put("disable_parallel_tool_use", Node::Bool(true));
        }
        body.put("tool_choice", choice);
        self.custom
    }
}
