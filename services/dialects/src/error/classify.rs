//! From what an upstream said to a class.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;

use super::words::{CONTEXT, CONTEXT_WORDS, IMPLIED, KEYS, POLICY, QUOTA};
use super::{Class, MAX_BODY, MAX_FIELD, Shape, UpstreamError, bounded, delay};
use crate::json::{Cursor, JsonError, Kind, Value, whole_number};
use crate::sse::Decoder;
use crate::usage::key_is;

/// The fields of an error object.
#[derive(Default)]
struct Said {
    message: Option<String>,
    kind: Option<String>,
    code: Option<String>,
    param: Option<String>,
    status: Option<u16>,
    /// It has a string `message`, as all vendors' SDKs demand.
    proper: bool,
    /// The whole says `"type":"error"`.
    typed: bool,
    /// It has a `status` in words.
    worded: bool,
    /// It stands in another one: some gateways wrap what their upstream said.
    inside: bool,
    /// When to come back, where the body says it (Google).
    retry_after: Option<Duration>,
}

impl UpstreamError {
    /// Classifies an answer whose HTTP status is no success. `now` resolves a `Retry-After` that is a date.
    #[must_use]
    pub fn from_http(status: u16, headers: &HeaderMap, body: &Bytes, now: SystemTime) -> Self {
        let said = Said::from_body(body).or_else(|| Said::from_event(body));
        let said = said.unwrap_or_else(|| Said::in_words(body));
        let mut error = said.classified(Some(status));
        error.retry_after = delay::retry_after(headers, now).or(error.retry_after);
        error.should_retry = match headers
            .get("x-should-retry")
            .map(http::HeaderValue::as_bytes)
        {
            Some(b"true") => Some(true),
            Some(b"false") => Some(false),
            _ => None,
        };
        error.body = error
            .body
            .filter(|_| body.len() <= MAX_BODY)
            .map(|(shape, _)| (shape, body.clone()));
        error
    }

    /// A body that an account's rules declare a failure of `class`.
    #[must_use]
    pub fn declared(class: Class, body: &Bytes) -> Self {
        let said = Said::from_body(body).unwrap_or_default();
        let mut error = said.classified(None);
        error.class = class;
        error.status = None;
        error.body = None;
        error
    }

    /// Classifies an error object that came inside a success: `body` is the whole JSON text, `error` the value of its
    /// `error` field (SPEC FWD-5, CASES C4). `None` when that value says that there is no error (`null`, `false`, `0`,
    /// `""`, `{}`).
    #[must_use]
    pub fn from_embedded(body: &str, error: Value) -> Option<Self> {
        let empty = match error.kind {
            Kind::Null => true,
            Kind::Bool => error.span.of(body) == "false",
            Kind::Number => error.span.of(body) == "0",
            Kind::String => error.text().is_none_or(|text| text.is_empty()),
            Kind::Object | Kind::Array => {
                let inside = error.span.of(body);
                inside
                    .get(1..inside.len() - 1)
                    .is_none_or(|inside| inside.trim().is_empty())
            }
        };
        if empty {
            return None;
        }
        let mut said = Said::default();
        if said.read_error(body, error).is_err() {
            said = Said::default();
        }
        said.typed = body.contains(r#""type":"error""#);
        let mut error = said.classified(None);
        error.body = error
            .body
            .filter(|_| body.len() <= MAX_BODY)
            .map(|(shape, _)| (shape, Bytes::copy_from_slice(body.as_bytes())));
        Some(error)
    }

    /// Classifies an object between those of an answer that belongs to no dialect: many servers say so what went wrong
    /// (`{"detail": …}`). `None` where it says nothing: a sign of life.
    #[must_use]
    pub(crate) fn from_stray(body: &str) -> Option<Self> {
        let said = Self::from_flat(body);
        let says = said.message.is_some() || said.code.is_some() || body.contains("\"errors\"");
        says.then_some(said)
    }

    /// Classifies a flat error object (`{"object":"error","message",…}`, or the data of an `event: error`).
    #[must_use]
    pub fn from_flat(body: &str) -> Self {
        let mut said = Said::default();
        let whole = Cursor::new(body).skip();
        if whole.is_ok_and(|value| said.read_error(body, value).is_err()) {
            said = Said::default();
        }
        let mut error = said.classified(None);
        error.body = None;
        error
    }
}

impl Said {
    /// Reads an HTTP error body; `None` when it is not JSON (a load balancer's HTML).
    fn from_body(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let mut cursor = Cursor::new(text);
        let whole = cursor.skip().ok()?;
        cursor.end().ok()?;
        let mut said = Self::default();
        let mut nested = false;
        let mut members = Cursor::at_value(text, whole);
        // Google wraps an error before a stream that is an array in one
        let wrapped = whole.kind == Kind::Array
            && members.enter_array().is_ok()
            && members.next_item(&mut true).unwrap_or(false)
            && members.kind() == Ok(Kind::Object);
        if whole.kind == Kind::Object || wrapped {
            members.enter_object().ok()?;
            let mut first = true;
            while let Some(key) = members.next_key(&mut first).ok()? {
                let value = members.skip().ok()?;
                if key_is(text, key, "error") && matches!(value.kind, Kind::Object | Kind::String) {
                    nested = true;
                    said.read_error(text, value).ok()?;
                }
                said.typed |= key_is(text, key, "type") && value.span.of(text) == "\"error\"";
            }
        }
        if !nested {
            said.read_error(text, whole).ok()?;
            said.proper = false;
        }
        Some(said)
    }

    /// Reads an error that came as the first event of a stream, though its status is no success; `None` when it is none.
    fn from_event(body: &Bytes) -> Option<Self> {
        let mut decoder = Decoder::new(MAX_BODY);
        decoder.push(body.clone());
        decoder.finish();
        let event = decoder.next_event().ok()??;
        let mut said = Self::from_body(&event.data)?;
        // The whole is no error object.
        said.proper = false;
        Some(said)
    }

    /// An error in plain words; a page of HTML says nothing.
    fn in_words(body: &[u8]) -> Self {
        let words = std::str::from_utf8(body).ok().map(str::trim);
        let words = words.filter(|words| {
            words.len() <= MAX_FIELD && !words.is_empty() && !words.starts_with(['<', '{', '['])
        });
        Self {
            message: words.map(str::to_owned),
            ..Self::default()
        }
    }

    fn read_error(&mut self, text: &str, error: Value) -> Result<(), JsonError> {
        if let Some(message) = error.text() {
            self.message = Some(bounded(&message.decode(text)));
            return Ok(());
        }
        let mut cursor = Cursor::at_value(text, error);
        if error.kind == Kind::Array {
            cursor.enter_array()?;
            if !cursor.next_item(&mut true)? || cursor.kind()? != Kind::Object {
                return Ok(());
            }
        } else if error.kind != Kind::Object {
            return Ok(());
        }
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            let word = || value.text().map(|word| bounded(&word.decode(text)));
            let number = || match value.kind {
                Kind::Number => whole_number(value.span.of(text)),
                _ => None,
            };
            match &*key.decode(text) {
                "message" | "detail" if value.kind != Kind::Array => {
                    self.proper |= value.kind == Kind::String;
                    self.message = word().or(self.message.take());
                }
                "type" => self.kind = word(),
                "param" => self.param = word(),
                "code" | "error_code" => {
                    self.code = word().or_else(|| number().map(|n| n.to_string()));
                    self.status = number().and_then(as_status).or(self.status);
                }
                // Google's compatible endpoints put a word here, others the number
                "status" | "status_code" => {
                    self.status = number().and_then(as_status).or(self.status);
                    self.worded |= value.kind == Kind::String;
                    self.kind = self.kind.take().or_else(word);
                }
                "error" | "errors"
                    if !self.inside
                        && self.message.is_none()
                        && matches!(value.kind, Kind::Object | Kind::Array) =>
                {
                    self.inside = true;
                    self.read_error(text, value)?;
                    self.proper = false;
                }
                "details" if value.kind == Kind::Array => self.read_details(text, value)?,
                "detail" => self.read_found(text, value)?,
                // Azure nests the policy's own code
                "innererror" | "metadata" if value.kind == Kind::Object => {
                    let mut inner = Self::default();
                    inner.read_flat_code(text, value)?;
                    if inner
                        .code
                        .as_deref()
                        .is_some_and(|code| is_one_of(code, POLICY))
                    {
                        self.code = inner.code;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Google's `details`: a delay (`RetryInfo`), and a reason that says more than the status does (`ErrorInfo`): a key that
    /// is none comes as 400 INVALID_ARGUMENT.
    fn read_details(&mut self, text: &str, details: Value) -> Result<(), JsonError> {
        let mut cursor = Cursor::at_value(text, details);
        cursor.enter_array()?;
        let mut first = true;
        while cursor.next_item(&mut first)? {
            if cursor.kind()? != Kind::Object {
                cursor.skip()?;
                continue;
            }
            cursor.enter_object()?;
            let mut first = true;
            while let Some(key) = cursor.next_key(&mut first)? {
                let value = cursor.skip()?;
                let Some(word) = value.text().map(|word| word.decode(text)) else {
                    continue;
                };
                match &*key.decode(text) {
                    "retryDelay" => self.retry_after = delay::go_duration(&word),
                    "reason" if KEYS.contains(&&*word) => self.code = Some(word.into_owned()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// FastAPI's `detail`, as vLLM, SGLang and others give it: what is wrong first, with its place in the request.
    fn read_found(&mut self, text: &str, found: Value) -> Result<(), JsonError> {
        let mut cursor = Cursor::at_value(text, found);
        cursor.enter_array()?;
        if !cursor.next_item(&mut true)? || cursor.kind()? != Kind::Object {
            return Ok(());
        }
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "msg" => self.message = value.text().map(|msg| bounded(&msg.decode(text))),
                "loc" if value.kind == Kind::Array => self.param = Some(place(text, value)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_flat_code(&mut self, text: &str, value: Value) -> Result<(), JsonError> {
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            if key_is(text, key, "code") {
                self.code = value.text().map(|word| bounded(&word.decode(text)));
            }
        }
        Ok(())
    }

    fn says(&self, words: &[&str]) -> bool {
        [&self.code, &self.kind]
            .into_iter()
            .flatten()
            .any(|word| is_one_of(word, words))
    }

    fn implied_status(&self) -> Option<u16> {
        let find = |word: &Option<String>| {
            let word = word.as_deref()?;
            let known = IMPLIED
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(word))
                .map(|(_, status)| *status);
            known.or_else(|| word.parse().ok().and_then(as_status))
        };
        find(&self.code).or_else(|| find(&self.kind))
    }

    fn too_long(&self) -> bool {
        if self.says(CONTEXT) {
            return true;
        }
        let Some(message) = self.message.as_deref().map(str::to_ascii_lowercase) else {
            return false;
        };
        CONTEXT_WORDS
            .iter()
            .any(|parts| parts.iter().all(|part| message.contains(part)))
    }

    /// `http` is the status of an answer that is no success; without it, what the error itself says counts.
    fn classified(self, http: Option<u16>) -> UpstreamError {
        let status = http.or(self.status).or_else(|| self.implied_status());
        let class = self.class(status);
        UpstreamError {
            class,
            status,
            body: self.proper.then(|| (self.shape(), Bytes::new())),
            code: self.code,
            kind: self.kind,
            message: self.message,
            param: self.param,
            retry_after: self.retry_after,
            should_retry: None,
        }
    }

    fn shape(&self) -> Shape {
        if self.typed {
            Shape::Anthropic
        } else if self.worded {
            Shape::Gemini
        } else {
            Shape::OpenAi
        }
    }

    fn class(&self, status: Option<u16>) -> Class {
        if status == Some(400) && self.says(KEYS) {
            return Class::Unauthorized;
        }
        let request = matches!(status, Some(400 | 413 | 422) | None);
        if request && self.too_long() {
            return Class::ContextLength;
        }
        if self.says(POLICY) && !matches!(status, Some(401 | 402 | 429 | 500..)) {
            return Class::ContentPolicy;
        }
        // Whatever the status is: no request is to blame for it.
        if self.says(QUOTA) && !matches!(status, Some(401 | 500..)) {
            return Class::Quota;
        }
        match status {
            Some(401) => Class::Unauthorized,
            Some(402) => Class::Quota,
            Some(403) => Class::Forbidden,
            Some(404) => Class::NotFound,
            Some(408 | 504) => Class::Timeout,
            Some(429) => Class::RateLimited,
            Some(503 | 529) => Class::Overloaded,
            // Said of the way to the upstream, not of the request: its proxy wants a log-in, its proxy lost patience
            Some(407 | 499) => Class::Server,
            Some(400..=499) => Class::Request,
            Some(500..=599) | None => Class::Server,
            Some(_) => Class::Unexpected,
        }
    }
}

fn as_status(number: u64) -> Option<u16> {
    u16::try_from(number)
        .ok()
        .filter(|status| (400..600).contains(status))
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// `["body","messages",0,"role"]` as `messages[0].role`.
fn place(text: &str, steps: Value) -> Result<String, JsonError> {
    let mut cursor = Cursor::at_value(text, steps);
    cursor.enter_array()?;
    let mut place = String::new();
    let mut first = true;
    while cursor.next_item(&mut first)? {
        let step = cursor.skip()?;
        match step.text() {
            Some(name) => {
                let name = name.decode(text);
                if place.is_empty() && name == "body" {
                    continue;
                }
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(&name);
            }
            None => {
                place.push('[');
                place.push_str(step.span.of(text));
                place.push(']');
            }
        }
    }
    Ok(bounded(&place))
}
