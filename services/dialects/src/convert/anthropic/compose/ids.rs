//! Ids and names as this dialect takes them: `^[a-zA-Z0-9_-]+$`, an id once in a request (PROTOCOLS §11.1).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

/// A text of the alphabet: one that is of it already stays as it is, of others every other byte becomes `_` and its two
/// hexadecimal digits, so that different ones stay different.
pub(crate) fn valid(text: &str) -> Cow<'_, str> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !text.is_empty() && text.bytes().all(good) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for byte in text.bytes() {
        if good(byte) {
            out.push(char::from(byte));
        } else {
            // writing to a string cannot fail
            let _ = write!(out, "_{byte:02x}");
        }
    }
    if out.is_empty() {
        out.push('_');
    }
    Cow::Owned(out)
}

/// The ids of one request. Calls that share an id, in one turn or in several, get ids of their own; results go to them in
/// their order.
#[derive(Debug, Default)]
pub(super) struct Ids {
    used: HashSet<String>,
    calls: HashMap<String, VecDeque<(usize, String)>>,
}

impl Ids {
    /// The id of a call.
    pub(super) fn call(&mut self, id: &str) -> String {
        let base = valid(id).into_owned();
        let mut made = base.clone();
        let mut count = 1_u32;
        while self.used.contains(&made) {
            count += 1;
            made = format!("{base}_{count}");
        }
        let number = self.used.len();
        self.used.insert(made.clone());
        let calls = self.calls.entry(id.to_owned()).or_default();
        calls.push_back((number, made.clone()));
        made
    }

    /// The number and the id of the call that a result answers. A result of no call stays behind all others, for the
    /// upstream to judge.
    pub(super) fn result(&mut self, id: &str) -> (usize, String) {
        let waiting = self.calls.get_mut(id);
        let call = waiting.and_then(|calls| match calls.len() {
            1 => calls.front().cloned(),
            _ => calls.pop_front(),
        });
        call.unwrap_or_else(|| (usize::MAX, valid(id).into_owned()))
    }

    /// A new round of calls: what was answered is not answered again.
    pub(super) fn next_turn(&mut self) {
        self.calls.clear();
    }
}
