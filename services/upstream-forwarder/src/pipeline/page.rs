//! Pages of the list of models, as the vendors' own clients turn them. A caller who asks for no page gets the whole list.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use switchboard_common::error::{Failure, Reason};

/// Models of one page at most, at both vendors [docs.anthropic.com, "List Models"; ai.google.dev, "models.list"].
const MOST: usize = 1_000;

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page<'a, T> {
    /// What is on it.
    pub(super) models: &'a [(String, T)],
    /// More follows in the direction in which the pages are turned.
    pub(super) more: bool,
}

impl<'a, T> Page<'a, T> {
    /// All of it.
    pub(super) const fn whole(models: &'a [(String, T)]) -> Self {
        Self {
            models,
            more: false,
        }
    }

    /// `limit`, `after_id` and `before_id`.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter.
    pub(super) fn of_anthropic(models: &'a [(String, T)], query: &str) -> Result<Self, Failure> {
        let size = match member(query, &["limit"]) {
            None => usize::MAX,
            Some(text) => match text.parse() {
                Ok(size @ 1..=MOST) => size,
                _ => return Err(invalid("limit", "a number from 1 to 1000")),
            },
        };
        let place = |name: &'static str| {
            let Some(id) = member(query, &[name]) else {
                return Ok(None);
            };
            let at = models.iter().position(|(name, _)| *name == id);
            at.map(Some)
                .ok_or_else(|| invalid(name, "the id of a model of this list"))
        };
        match (place("after_id")?, place("before_id")?) {
            (Some(_), Some(_)) => Err(invalid("before_id", "nothing where `after_id` is given")),
            (None, Some(before)) => {
                let from = before.saturating_sub(size);
                Ok(Self {
                    models: models.get(from..before).unwrap_or_default(),
                    more: from > 0,
                })
            }
            (after, None) => Ok(Self::from(models, after.map_or(0, |at| at + 1), size)),
        }
    }

    /// `pageSize` and `pageToken`, in both spellings that Google reads. A token is the name behind which the page begins.
    ///
    /// # Errors
    /// `invalid_request`, naming the parameter.
    pub(super) fn of_gemini(models: &'a [(String, T)], query: &str) -> Result<Self, Failure> {
        let size = match member(query, &["pageSize", "page_size"]).map(|text| text.parse()) {
            // Zero is as good as none, and more than a page holds is a full one [google.aip.dev/158].
            None | Some(Ok(0)) => usize::MAX,
            Some(Ok(size)) => MOST.min(size),
            Some(Err(_)) => return Err(invalid("pageSize", "a number that is not negative")),
        };
        let Some(token) = member(query, &["pageToken", "page_token"]).filter(|t| !t.is_empty())
        else {
            return Ok(Self::from(models, 0, size));
        };
        let name = BASE64_URL_SAFE_NO_PAD.decode(token.as_bytes()).ok();
        let after = name.and_then(|name| {
            models
                .iter()
                .position(|(known, _)| known.as_bytes() == name)
        });
        let Some(after) = after else {
            let expected =
                "the `nextPageToken` of an earlier page; the list has changed since, begin anew";
            return Err(invalid("pageToken", expected));
        };
        Ok(Self::from(models, after + 1, size))
    }

    fn from(models: &'a [(String, T)], from: usize, size: usize) -> Self {
        let rest = models.get(from..).unwrap_or_default();
        let (page, left) = rest.split_at(size.min(rest.len()));
        Self {
            models: page,
            more: !left.is_empty(),
        }
    }
}

/// The first member of a query under one of these names.
fn member<'q>(query: &'q str, names: &[&str]) -> Option<Cow<'q, str>> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| names.contains(name))?;
    Some(percent_decode_str(value).decode_utf8_lossy())
}

fn invalid(name: &'static str, expected: &str) -> Failure {
    let text = format!("`{name}` is invalid: expected {expected}");
    Failure::new(Reason::InvalidRequest, text).param(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<(String, ())> {
        let names = ["a", "b/c:d", "e", "안", "z"];
        names.iter().map(|name| ((*name).to_owned(), ())).collect()
    }

    fn names(page: Page<'_, ()>) -> (Vec<&str>, bool) {
        let names = page.models.iter().map(|(name, ())| name.as_str());
        (names.collect(), page.more)
    }

    #[test]
    fn anthropics_pages_are_turned_forth_and_back() {
        let list = list();
        let page = |query| names(Page::of_anthropic(&list, query).unwrap());
        assert_eq!(page("").0.len(), 5);
        assert_eq!(page("limit=2"), (vec!["a", "b/c:d"], true));
        assert_eq!(page("limit=2&after_id=b%2Fc%3Ad"), (vec!["e", "안"], true));
        assert_eq!(page("after_id=%EC%95%88&limit=2"), (vec!["z"], false));
        assert_eq!(page("after_id=z"), (vec![], false));
        assert_eq!(
            page("before_id=z&limit=3"),
            (vec!["b/c:d", "e", "안"], true)
        );
        assert_eq!(page("before_id=b/c:d&limit=3"), (vec!["a"], false));
        for (query, param) in [
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=x", "limit"),
            ("after_id=gone", "after_id"),
            ("before_id=gone", "before_id"),
            ("before_id=z&after_id=a", "before_id"),
        ] {
            let failure = Page::of_anthropic(&list, query).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidRequest);
            assert_eq!(failure.param.as_deref(), Some(param), "{query}");
        }
    }

    #[test]
    fn geminis_pages_follow_their_tokens_to_the_end() {
        let list = list();
        for size in 1..=6 {
            let (mut seen, mut query) = (Vec::new(), format!("pageSize={size}"));
            loop {
                let page = Page::of_gemini(&list, &query).unwrap();
                seen.extend(page.models.iter().map(|(name, ())| name.clone()));
                let Some((last, ())) = page.models.last().filter(|_| page.more) else {
                    break;
                };
                let token = BASE64_URL_SAFE_NO_PAD.encode(last);
                query = format!("pageToken={token}&page_size={size}");
            }
            let all: Vec<_> = list.iter().map(|(name, ())| name.clone()).collect();
            assert_eq!(seen, all, "{size}");
        }
        for query in ["", "pageSize=0", "pageSize=5000", "pageToken="] {
            assert_eq!(Page::of_gemini(&list, query).unwrap(), Page::whole(&list));
        }
        for (query, param) in [
            ("pageSize=-1", "pageSize"),
            ("pageToken=gone", "pageToken"),
            ("pageToken=%21", "pageToken"),
        ] {
            let failure = Page::of_gemini(&list, query).unwrap_err();
            assert_eq!(failure.param.as_deref(), Some(param), "{query}");
        }
    }
}
