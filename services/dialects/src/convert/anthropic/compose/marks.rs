//! Cache marks: at most four in a request.

use crate::convert::fields::Fields;
use crate::convert::node::{Node, one_line};

/// So many may be set.
const MOST: usize = 4;
/// The member.
const MARK: &str = "cache_control";

/// Takes the mark of a part of an OpenAI request: Anthropic's own, which many clients use there, or OpenAI's breakpoint.
pub(crate) fn take<'a>(rest: &mut Fields<'a>) -> Option<Node<'a>> {
    let breakpoint = rest.take("prompt_cache_breakpoint");
    if let Some(mut inside) = breakpoint.as_ref().and_then(|raw| raw.fields().ok()) {
        inside.take("mode");
        rest.absorb(inside);
    }
    let own = rest.take(MARK);
    match (own, breakpoint) {
        (Some(own), _) => Some(Node::raw(one_line(own.text))),
        (None, Some(_)) => Some(Node::raw(r#"{"type":"ephemeral"}"#)),
        (None, None) => None,
    }
}

/// Takes off the first marks where there are too many: the later ones reach further. Tools come first, then the
/// system, then the turns, as in what is cached. Gives whether any was taken off.
pub(super) fn limit_marks(body: &mut Node<'_>) -> bool {
    let mut count = 0;
    each(body, &mut |_| {
        count += 1;
        true
    });
    let mut over = count.max(MOST) - MOST;
    let any = over > 0;
    if any {
        each(body, &mut |_| {
            let kept = over == 0;
            over = over.saturating_sub(1);
            kept
        });
    }
    any
}

/// Visits every mark in the order of what is cached; those of which it is said are taken off.
fn each(node: &mut Node<'_>, keep: &mut dyn FnMut(&Node<'_>) -> bool) {
    match node {
        Node::Array(items) => items.iter_mut().for_each(|item| each(item, keep)),
        Node::Object(members) => {
            for (_, member) in members.iter_mut() {
                each(member, keep);
            }
            members.retain(|(key, value)| key != MARK || keep(value));
        }
        _ => {}
    }
}
