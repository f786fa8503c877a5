//! What is wrong in a catalogue, where, and what to do about it.
//!
//! [`Diagnostic`] is what callers see. Inside the crate every check reports to [`Problems`], which finds the line and column of
//! a path in the parsed tree, keeps the list bounded, and drops what only follows from a mistake that was already reported at
//! the same place. It decides nothing about what is a mistake.

use std::collections::HashSet;
use std::fmt;

use crate::tree::{Mark, Node, Value};

/// At most this many diagnostics of one kind (errors or warnings) are kept for one file.
pub const MAX_DIAGNOSTICS: usize = 1000;

/// One mistake, or one warning, with its place and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name, as it was given to [`crate::parse`].
    pub file: String,
    /// Line, from 1; 0 where the text has no lines (JSON fragments).
    pub line: u32,
    /// Column in characters, from 1; 0 where the text has no lines.
    pub column: u32,
    /// The place in the document, e.g. `models[2].targets[0].account`; empty for the document itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.message, self.fix)
    }
}

impl std::error::Error for Diagnostic {}

/// A place in the document, built on the stack while walking down; written out only for a diagnostic.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    pub(crate) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path::Key(self, key)
    }

    pub(crate) fn index(&'p self, index: usize) -> Path<'p> {
        Path::Index(self, index)
    }

    /// The deepest node on this path that exists, and its mark.
    fn locate<'n, 'a>(&self, root: &'n Node<'a>) -> (Option<&'n Node<'a>>, Mark) {
        match self {
            Path::Root => (Some(root), root.mark),
            Path::Key(parent, key) => {
                let (node, mark) = parent.locate(root);
                match node.and_then(|node| node.get(key)) {
                    Some(child) => (Some(child), child.mark),
                    None => (None, mark),
                }
            }
            Path::Index(parent, index) => {
                let (node, mark) = parent.locate(root);
                match node.map(|node| &node.value) {
                    Some(Value::List(items)) if items.len() > *index => (
                        items.get(*index),
                        items.get(*index).map_or(mark, |item| item.mark),
                    ),
                    _ => (None, mark),
                }
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(parent, key) => {
                let plain = !key.is_empty()
                    && key
                        .chars()
                        .all(|c| c.is_alphanumeric() || c == '_' || c == '-');
                let key = if key.starts_with("sk-") || key.len() > 200 {
                    "…"
                } else {
                    key
                };
                match (parent, plain) {
                    (Path::Root, true) => f.write_str(key),
                    (parent, true) => write!(f, "{parent}.{key}"),
                    (parent, false) => write!(f, "{parent}[{key:?}]"),
                }
            }
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Collects the mistakes (or the warnings) of one document.
pub(crate) struct Problems<'d> {
    file: &'d str,
    root: &'d Node<'d>,
    list: Vec<Diagnostic>,
    broken: HashSet<String>,
}

impl<'d> Problems<'d> {
    pub(crate) fn new(file: &'d str, root: &'d Node<'d>) -> Self {
        Self {
            file,
            root,
            list: Vec::new(),
            broken: HashSet::new(),
        }
    }

    /// Reports at the place of `path`.
    pub(crate) fn report(
        &mut self,
        path: &Path<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (_, mark) = path.locate(self.root);
        self.report_at(mark, path, message, fix);
    }

    /// Reports `path` at a given mark: a key's, or a map's that lacks a key.
    pub(crate) fn report_at(
        &mut self,
        mark: Mark,
        path: &Path<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if self.list.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let path = path.to_string();
        if self.follows(&path) {
            return;
        }
        self.broken.insert(path.clone());
        self.list.push(Diagnostic {
            file: self.file.to_owned(),
            line: mark.line,
            column: mark.column,
            path,
            message: message.into(),
            fix: fix.into(),
        });
    }

    /// Whether something was reported at this path or above it: what is reported below only follows from that.
    fn follows(&self, path: &str) -> bool {
        if self.broken.is_empty() {
            return false;
        }
        let above = path
            .char_indices()
            .filter(|&(at, c)| at > 0 && (c == '.' || c == '['))
            .any(|(at, _)| self.broken.contains(&path[..at]));
        above || self.broken.contains(path)
    }

    /// How many were reported.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds to what was reported at this very place since then that a word would do as well.
    pub(crate) fn or_word(&mut self, since: usize, at: &Path<'_>, word: &str) {
        let Some(new) = self.list.get_mut(since..).filter(|new| !new.is_empty()) else {
            return;
        };
        let path = at.to_string();
        for diagnostic in new.iter_mut().filter(|diagnostic| diagnostic.path == path) {
            diagnostic.fix.push_str(&format!(", or `{word}`"));
        }
    }

    /// Whether something was reported at this place or inside it: then what was read there is not what was meant.
    pub(crate) fn is_broken(&self, path: &Path<'_>) -> bool {
        if self.broken.is_empty() {
            return false;
        }
        let path = path.to_string();
        self.broken.iter().any(|broken| {
            broken
                .strip_prefix(&path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Whether something was reported at this very place.
    pub(crate) fn is_broken_at(&self, path: &str) -> bool {
        self.broken.contains(path)
    }

    pub(crate) fn root(&self) -> &'d Node<'d> {
        self.root
    }

    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list
            .sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        self.list
    }
}
