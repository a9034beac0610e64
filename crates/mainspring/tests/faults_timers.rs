//! What users reported of other timer systems, as tests of the rules of [`Timers`], in virtual time. Each test is named
//! after what it protects.

use std::num::{NonZeroU32, NonZeroU64};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::time::{Clock, Instant, ManualClock, Resolution};
use mainspring::timers::{Cancelled, Fired, Overlap, Plan, Timers};
use proptest::prelude::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ORIGIN.saturating_add(ms(millis))
}

const fn catch_up(at_most: u32) -> Missed {
    Missed::CatchUp { at_most: NonZeroU32::new(at_most).unwrap() }
}

/// Exact timers with ticks of one millisecond.
fn exact<T>() -> Timers<T> {
    Timers::with(Instant::ORIGIN, Resolution::MILLISECOND, Duration::ZERO)
}

/// All that fires in one pass.
fn fired<T: Clone>(timers: &mut Timers<T>, now: Instant) -> Vec<(T, Fired)> {
    let mut all = Vec::new();
    let mut pass = timers.poll(now);
    while let Some(due) = pass.next() {
        all.push((due.value().clone(), due.fired()));
    }
    all
}

fn values<T: Clone>(timers: &mut Timers<T>, now: Instant) -> Vec<T> {
    fired(timers, now).into_iter().map(|(value, _)| value).collect()
}

#[test]
fn a_million_late_wake_ups_leave_no_drift() {
    for (period, resolution) in [(1_000_003_u64, 31_250), (16_666_667, 1_000_000), (999, 1)] {
        let resolution = Resolution::from_nanos(NonZeroU64::new(resolution).unwrap());
        let mut timers = Timers::with(Instant::ORIGIN, resolution, Duration::ZERO);
        let length = period.max(resolution.as_nanos().get());
        let every = Duration::from_nanos(period);
        timers.every(Instant::ORIGIN, every, every, catch_up(u32::MAX), ());
        let (mut number, mut state, mut now) = (0, 1_u64, Instant::ORIGIN);
        while number < 1_000_000 {
            // Late by 0 to 7 ms.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late = Duration::from_nanos((state >> 33) % 7_000_001);
            now = now.max(timers.next_wake().unwrap()).saturating_add(late);
            for ((), told) in fired(&mut timers, now) {
                number += 1;
                let nominal = period + (number - 1) * length;
                assert_eq!((told.number, told.nominal.as_nanos()), (number, nominal));
                assert!(told.actual >= told.nominal);
            }
        }
    }
}

#[test]
fn a_stall_leaves_what_the_policy_says() {
    // Stalled for 5.5 periods of 100 ms: numbers delivered, missed told with the first, and the next deadline.
    for (missed, numbers, told, next) in [
        (catch_up(10), vec![1, 2, 3, 4, 5], 0, 600),
        (catch_up(5), vec![1, 2, 3, 4, 5], 0, 600),
        (catch_up(2), vec![4, 5], 3, 600),
        (Missed::Skip, vec![5], 4, 600),
        (Missed::Delay, vec![1], 0, 650),
    ] {
        let mut timers = exact();
        timers.every(at(0), ms(100), ms(100), missed, ());
        let all = fired(&mut timers, at(550));
        assert_eq!(all.iter().map(|(_, told)| told.number).collect::<Vec<_>>(), numbers);
        assert_eq!(all[0].1.missed, told, "{missed:?}");
        assert!(all[1..].iter().all(|(_, told)| told.missed == 0));
        assert_eq!(timers.next_wake(), Some(at(next)), "{missed:?}");
        assert_eq!(timers.metrics().missed, told);
    }
}

#[test]
fn neighbours_share_a_wake_up_inside_their_windows() {
    let mut timers = exact();
    for (from, to) in [(1, 5), (2, 4), (3, 6)] {
        timers.arm(at(0), Plan::at(at(from)).tolerance(ms(to - from)), (from, to));
    }
    timers.arm(at(0), Plan::at(at(2)), (2, 2)); // exact: not delayed by them
    let mut wakes = Vec::new();
    while let Some(wake) = timers.next_wake() {
        for ((from, to), told) in fired(&mut timers, wake) {
            assert!(at(from) <= wake && wake <= at(to));
            assert_eq!(told.nominal, at(from));
        }
        wakes.push(wake);
    }
    assert_eq!(wakes, [at(2), at(4)]);
}

proptest! {
    #[test]
    fn a_tolerance_is_never_exceeded_and_nothing_is_early(
        due in 0_u64..10_000_000_000, tolerance in 0_u64..100_000_000, tick in 1_u64..10_000_000
    ) {
        let resolution = Resolution::from_nanos(NonZeroU64::new(tick).unwrap());
        let mut timers = Timers::with(Instant::ORIGIN, resolution, Duration::ZERO);
        let deadline = Instant::from_nanos(due);
        timers.arm(deadline, Plan::at(deadline).tolerance(Duration::from_nanos(tolerance)), ());
        let mut wake = timers.next_wake().unwrap();
        while fired(&mut timers, wake).is_empty() {
            prop_assert!(timers.next_wake().unwrap() > wake);
            wake = timers.next_wake().unwrap();
        }
        prop_assert!(wake >= deadline);
        // Within the window, or at the first tick after the deadline if that is beyond it.
        let first = resolution.start_of(resolution.tick_at_or_after(deadline));
        let end = deadline.saturating_add(Duration::from_nanos(tolerance));
        prop_assert!(wake <= end.max(first));
    }

    #[test]
    fn nothing_panics_whatever_the_times(
        start in any::<u64>(), first in any::<u64>(), period in any::<u64>(), jump in any::<u64>(),
        tolerance in any::<u64>(), jitter in any::<u64>(), nth in any::<u32>(), policy in 0_u8..4, tick in 1_u64..3_000_000
    ) {
        let resolution = Resolution::from_nanos(NonZeroU64::new(tick).unwrap());
        let now = Instant::from_nanos(start);
        let mut timers = Timers::with(now, resolution, Duration::from_nanos(tolerance));
        let missed = [Missed::Skip, Missed::Delay, catch_up(3), catch_up(u32::MAX)][usize::from(policy)];
        let nanos = Duration::from_nanos;
        let plan = Plan::every(nanos(first), nanos(period.max(1 << 40)), missed)
            .jitter(nanos(jitter))
            .stagger(nth, NonZeroU32::new(7).unwrap());
        let key = timers.arm(now, plan, ());
        for then in [now.saturating_add(nanos(jump)), Instant::from_nanos(u64::MAX - 1), Instant::MAX] {
            for ((), told) in fired(&mut timers, then).into_iter().take(50) {
                prop_assert!(told.actual >= told.nominal);
            }
            let _ = (timers.remaining(then, key), timers.next_wake(), timers.pause(then, key));
            timers.resume(then, key);
        }
    }
}

#[test]
fn a_paused_timer_goes_on_with_what_was_left() {
    for period in [None, Some(ms(700))] {
        let mut timers = exact();
        let plan = match period {
            None => Plan::after(ms(5000)),
            Some(period) => Plan::every(ms(5000), period, Missed::Skip),
        };
        let key = timers.arm(at(0), plan, ());
        assert!(timers.pause(at(2000), key));
        assert!(!timers.pause(at(2500), key), "it is paused");
        assert_eq!(timers.remaining(at(9000), key), Some(ms(3000)));
        assert!(values(&mut timers, at(9000)).is_empty());
        assert!(timers.resume(at(9000), key));
        assert!(!timers.resume(at(9001), key), "it runs");
        assert_eq!(timers.remaining(at(9000), key), Some(ms(3000)));
        assert!(values(&mut timers, at(11_999)).is_empty());
        assert_eq!(fired(&mut timers, at(12_000))[0].1.nominal, at(12_000));
        if let Some(period) = period {
            assert_eq!(timers.remaining(at(12_000), key), Some(period));
        }
    }
}

#[test]
fn a_huge_delay_stays_pending_and_a_zero_period_is_a_tick() {
    let mut timers = exact();
    let far = timers.after(at(0), Duration::MAX, 0);
    let stopped = timers.every(at(0), Duration::MAX, Duration::MAX, Missed::Skip, 0);
    timers.every(at(0), Duration::ZERO, Duration::ZERO, Missed::Skip, 1);
    let mut runs = 0;
    for now in 1..=10 {
        runs += values(&mut timers, at(now)).len();
    }
    assert!((10..=11).contains(&runs), "{runs} runs of one a tick");
    assert!(timers.is_armed(far) && timers.is_armed(stopped));
}

#[test]
fn arming_nothing_ahead_in_a_callback_does_not_spin() {
    let mut timers = exact();
    timers.after(at(0), ms(1), 0);
    for round in 0..5 {
        let mut runs = 0;
        let mut pass = timers.poll(at(1));
        while let Some(due) = pass.next() {
            runs += 1;
            let now = due.fired().actual;
            pass.timers().after(now, Duration::ZERO, round);
        }
        assert_eq!((runs, timers.next_wake()), (1, Some(at(1))));
    }
}

#[test]
fn a_callback_may_cancel_its_peers_itself_and_arm_others() {
    let mut timers = exact();
    let keys: Vec<_> =
        (0..10).map(|n| timers.every(at(0), ms(5), ms(5), Missed::Skip, n)).collect();
    let mut ran = Vec::new();
    let mut pass = timers.poll(at(5));
    while let Some(due) = pass.next() {
        let (key, value) = (due.key(), *due.value());
        ran.push(value);
        if value == 0 {
            for &peer in &keys[1..9] {
                assert!(matches!(pass.timers().cancel(peer), Cancelled::Prevented(_)));
            }
            pass.timers().after(at(5), ms(1), 100);
            assert_eq!(pass.timers().cancel(key), Cancelled::Running);
            assert_eq!(pass.timers().cancel(key), Cancelled::Ended);
        }
    }
    assert_eq!(ran, [0, 9]);
    assert_eq!(values(&mut timers, at(11)), [100, 9]);
}

#[test]
fn a_cancellation_tells_the_truth_and_a_key_names_one_timer_for_ever() {
    let mut timers = exact();
    let once = timers.after(at(0), ms(1), 1);
    assert_eq!(values(&mut timers, at(1)), [1]);
    let reused: Vec<_> = (0..100).map(|n| timers.after(at(1), ms(10), n)).collect();
    assert_eq!(timers.cancel(once), Cancelled::Ended);
    assert!(!timers.is_armed(once) && timers.value(once).is_none());
    assert!(!timers.pause(at(1), once) && !timers.change(at(1), once, Plan::after(ms(1))));
    assert_eq!(timers.cancel(reused[7]), Cancelled::Prevented(7));
    assert_eq!(timers.len(), 99);
    assert_eq!(timers.drain().count(), 99);
    assert_eq!((timers.len(), timers.next_wake()), (0, None));
}

#[test]
fn equal_deadlines_fire_in_the_order_of_arming() {
    let mut timers = exact();
    let mut state = 7_u64;
    let mut expected: Vec<(u64, u32)> = Vec::new();
    for sequence in 0..2_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let due = (state >> 33) % 300;
        timers.at(at(due), sequence);
        expected.push((due, sequence));
    }
    expected.sort_by_key(|&(due, _)| due); // stable
    let sequences: Vec<u32> = expected.into_iter().map(|(_, sequence)| sequence).collect();
    assert_eq!(values(&mut timers, at(300)), sequences);
}

#[test]
fn what_a_budget_leaves_is_first_in_the_next_pass() {
    let mut timers = exact();
    for n in 0..100_000 {
        timers.after(at(0), ms(1), n);
    }
    let mut pass = timers.poll(at(1));
    let first: Vec<u32> = (0..10).map(|_| *pass.next().unwrap().value()).collect();
    assert_eq!(first, (0..10).collect::<Vec<_>>());
    timers.after(at(1), Duration::ZERO, 7_777_777);
    let rest = values(&mut timers, at(1));
    assert_eq!(rest[..3], [10, 11, 12]);
    assert_eq!(rest.last(), Some(&7_777_777));
    assert!(timers.is_empty());
}

#[test]
fn a_panicking_callback_harms_no_other_timer() {
    let mut timers = exact();
    for n in 0..10 {
        timers.every(at(0), ms(1), ms(1), Missed::Skip, n);
    }
    let mut ran = Vec::new();
    for now in 1..=3 {
        let mut pass = timers.poll(at(now));
        for _ in 0..10 {
            // It panics while its timer is lent.
            let result = catch_unwind(AssertUnwindSafe(|| {
                let due = pass.next().expect("ten are due");
                assert!(*due.value() != 3, "on purpose");
                *due.value()
            }));
            ran.push(result.unwrap_or(3));
        }
        assert!(pass.next().is_none());
    }
    assert_eq!(ran, (0..30).map(|n| n % 10).collect::<Vec<_>>());
    // And one that takes the pass with it.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut pass = timers.poll(at(4));
        pass.next();
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!((ran.len(), timers.len()), (30, 10));
    assert_eq!(values(&mut timers, at(4)), (1..10).collect::<Vec<_>>());
    assert_eq!(values(&mut timers, at(5)).len(), 10);
}

#[test]
fn overlapping_periods_follow_the_policy() {
    // A callback that takes 2.5 periods, three times over.
    for (overlap, starts) in [
        (Overlap::Allow, vec![100, 200, 300, 400, 500, 600, 700]),
        (Overlap::Skip, vec![100, 400, 700]),
        (Overlap::QueueOne, vec![100, 350, 600]),
    ] {
        let mut timers = exact();
        let key =
            timers.arm(at(0), Plan::every(ms(100), ms(100), Missed::Skip).overlap(overlap), ());
        let mut running: Vec<u64> = Vec::new();
        let mut started = Vec::new();
        for now in 0..=700 {
            while let Some(nth) = running.iter().position(|&end| end == now) {
                running.swap_remove(nth);
                if timers.finished(at(now), key).is_some() {
                    started.push(now);
                    running.push(now + 250);
                }
            }
            for _ in fired(&mut timers, at(now)) {
                timers.started(key);
                started.push(now);
                running.push(now + 250);
            }
        }
        assert_eq!(started, starts, "{overlap:?}");
        assert_eq!(timers.cancel(key), Cancelled::Running);
    }
}

#[test]
fn a_one_shot_that_runs_elsewhere_ends_when_its_callback_does() {
    let mut timers = exact();
    let key = timers.after(at(0), ms(1), 5);
    let mut pass = timers.poll(at(1));
    assert_eq!(*pass.next().unwrap().value(), 5);
    pass.timers().started(key);
    assert!(pass.next().is_none());
    assert!(!timers.is_armed(key) && timers.value(key) == Some(&5));
    assert_eq!(timers.next_wake(), None, "there is nothing to wake for");
    assert_eq!(timers.finished(at(2), key), None);
    assert_eq!((timers.len(), timers.cancel(key)), (0, Cancelled::Ended));
}

#[test]
fn a_group_ends_with_all_its_timers_and_without_a_callback() {
    let mut timers = exact();
    let group = timers.group();
    for n in 0..1_000 {
        let plan =
            if n % 2 == 0 { Plan::after(ms(5)) } else { Plan::every(ms(9), ms(9), Missed::Skip) };
        timers.arm(at(0), plan.group(group), n);
    }
    let other = timers.after(at(0), ms(10), 7_000);
    assert_eq!(values(&mut timers, at(5)).len(), 500);
    assert_eq!(timers.group_len(group), 500);
    assert_eq!(timers.cancel_group(group), 500);
    assert_eq!((timers.cancel_group(group), timers.group_len(group)), (0, 0));
    assert!(
        timers.try_arm(at(5), Plan::after(ms(1)).group(group), 0).is_err(),
        "the group has ended"
    );
    assert!(timers.is_armed(other));
    assert_eq!(values(&mut timers, at(100)), [7_000]);
    // Members that end by themselves are forgotten: a group of a thousand short lives is not a thousand long.
    let group = timers.group();
    for now in 100..10_100 {
        timers.arm(at(now), Plan::after(ms(1)).group(group), 0);
        values(&mut timers, at(now));
    }
    assert!(timers.group_len(group) <= 2);
}

#[test]
fn jitter_and_stagger_spread_timers_and_add_up_to_nothing() {
    let mut timers = exact();
    for nth in 0..10 {
        let plan = Plan::every(ms(100), ms(100), Missed::Skip);
        timers.arm(at(0), plan.stagger(nth, NonZeroU32::new(10).unwrap()), u64::from(nth));
    }
    for nth in 0..10 {
        assert_eq!(values(&mut timers, at(100 + 10 * nth)), [nth]);
    }
    let mut timers = exact();
    timers.arm(at(0), Plan::every(ms(100), ms(100), catch_up(1000)).jitter(ms(40)), ());
    let clock = ManualClock::new(Instant::ORIGIN);
    let mut shifts = Vec::new();
    timers.run_until(&clock, at(100_000), |_, _, told| {
        assert_eq!(told.nominal, at(100 * told.number), "counted from the nominal time");
        assert!(told.lateness() <= ms(41));
        shifts.push(told.lateness().as_millis());
    });
    assert!(shifts.len() >= 999);
    shifts.sort_unstable();
    shifts.dedup();
    assert!(shifts.len() > 20, "jitter that does not differ is none");
}

#[test]
fn one_big_advance_of_virtual_time_fires_every_period_in_order() {
    let clock = ManualClock::new(Instant::ORIGIN);
    let mut timers = exact();
    timers.every(at(0), ms(10), ms(10), Missed::Skip, 'a');
    timers.every(at(0), ms(15), ms(15), Missed::Skip, 'b');
    let mut last = (Instant::ORIGIN, 0);
    let mut count = 0;
    timers.run_until(&clock, at(600_000), |timers, key, told| {
        assert_eq!((clock.now(), told.missed), (told.nominal, 0));
        let order = (told.nominal, timers.value(key).map_or(0, |&name| name as u32));
        assert!(order.0 >= last.0);
        last = order;
        count += 1;
    });
    assert_eq!((count, clock.now()), (60_000 + 40_000, at(600_000)));
}

#[test]
fn a_clock_just_below_a_counter_s_width_makes_no_difference() {
    let edges = [
        1_u64 << 31,
        1 << 32,
        (1 << 31) * 1_000_000,
        (1 << 32) * 1_000_000,
        (1 << 63) / 10_000_000,
        1 << 63,
    ];
    for edge in edges {
        let start = Instant::from_nanos(edge - 3_500_000);
        for resolution in [Resolution::MILLISECOND, Resolution::FINE, Resolution::NANOSECOND] {
            let mut timers = Timers::with(start, resolution, Duration::ZERO);
            timers.every(start, ms(1), ms(1), Missed::Skip, ());
            for n in 1..=10 {
                let nominal = start.saturating_add(ms(n));
                let just_before = Instant::from_nanos(nominal.as_nanos() - 1);
                assert!(fired(&mut timers, just_before).is_empty());
                let now = resolution.start_of(resolution.tick_at_or_after(nominal));
                let all = fired(&mut timers, now);
                assert_eq!((all.len(), all[0].1.nominal, all[0].1.number), (1, nominal, n));
            }
        }
    }
}

#[test]
fn cancelling_the_last_timer_leaves_nothing_to_wake_for() {
    let mut timers = exact();
    for delay in [ms(0), ms(1), ms(300), Duration::from_secs(86_400 * 30), Duration::MAX] {
        let key = timers.after(at(0), delay, ());
        timers.cancel(key);
        assert_eq!((timers.next_wake(), timers.len()), (None, 0));
    }
}

#[test]
fn a_delay_counts_from_the_time_that_is_told() {
    let mut timers = exact();
    values(&mut timers, at(0));
    // The owner was blocked for five seconds; the timers have not been told of them yet.
    timers.after(at(5_000), ms(5_000), 1);
    assert!(values(&mut timers, at(5_000)).is_empty() && values(&mut timers, at(9_999)).is_empty());
    assert_eq!(values(&mut timers, at(10_000)), [1]);
}

#[test]
fn a_paused_timer_does_not_fire_at_the_end_of_time() {
    let mut timers = Timers::with(Instant::ORIGIN, Resolution::NANOSECOND, Duration::ZERO);
    let key = timers.after(at(0), ms(1), ());
    assert!(timers.pause(at(0), key));
    assert!(fired(&mut timers, Instant::MAX).is_empty());
    assert_eq!(timers.remaining(Instant::MAX, key), Some(ms(1)));
}
