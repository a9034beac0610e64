//! The server of the experiment: a loop, timers, and the update that adds more of them.

use std::ops::ControlFlow;
use std::time::Duration;

use mainspring::tick::{TickContext, TickLoop, TickStats, Wait};
use mainspring::time::{Clock, Instant, Resolution, Tick};

use super::due::Batch;
use super::{Configuration, Loop};
use crate::engines::{Candidate, List};
use crate::memory;

/// What the server keeps its timers in. Time is in ticks of a millisecond.
pub(super) trait Timers {
    /// Whether all that is due up to the tick of a pass fires in it, without drift.
    const EXACT: bool;

    /// For as many as `timers`, with ids up to that.
    fn new(now: Tick, timers: u32) -> Self;

    /// Starts a timer that is due every `interval_ms` from `start` on, for the first time that long after it.
    fn repeat(&mut self, clock: &impl Clock, start: Tick, interval_ms: u32, id: u32);

    /// Fires what is due. Returns the tick up to which was looked.
    fn pass(&mut self, now: Instant, clock: &impl Clock, fired: impl FnMut(u32)) -> Tick;

    /// Timers that fired before they were due, as far as can be told.
    fn early(&self) -> u64;
}

/// Drift-free repetition on any engine: the n-th deadline is start + n * interval.
#[derive(Debug)]
pub(super) struct Repeating<C> {
    engine: C,
    early: u64,
}

impl<C: Candidate> Timers for Repeating<C> {
    const EXACT: bool = true;

    fn new(now: Tick, _: u32) -> Self {
        Self { engine: C::new(now), early: 0 }
    }

    fn repeat(&mut self, _: &impl Clock, start: Tick, interval_ms: u32, id: u32) {
        // The eight bytes of the value: interval and id.
        let value = u64::from(interval_ms) << u32::BITS | u64::from(id);
        let first = start.saturating_add(u64::from(interval_ms));
        self.engine.insert(first, value);
    }

    fn pass(&mut self, now: Instant, _clock: &impl Clock, mut fired: impl FnMut(u32)) -> Tick {
        let now = MILLIS.tick_at_or_before(now);
        let early = &mut self.early;
        self.engine.advance(now, |deadline, value| {
            *early += u64::from(deadline > now);
            fired(low_half(value));
            Some(deadline.saturating_add(value >> u32::BITS))
        });
        now
    }

    fn early(&self) -> u64 {
        self.early
    }
}

impl Timers for List {
    const EXACT: bool = false;

    fn new(_now: Tick, _: u32) -> Self {
        Self::new()
    }

    fn repeat(&mut self, _: &impl Clock, start: Tick, interval_ms: u32, id: u32) {
        let interval = Duration::from_millis(u64::from(interval_ms));
        let first = MILLIS.start_of(start).saturating_add(interval);
        self.repeat(first, interval_ns(interval_ms), u64::from(id));
    }

    fn pass(&mut self, now: Instant, clock: &impl Clock, mut fired: impl FnMut(u32)) -> Tick {
        let last = self.pass(clock, |value| fired(low_half(value)));
        MILLIS.tick_at_or_before(last.unwrap_or(now))
    }

    /// It keeps no deadline to compare with; but nothing may fire more often than it was due.
    fn early(&self) -> u64 {
        0
    }
}

/// One line, as far as it is known when it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) last_id: u32,
    pub(super) tick_rate: u64,
    pub(super) busy_percent: f64,
    pub(super) dropped: u64,
    pub(super) fired: u64,
    /// All expirations up to the tick of the pass.
    pub(super) due: u64,
    pub(super) tick_us_p99: f64,
    pub(super) tick_us_max: f64,
    pub(super) bytes_per_timer: f64,
    /// The tick of the pass, and how many ticks there were.
    tick: u64,
    ticks: usize,
}

/// The lines of one run, and why they are worth nothing, if a check found that.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) samples: Vec<Sample>,
    pub(super) fault: Option<String>,
}

/// Runs the loop of one configuration until its last line is taken. `taken` is called after each.
pub(super) fn run<T: Timers>(
    configuration: Configuration,
    clock: &impl Clock,
    wait: &mut impl Wait,
    mut taken: impl FnMut(),
) -> Finished {
    let tick_loop = tick_loop(configuration.kind);
    memory::release_freed();
    let mut server = Server::<T>::new(configuration, clock);
    tick_loop.run_with(clock, wait, |tick| {
        let before = server.book.samples.len();
        server.tick(tick, clock);
        (before..server.book.samples.len()).for_each(|_| taken());
        if server.book.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    server.finish()
}

/// How a loop is paced.
pub(super) fn tick_loop(kind: Loop) -> TickLoop {
    let pause = Duration::from_millis(TICK_MS);
    match kind {
        Loop::Deadline => TickLoop::every(pause),
        Loop::Sleep => TickLoop::sleeping(pause),
    }
}

struct Server<T> {
    timers: T,
    updates: u32,
    /// The sum of the ids of all that fired.
    checksum: u64,
    book: Book,
}

impl<T: Timers> Server<T> {
    fn new(configuration: Configuration, clock: &impl Clock) -> Self {
        let book = Book::new(configuration);
        let now = MILLIS.tick_at_or_after(clock.now());
        let most = UPDATE_ID + configuration.per_update * configuration.samples;
        let mut server = Self { updates: 0, checksum: 0, timers: T::new(now, most), book };
        server.timers.repeat(clock, now, UPDATE_MS, UPDATE_ID);
        server
    }

    fn tick(&mut self, context: &TickContext, clock: &impl Clock) {
        let Self { checksum, book, .. } = self;
        let mut updates = 0;
        let tick = self.timers.pass(context.now, clock, |id| {
            if id == UPDATE_ID {
                updates += 1;
            } else {
                book.fired += 1;
                *checksum = checksum.wrapping_add(u64::from(id));
            }
        });
        let mut last_ids = Vec::new();
        for _ in 0..updates {
            self.updates += 1;
            if self.updates > WARM_UP && !self.book.has_all_batches() {
                last_ids.push(self.add_batch(clock, MILLIS.tick_at_or_after(context.now)));
            }
        }
        self.book.tick_took(clock.now().saturating_duration_since(context.now));
        // The tick is over; what follows is not part of what is measured.
        for last_id in last_ids {
            self.book.take_sample(last_id, tick, &context.stats);
        }
    }

    fn add_batch(&mut self, clock: &impl Clock, start: Tick) -> u32 {
        let Configuration { per_update, interval_ms, stagger_ms, .. } = self.book.configuration;
        let first_id = self.book.last_id + 1;
        for timer in 0..per_update {
            let interval_ms = interval_ms + timer * stagger_ms;
            self.timers.repeat(clock, start, interval_ms, first_id + timer);
        }
        self.book.add_batch(start)
    }

    fn finish(self) -> Finished {
        let early = self.timers.early();
        let batches = self.book.batches.clone();
        let mut outcome = self.book.finish(T::EXACT);
        let expected = |last: &Sample| {
            let sums = batches.iter().map(|batch| batch.checksum(last.tick));
            sums.fold(0, u64::wrapping_add)
        };
        if early > 0 {
            outcome.fault = Some(format!("{early} timers fired early"));
        } else if outcome.fault.is_none()
            && T::EXACT
            && outcome.samples.last().is_some_and(|last| expected(last) != self.checksum)
        {
            outcome.fault = Some("as many timers fired as were due, but not the same ones".into());
        }
        outcome
    }
}

/// What is written down while a server runs, and worked out when it has ended.
pub(super) struct Book {
    configuration: Configuration,
    /// The last id given out.
    last_id: u32,
    batches: Vec<Batch>,
    /// Timers that have fired, updates not counted.
    pub(super) fired: u64,
    /// How long each tick took.
    ticks_ns: Vec<u64>,
    samples: Vec<Sample>,
    resident_before: u64,
}

impl Book {
    pub(super) fn new(configuration: Configuration) -> Self {
        let samples = configuration.samples as usize;
        Self {
            configuration,
            last_id: UPDATE_ID,
            batches: Vec::with_capacity(samples),
            fired: 0,
            ticks_ns: Vec::with_capacity((samples + WARM_UP as usize) * 32),
            samples: Vec::with_capacity(samples),
            resident_before: memory::resident_bytes(),
        }
    }

    fn has_all_batches(&self) -> bool {
        self.batches.len() == self.configuration.samples as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.samples.len() >= self.configuration.samples as usize
    }

    pub(super) fn tick_took(&mut self, time: Duration) {
        self.ticks_ns.push(mainspring::time::saturating_nanos(time));
    }

    /// Timers were added at `start`; the last one's id is returned.
    pub(super) fn add_batch(&mut self, start: Tick) -> u32 {
        let Configuration { per_update, interval_ms, stagger_ms, .. } = self.configuration;
        let first_id = self.last_id + 1;
        self.last_id += per_update;
        let start = start.0;
        let timers = per_update;
        self.batches.push(Batch { start, timers, interval_ms, stagger_ms, first_id });
        self.last_id
    }

    pub(super) fn take_sample(&mut self, last_id: u32, tick: Tick, stats: &TickStats) {
        let grown = memory::resident_bytes().saturating_sub(self.resident_before);
        self.samples.push(Sample {
            last_id,
            tick_rate: stats.tick_rate(),
            busy_percent: stats.busy_share() * 100.0,
            dropped: stats.dropped(),
            fired: self.fired,
            bytes_per_timer: grown as f64 / f64::from(self.last_id),
            tick: tick.0,
            ticks: self.ticks_ns.len(),
            // Known only when the loop has ended and there is time to count.
            due: 0,
            tick_us_p99: 0.0,
            tick_us_max: 0.0,
        });
    }

    /// All that were due up to a tick.
    fn due_by(&self, tick: u64) -> u64 {
        self.batches.iter().map(|batch| batch.due(tick)).sum()
    }

    /// Works out what was due and how long ticks took, and checks that nothing was gained by not firing. With `exact` all
    /// that was due must have fired.
    pub(super) fn finish(mut self, exact: bool) -> Finished {
        let mut fault = None;
        let mut samples = std::mem::take(&mut self.samples);
        for sample in &mut samples {
            sample.due = self.due_by(sample.tick);
            let mut ticks_ns = self.ticks_ns[..sample.ticks].to_vec();
            ticks_ns.sort_unstable();
            let us = |percent| {
                let ns = crate::report::stats::percentile(&ticks_ns, percent);
                ns.map_or(0.0, |ns| ns as f64 / 1_000.0)
            };
            (sample.tick_us_p99, sample.tick_us_max) = (us(99.0), us(100.0));
            let Sample { fired, due, .. } = *sample;
            if fired > due {
                fault.get_or_insert_with(|| {
                    format!("{fired} timers fired, but only {due} were due")
                });
            } else if exact && fired < due {
                fault.get_or_insert_with(|| format!("{fired} timers fired of {due} that were due"));
            }
        }
        Finished { samples, fault }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

const fn interval_ns(interval_ms: u32) -> u64 {
    interval_ms as u64 * 1_000_000
}

pub(super) const MILLIS: Resolution = Resolution::MILLISECOND;

/// Between two deadlines of the loop, or how long it sleeps.
const TICK_MS: u64 = 5;

/// The update is a timer among the others, and the first.
const UPDATE_ID: u32 = 1;
pub(super) const UPDATE_MS: u32 = 100;

/// Updates that add nothing, so that the first rate is that of an idle loop.
pub(super) const WARM_UP: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Heap;
    use mainspring::time::ManualClock;
    use mainspring::wheel::Wheel;

    /// A second is over as soon as it is slept.
    struct Virtual<'a>(&'a ManualClock);

    impl Wait for Virtual<'_> {
        fn sleep(&mut self, pause: Duration) {
            self.0.advance(pause);
        }

        fn relax(&mut self) {
            self.0.advance(Duration::from_micros(1));
        }
    }

    fn configuration(kind: Loop, interval_ms: u32, stagger_ms: u32) -> Configuration {
        Configuration { kind, per_update: 25, interval_ms, stagger_ms, samples: 8 }
    }

    fn run_virtually<T: Timers>(configuration: Configuration) -> Vec<Sample> {
        // Not on a whole millisecond, as no clock ever is.
        let clock = ManualClock::new(Instant::from_nanos(123_456_789));
        let mut calls = 0;
        let outcome = run::<T>(configuration, &clock, &mut Virtual(&clock), || calls += 1);
        assert_eq!((calls, outcome.fault), (8, None));
        outcome.samples
    }

    fn is_complete(samples: &[Sample]) {
        assert_eq!(samples.len(), 8);
        for (index, sample) in samples.iter().enumerate() {
            assert_eq!(sample.last_id as usize, 1 + 25 * (index + 1));
            // A sleeping loop and a punctual one are alike while bodies take no time.
            assert_eq!((sample.tick_rate, sample.dropped), (200, 0));
        }
        assert!(samples.is_sorted_by_key(|sample| sample.fired));
        assert!(samples[7].due > 0);
    }

    #[test]
    fn engines_fire_all_that_is_due() {
        for kind in [Loop::Deadline, Loop::Sleep] {
            for (interval_ms, stagger_ms) in [(10, 0), (10, 1), (1, 0), (300, 3)] {
                let configuration = configuration(kind, interval_ms, stagger_ms);
                is_complete(&run_virtually::<Repeating<Heap>>(configuration));
                is_complete(&run_virtually::<Repeating<Wheel<u64>>>(configuration));
            }
        }
    }

    #[test]
    fn the_list_never_fires_more_than_is_due_and_misses_short_intervals() {
        let samples = run_virtually::<List>(configuration(Loop::Deadline, 300, 3));
        is_complete(&samples);
        // Five expirations between two ticks, one firing per tick.
        let samples = run_virtually::<List>(configuration(Loop::Deadline, 1, 0));
        is_complete(&samples);
        let last = samples[7];
        assert!(last.fired * 4 < last.due && last.fired * 6 > last.due, "{last:?}");
    }

    /// Timers that lose every tenth expiration, and those that make one up.
    struct Cheat<const SKIP: bool>(Repeating<Heap>, u32);

    impl<const SKIP: bool> Timers for Cheat<SKIP> {
        const EXACT: bool = true;

        fn new(now: Tick, timers: u32) -> Self {
            Self(Repeating::new(now, timers), 0)
        }

        fn repeat(&mut self, clock: &impl Clock, start: Tick, interval_ms: u32, id: u32) {
            self.0.repeat(clock, start, interval_ms, id);
        }

        fn pass(&mut self, now: Instant, clock: &impl Clock, mut fired: impl FnMut(u32)) -> Tick {
            let count = &mut self.1;
            self.0.pass(now, clock, |id| {
                *count += 1;
                let tenth = id != UPDATE_ID && count.is_multiple_of(10);
                match (tenth, SKIP) {
                    (true, true) => {}
                    (true, false) => fired(id + 1),
                    (false, _) => fired(id),
                }
            })
        }

        fn early(&self) -> u64 {
            0
        }
    }

    #[test]
    fn not_firing_or_firing_others_makes_the_run_invalid() {
        let clock = ManualClock::new(Instant::from_nanos(1));
        let mut wait = Virtual(&clock);
        let configuration = configuration(Loop::Deadline, 10, 0);
        let skipped = run::<Cheat<true>>(configuration, &clock, &mut wait, || {});
        assert!(skipped.fault.is_some_and(|fault| fault.contains("that were due")));
        let swapped = run::<Cheat<false>>(configuration, &clock, &mut wait, || {});
        assert!(swapped.fault.is_some_and(|fault| fault.contains("not the same ones")));
    }
}
