//! Completions, images, speech, transcriptions, moderations, rerank: what passes, what fails over, what is settled.

use bytes::Bytes;
use fake_upstream::Script;
use serde_json::{Value, json};
use switchboard_common::error::Reason;
use switchboard_proto::{
    billing::v1::{Ending, ReserveRequest},
    common::v1::{Dialect, Endpoint, Usage, UsageSource},
    scheduler::v1::Parameters,
};

use crate::rig::{Answer, Rig, SECRET, config};

const FORM: &str = "multipart/form-data; boundary=BB";

/// A form with a model and a file whose bytes are everything that a byte can be.
fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body =
        b"--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t.mp3\"\r\n\r\n"
            .to_vec();
    body.extend((0..=255).cycle().take(32_000));
    for (name, value) in fields {
        let part =
            format!("\r\n--BB\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
        body.extend_from_slice(part.as_bytes());
    }
    body.extend_from_slice(b"\r\n--BB--\r\n");
    body
}

impl Rig {
    async fn ask(&self, dialect: Dialect, endpoint: Endpoint, body: &Value) -> Answer {
        let mut head = self.head(dialect);
        head.endpoint = endpoint as i32;
        head.content_type = "application/json".to_owned();
        self.relay(head, body.to_string().into()).await
    }

    async fn transcribe(&self, fields: &[(&str, &str)]) -> Answer {
        let mut head = self.head(Dialect::OpenaiAudio);
        head.endpoint = Endpoint::Transcription as i32;
        head.content_type = FORM.to_owned();
        self.relay(head, form(fields).into()).await
    }

    fn hold(&self) -> ReserveRequest {
        self.world.state().reserved[0].clone()
    }
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[tokio::test]
async fn a_completions_stream_is_settled_by_the_usage_that_its_caller_does_not_see() {
    let rig = Rig::start().await;
    let chunk = |text: &str, finish: Option<&str>| {
        json!({"id": "cmpl-1", "object": "text_completion", "model": "upstream-gpt",
            "choices": [{"text": text, "index": 0, "logprobs": null, "finish_reason": finish}]})
        .to_string()
    };
    let usage = json!({"id": "cmpl-1", "object": "text_completion", "choices": [],
        "usage": {"prompt_tokens": 26, "completion_tokens": 5, "total_tokens": 31}});
    rig.upstream.push(Script::events([
        chunk("he", None),
        chunk("llo", Some("stop")),
        usage.to_string(),
        "[DONE]".to_owned(),
    ]));
    let body = json!({"model": "text", "prompt": ["a", "b"], "best_of": 3, "stream": true, "max_tokens": 7});
    let answer = rig
        .ask(Dialect::OpenaiCompletions, Endpoint::Unspecified, &body)
        .await;
    assert_eq!(answer.failure, None);
    assert!(answer.event_stream && answer.ended);
    let text = answer.text();
    assert!(
        !text.contains("usage") && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    assert!(text.contains("\"model\":\"text\""), "{text}");
    let mut expected = body.clone();
    expected["model"] = "upstream-gpt".into();
    expected["stream_options"] = json!({"include_usage": true});
    assert_eq!(rig.upstream.log().requests[0].json(), expected);
    assert_eq!(
        (rig.hold().choices, rig.hold().requested_output),
        (6, Some(7))
    );
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(settled.usage_source(), UsageSource::Provider);
    let usage = settled.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(26), Some(5))
    );
    rig.end().await;
}

#[tokio::test]
async fn images_are_held_and_settled_by_their_number() {
    let rig = Rig::start().await;
    // Two hundred with an error inside is a failure like any other.
    rig.upstream.push(Script::error(
        200,
        "server_error",
        Some("server_error"),
        "busy",
    ));
    rig.upstream.push(Script::json(
        200,
        &json!({"created": 1, "data": [{"b64_json": "eA=="}, {"b64_json": "eQ=="}],
            "usage": {"input_tokens": 5, "output_tokens": 10, "total_tokens": 15}}),
    ));
    let body = json!({"model": "text", "prompt": "a cat", "n": 2});
    let answer = rig
        .ask(Dialect::OpenaiImages, Endpoint::Unspecified, &body)
        .await;
    assert_eq!((answer.status, answer.failure.clone()), (200, None));
    assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
    let hold = rig.hold();
    assert_eq!((hold.images, hold.choices, hold.uncapped), (2, 2, true));
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(
        (settled.attempts.len(), settled.usage_source()),
        (2, UsageSource::Provider)
    );
    let expected = Usage {
        input_tokens: Some(5),
        output_tokens: Some(10),
        images: Some(2),
        ..Usage::default()
    };
    assert_eq!(settled.usage, Some(expected));
    rig.end().await;
}

#[tokio::test]
async fn a_stream_of_images_that_breaks_after_a_partial_one_is_charged_as_an_image() {
    let rig = Rig::start().await;
    let partial = event(
        "image_generation.partial_image",
        &json!({"type": "image_generation.partial_image", "b64_json": "eA=="}),
    );
    rig.upstream.push(Script::event_bytes(partial.clone()));
    let body = json!({"model": "text", "prompt": "a cat", "stream": true});
    let answer = rig
        .ask(Dialect::OpenaiImages, Endpoint::Unspecified, &body)
        .await;
    assert_eq!(answer.text(), partial);
    assert!(
        answer.failure.is_some(),
        "the edge ends it with an error event"
    );
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(settled.ending(), Ending::UpstreamBroke);
    assert_eq!(settled.usage.unwrap().images, Some(1));
    rig.end().await;
}

#[tokio::test]
async fn speech_passes_as_bytes_with_the_upstreams_type_after_a_failed_attempt() {
    let rig = Rig::start().await;
    let audio: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    rig.upstream.push(Script::error(
        200,
        "server_error",
        Some("server_error"),
        "busy",
    ));
    rig.upstream
        .push(Script::body(200, "audio/mpeg", audio.clone()));
    let body = json!({"model": "text", "input": "hello there", "voice": "alloy"});
    let answer = rig.ask(Dialect::OpenaiAudio, Endpoint::Speech, &body).await;
    assert_eq!(answer.failure, None);
    assert_eq!(
        (answer.status, answer.event_stream, answer.ended),
        (200, false, true)
    );
    assert_eq!(answer.header("content-type"), Some("audio/mpeg"));
    assert_eq!(answer.body, audio);
    let log = rig.upstream.log();
    assert_eq!(log.requests[1].header("accept"), Some("*/*"));
    assert_eq!((rig.hold().input_bytes, rig.hold().no_output), (11, true));
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(
        (settled.ending(), settled.usage_source()),
        (Ending::Complete, UsageSource::Estimated)
    );
    assert_eq!(settled.usage.unwrap().input_tokens, Some(2));
    rig.end().await;
}

#[tokio::test]
async fn speech_that_is_cut_off_is_never_ended_as_if_it_were_whole() {
    let rig = Rig::start().await;
    let cut = Script::body(200, "audio/mpeg", vec![7; 100_000]).reset_at_byte(50_000);
    rig.upstream.push(cut);
    let body = json!({"model": "text", "input": "hello", "voice": "alloy"});
    let answer = rig.ask(Dialect::OpenaiAudio, Endpoint::Speech, &body).await;
    assert!(!answer.ended && answer.failure.is_some());
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(settled.ending(), Ending::UpstreamBroke);
    rig.end().await;
}

#[tokio::test]
async fn a_page_is_neither_speech_nor_a_transcript() {
    let rig = Rig::start().await;
    let body = json!({"model": "text", "input": "hello", "voice": "alloy"});
    rig.upstream.push(Script::html(200));
    rig.upstream.push(Script::body(200, "text/plain", "sorry"));
    let spoken = rig.ask(Dialect::OpenaiAudio, Endpoint::Speech, &body).await;
    assert_eq!(
        spoken.failure.map(|failure| failure.reason),
        Some(Reason::UpstreamFailed)
    );
    let settled = rig.settlement(&spoken.id).await;
    let errors: Vec<_> = settled.attempts.iter().map(|a| a.error.as_str()).collect();
    assert_eq!(errors, ["malformed", "malformed"]);
    assert!(settled.charge_nothing);
    let error = r#"{ "error": {"message": "busy", "code": 503}}"#;
    rig.upstream
        .push_on_key(SECRET, Script::body(200, "audio/mpeg", error));
    rig.upstream.push(Script::body(200, "audio/mpeg", "{sound"));
    let spoken = rig.ask(Dialect::OpenaiAudio, Endpoint::Speech, &body).await;
    assert_eq!((spoken.failure.clone(), spoken.text()), (None, "{sound"));
    let settled = rig.settlement(&spoken.id).await;
    let errors: Vec<_> = settled.attempts.iter().map(|a| a.error.as_str()).collect();
    assert_eq!(errors, ["overloaded", ""]);

    rig.upstream.push(Script::html(200));
    rig.upstream
        .push(Script::body(200, "text/html; charset=utf-8", "heard"));
    let heard = rig
        .transcribe(&[("model", "text"), ("response_format", "text")])
        .await;
    assert_eq!((heard.status, heard.text()), (200, "heard"));
    assert_eq!(rig.settlement(&heard.id).await.attempts.len(), 2);
    rig.end().await;
}

#[tokio::test]
async fn a_form_is_sent_again_whole_to_the_next_target() {
    let rig = Rig::start().await;
    rig.upstream
        .push(Script::error(503, "server_error", None, "busy"));
    rig.upstream.push(Script::json(
        200,
        &json!({"text": "heard", "usage": {"type": "duration", "seconds": 2.5}}),
    ));
    let answer = rig
        .transcribe(&[("model", "text"), ("language", "en")])
        .await;
    assert_eq!((answer.status, answer.failure.clone()), (200, None));
    assert_eq!(answer.json()["text"], "heard");
    let log = rig.upstream.log();
    let expected = form(&[("model", "upstream-gpt"), ("language", "en")]);
    assert_eq!(log.requests.len(), 2);
    for sent in &log.requests {
        assert_eq!(sent.header("content-type"), Some(FORM));
        assert!(sent.body == expected, "every byte but the model's name");
    }
    assert_eq!((rig.hold().audio_millis, rig.hold().images), (2_000, 0));
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(
        (settled.audio_millis, settled.usage_source()),
        (2_000, UsageSource::Provider)
    );
    assert_eq!(settled.usage.unwrap().audio_millis, Some(2_500));
    rig.end().await;
}

#[tokio::test]
async fn a_transcript_in_plain_text_keeps_its_type_and_is_estimated_by_its_audio() {
    let rig = Rig::start().await;
    let cues = "1\n00:00:00,000 --> 00:00:02,000\nheard\n";
    rig.upstream
        .push(Script::body(200, "text/plain; charset=utf-8", cues));
    let answer = rig
        .transcribe(&[("model", "text"), ("response_format", "srt")])
        .await;
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(answer.text(), cues);
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(settled.usage_source(), UsageSource::Estimated);
    assert_eq!(settled.usage.unwrap().audio_millis, Some(2_000));
    rig.end().await;
}

#[tokio::test]
async fn a_form_without_a_model_or_a_boundary_is_the_callers_mistake() {
    let rig = Rig::start().await;
    let answer = rig.transcribe(&[("language", "en")]).await;
    let failure = answer.failure.unwrap();
    assert_eq!(
        (failure.reason as i32, failure.param.as_deref()),
        (Reason::InvalidRequest as i32, Some("model"))
    );
    let mut head = rig.head(Dialect::OpenaiAudio);
    head.endpoint = Endpoint::Transcription as i32;
    head.content_type = "application/json".to_owned();
    let failure = rig
        .relay(head, Bytes::from_static(b"{}"))
        .await
        .failure
        .unwrap();
    assert!(
        failure.message.contains("multipart/form-data"),
        "{}",
        failure.message
    );
    assert_eq!(rig.upstream.log().requests.len(), 0);
    rig.end().await;
}

#[tokio::test]
async fn a_transcript_streams_to_its_last_event() {
    let rig = Rig::start().await;
    let said = event(
        "transcript.text.delta",
        &json!({"type": "transcript.text.delta", "delta": "hi"}),
    ) + &event(
        "transcript.text.done",
        &json!({"type": "transcript.text.done", "text": "hi",
            "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 6, "input_token_details": {"audio_tokens": 14}}}),
    );
    rig.upstream.push(Script::event_bytes(said.clone()));
    let answer = rig
        .transcribe(&[("model", "text"), ("stream", "true")])
        .await;
    assert_eq!(
        (answer.text(), answer.ended, answer.event_stream),
        (said.as_str(), true, true)
    );
    let usage = rig.settlement(&answer.id).await.usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.audio_input_tokens,
            usage.output_tokens
        ),
        (Some(14), Some(14), Some(6))
    );
    rig.end().await;
}

#[tokio::test]
async fn moderations_and_rankings_pass_and_have_no_output() {
    let rig = Rig::start().await;
    rig.upstream.push(Script::json(
        200,
        &json!({"id": "modr-1", "model": "upstream-gpt", "results": [{"flagged": true}]}),
    ));
    let body = json!({"model": "text", "input": ["fine"]});
    let judged = rig
        .ask(Dialect::OpenaiModerations, Endpoint::Unspecified, &body)
        .await;
    assert_eq!(
        judged.json(),
        json!({"id": "modr-1", "model": "text", "results": [{"flagged": true}]})
    );
    let settled = rig.settlement(&judged.id).await;
    assert_eq!(
        (settled.usage_source(), settled.usage.unwrap().output_tokens),
        (UsageSource::Estimated, Some(0))
    );

    // A ranking of documents that were not given is none.
    let ranked = |index: u64| json!({"results": [{"index": index, "relevance_score": 0.5}], "usage": {"total_tokens": 9}});
    rig.upstream.push(Script::json(200, &ranked(7)));
    rig.upstream.push(Script::json(200, &ranked(1)));
    let body = json!({"model": "text", "query": "q", "documents": ["a", "b"], "top_n": 1});
    let answer = rig.ask(Dialect::Rerank, Endpoint::Unspecified, &body).await;
    assert_eq!(answer.json(), ranked(1));
    let settled = rig.settlement(&answer.id).await;
    assert_eq!(
        (settled.attempts.len(), settled.usage.unwrap().input_tokens),
        (2, Some(9))
    );
    assert_eq!(settled.usage_source(), UsageSource::Provider);
    rig.end().await;
}

/// A map that takes nothing but `size` and `dimensions`.
async fn taking_little() -> Rig {
    Rig::with(config(), |state| {
        state.candidates[0].parameters = Some(Parameters {
            supported: ["size", "dimensions"].map(str::to_owned).into(),
            has_supported: true,
            rename: [("dimensions".to_owned(), "dim".to_owned())].into(),
            ..Parameters::default()
        });
    })
    .await
}

/// FWD-11 holds at every endpoint.
#[tokio::test]
async fn what_an_account_does_not_take_is_named_and_left_out_at_every_endpoint() {
    let images = json!({"data": [{"b64_json": "QQ=="}]});
    let ranking = json!({"results": [{"index": 0, "relevance_score": 0.5}]});
    let moderation = json!({"id": "m", "model": "m", "results": [{"flagged": false}]});
    for (dialect, endpoint, asked, dropped, answer) in [
        (
            Dialect::OpenaiImages,
            Endpoint::Unspecified,
            json!({"model": "upstream-gpt", "prompt": "a cat", "size": "1x1"}),
            "quality",
            images,
        ),
        (
            Dialect::OpenaiModerations,
            Endpoint::Unspecified,
            json!({"model": "upstream-gpt", "input": "x"}),
            "user",
            moderation,
        ),
        (
            Dialect::Rerank,
            Endpoint::Unspecified,
            json!({"model": "upstream-gpt", "query": "q", "documents": ["a"]}),
            "top_n",
            ranking,
        ),
    ] {
        let rig = taking_little().await;
        rig.upstream.push(Script::json(200, &answer));
        let mut body = asked.clone();
        body["model"] = "text".into();
        body[dropped] = 1.into();
        let answer = rig.ask(dialect, endpoint, &body).await;
        assert_eq!((answer.status, &answer.failure), (200, &None), "{dropped}");
        assert_eq!(answer.header("x-switchboard-dropped-params"), Some(dropped));
        assert_eq!(rig.upstream.log().requests[0].json(), asked);
        rig.end().await;
    }
    let rig = taking_little().await;
    rig.upstream
        .push(Script::body(200, "audio/mpeg", &b"audio"[..]));
    let body = json!({"model": "text", "input": "hello", "voice": "alloy", "speed": 2, "stream_format": "sse"});
    let spoken = rig.ask(Dialect::OpenaiAudio, Endpoint::Speech, &body).await;
    assert_eq!((spoken.status, &spoken.failure), (200, &None));
    assert_eq!(spoken.header("x-switchboard-dropped-params"), Some("speed"));
    assert!(spoken.text().contains("speech.audio.delta"));
    assert_eq!(
        rig.upstream.log().requests[0].json(),
        json!({"model": "upstream-gpt", "input": "hello", "voice": "alloy"})
    );
    rig.end().await;
    let rig = taking_little().await;
    rig.upstream
        .push(Script::json(200, &json!({"text": "heard"})));
    let heard = rig
        .transcribe(&[("model", "text"), ("language", "en")])
        .await;
    assert_eq!((heard.status, &heard.failure), (200, &None));
    assert_eq!(
        heard.header("x-switchboard-dropped-params"),
        Some("language")
    );
    assert!(rig.upstream.log().requests[0].body == form(&[("model", "upstream-gpt")]));
    rig.end().await;
}

/// The official clients ask for base64 by themselves: they get it whatever the account takes (CASES D10).
#[tokio::test]
async fn an_encoding_that_an_account_does_not_take_is_made_here_and_is_not_dropped() {
    let rig = taking_little().await;
    rig.upstream.push(Script::json(
        200,
        &json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0, -2.0]}], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}),
    ));
    rig.world.state().candidates[0]
        .parameters
        .as_mut()
        .unwrap()
        .reject = Some(true);
    let body = json!({"model": "text", "input": "x", "encoding_format": "base64", "dimensions": 2});
    let answer = rig
        .ask(Dialect::OpenaiEmbeddings, Endpoint::Unspecified, &body)
        .await;
    assert_eq!((answer.status, &answer.failure), (200, &None));
    assert_eq!(answer.json()["data"][0]["embedding"], "AACAPwAAAMA=");
    assert_eq!(answer.header("x-switchboard-dropped-params"), None);
    assert_eq!(
        rig.upstream.log().requests[0].json(),
        json!({"model": "upstream-gpt", "input": "x", "dim": 2})
    );
    rig.end().await;
}
