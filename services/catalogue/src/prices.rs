//! Price and cost sheets: USD per 1,000,000 tokens, and per piece (BILL-2).

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::notation::record;
use crate::scalar::Date;

record! {
    /// A sheet: what a model's usage is worth, in USD per 1,000,000 tokens unless said otherwise.
    Price {
        /// Input tokens that came from no cache.
        input: Option<Amount>,
        /// Input tokens read from the provider's cache.
        (shown "as input")
        cached_input: Option<Amount>,
        /// Input tokens written to the cache for 5 minutes.
        (shown "as input")
        cache_write_5m: Option<Amount>,
        /// Input tokens written to the cache for 1 hour.
        (shown "as cache_write_5m")
        cache_write_1h: Option<Amount>,
        /// Output tokens.
        output: Option<Amount>,
        /// Reasoning tokens, where they are priced apart from output.
        (shown "as output")
        reasoning: Option<Amount>,
        /// Audio input tokens.
        (shown "as input")
        audio_input: Option<Amount>,
        /// Audio output tokens.
        (shown "as output")
        audio_output: Option<Amount>,
        /// Per request.
        per_request: Option<Amount>,
        /// Per image.
        per_image: Option<Amount>,
        /// Per second of audio.
        per_second: Option<Amount>,
        /// Another sheet for requests with a long input.
        above: Option<Above>,
        /// The day from which the sheet holds.
        (shown "at once")
        from: Option<Date>,
    }
}

record! {
    /// The sheet of requests whose input has more tokens than this.
    Above {
        /// Input tokens beyond which it holds, for the whole request.
        tokens: u64,
        /// Input tokens that came from no cache.
        (shown "as below the line")
        input: Option<Amount>,
        /// Input tokens read from the provider's cache.
        (shown "as below the line")
        cached_input: Option<Amount>,
        /// Input tokens written to the cache for 5 minutes.
        (shown "as below the line")
        cache_write_5m: Option<Amount>,
        /// Input tokens written to the cache for 1 hour.
        (shown "as below the line")
        cache_write_1h: Option<Amount>,
        /// Output tokens.
        (shown "as below the line")
        output: Option<Amount>,
        /// Reasoning tokens.
        (shown "as below the line")
        reasoning: Option<Amount>,
    }
}

impl Price {
    /// Whether the sheet names no amount at all: then it prices nothing, which is not the same as for free.
    pub const fn is_empty(&self) -> bool {
        self.input.is_none()
            && self.cached_input.is_none()
            && self.cache_write_5m.is_none()
            && self.cache_write_1h.is_none()
            && self.output.is_none()
            && self.reasoning.is_none()
            && self.audio_input.is_none()
            && self.audio_output.is_none()
            && self.per_request.is_none()
            && self.per_image.is_none()
            && self.per_second.is_none()
    }

    /// Whether a request pays for what it asks by something other than its tokens of text.
    pub(crate) const fn has_other_input(&self) -> bool {
        self.audio_input.is_some() || self.has_pieces()
    }

    /// The same for what it gets.
    pub(crate) const fn has_other_output(&self) -> bool {
        self.audio_output.is_some() || self.has_pieces()
    }

    const fn has_pieces(&self) -> bool {
        self.per_request.is_some() || self.per_image.is_some() || self.per_second.is_some()
    }
}

record! {
    /// Prices of many models by name.
    PriceList {
        /// Unique name.
        name: String,
        /// A sheet for each model.
        prices: BTreeMap<String, Price>,
    }
}

impl PriceList {
    /// The sheet of a model: by its name, else by its name without a date suffix.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.prices
            .get(model)
            .or_else(|| crate::names::without_date(model).and_then(|plain| self.prices.get(plain)))
    }
}
