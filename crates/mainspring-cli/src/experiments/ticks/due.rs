//! How many expirations are due, computed without any engine.

/// Timers added at one update. The j-th, from 0 on, is due every `interval_ms + j * stagger_ms`, for the first time that
/// long after `start`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// In ticks of a millisecond.
    pub(super) start: u64,
    pub(super) timers: u32,
    pub(super) interval_ms: u32,
    pub(super) stagger_ms: u32,
    pub(super) first_id: u32,
}

impl Batch {
    pub(super) const fn period_ms(&self, timer: u32) -> u64 {
        self.interval_ms as u64 + timer as u64 * self.stagger_ms as u64
    }

    /// Nominal expirations of all its timers up to and including `tick`: the sum of `floor(elapsed / period)`.
    ///
    /// Neighbours have the same quotient over long stretches, so the sum is taken a stretch at a time: there are at most
    /// `2 * sqrt(elapsed)` of them, however many timers.
    pub(super) fn due(&self, tick: u64) -> u64 {
        let elapsed = tick.saturating_sub(self.start);
        let timers = u64::from(self.timers);
        let (interval, stagger) = (u64::from(self.interval_ms), u64::from(self.stagger_ms));
        if stagger == 0 {
            return timers * (elapsed / interval);
        }
        let (mut due, mut timer) = (0, 0);
        while timer < timers {
            let quotient = elapsed / (interval + timer * stagger);
            if quotient == 0 {
                break; // and for all later ones
            }
            let longest_alike = elapsed / quotient;
            let next = ((longest_alike - interval) / stagger + 1).min(timers);
            due += quotient * (next - timer);
            timer = next;
        }
        due
    }

    /// The sum of the ids of all expirations up to and including `tick`, modulo 2^64, timer by timer.
    pub(super) fn checksum(&self, tick: u64) -> u64 {
        let elapsed = tick.saturating_sub(self.start);
        (0..self.timers).fold(0_u64, |sum, timer| {
            let id = u64::from(self.first_id + timer);
            sum.wrapping_add(id.wrapping_mul(elapsed / self.period_ms(timer)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every timer's every expiration, walked.
    fn brute_force(batch: &Batch, tick: u64) -> (u64, u64) {
        let (mut due, mut checksum) = (0, 0);
        for timer in 0..batch.timers {
            let mut deadline = batch.start + batch.period_ms(timer);
            while deadline <= tick {
                due += 1;
                checksum += u64::from(batch.first_id + timer);
                deadline += batch.period_ms(timer);
            }
        }
        (due, checksum)
    }

    #[test]
    fn the_formula_counts_what_is_there() {
        for (timers, interval_ms) in [(1, 1), (7, 10), (100, 1), (33, 250), (1_000, 3)] {
            for stagger_ms in [0, 1, 2, 7, 1_000] {
                let batch = Batch { start: 1_000, timers, interval_ms, stagger_ms, first_id: 2 };
                for tick in [0, 999, 1_000, 1_001, 1_009, 1_010, 1_011, 1_257, 3_500, 9_999] {
                    let (due, checksum) = brute_force(&batch, tick);
                    assert_eq!(batch.due(tick), due, "{batch:?} at {tick}");
                    assert_eq!(batch.checksum(tick), checksum, "{batch:?} at {tick}");
                }
            }
        }
    }

    #[test]
    fn each_tick_adds_what_is_due_at_it() {
        let batch = Batch { start: 5, timers: 20, interval_ms: 4, stagger_ms: 3, first_id: 9 };
        for tick in 5..500 {
            let at_tick = (0..batch.timers)
                .filter(|&timer| (tick - batch.start).is_multiple_of(batch.period_ms(timer)))
                .count() as u64;
            let before = batch.due(tick - 1);
            assert_eq!(batch.due(tick) - before, if tick == 5 { 0 } else { at_tick });
        }
    }
}
