//! `tools`, `toolConfig` and `generationConfig` of a request that is being written.

use std::borrow::Cow;

use crate::convert::fields::{Raw, Refusal};
use crate::convert::node::{Node, one_line};

/// Google takes at most so many stop sequences.
const MAX_STOPS: usize = 5;

/// The arguments of a tool of free text.
const FREE_TEXT: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

/// The functions that may be called, and which of them.
#[derive(Debug, Default)]
pub(crate) struct Tools<'a> {
    declared: Vec<(Cow<'a, str>, Node<'a>)>,
    /// Names of those that take free text.
    custom: Vec<String>,
    config: Option<Node<'a>>,
}

impl<'a> Tools<'a> {
    /// Declares a function. `parameters`: its JSON Schema, if it has arguments.
    pub(crate) fn function(
        &mut self,
        name: Cow<'a, str>,
        description: Option<Node<'a>>,
        parameters: Option<&Raw<'a>>,
    ) {
        let parameters = parameters.map(|raw| Node::raw(one_line(raw.text)));
        self.declare(name, description, parameters);
    }

    /// Declares a tool of free text: a function with one string, `input`.
    pub(crate) fn free_text(&mut self, name: Cow<'a, str>, description: Option<Node<'a>>) {
        self.custom.push(name.clone().into_owned());
        self.declare(name, description, Some(Node::raw(FREE_TEXT)));
    }

    fn declare(
        &mut self,
        name: Cow<'a, str>,
        description: Option<Node<'a>>,
        parameters: Option<Node<'a>>,
    ) {
        let mut declaration = Node::object([("name", Node::text(name.clone()))]);
        declaration.put_some("description", description);
        declaration.put_some("parametersJsonSchema", parameters);
        self.declared.push((name, declaration));
    }

    /// None may be called.
    pub(crate) fn none(&mut self) {
        self.mode("NONE", &[]);
    }

    /// One must be: of these, or of all where none are named.
    pub(crate) fn required(&mut self, names: &[Cow<'a, str>]) {
        self.mode("ANY", names);
    }

    /// Only these may be: the others are not declared, as this dialect takes names only where a call must come.
    pub(crate) fn only(&mut self, names: &[Cow<'a, str>]) {
        self.declared.retain(|(name, _)| names.contains(name));
    }

    fn mode(&mut self, mode: &'static str, names: &[Cow<'a, str>]) {
        let mut calling = Node::object([("mode", Node::text(mode))]);
        if !names.is_empty() {
            let names = names.iter().cloned().map(Node::text).collect();
            calling.put("allowedFunctionNames", Node::Array(names));
        }
        self.config = Some(Node::object([("functionCallingConfig", calling)]));
    }

    /// Puts them into the request; gives the names of the tools of free text.
    pub(crate) fn finish(self, body: &mut Node<'a>) -> Vec<String> {
        if !self.declared.is_empty() {
            let declared = self.declared.into_iter().map(|(_, node)| node).collect();
            let tool = Node::object([("functionDeclarations", Node::Array(declared))]);
            body.put("tools", Node::Array(vec![tool]));
            body.put_some("toolConfig", self.config);
        }
        self.custom
    }
}

/// `generationConfig`.
#[derive(Debug)]
pub(crate) struct Settings<'a>(Node<'a>);

impl<'a> Settings<'a> {
    /// Nothing is set.
    pub(crate) const fn new() -> Self {
        Self(Node::Object(Vec::new()))
    }

    /// Sets what stays as it is.
    pub(crate) fn raw(&mut self, name: &'a str, raw: Option<Raw<'a>>) {
        self.0.put_some(name, raw.map(|raw| Node::raw(raw.text)));
    }

    /// Sets a number.
    pub(crate) fn number(&mut self, name: &'a str, number: Option<u64>) {
        let number = number.map(|number| Node::raw(number.to_string()));
        self.0.put_some(name, number);
    }

    /// Sets anything.
    pub(crate) fn put(&mut self, name: &'a str, node: Node<'a>) {
        self.0.put(name, node);
    }

    /// Sets the stop sequences.
    ///
    /// # Errors
    /// There are more than Google takes; `path` names them.
    pub(crate) fn stop(&mut self, stop: Vec<Cow<'a, str>>, path: &str) -> Result<(), Box<Refusal>> {
        if stop.len() > MAX_STOPS {
            return Err(Refusal::unsupported(path, "it takes at most 5 of them"));
        }
        if !stop.is_empty() {
            let stop = stop.into_iter().map(Node::text).collect();
            self.0.put("stopSequences", Node::Array(stop));
        }
        Ok(())
    }

    /// The answer is to be JSON, of this schema if there is one.
    pub(crate) fn json(&mut self, schema: Option<&Raw<'a>>) {
        self.0
            .put("responseMimeType", Node::text("application/json"));
        let schema = schema.map(|raw| Node::raw(one_line(raw.text)));
        self.0.put_some("responseJsonSchema", schema);
    }

    /// Puts them into the request.
    pub(crate) fn finish(self, body: &mut Node<'a>) {
        if self.0 != Node::Object(Vec::new()) {
            body.put("generationConfig", self.0);
        }
    }
}
