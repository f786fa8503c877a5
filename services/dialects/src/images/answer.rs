//! An images answer, whole or as events.

use bytes::{Bytes, BytesMut};

use crate::dialect::WholeAnswer;
use crate::error::UpstreamError;
use crate::json::{Kind, Value};
use crate::sse::write_event;
use crate::typed::Kinds;
use crate::usage::{Usage, UsageReport};
use crate::whole::{Object, malformed, member, one_line};

/// `image_generation.*` and `image_edit.*`: each image that is complete ends one answer.
pub(super) const KINDS: Kinds = Kinds {
    content: &[".partial_image"],
    last: ".completed",
    text: None,
    usage: |usage: &mut Usage, images| usage.images = Some(images),
};

/// Checks an answer: images that each have their data or their address.
pub(super) fn read(
    body: &Bytes,
    public_model: Option<&str>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    const MISSING: &str = "the upstream's answer has no images";
    let object = Object::read(body, &["data", "usage"])?;
    let images = object.list("data", MISSING)?;
    let shown = |image: &Value| {
        let has = |name| {
            let value = member(object.text, *image, name).and_then(|value| value.text());
            value.is_some_and(|text| !text.is_empty())
        };
        has("b64_json") || has("url")
    };
    if !images.iter().all(shown) {
        return Err(malformed(MISSING));
    }
    let told = object
        .get("usage")
        .and_then(|value| UsageReport::from_openai(object.text, value));
    let mut report = told.unwrap_or_default();
    report.usage.images = Some(images.len() as u64);
    Ok(WholeAnswer {
        body: object.renamed(body, public_model),
        usage: Some(report),
        ..WholeAnswer::default()
    })
}

/// A whole answer as events, one an image; no more than were asked for, which is where a stream ends.
pub(super) fn as_events(body: &[u8], name: &str, asked: u64) -> Bytes {
    let mut out = BytesMut::new();
    let Ok(object) = Object::read(body, &["data", "usage", "created"]) else {
        return out.freeze();
    };
    let mut images = object.list("data", "").unwrap_or_default();
    images.truncate(usize::try_from(asked).unwrap_or(usize::MAX));
    let raw = |value: Option<Value>| value.map(|value| value.span.of(object.text));
    let created = raw(object.get("created")).unwrap_or("0");
    let usage = object.get("usage").filter(|v| v.kind == Kind::Object);
    let last = images.len().saturating_sub(1);
    for (index, image) in images.iter().enumerate() {
        let inside = image.span.of(object.text);
        let inside = inside.strip_prefix('{').and_then(|i| i.strip_suffix('}'));
        let usage = match raw(usage) {
            Some(usage) if index == last => format!(r#","usage":{usage}"#),
            _ => String::new(),
        };
        let data = format!(
            r#"{{"type":"{name}","created_at":{created},{}{usage}}}"#,
            inside.unwrap_or("").trim_ascii()
        );
        write_event(&mut out, Some(name.as_bytes()), &one_line(&data));
    }
    out.freeze()
}
