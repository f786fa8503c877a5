//! `serve --demo`: a local upstream that echoes, and a catalogue that offers it, so that the first `curl` answers without
//! any provider's key.

use std::convert::Infallible;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_common::{clock::SharedClock, lifecycle::Lifecycle};
use tokio::net::TcpListener;

/// The catalogue that offers the echo at `address`; the demo tenant's key lies in a file.
pub(crate) fn catalogue(address: std::net::SocketAddr, key_file: &str) -> String {
    format!(
        r#"version: 1
accounts:
  - name: echo
    provider: openai_compatible
    base_url: http://{address}/v1
    allow_private_address: true
    credential: none
    dialects: [openai.chat, openai.embeddings]
models:
  - name: demo
    price: {{input: 0.50, output: 1.50}}
    targets: [{{account: echo, model: echo}}]
  - name: demo-embed
    price: {{input: 0.02}}
    targets: [{{account: echo, model: echo-embed}}]
groups:
  - name: demo
    models: [demo, demo-embed]
tenants:
  - name: demo
    balance: 100.00
    keys:
      - {{name: demo, secret: "file:{key_file}", group: demo}}
"#
    )
}

/// Serves the echo on a bound listener until the lifecycle takes nothing new: it is the process's own, which stops after the
/// forwarder has ended.
pub(crate) fn serve(listener: TcpListener, clock: SharedClock, lifecycle: &Lifecycle) {
    let chat = {
        let clock = clock.clone();
        post(
            move |Json(request): Json<Chat>| async move { answer(&request, clock.now_ms() / 1_000) },
        )
    };
    let router = Router::new()
        .route("/v1/chat/completions", chat)
        .route("/v1/embeddings", post(embed));
    let stopping = lifecycle.stopping();
    lifecycle.spawn("demo upstream", async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(async move { stopping.cancelled().await })
            .await;
        if let Err(error) = served {
            tracing::warn!(%error, "demo upstream ended");
        }
    });
}

#[derive(Deserialize)]
struct Chat {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// The last message's text.
fn echoed(request: &Chat) -> String {
    let text = match request.messages.last().map(|message| &message.content) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join(" "),
        _ => String::new(),
    };
    format!("You said: {text}")
}

fn answer(request: &Chat, created: i64) -> Response {
    let text = echoed(request);
    // Words are the echo's tokens.
    let words = |text: &str| text.split_whitespace().count();
    let (input, output) = (words(&text).saturating_sub(2).max(1), words(&text));
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    let base = |object: &str| json!({"id": "chatcmpl-demo", "object": object, "created": created, "model": request.model});
    if !request.stream {
        let mut whole = base("chat.completion");
        whole["choices"] = json!([{"index": 0, "finish_reason": "stop", "logprobs": null,
            "message": {"role": "assistant", "content": text, "refusal": null}}]);
        whole["usage"] = usage;
        return Json(whole).into_response();
    }
    let chunk = |delta: Value, finish: Value| {
        let mut chunk = base("chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        chunk
    };
    let mut events = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    for word in text.split_inclusive(' ') {
        events.push(chunk(json!({"content": word}), Value::Null));
    }
    events.push(chunk(json!({}), json!("stop")));
    if request
        .stream_options
        .as_ref()
        .is_some_and(|options| options.include_usage)
    {
        let mut last = base("chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = usage;
        events.push(last);
    }
    let lines = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .chain(std::iter::once("data: [DONE]\n\n".to_owned()))
        .map(|line| Ok::<_, Infallible>(Bytes::from(line)))
        .collect::<Vec<_>>();
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(tokio_stream::iter(lines)),
    )
        .into_response()
}

#[derive(Deserialize)]
struct Embed {
    model: String,
    input: Value,
}

/// Three numbers made of each text's bytes: equal texts have equal vectors.
async fn embed(Json(request): Json<Embed>) -> Response {
    let texts: Vec<String> = match &request.input {
        Value::String(text) => vec![text.clone()],
        Value::Array(texts) => texts.iter().map(ToString::to_string).collect(),
        _ => return (StatusCode::BAD_REQUEST, "expected input").into_response(),
    };
    let mut data = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let sum: u64 = text.bytes().map(u64::from).sum();
        let vector = [sum % 97, sum % 89, sum % 83].map(|part| format!("0.{part:02}"));
        let vector: Value =
            serde_json::from_str(&format!("[{}]", vector.join(","))).unwrap_or_default();
        data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
    }
    let tokens: usize = texts
        .iter()
        .map(|text| text.split_whitespace().count().max(1))
        .sum();
    Json(
        json!({"object": "list", "model": request.model, "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}),
    )
    .into_response()
}
