//! Mainspring's wheel as one of the candidates.

use mainspring::time::Tick;
use mainspring::wheel::{TimerKey, Wheel};

use super::{Candidate, Engine};

impl Candidate for Wheel<u64> {
    const ENGINE: Engine = Engine::Wheel;
    type Key = TimerKey;

    fn new(now: Tick) -> Self {
        Self::new(now)
    }

    fn with_capacity(now: Tick, timers: usize) -> Self {
        // Without the memory in advance the wheel asks for it as it grows; the plan has checked that there is enough.
        Self::try_with_capacity(now, timers).unwrap_or_else(|_| Self::new(now))
    }

    #[inline]
    fn insert(&mut self, deadline: Tick, value: u64) -> TimerKey {
        self.insert(deadline, value)
    }

    #[inline]
    fn cancel(&mut self, key: TimerKey) -> Option<u64> {
        self.cancel(key)
    }

    #[inline]
    fn reschedule(&mut self, key: &mut TimerKey, deadline: Tick) -> bool {
        self.reschedule(*key, deadline)
    }

    #[inline]
    fn advance(&mut self, now: Tick, mut fired: impl FnMut(Tick, u64) -> Option<Tick>) {
        let mut pass = self.advance(now);
        while let Some(expired) = pass.next() {
            if let Some(deadline) = fired(expired.deadline(), *expired.value()) {
                expired.rearm(deadline);
            }
        }
    }

    fn next_wake(&self) -> Option<Tick> {
        self.next_wake()
    }

    fn len(&self) -> usize {
        self.len()
    }
}
