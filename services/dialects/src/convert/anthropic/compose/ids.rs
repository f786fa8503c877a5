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
    calls: HashMap<String, VecDeque<Called>>,
}

/// A call that was not answered yet.
#[derive(Debug)]
pub(super) struct Called {
    /// How many came before it.
    pub(super) number: usize,
    /// Its id here.
    pub(super) id: String,
    /// The turn that it is in.
    pub(super) turn: usize,
}

impl Ids {
    /// The id of a call in this turn.
    pub(super) fn call(&mut self, id: &str, turn: usize) -> String {
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
        calls.push_back(Called {
            number,
            id: made.clone(),
            turn,
        });
        made
    }

    /// The call that a result answers: the first one of this id that has none.
    pub(super) fn result(&mut self, id: &str) -> Option<Called> {
        self.calls.get_mut(id)?.pop_front()
    }
}
