//! What the tick loop protects its users from, in virtual time: a clock that moves only when the loop waits or works.
#![cfg(feature = "std")]

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::tick::{Summary, TickContext, TickLoop, Wait};
use mainspring::time::{Clock, Instant, ManualClock};

const MILLI: Duration = Duration::from_millis(1);

fn hertz(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("tests use non-zero rates")
}

/// A system that wakes sleepers up to 90 us late, differently each time, and at times much later.
struct System {
    clock: ManualClock,
    reads: Cell<u64>,
    seed: u64,
    late: Duration,
    sleeps: u64,
    slept: Duration,
    spins: u64,
}

const RELAX: Duration = Duration::from_micros(1);

impl Clock for System {
    fn now(&self) -> Instant {
        self.reads.set(self.reads.get() + 1);
        self.clock.now()
    }
}

/// The system as a loop waits in it. Shared with the clock, so all of it sits behind one cell.
struct Waiter<'a>(&'a std::cell::RefCell<System>);

struct Shared<'a>(&'a std::cell::RefCell<System>);

impl Clock for Shared<'_> {
    fn now(&self) -> Instant {
        self.0.borrow().now()
    }
}

impl Wait for Waiter<'_> {
    fn sleep(&mut self, pause: Duration) {
        let mut system = self.0.borrow_mut();
        assert!(!pause.is_zero(), "a sleep of nothing is a spin in disguise");
        system.seed = system.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let late = system.late.mul_f64(f64::from((system.seed >> 40) as u32) / f64::from(1 << 24));
        system.clock.advance(pause + late);
        system.sleeps += 1;
        system.slept += pause + late;
    }

    fn relax(&mut self) {
        let mut system = self.0.borrow_mut();
        system.clock.advance(RELAX);
        system.spins += 1;
    }
}

fn system(late: Duration) -> std::cell::RefCell<System> {
    std::cell::RefCell::new(System {
        clock: ManualClock::new(Instant::from_nanos(123_456_789)),
        reads: Cell::new(0),
        seed: 42,
        late,
        sleeps: 0,
        slept: Duration::ZERO,
        spins: 0,
    })
}

/// Runs `ticks` passes; `work` says how long each body takes.
fn run(
    tick_loop: &TickLoop,
    system: &std::cell::RefCell<System>,
    passes: u64,
    mut work: impl FnMut(&TickContext) -> Duration,
) -> Summary {
    let mut left = passes;
    tick_loop.run_with(&Shared(system), &mut Waiter(system), |tick| {
        let busy = work(tick);
        system.borrow().clock.advance(busy);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

#[test]
fn the_rate_is_the_rate_whatever_the_work_and_the_wake_ups() {
    for rate in [20, 60, 200, 250] {
        for spin in [true, false] {
            let system = system(Duration::from_micros(900));
            let tick_loop = TickLoop::per_second(hertz(rate)).spin(spin);
            let passes = u64::from(rate) * 10;
            let summary = run(&tick_loop, &system, passes, |tick| {
                if tick.now.as_nanos() > 2_500_000_000 {
                    assert_eq!(tick.stats.tick_rate(), u64::from(rate));
                }
                2 * MILLI
            });
            let off = summary.elapsed.abs_diff(Duration::from_secs(10));
            assert!(off < 4 * MILLI, "{rate} Hz: {off:?} off");
            assert_eq!((summary.stats.ticks(), summary.stats.dropped()), (passes, 0));
        }
    }
}

#[test]
fn a_stall_is_made_up_within_bounds_and_reported() {
    let system = system(Duration::ZERO);
    let at_most = hertz(5);
    let tick_loop = TickLoop::per_second(hertz(20)).missed(Missed::CatchUp { at_most });
    let mut numbers = vec![];
    let start = system.borrow().clock.now();
    let summary = run(&tick_loop, &system, 8, |tick| {
        numbers.push((tick.number, tick.skipped));
        let on_phase = start.saturating_add(Duration::from_millis(50 * tick.number));
        assert_eq!(tick.scheduled, on_phase);
        // The first tick is stuck for ten seconds.
        if tick.number == 1 { Duration::from_secs(10) } else { Duration::ZERO }
    });
    let made_up = [(197, 195), (198, 0), (199, 0), (200, 0), (201, 0)];
    assert_eq!(numbers[0], (1, 0));
    assert_eq!(numbers[1..6], made_up);
    assert_eq!(numbers[6..], [(202, 0), (203, 0)], "and on, in phase");
    assert_eq!((summary.stats.dropped(), summary.stats.overruns()), (195, 1));
}

#[test]
fn the_default_makes_up_five_ticks() {
    let system = system(Duration::ZERO);
    let summary = run(&TickLoop::every(5 * MILLI), &system, 7, |tick| {
        if tick.number == 1 { Duration::from_secs(1) } else { Duration::ZERO }
    });
    assert_eq!((summary.stats.ticks(), summary.stats.dropped()), (7, 195));
}

#[test]
fn too_much_work_drops_ticks_and_does_not_fall_behind_for_ever() {
    let system = system(Duration::from_micros(50));
    let summary = run(&TickLoop::per_second(hertz(100)), &system, 1000, |_| 15 * MILLI);
    assert_eq!(summary.stats.overruns(), 1000);
    assert!(summary.stats.worst_lateness() <= 50 * MILLI + MILLI);
    assert!((490..=510).contains(&summary.stats.dropped()), "{}", summary.stats.dropped());
    assert_eq!(summary.stats.busy(), Duration::from_secs(1));
    assert!((66..=67).contains(&summary.stats.tick_rate()));
}

#[test]
fn spinning_is_punctual_and_short_and_never_early() {
    let system = system(Duration::from_micros(90));
    let mut late = vec![];
    let passes = 10_000;
    let summary = run(&TickLoop::every(5 * MILLI), &system, passes, |tick| {
        assert!(tick.now >= tick.scheduled);
        late.push(tick.late_by);
        MILLI
    });
    let punctual = late.iter().filter(|&&late| late < RELAX).count();
    assert!(punctual > 9_900, "{punctual} of {passes}");
    let system = system.borrow();
    let spun = RELAX * u32::try_from(system.spins).expect("few");
    assert!(spun < summary.elapsed / 40, "a margin of about 0.1 ms in 5: {spun:?}");
}

#[test]
fn without_spinning_a_tick_costs_one_sleep() {
    let system = system(Duration::from_micros(90));
    run(&TickLoop::every(5 * MILLI).spin(false), &system, 1000, |_| MILLI);
    assert_eq!((system.borrow().sleeps, system.borrow().spins), (1000, 0));
}

#[test]
fn a_distant_tick_wakes_nobody_before_its_time() {
    for spin in [true, false] {
        let system = system(Duration::from_micros(90));
        run(&TickLoop::every(Duration::from_secs(10)).spin(spin), &system, 1, |_| MILLI);
        assert_eq!(system.borrow().sleeps, 1);
        assert!(RELAX * u32::try_from(system.borrow().spins).expect("few") < MILLI);
    }
}

#[test]
fn short_periods_are_slept_in_nanoseconds() {
    let system = system(Duration::ZERO);
    let tick_loop = TickLoop::every(Duration::from_micros(50)).spin(false);
    let mut late = vec![];
    run(&tick_loop, &system, 1000, |tick| {
        late.push(tick.late_by);
        Duration::from_nanos(7_300)
    });
    assert_eq!(late, [Duration::ZERO; 1000], "no rounding up to a millisecond");
}

#[test]
fn the_clock_is_read_twice_a_pass_however_much_is_done_in_it() {
    for tick_loop in [TickLoop::every(5 * MILLI).spin(false), TickLoop::sleeping(5 * MILLI)] {
        let system = system(Duration::from_micros(60));
        run(&tick_loop, &system, 1000, |_| MILLI);
        assert!(system.borrow().reads.get() <= 2 * 1000 + 1);
    }
}

#[test]
fn a_clock_that_hardly_moves_is_slept_on_not_burnt_on() {
    /// Time passes only in sleeps, and a reading is stale for three of them.
    struct Stuck<'a>(&'a ManualClock, Cell<u32>, Cell<u32>);
    impl Wait for &Stuck<'_> {
        fn sleep(&mut self, pause: Duration) {
            self.1.set(self.1.get() + 1);
            if self.1.get().is_multiple_of(4) {
                self.0.advance(pause);
            }
        }
        fn relax(&mut self) {
            self.2.set(self.2.get() + 1);
        }
    }
    let clock = ManualClock::default();
    let stuck = Stuck(&clock, Cell::new(0), Cell::new(0));
    let summary =
        TickLoop::every(5 * MILLI).run_with(&clock, &mut &stuck, |_| ControlFlow::Break(()));
    assert_eq!(summary.stats.ticks(), 1);
    assert!(stuck.2.get() <= 100_000);
}

#[test]
fn a_sleeping_loop_is_the_classic_server() {
    let system = system(Duration::ZERO);
    let mut starts = vec![];
    let summary = run(&TickLoop::sleeping(5 * MILLI), &system, 1000, |tick| {
        starts.push(tick.now);
        assert_eq!(tick.number, starts.len() as u64);
        3 * MILLI
    });
    // The pause is counted from the end of the work: 8 ms a tick.
    for pair in starts.windows(2) {
        assert_eq!(pair[1].saturating_duration_since(pair[0]), 8 * MILLI);
    }
    assert_eq!(summary.stats.tick_rate(), 125);
    assert_eq!(summary.stats.busy(), Duration::from_millis(375));
    assert_eq!((summary.stats.dropped(), summary.stats.overruns()), (0, 0));
}

#[test]
fn a_sleeping_loop_tells_how_late_it_was_woken() {
    let system = system(MILLI);
    let summary = run(&TickLoop::sleeping(5 * MILLI), &system, 500, |_| Duration::ZERO);
    assert!(summary.stats.worst_lateness() > MILLI / 2 && summary.stats.worst_lateness() <= MILLI);
    assert!(summary.stats.lateness() <= summary.stats.worst_lateness());
}

#[test]
fn the_loop_publishes_the_time_by_itself() {
    for tick_loop in [TickLoop::every(5 * MILLI), TickLoop::sleeping(5 * MILLI)] {
        let system = system(Duration::from_micros(60));
        let cached = tick_loop.cached();
        assert_eq!(cached.now(), Instant::ORIGIN);
        run(&tick_loop, &system, 100, |tick| {
            assert_eq!(cached.now(), tick.now);
            MILLI
        });
        assert_eq!(cached.now(), system.borrow().clock.now(), "also when the last body has ended");
    }
}

#[test]
fn sixty_hertz_is_on_the_nanosecond_after_an_hour() {
    let system = system(Duration::ZERO);
    let start = system.borrow().clock.now();
    let mut last = start;
    run(&TickLoop::per_second(hertz(60)).spin(false), &system, 216_000, |tick| {
        last = tick.scheduled;
        Duration::ZERO
    });
    assert_eq!(last.saturating_duration_since(start), Duration::from_secs(3600));
}

#[test]
fn a_loop_beyond_the_end_of_time_ends() {
    let system = system(Duration::ZERO);
    let summary = run(&TickLoop::every(Duration::MAX).spin(false), &system, 1, |_| Duration::ZERO);
    assert_eq!(summary.stats.ticks(), 0);
    let zero = run(&TickLoop::every(Duration::ZERO), &self::system(Duration::ZERO), 9, |_| MILLI);
    assert_eq!(zero.stats.ticks(), 9);
    assert!(zero.stats.dropped() > 0);
}

/// On the real system: never early, and it ends. How late is for the benchmark to say.
#[test]
fn the_systems_own_wait_is_never_early() {
    for spin in [true, false] {
        let tick_loop = TickLoop::every(Duration::from_micros(500)).spin(spin);
        let summary = tick_loop.run(&mainspring::clock::Monotonic, |tick| {
            assert!(tick.now >= tick.scheduled);
            if tick.number < 40 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(summary.elapsed >= Duration::from_millis(20));
    }
}
