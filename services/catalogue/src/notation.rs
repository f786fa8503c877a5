//! The macros in which the language is written down: closed sets of words, a word or a value, sections.
//!
//! One description gives the type, its parser, its JSON form and its rows of the reference, so that these cannot differ.

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
        $crate::notation::decode_scalar!($ty);
    )* };
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
        $crate::notation::deserialize!($ty);
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
        $crate::notation::serde_text!($name);
    };
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
                    _ => {
                        let before = problems.len();
                        let inner = $crate::decode::Decode::decode(node, at, problems);
                        problems.or_word(before, at, $word);
                        Self::$variant(inner)
                    }
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
        $crate::notation::deserialize!($name);
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
                        entries, stringify!($field), $crate::notation::record!(@default $($default)?), node, at, problems,
                    ), )*
                }
            }
            fn fallback() -> Self {
                Self {
                    $( $field: $crate::notation::record!(@default $($default)?)
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
                        $crate::notation::record!(@default $($default)?),
                        $crate::notation::record!(@shown $($shown)?),
                        &[$($fdoc),+],
                        rows,
                    );
                )*
            }
        }
        $crate::notation::deserialize!($name);
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@shown) => { None };
    (@shown $shown:literal) => { Some($shown) };
}

pub(crate) use {decode_scalar, deserialize, number, record, serde_text, word_or, words};
