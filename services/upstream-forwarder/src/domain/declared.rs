//! What an account declares of its server, in the dialects' terms (SPEC FWD-11, DIAL-4).

use switchboard_dialects::{
    Class,
    error::{Rule, Rules, Wanted},
    parameters::{Parameters, Rescale},
};
use switchboard_proto::scheduler::v1::{self as wire, Candidate, ErrorMeaning};

/// The map of parameters.
pub(crate) fn parameters(declared: &wire::Parameters) -> Parameters {
    let own =
        |pairs: &std::collections::HashMap<String, String>| pairs.clone().into_iter().collect();
    Parameters {
        supported: declared
            .has_supported
            .then(|| declared.supported.iter().cloned().collect()),
        rename: own(&declared.rename),
        rescale: declared
            .rescale
            .iter()
            .map(|(name, range)| {
                let range = Rescale {
                    from: (range.from_low, range.from_high),
                    to: (range.to_low, range.to_high),
                };
                (name.clone(), range)
            })
            .collect(),
        roles: own(&declared.roles),
    }
}

/// The vendor's codes.
pub(crate) fn rules(candidate: &Candidate) -> Rules {
    let rule = |rule: &wire::ErrorRule| {
        let wanted = match (&rule.equals, &rule.matches) {
            (Some(text), _) => Wanted::Equals(text.clone()),
            (None, Some(pattern)) => Wanted::Matches(pattern.clone()),
            (None, None) => return None,
        };
        Rule::new(&rule.path, wanted, class(rule.means()))
    };
    Rules(candidate.errors.iter().filter_map(rule).collect())
}

const fn class(means: ErrorMeaning) -> Class {
    match means {
        ErrorMeaning::RateLimited => Class::RateLimited,
        ErrorMeaning::Overloaded => Class::Overloaded,
        ErrorMeaning::QuotaExhausted => Class::Quota,
        ErrorMeaning::InvalidCredential => Class::Unauthorized,
        ErrorMeaning::InvalidRequest => Class::Request,
        ErrorMeaning::ContentPolicy => Class::ContentPolicy,
        ErrorMeaning::ContextLengthExceeded => Class::ContextLength,
        ErrorMeaning::Failed | ErrorMeaning::Unspecified => Class::Server,
    }
}
