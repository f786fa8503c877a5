//! From the tree to typed values, by one description of each section that parser, JSON form and reference share.
//!
//! [`Decode`] never fails: what it cannot read is reported and replaced by a fallback, so that one pass over a file finds all
//! its mistakes and list positions stay what they were. A value that was replaced never leaves the crate, since any report of
//! an error makes the whole parse fail. No error shows the content of a value that could be a secret.

use std::collections::{BTreeMap, HashSet};

use serde::de::Error as _;

use crate::diagnostic::{Path, Problems};
use crate::reference::Row;
use crate::tree::{Entry, Node, Value};

/// A type of the language.
pub(crate) trait Decode: Sized + PartialEq {
    /// Reads a node; reports what is wrong with it.
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self;
    /// What stands in the place of an unreadable value.
    fn fallback() -> Self;
    /// The value of an absent key; `None`: the key is required.
    fn absent() -> Option<Self> {
        None
    }
    /// What a reader writes, in words.
    fn kind() -> String;
    /// The reference rows of the keys inside, if this is a section (or holds sections); `section` is its path.
    fn rows(_section: &str, _rows: &mut Vec<Row>) {}
}

/// Whether a field holds what an absent key means: then it is not written.
pub(crate) fn is_absent<T: Decode>(value: &T) -> bool {
    T::absent().is_some_and(|absent| absent == *value)
}

/// Reads a fragment that travelled as JSON; stops at its first mistake.
pub(crate) fn from_serde<'de, T: Decode, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value: serde_json::Value = serde::Deserialize::deserialize(deserializer)?;
    let node = Node::from_json(value);
    let mut problems = Problems::new("", &node);
    let decoded = T::decode(&node, &Path::Root, &mut problems);
    match problems.into_sorted().first() {
        None => Ok(decoded),
        Some(first) => Err(D::Error::custom(format!(
            "{}: {}; {}",
            first.path, first.message, first.fix
        ))),
    }
}

/// A value as an error message may show it: short, and nothing that looks like a secret that strayed here.
pub(crate) fn shown(text: &str) -> String {
    let random = text.len() >= 20
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && !text.contains([' ', '/', '.', ':', ',']);
    if random || text.len() > 60 {
        "this text".to_owned()
    } else {
        quoted(text)
    }
}

/// A name as an error message may show it. Names are no secrets, but for a key that was pasted as one.
pub(crate) fn quoted(name: &str) -> String {
    if name.starts_with("sk-") || name.len() > 200 {
        "this text".to_owned()
    } else {
        format!("`{}`", name.escape_debug())
    }
}

/// The known word nearest to what was written.
pub(crate) fn nearest<'w>(
    written: &str,
    known: impl IntoIterator<Item = &'w str>,
) -> Option<&'w str> {
    if written.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&written.to_lowercase(), &word.to_lowercase()),
                word,
            )
        })
        .filter(|(distance, word)| *distance <= (word.len().max(3) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The text of a scalar, or a report of what stands there instead.
pub(crate) fn scalar<'n>(
    node: &'n Node<'_>,
    at: &Path<'_>,
    problems: &mut Problems<'_>,
    expected: &str,
) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => {
            problems.report_at(
                node.mark,
                at,
                format!("expected {expected}, found {}", node.what()),
                format!("write {expected}"),
            );
            None
        }
    }
}

/// The entries of a section, its keys checked for doubles and against the known ones.
pub(crate) fn section<'n, 'a>(
    node: &'n Node<'a>,
    at: &Path<'_>,
    problems: &mut Problems<'_>,
    known: Option<&[&str]>,
) -> Option<&'n [Entry<'a>]> {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        _ => {
            let fix = match known {
                Some(known) => format!("write keys of {}", listed(known)),
                None => "write `name: value` pairs".to_owned(),
            };
            problems.report_at(
                node.mark,
                at,
                format!("expected a section of keys, found {}", node.what()),
                fix,
            );
            return None;
        }
    };
    let mut seen = HashSet::with_capacity(entries.len());
    for entry in entries {
        let here = at.key(&entry.key);
        if !seen.insert(&*entry.key) {
            problems.report_at(
                entry.key_mark,
                &here,
                format!("the key {} stands here twice", shown(&entry.key)),
                "remove one of the two",
            );
        } else if let Some(known) = known
            && !known.contains(&&*entry.key)
        {
            let fix = if entry.key == "<<" {
                "merge keys are not part of the language: write the keys out".to_owned()
            } else if entry.key.bytes().all(|byte| byte.is_ascii_digit()) {
                "in `{…}` a comma begins the next key: write the decimal point as `.`".to_owned()
            } else if let Some(word) = nearest(&entry.key, known.iter().copied()) {
                format!("did you mean `{word}`?")
            } else {
                format!("known keys here: {}", listed(known))
            };
            let named = shown(&entry.key);
            // The path names the key too, unless it must not be shown.
            let here = if named.contains(&*entry.key) {
                here
            } else {
                at.key("…")
            };
            problems.report_at(entry.key_mark, &here, format!("unknown key {named}"), fix);
        }
    }
    Some(entries)
}

/// Words as a list in a sentence.
pub(crate) fn listed(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// One field of a section.
pub(crate) fn field<T: Decode>(
    entries: &[Entry<'_>],
    name: &str,
    default: Option<T>,
    node: &Node<'_>,
    at: &Path<'_>,
    problems: &mut Problems<'_>,
) -> T {
    let here = at.key(name);
    match entries.iter().find(|entry| entry.key == name) {
        Some(entry) if !matches!(entry.node.value, Value::Null) => {
            T::decode(&entry.node, &here, problems)
        }
        _ => match default.or_else(T::absent) {
            Some(value) => value,
            None => {
                problems.report_at(
                    node.mark,
                    &here,
                    format!("`{name}` is missing"),
                    format!("add `{name}: …` ({})", T::kind()),
                );
                T::fallback()
            }
        },
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        match node.value {
            Value::Null => None,
            _ => Some(T::decode(node, at, problems)),
        }
    }
    fn fallback() -> Self {
        None
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn kind() -> String {
        T::kind()
    }
    fn rows(section: &str, rows: &mut Vec<Row>) {
        T::rows(section, rows);
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        match &node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| T::decode(item, &at.index(index), problems))
                .collect(),
            _ => {
                problems.report_at(
                    node.mark,
                    at,
                    format!("expected a list, found {}", node.what()),
                    "write `[…]`, or one line with `- ` for each entry",
                );
                Vec::new()
            }
        }
    }
    fn fallback() -> Self {
        Vec::new()
    }
    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
    fn kind() -> String {
        format!("list of {}", T::kind())
    }
    fn rows(section: &str, rows: &mut Vec<Row>) {
        T::rows(&format!("{section}[]"), rows);
    }
}

impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        let Some(entries) = section(node, at, problems, None) else {
            return Self::new();
        };
        let mut map = Self::new();
        for entry in entries {
            let value = T::decode(&entry.node, &at.key(&entry.key), problems);
            map.entry(entry.key.clone().into_owned()).or_insert(value);
        }
        map
    }
    fn fallback() -> Self {
        Self::new()
    }
    fn absent() -> Option<Self> {
        Some(Self::new())
    }
    fn kind() -> String {
        format!("map of name to {}", T::kind())
    }
    fn rows(section: &str, rows: &mut Vec<Row>) {
        T::rows(&format!("{section}.NAME"), rows);
    }
}

impl Decode for String {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        let Some(text) = scalar(node, at, problems, "text") else {
            return Self::new();
        };
        if text.is_empty() || text.len() > 4096 {
            problems.report_at(
                node.mark,
                at,
                format!("this text has {} bytes", text.len()),
                "write 1 to 4096 bytes, or leave the key out",
            );
        }
        text.to_owned()
    }
    fn fallback() -> Self {
        Self::new()
    }
    fn kind() -> String {
        "text".to_owned()
    }
}

impl Decode for bool {
    fn decode(node: &Node<'_>, at: &Path<'_>, problems: &mut Problems<'_>) -> Self {
        match scalar(node, at, problems, "`true` or `false`") {
            Some("true") => true,
            Some("false") | None => false,
            Some(other) => {
                let message = format!("expected `true` or `false`, found {}", shown(other));
                problems.report_at(node.mark, at, message, "write `true` or `false`");
                false
            }
        }
    }
    fn fallback() -> Self {
        false
    }
    fn kind() -> String {
        "`true` or `false`".to_owned()
    }
}

/// A scalar that its type reads from text.
pub(crate) trait Scalar: Sized + PartialEq {
    /// What stands in the place of an unreadable value.
    const FALLBACK: Self;
    /// What a reader writes, in words: `a duration such as `15m``.
    const KIND: &'static str;
    /// Whether an error may show what was written.
    const SECRET: bool = false;
    /// Reads the text; the error says why not, and what to write when that is more than the kind.
    fn read(text: &str) -> Result<Self, Unreadable>;
}

/// Why a scalar was not read.
pub(crate) struct Unreadable {
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
}

impl Unreadable {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            fix: None,
        }
    }
    pub(crate) fn with_fix(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Reads a scalar's node.
pub(crate) fn read_scalar<T: Scalar>(
    node: &Node<'_>,
    at: &Path<'_>,
    problems: &mut Problems<'_>,
) -> T {
    let Some(text) = scalar(node, at, problems, T::KIND) else {
        return T::FALLBACK;
    };
    match T::read(text) {
        Ok(value) => value,
        Err(Unreadable { message, fix }) => {
            let message = if T::SECRET {
                message
            } else {
                format!("{} {message}", shown(text))
            };
            problems.report_at(
                node.mark,
                at,
                message,
                fix.unwrap_or_else(|| format!("write {}", T::KIND)),
            );
            T::FALLBACK
        }
    }
}

impl Scalar for f64 {
    const FALLBACK: Self = 0.0;
    const KIND: &'static str = "a number such as `0.7`";
    fn read(text: &str) -> Result<Self, Unreadable> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'e' || byte == b'-');
        text.parse()
            .ok()
            .filter(|number: &f64| plain && number.is_finite())
            .ok_or_else(|| Unreadable::new("is not a number"))
    }
}

pub(crate) fn one_of(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(" | ")
}

pub(crate) fn unknown_word(
    text: &str,
    words: &[&str],
    node: &Node<'_>,
    at: &Path<'_>,
    problems: &mut Problems<'_>,
) {
    let fix = match nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of {}", one_of(words)),
    };
    let message = match words {
        [word] => format!("{} is not `{word}`", shown(text)),
        words => format!("{} is none of {}", shown(text), one_of(words)),
    };
    problems.report_at(node.mark, at, message, fix);
}

crate::notation::number!(u32, u64);
crate::notation::decode_scalar!(f64);
