//! An account's declared meanings of vendor codes (SPEC DIAL-4), also inside a success.

use bytes::Bytes;

use super::{Class, UpstreamError};
use crate::json::{Cursor, Kind, Value, whole_number};
use crate::usage::key_is;

/// One step of a path into JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(u64),
}

/// What a rule looks for at the end of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This value: a string's text, or a number, boolean or null as it is written.
    Equals(String),
    /// A value that a pattern describes, `*` standing for any text.
    Matches(String),
}

/// A vendor's code and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    path: Vec<Step>,
    wanted: Wanted,
    class: Class,
}

impl Rule {
    /// Reads a path: `$`, then `.name`, `['name']` or `[0]` any number of times. `None` if it is none.
    #[must_use]
    pub fn new(path: &str, wanted: Wanted, class: Class) -> Option<Self> {
        let mut rest = path.strip_prefix('$')?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let step;
            if let Some(after) = rest.strip_prefix("['") {
                let (name, after) = after.split_once("']")?;
                step = Step::Member(name.to_owned());
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']')?;
                step = Step::Item(index.parse().ok()?);
                rest = after;
            } else {
                let after = rest.strip_prefix('.')?;
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (name, after) = after.split_at_checked(end)?;
                if name.is_empty() {
                    return None;
                }
                step = Step::Member(name.to_owned());
                rest = after;
            }
            steps.push(step);
        }
        Some(Self {
            path: steps,
            wanted,
            class,
        })
    }

    fn applies(&self, text: &str) -> bool {
        let Some(value) = self.find(text) else {
            return false;
        };
        let said = match value.text() {
            Some(string) => string.decode(text),
            None => value.span.of(text).into(),
        };
        match &self.wanted {
            Wanted::Equals(wanted) => {
                *wanted == said
                    || (value.kind == Kind::Number
                        && whole_number(&said).is_some_and(|n| wanted.parse() == Ok(n)))
            }
            Wanted::Matches(pattern) => matches(pattern, &said),
        }
    }

    fn find(&self, text: &str) -> Option<Value> {
        let mut value = Cursor::new(text).skip().ok()?;
        for step in &self.path {
            let mut cursor = Cursor::at_value(text, value);
            let mut first = true;
            let mut found = None;
            match (step, value.kind) {
                (Step::Member(name), Kind::Object) => {
                    cursor.enter_object().ok()?;
                    while let Some(key) = cursor.next_key(&mut first).ok()? {
                        let member = cursor.skip().ok()?;
                        if key_is(text, key, name) {
                            found = Some(member);
                        }
                    }
                }
                (Step::Item(index), Kind::Array) => {
                    cursor.enter_array().ok()?;
                    let mut at = 0;
                    while found.is_none() && cursor.next_item(&mut first).ok()? {
                        let item = cursor.skip().ok()?;
                        found = (at == *index).then_some(item);
                        at += 1;
                    }
                }
                _ => return None,
            }
            value = found?;
        }
        Some(value)
    }
}

/// All rules of an account; the first that applies counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What an answer's body means, if a rule knows it.
    #[must_use]
    pub fn class_of(&self, body: &[u8]) -> Option<Class> {
        if self.is_empty() {
            return None;
        }
        let text = std::str::from_utf8(body).ok()?;
        let rule = self.0.iter().find(|rule| rule.applies(text))?;
        Some(rule.class)
    }

    /// A success whose body, or one of whose events, is a failure by a rule.
    #[must_use]
    pub fn failure_in(&self, body: &[u8]) -> Option<Box<UpstreamError>> {
        let class = self.class_of(body)?;
        Some(Box::new(UpstreamError::declared(
            class,
            &Bytes::copy_from_slice(body),
        )))
    }
}

/// Whether `text` is what `pattern` describes.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(head) else {
        return false;
    };
    let mut rest = rest;
    while let Some((piece, after)) = rest.split_once('*') {
        let Some((_, behind)) = left.split_once(piece) else {
            return false;
        };
        left = behind;
        rest = after;
    }
    left.ends_with(rest)
}
