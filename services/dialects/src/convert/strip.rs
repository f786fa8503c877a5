//! Seals that are taken out of a request: strangers', which the provider would refuse, from one that stays in its dialect and
//! whose history another provider carried on (CASES C18); and all of them, when an account refuses those of another account of
//! the same provider (CASES C19).

use std::borrow::Cow;

use bytes::Bytes;

use super::Format;
use super::seal::{ENCODED_MARK, MARK, SKIP};
use crate::json::{Cursor, Edit, JsonError, Kind, Span, Value, splice};

/// The body without what strangers sealed; the body itself where there is none. All other bytes stay as they are.
pub(crate) fn strangers(format: Format, body: &Bytes) -> Bytes {
    let mark = match format {
        Format::Gemini => ENCODED_MARK,
        Format::Chat | Format::Responses | Format::Anthropic => MARK,
    };
    if memchr::memmem::find(body, mark.as_bytes()).is_none() {
        return body.clone();
    }
    let stripped = match format {
        Format::Anthropic => without(format, body, is_sealed_block),
        Format::Responses => without(format, body, is_sealed_item),
        Format::Gemini => without(format, body, is_sealed_thought),
        Format::Chat => without_marks(body),
    };
    stripped.unwrap_or_else(|| body.clone())
}

/// The body without any seal, its provider's own ones included: what is sealed is left out, or the seal alone where the rest is
/// worth something without it. `None`: there is none. All other bytes stay as they are.
#[must_use]
pub fn without_seals(format: Format, body: &Bytes) -> Option<Bytes> {
    match format {
        Format::Gemini => replaced(body),
        Format::Anthropic => without_thoughts(body),
        Format::Responses => without(format, body, is_reasoning),
        Format::Chat => without_signatures(body),
    }
}

/// What of a caller's request is left out by [`without_seals`], as a name of a field.
#[must_use]
pub const fn seals_of(caller: Format) -> &'static str {
    match caller {
        Format::Chat => "messages[].reasoning_details[]",
        Format::Responses => "input[].encrypted_content",
        Format::Anthropic => "messages[].content[].thinking",
        Format::Gemini => "contents[].parts[].thoughtSignature",
    }
}

/// Whether an item is to be left out.
type Judge = fn(&str, Value) -> bool;

/// Where items stand that are sealed: members of these names, one in another.
const fn places(format: Format) -> &'static [&'static str] {
    match format {
        Format::Anthropic => &["messages", "content"],
        Format::Responses => &["input"],
        Format::Gemini => &["contents", "parts"],
        Format::Chat => &["messages", "reasoning_details"],
    }
}

fn without(format: Format, body: &Bytes, sealed: Judge) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut cut = Vec::new();
    lists(text, places(format), &mut |items| {
        cut_items(text, items, sealed, &mut cut);
    })
    .ok()?;
    edited(text, cut)
}

/// What strangers sealed goes, from chat's thoughts and from its calls.
fn without_marks(body: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut cut = Vec::new();
    lists(text, places(Format::Chat), &mut |items| {
        cut_items(text, items, is_marked, &mut cut);
    })
    .ok()?;
    lists(text, &CALLS, &mut |calls| {
        for call in calls {
            let seal = signature(text, *call);
            let marked = seal.filter(|seal| is_stranger(Some(seal.span.of(text).into())));
            let extra = marked.and_then(|_| whole_member(text, *call, "extra_content"));
            cut.extend(extra.map(|span| Edit::replace(span, "")));
        }
    })
    .ok()?;
    edited(text, cut)
}

/// The same of what any account sealed. A call keeps its place for a signature, as one may be demanded.
fn without_signatures(body: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut edits = Vec::new();
    lists(text, places(Format::Chat), &mut |items| {
        cut_items(text, items, is_sealed_detail, &mut edits);
    })
    .ok()?;
    lists(text, &CALLS, &mut |calls| {
        let seals = calls.iter().filter_map(|call| signature(text, *call));
        let own = seals.filter(|seal| seal.span.of(text) != SKIP);
        edits.extend(own.map(|seal| Edit::replace(seal.span, SKIP)));
    })
    .ok()?;
    edited(text, edits)
}

/// Where chat's calls stand.
const CALLS: [&str; 2] = ["messages", "tool_calls"];

/// The signature that Google's chat endpoint puts on a call.
fn signature(text: &str, call: Value) -> Option<crate::json::Text> {
    let mut at = call;
    for name in ["extra_content", "google", "thought_signature"] {
        if at.kind != Kind::Object {
            return None;
        }
        let inside = crate::json::member(at.span.of(text), name)?;
        let start = at.span.start;
        at = Value {
            span: Span::new(start + inside.span.start, start + inside.span.end),
            ..inside
        };
    }
    at.text()
}

/// A member with its key and one comma.
fn whole_member(text: &str, object: Value, name: &str) -> Option<Span> {
    let mut cursor = Cursor::at_value(text, object);
    cursor.enter_object().ok()?;
    let (mut first, mut before, mut found) = (true, None, None);
    while let Some(key) = cursor.next_key(&mut first).ok()? {
        // its quote
        let start = key.span.start - 1;
        if let Some(from) = found {
            return Some(Span::new(from, start));
        }
        let value = cursor.skip().ok()?;
        if key.decode(text) == name {
            if let Some(before) = before {
                return Some(Span::new(before, value.span.end));
            }
            found = Some(start);
        }
        before = Some(value.span.end);
    }
    found.zip(before).map(|(from, end)| Span::new(from, end))
}

/// Thoughts go, and where the model is to go on after its calls, the wish to think with a budget: it is not taken without them.
fn without_thoughts(body: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut cut = Vec::new();
    let mut called = false;
    lists(text, places(Format::Anthropic), &mut |items| {
        cut_items(text, items, is_thought, &mut cut);
        // What counts is the last turn.
        called = items
            .iter()
            .any(|item| is_of(text, *item, &["tool_result"]));
    })
    .ok()?;
    if cut.is_empty() {
        return None;
    }
    let thinking = crate::json::member(text, "thinking");
    if let Some(thinking) = thinking.filter(|it| called && is_of(text, *it, &["enabled"])) {
        cut.push(Edit::replace(thinking.span, r#"{"type":"disabled"}"#));
    }
    edited(text, cut)
}

/// Signatures become the documented value that stands for one that was lost.
fn replaced(body: &Bytes) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut edits = Vec::new();
    lists(text, places(Format::Gemini), &mut |items| {
        for item in items {
            let inside = item.span.of(text);
            for name in SIGNATURES {
                let seal = crate::json::member(inside, name)
                    .and_then(|value| value.text().map(|text| (value, text)));
                if let Some((value, said)) = seal
                    && said.decode(inside) != SKIP
                {
                    let start = item.span.start;
                    let span = Span::new(start + value.span.start, start + value.span.end);
                    edits.push(Edit::replace(span, SKIP_JSON));
                }
            }
        }
    })
    .ok()?;
    edited(text, edits)
}

/// The names of a part's signature.
const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];
/// [`SKIP`] as JSON.
const SKIP_JSON: &str = r#""skip_thought_signature_validator""#;

/// The text with these places put differently; `None` without any.
fn edited(text: &str, edits: Vec<Edit<'static>>) -> Option<Bytes> {
    (!edits.is_empty()).then(|| splice(text.as_bytes(), edits))
}

/// Gives every list that is a member of these names one in another, below lists of objects.
fn lists(text: &str, names: &[&str], found: &mut dyn FnMut(&[Value])) -> Result<(), JsonError> {
    let whole = Cursor::new(text).skip()?;
    below(text, whole, names, found)
}

fn below(
    text: &str,
    object: Value,
    names: &[&str],
    found: &mut dyn FnMut(&[Value]),
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
            found(&items);
        } else {
            for item in items {
                below(text, item, inner, found)?;
            }
        }
    }
    Ok(())
}

/// An item goes with the comma behind it, the last ones with the comma before them.
fn cut_items(text: &str, items: &[Value], sealed: Judge, cut: &mut Vec<Edit<'static>>) {
    let mut kept_end = None;
    let mut run: Option<usize> = None;
    for item in items {
        if sealed(text, *item) {
            run.get_or_insert(item.span.start);
            continue;
        }
        if let Some(start) = run.take() {
            cut.push(Edit::replace(Span::new(start, item.span.start), ""));
        }
        kept_end = Some(item.span.end);
    }
    if let (Some(start), Some(last)) = (run, items.last()) {
        let span = Span::new(kept_end.unwrap_or(start), last.span.end);
        cut.push(Edit::replace(span, ""));
    }
}

/// The text of a member.
fn member<'a>(text: &'a str, object: Value, name: &str) -> Option<Cow<'a, str>> {
    let inside = object.span.of(text);
    let value = crate::json::member(inside, name)?;
    Some(value.text()?.decode(inside))
}

/// Whether an object is of one of these types.
fn is_of(text: &str, object: Value, kinds: &[&str]) -> bool {
    object.kind == Kind::Object
        && member(text, object, "type").is_some_and(|kind| kinds.contains(&&*kind))
}

fn is_thought(text: &str, block: Value) -> bool {
    is_of(text, block, &["thinking", "redacted_thinking"])
}

fn is_reasoning(text: &str, item: Value) -> bool {
    is_of(text, item, &["reasoning"]) && member(text, item, "encrypted_content").is_some()
}

fn is_sealed_detail(text: &str, detail: Value) -> bool {
    let sealed = |name| member(text, detail, name).is_some();
    detail.kind == Kind::Object && (sealed("signature") || sealed("data"))
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
    let calls = ["functionCall", "function_call"];
    let has = |name: &&str| crate::json::member(part.span.of(text), name).is_some();
    let mut seals = SIGNATURES.iter();
    seals.any(|name| is_stranger(member(text, part, name))) && !calls.iter().any(has)
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
                Format::Chat,
                r#"{"messages":[{"tool_calls":[{"id":"a","extra_content":{"google":{"thought_signature":"switchboard.g.X"}}},{"extra_content":{"google":{"thought_signature":"switchboard.g.X"}}, "id":"b"},{"extra_content":{"google":{"thought_signature":"own"}}},{"extra_content":{"google":{"thought_signature":"switchboard.g.X"}}}]}]}"#,
                r#"{"messages":[{"tool_calls":[{"id":"a"},{"id":"b"},{"extra_content":{"google":{"thought_signature":"own"}}},{}]}]}"#,
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

    #[test]
    fn all_seals_are_taken_out_and_the_rest_keeps_its_bytes() {
        for (format, body, expected) in [
            (
                Format::Responses,
                r#"{"input":[{"role":"user","content":"a"}, {"type":"reasoning","summary":[],"encrypted_content":"own"} ,{"type":"reasoning","summary":[]},{"type":"compaction","encrypted_content":"kept"}]}"#,
                Some(
                    r#"{"input":[{"role":"user","content":"a"}, {"type":"reasoning","summary":[]},{"type":"compaction","encrypted_content":"kept"}]}"#,
                ),
            ),
            (
                Format::Anthropic,
                r#"{"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"own"},{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
                Some(
                    r#"{"thinking":{"type":"disabled"},"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
                ),
            ),
            (
                Format::Anthropic,
                r#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"own"},{"type":"text","text":"x"}]},{"role":"user","content":"on"}],"thinking":{"type":"enabled","budget_tokens":1024}}"#,
                Some(
                    r#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"}]},{"role":"user","content":"on"}],"thinking":{"type":"enabled","budget_tokens":1024}}"#,
                ),
            ),
            (
                Format::Gemini,
                r#"{"contents":[{"parts":[{"functionCall":{"name":"f"},"thoughtSignature": "b3du"},{"text":"x","thought_signature":"b3du"}]}]}"#,
                Some(
                    r#"{"contents":[{"parts":[{"functionCall":{"name":"f"},"thoughtSignature": "skip_thought_signature_validator"},{"text":"x","thought_signature":"skip_thought_signature_validator"}]}]}"#,
                ),
            ),
            (
                Format::Chat,
                r#"{"messages":[{"reasoning_content":"t","reasoning_details":[{"type":"reasoning.encrypted","data":"own"}]}]}"#,
                Some(r#"{"messages":[{"reasoning_content":"t","reasoning_details":[]}]}"#),
            ),
            (
                Format::Gemini,
                r#"{"contents":[{"parts":[{"text":"x","thoughtSignature":"skip_thought_signature_validator"}]}]}"#,
                None,
            ),
            (Format::Responses, r#"{"input":"hi"}"#, None),
            (
                Format::Anthropic,
                r#"{"messages":[{"role":"user","content":"hi"}]}"#,
                None,
            ),
        ] {
            let out = without_seals(format, &Bytes::from_static(body.as_bytes()));
            assert_eq!(out.as_deref(), expected.map(str::as_bytes), "{body}");
        }
    }
}
