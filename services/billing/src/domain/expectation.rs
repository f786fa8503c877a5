//! How much a model usually answers: the rolling 95th percentile of its output, for the size of holds that are not strict.
//!
//! In memory, bounded, and only a guess: a wrong one makes a hold too large or too small, never a charge.

use std::collections::HashMap;

/// How many answers a model's percentile looks back.
const SAMPLES: usize = 128;
/// The percentile is computed again after this many new answers.
const REFRESH: u32 = 8;

/// Per public model; at most `models` of them, then the ones seen longest ago make room.
#[derive(Debug)]
pub(crate) struct Expectations {
    models: HashMap<String, Recent>,
    most: usize,
    initial: u64,
    clock: u64,
}

#[derive(Debug, Default)]
struct Recent {
    outputs: Vec<u64>,
    next: usize,
    pending: u32,
    percentile: u64,
    used: u64,
}

impl Expectations {
    pub(crate) fn new(most: usize, initial: u64) -> Self {
        Self {
            models: HashMap::new(),
            most: most.max(1),
            initial,
            clock: 0,
        }
    }

    /// Tokens that an answer of `model` hardly exceeds.
    pub(crate) fn expected(&self, model: &str) -> u64 {
        self.models
            .get(model)
            .map_or(self.initial, |recent| recent.percentile)
    }

    /// Learns from a finished answer.
    pub(crate) fn observe(&mut self, model: &str, output: u64) {
        self.clock += 1;
        let clock = self.clock;
        if !self.models.contains_key(model) {
            if self.models.len() >= self.most {
                self.forget_oldest();
            }
            self.models.insert(model.to_owned(), Recent::default());
        }
        if let Some(recent) = self.models.get_mut(model) {
            recent.add(output);
            recent.used = clock;
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self
            .models
            .iter()
            .min_by_key(|(_, recent)| recent.used)
            .map(|(model, _)| model.clone());
        if let Some(model) = oldest {
            self.models.remove(&model);
        }
    }
}

impl Recent {
    fn add(&mut self, output: u64) {
        if self.outputs.len() < SAMPLES {
            self.outputs.push(output);
        } else if let Some(slot) = self.outputs.get_mut(self.next) {
            *slot = output;
        }
        self.next = (self.next + 1) % SAMPLES;
        self.pending += 1;
        if self.pending >= REFRESH || self.outputs.len() < SAMPLES {
            self.pending = 0;
            self.percentile = percentile(&self.outputs);
        }
    }
}

fn percentile(outputs: &[u64]) -> u64 {
    let mut sorted = outputs.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_expected_to_answer_what_it_mostly_did() {
        let mut seen = Expectations::new(8, 4_096);
        assert_eq!(seen.expected("m"), 4_096);
        for output in 1..=100 {
            seen.observe("m", output);
        }
        assert_eq!(seen.expected("m"), 95);
        for _ in 0..SAMPLES + 8 {
            seen.observe("m", 7);
        }
        assert_eq!(seen.expected("m"), 7);
    }

    #[test]
    fn it_remembers_no_more_models_than_it_may() {
        let mut seen = Expectations::new(2, 1);
        for model in ["a", "b", "a", "c"] {
            seen.observe(model, 9);
        }
        assert_eq!(["a", "b", "c"].map(|model| seen.expected(model)), [9, 1, 9]);
    }
}
