//! Mainspring's wheel in real time: ticks of a millisecond, the clock read for each start as the others do.

use std::time::Duration;

use mainspring::clock::Monotonic;
use mainspring::time::{Clock, Resolution};
use mainspring::wheel::{TimerKey, Wheel};

use super::OwnClock;

#[derive(Debug)]
pub(crate) struct OurWheel(Wheel<u32>);

const RESOLUTION: Resolution = Resolution::MILLISECOND;

impl OwnClock for OurWheel {
    type Key = TimerKey;

    fn new(timers: usize) -> Self {
        let now = RESOLUTION.tick_at_or_before(Monotonic.now());
        Self(Wheel::try_with_capacity(now, timers).expect("room for a wheel"))
    }

    fn insert(&mut self, delay: Duration, value: u32) -> TimerKey {
        self.0.insert(RESOLUTION.tick_at_or_after(Monotonic.now().saturating_add(delay)), value)
    }

    fn cancel(&mut self, key: TimerKey) -> bool {
        self.0.cancel(key).is_some()
    }

    fn reschedule(&mut self, key: &mut TimerKey, delay: Duration) -> bool {
        let deadline = RESOLUTION.tick_at_or_after(Monotonic.now().saturating_add(delay));
        self.0.reschedule(*key, deadline)
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        let mut pass = self.0.advance(RESOLUTION.tick_at_or_before(Monotonic.now()));
        while let Some(expired) = pass.next() {
            fired(*expired.value());
        }
    }
}
