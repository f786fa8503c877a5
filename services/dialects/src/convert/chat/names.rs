//! Names and ids that OpenAI takes: others are put differently, and names back again in answers.
//!
//! [OpenAI OpenAPI document: names of functions are of `a-z`, `A-Z`, `0-9`, `_` and `-`, at most 64; its servers refuse ids of
//! calls of more than 40 characters.]

use std::borrow::Cow;

/// The longest name of a tool, characters.
const MAX_NAME: usize = 64;
/// The longest id of a call, characters.
const MAX_ID: usize = 40;

/// Names of tools that had to be put differently. Two tools never share a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(Vec<Changed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Changed {
    said: String,
    own: String,
}

impl Names {
    /// The name that is said upstream.
    pub(crate) fn said<'a>(&mut self, own: Cow<'a, str>) -> Cow<'a, str> {
        if own.len() <= MAX_NAME && own.chars().all(is_plain) {
            return own;
        }
        if let Some(known) = self.0.iter().find(|changed| changed.own == own) {
            return Cow::Owned(known.said.clone());
        }
        let mut salt = 0;
        let said = loop {
            let mark = format!("_{:08x}", hash(&own, salt) >> 32);
            let plain = own.chars().map(|one| if is_plain(one) { one } else { '_' });
            let mut said: String = plain.take(MAX_NAME - mark.len()).collect();
            said.push_str(&mark);
            if self.0.iter().all(|changed| changed.said != said) {
                break said;
            }
            salt += 1;
        };
        self.0.push(Changed {
            said: said.clone(),
            own: own.into_owned(),
        });
        Cow::Owned(said)
    }

    /// The caller's own name for what is said upstream.
    pub(crate) fn own<'n>(&'n self, said: &'n str) -> &'n str {
        let changed = self.0.iter().find(|changed| changed.said == said);
        changed.map_or(said, |changed| &changed.own)
    }
}

/// An id that is not too long: a longer one is always the same digest, so that calls and results still meet, and prompts with a
/// common beginning stay alike.
pub(super) fn id(own: Cow<'_, str>) -> Cow<'_, str> {
    if own.chars().count() <= MAX_ID {
        return own;
    }
    Cow::Owned(format!("call_{:016x}{:016x}", hash(&own, 0), hash(&own, 1)))
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// FNV-1a.
pub(super) fn hash(text: &str, salt: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_refused_is_said_differently_and_comes_back() {
        let mut names = Names::default();
        assert_eq!(names.said("get_weather-1".into()), "get_weather-1");
        let long = format!("mcp__server__{}", "x".repeat(80));
        let (first, second) = (
            names.said(long.clone().into()).into_owned(),
            names.said(format!("{long}y").into()).into_owned(),
        );
        let dotted = names.said("a.b:c".into()).into_owned();
        for said in [&first, &second, &dotted] {
            assert!(said.len() <= 64 && said.chars().all(is_plain), "{said}");
        }
        assert_ne!(first, second);
        assert_eq!(names.said(long.clone().into()), first);
        assert_eq!(names.own(&first), long);
        assert_eq!(names.own(&dotted), "a.b:c");
        assert_eq!(names.own("other"), "other");
    }

    #[test]
    fn a_long_id_is_shortened_always_alike() {
        assert_eq!(id("toolu_1".into()), "toolu_1");
        let long = "c".repeat(41);
        assert!(id(long.clone().into()).len() <= 40);
        assert_eq!(id(long.clone().into()), id(long.clone().into()));
        assert_ne!(id(long.clone().into()), id("d".repeat(41).into()));
    }
}
