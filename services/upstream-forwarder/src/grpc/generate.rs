//! `Generate`: a typed, one-to-one view of `openai.chat` (SURF-3). The request becomes a body of that dialect and takes the
//! way of all others.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Map, Value, json, value::RawValue};
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::sse::{DEFAULT_MAX_EVENT, Decoder};
use switchboard_proto::{
    common::v1::Dialect,
    inference::v1::{
        ContentPart, GenerateRequest, GenerateResponse, Message, RelayResponse, ResponseFormat,
        Tool, ToolCall, ToolChoice, content_part::Part,
    },
};
use tonic::Status;

use super::{
    answer::Chat,
    intake::{Intake, bounded},
    reply,
};
use crate::pipeline::{Body, Call};

/// The call that a request means.
pub(super) fn call(intake: Intake, request: GenerateRequest) -> Result<Call, Status> {
    let mut call = intake.call;
    call.dialect = Dialect::OpenaiChat;
    call.client_request_id = bounded(request.client_request_id.clone(), 256);
    call.tags = bounded(request.tags.clone(), 1_024);
    let body = body(request).map_err(Status::from)?;
    let text = serde_json::to_vec(&body).map_err(|_| Status::from(Failure::internal()))?;
    call.body = Body::Whole(text.into());
    Ok(call)
}

/// A request in OpenAI's form. What is absent stays absent.
fn body(request: GenerateRequest) -> Result<Value, Failure> {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.into());
    let messages: Vec<_> = request.messages.into_iter().map(message).collect();
    body.insert("messages".to_owned(), messages.into());
    if !request.tools.is_empty() {
        let tools: Result<Vec<_>, _> = request.tools.into_iter().zip(0..).map(tool).collect();
        body.insert("tools".to_owned(), tools?.into());
    }
    if !request.stop.is_empty() {
        body.insert("stop".to_owned(), request.stop.into());
    }
    if request.stream {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let optional = [
        ("tool_choice", request.tool_choice.map(tool_choice)),
        (
            "parallel_tool_calls",
            request.parallel_tool_calls.map(Value::from),
        ),
        (
            "max_completion_tokens",
            request.max_completion_tokens.map(Value::from),
        ),
        ("temperature", number("temperature", request.temperature)?),
        ("top_p", number("top_p", request.top_p)?),
        ("seed", request.seed.map(Value::from)),
        ("n", request.n.map(Value::from)),
        (
            "frequency_penalty",
            number("frequency_penalty", request.frequency_penalty)?,
        ),
        (
            "presence_penalty",
            number("presence_penalty", request.presence_penalty)?,
        ),
        (
            "reasoning_effort",
            request.reasoning_effort.map(Value::from),
        ),
        (
            "response_format",
            request.response_format.map(response_format).transpose()?,
        ),
        ("user", request.user.map(Value::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(body))
}

/// JSON has no NaN and no infinity: they would become `null`, which means something else.
fn number(field: &str, given: Option<f64>) -> Result<Option<Value>, Failure> {
    match given {
        Some(number) if !number.is_finite() => {
            let text = format!("`{field}` is invalid: expected a finite number, got {number}");
            Err(Failure::new(Reason::InvalidRequest, text).param(field))
        }
        given => Ok(given.map(Value::from)),
    }
}

fn message(message: Message) -> Value {
    let mut out = Map::new();
    let calls = !message.tool_calls.is_empty();
    out.insert("role".to_owned(), message.role.into());
    out.insert("content".to_owned(), content(message.content, calls));
    if calls {
        let calls: Vec<_> = message.tool_calls.into_iter().map(tool_call).collect();
        out.insert("tool_calls".to_owned(), calls.into());
    }
    for (name, text) in [
        ("tool_call_id", message.tool_call_id),
        ("name", message.name),
        ("refusal", message.refusal),
    ] {
        if !text.is_empty() {
            out.insert(name.to_owned(), text.into());
        }
    }
    Value::Object(out)
}

/// One text is a string, as every upstream understands it; anything else is a list of parts.
fn content(mut parts: Vec<ContentPart>, calls: bool) -> Value {
    if parts.is_empty() {
        return if calls { Value::Null } else { "".into() };
    }
    if let [
        ContentPart {
            part: Some(Part::Text(text)),
        },
    ] = parts.as_mut_slice()
    {
        return std::mem::take(text).into();
    }
    let part = |part: ContentPart| match part.part? {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::ImageUrl(image) if image.detail.is_empty() => {
            Some(json!({"type": "image_url", "image_url": {"url": image.url}}))
        }
        Part::ImageUrl(image) => Some(
            json!({"type": "image_url", "image_url": {"url": image.url, "detail": image.detail}}),
        ),
        Part::InputAudio(audio) => Some(
            json!({"type": "input_audio", "input_audio": {"data": audio.data, "format": audio.format}}),
        ),
    };
    parts.into_iter().filter_map(part).collect()
}

fn tool_call(call: ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn tool((tool, place): (Tool, usize)) -> Result<Value, Failure> {
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.name.into());
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), tool.description.into());
    }
    if !tool.parameters_json.is_empty() {
        let field = format!("tools[{place}].parameters_json");
        function.insert(
            "parameters".to_owned(),
            parsed(&field, &tool.parameters_json)?,
        );
    }
    if let Some(strict) = tool.strict {
        function.insert("strict".to_owned(), strict.into());
    }
    Ok(json!({"type": "function", "function": function}))
}

fn tool_choice(choice: ToolChoice) -> Value {
    if choice.mode == "function" {
        json!({"type": "function", "function": {"name": choice.name}})
    } else {
        choice.mode.into()
    }
}

fn response_format(format: ResponseFormat) -> Result<Value, Failure> {
    if format.r#type != "json_schema" {
        return Ok(json!({"type": format.r#type}));
    }
    let mut schema = Map::new();
    schema.insert("name".to_owned(), format.name.into());
    let text = &format.schema_json;
    schema.insert(
        "schema".to_owned(),
        parsed("response_format.schema_json", text)?,
    );
    if let Some(strict) = format.strict {
        schema.insert("strict".to_owned(), strict.into());
    }
    Ok(json!({"type": "json_schema", "json_schema": schema}))
}

fn parsed(field: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let text = format!("`{field}` is not valid JSON: {error}");
        Failure::new(Reason::InvalidRequest, text).param(field)
    })
}

/// The answer's events: one for a whole answer, one for each chunk of a stream.
pub(super) async fn answers(
    answers: impl Stream<Item = Result<RelayResponse, Status>> + Send + 'static,
) -> Result<impl Stream<Item = Result<GenerateResponse, Status>> + Send + 'static, Status> {
    let mut answers = answers.boxed();
    let (head, first) = reply::head(&mut answers).await?;
    let mut reading = Reading {
        answers,
        decoder: Decoder::new(DEFAULT_MAX_EVENT),
        ready: VecDeque::new(),
        ended: !head.event_stream,
    };
    if head.event_stream {
        reading.push(first)?;
    } else {
        reading
            .ready
            .push_back(reply::json::<Chat<'_>>(&first)?.into_response());
    }
    Ok(stream::unfold(Some(reading), |reading| async {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(event)) => Some((Ok(event), Some(reading))),
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    }))
}

struct Reading {
    answers: stream::BoxStream<'static, Result<RelayResponse, Status>>,
    decoder: Decoder,
    ready: VecDeque<GenerateResponse>,
    ended: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<GenerateResponse>, Status> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.answers.next().await.transpose()? {
                Some(message) => {
                    self.ended = message.end;
                    self.push(message.frame)?;
                }
                None => self.ended = true,
            }
        }
    }

    /// Our own stream is well-formed: whole events, JSON or `[DONE]`.
    fn push(&mut self, frame: Bytes) -> Result<(), Status> {
        self.decoder.push(frame);
        let unreadable = |_| Status::internal("the answer's stream cannot be read");
        while let Some(event) = self.decoder.next_event().map_err(unreadable)? {
            if &*event.data != b"[DONE]" {
                let chunk: &RawValue = reply::json(&event.data)?;
                let chunk: Chat<'_> = reply::json(chunk.get().as_bytes())?;
                self.ready.push_back(chunk.into_response());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::inference::v1::ImageUrl;

    use super::*;

    fn text(text: &str) -> ContentPart {
        ContentPart {
            part: Some(Part::Text(text.to_owned())),
        }
    }

    #[test]
    fn a_request_becomes_openais_body_and_what_is_absent_stays_absent() {
        let request = GenerateRequest {
            model: "m".to_owned(),
            messages: vec![
                Message {
                    role: "user".to_owned(),
                    content: vec![text("hi")],
                    ..Message::default()
                },
                Message {
                    role: "assistant".to_owned(),
                    tool_calls: vec![ToolCall {
                        id: "c1".to_owned(),
                        name: "f".to_owned(),
                        arguments: "{}".to_owned(),
                        index: 0,
                    }],
                    ..Message::default()
                },
                Message {
                    role: "user".to_owned(),
                    content: vec![
                        text("look"),
                        ContentPart {
                            part: Some(Part::ImageUrl(ImageUrl {
                                url: "u".to_owned(),
                                detail: String::new(),
                            })),
                        },
                    ],
                    ..Message::default()
                },
            ],
            tools: vec![Tool {
                name: "f".to_owned(),
                parameters_json: r#"{"type":"object"}"#.to_owned(),
                ..Tool::default()
            }],
            temperature: Some(0.0),
            stream: true,
            ..GenerateRequest::default()
        };
        let expected = json!({
            "model": "m",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "u"}}]},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.0,
        });
        assert_eq!(body(request), Ok(expected));
    }

    #[test]
    fn a_number_that_json_cannot_write_is_refused_and_never_sent_as_null() {
        let given = GenerateRequest::default;
        for (field, request) in [
            (
                "temperature",
                GenerateRequest {
                    temperature: Some(f64::NAN),
                    ..given()
                },
            ),
            (
                "top_p",
                GenerateRequest {
                    top_p: Some(f64::INFINITY),
                    ..given()
                },
            ),
            (
                "frequency_penalty",
                GenerateRequest {
                    frequency_penalty: Some(f64::NEG_INFINITY),
                    ..given()
                },
            ),
            (
                "presence_penalty",
                GenerateRequest {
                    presence_penalty: Some(f64::NAN),
                    ..given()
                },
            ),
        ] {
            let failure = body(request).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidRequest, "{field}");
            assert_eq!(failure.param.as_deref(), Some(field));
        }
    }

    #[test]
    fn a_schema_that_is_no_json_is_named() {
        let request = GenerateRequest {
            tools: vec![Tool {
                parameters_json: "{".to_owned(),
                ..Tool::default()
            }],
            ..GenerateRequest::default()
        };
        let failure = body(request).unwrap_err();
        assert_eq!(failure.param.as_deref(), Some("tools[0].parameters_json"));
    }
}
