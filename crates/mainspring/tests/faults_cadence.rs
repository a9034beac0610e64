//! What a schedule of periods protects its users from: drift, bursts, rounded rates, early fires, ends of ranges.

use std::num::NonZeroU32;
use std::time::Duration;

use mainspring::cadence::{Cadence, Due, Missed};
use mainspring::time::{Clock, Instant, ManualClock};
use proptest::prelude::*;

const P: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

fn nonzero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("tests use non-zero rates")
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn catch_up(at_most: u32) -> Missed {
    Missed::CatchUp {
        at_most: nonzero(at_most),
    }
}

/// Everything that is due at `now`.
fn drain(cadence: &mut Cadence, now: Instant) -> Vec<Due> {
    std::iter::from_fn(|| cadence.poll(now)).collect()
}

fn numbers(dues: &[Due]) -> Vec<u64> {
    dues.iter().map(|due| due.number).collect()
}

#[test]
fn a_stall_is_answered_by_the_policy_that_was_chosen() {
    let stall = at(5 * P + P / 2);
    for start in [0, 7, 1 << 40] {
        let stalled = |missed| {
            let mut cadence = Cadence::every(at(start), Duration::from_nanos(P), missed);
            let dues = drain(&mut cadence, at(start + stall.as_nanos()));
            let skipped: Vec<u64> = dues.iter().map(|due| due.skipped).collect();
            (
                numbers(&dues),
                skipped,
                cadence.next_at().as_nanos() - start,
            )
        };
        assert_eq!(
            stalled(catch_up(5)),
            (vec![1, 2, 3, 4, 5], vec![0; 5], 6 * P)
        );
        assert_eq!(
            stalled(catch_up(9)),
            (vec![1, 2, 3, 4, 5], vec![0; 5], 6 * P)
        );
        assert_eq!(stalled(catch_up(2)), (vec![4, 5], vec![3, 0], 6 * P));
        assert_eq!(stalled(Missed::Skip), (vec![5], vec![4], 6 * P));
        assert_eq!(stalled(Missed::Delay), (vec![1], vec![0], 6 * P + P / 2));
    }
}

#[test]
fn catching_up_is_bounded_and_what_was_dropped_is_told() {
    let mut cadence = Cadence::per_second(at(0), nonzero(20), catch_up(5));
    let now = at(10 * SECOND);
    let dues = drain(&mut cadence, now);
    assert_eq!(numbers(&dues), [196, 197, 198, 199, 200]);
    assert_eq!(dues.iter().map(|due| due.skipped).sum::<u64>(), 195);
    assert_eq!(dues[0].late_by, Duration::from_millis(200));
    assert_eq!(
        cadence.next_at(),
        at(10 * SECOND + SECOND / 20),
        "phase kept"
    );
}

#[test]
fn a_backlog_never_grows_beyond_its_bound_while_it_is_worked_off() {
    // Each body takes two periods: half of all periods must be dropped, for ever, and no lateness beyond the bound builds up.
    let mut cadence = Cadence::every(at(0), Duration::from_nanos(P), catch_up(3));
    let (mut now, mut delivered, mut skipped) = (50 * P, 0, 0);
    for _ in 0..1000 {
        let due = cadence.poll(at(now)).expect("the loop is always behind");
        assert!(due.late_by < Duration::from_nanos(3 * P));
        delivered += 1;
        skipped += due.skipped;
        assert_eq!(delivered + skipped, due.number);
        now += 2 * P;
    }
    assert!(skipped >= 1000);
}

#[test]
fn sixty_hertz_is_sixty_a_second_for_ever() {
    for hertz in [1, 3, 7, 24, 30, 48, 60, 64, 144, 999, 1_000_003] {
        let mut cadence = Cadence::per_second(at(0), nonzero(hertz), Missed::Skip);
        for second in [1, 60, 300, 3600, 31_536_000] {
            let due = cadence
                .poll(at(second * SECOND))
                .expect("a period ends with each second");
            assert_eq!(due.number, second * u64::from(hertz));
            assert_eq!(
                due.scheduled,
                at(second * SECOND),
                "{hertz} Hz at {second} s"
            );
        }
    }
    let mut cadence = Cadence::per_second(at(0), nonzero(60), Missed::Skip);
    for k in 1..=3600_u64 {
        assert_eq!(cadence.next_at(), at((k * SECOND).div_ceil(60)));
        cadence.poll(cadence.next_at()).expect("due when it says");
    }
}

#[test]
fn late_wake_ups_do_not_add_up() {
    let mut cadence = Cadence::every(at(0), Duration::from_millis(1), catch_up(8));
    let mut lateness = 0x9E37_79B9_7F4A_7C15_u64;
    for number in 1..=1_000_000 {
        lateness ^= lateness << 13;
        lateness ^= lateness >> 7;
        lateness ^= lateness << 17;
        let wake = cadence
            .next_at()
            .saturating_add(Duration::from_nanos(lateness % 7_000_000));
        let due = cadence.poll(wake).expect("woken after the deadline");
        assert_eq!(
            due.number, number,
            "never more than seven behind, so nothing is dropped"
        );
        assert_eq!(due.scheduled, at(number * 1_000_000));
    }
}

#[test]
fn work_between_polls_does_not_lower_the_rate() {
    for hertz in [200, 250] {
        let mut cadence = Cadence::per_second(at(0), nonzero(hertz), catch_up(5));
        let mut now = 0;
        for _ in 0..1000 {
            now = now.max(cadence.next_at().as_nanos());
            cadence.poll(at(now)).expect("woken at the deadline");
            now += 3_000_000; // work
        }
        let end = 1000 * SECOND / u64::from(hertz);
        assert!(
            now.abs_diff(end) <= SECOND / u64::from(hertz),
            "{hertz} Hz ended at {now}"
        );
    }
}

#[test]
fn never_early_wherever_the_start_lies_inside_a_millisecond() {
    for start in [0, 1, 999_000, 999_999, 1_000_000, 1_000_001] {
        let mut cadence = Cadence::every(at(start), Duration::from_millis(1), Missed::Skip);
        assert!(cadence.poll(at(start + 999_000)).is_none());
        assert!(cadence.poll(at(start + 999_999)).is_none());
        let due = cadence
            .poll(at(start + 1_000_000))
            .expect("due on the nanosecond");
        assert_eq!(due.late_by, Duration::ZERO);
    }
}

#[test]
fn a_zero_period_is_the_shortest_one_not_a_hang() {
    let mut cadence = Cadence::every(at(0), Duration::ZERO, catch_up(3));
    assert_eq!(cadence.next_at(), at(1));
    assert_eq!(
        numbers(&drain(&mut cadence, at(1_000_000))),
        [999_998, 999_999, 1_000_000]
    );
}

#[test]
fn the_end_of_time_is_reached_without_panic() {
    let spans = [
        Duration::ZERO,
        Duration::from_secs(1),
        Duration::from_nanos(u64::MAX / 2),
        Duration::MAX,
    ];
    for missed in [catch_up(1), catch_up(u32::MAX), Missed::Skip, Missed::Delay] {
        for span in spans {
            for times in [1, 60, u32::MAX] {
                for start in [0, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                    let mut cadence = Cadence::times_per(at(start), nonzero(times), span, missed);
                    for now in [0, start, u64::MAX - 1, u64::MAX, u64::MAX, 3] {
                        if let Some(due) = cadence.poll(at(now)) {
                            assert!(due.scheduled <= at(now));
                        }
                    }
                    assert!(cadence.next_at() >= at(start));
                }
            }
        }
    }
    // Out of reach is never due, not due at once.
    let mut cadence = Cadence::every(at(5), Duration::MAX, Missed::Skip);
    assert_eq!(cadence.next_at(), Instant::MAX);
    assert_eq!(cadence.poll(Instant::MAX), None);
}

#[test]
fn each_schedule_runs_on_the_clock_it_is_asked_with() {
    // Twenty seconds in, the machine sleeps for fifteen: one clock stands still meanwhile, the other counts.
    let (awake, boot) = (ManualClock::default(), ManualClock::default());
    let minute = Duration::from_secs(60);
    let mut on_awake = Cadence::every(awake.now(), minute, Missed::Skip);
    let mut on_boot = Cadence::every(boot.now(), minute, Missed::Skip);
    let (mut awake_at, mut boot_at) = (None, None);
    for wall in 1..=80_u64 {
        if !(20..35).contains(&(wall - 1)) {
            awake.advance(Duration::from_secs(1));
        }
        boot.advance(Duration::from_secs(1));
        awake_at = awake_at.or(on_awake.poll(awake.now()).map(|_| wall));
        boot_at = boot_at.or(on_boot.poll(boot.now()).map(|_| wall));
    }
    assert_eq!((awake_at, boot_at), (Some(75), Some(60)));
}

#[test]
fn a_cadence_can_begin_with_its_start() {
    let mut cadence = Cadence::every(at(50), Duration::from_nanos(10), catch_up(9)).from_start();
    assert!(cadence.poll(at(49)).is_none());
    assert_eq!(numbers(&drain(&mut cadence, at(70))), [0, 1, 2]);
}

/// The same rules, written the slow and obvious way: every period is looked at, one after the other.
struct Oracle {
    origin: u128,
    origin_number: u128,
    times: u128,
    span: u128,
    missed: Missed,
    next: u128,
}

impl Oracle {
    fn time_of(&self, number: u128) -> u128 {
        let exact = (number - self.origin_number) * self.span;
        self.origin + exact / self.times + (exact % self.times).min(1)
    }

    fn poll(&mut self, now: u128) -> Option<(u128, u128, u128)> {
        let mut due: Vec<u128> = (self.next..)
            .take_while(|&n| self.time_of(n) <= now)
            .collect();
        let all = due.len();
        match self.missed {
            Missed::CatchUp { at_most } => {
                due.drain(..all.saturating_sub(at_most.get() as usize));
            }
            Missed::Skip => {
                due.drain(..all.saturating_sub(1));
            }
            Missed::Delay => {}
        }
        let number = *due.first()?;
        let answer = (number, self.time_of(number), number - self.next);
        if matches!(self.missed, Missed::Delay) {
            (self.origin, self.origin_number) = (now, number);
        }
        self.next = number + 1;
        Some(answer)
    }
}

fn any_policy() -> impl Strategy<Value = Missed> {
    prop_oneof![
        (1_u32..6).prop_map(catch_up),
        Just(Missed::Skip),
        Just(Missed::Delay)
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_obvious_schedule(
        start in prop_oneof![0_u64..1000, Just(u64::MAX / 2)],
        times in 1_u32..200,
        span in 1_u64..5000,
        missed in any_policy(),
        first in any::<bool>(),
        steps in prop::collection::vec(0_u64..600, 1..60),
    ) {
        let mut cadence = Cadence::times_per(at(start), nonzero(times), Duration::from_nanos(span), missed);
        if first {
            cadence = cadence.from_start();
        }
        let mut oracle = Oracle {
            origin: start.into(), origin_number: 0, times: times.into(), span: span.into(), missed, next: u128::from(!first),
        };
        let mut now = start;
        for step in steps {
            now += step;
            prop_assert_eq!(u128::from(cadence.next_at().as_nanos()), oracle.time_of(oracle.next));
            let due = cadence.poll(at(now));
            let told = due.map(|due| (due.number.into(), due.scheduled.as_nanos().into(), due.skipped.into()));
            prop_assert_eq!(told, oracle.poll(now.into()));
            if let Some(due) = due {
                prop_assert_eq!(due.late_by.as_nanos(), u128::from(now - due.scheduled.as_nanos()));
            }
        }
    }

    /// Nothing is lost: each number is delivered or told as skipped, exactly once, in order, and never early.
    #[test]
    fn every_period_is_delivered_or_told(
        start in any::<u64>(), times in 1_u32.., span in any::<u64>(), missed in any_policy(),
        steps in prop::collection::vec((any::<u64>(), 0_u32..64), 1..40),
    ) {
        let mut cadence = Cadence::times_per(at(start), nonzero(times), Duration::from_nanos(span), missed);
        let (mut now, mut accounted) = (start, 0_u64);
        for (step, shift) in steps {
            now = now.saturating_add(step >> shift);
            if let Some(due) = cadence.poll(at(now)) {
                prop_assert!(due.scheduled <= at(now));
                accounted += 1 + due.skipped;
                prop_assert_eq!(due.number, accounted);
            }
        }
    }
}
