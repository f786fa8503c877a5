//! Which function response answers which function call. Gemini's own ids may be absent: then a response belongs to the
//! first unanswered call of its name.

use std::borrow::Cow;
use std::collections::HashSet;

use super::request::{Content, Turn};
use crate::convert::fields::Refusal;

/// A call that waits for its response.
struct Open<'a> {
    name: Cow<'a, str>,
    /// As the caller gave it; empty where it gave none.
    given: Cow<'a, str>,
    id: Cow<'a, str>,
    path: String,
}

/// Gives an id to every call that has none, and to every response that of its call.
///
/// # Errors
/// A response answers no call that came before it, or a call has no response.
pub(super) fn assign(turns: &mut [Turn<'_>]) -> Result<(), Box<Refusal>> {
    let mut taken: HashSet<String> = HashSet::new();
    for turn in &*turns {
        for piece in &turn.pieces {
            if let Content::Call { id, .. } = &piece.content
                && !id.is_empty()
            {
                taken.insert(id.clone().into_owned());
            }
        }
    }
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut next = 0_u64;
    for turn in turns {
        for piece in &mut turn.pieces {
            match &mut piece.content {
                Content::Call { id, name, .. } => {
                    let given = id.clone();
                    while id.is_empty() {
                        let made = format!("call_{next}");
                        next += 1;
                        if taken.insert(made.clone()) {
                            *id = Cow::Owned(made);
                        }
                    }
                    open.push(Open {
                        name: name.clone(),
                        given,
                        id: id.clone(),
                        path: piece.path.clone(),
                    });
                }
                Content::Response { id, name, .. } => {
                    let by_id = || {
                        open.iter()
                            .position(|call| !id.is_empty() && call.given == *id)
                    };
                    // An id on one side alone is no id.
                    let by_name = || {
                        open.iter().position(|call| {
                            call.name == *name && (id.is_empty() || call.given.is_empty())
                        })
                    };
                    let Some(at) = by_id().or_else(by_name) else {
                        return Err(Refusal::invalid(
                            format!("{}.functionResponse", piece.path),
                            "the answer to a `functionCall` of the same name (and id, where it has one) in a content before it",
                        ));
                    };
                    *id = open.remove(at).id;
                }
                Content::Text(_)
                | Content::Inline { .. }
                | Content::File { .. }
                | Content::Nothing => {}
            }
        }
    }
    match open.into_iter().next() {
        None => Ok(()),
        Some(call) => Err(Refusal::invalid(
            format!("{}.functionCall", call.path),
            "a call whose `functionResponse` comes in a content after it: every call needs one",
        )),
    }
}
