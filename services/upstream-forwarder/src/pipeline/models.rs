//! The list of models and one of them: read from the catalogue, never billed (SPEC SURF-1).

use bytes::Bytes;
use serde::Serialize;
use switchboard_proto::{common::v1::Dialect, inference::v1::ResponseHead};

use super::{
    Ended,
    admit::{Admitted, Call},
    head::header,
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

/// Answers `GET /v1/models` and `GET /v1/models/{id}`.
pub(super) fn answer(
    call: &Call,
    who: &admission::Caller,
    catalogue: &Catalogue,
    caller: &mut Caller,
) -> Result<Admitted, Ended> {
    let body = if call.resource.is_empty() {
        let listed = catalogue.list(&who.principal.group, &who.principal.models);
        let cards = listed.iter().map(|(name, model)| card(name, model.created));
        json(&List {
            object: "list",
            data: cards.collect(),
        })
    } else {
        let found = who.model(catalogue, &call.resource, Dialect::OpenaiModels)?;
        json(&card(&call.resource, found.model.created))
    };
    let head = ResponseHead {
        status: 200,
        headers: vec![header("content-type", "application/json")],
        event_stream: false,
    };
    caller.answer(head, body);
    Ok(Admitted::Answered(End::Complete(200)))
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
