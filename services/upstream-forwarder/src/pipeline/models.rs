//! The list of models and one of them: read from the catalogue, never billed (SPEC SURF-1).

use bytes::Bytes;
use serde::Serialize;
use switchboard_common::error::Failure;
use switchboard_proto::{common::v1::Dialect, inference::v1::ResponseHead};

use super::{
    Course,
    admit::{Admitted, Call},
    head::header,
    limits,
};
use crate::{
    caller::Caller,
    domain::{admission, catalogue::Catalogue, settlement::End},
};

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

/// The body for `GET /v1/models` and `GET /v1/models/{id}`.
pub(super) fn list(
    call: &Call,
    who: &admission::Caller,
    catalogue: &Catalogue,
) -> Result<Bytes, Failure> {
    Ok(if call.resource.is_empty() {
        let listed = catalogue.list(&who.principal.group, &who.principal.models);
        let cards = listed.iter().map(|(name, model)| card(name, model.created));
        json(&List {
            object: "list",
            data: cards.collect(),
        })
    } else {
        let found = who.model(catalogue, &call.resource, Dialect::OpenaiModels)?;
        json(&card(&call.resource, found.model.created))
    })
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

fn json(value: &impl Serialize) -> Bytes {
    // Plain values into memory: this cannot fail.
    serde_json::to_vec(value)
        .map(Bytes::from)
        .unwrap_or_default()
}
