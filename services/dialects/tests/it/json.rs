//! JSON that keeps the order of keys and the text of numbers, apart from the product's own reading of it.

use std::fmt::Write as _;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Reads a text that must be one JSON value, without a key that comes twice.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value()?;
        parser.space();
        if parser.at == text.len() {
            Ok(value)
        } else {
            Err(parser.wrong("the end"))
        }
    }

    /// A member; `Null` where there is none.
    pub(crate) fn get(&self, key: &str) -> &Self {
        let found = self.members().iter().find(|(name, _)| name == key);
        found.map_or(&NULL, |(_, value)| value)
    }

    /// Whether a member is there, be it `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.members().iter().any(|(name, _)| name == key)
    }

    pub(crate) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.members().iter().map(|(key, _)| key.as_str()).collect()
    }

    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text, or nothing.
    pub(crate) fn str(&self) -> &str {
        self.text().unwrap_or("")
    }

    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    pub(crate) fn is_text(&self) -> bool {
        self.text().is_some()
    }

    /// A text value.
    pub(crate) fn of(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(key, value)| (key.into(), value)).collect())
    }

    /// Puts a member into the place of the one of that name, or at the end.
    pub(crate) fn set(&mut self, key: &str, value: Self) {
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(name, _)| name == key) {
                Some((_, place)) => *place = value,
                None => members.push((key.to_owned(), value)),
            }
        }
    }

    /// On one line.
    pub(crate) fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// For people: short values on a line, others indented.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out.push('\n');
        out
    }

    /// `indent`: how far; `None`: on one line without spaces.
    fn write(&self, out: &mut String, indent: Option<usize>) {
        let indent = indent.filter(|indent| self.compact_width() + indent * 2 > 110);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number),
            Self::Text(text) => quote(out, text),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    next(out, at, indent);
                    item.write(out, indent.map(|indent| indent + 1));
                }
                close(out, items.is_empty(), indent);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    next(out, at, indent);
                    quote(out, key);
                    out.push(':');
                    if indent.is_some() {
                        out.push(' ');
                    }
                    value.write(out, indent.map(|indent| indent + 1));
                }
                close(out, members.is_empty(), indent);
                out.push('}');
            }
        }
    }

    fn compact_width(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 5,
            Self::Number(number) => number.len(),
            Self::Text(text) => text.len() + 2,
            Self::List(items) => items.iter().map(|item| item.compact_width() + 1).sum(),
            Self::Object(members) => members
                .iter()
                .map(|(key, value)| key.len() + 4 + value.compact_width())
                .sum(),
        }
    }
}

fn next(out: &mut String, at: usize, indent: Option<usize>) {
    if at > 0 {
        out.push(',');
    }
    if let Some(indent) = indent {
        out.push('\n');
        out.push_str(&"  ".repeat(indent + 1));
    }
}

fn close(out: &mut String, empty: bool, indent: Option<usize>) {
    if let Some(indent) = indent.filter(|_| !empty) {
        out.push('\n');
        out.push_str(&"  ".repeat(indent));
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, expected: &str) -> String {
        let rest: String = self.rest().chars().take(40).collect();
        format!("no JSON: expected {expected} at byte {}: {rest:?}", self.at)
    }

    fn space(&mut self) {
        let trimmed = self.rest().trim_start_matches([' ', '\t', '\n', '\r']);
        self.at = self.text.len() - trimmed.len();
    }

    fn eat(&mut self, word: &str) -> bool {
        self.space();
        let there = self.rest().starts_with(word);
        if there {
            self.at += word.len();
        }
        there
    }

    fn value(&mut self) -> Result<Json, String> {
        self.space();
        for (word, value) in [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ] {
            if self.eat(word) {
                return Ok(value);
            }
        }
        match self.rest().bytes().next() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self) -> Result<Json, String> {
        let mut members: Vec<(String, Json)> = Vec::new();
        self.at += 1;
        if self.eat("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            if members.iter().any(|(other, _)| *other == key) {
                return Err(self.wrong(&format!("`{key}` only once")));
            }
            if !self.eat(":") {
                return Err(self.wrong("`:`"));
            }
            members.push((key, self.value()?));
            if self.eat("}") {
                return Ok(Json::Object(members));
            }
            if !self.eat(",") {
                return Err(self.wrong("`,`"));
            }
        }
    }

    fn list(&mut self) -> Result<Json, String> {
        let mut items = Vec::new();
        self.at += 1;
        if self.eat("]") {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.eat("]") {
                return Ok(Json::List(items));
            }
            if !self.eat(",") {
                return Err(self.wrong("`,`"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let digits = |byte: char| byte.is_ascii_digit() || "+-.eE".contains(byte);
        let end = self.rest().find(|byte| !digits(byte));
        let number = &self.rest()[..end.unwrap_or(self.rest().len())];
        let whole = number.strip_prefix('-').unwrap_or(number);
        let zeros = whole.len() > 1 && whole.starts_with('0') && !whole.starts_with("0.");
        if number.parse::<f64>().is_err() || (zeros && !whole.starts_with("0e")) {
            return Err(self.wrong("a number"));
        }
        let number = number.to_owned();
        self.at += number.len();
        Ok(Json::Number(number))
    }

    fn string(&mut self) -> Result<String, String> {
        let bytes = self.rest().as_bytes();
        if bytes.first() != Some(&b'"') {
            return Err(self.wrong("a string"));
        }
        let mut end = 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(0..0x20) | None => return Err(self.wrong("a string that ends")),
                Some(_) => end += 1,
            }
        }
        let quoted = &self.rest()[..=end];
        let text = serde_json::from_str(quoted).map_err(|_| self.wrong("a string"))?;
        self.at += end + 1;
        Ok(text)
    }
}

#[test]
fn what_is_read_is_written_again_as_it_was() {
    let text =
        r#"{"b":[1e400,-0.5,9007199254740993],"a":{"x":"\n\"é","y":null},"t":[true,false,{}]}"#;
    assert_eq!(Json::parse(text).unwrap().compact(), text);
    for wrong in [
        "",
        "{",
        r#"{"a":1,"a":2}"#,
        "[1,]",
        "01",
        "{}x",
        "\"\u{1}\"",
    ] {
        assert!(Json::parse(wrong).is_err(), "{wrong}");
    }
}
