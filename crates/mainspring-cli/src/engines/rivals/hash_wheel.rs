//! `hierarchical_hash_wheel_timer`, with cancellation, driven by a tick for each millisecond that has passed.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::TimerError;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};

use super::OwnClock;
use crate::stopwatch::Stopwatch;

#[derive(Debug)]
struct Entry {
    value: u32,
    /// Counted up: a moved timer is another one to this wheel.
    id: u64,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    start: Stopwatch,
    /// Ticks that have passed.
    ticks: u128,
    next_id: u64,
    /// Those without a delay are handed back at once.
    overdue: Vec<u32>,
}

/// The timer's value, and what the wheel knows it by.
pub(crate) struct Key {
    value: u32,
    id: u64,
}

impl OwnClock for HashWheel {
    type Key = Key;

    fn new(_: usize) -> Self {
        Self {
            wheel: QuadWheelWithOverflow::new(),
            start: Stopwatch::start(),
            ticks: 0,
            next_id: 0,
            overdue: Vec::new(),
        }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> Key {
        let id = self.next_id;
        self.next_id += 1;
        // From its own time, which may be a turn behind, and rounded up, as it must not be early.
        let due = (self.start.elapsed() + delay).as_micros().div_ceil(1000);
        let ticks = u64::try_from(due.saturating_sub(self.ticks)).unwrap_or(u64::MAX);
        let entry = Rc::new(Entry { value, id });
        if let Err(TimerError::Expired(entry)) =
            self.wheel.insert_ref_with_delay(entry, Duration::from_millis(ticks))
        {
            self.overdue.push(entry.value);
        }
        Key { value, id }
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.wheel.cancel(&key.id).is_ok()
    }

    fn reschedule(&mut self, key: &mut Key, delay: Duration) -> bool {
        let was_alive = self.wheel.cancel(&key.id).is_ok();
        *key = self.insert(delay, key.value);
        was_alive
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        self.overdue.drain(..).for_each(&mut *fired);
        let now = self.start.elapsed().as_millis();
        while self.ticks < now {
            let ahead = u32::try_from(now - self.ticks).unwrap_or(u32::MAX);
            match self.wheel.can_skip() {
                Skip::Empty => self.ticks = now,
                Skip::Millis(most) if ahead > 1 => {
                    let skipped = most.min(ahead - 1);
                    self.wheel.skip(skipped);
                    self.ticks += u128::from(skipped);
                }
                Skip::Millis(_) | Skip::None => {
                    self.ticks += 1;
                    self.wheel.tick().iter().for_each(|entry| fired(entry.value));
                }
            }
        }
    }
}
