//! What does not come back, and why: a line each. From which dialects, over which, in which fixtures, at which path or within it (`*` is
//! all), and the reason.

use switchboard_dialects::convert::Format;

use crate::wire::name;

/// What may differ.
#[derive(Debug)]
pub(super) struct Exception([&'static str; 4]);

/// Reads a list.
pub(super) fn read(list: &'static str) -> Vec<Exception> {
    let lines = list.lines().filter(|line| !line.is_empty());
    let exception = |line: &'static str| {
        let mut columns = line.split(" | ");
        let mut next = || columns.next().expect("five columns");
        let exception = Exception([next(), next(), next(), next()]);
        assert!(!next().is_empty(), "a reason: {line}");
        exception
    };
    lines.map(exception).collect()
}

impl Exception {
    pub(super) fn is_for(&self, pair: (Format, Format), fixture: &str, path: &str) -> bool {
        let Self([from, over, fixtures, within]) = *self;
        let fits = |own: &str, other: &str| own == "*" || own.split(' ').any(|own| own == other);
        fits(from, name(pair.0))
            && fits(over, name(pair.1))
            && fits(fixtures, fixture)
            && (within == "*" || path.starts_with(within))
    }
}

/// Of answers, whole and streamed.
pub(super) const ANSWERS: &str = "
* | anthropic | logprobs | * | it has no log probabilities
gemini | * | logprobs | candidates[].logprobsResult | tokens have no numbers elsewhere
* | anthropic responses | several | * | there are never several answers
* | gemini | text usage-cumulative | usage | it does not count what is written to a cache
chat responses | anthropic gemini | refusal | * | it declines by its reason, in a text
chat | * | tools-stop | choices[].finish_reason | there are calls, so that they are the reason
chat | anthropic | tools-stop | choices[].message.tool_calls | it refuses such an id
chat | anthropic | reasoning tools | choices[].message.reasoning_details | every thought has a signature there, also one that nobody sealed
* | * | unknown-reason | * | only the native word says it, beside the nearest reason
anthropic | * | stop-model-context-window-exceeded stop-pause-turn stop-stop-sequence | stop | nobody else tells these apart
gemini | * | stop-language stop-other stop-prohibited-content stop-recitation | candidates[].finishReason | nobody else tells these apart
gemini | * | blocked | * | elsewhere an answer that is blocked is one without words
anthropic responses | * | hosted | * | what a tool of the provider did has no form elsewhere
anthropic | * | citations | content[].citations | only the address and the title are said elsewhere
gemini | * | grounding | candidates[] | sources have one form elsewhere
gemini | anthropic | media | * | its answers hold no images
gemini | * | signed-text | candidates[].content.parts | elsewhere a seal is not on a text but on a thought
gemini | anthropic responses | tools | candidates[].content.parts | the seal of a call is a thought before it
gemini | chat | tools | candidates[].content.parts[].functionCall.id | every call has an id there
anthropic responses | chat | interleaved mixed-calls | * | it has all thoughts before all words
responses | * | tools | output[].summary | elsewhere a thought is one text
";

/// Of histories: from this upstream, over this caller.
pub(super) const HISTORY: &str = "
anthropic responses | * | hosted | * | what a tool of the provider did has no form elsewhere
anthropic responses | chat | interleaved | * | it has all thoughts before all words
chat responses | anthropic gemini | refusal | * | it declines by its reason, in a text
chat | anthropic | tools-stop | tool_calls[].id | it refuses such an id; the result has the other one too
responses | * | tools | [].summary | elsewhere a thought is one text
gemini | * | tools | [].functionCall.id | every call has an id elsewhere
gemini | * | call-ids | [].thoughtSignature | a call that had none gets the word that none is to be looked for
gemini | anthropic responses | signed-text | * | elsewhere a seal is not on a text but on a thought
gemini | * | media | * | only the user shows images elsewhere
";

/// Of requests.
pub(super) const REQUESTS: &str = "
chat | anthropic | * | max_completion_tokens | it demands a limit
responses | anthropic | * | max_output_tokens | it demands a limit
gemini | anthropic | * | generationConfig.maxOutputTokens | it demands a limit
chat | responses | sampling | max_completion_tokens | 16 is the least there
anthropic | responses | sampling | max_tokens | 16 is the least there
gemini | responses | sampling | generationConfig.maxOutputTokens | 16 is the least there
chat | anthropic | sampling | temperature | 1 is the most there
gemini | anthropic | sampling | generationConfig.temperature | 1 is the most there
anthropic | * | sampling | top_p | Claude takes none beside a temperature, when it comes back
chat | * | functions-old | * | the older form comes back as the newer one
chat responses | * | tool-custom | * | a tool of free text is a function with one text elsewhere
chat | anthropic | ids | messages[].tool_call | it refuses such an id; call and result have the same
chat | anthropic | json-object | * | it is asked for in words there
chat | anthropic | rest | user | it comes back under its newer name
chat | anthropic | rest | safety_identifier | the newer name of `user`
chat | anthropic gemini | refusal | messages[] | a refusal is a text there
chat | anthropic gemini | tool-allowed | tool_choice | of one tool that is allowed and must be called it is the same
responses | gemini | tool-forced | tool_choice | of one tool it is the same
gemini | chat responses | snake | toolConfig.allowedFunctionNames | of one tool it is the same
chat | gemini | reasoning | messages[].tool_calls[].extra_content | a seal goes to its maker alone
chat | gemini | schema | response_format.json_schema.strict | schemas are kept to anyway
responses | gemini | schema | text.format.strict | schemas are kept to anyway
chat | responses | document-by-id | refused | what OpenAI keeps OpenAI can read, and others cannot
chat | anthropic gemini | texts | messages | instructions later on are the user's words there
responses | anthropic gemini | texts | input | instructions later on are the user's words there
anthropic | * | system-later | * | instructions later on come back as the user's words
anthropic | * | media | messages[] | a text is no document elsewhere; a file's name has an ending
anthropic | * | search-result | messages[] | a search result is a text elsewhere
anthropic | * | thinking | * | a budget is an effort elsewhere
gemini | * | thinking | generationConfig.thinkingConfig | a budget is an effort elsewhere
anthropic | gemini | schema | output_config.effort | high is the highest there
gemini | * | schema | generationConfig.thinkingConfig | thoughts that are asked for are shown
responses | * | tool-forced | reasoning.summary | thoughts that are asked for are shown
anthropic | chat responses | tools | messages[] | that a tool failed is said in words, and images that it gave stand behind its result in chat
gemini | chat responses | tools | contents[].parts[].functionResponse.response | that a tool failed is said in words
responses | chat | tools | input[] | images that a tool gave stand behind its result
responses | * | hosted | tools | named as a tool of its kind
";
