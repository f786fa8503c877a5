//! What an upstream understands of a request's parameters, and under which name and range (SPEC FWD-11).
//!
//! Applied to the body that goes out, after the model's name and the output cap are in it. What is not concerned keeps its
//! bytes; an object out of which a member is taken is put together again from its members' own text.
//!
//! This module does not know which parameters exist: a dialect says in its [`Layout`] which members of a request are no
//! parameters at all.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::chat::quote;
use crate::json::{Cursor, Edit, JsonError, Kind, Value, splice, whole_number};
use crate::multipart::{FormData, is_form};

/// Where a dialect's parameters stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Top-level members that are no parameters: what is asked, of whom, in which form.
    pub structural: &'static [&'static str],
    /// The member that holds parameters in turn (Gemini's `generationConfig`).
    pub nested: &'static [&'static str],
    /// The member that holds the turns of the conversation, each with a `role`.
    pub turns: &'static str,
    /// The names under which an output limit may stand, one as good as another.
    pub limits: &'static [&'static str],
    /// Parameters that say in which form the answer comes, to which it is converted here where the upstream does not take them:
    /// left out, they are missed by nobody.
    pub converted: &'static [&'static str],
}

impl Layout {
    /// Of a request that is a flat object, or a form, of parameters but for these members.
    #[must_use]
    pub const fn flat(structural: &'static [&'static str]) -> Self {
        Self {
            structural,
            nested: &[],
            turns: "",
            limits: &[],
            converted: &[],
        }
    }
}

/// A linear change of range, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescale {
    /// What callers send, from lowest to highest.
    pub from: (i64, i64),
    /// What the upstream takes.
    pub to: (i64, i64),
}

impl Rescale {
    /// A caller's value for the upstream, to six decimals.
    fn apply(self, value: f64) -> Option<String> {
        let [low, high, to_low, to_high] =
            [self.from.0, self.from.1, self.to.0, self.to.1].map(|millionths| millionths as f64);
        let scaled = to_low + (value * 1e6 - low) / (high - low) * (to_high - to_low);
        scaled
            .is_finite()
            .then(|| (scaled.round() / 1e6).to_string())
    }
}

/// An account's declared map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The parameters that it takes, by callers' names; `None`: all.
    pub supported: Option<BTreeSet<String>>,
    /// Callers' names to its names.
    pub rename: BTreeMap<String, String>,
    /// Ranges that differ, by callers' names.
    pub rescale: BTreeMap<String, Rescale>,
    /// Callers' roles to its roles.
    pub roles: BTreeMap<String, String>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The body for the upstream.
    pub body: Bytes,
    /// The parameters that were left out, each once, in order of their place.
    pub dropped: Vec<String>,
}

/// How the map is to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handling {
    /// An unsupported parameter is an error, not dropped.
    pub reject: bool,
    /// An output cap of ours is in the body: a limit stays whether the upstream says that it takes it or not.
    pub capped: bool,
}

/// A parameter that the upstream does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not supported by the upstream of this model; leave it out, or let unsupported parameters be dropped"
)]
pub struct Unsupported(pub String);

/// Why a walk ended.
enum Stop {
    Unsupported(Unsupported),
    Json,
}

impl From<JsonError> for Stop {
    fn from(_: JsonError) -> Self {
        Self::Json
    }
}

impl Parameters {
    /// Whether nothing would ever change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the map to a request's body: JSON, or the form that `content_type` tells of.
    ///
    /// # Errors
    /// When a parameter is unsupported and that is to be an error.
    pub fn apply(
        &self,
        layout: &Layout,
        handling: Handling,
        content_type: Option<&str>,
        body: &Bytes,
    ) -> Result<Applied, Unsupported> {
        let unchanged = Applied {
            body: body.clone(),
            dropped: Vec::new(),
        };
        let mut walk = Walk {
            map: self,
            layout,
            handling,
            text: "",
            out: String::new(),
            dropped: Vec::new(),
        };
        let applied = if let Some(form) = content_type.filter(|kind| is_form(kind)) {
            let Ok(form) = FormData::read(form, body) else {
                return Ok(unchanged);
            };
            walk.parts(&form).map(|edits| splice(body, edits))
        } else {
            let Ok(text) = std::str::from_utf8(body) else {
                return Ok(unchanged);
            };
            walk.text = text;
            walk.out.reserve(text.len() + 64);
            walk.members(&mut Cursor::new(text), layout.structural)
                .map(|()| std::mem::take(&mut walk.out).into())
        };
        match applied {
            Ok(body) => Ok(Applied {
                body,
                dropped: walk.dropped,
            }),
            Err(Stop::Unsupported(unsupported)) => Err(unsupported),
            // The body was read before: this cannot be, and if it is, the upstream is to judge it.
            Err(Stop::Json) => Ok(unchanged),
        }
    }
}

/// One pass over a body.
struct Walk<'a> {
    map: &'a Parameters,
    layout: &'a Layout,
    handling: Handling,
    text: &'a str,
    out: String,
    dropped: Vec<String>,
}

impl Walk<'_> {
    fn members(&mut self, cursor: &mut Cursor<'_>, structural: &[&str]) -> Result<(), Stop> {
        let limit = self.limit(cursor.clone())?;
        cursor.enter_object()?;
        let (mut first, mut written) = (true, Vec::new());
        self.out.push('{');
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = key.decode(self.text);
            let value = cursor.skip()?;
            if self.layout.nested.contains(&&*name) && value.kind == Kind::Object {
                self.separate();
                self.out.push_str(&quote(&name));
                self.out.push(':');
                self.members(&mut Cursor::at_value(self.text, value), &[])?;
                continue;
            }
            if structural.contains(&&*name) {
                self.separate();
                self.out.push_str(&quote(&name));
                self.out.push(':');
                if name == self.layout.turns && !self.map.roles.is_empty() {
                    self.turns(value)?;
                } else {
                    self.out.push_str(value.span.of(self.text));
                }
                continue;
            }
            let Some(known) = self.taken_as(&name) else {
                // `null` says nothing and is missed by nobody.
                if value.kind != Kind::Null {
                    self.leave_out(&name)?;
                }
                continue;
            };
            // One limit goes out, the one that holds, under one of its names.
            let is_limit = self.layout.limits.contains(&&*name);
            let value = match limit.filter(|_| is_limit) {
                Some(_) if value.kind == Kind::Null => continue,
                Some(limit) => limit,
                None => value,
            };
            if !written
                .iter()
                .any(|(as_known, by)| *as_known == known && *by != name)
            {
                self.parameter(&known, value);
                written.push((known, name));
            }
        }
        self.out.push('}');
        Ok(())
    }

    /// The output limit that holds where it may stand under several names: the smallest.
    fn limit(&self, mut cursor: Cursor<'_>) -> Result<Option<Value>, JsonError> {
        if self.map.supported.is_none() {
            return Ok(None);
        }
        let mut least: Option<(u64, Value)> = None;
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            if let Some(limit) = whole_number(value.span.of(self.text))
                && self.layout.limits.contains(&&*key.decode(self.text))
                && least.is_none_or(|(least, _)| limit < least)
            {
                least = Some((limit, value));
            }
        }
        Ok(least.map(|(_, value)| value))
    }

    fn separate(&mut self) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
    }

    /// Under which of callers' names the upstream takes a parameter, if it does.
    fn taken_as(&self, name: &str) -> Option<String> {
        let Some(supported) = &self.map.supported else {
            return Some(name.to_owned());
        };
        if supported.contains(name) {
            return Some(name.to_owned());
        }
        let limits = self.layout.limits;
        if !limits.contains(&name) {
            return None;
        }
        let other = limits.iter().find(|other| supported.contains(**other));
        match other {
            Some(other) => Some((*other).to_owned()),
            None => self.handling.capped.then(|| name.to_owned()),
        }
    }

    fn parameter(&mut self, name: &str, value: Value) {
        let raw = value.span.of(self.text);
        let scaled = Some(raw)
            .filter(|_| value.kind == Kind::Number)
            .and_then(|raw| self.scaled(name, raw));
        let called = self.map.rename.get(name).map_or(name, String::as_str);
        self.separate();
        self.out.push_str(&quote(called));
        self.out.push(':');
        self.out.push_str(scaled.as_deref().unwrap_or(raw));
    }

    fn scaled(&self, name: &str, raw: &str) -> Option<String> {
        self.map.rescale.get(name)?.apply(raw.trim().parse().ok()?)
    }

    /// The parts of a form that change. A list is as many parts, whose name may end in `[]`; a file keeps its head.
    fn parts(&mut self, form: &FormData<'_>) -> Result<Vec<Edit<'static>>, Stop> {
        let mut edits = Vec::new();
        for part in form.parts() {
            let (bare, list) = match part.name.strip_suffix("[]") {
                Some(bare) => (bare, "[]"),
                None => (&*part.name, ""),
            };
            if self.layout.structural.contains(&bare) {
                continue;
            }
            let taken = self.taken_as(bare).is_some() || self.taken_as(&part.name).is_some();
            if !taken {
                self.leave_out(&part.name)?;
                edits.push(Edit::replace(part.whole, ""));
                continue;
            }
            let Some(text) = form.text(part) else {
                continue;
            };
            if let Some(called) = self.map.rename.get(bare) {
                let called = format!("{called}{list}").replace('"', "\\\"");
                let head = format!(r#"Content-Disposition: form-data; name="{called}""#);
                edits.push(Edit::replace(part.head, head));
            }
            if let Some(scaled) = self.scaled(bare, text) {
                edits.push(Edit::replace(part.content, scaled));
            }
        }
        Ok(edits)
    }

    /// Leaves a parameter out.
    fn leave_out(&mut self, name: &str) -> Result<(), Stop> {
        if self.layout.converted.contains(&name) {
            return Ok(());
        }
        if self.handling.reject {
            return Err(Stop::Unsupported(Unsupported(name.to_owned())));
        }
        if !self.dropped.iter().any(|dropped| dropped == name) {
            self.dropped.push(name.to_owned());
        }
        Ok(())
    }

    fn turns(&mut self, value: Value) -> Result<(), Stop> {
        if value.kind != Kind::Array {
            self.out.push_str(value.span.of(self.text));
            return Ok(());
        }
        let mut cursor = Cursor::at_value(self.text, value);
        cursor.enter_array()?;
        let (mut first, mut at) = (true, value.span.start);
        while cursor.next_item(&mut first)? {
            if cursor.kind()? != Kind::Object {
                cursor.skip()?;
                continue;
            }
            cursor.enter_object()?;
            let mut first = true;
            while let Some(key) = cursor.next_key(&mut first)? {
                let value = cursor.skip()?;
                let role = value
                    .text()
                    .filter(|_| key.decode(self.text) == "role")
                    .and_then(|role| self.map.roles.get(&*role.decode(self.text)));
                if let Some(role) = role {
                    let before = self.text.get(at..value.span.start).unwrap_or("");
                    self.out.push_str(before);
                    self.out.push_str(&quote(role));
                    at = value.span.end;
                }
            }
        }
        let rest = self.text.get(at..value.span.end).unwrap_or("");
        self.out.push_str(rest);
        Ok(())
    }
}
