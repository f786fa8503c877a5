//! The document as a tree of nodes that know where they stand.
//!
//! Scalars stay the text that was written, so that an amount never passes through a floating point number. Size, depth and
//! the expansion of aliases are bounded; anything beyond is a diagnostic, never a panic. The tree knows no key of the language.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::diagnostic::Diagnostic;

/// A catalogue's text may have this many bytes.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// A catalogue may have this many nodes, each expansion of an alias counted.
pub const MAX_NODES: usize = 8_000_000;
/// Lists and sections may be nested this deep.
pub const MAX_DEPTH: usize = 32;

/// A place in the text: line and column from 1, 0 when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Mark {
    fn of(marker: &granit_parser::Marker) -> Self {
        Self {
            line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
            column: u32::try_from(marker.col().saturating_add(1)).unwrap_or(u32::MAX),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) mark: Mark,
    pub(crate) value: Value<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_mark: Mark,
    pub(crate) node: Node<'a>,
}

impl<'a> Node<'a> {
    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match &self.value {
            Value::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| &entry.node),
            _ => None,
        }
    }

    /// What this is, in words for an error message. Never its content: it may be a secret.
    pub(crate) fn what(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a section of keys",
        }
    }

    fn count(&self) -> usize {
        1 + match &self.value {
            Value::Null | Value::Text(_) => 0,
            Value::List(items) => items.iter().map(Node::count).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.count()).sum(),
        }
    }

    /// Makes this the value of an alias that stands there.
    fn moved_to(&mut self, mark: Mark) {
        self.mark = mark;
        match &mut self.value {
            Value::Null | Value::Text(_) => {}
            Value::List(items) => items.iter_mut().for_each(|item| item.moved_to(mark)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.key_mark = mark;
                    entry.node.moved_to(mark);
                }
            }
        }
    }

    fn depth(&self) -> usize {
        match &self.value {
            Value::Null | Value::Text(_) => 0,
            Value::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Value::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|entry| entry.node.depth())
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// The tree of a JSON value, without marks. serde_json bounds the depth of what it read from text.
    pub(crate) fn from_json(value: serde_json::Value) -> Node<'static> {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Text(Cow::Borrowed(if flag { "true" } else { "false" })),
            Json::Number(number) => Value::Text(Cow::Owned(number.to_string())),
            Json::String(text) => Value::Text(Cow::Owned(text)),
            Json::Array(items) => Value::List(items.into_iter().map(Node::from_json).collect()),
            Json::Object(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Entry {
                        key: Cow::Owned(key),
                        key_mark: Mark::default(),
                        node: Node::from_json(value),
                    })
                    .collect(),
            ),
        };
        Node {
            mark: Mark::default(),
            value,
        }
    }
}

/// Reads YAML 1.2 text.
///
/// # Errors
/// One diagnostic: the first place where the text is no YAML, or is beyond the bounds.
pub(crate) fn read<'a>(text: &'a str, file: &str) -> Result<Node<'a>, Diagnostic> {
    if text.len() > MAX_BYTES {
        return Err(syntax(
            file,
            Mark { line: 1, column: 1 },
            format!("the file has {} bytes, more than {MAX_BYTES}", text.len()),
            "split it, or remove what is not needed",
        ));
    }
    let mut builder = Builder {
        file,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        root: None,
    };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => {
                if let Some(mark) = tab_indent(text, error.marker().line()) {
                    return Err(syntax(
                        file,
                        mark,
                        "a tab indents this line".to_owned(),
                        "indent with spaces",
                    ));
                }
                return Err(syntax(
                    file,
                    Mark::of(error.marker()),
                    format!("this is not YAML: {}", error.info()),
                    "correct the notation: spaces, not tabs, indent; text with special characters stands in quotes",
                ));
            }
        }
    }
    Ok(builder.root.unwrap_or(Node {
        mark: Mark { line: 1, column: 1 },
        value: Value::Null,
    }))
}

/// The first tab that indents one of the lines around a mistake: the scanner complains elsewhere.
fn tab_indent(text: &str, line: usize) -> Option<Mark> {
    let first = line.saturating_sub(2);
    text.lines()
        .enumerate()
        .skip(first)
        .take(3)
        .find_map(|(index, line)| {
            let column = line
                .find(|c: char| c != ' ')
                .filter(|at| line[*at..].starts_with('\t'))?;
            let number = |value: usize| u32::try_from(value + 1).unwrap_or(u32::MAX);
            Some(Mark {
                line: number(index),
                column: number(column),
            })
        })
}

fn syntax(file: &str, mark: Mark, message: String, fix: &str) -> Diagnostic {
    Diagnostic {
        file: file.to_owned(),
        line: mark.line,
        column: mark.column,
        path: String::new(),
        message,
        fix: fix.to_owned(),
    }
}

/// A list or map whose end was not read yet.
struct Open<'a> {
    node: Node<'a>,
    anchor: usize,
    key: Option<(Cow<'a, str>, Mark)>,
}

struct Builder<'a, 'f> {
    file: &'f str,
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    nodes: usize,
    root: Option<Node<'a>>,
}

impl<'a> Builder<'a, '_> {
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<(), Diagnostic> {
        let mark = Mark::of(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.no_custom_tag(mark, tag.as_deref())?;
                let null = style == ScalarStyle::Plain
                    && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if null { Value::Null } else { Value::Text(text) };
                self.count(1, mark)?;
                self.place(Node { mark, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.no_custom_tag(mark, tag.as_deref())?;
                self.begin(
                    Node {
                        mark,
                        value: Value::List(Vec::new()),
                    },
                    anchor,
                )
            }
            Event::MappingStart(_, anchor, tag) => {
                self.no_custom_tag(mark, tag.as_deref())?;
                self.begin(
                    Node {
                        mark,
                        value: Value::Map(Vec::new()),
                    },
                    anchor,
                )
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.place(open.node, open.anchor),
                None => Ok(()),
            },
            Event::Alias(id) => {
                let Some(anchored) = self.anchors.get(&id) else {
                    return Err(syntax(
                        self.file,
                        mark,
                        "this alias stands inside what it refers to".to_owned(),
                        "write the value out",
                    ));
                };
                if self.open.len() + anchored.depth() > MAX_DEPTH {
                    return Err(self.too_deep(mark));
                }
                // Counted before it is copied: a bomb must not go off first.
                let size = anchored.count();
                self.count(size, mark)?;
                let Some(mut node) = self.anchors.get(&id).cloned() else {
                    return Ok(());
                };
                node.moved_to(mark);
                self.place(node, 0)
            }
            Event::DocumentStart(..) if self.root.is_some() => Err(syntax(
                self.file,
                mark,
                "a second document begins here".to_owned(),
                "a catalogue is one document: remove the `---`",
            )),
            _ => Ok(()),
        }
    }

    fn no_custom_tag(
        &self,
        mark: Mark,
        tag: Option<&granit_parser::Tag>,
    ) -> Result<(), Diagnostic> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() => Err(syntax(
                self.file,
                mark,
                "tags have no meaning in a catalogue".to_owned(),
                "remove the word that begins with `!`",
            )),
            _ => Ok(()),
        }
    }

    fn count(&mut self, more: usize, mark: Mark) -> Result<(), Diagnostic> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MAX_NODES {
            return Err(syntax(
                self.file,
                mark,
                format!("the catalogue has more than {MAX_NODES} values, aliases written out"),
                "remove aliases that refer to aliases, or split the catalogue",
            ));
        }
        Ok(())
    }

    fn too_deep(&self, mark: Mark) -> Diagnostic {
        syntax(
            self.file,
            mark,
            format!("nested deeper than {MAX_DEPTH} levels"),
            "no key of the language needs so many: check the indentation",
        )
    }

    fn begin(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Diagnostic> {
        self.count(1, node.mark)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(self.too_deep(node.mark));
        }
        self.open.push(Open {
            node,
            anchor,
            key: None,
        });
        Ok(())
    }

    fn place(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Diagnostic> {
        if anchor != 0 {
            // The copy is held until the end, so it counts like a use.
            self.count(node.count(), node.mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(top) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut top.node.value {
            Value::List(items) => items.push(node),
            Value::Map(entries) => match top.key.take() {
                Some((key, key_mark)) => entries.push(Entry {
                    key,
                    key_mark,
                    node,
                }),
                None => {
                    let key = match node.value {
                        Value::Text(text) => text,
                        Value::Null => Cow::Borrowed("null"),
                        Value::List(_) | Value::Map(_) => {
                            return Err(syntax(
                                self.file,
                                node.mark,
                                "a list or a section cannot be a key".to_owned(),
                                "text in `{…}` as a value needs quotes; a key is plain text",
                            ));
                        }
                    };
                    top.key = Some((key, node.mark));
                }
            },
            Value::Null | Value::Text(_) => {}
        }
        Ok(())
    }
}
