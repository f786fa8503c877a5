//! Strangers' seals in a request that stays in its dialect: a conversation that another provider carried on before has them in
//! its history, under their maker's mark, and this provider would refuse them (CASES C18).

use std::borrow::Cow;

use bytes::Bytes;

use super::Format;
use super::seal::{ENCODED_MARK, MARK};
use crate::json::{Cursor, JsonError, Kind, Span, Value};

/// The body without what strangers sealed; the body itself where there is none. All other bytes stay as they are.
pub(crate) fn strangers(format: Format, body: &Bytes) -> Bytes {
    let mark = match format {
        Format::Gemini => ENCODED_MARK,
        Format::Chat | Format::Responses | Format::Anthropic => MARK,
    };
    if memchr::memmem::find(body, mark.as_bytes()).is_none() {
        return body.clone();
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return body.clone();
    };
    let mut cut = Vec::new();
    let found = match format {
        Format::Anthropic => walk(text, &["messages", "content"], is_sealed_block, &mut cut),
        Format::Responses => walk(text, &["input"], is_sealed_item, &mut cut),
        Format::Gemini => walk(text, &["contents", "parts"], is_sealed_thought, &mut cut),
        Format::Chat => walk(
            text,
            &["messages", "reasoning_details"],
            is_marked,
            &mut cut,
        ),
    };
    if found.is_err() || cut.is_empty() {
        return body.clone();
    }
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for span in cut {
        out.extend_from_slice(text.get(at..span.start).unwrap_or("").as_bytes());
        at = span.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or("").as_bytes());
    out.into()
}

/// Finds, below lists of objects that are members of these names one in another, the items to be cut with one comma each.
fn walk(
    text: &str,
    names: &[&str],
    sealed: fn(&str, Value) -> bool,
    cut: &mut Vec<Span>,
) -> Result<(), JsonError> {
    let whole = Cursor::new(text).skip()?;
    below(text, whole, names, sealed, cut)
}

fn below(
    text: &str,
    object: Value,
    names: &[&str],
    sealed: fn(&str, Value) -> bool,
    cut: &mut Vec<Span>,
) -> Result<(), JsonError> {
    let [name, inner @ ..] = names else {
        return Ok(());
    };
    if object.kind != Kind::Object {
        return Ok(());
    }
    let mut cursor = Cursor::at_value(text, object);
    cursor.enter_object()?;
    let mut first = true;
    while let Some(key) = cursor.next_key(&mut first)? {
        let value = cursor.skip()?;
        if key.decode(text) != *name || value.kind != Kind::Array {
            continue;
        }
        let mut items = Vec::new();
        let mut list = Cursor::at_value(text, value);
        list.enter_array()?;
        let mut first = true;
        while list.next_item(&mut first)? {
            items.push(list.skip()?);
        }
        if inner.is_empty() {
            cut_items(text, &items, sealed, cut);
        } else {
            for item in items {
                below(text, item, inner, sealed, cut)?;
            }
        }
    }
    Ok(())
}

/// An item goes with the comma behind it, the last ones with the comma before them.
fn cut_items(text: &str, items: &[Value], sealed: fn(&str, Value) -> bool, cut: &mut Vec<Span>) {
    let mut kept_end = None;
    let mut run: Option<usize> = None;
    for item in items {
        if sealed(text, *item) {
            run.get_or_insert(item.span.start);
            continue;
        }
        if let Some(start) = run.take() {
            cut.push(Span::new(start, item.span.start));
        }
        kept_end = Some(item.span.end);
    }
    if let (Some(start), Some(last)) = (run, items.last()) {
        cut.push(Span::new(kept_end.unwrap_or(start), last.span.end));
    }
}

/// The text of a member.
fn member<'a>(text: &'a str, object: Value, name: &str) -> Option<Cow<'a, str>> {
    let inside = object.span.of(text);
    let value = crate::json::member(inside, name)?;
    Some(value.text()?.decode(inside))
}

fn is_stranger(sealed: Option<Cow<'_, str>>) -> bool {
    sealed.is_some_and(|seal| seal.starts_with(MARK) || seal.starts_with(ENCODED_MARK))
}

fn is_sealed_block(text: &str, block: Value) -> bool {
    is_stranger(member(text, block, "signature")) || is_stranger(member(text, block, "data"))
}

fn is_sealed_item(text: &str, item: Value) -> bool {
    is_stranger(member(text, item, "encrypted_content"))
}

fn is_sealed_thought(text: &str, part: Value) -> bool {
    let names = ["thoughtSignature", "thought_signature"];
    let calls = ["functionCall", "function_call"];
    let has = |name: &&str| crate::json::member(part.span.of(text), name).is_some();
    names
        .iter()
        .any(|name| is_stranger(member(text, part, name)))
        && !calls.iter().any(has)
}

fn is_marked(text: &str, detail: Value) -> bool {
    is_stranger(member(text, detail, "signature")) || is_stranger(member(text, detail, "data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(format: Format, body: &str) -> String {
        let out = strangers(format, &Bytes::copy_from_slice(body.as_bytes()));
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn what_strangers_sealed_is_cut_out_and_the_rest_keeps_its_bytes() {
        for (format, body, expected) in [
            (
                Format::Anthropic,
                r#"{"messages":[{"role":"assistant","content":[ {"type":"thinking","thinking":"a","signature":"switchboard.r.X"}, {"type":"thinking","thinking":"b","signature":"own"}, {"type":"redacted_thinking","data":"switchboard.gx.Y"} ]}], "n":1e2}"#,
                r#"{"messages":[{"role":"assistant","content":[ {"type":"thinking","thinking":"b","signature":"own"} ]}], "n":1e2}"#,
            ),
            (
                Format::Responses,
                r#"{"input":[{"type":"reasoning","summary":[],"encrypted_content":"switchboard.a.X"}]}"#,
                r#"{"input":[]}"#,
            ),
            (
                Format::Gemini,
                r#"{"contents":[{"parts":[{"text":"","thought":true,"thoughtSignature":"c3dpdGNoYm9hcmQuYS5zPQ=="},{"text":"x"}]}]}"#,
                r#"{"contents":[{"parts":[{"text":"x"}]}]}"#,
            ),
            (
                Format::Chat,
                r#"{"messages":[{"reasoning_details":[{"type":"reasoning.text","signature":"switchboard.a.X"},{"type":"reasoning.text","signature":"own"}]}]}"#,
                r#"{"messages":[{"reasoning_details":[{"type":"reasoning.text","signature":"own"}]}]}"#,
            ),
            (
                Format::Anthropic,
                r#"{"messages":[{"role":"user","content":"about switchboard.a.X"}]}"#,
                r#"{"messages":[{"role":"user","content":"about switchboard.a.X"}]}"#,
            ),
        ] {
            assert_eq!(stripped(format, body), expected);
        }
    }
}
