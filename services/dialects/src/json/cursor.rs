//! The scanner itself.

use super::string::string_stop;
use super::{JsonError, Kind, MAX_DEPTH, Span, Text, Value};

/// A position in a JSON text. See the documentation of [`json`](super).
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `text`.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Starts inside `text` at a value that was scanned before: offsets stay those of the whole text.
    #[must_use]
    pub const fn at_value(text: &'a str, value: Value) -> Self {
        Self {
            text,
            at: value.span.start,
            depth: 0,
        }
    }

    /// Starts inside `text`, at a byte where a value is known to start.
    pub(crate) const fn at_byte(text: &'a str, at: usize) -> Self {
        Self { text, at, depth: 0 }
    }

    /// The scanned text.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Where the cursor stands.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn unexpected(&self) -> JsonError {
        if self.at >= self.text.len() {
            JsonError::Eof { at: self.at }
        } else {
            JsonError::Invalid { at: self.at }
        }
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    /// What the next value is, without passing it.
    ///
    /// # Errors
    /// When no value can start here.
    #[inline]
    pub fn kind(&mut self) -> Result<Kind, JsonError> {
        self.space();
        match self.byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), JsonError> {
        self.space();
        if self.byte() != Some(bracket) {
            return Err(self.unexpected());
        }
        if self.depth >= MAX_DEPTH {
            return Err(JsonError::TooDeep { at: self.at });
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Steps into an object. Then [`Cursor::next_key`] until it gives `None`.
    ///
    /// # Errors
    /// When the next value is no object, or nested too deep.
    pub fn enter_object(&mut self) -> Result<(), JsonError> {
        self.open(b'{')
    }

    /// Steps into an array. Then [`Cursor::next_item`] until it gives `false`.
    ///
    /// # Errors
    /// When the next value is no array, or nested too deep.
    pub fn enter_array(&mut self) -> Result<(), JsonError> {
        self.open(b'[')
    }

    /// Passes the comma or the closing bracket; `true` when something follows.
    #[inline]
    fn advance(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonError> {
        self.space();
        match self.byte() {
            Some(b) if b == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !*first => {
                self.at += 1;
                self.space();
                Ok(true)
            }
            Some(_) if *first => {
                *first = false;
                Ok(true)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// The next key of the object that was entered; the cursor then stands before its value, which the caller must
    /// pass. `first` starts as `true` and belongs to this object. `None`: the object has ended and was left.
    ///
    /// # Errors
    /// When this is not how an object goes on.
    #[inline]
    pub fn next_key(&mut self, first: &mut bool) -> Result<Option<Text>, JsonError> {
        if !self.advance(b'}', first)? {
            return Ok(None);
        }
        let key = self.string()?;
        self.colon()?;
        Ok(Some(key))
    }

    /// Whether the array that was entered has another item; the caller must then pass it.
    ///
    /// # Errors
    /// When this is not how an array goes on.
    pub fn next_item(&mut self, first: &mut bool) -> Result<bool, JsonError> {
        self.advance(b']', first)
    }

    #[inline]
    fn colon(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.byte() != Some(b':') {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Passes a string.
    ///
    /// # Errors
    /// When the next value is no string, or an invalid one.
    #[inline]
    pub fn string(&mut self) -> Result<Text, JsonError> {
        self.space();
        if self.byte() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            self.at = string_stop(bytes, self.at);
            match self.byte() {
                Some(b'"') => {
                    let span = Span::new(start, self.at);
                    self.at += 1;
                    return Ok(Text { span, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.byte() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.byte() {
                        Some(b) if b.is_ascii_hexdigit() => self.at += 1,
                        _ => return Err(self.unexpected()),
                    }
                }
                Ok(())
            }
            _ => Err(self.unexpected()),
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected());
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        for expected in word.bytes() {
            if self.byte() != Some(expected) {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Passes a scalar; gives whether it is a string with escapes.
    fn scalar(&mut self, kind: Kind) -> Result<bool, JsonError> {
        match kind {
            Kind::String => return Ok(self.string()?.escaped),
            Kind::Number => self.number()?,
            Kind::Bool if self.byte() == Some(b't') => self.word("true")?,
            Kind::Bool => self.word("false")?,
            _ => self.word("null")?,
        }
        Ok(false)
    }

    /// Passes the next value, whatever it is, and gives its range.
    ///
    /// # Errors
    /// When it is not valid JSON or nested too deep.
    #[inline]
    pub fn skip(&mut self) -> Result<Value, JsonError> {
        let kind = self.kind()?;
        let start = self.at;
        let escaped = match kind {
            Kind::Object | Kind::Array => {
                self.skip_container()?;
                false
            }
            _ => self.scalar(kind)?,
        };
        Ok(Value {
            span: Span::new(start, self.at),
            kind,
            escaped,
        })
    }

    /// Passes an object or array. `stack` keeps one bit a level: 1 = object. `MAX_DEPTH` levels fit exactly.
    fn skip_container(&mut self) -> Result<(), JsonError> {
        let base = self.depth;
        let mut stack: u128 = 0;
        loop {
            let kind = self.kind()?;
            let opened = match kind {
                Kind::Object => {
                    self.open(b'{')?;
                    stack = (stack << 1) | 1;
                    true
                }
                Kind::Array => {
                    self.open(b'[')?;
                    stack <<= 1;
                    true
                }
                _ => {
                    self.scalar(kind)?;
                    false
                }
            };
            let mut first = opened;
            // leave everything that ends here, up to the next value that follows
            loop {
                if self.depth == base {
                    return Ok(());
                }
                if stack & 1 == 1 {
                    if self.next_key(&mut first)?.is_some() {
                        break;
                    }
                } else if self.next_item(&mut first)? {
                    break;
                }
                stack >>= 1;
                first = false;
            }
        }
    }

    /// Makes sure that nothing but white space follows.
    ///
    /// # Errors
    /// When something does.
    pub fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(JsonError::Invalid { at: self.at })
        }
    }
}
