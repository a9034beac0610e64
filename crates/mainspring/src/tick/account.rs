//! A loop's bookkeeping: no thread, no clock, only the moments at which ticks began and ended.

use core::time::Duration;

use crate::time::{Instant, saturating_nanos};

/// How a loop is doing: totals since it began, and figures of the last full second. Those are zero until there was one;
/// seconds are counted from the first tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickStats {
    ticks: u64,
    dropped: u64,
    overruns: u64,
    worst_lateness: Duration,
    /// Of the last full second.
    tick_rate: u64,
    busy: Duration,
    lateness: Duration,
}

impl TickStats {
    /// Ticks begun.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Ticks that were due and never ran.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Ticks whose body took longer than a period. None in a loop that sleeps: it has no period.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// The longest that any tick began after it was due.
    #[must_use]
    pub fn worst_lateness(&self) -> Duration {
        self.worst_lateness
    }

    /// Ticks begun in the last full second.
    #[must_use]
    pub fn tick_rate(&self) -> u64 {
        self.tick_rate
    }

    /// Time spent in bodies in the last full second: one second at most.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// The share of the last full second that was spent in bodies: 0 to 1.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        self.busy.as_secs_f64()
    }

    /// The longest that a tick of the last full second began after it was due.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.lateness
    }
}

/// Keeps the accounts of one loop. Every method is O(1), however long the loop was away.
#[derive(Debug)]
pub(super) struct Account {
    /// The body that takes longer is an overrun.
    period: Option<Duration>,
    /// When the second under way began, and what it has seen so far.
    second: Instant,
    ticks: u64,
    busy: u64,
    lateness: Duration,
    /// When the tick under way began.
    began: Instant,
    stats: TickStats,
}

impl Account {
    pub(super) fn new(first: Instant, period: Option<Duration>) -> Self {
        Self {
            period,
            second: first,
            ticks: 0,
            busy: 0,
            lateness: Duration::ZERO,
            began: first,
            stats: TickStats::default(),
        }
    }

    pub(super) fn stats(&self) -> &TickStats {
        &self.stats
    }

    /// A tick begins, after `skipped` that were dropped.
    pub(super) fn begin(&mut self, now: Instant, late_by: Duration, skipped: u64) {
        self.close_seconds(now, 0);
        self.began = now;
        self.ticks += 1;
        self.lateness = self.lateness.max(late_by);
        self.stats.ticks += 1;
        self.stats.dropped = self.stats.dropped.saturating_add(skipped);
        self.stats.worst_lateness = self.stats.worst_lateness.max(late_by);
    }

    /// Its body has ended.
    pub(super) fn end(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.began);
        if self.period.is_some_and(|period| took > period) {
            self.stats.overruns += 1;
        }
        // A body may reach over the ends of many seconds: what lies in the first, a whole one if there is one, the rest.
        let left = SECOND.saturating_sub(self.nanos_into_second(self.began));
        self.busy += saturating_nanos(took).min(left);
        if self.close_seconds(now, SECOND) {
            self.busy = self.nanos_into_second(now);
        }
    }

    /// Ends the second under way if `now` lies beyond it. If a whole one has passed since, that is the last full second:
    /// no tick began in it, and it was busy for `busy` nanoseconds.
    fn close_seconds(&mut self, now: Instant, busy: u64) -> bool {
        let seconds = self.nanos_into_second(now) / SECOND;
        if seconds == 0 {
            return false;
        }
        if seconds > 1 {
            (self.ticks, self.busy, self.lateness) = (0, busy, Duration::ZERO);
        }
        self.stats.tick_rate = self.ticks;
        self.stats.busy = Duration::from_nanos(self.busy);
        self.stats.lateness = self.lateness;
        (self.ticks, self.busy, self.lateness) = (0, 0, Duration::ZERO);
        let passed = Duration::from_nanos(seconds * SECOND);
        self.second = self.second.saturating_add(passed);
        true
    }

    fn nanos_into_second(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.second.as_nanos())
    }
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_second_without_ticks_has_rate_zero() {
        let mut account = Account::new(at(0), None);
        for tick in 0..200 {
            account.begin(at(tick * 5_000_000), Duration::ZERO, 0);
            account.end(at(tick * 5_000_000 + 1_000_000));
        }
        account.begin(at(SECOND), Duration::from_nanos(3), 0);
        assert_eq!(account.stats().tick_rate(), 200);
        assert_eq!(account.stats().busy(), Duration::from_millis(200));
        account.end(at(SECOND));
        account.begin(at(5 * SECOND), Duration::ZERO, 7);
        let expected = TickStats {
            ticks: 202,
            dropped: 7,
            worst_lateness: Duration::from_nanos(3),
            ..TickStats::default()
        };
        assert_eq!(*account.stats(), expected, "nothing happened for three seconds");
    }

    #[test]
    fn only_a_body_longer_than_the_period_is_an_overrun() {
        let mut account = Account::new(at(0), Some(Duration::from_nanos(10)));
        for (began, ended) in [(0, 10), (10, 21), (21, 22), (40, 400)] {
            account.begin(at(began), Duration::ZERO, 0);
            account.end(at(ended));
        }
        assert_eq!(account.stats().overruns(), 2);
    }

    proptest! {
        /// Against the naive way: all spans kept, the last full second looked at anew each time.
        #[test]
        fn the_last_full_second_is_what_it_was(
            first in 0_u64..SECOND,
            spans in prop::collection::vec((0_u64..3 * SECOND, 0_u32..12, 0_u64..3 * SECOND, 0_u32..12), 1..80),
        ) {
            let mut account = Account::new(at(first), None);
            let (mut now, mut kept): (u64, Vec<(u64, u64)>) = (first, Vec::new());
            for (idle, idle_shift, busy, busy_shift) in spans {
                let began = now + (idle >> idle_shift);
                let ended = began + (busy >> busy_shift);
                account.begin(at(began), Duration::ZERO, 0);
                kept.push((began, ended));
                account.end(at(ended));
                now = ended;

                let full = (now - first) / SECOND;
                let (from, to) = match full.checked_sub(1) {
                    Some(last) => (first + last * SECOND, first + full * SECOND),
                    None => (0, 0),
                };
                let rate = kept.iter().filter(|span| (from..to).contains(&span.0)).count();
                let busy: u64 = kept.iter().map(|span| span.1.min(to).saturating_sub(span.0.max(from))).sum();
                prop_assert_eq!(account.stats().tick_rate(), rate as u64);
                prop_assert_eq!(account.stats().busy(), Duration::from_nanos(busy));
            }
        }
    }
}
