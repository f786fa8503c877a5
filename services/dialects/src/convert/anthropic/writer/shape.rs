//! Whether pieces of a text are the beginning of a JSON object. Clients read arguments while they come, and fail on what is none.

/// What was read by now.
#[derive(Debug, Default)]
pub(super) struct Shape {
    at: At,
    /// The objects (`true`) and arrays that are open.
    open: Vec<bool>,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// The object begins.
    #[default]
    Start,
    /// It has begun: its first key, or its end.
    First,
    /// A key.
    Key,
    Colon,
    Value,
    /// A value, or the end of an array that is empty.
    Item,
    /// What follows a value.
    After,
    /// Inside a string; `key`: it is one.
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    /// So many digits of an escape are still to come.
    Hex {
        key: bool,
        left: u8,
    },
    Number,
    /// What is left of `true`, `false` or `null`.
    Word(&'static [u8]),
    /// The object has ended.
    End,
    /// It is none.
    Broken,
}

impl Shape {
    /// Reads a piece.
    pub(super) fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            self.at = self.next(byte);
        }
    }

    /// It is an object as far as it came, and not only a brace that anything could follow.
    pub(super) fn is_object(&self) -> bool {
        !matches!(self.at, At::Start | At::First | At::Broken)
    }

    /// It is not the beginning of an object.
    pub(super) fn is_broken(&self) -> bool {
        self.at == At::Broken
    }

    /// Nothing of it is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.at == At::End
    }

    fn next(&mut self, byte: u8) -> At {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.at {
            At::Text { key } => match byte {
                b'"' if key => At::Colon,
                b'"' => At::After,
                b'\\' => At::Escape { key },
                0..0x20 => At::Broken,
                _ => self.at,
            },
            At::Escape { key } => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => At::Text { key },
                b'u' => At::Hex { key, left: 4 },
                _ => At::Broken,
            },
            At::Hex { key, left } => match (byte.is_ascii_hexdigit(), left) {
                (true, 2..) => At::Hex {
                    key,
                    left: left - 1,
                },
                (true, _) => At::Text { key },
                (false, _) => At::Broken,
            },
            At::Number if matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                At::Number
            }
            At::Number => self.after(byte),
            At::Word([next, left @ ..]) if *next == byte => match left {
                [] => At::After,
                left => At::Word(left),
            },
            At::Word(_) | At::Broken => At::Broken,
            at if space => at,
            At::Start if byte == b'{' => {
                self.open.push(true);
                At::First
            }
            At::First if byte == b'}' => self.close(true),
            At::First | At::Key if byte == b'"' => At::Text { key: true },
            At::Colon if byte == b':' => At::Value,
            At::Item if byte == b']' => self.close(false),
            At::Value | At::Item => self.value(byte),
            At::After => self.after(byte),
            At::Start | At::First | At::Key | At::Colon | At::End => At::Broken,
        }
    }

    fn value(&mut self, byte: u8) -> At {
        match byte {
            b'"' => At::Text { key: false },
            b'{' => {
                self.open.push(true);
                At::First
            }
            b'[' => {
                self.open.push(false);
                At::Item
            }
            b't' => At::Word(b"rue"),
            b'f' => At::Word(b"alse"),
            b'n' => At::Word(b"ull"),
            b'-' | b'0'..=b'9' => At::Number,
            _ => At::Broken,
        }
    }

    fn after(&mut self, byte: u8) -> At {
        match (byte, self.open.last()) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => At::After,
            (b',', Some(true)) => At::Key,
            (b',', Some(false)) => At::Value,
            (b'}', _) => self.close(true),
            (b']', _) => self.close(false),
            _ => At::Broken,
        }
    }

    fn close(&mut self, object: bool) -> At {
        match (self.open.pop(), self.open.is_empty()) {
            (Some(open), _) if open != object => At::Broken,
            (Some(_), true) => At::End,
            (Some(_), false) => At::After,
            (None, _) => At::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_as_an_object_is_whole_and_every_beginning_of_it_may_become_one() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            "{\"a\" : [ ] ,\n\"b\":[1,-2.5e+3,[true,false],{}],\"c\":{\"d\":null}} ",
            r#"{"q\"\\\u00e9ü":"ß }"}"#,
        ] {
            let mut shape = Shape::default();
            for one in text.chars() {
                assert!(!shape.is_whole() || one.is_whitespace(), "{text}");
                shape.read(one.encode_utf8(&mut [0; 4]));
                assert!(!shape.is_broken(), "{text} at {one}");
            }
            assert!(shape.is_whole() && shape.is_object(), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
        }
    }

    #[test]
    fn what_is_none_breaks() {
        for text in [
            "x",
            "[1]",
            "\"a\"",
            "null",
            "{a:1}",
            "{'a':1}",
            r#"{"a":True}"#,
            r#"{"a" 1}"#,
            r#"{"a":1,}"#,
            r#"{"a":1 2}"#,
            r#"{"a":[1}"#,
            r#"{"a":nul}"#,
            r#"{"a":1}}"#,
            r#"{"a":1}{"b":2}"#,
            "{\"a\":\"\n\"}",
            r#"{"\x":1}"#,
            r#"{"\u00g0":1}"#,
        ] {
            let mut shape = Shape::default();
            shape.read(text);
            assert!(shape.is_broken(), "{text}");
            assert!(
                serde_json::from_str::<serde_json::Value>(text).map_or(true, |v| !v.is_object())
            );
        }
        for text in ["", "{", " {\n"] {
            let mut shape = Shape::default();
            shape.read(text);
            assert!(!shape.is_object() && !shape.is_broken() && !shape.is_whole());
        }
    }
}
