//! A call on its way to the caller.

use std::fmt::Write as _;

use super::shape::Shape;
use crate::convert::node::{one_line, quote_into};
use crate::json::{Cursor, Kind};

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) seal: Option<String>,
    pub(super) custom: bool,
    /// What was not said yet, or all of it in a whole message.
    pub(super) arguments: String,
    /// Whether they are an object, in a stream.
    pub(super) shape: Shape,
    /// Some of them were said as they came.
    pub(super) begun: bool,
    pub(super) ended: bool,
    pub(super) said: bool,
}

impl Call {
    pub(super) fn block(&self, input: &str) -> String {
        let mut block = String::from(r#"{"type":"tool_use","id":"#);
        quote_into(&mut block, &self.id);
        block.push_str(r#","name":"#);
        quote_into(&mut block, &self.name);
        let _ = write!(block, r#","input":{input}}}"#);
        block
    }

    /// What of its arguments can be said next, in a stream. `done`: they are complete.
    pub(super) fn next(&mut self, done: bool) -> String {
        // Free text stands in an object here, as a whole.
        if self.begun || (!self.custom && self.shape.is_object()) {
            self.begun = true;
            return match self.shape.is_broken() {
                true => String::new(),
                false => std::mem::take(&mut self.arguments),
            };
        }
        // No arguments go without saying.
        if !done || (!self.custom && self.arguments.trim().is_empty()) {
            return String::new();
        }
        let input = self.input();
        self.arguments.clear();
        input
    }

    /// Its arguments as an object.
    pub(super) fn input(&self) -> String {
        if self.custom {
            return crate::convert::chat::compose::free_arguments(&self.arguments);
        }
        let text = self.arguments.trim();
        if text.is_empty() {
            return "{}".to_owned();
        }
        let mut cursor = Cursor::new(text);
        let valid =
            cursor.skip().is_ok_and(|value| value.kind == Kind::Object) && cursor.end().is_ok();
        if valid {
            return one_line(text).into_owned();
        }
        let mut raw = String::from(r#"{"_raw":"#);
        quote_into(&mut raw, text);
        raw.push('}');
        raw
    }
}

/// An id of the alphabet that this dialect knows.
pub(super) fn call_id(id: &str, seed: &str, number: usize) -> String {
    if id.is_empty() {
        return format!("toolu_{seed}_{number}");
    }
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(known) {
        return id.to_owned();
    }
    let kept: String = id.chars().map(|c| if known(c) { c } else { '_' }).collect();
    format!("{kept}_{number}")
}
