//! What a caller is told when there is nothing for it (FLOW-5): what is full, whose it is, and when to come again.

use std::time::Duration;

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::common::v1::Endpoint;

use crate::domain::{
    choice::{Choice, Considered},
    filter::{Ask, Filter},
    known::Why,
    limits::{Label, Level, Rate},
};

/// When to come again where the store does not say.
const SOON: Duration = Duration::from_secs(1);
/// When to come again for what an administrator or a background task has to change first.
const LATER: Duration = Duration::from_secs(10);

fn after(retry_after_ms: u64) -> Duration {
    Duration::from_millis(retry_after_ms.max(1))
}

/// There is no such model, as far as this caller is told.
pub fn model_not_found(model: &str) -> Failure {
    Failure::new(
        Reason::ModelNotFound,
        format!(
            "there is no model `{}`",
            model.chars().take(128).collect::<String>()
        ),
    )
    .param("model")
}

/// A field of the request is wrong.
pub fn invalid(field: &str, expected: &str) -> Failure {
    Failure::new(
        Reason::InvalidRequest,
        format!("{field}: expected {expected}"),
    )
    .param(field)
}

/// The request was released before it was granted anything.
pub fn gone() -> Failure {
    Failure::new(Reason::CallerLeft, "the request was already released")
}

/// A rate is used up.
pub fn rate_limited(label: &Label, retry_after_ms: u64) -> Failure {
    Failure::new(
        Reason::RateLimitExceeded,
        format!(
            "the {}'s limit of {} {} is used up{}",
            label.level.name(),
            label.limit,
            label.rate.name(),
            // One request after a pause can be refused too, which a count of the last minute would not explain.
            match label.rate {
                Rate::RequestsPerMinute =>
                    ": they come back evenly over the minute, and `burst` says how many may come at once",
                _ => "",
            }
        ),
    )
    .retry_after(after(retry_after_ms))
}

/// All slots of a limit of the caller's own are in use.
pub fn slots_full(level: Level, limit: u64, retry_after_ms: u64) -> Failure {
    Failure::new(
        Reason::ConcurrencyFull,
        format!(
            "all {limit} concurrent requests of the {} are in use",
            level.name()
        ),
    )
    .retry_after(after(retry_after_ms))
}

/// All slots of the model's accounts are in use.
pub fn supply_full(model: &str, retry_after_ms: u64) -> Failure {
    Failure::new(
        Reason::ConcurrencyFull,
        format!("all concurrent requests that model `{model}` can serve are in use"),
    )
    .retry_after(after(retry_after_ms))
}

/// Nobody more may wait.
pub fn queue_full(model: &str, depth: u32) -> Failure {
    Failure::new(
        Reason::QueueFull,
        format!("the queue of model `{model}` is full ({depth} wait)"),
    )
    .retry_after(SOON)
}

/// Nobody more may wait for anything.
pub fn all_queues_full() -> Failure {
    Failure::new(Reason::QueueFull, "the gateway's queue is full").retry_after(SOON)
}

/// The tenant has no such response.
pub fn response_not_found(id: &str) -> Failure {
    let id: String = id.chars().take(128).collect();
    Failure::new(
        Reason::PreviousResponseNotFound,
        format!("there is no response `{id}`, or it is kept no longer"),
    )
    .param("previous_response_id")
}

/// The account that keeps the response cannot serve; it rests for so long, or nobody knows.
pub fn response_unavailable(rest_ms: Option<u64>) -> Failure {
    Failure::new(
        Reason::PreviousResponseUnavailable,
        "the upstream that keeps this response cannot be asked at the moment; begin again without `previous_response_id` \
         if you cannot wait",
    )
    .retry_after(rest_ms.map_or(LATER, after))
}

/// The account that keeps the response serves another model, if any: waiting does not help.
fn response_elsewhere(public_model: &str) -> Failure {
    Failure::new(
        Reason::PreviousResponseUnavailable,
        format!(
            "the upstream that keeps this response does not serve model `{public_model}`; ask the model that made it, or begin again \
             without `previous_response_id`"
        ),
    )
    .retry_after(LATER)
}

/// Every target that may serve rests. Where all do for one kind of reason, that is told as it was to the request that met it
/// (FWD-4): clients act on a rate limit otherwise than on an outage.
fn resting(choice: &Choice<'_>, public_model: &str) -> Failure {
    if choice.all_rest_for(Why::is_ours) {
        Failure::new(
            Reason::UpstreamCredentialsExhausted,
            format!(
                "no upstream of model `{public_model}` accepts our credentials or has quota left; this is not about your API key"
            ),
        )
    } else if choice.all_rest_for(|why| why.is_ours() || why == Why::RateLimited) {
        // Those that are limited are back soon, whatever keeps the others away.
        Failure::new(
            Reason::RateLimitExceeded,
            format!(
                "no upstream of model `{public_model}` takes more requests at the moment (their rate limits); try again later"
            ),
        )
    } else if choice.all_rest_for(|why| why == Why::Address) {
        Failure::new(
            Reason::UpstreamFailed,
            format!(
                "the addresses of the accounts that serve model `{public_model}` may not be called: the operator has to correct or \
                 allow them"
            ),
        )
    } else {
        Failure::new(
            Reason::NoAccount,
            format!("every account that serves model `{public_model}` is cooling down"),
        )
    }
}

/// No target may serve.
pub fn nobody(choice: &Choice<'_>, ask: &Ask<'_>, public_model: &str) -> Failure {
    if ask.bound.is_some() {
        let kept = |one: &Considered<'_>| one.outcomes.passed(Filter::Response);
        if !choice.considered.iter().any(kept) {
            return response_elsewhere(public_model);
        }
        return response_unavailable(choice.rested_in_ms(ask.now_ms));
    }
    if let Some(ms) = choice.rested_in_ms(ask.now_ms) {
        return resting(choice, public_model).retry_after(after(ms));
    }
    let everywhere = |filter| {
        !choice.considered.is_empty()
            && choice
                .considered
                .iter()
                .all(|one| !one.outcomes.passed(filter))
    };
    if everywhere(Filter::Capability) {
        return Failure::new(
            Reason::InvalidRequest,
            format!("model `{public_model}` lacks a capability that this request needs"),
        )
        .param("model");
    }
    let unreached = |one: &Considered<'_>| {
        !one.outcomes.passed(Filter::Dialect) || !one.outcomes.passed(Filter::Address)
    };
    if !everywhere(Filter::Dialect)
        && !choice.considered.is_empty()
        && choice.considered.iter().all(unreached)
    {
        return Failure::new(
            Reason::InvalidRequest,
            format!(
                "model `{public_model}` cannot be asked for this: no account has an address for it"
            ),
        )
        .param("model");
    }
    if everywhere(Filter::Dialect) {
        let text = match ask.endpoint {
            // Calls for an answer are translated, and may be served all the same.
            Endpoint::CountTokens => format!(
                "tokens cannot be counted for model `{public_model}` in this API: its upstreams have no endpoint for that"
            ),
            _ => format!("model `{public_model}` cannot be called in this API"),
        };
        return Failure::new(Reason::InvalidRequest, text).param("model");
    }
    if everywhere(Filter::Tenant) {
        return Failure::new(
            Reason::NoAccount,
            format!("the tenant's own routes leave no account that serves model `{public_model}`"),
        )
        .retry_after(LATER);
    }
    Failure::new(
        Reason::NoAccount,
        format!("no account serves model `{public_model}` at the moment"),
    )
    .retry_after(LATER)
}
