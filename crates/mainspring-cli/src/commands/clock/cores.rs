//! Whether the processor's counter reads alike on all cores.
//!
//! Two threads, each kept on its core, play ping-pong: one notes its counter, throws, the other notes its own and
//! throws back, the first notes again. The other's note was taken between the two, so each round trip bounds how far
//! the counters are apart; the tightest bounds of many trips are kept. No assumption about symmetry is made.

use std::fmt::{self, Display};
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::experiments::clocks::length;
use crate::os;
use crate::stopwatch::Stopwatch;

/// How far the counters of the other cores are ahead of the first one's, at least and at most, over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cores {
    /// Compared, the first one included.
    pub(super) compared: usize,
    pub(super) offset_ns_low: f64,
    pub(super) offset_ns_high: f64,
    /// Whether even the tightest bounds leave no room for agreement on some core.
    pub(super) disagree: bool,
}

impl Cores {
    /// No two cores' counters are proven further apart from the first one's than this.
    pub(super) fn bound_ns(&self) -> f64 {
        self.offset_ns_low.abs().max(self.offset_ns_high.abs())
    }
}

impl Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = length(self.bound_ns());
        if self.disagree {
            write!(f, "disagree by up to {bound}, {} compared", self.compared)
        } else {
            write!(f, "within {bound}, {} compared", self.compared)
        }
    }
}

/// Compares each core this process may use with the first. `None` if there is but one, or no counter.
pub(super) fn compare(unit_ns: f64) -> Option<Cores> {
    os::rdtscp()?;
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).take(MOST_CORES);
    let first = cores.next()?;
    let bounds: Vec<Bounds> = cores.filter_map(|other| Bounds::of(&play(first, other)?)).collect();
    let low = bounds.iter().map(|bounds| bounds.low).min()?;
    let high = bounds.iter().map(|bounds| bounds.high).max()?;
    Some(Cores {
        compared: bounds.len() + 1,
        offset_ns_low: low as f64 * unit_ns,
        offset_ns_high: high as f64 * unit_ns,
        disagree: bounds.iter().any(|bounds| !bounds.leave_room_for_none()),
    })
}

/// The three notes of a round trip: two on the first core, and one on the other, taken between them.
#[derive(Clone, Copy, Debug)]
struct Trip {
    thrown: u64,
    seen: u64,
    caught: u64,
}

/// How far the other counter is ahead, in its own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low: i64,
    high: i64,
}

impl Bounds {
    /// The other counter, less its offset, was read between `thrown` and `caught`: so
    /// `seen - caught <= offset <= seen - thrown`, for every trip.
    fn of(trips: &[Trip]) -> Option<Self> {
        let low =
            trips.iter().map(|trip| trip.seen.wrapping_sub(trip.caught).cast_signed()).max()?;
        let high =
            trips.iter().map(|trip| trip.seen.wrapping_sub(trip.thrown).cast_signed()).min()?;
        Some(Self { low, high })
    }

    fn leave_room_for_none(self) -> bool {
        self.low <= 0 && 0 <= self.high
    }
}

/// `None` if a thread cannot be kept on its core.
fn play(first: usize, other: usize) -> Option<Vec<Trip>> {
    let ball = AtomicU64::new(0);
    let note = AtomicU64::new(0);
    thread::scope(|scope| {
        let partner = scope.spawn(|| {
            let pinned = pin(other);
            let mut turn = 0;
            while turn != OVER {
                turn = wait_for_other_than(&ball, turn);
                if turn != OVER {
                    note.store(os::rdtscp().unwrap_or(0), Ordering::Relaxed);
                    turn += 1;
                    ball.store(turn, Ordering::Release);
                }
            }
            pinned
        });
        let thrower = scope.spawn(|| {
            let pinned = pin(first);
            let trips = throw(&ball, &note);
            ball.store(OVER, Ordering::Release);
            pinned.then_some(trips)
        });
        let trips = thrower.join().ok().flatten();
        let pinned = partner.join().unwrap_or(false);
        trips.filter(|_| pinned)
    })
}

fn throw(ball: &AtomicU64, note: &AtomicU64) -> Vec<Trip> {
    let watch = Stopwatch::start();
    let mut trips = Vec::with_capacity(MOST_TRIPS);
    let mut turn = 0;
    while trips.len() < MOST_TRIPS && watch.elapsed() < LONGEST {
        let thrown = os::rdtscp().unwrap_or(0);
        ball.store(turn + 1, Ordering::Release);
        turn = wait_for_other_than(ball, turn + 1);
        let caught = os::rdtscp().unwrap_or(0);
        trips.push(Trip { thrown, seen: note.load(Ordering::Relaxed), caught });
    }
    trips
}

/// Spins until the ball is not where it was; yields now and then, lest both threads share a core after all.
fn wait_for_other_than(ball: &AtomicU64, turn: u64) -> u64 {
    let mut spins = 0_u32;
    loop {
        let now = ball.load(Ordering::Acquire);
        if now != turn {
            return now;
        }
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(10_000) {
            thread::yield_now();
        }
        hint::spin_loop();
    }
}

fn pin(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// Turns count up from zero; this one ends the game.
const OVER: u64 = u64::MAX;

const MOST_TRIPS: usize = 20_000;

/// Per pair of cores.
const LONGEST: Duration = Duration::from_millis(50);

/// A second or two for the largest machines.
const MOST_CORES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(thrown: u64, seen: u64, caught: u64) -> Trip {
        Trip { thrown, seen, caught }
    }

    #[test]
    fn each_trip_bounds_the_offset_and_the_tightest_count() {
        // The other counter is 1000 ahead: read at 50, it shows 1050.
        let trips = [trip(0, 1050, 100), trip(200, 1210, 260), trip(300, 1390, 400)];
        assert_eq!(Bounds::of(&trips), Some(Bounds { low: 990, high: 1010 }));
        assert_eq!(Bounds::of(&[]), None);
    }

    #[test]
    fn a_counter_behind_has_a_negative_offset() {
        let bounds = Bounds::of(&[trip(1000, 40, 1100)]).unwrap();
        assert_eq!(bounds, Bounds { low: -1060, high: -960 });
        assert!(!bounds.leave_room_for_none());
    }

    #[test]
    fn agreement_is_never_disproved_by_slow_trips() {
        let bounds = Bounds::of(&[trip(0, 900, 1000), trip(5000, 5001, 9000)]).unwrap();
        assert!(bounds.leave_room_for_none(), "{bounds:?}");
    }

    #[test]
    fn a_game_on_one_core_ends_and_every_note_lies_between() {
        let Some(trips) =
            os::rdtscp().and_then(|_| sched_getaffinity(None).ok()).and_then(|allowed| {
                let core = (0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core))?;
                play(core, core)
            })
        else {
            return;
        };
        assert!(!trips.is_empty());
        assert!(trips.iter().all(|trip| trip.thrown <= trip.seen && trip.seen <= trip.caught));
    }
}
