//! What an account declares of its server, as attempts get it: parameters and vendor codes (FWD-11, DIAL-4).

use switchboard_catalogue as catalogue;
use switchboard_proto::scheduler::v1::{ErrorMeaning, ErrorRule, Parameters, Rescale};

pub(super) fn parameters(source: &catalogue::Parameters) -> Parameters {
    let millionths = |value: f64| (value * 1e6).round() as i64;
    let rescale = |range: &catalogue::Rescale| Rescale {
        from_low: millionths(range.from.low),
        from_high: millionths(range.from.high),
        to_low: millionths(range.to.low),
        to_high: millionths(range.to.high),
    };
    Parameters {
        supported: source.supported.clone().unwrap_or_default(),
        has_supported: source.supported.is_some(),
        rename: source.rename.clone().into_iter().collect(),
        rescale: source
            .rescale
            .iter()
            .map(|(name, range)| (name.clone(), rescale(range)))
            .collect(),
        roles: source.roles.clone().into_iter().collect(),
        reject: source
            .unsupported
            .map(|action| action == catalogue::Unsupported::Reject),
    }
}

pub(super) fn error_rule(source: &catalogue::ErrorRule) -> ErrorRule {
    let means = match source.means {
        catalogue::ErrorMeaning::RateLimited => ErrorMeaning::RateLimited,
        catalogue::ErrorMeaning::Overloaded => ErrorMeaning::Overloaded,
        catalogue::ErrorMeaning::QuotaExhausted => ErrorMeaning::QuotaExhausted,
        catalogue::ErrorMeaning::InvalidCredential => ErrorMeaning::InvalidCredential,
        catalogue::ErrorMeaning::InvalidRequest => ErrorMeaning::InvalidRequest,
        catalogue::ErrorMeaning::ContentPolicy => ErrorMeaning::ContentPolicy,
        catalogue::ErrorMeaning::ContextLengthExceeded => ErrorMeaning::ContextLengthExceeded,
        catalogue::ErrorMeaning::Failed => ErrorMeaning::Failed,
    };
    ErrorRule {
        path: source.path.clone(),
        equals: source.equals.clone(),
        matches: source.matches.clone(),
        means: means as i32,
    }
}
