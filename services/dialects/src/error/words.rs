//! Codes, types and words by which upstreams tell what went wrong.

/// Codes and types (any case) that say that the account's money or plan is used up. Some come with the status of a
/// request that is wrong.
pub(super) const QUOTA: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "insufficient_balance",
    "insufficient_credits",
    "payment_required",
];

/// Google's reasons that say that the account's key was refused, whatever the status.
pub(super) const KEYS: &[&str] = &["API_KEY_INVALID", "API_KEY_EXPIRED"];

/// Codes and types that say that the content was refused by policy, whatever the status.
pub(super) const POLICY: &[&str] = &[
    "bio_policy",
    "image_content_policy_violation",
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "moderation_blocked",
    "cyber_policy_violation",
];

/// Codes that say that the request is too long for the model.
pub(super) const CONTEXT: &[&str] = &[
    "context_length_exceeded",
    "string_above_max_length",
    "model_context_window_exceeded",
];

/// How upstreams without such a code put it (CASES C26). Compared in lower case, on 4xx only; all parts must occur.
pub(super) const CONTEXT_WORDS: &[&[&str]] = &[
    &["maximum context length"],
    &["context length", "exceed"],
    &["context length", "longer than"],
    &["context window", "exceed"],
    &["context_length_exceeded"],
    &["prompt is too long"],
    &["input is too long"],
    &["prompt contains", "tokens", "too large for model"],
    &["input token", "exceed"],
    &["tokens exceed", "limit"],
    &["exceeds the maximum number of tokens"],
    &["reduce the length of the messages"],
    &["exceeds the available context size"],
    &["exceed", "context limit"],
    &["greater than the context length"],
    &["longer than the maximum model length"],
    &["exceed", "max_model_len"],
    &["maximum prompt length"],
    &["prompt exceeds max length"],
    &["token count", "exceed"],
    &["input token count", "only supports"],
    &["tokens in the prompt", "exceed"],
    &["exceeded model token limit"],
    &["range of input length should be"],
    &["input", "must have less than", "tokens"],
    &["`inputs` tokens", "must be <="],
    &["input text exceeds maximum length", "tokens"],
    &["max allowed tokens per submitted batch"],
];

/// Codes and types that stand for a status, for errors inside a 200, where the status says nothing.
pub(super) const IMPLIED: &[(&str, u16)] = &[
    ("invalid_api_key", 401),
    ("authentication_error", 401),
    ("unauthenticated", 401),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("model_not_found", 404),
    ("not_found_error", 404),
    ("not_found", 404),
    ("request_too_large", 413),
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("rate_limited", 429),
    ("too_many_requests", 429),
    ("resource_exhausted", 429),
    ("requests", 429),
    ("tokens", 429),
    ("slow_down", 503),
    ("server_is_overloaded", 503),
    ("service_unavailable_error", 503),
    ("service_unavailable", 503),
    ("engine_overloaded", 503),
    ("unavailable", 503),
    ("overloaded_error", 529),
    ("overloaded", 529),
    ("timeout", 504),
    ("timeout_error", 504),
    ("request_timeout", 504),
    ("gateway_timeout", 504),
    ("deadline_exceeded", 504),
    ("server_error", 500),
    ("internal_error", 500),
    ("internal_server_error", 500),
    ("api_error", 500),
    ("bad_gateway", 502),
    ("invalid_request_error", 400),
    // What a response can fail with (PROTOCOLS §5.2)
    ("invalid_prompt", 400),
    ("data_residency_mismatch", 400),
    ("previous_response_not_found", 400),
    ("invalid_image", 400),
    ("invalid_image_format", 400),
    ("invalid_base64_image", 400),
    ("invalid_image_url", 400),
    ("invalid_image_mode", 400),
    ("image_too_large", 400),
    ("image_too_small", 400),
    ("image_parse_error", 400),
    ("image_file_too_large", 400),
    ("image_file_not_found", 400),
    ("unsupported_image_media_type", 400),
    ("empty_image_file", 400),
    ("failed_to_download_image", 400),
    ("vector_store_timeout", 504),
    ("invalid_argument", 400),
    ("badrequesterror", 400),
];
