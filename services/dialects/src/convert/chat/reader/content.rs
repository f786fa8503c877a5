//! What a message holds besides plain strings.

use std::borrow::Cow;

use crate::convert::fields::Raw;
use crate::convert::node::{Node, one_line};
use crate::convert::part::{Part, Put};

/// Says a content: a string, or parts (Mistral has `thinking` among them).
pub(super) fn say_content(index: u32, content: &str, put: &mut Put<'_>) {
    let raw = Raw::body(content);
    if let Some(text) = raw.as_text() {
        if !text.is_empty() {
            put(index, Part::Text(&text));
        }
        return;
    }
    for item in raw.items().unwrap_or_default() {
        let Ok(mut part) = item.fields() else {
            continue;
        };
        match part.text("type").ok().flatten().as_deref() {
            Some("thinking") => {
                for thought in part.items("thinking").unwrap_or_default() {
                    let text = thought.fields().ok().and_then(|mut fields| {
                        let text = fields.text("text").ok();
                        text.flatten()
                    });
                    if let Some(text) = text.filter(|text| !text.is_empty()) {
                        put(index, Part::Reasoning(&text));
                    }
                }
            }
            Some("image_url") => say_image(index, &item, put),
            _ => {
                let text = part.text("text").ok().flatten();
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    put(index, Part::Text(&text));
                }
            }
        }
    }
}

/// Says the images of a list (OpenRouter).
pub(super) fn images(index: u32, list: &str, put: &mut Put<'_>) {
    for item in Raw::body(list).items().unwrap_or_default() {
        say_image(index, &item, put);
    }
}

/// `{"image_url": {"url"}}`. One that is at an address is said as that.
fn say_image(index: u32, item: &Raw<'_>, put: &mut Put<'_>) {
    let url = || {
        let image = item.fields().ok()?.take("image_url")?;
        let inside = || image.fields().ok()?.text("url").ok()?;
        image.as_text().or_else(inside)
    };
    let Some(url) = url().filter(|url| !url.is_empty()) else {
        return;
    };
    let inside = url.strip_prefix("data:");
    match inside.and_then(|inside| inside.split_once(";base64,")) {
        Some((mime, data)) => put(index, Part::Media { mime, data }),
        None => put(index, Part::Text(&url)),
    }
}

/// The text of an item of `reasoning_details`.
pub(super) fn thought(item: &str) -> Option<Cow<'_, str>> {
    let of = |name| crate::json::member(item, name)?.text();
    let text = of("text").or_else(|| of("summary"))?;
    Some(text.decode(item)).filter(|text| !text.is_empty())
}

/// An item of `reasoning_details` that is sealed, without its text, which is said apart.
pub(super) fn detail(item: &str) -> Option<String> {
    let mut fields = Raw::body(item).fields().ok()?;
    let says = |name| {
        let value = crate::json::member(item, name).and_then(|value| value.text());
        value.is_some_and(|text| !text.is_empty())
    };
    if !says("signature") && !says("data") {
        return None;
    }
    for said in ["text", "summary"] {
        fields.take(said);
    }
    let mut sealed = Node::Object(Vec::new());
    for (name, raw) in fields.rest() {
        let value: Cow<'_, str> = one_line(raw.text);
        sealed.put(name, Node::Raw(value));
    }
    Some(sealed.render())
}
