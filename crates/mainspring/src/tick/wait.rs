//! Waiting for a moment: sleep for most of it, spin for the rest, and learn how much the rest must be.

use core::time::Duration;

use crate::time::{Clock, Instant, saturating_nanos};

/// How a loop waits. The two things it needs from the system, so that virtual time and other ways to wait fit.
pub trait Wait {
    /// Gives the thread away for `pause`, or longer. A wait that serves something else meanwhile may return sooner; it is
    /// called again for what is left, but by a loop that is paced [by sleeping](super::TickLoop::sleeping).
    fn sleep(&mut self, pause: Duration);

    /// Lets a moment pass without giving the thread away.
    fn relax(&mut self);
}

/// The operating system's sleep, to the nanosecond where it takes nanoseconds, and the processor's hint for spinning.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsWait;

impl Wait for OsWait {
    fn sleep(&mut self, pause: Duration) {
        #[allow(clippy::disallowed_methods, reason = "a tick loop owns its thread")]
        std::thread::sleep(pause);
    }

    fn relax(&mut self) {
        core::hint::spin_loop();
    }
}

/// Waits for deadlines, and remembers how late sleeps end.
#[derive(Debug)]
pub(super) struct Waiting {
    spin: bool,
    /// How long before a deadline to stop sleeping, in nanoseconds.
    margin: u64,
}

impl Waiting {
    pub(super) fn new(spin: bool) -> Self {
        let margin = if spin { FIRST_MARGIN } else { 0 };
        Self { spin, margin }
    }

    /// Returns the first reading of `clock` at or after `deadline`; `now` itself if it is.
    pub(super) fn until<C, W>(
        &mut self,
        deadline: Instant,
        mut now: Instant,
        clock: &C,
        wait: &mut W,
    ) -> Instant
    where
        C: Clock + ?Sized,
        W: Wait + ?Sized,
    {
        let mut spins = 0;
        while now < deadline {
            let left = deadline.saturating_duration_since(now);
            let pause = left.saturating_sub(Duration::from_nanos(self.margin));
            if !pause.is_zero() {
                wait.sleep(pause);
                let wanted = now.saturating_add(pause);
                now = clock.now();
                self.learn(saturating_nanos(now.saturating_duration_since(wanted)));
            } else if spins < MOST_SPINS {
                spins += 1;
                wait.relax();
                now = clock.now();
            } else {
                // A margin's worth of spins has not moved the clock there: it hardly runs. Do not burn the core for it.
                wait.sleep(left);
                now = clock.now();
            }
        }
        now
    }

    /// A sleep ended `late` nanoseconds after it should have. The margin aims at a quarter above that. It
    /// rises fast and falls slowly, so that it covers nearly all sleeps. One that ended later than the largest margin is no
    /// reason to spin: on a machine that is that busy, spinning only makes it worse.
    fn learn(&mut self, late: u64) {
        if !self.spin || late > LARGEST_MARGIN {
            return;
        }
        let covering = (late + late / 4).min(LARGEST_MARGIN);
        self.margin = if covering > self.margin {
            self.margin + (covering - self.margin) / 4
        } else {
            self.margin - (self.margin - covering) / 128
        };
    }
}

/// Before anything is measured: about what Linux needs (its timer slack is 50 us).
const FIRST_MARGIN: u64 = 100_000;
const LARGEST_MARGIN: u64 = 1_000_000;
/// Some 2 to 10 ms of pauses and clock reads.
const MOST_SPINS: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_covers_what_is_usual_and_forgets_what_is_not() {
        let mut waiting = Waiting::new(true);
        for _ in 0..1000 {
            waiting.learn(60_000);
        }
        assert!((75_000..80_000).contains(&waiting.margin), "{}", waiting.margin);
        waiting.learn(400_000);
        let risen = waiting.margin;
        assert!(risen > 150_000);
        waiting.learn(40_000_000);
        assert_eq!(waiting.margin, risen, "nobody spins for 40 ms");
        for _ in 0..1000 {
            waiting.learn(60_000);
        }
        assert!(waiting.margin < 80_000, "{}", waiting.margin);
        for _ in 0..1000 {
            waiting.learn(LARGEST_MARGIN);
        }
        assert!(waiting.margin <= LARGEST_MARGIN);
    }

    #[test]
    fn without_spinning_there_is_no_margin() {
        let mut waiting = Waiting::new(false);
        waiting.learn(60_000);
        assert_eq!(waiting.margin, 0);
    }
}
