//! Counting tokens of what no upstream reported (SPEC BILL-6): at settlement, and of what runs for long, never on a
//! request's path.
//!
//! The vocabulary is loaded when first needed; counting runs on the blocking pool, a few at a time, over bounded text. What
//! lies beyond the bound is extrapolated from what was counted. The tokenizer is linear in the worst case.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_dialects::{DialectRequest, TextBuffer};
use tokio::sync::Semaphore;

use crate::domain::settlement::tokens_of;

/// See the module's page. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(Arc<Semaphore>);

impl Tokens {
    /// Counts `parallel` texts at once at most.
    pub(crate) fn new(parallel: usize) -> Self {
        Self(Arc::new(Semaphore::new(parallel)))
    }

    /// Runs `count`, which counts with [`of`], on the blocking pool.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        count: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _place = self.0.acquire().await.ok()?;
        tokio::task::spawn_blocking(count).await.ok()
    }
}

/// What a model is asked.
pub(crate) struct Prompt {
    pub(crate) asked: Arc<dyn DialectRequest>,
    pub(crate) body: Bytes,
}

impl Prompt {
    /// Its tokens, counted over `bound` bytes of text at most. Blocking.
    pub(crate) fn tokens(&self, bound: usize) -> u64 {
        let mut text = TextBuffer::new(bound);
        let ready = self.asked.input(&self.body, &mut text);
        of(&text) + ready
    }
}

/// The tokens of a text. Blocking.
pub(crate) fn of(text: &TextBuffer) -> u64 {
    let counted = bpe_openai::o200k_base().count(text.text()) as u64;
    let kept = text.text().len() as u64;
    if !text.truncated() {
        return counted;
    }
    let scaled = u128::from(counted) * u128::from(text.bytes());
    let scaled = scaled.checked_div(u128::from(kept));
    let scaled = scaled.and_then(|scaled| u64::try_from(scaled).ok());
    scaled.unwrap_or_else(|| tokens_of(text.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(text: &str, bound: usize) -> TextBuffer {
        let mut buffer = TextBuffer::new(bound);
        buffer.push(text);
        buffer
    }

    #[tokio::test]
    async fn a_text_is_counted_and_what_was_not_kept_is_extrapolated() {
        let tokens = Tokens::new(1);
        let hello = "hello world ".repeat(100);
        let whole = buffer(&hello, 1 << 20);
        let all = tokens.run(move || of(&whole)).await.unwrap();
        assert!((200..=202).contains(&all), "{all}");
        let part = buffer(&hello, 120);
        let estimated = tokens.run(move || of(&part)).await.unwrap();
        assert!(estimated.abs_diff(all) <= 10, "{estimated}");
        assert_eq!(of(&buffer("text", 0)), 1);
        assert_eq!(of(&buffer("", 10)), 0);
    }

    #[test]
    fn a_megabyte_of_spaces_is_no_trap() {
        let spaces = buffer(&" ".repeat(1 << 20), 1 << 20);
        assert!(of(&spaces) > 0);
    }
}
