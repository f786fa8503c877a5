//! Members under either of their names: Google's JSON name (`inlineData`) and that of its proto (`inline_data`).

use std::borrow::Cow;

use crate::convert::fields::{Fields, Raw, Refusal};
use crate::json::Kind;

/// Takes members of an object by their JSON name. Where both names are there the JSON name counts, and the other one is
/// among what was not taken.
#[derive(Debug)]
pub(super) struct Members<'a>(pub(super) Fields<'a>);

impl<'a> Members<'a> {
    /// Takes a member.
    pub(super) fn take(&mut self, name: &str) -> Option<Raw<'a>> {
        if let Some(raw) = self.0.take(name) {
            return Some(raw);
        }
        if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        self.0.take(&snake(name))
    }

    /// Refuses a number outside of these bounds; it stays.
    pub(super) fn within(&self, name: &str, low: f64, high: f64) -> Result<(), Box<Refusal>> {
        self.0.within(name, low, high)?;
        self.0.within(&snake(name), low, high)
    }

    /// The path of a member, by the name that the caller used.
    pub(super) fn path(&self, name: &str) -> String {
        let other = snake(name);
        if !self.0.has(name) && self.0.has(&other) {
            return self.0.path(&other);
        }
        self.0.path(name)
    }

    /// Takes a member that must be a string.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, Box<Refusal>> {
        self.take(name).map(|raw| raw.text()).transpose()
    }

    /// Takes a member that must be a string with something in it.
    pub(super) fn filled(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Cow<'a, str>, Box<Refusal>> {
        let other = snake(name);
        let name = if self.0.has(name) { name } else { &other };
        self.0.filled(name, expected)
    }

    /// Takes a member that must be a media type.
    pub(super) fn mime(&mut self, name: &str) -> Result<Cow<'a, str>, Box<Refusal>> {
        let other = snake(name);
        let name = if self.0.has(name) { name } else { &other };
        self.0.mime(name)
    }

    /// Takes a member that must be a whole number, not negative; its JSON may have it as a string.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u64>, Box<Refusal>> {
        let count = |raw: Raw<'a>| match raw.as_text() {
            Some(text) => crate::json::whole_number(&text)
                .ok_or_else(|| raw.wrong("a whole number, not negative")),
            None => raw.number(),
        };
        self.take(name).map(count).transpose()
    }

    /// Takes a member that must be true or false.
    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, Box<Refusal>> {
        let boolean = |raw: Raw<'a>| match raw.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(raw.wrong("true or false")),
        };
        self.take(name).map(boolean).transpose()
    }

    /// Takes a member that must be an object.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Members<'a>>, Box<Refusal>> {
        self.take(name)
            .map(|raw| raw.fields().map(Members))
            .transpose()
    }

    /// Takes the items of a member that must be an array, or the one object that stands in its place: Google takes both.
    pub(super) fn each(&mut self, name: &str) -> Result<Vec<Raw<'a>>, Box<Refusal>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(raw) if raw.kind() == Kind::Object => Ok(vec![raw]),
            Some(raw) => raw.items(),
        }
    }

    /// Takes a member that must be an array of strings.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<Cow<'a, str>>, Box<Refusal>> {
        let items = self.take(name).map(|raw| raw.items()).transpose()?;
        items.unwrap_or_default().iter().map(Raw::text).collect()
    }
}

/// The proto's name of a JSON name.
pub(in crate::convert) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}
