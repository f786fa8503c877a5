//! A whole answer that is one JSON object: what is the same in every dialect that has such answers.

use bytes::Bytes;

use crate::chat::quote;
use crate::error::{Class, UpstreamError};
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice};

/// The members of an answer that is no error.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    pub(crate) text: &'a str,
    found: Vec<(&'static str, Value)>,
    models: Vec<Span>,
}

impl<'a> Object<'a> {
    /// Reads the body of an answer with a success status, keeping the members that have these names.
    ///
    /// # Errors
    /// When it is empty, cut, no JSON object, or says that it failed (CASES C4).
    pub(crate) fn read(body: &'a [u8], names: &[&'static str]) -> Result<Self, Box<UpstreamError>> {
        if body.trim_ascii().is_empty() {
            return Err(empty());
        }
        let read = |text| Self::members(text, names).ok();
        let Some((object, error, flat)) = std::str::from_utf8(body).ok().and_then(read) else {
            return Err(malformed("the upstream's answer is not a JSON object"));
        };
        if let Some(error) = error.and_then(|e| UpstreamError::from_embedded(object.text, e)) {
            return Err(Box::new(error));
        }
        if flat {
            return Err(Box::new(UpstreamError::from_flat(object.text)));
        }
        Ok(object)
    }

    fn members(
        text: &'a str,
        names: &[&'static str],
    ) -> Result<(Self, Option<Value>, bool), JsonError> {
        let mut object = Self {
            text,
            found: Vec::new(),
            models: Vec::new(),
        };
        let (mut error, mut flat) = (None, false);
        let mut cursor = Cursor::new(text);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let key = key.decode(text);
            match &*key {
                "error" => error = Some(value),
                "object" => flat = value.span.of(text) == "\"error\"",
                "model" if value.kind == Kind::String => object.models.push(value.span),
                _ => {}
            }
            if let Some(name) = names.iter().find(|name| **name == key) {
                object.found.push((name, value));
            }
        }
        cursor.end()?;
        Ok((object, error, flat))
    }

    /// A member by its name; the last one where there are several.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let mut found = self.found.iter().rev();
        found.find(|(found, _)| *found == name).map(|(_, v)| *v)
    }

    /// The items of an array that must have some; `missing` says what is not there.
    pub(crate) fn list(
        &self,
        name: &str,
        missing: &'static str,
    ) -> Result<Vec<Value>, Box<UpstreamError>> {
        let array = self.get(name).filter(|value| value.kind == Kind::Array);
        let items = array.and_then(|array| items(self.text, array).ok());
        items
            .filter(|items| !items.is_empty())
            .ok_or_else(|| malformed(missing))
    }

    /// The body with the public name in `model` where one is given; the body itself if nothing changes.
    pub(crate) fn renamed(&self, body: &Bytes, public_model: Option<&str>) -> Bytes {
        let Some(name) = public_model else {
            return body.clone();
        };
        let quoted = quote(name);
        let differs = |span: &&Span| span.of(self.text) != quoted;
        let edit = |span: &Span| Edit::replace(*span, quoted.clone());
        let edits: Vec<_> = self.models.iter().filter(differs).map(edit).collect();
        if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        }
    }
}

/// The values in an array.
fn items(text: &str, array: Value) -> Result<Vec<Value>, JsonError> {
    let mut cursor = Cursor::at_value(text, array);
    let mut out = Vec::new();
    cursor.enter_array()?;
    let mut first = true;
    while cursor.next_item(&mut first)? {
        out.push(cursor.skip()?);
    }
    Ok(out)
}

/// A member of an object; the last one where there are several, `None` also where `value` is no object.
pub(crate) fn member(text: &str, value: Value, name: &str) -> Option<Value> {
    if value.kind != Kind::Object {
        return None;
    }
    let mut cursor = Cursor::at_value(text, value);
    cursor.enter_object().ok()?;
    let mut first = true;
    let mut found = None;
    while let Some(key) = cursor.next_key(&mut first).ok()? {
        let value = cursor.skip().ok()?;
        if crate::usage::key_is(text, key, name) {
            found = Some(value);
        }
    }
    found
}

/// An answer without anything in it.
pub(crate) fn empty() -> Box<UpstreamError> {
    let text = "the upstream's answer was empty";
    Box::new(UpstreamError::found(Class::Empty, text))
}

/// An answer that lacks what its dialect demands (SPEC FWD-5).
pub(crate) fn malformed(missing: &str) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(Class::Malformed, missing))
}

/// JSON on one line: line ends can only be white space there.
pub(crate) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
