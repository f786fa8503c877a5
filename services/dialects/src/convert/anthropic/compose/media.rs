//! Images and documents as blocks.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::convert::fields::Refusal;
use crate::convert::node::Node;

/// An image or a document at a URL; of a `data:` URL its bytes.
///
/// # Errors
/// It is of a kind that this API does not read; `path` names it.
pub(crate) fn at_url<'a>(
    url: Cow<'a, str>,
    image: bool,
    path: &str,
) -> Result<Node<'a>, Box<Refusal>> {
    let Some(inside) = url.strip_prefix("data:") else {
        if !url.starts_with("http") {
            let why = "it reads from addresses of the web alone; send the content";
            return Err(Refusal::unsupported(path, why));
        }
        let source = Node::object([("type", Node::text("url")), ("url", Node::Text(url))]);
        return Ok(block(image, source));
    };
    let parsed = inside.split_once(',').and_then(|(head, data)| {
        let mime = head.strip_suffix(";base64")?;
        Some((mime.split(';').next().unwrap_or(""), data))
    });
    match parsed {
        Some((mime, data)) if !mime.is_empty() => {
            inline(mime.to_owned().into(), data.to_owned().into(), path)
        }
        _ => Err(Refusal::invalid(
            path,
            "a `data:` URL with a type and base64",
        )),
    }
}

/// An image, a PDF or a text as base64.
///
/// # Errors
/// It is of another kind.
pub(crate) fn inline<'a>(
    mime: Cow<'a, str>,
    data: Cow<'a, str>,
    path: &str,
) -> Result<Node<'a>, Box<Refusal>> {
    let image = mime.starts_with("image/");
    if is_text(&mime) {
        let bytes = STANDARD.decode(data.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = text else {
            return Err(Refusal::invalid(path, "text in UTF-8, as base64"));
        };
        let source = Node::object([
            ("type", Node::text("text")),
            ("media_type", Node::text("text/plain")),
            ("data", Node::text(text)),
        ]);
        return Ok(block(false, source));
    }
    if !image && mime != "application/pdf" {
        let why = format!("it reads images, PDF documents and texts, not `{mime}`");
        return Err(Refusal::unsupported(path, &why));
    }
    let source = Node::object([
        ("type", Node::text("base64")),
        ("media_type", Node::Text(mime)),
        ("data", Node::Text(data)),
    ]);
    Ok(block(image, source))
}

/// A file of which only the name may tell the type: a text, or else a PDF, as files mostly are.
///
/// # Errors
/// As [`inline`].
pub(crate) fn file<'a>(
    name: Option<&str>,
    data: Cow<'a, str>,
    path: &str,
) -> Result<Node<'a>, Box<Refusal>> {
    let ending = name.and_then(|name| name.rsplit_once('.'));
    let ending = ending.map(|(_, ending)| ending.to_ascii_lowercase());
    let mime = match ending.as_deref() {
        Some("txt" | "md" | "csv" | "html" | "htm" | "xml" | "json") => "text/plain",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ => "application/pdf",
    };
    inline(mime.into(), data, path)
}

fn is_text(mime: &str) -> bool {
    mime.starts_with("text/") || matches!(mime, "application/json" | "application/xml")
}

fn block<'a>(image: bool, source: Node<'a>) -> Node<'a> {
    let kind = if image { "image" } else { "document" };
    Node::object([("type", Node::text(kind)), ("source", source)])
}
