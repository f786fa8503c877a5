//! The typed calls: the same product for callers on gRPC.

use fake_upstream::Script;
use futures_util::stream;
use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    common::v1::UsageSource,
    inference::v1::{
        ContentPart, EmbedRequest, GenerateRequest, GenerateResponse, ListModelsRequest, Message,
        RelayRequest, Tool, content_part::Part, inference_client::InferenceClient,
    },
};
use tonic::{Code, Request, Status};

use crate::rig::{KEY, Rig, config};

fn keyed<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

fn generate(stream: bool) -> GenerateRequest {
    GenerateRequest {
        model: "text".to_owned(),
        messages: vec![Message {
            role: "user".to_owned(),
            content: vec![ContentPart {
                part: Some(Part::Text("hi".to_owned())),
            }],
            ..Message::default()
        }],
        stream,
        ..GenerateRequest::default()
    }
}

async fn ask(
    rig: &Rig,
    request: GenerateRequest,
    key: &str,
) -> Result<(String, Vec<GenerateResponse>), Status> {
    let mut client = InferenceClient::new(rig.component.public_server());
    let response = client.generate(keyed(request, key)).await?;
    let id = response.metadata().get("x-request-id").unwrap();
    let id = id.to_str().unwrap().to_owned();
    let mut events = Vec::new();
    let mut answers = response.into_inner();
    while let Some(event) = answers.message().await? {
        events.push(event);
    }
    Ok((id, events))
}

#[tokio::test]
async fn a_typed_stream_brings_deltas_and_usage_on_the_last_event() {
    let rig = Rig::start().await;
    rig.upstream
        .push(Script::say(["one ", "two"]).prompt_tokens(9));
    let (id, events) = ask(&rig, generate(true), KEY).await.unwrap();
    let text: String = events
        .iter()
        .flat_map(|e| &e.choices)
        .map(|c| c.content.as_str())
        .collect();
    assert_eq!(text, "one two");
    assert!(events.iter().all(|event| event.model == "text"));
    let report = events.last().unwrap().usage.unwrap();
    assert_eq!(report.source(), UsageSource::Provider);
    let usage = report.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(9), Some(2))
    );
    let settlement = rig.settlement(&id).await;
    assert_eq!(settlement.usage, Some(usage));
    rig.end().await;
}

#[tokio::test]
async fn a_typed_whole_answer_is_one_event_with_its_tool_calls() {
    let rig = Rig::start().await;
    rig.upstream
        .push(Script::new().tool_call("c1", "weather", &["{\"city\":", "\"Bern\"}"]));
    let mut request = generate(false);
    request.tools = vec![Tool {
        name: "weather".to_owned(),
        parameters_json: r#"{"type":"object"}"#.to_owned(),
        ..Tool::default()
    }];
    let (_, events) = ask(&rig, request, KEY).await.unwrap();
    assert_eq!(events.len(), 1);
    let choice = &events[0].choices[0];
    assert_eq!(choice.finish_reason, "tool_calls");
    let call = &choice.tool_calls[0];
    assert_eq!((call.id.as_str(), call.name.as_str()), ("c1", "weather"));
    assert_eq!(call.arguments, r#"{"city":"Bern"}"#);
    assert!(events[0].usage.is_some());
    let asked = rig.world.state().acquired[0].capabilities.clone();
    assert_eq!(asked, ["tools"]);
    rig.end().await;
}

#[tokio::test]
async fn errors_carry_their_reason_and_the_request_id() {
    let rig = Rig::start().await;
    let status = ask(&rig, generate(true), "sk-sb-nobody").await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert_eq!(Failure::from_status(&status).reason, Reason::InvalidApiKey);
    assert!(status.metadata().get("x-request-id").is_some());
    rig.upstream
        .push(Script::error(400, "invalid_request_error", None, "too hot"));
    let status = ask(&rig, generate(true), KEY).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "too hot")
    );
    rig.upstream.push(Script::say(["a", "b"]).reset_after(1));
    let status = ask(&rig, generate(true), KEY).await.unwrap_err();
    assert_eq!(Failure::from_status(&status).reason, Reason::UpstreamFailed);
    assert!(status.metadata().get("x-request-id").is_some());
    rig.end().await;
}

#[tokio::test]
async fn embeddings_and_models_are_typed_too() {
    let rig = Rig::with(config(), |state| {
        for candidate in &mut state.candidates {
            candidate.url = candidate.url.replace("chat/completions", "embeddings");
        }
    })
    .await;
    let mut client = InferenceClient::new(rig.component.public_server());
    let request = EmbedRequest {
        model: "embed".to_owned(),
        input: vec!["one".to_owned(), "two".to_owned()],
        ..EmbedRequest::default()
    };
    let response = client.embed(keyed(request, KEY)).await.unwrap();
    assert!(response.metadata().get("x-request-id").is_some());
    let answer = response.into_inner();
    assert_eq!(answer.embeddings.len(), 2);
    assert!(!answer.embeddings[0].vector.is_empty());
    assert!(answer.usage.unwrap().usage.unwrap().input_tokens.unwrap() > 0);
    let listed = client
        .list_models(keyed(ListModelsRequest {}, KEY))
        .await
        .unwrap();
    let ids: Vec<_> = listed
        .into_inner()
        .models
        .into_iter()
        .map(|m| m.id)
        .collect();
    assert_eq!(ids, ["text", "embed"]);
    rig.end().await;
}

#[tokio::test]
async fn strangers_may_not_relay() {
    let rig = Rig::start().await;
    let mut client = InferenceClient::new(rig.component.public_server());
    let message = RelayRequest {
        head: Some(rig.head(switchboard_proto::common::v1::Dialect::OpenaiChat)),
        end: true,
        ..RelayRequest::default()
    };
    let refused = client.relay(stream::iter([message])).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let failure = switchboard_common::error::Failure::from_status(&refused);
    assert_eq!(
        failure.reason,
        switchboard_common::error::Reason::MethodNotAllowed
    );
    rig.end().await;
}
