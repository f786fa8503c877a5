//! The list of models and one of them, as the client at hand knows it: read from the catalogue, never billed (SPEC SURF-1).

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::Serialize;
use switchboard_common::error::Failure;
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    inference::v1::ResponseHead,
    scheduler::v1::PublicModel,
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Course,
    admit::{Admitted, Call},
    head::header,
    limits,
    page::Page,
};
use crate::{
    caller::Caller,
    domain::{admission, catalogue::Catalogue, settlement::End},
};

/// OpenAI's list.
#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Card<'a>>,
}

/// OpenAI's model object.
#[derive(Serialize)]
struct Card<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

/// Anthropic's list (PROTOCOLS §7.3).
#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicCard<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

/// Anthropic's model object.
#[derive(Serialize)]
struct AnthropicCard<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
}

/// Whether a call is about models instead of one.
pub(super) fn asked_for(call: &Call) -> bool {
    call.dialect == Dialect::OpenaiModels
        || matches!(
            call.endpoint,
            Endpoint::AnthropicModels | Endpoint::GeminiModels
        )
}

/// Gemini's list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiList<'a> {
    models: Vec<GeminiCard<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

/// Gemini's model resource (PROTOCOLS §8).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCard<'a> {
    name: String,
    version: &'static str,
    display_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_token_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_limit: Option<u64>,
    supported_generation_methods: &'static [&'static str],
}

/// The body for `GET /v1/models` and `GET /v1/models/{id}`, in the form that the caller's vendor has.
pub(super) fn list(
    call: &Call,
    who: &admission::Caller,
    catalogue: &Catalogue,
) -> Result<Bytes, Failure> {
    if call.endpoint == Endpoint::GeminiModels {
        return list_gemini(call, who, catalogue);
    }
    let anthropic = call.endpoint == Endpoint::AnthropicModels;
    if !call.resource.is_empty() {
        let (id, dialect) = (call.resource.as_str(), Dialect::OpenaiModels);
        let created = who.model(catalogue, id, dialect)?.model.created;
        return Ok(if anthropic {
            json(&anthropic_card(id, created))
        } else {
            json(&card(id, created))
        });
    }
    let listed = catalogue.list(&who.principal.group, &who.principal.models);
    let page = if anthropic {
        Page::of_anthropic(&listed, &call.query)?
    } else {
        Page::whole(&listed)
    };
    let models = page.models.iter();
    let models = models.map(|(name, model)| (&**name, model.created));
    Ok(if anthropic {
        json(&AnthropicList {
            data: models.map(|(id, at)| anthropic_card(id, at)).collect(),
            has_more: page.more,
            first_id: page.models.first().map(|(name, _)| &**name),
            last_id: page.models.last().map(|(name, _)| &**name),
        })
    } else {
        json(&List {
            object: "list",
            data: models.map(|(id, at)| card(id, at)).collect(),
        })
    })
}

fn list_gemini(
    call: &Call,
    who: &admission::Caller,
    catalogue: &Catalogue,
) -> Result<Bytes, Failure> {
    Ok(if call.resource.is_empty() {
        let listed = catalogue.list(&who.principal.group, &who.principal.models);
        let page = Page::of_gemini(&listed, &call.query)?;
        let models = page.models.iter();
        let next = page.models.last().filter(|_| page.more);
        json(&GeminiList {
            models: models
                .map(|(name, model)| gemini_card(name, model))
                .collect(),
            next_page_token: next.map(|(name, _)| URL_SAFE_NO_PAD.encode(name)),
        })
    } else {
        let found = who.model(catalogue, &call.resource, Dialect::OpenaiModels)?;
        json(&gemini_card(&call.resource, &found.model))
    })
}

fn gemini_card<'a>(id: &'a str, model: &PublicModel) -> GeminiCard<'a> {
    let accepts = &model.accepts;
    let served = accepts.is_empty() || accepts.contains(&(Dialect::GeminiGenerate as i32));
    GeminiCard {
        name: format!("models/{id}"),
        version: "",
        display_name: id,
        input_token_limit: model.context_window,
        output_token_limit: model.max_output,
        supported_generation_methods: if served {
            &["generateContent", "streamGenerateContent", "countTokens"]
        } else {
            &[]
        },
    }
}

/// Answers with it.
pub(super) fn answer(body: Bytes, course: &Course, caller: &mut Caller) -> Admitted {
    let mut headers = vec![header("content-type", "application/json")];
    headers.extend(limits::headers(course, &course.rate_limits));
    let head = ResponseHead {
        status: 200,
        headers,
        event_stream: false,
    };
    caller.answer(head, body);
    Admitted::Answered(End::Complete(200))
}

fn card(id: &str, created: i64) -> Card<'_> {
    Card {
        id,
        object: "model",
        created,
        owned_by: "switchboard",
    }
}

fn anthropic_card(id: &str, created: i64) -> AnthropicCard<'_> {
    let at = OffsetDateTime::from_unix_timestamp(created).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    AnthropicCard {
        kind: "model",
        id,
        display_name: id,
        // within the years that this form has, as any catalogue's time is
        created_at: at.format(&Rfc3339).unwrap_or_default(),
    }
}

fn json(value: &impl Serialize) -> Bytes {
    // Plain values into memory: this cannot fail.
    serde_json::to_vec(value)
        .map(Bytes::from)
        .unwrap_or_default()
}
