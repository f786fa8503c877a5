//! The same clients, served by upstreams of other dialects (DIAL-1). What is left out stands here with its reason.

use switchboard_integration_tests::stack::{Builder, Stack};

use super::{Run, accept};

/// Fields that a script invents to see them pass, the upstream's own statuses and wordings, and what is not HTTP.
const OWN: &str = "tag:passthrough,tag:upstream-status,tag:ws,tag:lanes";
/// Chat, and what goes wrong with it.
const CHAT: &str = r"^(chat|error|cancel|retry|concurrency|async|keepalive)\.";
/// State that an upstream without it cannot keep: `previous_response_id` in the one case that is not tagged so.
const STATELESS: &str = "tag:state,tag:background,tag:count,responses.tools-stream-roundtrip";

async fn over(builder: Builder, script: &str, kind: &str, cases: &str, models: &[(&str, String)]) {
    let settings: Vec<_> = models
        .iter()
        .map(|(model, _)| [(kind, *model), ("CASES", cases)])
        .collect();
    let runs: Vec<_> = settings
        .iter()
        .zip(models)
        .map(|(settings, (_, skip))| Run {
            script,
            settings,
            skip,
        })
        .collect();
    Box::pin(accept(builder, &runs)).await;
}

async fn chat(builder: Builder) {
    let skip = |more: &str| format!("{OWN},{more}");
    let models = [
        ("over-anthropic", skip("")),
        ("over-gemini", skip("")),
        ("over-responses", skip("")),
    ];
    over(builder, "accept_openai.py", "CHAT_MODEL", CHAT, &models).await;
}

async fn responses(builder: Builder) {
    // Its check of reasoning looks for a seal, which a chat upstream does not make and this one of Gemini's puts on calls alone, and
    // into `input` of the upstream's own request.
    let skip = format!("{OWN},{STATELESS},responses.reasoning-stream");
    let models = ["over-chat", "over-anthropic", "over-gemini"].map(|model| (model, skip.clone()));
    let cases = r"^responses\.";
    over(
        builder,
        "accept_openai.py",
        "RESPONSES_MODEL",
        cases,
        &models,
    )
    .await;
}

async fn anthropic(builder: Builder) {
    // Counting is a dialect's own; the list of models is no answer of one.
    let skip = |more: &str| format!("{OWN},tag:count,tag:models,{more}");
    // Its check of signatures looks for the caller's own text in the upstream's request: with us it carries its maker's mark.
    let signature = "thinking.roundtrip";
    let models = [
        ("over-chat", skip(signature)),
        ("over-responses", skip(signature)),
        // Gemini tells nothing of what was written to a cache.
        ("over-gemini", skip(&format!("{signature},tag:cache-write"))),
    ];
    over(
        builder,
        "accept_anthropic.py",
        "ANTHROPIC_MODEL",
        ".",
        &models,
    )
    .await;
}

async fn gemini(builder: Builder) {
    // Counting and embedding are a dialect's own. The round trip of parallel calls demands a signature on a call: none of these
    // upstreams makes any.
    let skip = format!("{OWN},tag:count,tag:embeddings,tools.parallel-roundtrip");
    let models = ["over-chat", "over-anthropic"].map(|model| (model, skip.clone()));
    over(builder, "accept_gemini.py", "GEMINI_MODEL", ".", &models).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chat_is_served_by_upstreams_of_other_dialects_in_one_process() {
    chat(Stack::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chat_is_served_by_upstreams_of_other_dialects_in_a_split_system() {
    chat(Stack::split()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn responses_are_served_by_upstreams_of_other_dialects_in_one_process() {
    responses(Stack::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn responses_are_served_by_upstreams_of_other_dialects_in_a_split_system() {
    responses(Stack::split()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_are_served_by_upstreams_of_other_dialects_in_one_process() {
    anthropic(Stack::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_are_served_by_upstreams_of_other_dialects_in_a_split_system() {
    anthropic(Stack::split()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn googles_client_is_served_by_upstreams_of_other_dialects_in_one_process() {
    gemini(Stack::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn googles_client_is_served_by_upstreams_of_other_dialects_in_a_split_system() {
    gemini(Stack::split()).await;
}
