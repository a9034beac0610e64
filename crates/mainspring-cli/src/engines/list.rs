//! The classic server's list: every timer is looked at in every tick, and the clock is read for each.
//!
//! This is the algorithm of a game server in wide use, written from a description of what it does:
//! a timer fires at most once per pass; its next deadline is now, less the whole milliseconds it was late, plus its
//! interval. So what is missed is caught up later, and each firing loses the fraction of a millisecond that it was late.
//! It is kinder to the cache than the original, whose list holds pointers to timers allocated elsewhere.

use std::collections::LinkedList;

use mainspring::time::{Clock, Instant};

/// Repeating timers in the order they were started.
#[derive(Debug)]
pub(crate) struct List {
    timers: LinkedList<Timer>,
}

#[derive(Debug)]
struct Timer {
    deadline_ns: u64,
    interval_ns: u64,
    value: u64,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { timers: LinkedList::new() }
    }

    /// Starts a timer that is first due at `first`, and then again and again.
    pub(crate) fn repeat(&mut self, first: Instant, interval_ns: u64, value: u64) {
        self.timers.push_back(Timer { deadline_ns: first.as_nanos(), interval_ns, value });
    }

    /// Walks all timers once. Returns the last reading of the clock; `None` if there was no timer to read it for.
    pub(crate) fn pass(
        &mut self,
        clock: &impl Clock,
        mut fired: impl FnMut(u64),
    ) -> Option<Instant> {
        let mut last = None;
        for timer in &mut self.timers {
            let now = clock.now();
            last = Some(now);
            if let Some(late_ns) = now.as_nanos().checked_sub(timer.deadline_ns) {
                let late_whole_ns = late_ns / MILLISECOND_NS * MILLISECOND_NS;
                timer.deadline_ns = now.as_nanos() - late_whole_ns + timer.interval_ns;
                fired(timer.value);
            }
        }
        last
    }
}

const MILLISECOND_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring::time::ManualClock;

    /// How often each of two timers fires if passes happen at these instants.
    fn firings(passes_ns: &[u64]) -> Vec<(u64, u64)> {
        let clock = ManualClock::new(Instant::ORIGIN);
        let mut list = List::new();
        list.repeat(Instant::from_nanos(10_000_000), 10_000_000, 1);
        list.repeat(Instant::from_nanos(25_000_000), 25_000_000, 2);
        let mut fired = Vec::new();
        for &now in passes_ns {
            clock.advance_to(Instant::from_nanos(now));
            let last = list.pass(&clock, |value| fired.push((now, value)));
            assert_eq!(last, Some(Instant::from_nanos(now)));
        }
        fired
    }

    #[test]
    fn nothing_fires_early_not_even_by_a_nanosecond() {
        assert_eq!(firings(&[9_999_999]), []);
        assert_eq!(firings(&[10_000_000]), [(10_000_000, 1)]);
    }

    #[test]
    fn a_timer_fires_once_per_pass_and_catches_up_later() {
        let passes = [50_000_000, 50_000_001, 50_000_002, 50_000_003, 50_000_004, 50_000_005];
        let fired = firings(&passes);
        let ones = fired.iter().filter(|&&(_, value)| value == 1).count();
        let twos = fired.iter().filter(|&&(_, value)| value == 2).count();
        // Due five and two times; one pass each, and all caught up before the passes end.
        assert_eq!((ones, twos), (5, 2));
        assert_eq!(fired[..2], [(50_000_000, 1), (50_000_000, 2)]);
    }

    #[test]
    fn the_fraction_of_a_millisecond_is_lost_whole_ones_are_not() {
        // 2.4 ms late: the next deadline is 12.4 - 2 + 10 = 20.4 ms.
        assert_eq!(firings(&[12_400_000, 20_399_999]), [(12_400_000, 1)]);
        assert_eq!(firings(&[12_400_000, 20_400_000]), [(12_400_000, 1), (20_400_000, 1)]);
    }

    #[test]
    fn an_empty_list_reads_no_clock() {
        let clock = ManualClock::new(Instant::ORIGIN);
        assert_eq!(List::new().pass(&clock, |_| {}), None);
    }
}
