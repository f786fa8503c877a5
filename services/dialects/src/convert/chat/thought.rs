//! The thoughts of an assistant's message: `reasoning_content`, and `reasoning_details` where there are seals.
//!
//! Neither is in OpenAI's document. The first is what DeepSeek and vLLM have, the second what OpenRouter has; Switchboard's
//! own answers have both (see the writer).

use std::borrow::Cow;

use crate::convert::Format;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::seal::Seal;

/// What the model thought before it spoke.
#[derive(Debug)]
pub(crate) struct Thought<'a> {
    /// The thought as text, or a summary of it; empty where it is withheld.
    pub(crate) text: Cow<'a, str>,
    /// Where it stands.
    pub(crate) path: String,
    sealed: Option<Cow<'a, str>>,
}

impl Thought<'_> {
    /// Its seal.
    pub(crate) fn seal(&self) -> Option<Seal<'_>> {
        let text = self.sealed.as_deref()?;
        Some(Seal::read(Format::Chat, text))
    }
}

/// Takes the thoughts of a message. The details are the same thoughts as the plain text, told apart and sealed; what of
/// the text is in no detail was not sealed.
pub(super) fn read_thoughts<'a>(
    message: &mut Fields<'a>,
) -> Result<Vec<Thought<'a>>, Box<Refusal>> {
    let older = message.take("reasoning");
    let plain = message.take("reasoning_content").or(older);
    let plain = match plain {
        // OpenAI's older `reasoning` objects are of no use here
        Some(raw) => raw.as_text().map(|text| (text, raw.path)),
        None => None,
    };
    let mut details = Vec::new();
    for item in message.items("reasoning_details")? {
        details.extend(read_detail(&item, message)?);
    }
    let Some((text, path)) = plain.filter(|(text, _)| !text.is_empty()) else {
        return Ok(details);
    };
    let unsealed = |text: &str| Thought {
        text: Cow::Owned(text.to_owned()),
        path: path.clone(),
        sealed: None,
    };
    let mut all = Vec::with_capacity(details.len() + 1);
    let mut left: &str = &text;
    for detail in &details {
        match left.split_once(&*detail.text) {
            Some((before, after)) if !before.is_empty() => {
                all.push(unsealed(before));
                left = after;
            }
            Some((_, after)) => left = after,
            // The text was changed: the sealed one is the one that was thought.
            None => return Ok(details),
        }
        all.push(Thought {
            text: detail.text.clone(),
            path: detail.path.clone(),
            sealed: detail.sealed.clone(),
        });
    }
    if !left.is_empty() {
        all.push(unsealed(left));
    }
    Ok(all)
}

/// Reads an item of `reasoning_details`. One of a type that is not known is what its maker made of it: the item itself is
/// the seal.
fn read_detail<'a>(
    raw: &Raw<'a>,
    message: &mut Fields<'a>,
) -> Result<Option<Thought<'a>>, Box<Refusal>> {
    let mut fields = raw.fields()?;
    let kind = fields.text("type")?.unwrap_or_default();
    let (text, sealed) = match &*kind {
        "reasoning.text" => (fields.text("text")?, fields.text("signature")?),
        "reasoning.summary" => (fields.text("summary")?, fields.text("signature")?),
        "reasoning.encrypted" => (None, fields.text("data")?),
        _ => (None, Some(Cow::Borrowed(raw.text))),
    };
    let sealed = match sealed {
        // a provider's own: all of the item must go back to it
        Some(own) if !own.starts_with(crate::convert::seal::MARK) => Some(Cow::Borrowed(raw.text)),
        sealed => {
            message.absorb(fields);
            sealed
        }
    };
    let thought = Thought {
        text: text.unwrap_or_default(),
        path: raw.path.clone(),
        sealed,
    };
    Ok((!thought.text.is_empty() || thought.sealed.is_some()).then_some(thought))
}
