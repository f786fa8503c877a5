//! Every dialect that is served, with a request, an answer and a stream of its own: what must hold in each of them is tested
//! once, over this table.

use bytes::Bytes;
use fake_upstream::Script;
use serde_json::{Value, json};
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    inference::v1::RelayHead,
};

use crate::rig::{Answer, Rig, config};

/// What is said in each answer: characters of several bytes, so that none of them may be cut.
pub const SAID: &str = "안녕하세요";

/// A vendor's form of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    OpenAi,
    Anthropic,
    Google,
}

/// One dialect.
#[derive(Clone, Debug)]
pub struct Spoken {
    pub name: &'static str,
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    pub vendor: Vendor,
    /// The request, and what is added to it where a stream is asked for.
    pub request: Value,
    /// A whole answer.
    pub whole: String,
    /// A stream: what comes before content, content, what ends it.
    pub stream: Option<[String; 3]>,
    /// What marks its regular end.
    pub end: &'static str,
    /// What keeps it alive while nothing comes.
    pub keep_alive: &'static str,
}

const COMMENT: &str = ": keep-alive\n\n";

impl Vendor {
    /// An error in its form.
    pub fn error(self, status: u16, message: &str) -> Value {
        let (kind, word) = match status {
            400..=499 => ("invalid_request_error", "INVALID_ARGUMENT"),
            _ => ("api_error", "UNAVAILABLE"),
        };
        match self {
            Self::OpenAi => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Google => {
                json!({"error": {"code": status, "message": message, "status": word}})
            }
        }
    }

    /// The same as an event of a stream.
    pub fn event(self, status: u16, message: &str) -> String {
        let error = self.error(status, message);
        match self {
            Self::Anthropic => named("error", &error),
            Self::OpenAi | Self::Google => data(&error),
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// An event whose data says its type.
fn typed(value: &Value) -> String {
    named(value["type"].as_str().unwrap(), value)
}

impl Spoken {
    fn new(name: &'static str, dialect: Dialect, request: Value, whole: &Value) -> Self {
        Self {
            name,
            dialect,
            endpoint: Endpoint::Unspecified,
            vendor: Vendor::OpenAi,
            request,
            whole: whole.to_string(),
            stream: None,
            end: "",
            keep_alive: COMMENT,
        }
    }

    fn at(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = endpoint;
        self
    }

    fn of(mut self, vendor: Vendor) -> Self {
        self.vendor = vendor;
        self
    }

    fn streams(mut self, parts: [String; 3], end: &'static str) -> Self {
        self.stream = Some(parts);
        self.end = end;
        self
    }

    fn alive(mut self, keep_alive: &'static str) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// A forwarder between callers and upstreams that speak this.
    pub async fn rig(&self) -> Rig {
        let mut config = config();
        config.retries_in_hand = 10_000;
        Rig::with(config, |state| {
            for candidate in &mut state.candidates {
                candidate.dialect = self.dialect as i32;
                let provider = match self.vendor {
                    Vendor::OpenAi => "openai_compatible",
                    Vendor::Anthropic => "anthropic",
                    Vendor::Google => "gemini",
                };
                provider.clone_into(&mut candidate.provider);
            }
        })
        .await
    }

    /// Whether both ways of asking exist.
    pub fn ways(&self) -> &'static [bool] {
        if self.stream.is_some() {
            &[false, true]
        } else {
            &[false]
        }
    }

    pub fn head(&self, rig: &Rig, stream: bool) -> RelayHead {
        let mut head = rig.head(self.dialect);
        head.endpoint = self.endpoint as i32;
        head.content_type = "application/json".to_owned();
        if self.endpoint == Endpoint::Transcription {
            head.content_type = "multipart/form-data; boundary=BB".to_owned();
        }
        if self.vendor == Vendor::Google {
            head.resource = "text".to_owned();
            if stream {
                head.endpoint = Endpoint::Stream as i32;
                head.query = "alt=sse".to_owned();
            }
        }
        head
    }

    pub fn body(&self, stream: bool) -> Bytes {
        if self.endpoint == Endpoint::Transcription {
            let part = |name: &str, value: &str| {
                format!(
                    "--BB\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
                )
            };
            let file = "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\nsound\r\n";
            let stream = if stream {
                part("stream", "true")
            } else {
                String::new()
            };
            return format!("{}{stream}{file}--BB--\r\n", part("model", "text")).into();
        }
        let mut body = self.request.clone();
        if stream && self.vendor != Vendor::Google {
            body["stream"] = true.into();
        }
        body.to_string().into()
    }

    pub async fn ask(&self, rig: &Rig, stream: bool) -> Answer {
        rig.relay(self.head(rig, stream), self.body(stream)).await
    }

    /// The bytes of a good answer.
    pub fn answer(&self, stream: bool) -> String {
        match &self.stream {
            Some(parts) if stream => parts.concat(),
            _ => self.whole.clone(),
        }
    }

    /// A good answer.
    pub fn good(&self, stream: bool) -> Script {
        if stream {
            Script::event_bytes(self.answer(true))
        } else {
            Script::body(200, "application/json", self.answer(false))
        }
    }
}

fn usage(input: &str, output: &str) -> Value {
    json!({input: 9, output: 4, "total_tokens": 13})
}

fn chat() -> Spoken {
    let chunk = |delta: Value, finish: Option<&str>| {
        data(
            &json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "upstream-gpt",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
        )
    };
    let messages = json!([{"role": "user", "content": "hi"}]);
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "upstream-gpt",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}],
        "usage": usage("prompt_tokens", "completion_tokens")});
    let last = chunk(json!({}), Some("stop")) + "data: [DONE]\n\n";
    Spoken::new(
        "chat",
        Dialect::OpenaiChat,
        json!({"model": "text", "messages": messages}),
        &whole,
    )
    .streams(
        [
            chunk(json!({"role": "assistant", "content": ""}), None),
            chunk(json!({"content": SAID}), None),
            last,
        ],
        "[DONE]",
    )
}

fn completions() -> Spoken {
    let chunk = |text: &str, finish: Option<&str>| {
        data(
            &json!({"id": "c", "object": "text_completion", "created": 1, "model": "upstream-gpt",
            "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]}),
        )
    };
    let whole = json!({"id": "c", "object": "text_completion", "created": 1, "model": "upstream-gpt",
        "choices": [{"index": 0, "text": SAID, "logprobs": null, "finish_reason": "stop"}],
        "usage": usage("prompt_tokens", "completion_tokens")});
    let last = chunk("", Some("stop")) + "data: [DONE]\n\n";
    Spoken::new(
        "completions",
        Dialect::OpenaiCompletions,
        json!({"model": "text", "prompt": "hi"}),
        &whole,
    )
    .streams([chunk("", None), chunk(SAID, None), last], "[DONE]")
}

fn responses() -> Spoken {
    let response = |status: &str, output: Value, usage: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": null,
            "model": "upstream-gpt", "output": output, "usage": usage})
    };
    let message = json!([{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": SAID, "annotations": []}]}]);
    let whole = response("completed", message, usage("input_tokens", "output_tokens"));
    let lifecycle = |kind: &str, at: u64, response: &Value| {
        typed(&json!({"type": kind, "sequence_number": at, "response": response}))
    };
    let begun = lifecycle(
        "response.created",
        0,
        &response("in_progress", json!([]), Value::Null),
    );
    let delta = typed(
        &json!({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "msg_1",
        "output_index": 0, "content_index": 0, "delta": SAID}),
    );
    let end = lifecycle("response.completed", 2, &whole);
    let request = json!({"model": "text", "input": "hi", "store": false});
    Spoken::new("responses", Dialect::OpenaiResponses, request, &whole)
        .streams([begun, delta, end], "response.completed")
}

fn messages() -> Spoken {
    let message = |content: Value, stop: Option<&str>, output: u64| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "upstream-gpt",
            "content": content, "stop_reason": stop, "usage": {"input_tokens": 9, "output_tokens": output}})
    };
    let begun = typed(&json!({"type": "message_start", "message": message(json!([]), None, 1)}))
        + &typed(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
    let delta = typed(
        &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SAID}}),
    );
    let end = typed(&json!({"type": "content_block_stop", "index": 0}))
        + &typed(
            &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}),
        )
        + &typed(&json!({"type": "message_stop"}));
    let whole = message(json!([{"type": "text", "text": SAID}]), Some("end_turn"), 4);
    let request =
        json!({"model": "text", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    Spoken::new("messages", Dialect::AnthropicMessages, request, &whole)
        .of(Vendor::Anthropic)
        .streams([begun, delta, end], "message_stop")
        .alive("event: ping\ndata: {\"type\": \"ping\"}\n\n")
}

fn gemini() -> Spoken {
    let response = |text: &str, finish: Option<&str>| {
        let mut candidate =
            json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        json!({"candidates": [candidate], "modelVersion": "upstream-gpt",
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}})
    };
    let request = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    Spoken::new(
        "gemini",
        Dialect::GeminiGenerate,
        request,
        &response(SAID, Some("STOP")),
    )
    .of(Vendor::Google)
    .streams(
        [
            data(&response("", None)),
            data(&response(SAID, None)),
            data(&response("", Some("STOP"))),
        ],
        "STOP",
    )
    .alive("")
}

fn images() -> Spoken {
    let event = |kind: &str, image: &str| {
        typed(
            &json!({"type": kind, "b64_json": image, "created_at": 1, "partial_image_index": 0, "x": SAID}),
        )
    };
    Spoken::new(
        "images",
        Dialect::OpenaiImages,
        json!({"model": "text", "prompt": "a cat"}),
        &json!({"created": 1, "data": [{"b64_json": "eA==", "revised_prompt": SAID}]}),
    )
    .streams(
        [
            String::new(),
            event("image_generation.partial_image", "eA=="),
            event("image_generation.completed", "eQ=="),
        ],
        "image_generation.completed",
    )
}

fn transcription() -> Spoken {
    let delta = typed(&json!({"type": "transcript.text.delta", "delta": SAID}));
    let done = typed(&json!({"type": "transcript.text.done", "text": SAID}));
    Spoken::new(
        "transcription",
        Dialect::OpenaiAudio,
        Value::Null,
        &json!({"text": SAID}),
    )
    .at(Endpoint::Transcription)
    .streams([String::new(), delta, done], "transcript.text.done")
}

fn others() -> [Spoken; 3] {
    [
        Spoken::new(
            "embeddings",
            Dialect::OpenaiEmbeddings,
            json!({"model": "text", "input": ["hi"]}),
            &json!({"object": "list", "model": "upstream-gpt", "x": SAID,
                "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
                "usage": {"prompt_tokens": 9, "total_tokens": 9}}),
        ),
        Spoken::new(
            "moderations",
            Dialect::OpenaiModerations,
            json!({"model": "text", "input": ["hi"]}),
            &json!({"id": "m", "model": "upstream-gpt", "results": [{"flagged": false, "x": SAID}]}),
        ),
        Spoken::new(
            "rerank",
            Dialect::Rerank,
            json!({"model": "text", "query": "q", "documents": ["a", "b"]}),
            &json!({"x": SAID, "results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.4}]}),
        ),
    ]
}

/// All of them.
pub fn all() -> Vec<Spoken> {
    let mut all = vec![
        chat(),
        completions(),
        responses(),
        messages(),
        gemini(),
        images(),
        transcription(),
    ];
    all.extend(others());
    all
}

/// Those that stream.
pub fn streaming() -> impl Iterator<Item = Spoken> {
    all().into_iter().filter(|spoken| spoken.stream.is_some())
}
