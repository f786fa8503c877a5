//! Names and ids that an upstream takes: others are put differently, and names back again in answers.

use std::borrow::Cow;

/// What a dialect's names of tools are made of, besides `a-z`, `A-Z`, `0-9`, `_` and `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Alphabet {
    /// Nothing else, at most 64 [OpenAI OpenAPI document: FunctionObject, FunctionTool].
    #[default]
    OpenAi,
    /// Nothing else, at most 128 [Anthropic's API reference: tools, name].
    Anthropic,
    /// `.` and `:`, at most 64, and a letter or `_` first [Gemini API reference: FunctionDeclaration, name].
    Gemini,
}

impl Alphabet {
    const fn max(self) -> usize {
        match self {
            Self::OpenAi | Self::Gemini => 64,
            Self::Anthropic => 128,
        }
    }

    fn has(self, character: char) -> bool {
        let also = self == Self::Gemini && matches!(character, '.' | ':');
        also || character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
    }

    fn begins(self, name: &str) -> bool {
        let first = |first: char| first.is_ascii_alphabetic() || first == '_';
        self != Self::Gemini || name.starts_with(first)
    }

    fn takes(self, name: &str) -> bool {
        let all = !name.is_empty() && name.chars().all(|one| self.has(one));
        all && name.len() <= self.max() && self.begins(name)
    }
}

/// Names of tools that had to be put differently. Two tools never share a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    alphabet: Alphabet,
    /// Names that are said as they are.
    kept: Vec<String>,
    changed: Vec<Changed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Changed {
    said: String,
    own: String,
}

impl Names {
    /// No name was said yet.
    pub(crate) const fn new(alphabet: Alphabet) -> Self {
        Self {
            alphabet,
            kept: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// The name that is said upstream: as it is where it can be and no other one is put so, else what of it can stay and a digest.
    pub(crate) fn said<'a>(&mut self, own: Cow<'a, str>) -> Cow<'a, str> {
        if self.kept.iter().any(|kept| *kept == own) {
            return own;
        }
        if self.alphabet.takes(&own) && !self.is_taken(&own) {
            self.kept.push(own.clone().into_owned());
            return own;
        }
        if let Some(known) = self.changed.iter().find(|changed| changed.own == own) {
            return Cow::Owned(known.said.clone());
        }
        let mut salt = 0;
        let said = loop {
            let said = self.put_differently(&own, salt);
            if !self.is_taken(&said) && self.kept.iter().all(|kept| *kept != said) {
                break said;
            }
            salt += 1;
        };
        self.changed.push(Changed {
            said: said.clone(),
            own: own.into_owned(),
        });
        Cow::Owned(said)
    }

    /// Whether another tool goes by this name.
    fn is_taken(&self, said: &str) -> bool {
        self.changed.iter().any(|changed| changed.said == said)
    }

    fn put_differently(&self, own: &str, salt: u64) -> String {
        let (alphabet, mark) = (self.alphabet, format!("_{:08x}", digest(own, salt) >> 32));
        let mut said = String::from(if alphabet.begins(own) { "" } else { "_" });
        let plain = own
            .chars()
            .map(|one| if alphabet.has(one) { one } else { '_' });
        said.extend(plain.take(alphabet.max() - mark.len() - said.len()));
        said.push_str(&mark);
        said
    }

    /// The caller's own name for what is said upstream.
    pub(crate) fn own<'n>(&'n self, said: &'n str) -> &'n str {
        let changed = self.changed.iter().find(|changed| changed.said == said);
        changed.map_or(said, |changed| &changed.own)
    }
}

/// A text of at most `max` characters: of a longer one its beginning and a digest, always the same, so that calls and results
/// still meet, and prompts with a common beginning stay alike.
pub(crate) fn shortened(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    if text.chars().count() <= max {
        return text;
    }
    let mark = format!("_{:016x}", digest(&text, 0));
    let head: String = text.chars().take(max.saturating_sub(mark.len())).collect();
    Cow::Owned(head + &mark)
}

/// FNV-1a: the same everywhere and for ever, as what is made of it comes back in later requests, to other replicas.
pub(crate) fn digest(text: &str, salt: u64) -> u64 {
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
        let long = format!("mcp__server__{}", "x".repeat(120));
        let longer = format!("{long}y");
        for (alphabet, kept, changed) in [
            (
                Alphabet::OpenAi,
                vec!["get_weather-1"],
                vec!["a.b", "a:b", "a b", "größe", "", &long, &longer],
            ),
            (
                Alphabet::Anthropic,
                vec!["get_weather-1", &long[..128]],
                vec!["a.b", "a:b", &long, &longer],
            ),
            (
                Alphabet::Gemini,
                vec!["get_weather-1", "a.b:c", "_1"],
                vec!["1st", "-x", "a b", "größe", &long, &longer],
            ),
        ] {
            let mut names = Names::new(alphabet);
            for own in kept {
                assert_eq!(names.said(own.into()), own, "{alphabet:?}");
                assert_eq!(names.own(own), own);
            }
            let said: Vec<_> = changed
                .iter()
                .map(|own| names.said((*own).into()).into_owned())
                .collect();
            for (own, said) in changed.iter().zip(&said) {
                assert!(alphabet.takes(said), "{alphabet:?} {said}");
                assert_eq!(names.own(said), *own);
                assert_eq!(names.said((*own).into()), *said);
            }
            let different: std::collections::HashSet<_> = said.iter().collect();
            assert_eq!(different.len(), said.len());
        }
    }

    #[test]
    fn two_tools_never_share_a_name_whichever_comes_first() {
        for alphabet in [Alphabet::OpenAi, Alphabet::Anthropic] {
            let put = Names::new(alphabet).said("a.b".into()).into_owned();
            for own in [["a.b", &put, "a_2eb"], [&put, "a_2eb", "a.b"]] {
                let mut names = Names::new(alphabet);
                let said = own.map(|own| names.said(own.into()).into_owned());
                let different: std::collections::HashSet<_> = said.iter().collect();
                assert_eq!(different.len(), own.len(), "{said:?}");
                for (own, said) in own.iter().zip(&said) {
                    assert!(alphabet.takes(said), "{said}");
                    assert_eq!(names.own(said), *own);
                    assert_eq!(names.said((*own).into()), *said, "again");
                }
            }
        }
    }

    #[test]
    fn what_is_too_long_is_shortened_always_alike() {
        assert_eq!(shortened("toolu_1".into(), 40), "toolu_1");
        let (long, other) = ("c".repeat(41), "c".repeat(42));
        let short = shortened(long.clone().into(), 40);
        assert_eq!(short, format!("{}_bf5c461fe36d9f0a", "c".repeat(23)));
        assert_eq!(short.len(), 40);
        assert_ne!(short, shortened(other.into(), 40));
    }
}
