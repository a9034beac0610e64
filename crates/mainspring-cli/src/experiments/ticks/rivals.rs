//! Repeating timers of other libraries, as the server's. They have clocks of their own: only the real one will do.

use std::task::{Context, Waker};
use std::time::Duration;

use mainspring::time::{Clock, Instant, Tick};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant as TokioInstant, Interval, MissedTickBehavior, interval_at};

use super::server::{MILLIS, Timers};
use crate::engines::rivals::{OwnClock, Woken};

/// When a timer is due next, and every how much from there on.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    next: Instant,
    interval: Duration,
}

/// All of them, by id; what is early is counted.
#[derive(Debug)]
struct Dues {
    dues: Vec<Due>,
    early: u64,
}

impl Dues {
    fn new(timers: u32) -> Self {
        Self { dues: vec![Due::default(); timers as usize + 1], early: 0 }
    }

    /// A timer is started; how long it is until it is first due.
    fn start(&mut self, now: Instant, start: Tick, interval_ms: u32, id: u32) -> Duration {
        let interval = Duration::from_millis(interval_ms.into());
        let next = MILLIS.start_of(start).saturating_add(interval);
        self.dues[id as usize] = Due { next, interval };
        next.saturating_duration_since(now)
    }

    /// A timer has fired: every expiration that is past counts at once, one at least, so that none of them has to make up
    /// for what it missed one by one.
    fn fire(&mut self, now: Instant, id: u32, fired: &mut impl FnMut(u32)) -> Instant {
        let due = &mut self.dues[id as usize];
        self.early += u64::from(due.next > now);
        loop {
            fired(id);
            due.next = due.next.saturating_add(due.interval);
            if due.next > now {
                return due.next;
            }
        }
    }
}

/// Each timer that fired is started again, for its next deadline on the grid.
pub(super) struct StartedAgain<R> {
    rival: R,
    dues: Dues,
    fired: Vec<u32>,
}

impl<R: OwnClock> Timers for StartedAgain<R> {
    const EXACT: bool = false;

    fn new(_now: Tick, timers: u32) -> Self {
        let rival = R::new(timers as usize + 1);
        Self { rival, dues: Dues::new(timers), fired: Vec::new() }
    }

    fn repeat(&mut self, clock: &impl Clock, start: Tick, interval_ms: u32, id: u32) {
        let delay = self.dues.start(clock.now(), start, interval_ms, id);
        self.rival.insert(delay, id);
    }

    fn pass(&mut self, _now: Instant, clock: &impl Clock, mut fired: impl FnMut(u32)) -> Tick {
        let Self { rival, dues, fired: ids } = self;
        rival.turn(&mut |id| ids.push(id));
        for id in ids.drain(..) {
            let now = clock.now();
            let next = dues.fire(now, id, &mut fired);
            rival.insert(next.saturating_duration_since(now), id);
        }
        MILLIS.tick_at_or_before(clock.now())
    }

    fn early(&self) -> u64 {
        self.dues.early
    }
}

/// `tokio::time::Interval`s, each polled when its waker says so, as its task would.
pub(super) struct Intervals {
    runtime: Runtime,
    woken: Woken,
    intervals: Vec<Option<(Interval, Waker)>>,
    dues: Dues,
}

impl Timers for Intervals {
    const EXACT: bool = false;

    fn new(_now: Tick, timers: u32) -> Self {
        Self {
            runtime: Builder::new_current_thread().enable_time().build().expect("a runtime"),
            woken: Woken::default(),
            intervals: (0..=timers).map(|_| None).collect(),
            dues: Dues::new(timers),
        }
    }

    fn repeat(&mut self, clock: &impl Clock, start: Tick, interval_ms: u32, id: u32) {
        let delay = self.dues.start(clock.now(), start, interval_ms, id);
        let _inside = self.runtime.enter();
        let period = Duration::from_millis(interval_ms.into());
        let mut interval = interval_at(TokioInstant::now() + delay, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // It is in the runtime's wheel from its first poll on, in the next pass.
        let waker = self.woken.waker(id);
        waker.wake_by_ref();
        self.intervals[id as usize] = Some((interval, waker));
    }

    fn pass(&mut self, _now: Instant, clock: &impl Clock, mut fired: impl FnMut(u32)) -> Tick {
        // One turn of the runtime, its timers included.
        self.runtime.block_on(tokio::task::yield_now());
        for id in self.woken.take() {
            let Some((interval, waker)) = &mut self.intervals[id as usize] else { continue };
            if interval.poll_tick(&mut Context::from_waker(waker)).is_ready() {
                self.dues.fire(clock.now(), id, &mut fired);
                // What it skipped has been counted; this is where it waits for the next.
                let _pending = interval.poll_tick(&mut Context::from_waker(waker));
            }
        }
        MILLIS.tick_at_or_before(clock.now())
    }

    fn early(&self) -> u64 {
        self.dues.early
    }
}
