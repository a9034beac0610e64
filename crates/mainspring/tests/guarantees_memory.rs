//! The wheel's promise that the memory which cancelled timers hold is bounded, measured as the system sees it. In a
//! process of its own: what other tests use at the same time must not count.

use std::sync::Mutex;

use mainspring::time::Tick;
use mainspring::wheel::Wheel;

/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Fires everything that is due up to `to`.
fn fire(wheel: &mut Wheel<u64>, to: u64) -> Vec<u64> {
    let mut fired = Vec::new();
    let mut pass = wheel.advance(Tick(to));
    while let Some(expired) = pass.next() {
        fired.push(expired.remove());
    }
    fired
}

const MILLION: u64 = 1_000_000;
const HOUR: u64 = 3_600_000;

/// What `work` adds to the memory that this process uses, in MiB.
fn growth(work: impl FnOnce()) -> u64 {
    fn resident_mib() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        assert!(pages.is_some() || !cfg!(target_os = "linux"), "nothing was measured");
        pages.unwrap_or(0) * 4 / 1024
    }
    let before = resident_mib();
    work();
    resident_mib().saturating_sub(before)
}

/// Far less than the 40 MB that ten million entries of four bytes would take.
const NOTHING_MIB: u64 = 20;

#[test]
fn ten_million_cancelled_timers_hold_no_memory() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(0));
    let growth = growth(|| {
        for value in 0..10 * MILLION {
            let key = wheel.insert(Tick(value % 1_000 + HOUR), value);
            assert_eq!(wheel.cancel(key), Some(value));
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    assert!(wheel.is_empty());
}

#[test]
fn cancelled_timers_hold_no_more_memory_than_the_living_ones() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(0));
    for value in 0..100_000 {
        wheel.insert(Tick(HOUR + value * 37), value);
    }
    let growth = growth(|| {
        for value in 0..10 * MILLION {
            let key = wheel.insert(Tick(value % 1_000 + HOUR), value);
            assert_eq!(wheel.cancel(key), Some(value));
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    let fired = fire(&mut wheel, u64::MAX);
    assert_eq!(fired, Vec::from_iter(0..100_000), "the living ones are all there, in order");
}

#[test]
fn restarts_to_ever_earlier_times_hold_no_memory() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(0));
    let keys: Vec<_> = (0..1_000).map(|value| wheel.insert(Tick(u64::MAX), value)).collect();
    let growth = growth(|| {
        for step in (1..=10_000).rev() {
            for (value, &key) in (0..).zip(&keys) {
                assert!(wheel.reschedule(key, Tick(step * 700 + value)));
            }
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    assert_eq!(fire(&mut wheel, 1_700), Vec::from_iter(0..1_000));
}

#[test]
fn timers_armed_overdue_and_cancelled_hold_no_memory() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(1_000));
    let kept = wheel.insert(Tick(0), u64::MAX);
    let growth = growth(|| {
        for value in 0..10 * MILLION {
            let key = wheel.insert(Tick(value % 1_001), value);
            assert_eq!(wheel.cancel(key), Some(value));
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    assert_eq!(wheel.deadline(kept), Some(Tick(0)));
    assert_eq!(fire(&mut wheel, 1_000), [u64::MAX]);
}

#[test]
fn cancelled_timers_hold_no_memory_though_passes_are_not_read() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(0));
    let growth = growth(|| {
        for value in 0..2 * MILLION {
            let key = wheel.insert(Tick(0), value);
            drop(wheel.advance(Tick(100)));
            assert_eq!(wheel.cancel(key), Some(value));
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    assert!(wheel.is_empty());
}

#[test]
fn a_backlog_served_one_timer_a_pass_holds_no_memory_of_those_cancelled() {
    let _turn = TURN.lock();
    let mut wheel = Wheel::new(Tick(0));
    for value in 0..1_000 {
        wheel.insert(Tick(0), value);
    }
    let growth = growth(|| {
        for value in 0..MILLION {
            let cancelled = wheel.insert(Tick(0), value);
            wheel.insert(Tick(0), value);
            wheel.cancel(cancelled);
            assert!(wheel.advance(Tick(100)).next().is_some_and(|timer| timer.remove() < MILLION));
        }
    });
    assert!(growth < NOTHING_MIB, "{growth} MiB");
    assert_eq!(wheel.len(), 1_000);
}
