//! What does not come back, and why.

use switchboard_dialects::convert::Format;

use crate::wire::name;

/// What may differ.
#[derive(Debug)]
pub(super) struct Exception {
    /// From this dialect; all where it is empty.
    from: &'static str,
    /// Over this one.
    over: &'static str,
    /// In this fixture.
    fixture: &'static str,
    /// At this path, or within it.
    path: &'static str,
    #[expect(dead_code, reason = "for people")]
    why: &'static str,
}

const fn not(
    from: &'static str,
    over: &'static str,
    fixture: &'static str,
    path: &'static str,
    why: &'static str,
) -> Exception {
    Exception {
        from,
        over,
        fixture,
        path,
        why,
    }
}

impl Exception {
    pub(super) fn is_for(&self, pair: (Format, Format), fixture: &str, path: &str) -> bool {
        let fits =
            |own: &str, other: &str| own.is_empty() || own.split(' ').any(|own| own == other);
        fits(self.from, name(pair.0))
            && fits(self.over, name(pair.1))
            && fits(self.fixture, fixture)
            && path.starts_with(self.path)
    }
}

/// Of answers, whole and streamed.
pub(super) const ANSWERS: &[Exception] = &[
    not(
        "",
        "anthropic",
        "logprobs",
        "",
        "it has no log probabilities",
    ),
    not(
        "gemini",
        "",
        "logprobs",
        "candidates[].logprobsResult",
        "tokens have no numbers elsewhere",
    ),
    not(
        "",
        "anthropic responses",
        "several",
        "",
        "there are never several answers",
    ),
    not(
        "",
        "gemini",
        "text usage-cumulative",
        "usage",
        "it does not count what is written to a cache",
    ),
    not(
        "chat responses",
        "anthropic gemini",
        "refusal",
        "",
        "it declines by its reason, in a text",
    ),
    not(
        "chat",
        "",
        "tools-stop",
        "choices[].finish_reason",
        "there are calls, so that they are the reason",
    ),
    not(
        "chat",
        "anthropic",
        "tools-stop",
        "choices[].message.tool_calls",
        "it refuses such an id",
    ),
    not(
        "chat",
        "anthropic",
        "reasoning tools",
        "choices[].message.reasoning_details",
        "an empty signature says that there is none",
    ),
    not(
        "",
        "",
        "unknown-reason",
        "",
        "only the native word says it, beside the nearest reason",
    ),
    not(
        "anthropic",
        "",
        "stop-model-context-window-exceeded stop-pause-turn stop-stop-sequence",
        "stop",
        "nobody else tells these apart",
    ),
    not(
        "gemini",
        "",
        "stop-language stop-other stop-prohibited-content stop-recitation",
        "candidates[].finishReason",
        "nobody else tells these apart",
    ),
    not(
        "gemini",
        "",
        "blocked",
        "",
        "elsewhere an answer that is blocked is one without words",
    ),
    not(
        "anthropic responses",
        "",
        "hosted",
        "",
        "what a tool of the provider did has no form elsewhere",
    ),
    not(
        "anthropic",
        "",
        "citations",
        "content[].citations",
        "only the address and the title are said elsewhere",
    ),
    not(
        "gemini",
        "",
        "grounding",
        "candidates[]",
        "sources have one form elsewhere",
    ),
    not(
        "gemini",
        "anthropic",
        "media",
        "",
        "its answers hold no images",
    ),
    not(
        "gemini",
        "",
        "signed-text",
        "candidates[].content.parts",
        "elsewhere a seal is not on a text but on a thought",
    ),
    not(
        "gemini",
        "anthropic responses",
        "tools",
        "candidates[].content.parts",
        "the seal of a call is a thought before it",
    ),
    not(
        "gemini",
        "chat",
        "tools",
        "candidates[].content.parts[].functionCall.id",
        "every call has an id there",
    ),
    not(
        "anthropic responses",
        "chat",
        "interleaved mixed-calls",
        "",
        "it has all thoughts before all words",
    ),
    not(
        "responses",
        "",
        "tools",
        "output[].summary",
        "elsewhere a thought is one text",
    ),
];

/// Of histories: from this upstream, over this caller.
pub(super) const HISTORY: &[Exception] = &[
    not(
        "anthropic responses",
        "",
        "hosted",
        "",
        "what a tool of the provider did has no form elsewhere",
    ),
    not(
        "anthropic responses",
        "chat",
        "interleaved",
        "",
        "it has all thoughts before all words",
    ),
    not(
        "chat responses",
        "anthropic gemini",
        "refusal",
        "",
        "it declines by its reason, in a text",
    ),
    not(
        "chat",
        "anthropic",
        "tools-stop",
        "tool_calls[].id",
        "it refuses such an id; the result has the other one too",
    ),
    not(
        "responses",
        "",
        "tools",
        "[].summary",
        "elsewhere a thought is one text",
    ),
    not(
        "gemini",
        "",
        "tools",
        "[].functionCall.id",
        "every call has an id elsewhere",
    ),
    not(
        "gemini",
        "",
        "call-ids",
        "[].thoughtSignature",
        "a call that had none gets the word that none is to be looked for",
    ),
    not(
        "gemini",
        "anthropic responses",
        "signed-text",
        "",
        "elsewhere a seal is not on a text but on a thought",
    ),
    not(
        "gemini",
        "",
        "media",
        "",
        "only the user shows images elsewhere",
    ),
];
