//! A budget that refills with time: how much may be done now, and when more.

use std::time::Duration;

use mainspring::time::Instant;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Units that come back at a rate, and are saved up to a limit (a token bucket).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    per_second: u64,
    most: u64,
    left: u64,
    /// Refilled up to here; what a whole unit takes longer for stays for the next time.
    since: Instant,
}

impl Budget {
    /// A full one. A rate or a limit of 0 is taken as 1.
    pub(crate) fn new(per_second: u64, most: u64, now: Instant) -> Self {
        let most = most.max(1);
        Self { per_second: per_second.max(1), most, left: most, since: now }
    }

    /// Takes `units` if there are as many; one that was saved up to the limit may always be spent.
    pub(crate) fn take(&mut self, now: Instant, units: u64) -> bool {
        self.refill(now);
        let units = units.min(self.most);
        let affordable = self.left >= units;
        if affordable {
            self.left -= units;
        }
        affordable
    }

    /// Whether `units` could be taken.
    pub(crate) fn has(&mut self, now: Instant, units: u64) -> bool {
        self.refill(now);
        self.left >= units.min(self.most)
    }

    /// When `units` can be taken; now, if they can already.
    pub(crate) fn ready_at(&self, units: u64) -> Instant {
        let short = u128::from(units.min(self.most).saturating_sub(self.left));
        let nanos = (short * NANOS_PER_SEC).div_ceil(self.per_second.into());
        self.since.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn refill(&mut self, now: Instant) {
        let nanos = now.saturating_duration_since(self.since).as_nanos();
        let units = nanos * u128::from(self.per_second) / NANOS_PER_SEC;
        if units >= u128::from(self.most - self.left) {
            (self.left, self.since) = (self.most, self.since.max(now));
        } else if units > 0 {
            #[allow(clippy::cast_possible_truncation, reason = "below `most - left`")]
            let units = units as u64;
            self.left += units;
            let used = u128::from(units) * NANOS_PER_SEC / u128::from(self.per_second);
            self.since =
                self.since.saturating_add(Duration::from_nanos(u64::try_from(used).unwrap_or(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_at_the_rate_and_not_faster() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut budget = Budget::new(1000, 100, at(0));
        assert!(budget.take(at(0), 100));
        assert!(!budget.take(at(0), 1));
        assert_eq!(budget.ready_at(10), at(10));
        assert!(!budget.take(at(9), 10));
        assert!(budget.take(at(10), 10));
        // Asked often or seldom, a second gives a thousand, a bucket holds a hundred.
        let mut spent = 0;
        for ms in 11..=1011 {
            while budget.take(at(ms), 1) {
                spent += 1;
            }
        }
        assert_eq!(spent, 1001);
        assert!(budget.take(at(100_000), 100));
        assert!(!budget.take(at(100_000), 1));
    }

    /// "0" must be neither no limit nor no end of waiting.
    #[test]
    fn nothing_is_as_little_as_can_be() {
        let mut budget = Budget::new(0, 0, Instant::ORIGIN);
        assert!(budget.take(Instant::ORIGIN, 484));
        assert!(!budget.take(Instant::from_nanos(999_999_999), 484));
        assert_eq!(budget.ready_at(484), Instant::from_nanos(1_000_000_000));
    }

    #[test]
    fn a_rate_below_one_a_question_still_adds_up() {
        let mut budget = Budget::new(3, 10, Instant::ORIGIN);
        assert!(budget.take(Instant::ORIGIN, 10));
        let spent = (1..=10_000_000_u64)
            .step_by(1000)
            .filter(|us| budget.take(Instant::from_nanos(us * 1000), 1))
            .count();
        assert!((29..=30).contains(&spent), "{spent} in 10 s at 3 a second");
    }

    /// A packet larger than the whole bucket must not wait for ever.
    #[test]
    fn more_than_the_limit_is_spent_as_the_limit() {
        let mut budget = Budget::new(10, 5, Instant::ORIGIN);
        assert!(budget.take(Instant::ORIGIN, 484));
        assert!(!budget.take(Instant::ORIGIN, 484));
        assert_eq!(budget.ready_at(484), Instant::from_nanos(500_000_000));
    }
}
