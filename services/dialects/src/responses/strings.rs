//! The text in items of a response's input or output, as a tokenizer would count it.

use crate::json::{Cursor, JsonError, Kind};
use crate::text::TextBuffer;

/// Members that no model reads or writes as text: names of things, media, what belongs to the protocol.
const NO_TEXT: &[&str] = &[
    "annotations",
    "call_id",
    "data",
    "detail",
    "encrypted_content",
    "file_data",
    "file_id",
    "file_url",
    "id",
    "image_url",
    "input_audio",
    "logprobs",
    "phase",
    "result",
    "role",
    "status",
    "type",
];

/// Adds every string of the next value that is text. The depth of recursion is that of the JSON, which the scanner bounds.
pub(super) fn strings(cursor: &mut Cursor<'_>, out: &mut TextBuffer) -> Result<(), JsonError> {
    let text = cursor.text();
    let mut first = true;
    match cursor.kind()? {
        Kind::Object => {
            cursor.enter_object()?;
            while let Some(key) = cursor.next_key(&mut first)? {
                if NO_TEXT.binary_search(&&*key.decode(text)).is_ok() {
                    cursor.skip()?;
                } else {
                    strings(cursor, out)?;
                }
            }
        }
        Kind::Array => {
            cursor.enter_array()?;
            while cursor.next_item(&mut first)? {
                strings(cursor, out)?;
            }
        }
        Kind::String => {
            let string = cursor.string()?;
            string.pieces(text, |piece| out.push(piece));
            out.push("\n");
        }
        _ => {
            cursor.skip()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_looked_up_by_halves() {
        assert!(NO_TEXT.is_sorted());
    }

    #[test]
    fn text_is_what_a_model_reads_or_writes() {
        let mut out = TextBuffer::new(1 << 10);
        let items = r#"[{"type":"message","id":"m","content":[{"type":"output_text","text":"a","annotations":["x"]}]},
            {"type":"function_call","name":"f","arguments":"{}","call_id":"c"},"s",5]"#;
        strings(&mut Cursor::new(items), &mut out).unwrap();
        assert_eq!(out.text(), "a\nf\n{}\ns\n");
    }
}
