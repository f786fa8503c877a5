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

/// A value as an error message may show it: short, and nothing that looks like a key.
pub(crate) fn shown(text: &str) -> String {
    let long_word = text.len() > 60 || (text.len() >= 24 && !text.contains([' ', '/', '.', ':']));
    if text.starts_with("sk-") || long_word {
        "this text".to_owned()
    } else {
        format!("`{}`", text.escape_debug())
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
            } else if let Some(word) = nearest(&entry.key, known.iter().copied()) {
                format!("did you mean `{word}`?")
            } else {
                format!("known keys here: {}", listed(known))
            };
            problems.report_at(
                entry.key_mark,
                &here,
                format!("unknown key {}", shown(&entry.key)),
                fix,
            );
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

macro_rules! number {
    ($($ty:ty),*) => { $(
        impl $crate::decode::Scalar for $ty {
            const FALLBACK: Self = 0;
            const KIND: &'static str = "a whole number";
            fn read(text: &str) -> Result<Self, $crate::decode::Unreadable> {
                if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err($crate::decode::Unreadable::new("is not a whole number"));
                }
                text.parse().map_err(|_| $crate::decode::Unreadable::with_fix(
                    "is too large",
                    format!("write at most {}", <$ty>::MAX),
                ))
            }
        }
        $crate::decode::decode_scalar!($ty);
    )* };
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

/// [`Decode`] of a [`Scalar`].
macro_rules! decode_scalar {
    ($ty:ty) => {
        impl $crate::decode::Decode for $ty {
            fn decode(
                node: &$crate::tree::Node<'_>,
                at: &$crate::diagnostic::Path<'_>,
                problems: &mut $crate::diagnostic::Problems<'_>,
            ) -> Self {
                $crate::decode::read_scalar(node, at, problems)
            }
            fn fallback() -> Self {
                <$ty as $crate::decode::Scalar>::FALLBACK
            }
            fn kind() -> String {
                <$ty as $crate::decode::Scalar>::KIND.to_owned()
            }
        }
    };
}

/// Serialisation of a scalar as its text, and what reads it back; needs `Display`.
macro_rules! serde_text {
    ($ty:ty) => {
        impl serde::Serialize for $ty {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        $crate::decode::deserialize!($ty);
    };
}

macro_rules! deserialize {
    ($ty:ty) => {
        impl<'de> serde::Deserialize<'de> for $ty {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::decode::from_serde(deserializer)
            }
        }
    };
}

/// A closed set of words.
macro_rules! words {
    (
        $(#[doc = $doc:expr])+
        $name:ident { $first:ident = $first_word:literal: $first_doc:literal $(, $variant:ident = $word:literal: $vdoc:literal)* $(,)? }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            #[doc = $first_doc] $first,
            $( #[doc = $vdoc] $variant, )*
        }
        impl $name {
            /// All values, in the order of the reference.
            pub const ALL: &'static [Self] = &[Self::$first $(, Self::$variant)*];
            /// The word in the catalogue.
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $( Self::$variant => $word, )*
                }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| value.as_str() == text)
                    .ok_or($crate::UnknownWord { expected: &[$first_word $(, $word)*] })
            }
        }
        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::tree::Node<'_>,
                at: &$crate::diagnostic::Path<'_>,
                problems: &mut $crate::diagnostic::Problems<'_>,
            ) -> Self {
                const WORDS: &[&str] = &[$first_word $(, $word)*];
                let Some(text) = $crate::decode::scalar(node, at, problems, &$crate::decode::one_of(WORDS)) else {
                    return Self::$first;
                };
                text.parse().unwrap_or_else(|_| {
                    $crate::decode::unknown_word(text, WORDS, node, at, problems);
                    Self::$first
                })
            }
            fn fallback() -> Self {
                Self::$first
            }
            fn kind() -> String {
                $crate::decode::one_of(&[$first_word $(, $word)*])
            }
        }
        $crate::decode::serde_text!($name);
    };
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
    problems.report_at(
        node.mark,
        at,
        format!("{} is none of {}", shown(text), one_of(words)),
        fix,
    );
}

/// A word or a value: `auto` or slots, `none` or a queue.
macro_rules! word_or {
    (
        $(#[doc = $doc:expr])+
        $name:ident { $word_variant:ident = $word:literal: $word_doc:literal, $variant:ident($inner:ty): $vdoc:literal }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            #[doc = $word_doc]
            $word_variant,
            #[doc = $vdoc]
            $variant($inner),
        }
        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::tree::Node<'_>,
                at: &$crate::diagnostic::Path<'_>,
                problems: &mut $crate::diagnostic::Problems<'_>,
            ) -> Self {
                match &node.value {
                    $crate::tree::Value::Text(text) if text == $word => Self::$word_variant,
                    $crate::tree::Value::Text(text) if $crate::decode::nearest(text, [$word]).is_some() => {
                        $crate::decode::unknown_word(text, &[$word], node, at, problems);
                        Self::$word_variant
                    }
                    _ => Self::$variant($crate::decode::Decode::decode(node, at, problems)),
                }
            }
            fn fallback() -> Self {
                Self::$word_variant
            }
            fn kind() -> String {
                format!("`{}` | {}", $word, <$inner as $crate::decode::Decode>::kind())
            }
            fn rows(section: &str, rows: &mut Vec<$crate::reference::Row>) {
                <$inner as $crate::decode::Decode>::rows(section, rows);
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::$word_variant => serializer.serialize_str($word),
                    Self::$variant(inner) => serde::Serialize::serialize(inner, serializer),
                }
            }
        }
        $crate::decode::deserialize!($name);
    };
}

/// A section: struct, parser, JSON form and reference rows from one description.
///
/// A field's documentation is its meaning in the reference. `= value` is its default; `(shown "…")` before the name is a default that is
/// applied elsewhere (`effective`), or words for what absence means.
macro_rules! record {
    (
        $(#[doc = $doc:expr])+
        $name:ident {
            $( $(#[doc = $fdoc:expr])+ $((shown $shown:literal))? $field:ident : $ty:ty $(= $default:expr)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $name {
            $(
                $(#[doc = $fdoc])+
                #[serde(skip_serializing_if = "crate::decode::is_absent")]
                pub $field: $ty,
            )*
        }
        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::tree::Node<'_>,
                at: &$crate::diagnostic::Path<'_>,
                problems: &mut $crate::diagnostic::Problems<'_>,
            ) -> Self {
                const KNOWN: &[&str] = &[$(stringify!($field)),*];
                let Some(entries) = $crate::decode::section(node, at, problems, Some(KNOWN)) else {
                    return Self::fallback();
                };
                Self {
                    $( $field: $crate::decode::field::<$ty>(
                        entries, stringify!($field), $crate::decode::record!(@default $($default)?), node, at, problems,
                    ), )*
                }
            }
            fn fallback() -> Self {
                Self {
                    $( $field: $crate::decode::record!(@default $($default)?)
                        .or_else(<$ty as $crate::decode::Decode>::absent)
                        .unwrap_or_else(<$ty as $crate::decode::Decode>::fallback), )*
                }
            }
            fn kind() -> String {
                "section".to_owned()
            }
            fn rows(section: &str, rows: &mut Vec<$crate::reference::Row>) {
                $(
                    $crate::reference::push::<$ty>(
                        section,
                        stringify!($field),
                        $crate::decode::record!(@default $($default)?),
                        $crate::decode::record!(@shown $($shown)?),
                        &[$($fdoc),+],
                        rows,
                    );
                )*
            }
        }
        $crate::decode::deserialize!($name);
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@shown) => { None };
    (@shown $shown:literal) => { Some($shown) };
}

pub(crate) use {decode_scalar, deserialize, record, serde_text, word_or, words};

number!(u32, u64);
decode_scalar!(f64);
