//! A dialect's usage in the form of the wire.

use switchboard_dialects::Usage as Reported;
use switchboard_proto::common::v1::Usage;

/// The same numbers; absent stays absent.
pub(crate) fn to_wire(reported: &Reported) -> Usage {
    Usage {
        input_tokens: reported.input,
        cached_input_tokens: reported.cached_input,
        cache_write_5m_tokens: reported.cache_write_5m,
        cache_write_1h_tokens: reported.cache_write_1h,
        output_tokens: reported.output,
        reasoning_tokens: reported.reasoning,
        audio_input_tokens: reported.input_audio,
        audio_output_tokens: reported.output_audio,
        images: reported.images,
        audio_millis: reported.audio_millis,
    }
}

/// All tokens, for tokens per minute: reasoning is part of output.
pub(crate) fn total(usage: &Usage) -> u64 {
    [
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens,
    ]
    .into_iter()
    .flatten()
    .fold(0, u64::saturating_add)
}
