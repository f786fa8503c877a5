//! Reading a request's JSON so that nothing of it is lost in silence: members are taken one by one, and what is left is named.

use std::borrow::Cow;

use crate::json::{Cursor, Kind, whole_number};

/// At most so many names of what was left out are told.
const MAX_DROPS: usize = 64;

/// Why a request cannot be put into the upstream's dialect. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The field at fault, as a path (`messages[2].content[0]`).
    pub param: String,
    /// Which field, what was expected, what to do.
    pub message: String,
    /// It is fine in the caller's own dialect, but the upstream's has nothing for it: another target may have.
    /// Otherwise it is wrong wherever it goes.
    pub unsupported: bool,
}

impl Refusal {
    /// The upstream's dialect has nothing for a field without which the request would be another one.
    pub(crate) fn unsupported(param: impl Into<String>, why: &str) -> Box<Self> {
        let param = param.into();
        Box::new(Self {
            message: format!("`{param}` cannot be carried to this model's upstream: {why}"),
            param,
            unsupported: true,
        })
    }

    /// A field is wrong.
    pub(crate) fn invalid(param: impl Into<String>, expected: &str) -> Box<Self> {
        let param = param.into();
        Box::new(Self {
            message: format!("`{param}` is invalid: expected {expected}"),
            param,
            unsupported: false,
        })
    }
}

/// Names of what the upstream's dialect has nothing for and that was left out (SPEC FWD-11). Each once, without the places
/// in lists: `messages[].name`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drops(Vec<String>);

impl Drops {
    /// Notes one, by its path.
    pub(crate) fn note(&mut self, path: &str) {
        let mut name = String::with_capacity(path.len());
        let mut inside = false;
        for character in path.chars() {
            inside &= character != ']';
            if !inside {
                name.push(character);
            }
            inside |= character == '[';
        }
        if self.0.len() < MAX_DROPS && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// The names, in the order in which they were met.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// A JSON value that is known to be valid, as its text, with the path to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Where it stands.
    pub(crate) path: String,
}

/// The members of an object that were not taken yet. Of two equal keys the last one counts. A member that is `null` is
/// absent.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    path: String,
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Raw<'a> {
    /// The whole of a body.
    pub(crate) fn body(text: &'a str) -> Self {
        Self {
            text,
            path: String::new(),
        }
    }

    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        // what is valid begins as something
        Cursor::new(self.text).kind().unwrap_or(Kind::Null)
    }

    /// The string that it is.
    pub(crate) fn as_text(&self) -> Option<Cow<'a, str>> {
        let value = Cursor::new(self.text).skip().ok()?;
        Some(value.text()?.decode(self.text))
    }

    /// The string that it must be.
    pub(crate) fn text(&self) -> Result<Cow<'a, str>, Box<Refusal>> {
        self.as_text().ok_or_else(|| self.wrong("a string"))
    }

    /// The whole number, not negative, that it must be.
    pub(crate) fn number(&self) -> Result<u64, Box<Refusal>> {
        whole_number(self.text.trim()).ok_or_else(|| self.wrong("a whole number, not negative"))
    }

    /// The items of the array that it must be.
    pub(crate) fn items(&self) -> Result<Vec<Raw<'a>>, Box<Refusal>> {
        let wrong = || self.wrong("an array");
        let mut items = Vec::new();
        let mut cursor = Cursor::new(self.text);
        cursor.enter_array().map_err(|_| wrong())?;
        let mut first = true;
        while cursor.next_item(&mut first).map_err(|_| wrong())? {
            let value = cursor.skip().map_err(|_| wrong())?;
            items.push(Raw {
                text: value.span.of(self.text),
                path: format!("{}[{}]", self.path, items.len()),
            });
        }
        Ok(items)
    }

    /// The members of the object that it must be.
    pub(crate) fn fields(&self) -> Result<Fields<'a>, Box<Refusal>> {
        let wrong = || self.wrong("an object");
        let mut members: Vec<(Cow<'a, str>, &'a str)> = Vec::new();
        let mut cursor = Cursor::new(self.text);
        cursor.enter_object().map_err(|_| wrong())?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first).map_err(|_| wrong())? {
            let value = cursor.skip().map_err(|_| wrong())?;
            let (key, text) = (key.decode(self.text), value.span.of(self.text));
            members.retain(|(other, _)| *other != key);
            members.push((key, text));
        }
        members.retain(|(_, text)| *text != "null");
        Ok(Fields {
            path: self.path.clone(),
            members,
        })
    }

    /// The address that it must be: of the web, of a bucket, or `data:`.
    pub(crate) fn address(&self) -> Result<Cow<'a, str>, Box<Refusal>> {
        let url = self.text()?;
        let known = ["https:", "http:", "data:", "gs:"];
        if known.iter().any(|scheme| url.starts_with(scheme)) {
            return Ok(url);
        }
        Err(Refusal::invalid(
            &*self.path,
            "an `https:` or a `data:` URL",
        ))
    }

    /// The object that it must be, unread.
    pub(crate) fn object(self) -> Result<Raw<'a>, Box<Refusal>> {
        match self.kind() {
            Kind::Object => Ok(self),
            _ => Err(self.wrong("an object")),
        }
    }

    /// That it is not what it should be.
    pub(crate) fn wrong(&self, expected: &str) -> Box<Refusal> {
        let got = self.kind().noun();
        let path = if self.path.is_empty() {
            "the body"
        } else {
            &self.path
        };
        Refusal::invalid(path, &format!("{expected}, got {got}"))
    }
}

impl<'a> Fields<'a> {
    /// The path of a member.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Takes a member.
    pub(crate) fn take(&mut self, name: &str) -> Option<Raw<'a>> {
        #[cfg(test)]
        self.record(name);
        let at = self.members.iter().position(|(key, _)| key == name)?;
        let (_, text) = self.members.remove(at);
        Some(Raw {
            text,
            path: self.path(name),
        })
    }

    /// Whether a member is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(key, _)| key == name)
    }

    /// The JSON of a member, which stays.
    pub(crate) fn peek(&self, name: &str) -> Option<&'a str> {
        let of = |(key, _): &&(Cow<'a, str>, &'a str)| key == name;
        self.members.iter().find(of).map(|(_, text)| *text)
    }

    /// Takes a member that must be a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, Box<Refusal>> {
        self.take(name).map(|raw| raw.text()).transpose()
    }

    /// Takes a member that must be a whole number, not negative.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Box<Refusal>> {
        self.take(name).map(|raw| raw.number()).transpose()
    }

    /// Takes a member that must be true or false.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, Box<Refusal>> {
        let boolean = |raw: Raw<'a>| match raw.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(raw.wrong("true or false")),
        };
        self.take(name).map(boolean).transpose()
    }

    /// Takes a member that must be an array; nothing of it where it is absent.
    pub(crate) fn items(&mut self, name: &str) -> Result<Vec<Raw<'a>>, Box<Refusal>> {
        Ok(self
            .take(name)
            .map(|raw| raw.items())
            .transpose()?
            .unwrap_or_default())
    }

    /// Takes a member that must be an object.
    pub(crate) fn fields(&mut self, name: &str) -> Result<Option<Fields<'a>>, Box<Refusal>> {
        self.take(name).map(|raw| raw.fields()).transpose()
    }

    /// Takes a member that must be there.
    pub(crate) fn need(&mut self, name: &str, expected: &str) -> Result<Raw<'a>, Box<Refusal>> {
        self.take(name)
            .ok_or_else(|| Refusal::invalid(self.path(name), &format!("{expected}, got nothing")))
    }

    /// Takes a member that must be a string with something in it.
    pub(crate) fn filled(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Cow<'a, str>, Box<Refusal>> {
        let text = self.need(name, expected)?.text()?;
        if text.is_empty() {
            let expected = format!("{expected}, got an empty string");
            return Err(Refusal::invalid(self.path(name), &expected));
        }
        Ok(text)
    }

    /// Takes a member that must be a media type.
    pub(crate) fn mime(&mut self, name: &str) -> Result<Cow<'a, str>, Box<Refusal>> {
        let expected = "a media type, as `image/png`";
        let mime = self.filled(name, expected)?;
        match mime.contains('/') {
            true => Ok(mime),
            false => Err(Refusal::invalid(self.path(name), expected)),
        }
    }

    /// Takes a member that must be an object, unread.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Raw<'a>>, Box<Refusal>> {
        self.take(name).map(Raw::object).transpose()
    }

    /// Takes a member that must be one of these words.
    pub(crate) fn word(
        &mut self,
        name: &str,
        words: &[&str],
    ) -> Result<Option<Cow<'a, str>>, Box<Refusal>> {
        match self.text(name)? {
            Some(word) if !words.contains(&&*word) => {
                let expected = format!("one of {}, got `{word}`", words.join(", "));
                Err(Refusal::invalid(self.path(name), &expected))
            }
            word => Ok(word),
        }
    }

    /// Takes over what is left of an object inside this one, so that it is named with the rest of this one.
    pub(crate) fn absorb(&mut self, inner: Fields<'a>) {
        let outer = self.path.len();
        let place = inner.path.get(outer..).unwrap_or("");
        let place = place.strip_prefix('.').unwrap_or(place);
        for (name, text) in inner.members {
            self.members.push((format!("{place}.{name}").into(), text));
        }
    }

    /// Refuses a number outside of these bounds, which are the caller's dialect's own; it stays.
    pub(crate) fn within(&self, name: &str, low: f64, high: f64) -> Result<(), Box<Refusal>> {
        let Some(text) = self.peek(name) else {
            return Ok(());
        };
        let number = text.parse::<f64>().ok();
        if number.is_some_and(|number| (low..=high).contains(&number)) {
            return Ok(());
        }
        let bounds = match (low, high) {
            (f64::MIN, f64::MAX) => "a number".to_owned(),
            (low, f64::MAX) => format!("a number from {low}"),
            (low, high) => format!("a number from {low} to {high}"),
        };
        let expected = format!("{bounds}, got {}", short(text));
        Err(Refusal::invalid(self.path(name), &expected))
    }

    /// What was not taken.
    pub(crate) fn rest(self) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> {
        let path = self.path;
        self.members.into_iter().map(move |(name, text)| {
            let path = if path.is_empty() {
                name.clone().into_owned()
            } else {
                format!("{path}.{name}")
            };
            (name, Raw { text, path })
        })
    }

    /// Notes what was not taken as left out.
    pub(crate) fn drop_rest(self, drops: &mut Drops) {
        for (_, raw) in self.rest() {
            drops.note(&raw.path);
        }
    }
}

/// A JSON value for a message: its beginning, where it is long.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
thread_local! {
    static ASKED_FOR: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
impl Fields<'_> {
    /// Notes that a member would be taken, there or not. What is made of nothing (`{}`) has no path.
    fn record(&self, name: &str) {
        if !self.path.is_empty() || !self.members.is_empty() {
            ASKED_FOR.with_borrow_mut(|all| all.push(self.path(name)));
        }
    }
}

/// Runs something, and tells the paths of members that it would take.
#[cfg(test)]
pub(super) fn recorded<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    ASKED_FOR.take();
    let ran = run();
    (ran, ASKED_FOR.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_named_once_and_null_is_absent() {
        let body = r#"{"a":1,"b":null,"list":[{"x":1,"y":[2]},{"x":3,"y":4}],"a":7}"#;
        let mut fields = Raw::body(body).fields().unwrap();
        assert_eq!(fields.number("a"), Ok(Some(7)));
        assert!(!fields.has("b"));
        let mut drops = Drops::default();
        for item in fields.items("list").unwrap() {
            let mut item = item.fields().unwrap();
            assert!(item.take("x").is_some());
            item.drop_rest(&mut drops);
        }
        fields.drop_rest(&mut drops);
        assert_eq!(drops.names(), ["list[].y"]);
    }

    #[test]
    fn what_is_left_of_an_inner_object_is_named_with_the_outer_one() {
        let body = r#"{"list":[{"image":{"url":"u","odd":1}}]}"#;
        let mut fields = Raw::body(body).fields().unwrap();
        let mut item = fields.items("list").unwrap()[0].fields().unwrap();
        let mut image = item.fields("image").unwrap().unwrap();
        assert!(image.take("url").is_some());
        item.absorb(image);
        fields.absorb(item);
        let mut drops = Drops::default();
        fields.drop_rest(&mut drops);
        assert_eq!(drops.names(), ["list[].image.odd"]);
    }

    #[test]
    fn what_has_nothing_in_it_or_is_another_word_or_no_object_is_refused() {
        let body = r#"{"empty":"","word":"x","object":[],"mime":"png"}"#;
        let mut fields = Raw::body(body).fields().unwrap();
        let refused = [
            fields.filled("empty", "a name").unwrap_err(),
            fields.word("word", &["a", "b"]).unwrap_err(),
            fields.object("object").unwrap_err(),
            fields.mime("mime").unwrap_err(),
        ];
        assert_eq!(
            refused.map(|refusal| refusal.message),
            [
                "`empty` is invalid: expected a name, got an empty string",
                "`word` is invalid: expected one of a, b, got `x`",
                "`object` is invalid: expected an object, got an array",
                "`mime` is invalid: expected a media type, as `image/png`",
            ]
        );
    }

    #[test]
    fn a_number_out_of_its_bounds_is_refused_with_them() {
        let fields = Raw::body(r#"{"t":2.5,"p":"1","ok":1e0}"#).fields().unwrap();
        let refusal = fields.within("t", 0.0, 2.0).unwrap_err();
        assert_eq!(
            refusal.message,
            "`t` is invalid: expected a number from 0 to 2, got 2.5"
        );
        assert_eq!(fields.within("p", 0.0, 1.0).unwrap_err().param, "p");
        assert_eq!(fields.within("ok", 0.0, 1.0), Ok(()));
        assert_eq!(fields.within("absent", 0.0, 1.0), Ok(()));
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_named_with_its_place() {
        let body = r#"{"messages":[{"role":"user"},{"role":5}]}"#;
        let mut fields = Raw::body(body).fields().unwrap();
        let mut second = fields.items("messages").unwrap()[1].fields().unwrap();
        let refusal = second.text("role").unwrap_err();
        assert_eq!(refusal.param, "messages[1].role");
        assert_eq!(
            refusal.message,
            "`messages[1].role` is invalid: expected a string, got a number"
        );
    }
}
