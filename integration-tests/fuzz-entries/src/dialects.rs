//! The dialects' targets: which call reads a request, and what is the dialect's own.

use switchboard_dialects::{
    anthropic::{MessagesCall, MessagesRequest},
    audio::{SpeechRequest, TranscriptionRequest},
    chat::ChatRequest,
    completions::CompletionsRequest,
    embeddings::EmbeddingsRequest,
    gemini::{Call, GeminiRequest},
    images::ImagesRequest,
    moderations::ModerationsRequest,
    rerank::RerankRequest,
    responses::{CountRequest, ResponsesRequest, StoredCall, StoredRequest},
};

use crate::{
    dialect::{Facts, Read, exercise, shared},
    input::{call, sections},
};

/// Chat, and completions, whose streams are the same.
pub(crate) fn chat(input: &[u8]) {
    let (call, input) = call(input);
    let [request, answer] = sections(input);
    let read: Read<'_> = match call {
        "completions" => &|body| CompletionsRequest::peek(body).map(shared),
        _ => &|body| ChatRequest::peek(body).map(shared),
    };
    let facts = Facts {
        patched: &[
            "model",
            "stream_options",
            "max_tokens",
            "max_completion_tokens",
        ],
        ..Facts::default()
    };
    exercise(read, &facts, request, answer);
}

/// The calls whose answers are never streamed.
pub(crate) fn whole(input: &[u8]) {
    let (call, input) = call(input);
    let [request, answer] = sections(input);
    let read: Read<'_> = match call {
        "moderations" => &|body| ModerationsRequest::peek(body).map(shared),
        "rerank" => &|body| RerankRequest::peek(body).map(shared),
        _ => &|body| EmbeddingsRequest::peek(body).map(shared),
    };
    let facts = Facts {
        // A vector may have to change its form.
        untouched: matches!(call, "moderations" | "rerank"),
        ..Facts::default()
    };
    exercise(read, &facts, request, answer);
}

/// Images and audio; forms have the boundary `b`.
pub(crate) fn media(input: &[u8]) {
    const FORM: &str = "multipart/form-data; boundary=b";
    let (call, input) = call(input);
    let [request, answer] = sections(input);
    let read: Read<'_> = match call {
        "speech" => &|body| SpeechRequest::peek(body).map(shared),
        "transcription" => &|body| TranscriptionRequest::peek(FORM, body).map(shared),
        "edit" => &|body| ImagesRequest::peek(FORM, body, true).map(shared),
        _ => &|body| ImagesRequest::peek("application/json", body, false).map(shared),
    };
    let facts = Facts {
        json: !matches!(call, "transcription" | "edit"),
        ..Facts::default()
    };
    exercise(read, &facts, request, answer);
}

pub(crate) fn anthropic(input: &[u8]) {
    let (call, input) = call(input);
    let call = match call {
        "count" => MessagesCall::CountTokens,
        _ => MessagesCall::Create,
    };
    let [request, answer] = sections(input);
    let read: Read<'_> = &|body| MessagesRequest::peek(body, call).map(shared);
    let facts = Facts {
        patched: &["model", "max_tokens", "thinking"],
        ..Facts::default()
    };
    exercise(read, &facts, request, answer);
}

pub(crate) fn gemini(input: &[u8]) {
    let (call, input) = call(input);
    let call = match call {
        "events" => Call::StreamEvents,
        "array" => Call::StreamArray,
        "count" => Call::CountTokens,
        "embed" => Call::Embed,
        "batch" => Call::EmbedBatch,
        _ => Call::Generate,
    };
    let [request, answer] = sections(input);
    let read: Read<'_> = &|body| GeminiRequest::peek(call, "gemini-x", body).map(shared);
    let facts = Facts {
        patched: &[
            "model",
            "generationConfig",
            "generation_config",
            "generateContentRequest",
            "requests",
        ],
        // Its path names the model.
        named: false,
        ..Facts::default()
    };
    exercise(read, &facts, request, answer);
}

pub(crate) fn responses(input: &[u8]) {
    let (call, input) = call(input);
    let [request, answer] = sections(input);
    let kept = |call, query| Ok(shared(StoredRequest::new(call, "resp_1", "m", query)));
    let read: Read<'_> = match call {
        "count" => &|body| CountRequest::peek(body).map(shared),
        "replay" => &|_| kept(StoredCall::Retrieve, "stream=true"),
        "retrieve" => &|_| kept(StoredCall::Retrieve, ""),
        "items" => &|_| kept(StoredCall::InputItems, ""),
        _ => &|body| ResponsesRequest::peek(body).map(shared),
    };
    let stored = matches!(call, "replay" | "retrieve" | "items");
    let facts = Facts {
        patched: &["model", "max_output_tokens"],
        // A kept response is called by its id, without a body.
        named: !stored,
        ..Facts::default()
    };
    let request = if stored { b"" } else { request };
    exercise(read, &facts, request, answer);
}
