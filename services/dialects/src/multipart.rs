//! `multipart/form-data` (RFC 7578, RFC 2046 §5.1), read as byte ranges of the body: what need not change is passed on as it
//! came.
//!
//! Where two readers could understand a body differently it is refused: what we take for the model must be what the
//! upstream takes for it.

use memchr::memmem::Finder;

use crate::chat::MOST_ANSWERS;
use crate::json::Span;
use crate::request::RequestError;

#[cfg(test)]
mod tests;

/// Parts of one body.
const MOST_PARTS: usize = 256;
/// Header bytes of one part.
const MOST_HEAD: usize = 16 * 1024;
/// Bytes of a boundary (RFC 2046 §5.1.1).
const MOST_BOUNDARY: usize = 70;

/// A body and its parts.
#[derive(Debug)]
pub(crate) struct FormData<'a> {
    body: &'a [u8],
    parts: Vec<Part>,
}

/// One part.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// It has a file name.
    file: bool,
    /// Its content is written in another coding than its own bytes.
    coded: bool,
    /// From its boundary to the next one.
    pub(crate) whole: Span,
    /// Its headers, without the end of the last line.
    pub(crate) head: Span,
    pub(crate) content: Span,
}

impl<'a> FormData<'a> {
    /// Finds the parts.
    ///
    /// # Errors
    /// When the type has no valid boundary, the body is not made of parts, or more is in it than may be.
    pub(crate) fn read(content_type: &str, body: &'a [u8]) -> Result<Self, RequestError> {
        let boundary = boundary(content_type)?;
        let line = format!("\r\n--{boundary}");
        let delimiter = line.as_bytes();
        let finder = Finder::new(delimiter);
        let mut parts = Vec::new();
        let opening = delimiter.get(2..).unwrap_or_default();
        let mut at = if body.starts_with(opening) {
            opening.len()
        } else {
            let found = finder
                .find(body)
                .ok_or(wrong("its boundary is not in it"))?;
            found + delimiter.len()
        };
        loop {
            let rest = body.get(at..).unwrap_or_default();
            if rest.starts_with(b"--") {
                return Ok(Self { body, parts });
            }
            if parts.len() == MOST_PARTS {
                return Err(wrong("it has more than 256 parts"));
            }
            let padding = rest
                .iter()
                .take_while(|b| matches!(b, b' ' | b'\t'))
                .count();
            if rest.get(padding..padding + 2) != Some(b"\r\n") {
                return Err(wrong("something follows its boundary on the same line"));
            }
            // The line's end is left in: a head without lines ends at once.
            let head_at = at + padding;
            let head = body.get(head_at..).unwrap_or_default();
            let bounded = head.get(..MOST_HEAD).unwrap_or(head);
            let Some(end) = memchr::memmem::find(bounded, b"\r\n\r\n") else {
                return Err(wrong("a part has no head, or one larger than 16 KiB"));
            };
            let start = head_at + end + 4;
            // An empty content may share its line end with the head.
            let content = body.get(start - 2..).unwrap_or_default();
            let Some(length) = finder.find(content) else {
                return Err(wrong("its last boundary is missing: it was cut off"));
            };
            let stop = (start - 2 + length).max(start);
            let next = start - 2 + length + delimiter.len();
            let whole = Span::new(at - opening.len(), next - opening.len());
            let head = Span::new(head_at + 2, head_at + end.max(2));
            parts.push(Part::read(body, whole, head, Span::new(start, stop))?);
            at = next;
        }
    }

    /// The value of a field that may be given once, and where it stands.
    ///
    /// # Errors
    /// When it is given more than once, as a file, or is no text.
    pub(crate) fn value(
        &self,
        field: &'static str,
    ) -> Result<Option<(&'a str, Span)>, RequestError> {
        const EXPECTED: &str = "one part with a plain text";
        let wrong = |got: &str| RequestError::Field {
            field,
            expected: EXPECTED,
            got: got.to_owned(),
        };
        let mut named = self.parts.iter().filter(|part| part.name == field);
        let Some(part) = named.next() else {
            return Ok(None);
        };
        if named.next().is_some() {
            return Err(wrong("several parts"));
        }
        if part.file {
            return Err(wrong("a file"));
        }
        if part.coded {
            return Err(wrong("a part with a content-transfer-encoding"));
        }
        let content = self.content(part);
        let text = std::str::from_utf8(content).map_err(|_| wrong("bytes that are not UTF-8"))?;
        Ok(Some((text, part.content)))
    }

    /// The model, and where its name stands.
    ///
    /// # Errors
    /// When there is none, or not exactly one.
    pub(crate) fn model(&self) -> Result<(&'a str, Span), RequestError> {
        match self.value("model")? {
            Some((name, at)) if !name.trim().is_empty() => Ok((name, at)),
            _ => Err(RequestError::no_model()),
        }
    }

    /// A field that is true or false; false where it is not given.
    ///
    /// # Errors
    /// When it is something else.
    pub(crate) fn flag(&self, field: &'static str) -> Result<bool, RequestError> {
        let Some((text, _)) = self.value(field)? else {
            return Ok(false);
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" | "" => Ok(false),
            _ => Err(RequestError::Field {
                field,
                expected: "true or false",
                got: text.chars().take(40).collect(),
            }),
        }
    }

    /// A field that is a number of answers.
    ///
    /// # Errors
    /// When it is something else.
    pub(crate) fn answers(&self, field: &'static str) -> Result<u64, RequestError> {
        let Some((text, _)) = self.value(field)? else {
            return Ok(1);
        };
        match text.trim().parse() {
            Ok(number) if (1..=MOST_ANSWERS).contains(&number) => Ok(number),
            _ => Err(RequestError::Field {
                field,
                expected: "a whole number from 1 to 128",
                got: text.chars().take(40).collect(),
            }),
        }
    }

    /// All parts, in their order.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// A part's plain text, if it is one.
    pub(crate) fn text(&self, part: &Part) -> Option<&'a str> {
        if part.file || part.coded {
            return None;
        }
        std::str::from_utf8(self.content(part)).ok()
    }

    /// The contents of the parts of these names.
    pub(crate) fn contents(
        &self,
        names: &'static [&'static str],
    ) -> impl Iterator<Item = &'a [u8]> {
        let named = |part: &&Part| names.contains(&part.name.as_str());
        self.parts
            .iter()
            .filter(named)
            .map(|part| self.content(part))
    }

    fn content(&self, part: &Part) -> &'a [u8] {
        let Span { start, end } = part.content;
        self.body.get(start..end).unwrap_or_default()
    }
}

impl Part {
    /// Reads the head of a part of `body`.
    fn read(body: &[u8], whole: Span, head: Span, content: Span) -> Result<Self, RequestError> {
        let mut name = None;
        let (mut file, mut coded) = (false, false);
        let mut rest = body.get(head.start..head.end).unwrap_or_default();
        while !rest.is_empty() {
            let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
            let (line, left) = rest.split_at(end);
            rest = left.get(2..).unwrap_or_default();
            if memchr::memchr2(b'\r', b'\n', line).is_some() {
                return Err(wrong("a header of a part has a line end inside"));
            }
            if line.first().is_some_and(u8::is_ascii_whitespace) {
                return Err(wrong("a header of a part goes on over a second line"));
            }
            let Some(colon) = memchr::memchr(b':', line) else {
                return Err(wrong("a header of a part has no colon"));
            };
            let (key, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let is = |name: &[u8]| key.trim_ascii_end().eq_ignore_ascii_case(name);
            if is(b"content-disposition") {
                let (found, is_file) = disposition(value)?;
                if name.replace(found).is_some() {
                    return Err(wrong("a part has two content-dispositions"));
                }
                file = is_file;
            } else if is(b"content-transfer-encoding") {
                let plain = [&b"binary"[..], b"8bit", b"7bit"];
                coded = !plain.iter().any(|p| value.eq_ignore_ascii_case(p));
            } else if is(b"content-type")
                && value
                    .get(..10)
                    .is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"))
            {
                return Err(wrong("a part is itself multipart"));
            }
        }
        let Some(name) = name else {
            return Err(wrong("a part has no content-disposition with a name"));
        };
        Ok(Self {
            name,
            file,
            coded,
            whole,
            head,
            content,
        })
    }
}

/// The name in `form-data; name="…"; filename="…"`, and whether there is a file name.
fn disposition(value: &[u8]) -> Result<(String, bool), RequestError> {
    let mut rest = value;
    let end = rest.iter().position(|b| *b == b';').unwrap_or(rest.len());
    let (kind, parameters) = rest.split_at(end);
    if !kind.trim_ascii().eq_ignore_ascii_case(b"form-data") {
        return Err(wrong("a part's content-disposition is not form-data"));
    }
    rest = parameters;
    let (mut name, mut file) = (None, false);
    while let Some(after) = rest.strip_prefix(b";") {
        let after = after.trim_ascii_start();
        if after.is_empty() {
            break;
        }
        let Some(equals) = memchr::memchr(b'=', after) else {
            return Err(wrong("a part's content-disposition cannot be read"));
        };
        let (key, value) = after.split_at(equals);
        let (value, left) = parameter(value.get(1..).unwrap_or_default())?;
        let key = key.trim_ascii();
        if key.eq_ignore_ascii_case(b"name") {
            let text = String::from_utf8(value).map_err(|_| wrong("a part's name is not UTF-8"))?;
            if name.replace(text).is_some() {
                return Err(wrong("a part has two names"));
            }
        } else if key.eq_ignore_ascii_case(b"name*") {
            return Err(wrong("a part's name is written as `name*`"));
        } else {
            file |= key.eq_ignore_ascii_case(b"filename") || key.eq_ignore_ascii_case(b"filename*");
        }
        rest = left.trim_ascii_start();
    }
    match name {
        Some(name) if rest.is_empty() || rest == b";" => Ok((name, file)),
        _ => Err(wrong("a part has no content-disposition with a name")),
    }
}

/// A parameter's value, quoted or not, and what follows it.
fn parameter(text: &[u8]) -> Result<(Vec<u8>, &[u8]), RequestError> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|b| *b == b';').unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.trim_ascii().to_vec(), rest));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((value, quoted.get(at + 1..).unwrap_or_default())),
            // Browsers write a file name's backslash as it is; RFC 2616's quoting knows quotes and backslashes only.
            b'\\' if matches!(quoted.get(at + 1), Some(b'"' | b'\\')) => {
                value.extend(bytes.next().map(|(_, escaped)| *escaped));
            }
            _ => value.push(*byte),
        }
    }
    Err(wrong(
        "a quote in a part's content-disposition is not closed",
    ))
}

/// The boundary that a content type names.
fn boundary(content_type: &str) -> Result<String, RequestError> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !is_form(content_type) {
        let kind: String = kind.trim().chars().take(60).collect();
        return Err(RequestError::Field {
            field: "content-type",
            expected: "`multipart/form-data` with a boundary",
            got: if kind.is_empty() {
                "none".to_owned()
            } else {
                format!("`{kind}`")
            },
        });
    }
    let mut found = None;
    for parameter in parameters.split(';') {
        let Some((key, value)) = parameter.split_once('=') else {
            continue;
        };
        if key.trim().eq_ignore_ascii_case("boundary") {
            let value = value.trim();
            let inside = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
            if found.replace(inside.unwrap_or(value)).is_some() {
                return Err(wrong("its content type has two boundaries"));
            }
        }
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&b);
    match found {
        None => Err(wrong("its content type has no boundary")),
        Some(found)
            if found.is_empty()
                || found.len() > MOST_BOUNDARY
                || found.ends_with(' ')
                || !found.bytes().all(allowed) =>
        {
            Err(wrong("the boundary in its content type is not valid"))
        }
        Some(found) => Ok(found.to_owned()),
    }
}

/// Whether a content type is that of a form.
pub(crate) fn is_form(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or("");
    kind.trim().eq_ignore_ascii_case("multipart/form-data")
}

const fn wrong(problem: &'static str) -> RequestError {
    RequestError::Form { problem }
}
