//! `tools`, `toolConfig` and `generationConfig` of a request that is being written.

use std::borrow::Cow;

use crate::convert::fields::{Drops, Raw};
use crate::convert::names::Names;
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
    mode: Option<(&'static str, Vec<Cow<'a, str>>)>,
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
        let mut declaration = Node::object([]);
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
        self.mode = Some((mode, names.to_vec()));
    }

    /// Puts them into the request; gives the names of the tools of free text.
    pub(crate) fn finish(self, names: &mut Names, body: &mut Node<'a>) -> Vec<String> {
        if self.declared.is_empty() {
            return self.custom;
        }
        let declared = self.declared.into_iter().map(|(name, mut node)| {
            if let Node::Object(members) = &mut node {
                members.insert(0, ("name".into(), Node::Text(names.said(name))));
            }
            node
        });
        let declared = Node::Array(declared.collect());
        let tool = Node::object([("functionDeclarations", declared)]);
        body.put("tools", Node::Array(vec![tool]));
        if let Some((mode, allowed)) = self.mode {
            let mut calling = Node::object([("mode", Node::text(mode))]);
            if !allowed.is_empty() {
                let allowed = allowed.into_iter().map(|name| Node::Text(names.said(name)));
                calling.put("allowedFunctionNames", Node::Array(allowed.collect()));
            }
            body.put(
                "toolConfig",
                Node::object([("functionCallingConfig", calling)]),
            );
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

    /// Sets the stop sequences: as many as Google takes; `path` names the others.
    pub(crate) fn stop(&mut self, mut stop: Vec<Cow<'a, str>>, path: &str, drops: &mut Drops) {
        if stop.len() > MAX_STOPS {
            stop.truncate(MAX_STOPS);
            drops.note(path);
        }
        if !stop.is_empty() {
            let stop = stop.into_iter().map(Node::text).collect();
            self.0.put("stopSequences", Node::Array(stop));
        }
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
