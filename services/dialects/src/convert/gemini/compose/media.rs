//! Media as parts.

use std::borrow::Cow;

use crate::convert::fields::Refusal;
use crate::convert::node::Node;

/// Data in the request.
pub(crate) fn inline<'a>(mime: impl Into<Cow<'a, str>>, data: impl Into<Cow<'a, str>>) -> Node<'a> {
    let blob = Node::object([("mimeType", Node::text(mime)), ("data", Node::text(data))]);
    Node::object([("inlineData", blob)])
}

/// What a URL refers to: a `data:` URL is data in the request, any other one Google fetches itself. Its type is told by the
/// ending, where that tells.
///
/// # Errors
/// A `data:` URL without base64; `path` names it.
pub(crate) fn at_url<'a>(url: Cow<'a, str>, path: &str) -> Result<Node<'a>, Box<Refusal>> {
    let Some(rest) = url.strip_prefix("data:") else {
        let mut file = Node::Object(Vec::new());
        let place = url.split(['?', '#']).next().unwrap_or("");
        let mime = mime_of(place).map(Node::text);
        file.put_some("mimeType", mime);
        file.put("fileUri", Node::text(url));
        return Ok(Node::object([("fileData", file)]));
    };
    let parsed = rest.split_once(',').and_then(|(head, data)| {
        let mime = head.strip_suffix(";base64")?;
        Some((
            mime.split(';').next().unwrap_or("").to_owned(),
            data.to_owned(),
        ))
    });
    match parsed {
        Some((mime, data)) if !mime.is_empty() => Ok(inline(mime, data)),
        _ => Err(Refusal::invalid(
            path,
            "a `data:` URL with a type and base64",
        )),
    }
}

/// A file of which only the name may tell the type; without one it is a PDF, as files mostly are.
pub(crate) fn file<'a>(name: Option<&str>, data: Cow<'a, str>) -> Node<'a> {
    let mime = name.and_then(mime_of).unwrap_or("application/pdf");
    inline(mime, data)
}

/// Sound of a format that OpenAI names.
pub(crate) fn sound<'a>(format: &str, data: Cow<'a, str>) -> Node<'a> {
    inline(format!("audio/{format}"), data)
}

/// Whether it may stand within what a function gave: images and PDF, as data.
pub(super) fn is_of_tools(part: &Node<'_>) -> bool {
    let Node::Object(members) = part else {
        return false;
    };
    let [(name, Node::Object(blob))] = &members[..] else {
        return false;
    };
    let mime = blob.iter().find(|(key, _)| key == "mimeType");
    name == "inlineData"
        && matches!(mime, Some((_, Node::Text(mime))) if mime.starts_with("image/") || mime == "application/pdf")
}

/// The type that a name's ending tells.
fn mime_of(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "xml" => "text/xml",
        "json" => "application/json",
        "mp4" => "video/mp4",
        "mov" => "video/mov",
        "webm" => "video/webm",
        "mp3" => "audio/mp3",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        _ => return None,
    })
}
