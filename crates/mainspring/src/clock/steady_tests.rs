//! Counters that lie, in every way that was ever reported, on a machine made of numbers.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::vec;

/// A machine with a perfect system clock, and counters that do as they are told.
#[derive(Clone, Debug)]
struct Machine(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    /// True time, in nanoseconds; every read of a clock takes some.
    now: u64,
    /// What the first core's counter read when `counting_since` was the time; it makes `rate` counts in a second since.
    base: i128,
    counting_since: u64,
    rate: i128,
    /// What each core's counter is ahead of the first's.
    offsets: Vec<i128>,
    core: usize,
    invariant: bool,
    reachable: bool,
    core_checks_asked: u32,
    os_reads: u64,
}

const GHZ: i128 = 1_000_000_000;
const SEC: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
const OS_READ: u64 = 25;
const COUNTER_READ: u64 = 8;

impl Machine {
    fn with_cores(cores: usize) -> Self {
        Self(Rc::new(RefCell::new(State {
            now: 77 * SEC,
            base: 123_456_789_012,
            counting_since: 0,
            rate: GHZ * 2_445_000 / 1_000_000,
            offsets: vec![0; cores],
            core: 0,
            invariant: true,
            reachable: true,
            core_checks_asked: 0,
            os_reads: 0,
        })))
    }

    fn start(&self) -> Result<Steady<Self>, Reason> {
        Steady::start(self.clone())
    }

    fn pass(&self, nanos: u64) {
        self.0.borrow_mut().now += nanos;
    }

    fn now(&self) -> u64 {
        self.0.borrow().now
    }

    /// All counters jump, and go on at `rate` counts per second.
    fn jump(&self, counts: i128, rate: i128) {
        let mut state = self.0.borrow_mut();
        state.base = state.first_counter() + counts;
        state.counting_since = state.now;
        state.rate = rate;
    }

    fn rate(&self) -> i128 {
        self.0.borrow().rate
    }

    fn offset_core(&self, core: usize, counts: i128) {
        self.0.borrow_mut().offsets[core] = counts;
    }

    fn move_to(&self, core: usize) {
        self.0.borrow_mut().core = core;
    }

    /// Counts in so many nanoseconds at the machine's first rate.
    fn counts(nanos: i128) -> i128 {
        nanos * 2_445 / 1_000
    }
}

impl State {
    fn first_counter(&self) -> i128 {
        self.base + i128::from(self.now - self.counting_since) * self.rate / GHZ
    }
}

impl Source for Machine {
    fn counter(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        state.now += COUNTER_READ;
        let counter = state.first_counter() + state.offsets[state.core];
        u64::try_from(counter.rem_euclid(1 << 64)).expect("below 2^64")
    }

    fn os_nanos(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        state.now += OS_READ;
        state.os_reads += 1;
        state.now
    }

    fn is_invariant(&self) -> bool {
        self.0.borrow().invariant
    }

    fn on_each_core(&self, visit: &mut dyn FnMut()) -> bool {
        let cores = self.0.borrow().offsets.len();
        for core in 0..cores {
            self.move_to(core);
            self.pass(20_000);
            visit();
        }
        self.0.borrow().reachable
    }

    fn rest(&self) {
        self.pass(200_000);
    }

    fn ask_for_core_check(&self) {
        self.0.borrow_mut().core_checks_asked += 1;
    }
}

/// One thread's view of a clock: its mark, and the assertion that time never goes back for it.
#[derive(Default)]
struct Reader(Cell<u64>);

impl Reader {
    fn read(&self, clock: &Steady<Machine>) -> u64 {
        let last = self.0.get();
        let now = clock.read(&self.0);
        assert!(now >= last, "{now} after {last}");
        now
    }

    /// Reads, and tells how far the clock is off.
    fn error(&self, clock: &Steady<Machine>, machine: &Machine) -> u64 {
        self.read(clock).abs_diff(machine.now())
    }
}

#[test]
fn a_sound_counter_tells_the_systems_time() {
    let machine = Machine::with_cores(4);
    let clock = machine.start().expect("nothing is wrong with it");
    let reader = Reader::default();
    for pass in 0..20_000_usize {
        machine.move_to(pass % 4);
        machine.pass(5 * MILLI);
        clock.re_anchor();
        assert!(reader.error(&clock, &machine) < 1_000);
    }
    let report = clock.report();
    assert_eq!(report.failure, None);
    assert!(report.anchors > 900, "one each tenth of a second or so");
    assert!(report.largest_correction < Duration::from_micros(1));
    assert!(report.hertz.abs_diff(2_445_000_000) < 2_445_000);
}

#[test]
fn the_start_is_short_and_a_read_asks_the_system_nothing() {
    let machine = Machine::with_cores(2);
    let before = machine.now();
    let clock = machine.start().expect("nothing is wrong with it");
    assert!(machine.now() - before < 5 * MILLI);

    let reads = machine.0.borrow().os_reads;
    let reader = Reader::default();
    for _ in 0..100_000 {
        reader.read(&clock);
    }
    assert_eq!(machine.0.borrow().os_reads, reads);
}

#[test]
fn a_counter_that_drifts_is_followed() {
    for ppm in [-500, -100, 100, 500] {
        let machine = Machine::with_cores(1);
        let clock = machine.start().expect("sound at the start");
        let reader = Reader::default();
        machine.pass(200 * MILLI);
        clock.re_anchor();
        machine.jump(0, machine.rate() * (1_000_000 + ppm) / 1_000_000);
        let mut errors = vec![];
        for _ in 0..200 {
            machine.pass(50 * MILLI);
            clock.re_anchor();
            errors.push(reader.error(&clock, &machine));
        }
        assert_eq!(clock.report().failure, None, "{ppm} ppm is what daemons do");
        assert!(errors.iter().all(|&error| error < 100_000));
        assert!(errors[10..].iter().all(|&error| error < 1_000), "{errors:?}");
    }
}

#[test]
fn nobody_needs_to_re_anchor() {
    let machine = Machine::with_cores(1);
    let clock = machine.start().expect("sound");
    let reader = Reader::default();
    for _ in 0..10_000 {
        machine.pass(7 * MILLI);
        assert!(reader.error(&clock, &machine) < 10_000);
    }
    machine.pass(3600 * SEC);
    assert!(reader.error(&clock, &machine) < 1_000, "an hour without a read");
    assert_eq!(clock.report().failure, None);
}

#[test]
fn cores_that_disagree_make_no_clock() {
    for offset in [-1_600_000_000, -1_000_000, -10_000, 10_000, 1_600_000_000] {
        for core in 0..3 {
            let machine = Machine::with_cores(3);
            machine.offset_core(core, Machine::counts(offset));
            let refused = machine.start().expect_err("a core is off");
            assert!(matches!(refused, Reason::CoresDisagree { .. }), "{refused:?}");
        }
    }
}

#[test]
fn a_core_that_goes_astray_is_found_wherever_the_loop_runs() {
    for offset in [-1_600_000_000, -50_000, 50_000, 1_600_000_000] {
        for readers_visit_it in [false, true] {
            let machine = Machine::with_cores(2);
            let clock = machine.start().expect("sound at the start");
            let readers = [Reader::default(), Reader::default()];
            machine.offset_core(1, Machine::counts(offset));
            for pass in 0..400 {
                machine.pass(5 * MILLI);
                machine.move_to(if readers_visit_it { pass % 2 } else { 0 });
                for reader in &readers {
                    reader.read(&clock);
                }
                // The owner of the loop is always on the good core.
                machine.move_to(0);
                clock.re_anchor();
                if std::mem::take(&mut machine.0.borrow_mut().core_checks_asked) > 0 {
                    clock.check_cores();
                }
            }
            let failure = clock.report().failure.expect("found by a core check at the latest");
            let by_core_check = matches!(failure, Reason::CoresDisagree { .. });
            assert!(by_core_check || readers_visit_it, "{offset}: {failure:?}");
            machine.pass(LIFE);
            for core in [0, 1] {
                machine.move_to(core);
                assert!(readers[0].error(&clock, &machine) < 100);
            }
        }
    }
}

#[test]
fn a_counter_that_jumps_switches_every_reader_to_the_system() {
    let years = 3 * 365 * 86_400 * i128::from(SEC);
    for jump in [-10 * i128::from(SEC), -years, -1_000_000, 1_000_000, 1_900_000_000, years] {
        let machine = Machine::with_cores(2);
        let clock = machine.start().expect("sound at the start");
        let readers = [Reader::default(), Reader::default()];
        machine.pass(150 * MILLI);
        clock.re_anchor();
        machine.pass(500 * MILLI);
        readers.iter().for_each(|reader| {
            reader.read(&clock);
        });
        machine.jump(Machine::counts(jump), machine.rate());
        machine.pass(5 * MILLI);
        // Nothing has been checked yet: still never backwards, and never off by more than an anchor's life.
        for reader in &readers {
            assert!(reader.error(&clock, &machine) <= LIFE);
        }
        clock.re_anchor();
        let failure = clock.report().failure;
        assert!(matches!(failure, Some(Reason::OffCourse { .. })), "{jump}: {failure:?}");
        for _ in 0..100 {
            machine.pass(20 * MILLI);
            readers[0].read(&clock);
        }
        for reader in &readers {
            assert!(reader.error(&clock, &machine) < 100, "the system's clock by now");
        }
    }
}

#[test]
fn a_counter_that_stands_still_is_found_out() {
    let machine = Machine::with_cores(2);
    machine.jump(0, 0);
    assert_eq!(machine.start().expect_err("it never moves"), Reason::NoRate);

    let machine = Machine::with_cores(2);
    let clock = machine.start().expect("sound at the start");
    let reader = Reader::default();
    machine.jump(0, 0);
    for _ in 0..100 {
        machine.pass(5 * MILLI);
        reader.read(&clock);
        clock.re_anchor();
    }
    assert!(clock.report().failure.is_some());
    assert!(reader.error(&clock, &machine) < 100);
}

#[test]
fn what_cannot_be_checked_is_not_trusted() {
    let machine = Machine::with_cores(2);
    machine.0.borrow_mut().invariant = false;
    assert_eq!(machine.start().expect_err("no promise"), Reason::NotInvariant);

    let machine = Machine::with_cores(2);
    machine.0.borrow_mut().reachable = false;
    assert_eq!(machine.start().expect_err("no visit"), Reason::CoresUnreachable);

    for rate in [500_000, 200_000_000_000] {
        let machine = Machine::with_cores(1);
        machine.jump(0, rate);
        assert_eq!(machine.start().expect_err("no such counter"), Reason::NoRate);
    }

    // A promise that is taken back later, as when a machine moves to another host.
    let machine = Machine::with_cores(2);
    let clock = machine.start().expect("sound at the start");
    machine.0.borrow_mut().invariant = false;
    clock.check_cores();
    assert_eq!(clock.report().failure, Some(Reason::NotInvariant));
    assert!(Reader::default().error(&clock, &machine) < 100);
}

/// A machine that threads share: counter and system clock are one number, moved by whoever likes.
#[derive(Debug, Default)]
struct SharedTime(AtomicU64);

impl Source for &SharedTime {
    fn counter(&self) -> u64 {
        self.0.load(Ordering::SeqCst) * 3
    }
    fn os_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn is_invariant(&self) -> bool {
        true
    }
    fn on_each_core(&self, visit: &mut dyn FnMut()) -> bool {
        visit();
        true
    }
    fn rest(&self) {
        self.0.fetch_add(MILLI, Ordering::SeqCst);
    }
    fn ask_for_core_check(&self) {}
}

#[test]
fn a_read_during_a_re_anchor_is_of_one_anchor_not_of_two() {
    let time = SharedTime::default();
    let clock = Steady::start(&time).expect("sound");
    let done = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let before = (&time).os_nanos();
                    let now = clock.read(&Cell::new(0)); // no mark, so that nothing is covered up
                    let after = (&time).os_nanos();
                    // A counter and a time of two anchors would be off by a whole step.
                    assert!(
                        now + 1_000 >= before && now <= after + 1_000,
                        "{before} {now} {after}"
                    );
                }
            });
        }
        for _ in 0..20_000 {
            time.0.fetch_add(REST + MILLI, Ordering::SeqCst);
            clock.re_anchor();
        }
        done.store(true, Ordering::SeqCst);
    });
    let report = clock.report();
    assert_eq!(report.failure, None);
    assert!(report.anchors > 0);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Pass(u64),
    MoveTo(usize),
    Jump(i64),
    Rate(i64),
    Offset(usize, i64),
    Read(usize),
    ReAnchor,
    CheckCores,
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0_u64..3 * SEC, 0_u32..20).prop_map(|(nanos, shift)| Act::Pass(nanos >> shift)),
        2 => (0_usize..3).prop_map(Act::MoveTo),
        1 => (any::<i64>(), 0_u32..50).prop_map(|(counts, shift)| Act::Jump(counts >> shift)),
        1 => (-1_000_000_i64..1_000_000).prop_map(Act::Rate),
        1 => (0_usize..3, any::<i64>(), 0_u32..50).prop_map(|(core, counts, shift)| Act::Offset(core, counts >> shift)),
        8 => (0_usize..2).prop_map(Act::Read),
        2 => Just(Act::ReAnchor),
        1 => Just(Act::CheckCores),
    ]
}

proptest! {
    /// Whatever counters do: no thread sees time go back, no reading is ahead by more than an anchor's life or behind by
    /// more than the last re-anchor is ago, and a counter that was found out is never read again.
    #[test]
    fn no_counter_can_turn_time_back(acts in prop::collection::vec(any_act(), 1..120)) {
        let machine = Machine::with_cores(3);
        let clock = machine.start().expect("sound at the start");
        let readers = [Reader::default(), Reader::default()];
        let mut re_anchored = machine.now();
        for act in acts {
            match act {
                Act::Pass(nanos) => machine.pass(nanos),
                Act::MoveTo(core) => machine.move_to(core),
                Act::Jump(counts) => machine.jump(counts.into(), machine.rate()),
                Act::Rate(ppm) => machine.jump(0, machine.rate() * (1_000_000 + i128::from(ppm)) / 1_000_000),
                Act::Offset(core, counts) => machine.offset_core(core, counts.into()),
                Act::ReAnchor => {
                    re_anchored = machine.now();
                    clock.re_anchor();
                }
                Act::CheckCores => clock.check_cores(),
                Act::Read(thread) => {
                    let reader = &readers[thread];
                    let mark = reader.0.get();
                    let now = reader.read(&clock);
                    prop_assert!(now <= machine.now() + LIFE, "ahead by {}", now - machine.now());
                    prop_assert!(now + REST + MILLI >= re_anchored, "behind by {}", machine.now() - now);
                    if clock.report().failure.is_some() {
                        prop_assert!(now == mark || now.abs_diff(machine.now()) < 1_000);
                    }
                }
            }
        }
    }
}
