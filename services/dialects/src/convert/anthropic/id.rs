//! Ids of calls as this dialect takes them: `^[a-zA-Z0-9_-]+$`, each once in a request (PROTOCOLS §11.1).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

/// An id that this dialect takes: one that it takes already stays as it is, in others every other byte becomes `_` and its
/// two hexadecimal digits, so that different ones stay different.
pub(crate) fn valid(id: &str) -> Cow<'_, str> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !id.is_empty() && id.bytes().all(good) {
        return Cow::Borrowed(id);
    }
    let mut out = String::from("id_");
    for byte in id.bytes() {
        if good(byte) {
            out.push(char::from(byte));
        } else {
            // writing to a string cannot fail
            let _ = write!(out, "_{byte:02x}");
        }
    }
    Cow::Owned(out)
}

/// The ids of one request. Calls that share an id, in one turn or in several, get ids of their own; results go to them in order.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    used: HashSet<String>,
    open: HashMap<String, VecDeque<String>>,
}

impl Ids {
    /// The id of a call.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let base = valid(id).into_owned();
        let mut made = base.clone();
        let mut count = 1u32;
        while !self.used.insert(made.clone()) {
            count += 1;
            made = format!("{base}_{count}");
        }
        let open = self.open.entry(id.to_owned()).or_default();
        open.push_back(made.clone());
        made
    }

    /// The id of the call that a result answers; `None`: there is no such call that waits for one.
    pub(crate) fn result(&mut self, id: &str) -> Option<String> {
        self.open.get_mut(id)?.pop_front()
    }
}
