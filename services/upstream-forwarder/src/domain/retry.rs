//! How often a failed attempt may be followed by another one (SPEC FWD-4).

use std::time::Duration;

use parking_lot::Mutex;

/// Retries ≤ a share of the traffic + some in hand, over a sliding window, so that an outage is not amplified and a lone
/// request still fails over.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    share_percent: u64,
    in_hand: u64,
    slots: Mutex<Slots>,
}

/// One-second slots, a ring.
#[derive(Debug)]
struct Slots {
    second: i64,
    requests: [u64; WINDOW],
    retries: [u64; WINDOW],
}

/// Seconds that count.
const WINDOW: usize = 10;

impl RetryBudget {
    /// `share_percent` of the requests of the last ten seconds, and `in_hand` more.
    pub(crate) fn new(share_percent: u64, in_hand: u64) -> Self {
        Self {
            share_percent,
            in_hand,
            slots: Mutex::new(Slots {
                second: 0,
                requests: [0; WINDOW],
                retries: [0; WINDOW],
            }),
        }
    }

    /// A request came.
    pub(crate) fn request(&self, now_us: i64) {
        let mut slots = self.slots.lock();
        let at = slots.turn(now_us);
        if let Some(count) = slots.requests.get_mut(at) {
            *count += 1;
        }
    }

    /// Takes one retry, if the budget has one.
    pub(crate) fn take(&self, now_us: i64) -> bool {
        let mut slots = self.slots.lock();
        let at = slots.turn(now_us);
        let requests: u64 = slots.requests.iter().sum();
        let retries: u64 = slots.retries.iter().sum();
        let allowed = requests * self.share_percent / 100 + self.in_hand;
        if retries >= allowed {
            return false;
        }
        if let Some(count) = slots.retries.get_mut(at) {
            *count += 1;
        }
        true
    }
}

impl Slots {
    /// Empties what is too old; gives the slot of now.
    fn turn(&mut self, now_us: i64) -> usize {
        let now = now_us.div_euclid(1_000_000).max(self.second);
        let window = i64::try_from(WINDOW).unwrap_or(1);
        let stale = (now - self.second).min(window);
        for step in 1..=stale {
            let at = slot_of(self.second + step);
            if let (Some(requests), Some(retries)) =
                (self.requests.get_mut(at), self.retries.get_mut(at))
            {
                (*requests, *retries) = (0, 0);
            }
        }
        self.second = now;
        slot_of(now)
    }
}

fn slot_of(second: i64) -> usize {
    let window = i64::try_from(WINDOW).unwrap_or(1);
    usize::try_from(second.rem_euclid(window)).unwrap_or(0)
}

/// How a 429 at the last candidate is waited out: the pause before the next try on the same account, if it fits into the
/// request's patience (min of `patience` and the time left).
pub(crate) fn pause(
    retry_after: Option<Duration>,
    jitter: Duration,
    left: Duration,
    patience: Duration,
) -> Option<Duration> {
    let own = Duration::from_millis(500) + jitter.min(Duration::from_millis(100));
    let pause = retry_after.unwrap_or(own).max(Duration::from_millis(200));
    (pause < left.min(patience)).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_request_fails_over_and_an_outage_is_not_amplified() {
        let budget = RetryBudget::new(20, 10);
        budget.request(0);
        let taken = (0..50).filter(|_| budget.take(0)).count();
        assert_eq!(taken, 10);
        (0..100).for_each(|_| budget.request(1_000_000));
        let taken = (0..200).filter(|_| budget.take(2_000_000)).count();
        assert_eq!(taken, 20);
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let budget = RetryBudget::new(20, 10);
        let burst = |at| (0..50).filter(|_| budget.take(at)).count();
        assert_eq!(burst(0), 10);
        assert_eq!(burst(9_000_000), 0);
        assert_eq!(burst(10_000_000), 10);
        assert_eq!(burst(500_000_000), 10);
    }

    #[test]
    fn the_pause_is_what_the_upstream_asks_for_if_it_fits() {
        let ms = Duration::from_millis;
        let pause = |after, left| pause(after, ms(40), left, ms(5_000));
        assert_eq!(pause(None, ms(60_000)), Some(ms(540)));
        assert_eq!(pause(Some(ms(0)), ms(60_000)), Some(ms(200)));
        assert_eq!(pause(Some(ms(2_000)), ms(60_000)), Some(ms(2_000)));
        assert_eq!(pause(Some(ms(6_000)), ms(60_000)), None);
        assert_eq!(pause(None, ms(500)), None);
    }
}
