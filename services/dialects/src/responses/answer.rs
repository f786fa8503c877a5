//! A whole response.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::envelope::{Envelope, whole};
use crate::chat::PublicName;
use crate::dialect::{ReadOptions, WholeAnswer};
use crate::error::{Class, UpstreamError};
use crate::json::splice;
use crate::text::TextBuffer;

/// Reads the answer to a create. `kept`: the upstream was asked to keep it.
///
/// # Errors
/// When it is empty, no JSON, an error object, lacks what a response must have (`id`, `object`, `status`, `output`), or says
/// that it failed.
pub(super) fn read(
    body: &Bytes,
    options: &ReadOptions<'_>,
    kept: bool,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let (text, response) = parse(body)?;
    let status = response.status.as_deref();
    if status == Some("failed") {
        return Err(response.failure(text));
    }
    if let Some(error) = response
        .error
        .and_then(|error| UpstreamError::from_embedded(text, error))
    {
        return Err(Box::new(error));
    }
    if !response.is_response
        || response.id.is_none()
        || status.is_none()
        || response.output.is_none()
    {
        return Err(found(
            Class::Malformed,
            "the upstream's answer is no response: it lacks `id`, `object`, `status` or `output`",
        ));
    }
    let mut answer = pass(body, text, &response, options);
    let told = answer.usage.as_ref().and_then(|said| said.usage.output);
    if told.is_none() && options.text_bound > 0 {
        let mut output = TextBuffer::new(options.text_bound);
        response.text(text, &mut output);
        answer.text = Some(output);
    }
    if kept && !response.not_kept {
        answer.stored_id = response.id;
    }
    Ok(answer)
}

/// Reads the answer to anything else: whatever object it is.
///
/// # Errors
/// When it is empty or no JSON object.
pub(super) fn read_any(
    body: &Bytes,
    options: &ReadOptions<'_>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let (text, response) = parse(body)?;
    Ok(if response.is_response {
        pass(body, text, &response, options)
    } else {
        WholeAnswer {
            body: body.clone(),
            ..WholeAnswer::default()
        }
    })
}

fn parse(body: &Bytes) -> Result<(&str, Envelope), Box<UpstreamError>> {
    if body.trim_ascii().is_empty() {
        return Err(found(Class::Empty, "the upstream's answer was empty"));
    }
    let read = || {
        let text = std::str::from_utf8(body).ok()?;
        let response = Envelope::read(text, whole(text)?).ok()?;
        Some((text, response))
    };
    read().ok_or_else(|| {
        found(
            Class::Malformed,
            "the upstream's answer is not a JSON object",
        )
    })
}

/// The answer as the caller gets it.
fn pass(body: &Bytes, text: &str, response: &Envelope, options: &ReadOptions<'_>) -> WholeAnswer {
    let name = options
        .public_model
        .map(|name| PublicName::new(name.to_owned()));
    let edits: Vec<_> = name
        .iter()
        .flat_map(|name| response.renamed(text, name))
        .collect();
    WholeAnswer {
        body: if edits.is_empty() {
            body.clone()
        } else {
            splice(body, edits)
        },
        usage: response.usage(text),
        finished: response.finished(),
        ..WholeAnswer::default()
    }
}

fn found(class: Class, message: &str) -> Box<UpstreamError> {
    Box::new(UpstreamError::found(class, message))
}
