//! Directives inside a prompt: `[[tokens:20; delay:5; mark:abc]]`. They let a caller that cannot reach the upstream's
//! process (a bench, a client library) say what it wants, and mark a request so that it can be found again.

use std::time::Duration;

/// What the last directive of a body asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directive {
    /// `tokens:N`: tokens to answer with.
    pub(crate) tokens: Option<usize>,
    /// `delay:MS`: before each token.
    pub(crate) token_delay: Option<Duration>,
    /// `before:MS`: before the head of the answer.
    pub(crate) head_delay: Option<Duration>,
    /// `mark:NAME`.
    pub(crate) mark: Option<String>,
}

impl Directive {
    /// Looks for the last `[[…]]` of the body. Words it does not know are none of its business: a body may well have
    /// such brackets of its own.
    pub(crate) fn find(body: &[u8]) -> Self {
        let mut found = Self::default();
        let Some(start) = memchr::memmem::rfind(body, b"[[") else {
            return found;
        };
        let rest = &body[start + 2..];
        let Some(end) = memchr::memmem::find(rest, b"]]") else {
            return found;
        };
        let Ok(text) = std::str::from_utf8(&rest[..end]) else {
            return found;
        };
        for word in text.split([';', ',', ' ']).filter(|word| !word.is_empty()) {
            let Some((name, value)) = word.split_once(':') else {
                continue;
            };
            let number = value.parse::<u64>().ok();
            match name {
                "tokens" => found.tokens = number.and_then(|n| usize::try_from(n).ok()),
                "delay" => found.token_delay = number.map(Duration::from_millis),
                "before" => found.head_delay = number.map(Duration::from_millis),
                "mark" => found.mark = Some(value.to_owned()),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_directive_counts() {
        let body = br#"{"a":"[[tokens:1]]","b":"x [[tokens:5; delay:20 mark:m-1]] y"}"#;
        let found = Directive::find(body);
        assert_eq!(found.tokens, Some(5));
        assert_eq!(found.token_delay, Some(Duration::from_millis(20)));
        assert_eq!(found.mark.as_deref(), Some("m-1"));
    }

    #[test]
    fn brackets_of_the_body_itself_are_no_directive() {
        assert_eq!(
            Directive::find(br#"{"input":[[1,2,3]]}"#),
            Directive::default()
        );
    }
}
