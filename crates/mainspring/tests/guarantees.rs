//! Every promise of the wheel's documentation, each by a test of its own.

use mainspring::time::Tick;
use mainspring::wheel::{CapacityError, TimerKey, Wheel};

/// Where clocks start: at zero, around powers of two, and so near the end of time that only some edges still fit.
const STARTS: [u64; 9] = [
    0,
    1,
    255,
    (1 << 30) - 300,
    (1 << 36) - 70_000,
    (1 << 63) - 2,
    u64::MAX - (1 << 41),
    u64::MAX - (1 << 17),
    u64::MAX - 600,
];

/// Distances at the edge of each level and of the block after it, one to each side, that fit between `start` and the
/// end of time.
fn edges(start: u64) -> Vec<u64> {
    let mut edges = vec![1, 2, 3];
    for level in 1..8 {
        for edge in [1_u64 << (8 * level), 2 << (8 * level)] {
            edges.extend([edge - 1, edge, edge + 1]);
        }
    }
    edges.retain(|&edge| edge <= u64::MAX - start);
    edges.extend([u64::MAX - start, (u64::MAX - start) / 2]);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Fires everything that is due up to `to`: the tick at which each fired, and its value.
fn fire<T>(wheel: &mut Wheel<T>, to: u64) -> Vec<(u64, T)> {
    let mut fired = Vec::new();
    let mut pass = wheel.advance(Tick(to));
    while let Some(expired) = pass.next() {
        let value = expired.remove();
        fired.push((pass.now().0, value));
    }
    assert_eq!(pass.now(), wheel.now());
    fired
}

fn values<T>(fired: Vec<(u64, T)>) -> Vec<T> {
    fired.into_iter().map(|(_, value)| value).collect()
}

// ---- when timers fire

#[test]
fn a_timer_never_fires_before_its_deadlines_tick() {
    for start in STARTS {
        for distance in edges(start) {
            let mut wheel = Wheel::new(Tick(start));
            wheel.insert(Tick(start + distance), ());
            assert_eq!(
                fire(&mut wheel, start + distance / 2),
                [],
                "{start} + {distance}, half way"
            );
            assert_eq!(fire(&mut wheel, start + distance - 1), [], "{start} + {distance}, before");
            assert_eq!(fire(&mut wheel, start + distance), [(start + distance, ())]);
            assert_eq!(wheel.now(), Tick(start + distance));
        }
    }
}

#[test]
fn timers_fire_in_order_of_their_ticks() {
    for start in STARTS {
        let mut wheel = Wheel::new(Tick(start));
        let mut expected: Vec<u64> = edges(start).into_iter().map(|edge| start + edge).collect();
        // Inserted from both ends towards the middle, so in neither order.
        let (near, far) = expected.split_at(expected.len() / 2);
        for (index, &deadline) in far.iter().rev().chain(near).enumerate() {
            let key = wheel.insert(Tick(u64::MAX), deadline);
            assert!(wheel.reschedule(key, Tick(deadline)), "timer {index}");
        }
        expected.sort_unstable();
        let fired = fire(&mut wheel, u64::MAX);
        assert!(fired.iter().all(|&(tick, deadline)| tick == deadline));
        assert_eq!(values(fired), expected);
    }
}

#[test]
fn timers_of_a_tick_fire_in_the_order_in_which_they_were_armed() {
    for start in STARTS {
        for distance in edges(start) {
            let deadline = start + distance;
            let mut wheel = Wheel::new(Tick(start));
            let mut armed = 0;
            // Armed from ever nearer: before and after each step down, and while blocks are drained ahead in slices. So
            // many at a time that chains have several blocks.
            let mut left = distance;
            let mut nearer = edges(0);
            nearer.extend((1..40).map(|step| step * 13));
            nearer.extend((1..12).map(|step| (1 << 16) + step * 3_001));
            nearer.sort_unstable();
            for next in nearer.into_iter().rev().chain([0]).filter(|&next| next < distance) {
                for _ in 0..if next > 70_000 { 130 } else { 9 } {
                    // Inserted, moved to an earlier deadline, or armed again.
                    let later = Tick(deadline.saturating_add(armed % 3));
                    let key = wheel.insert(later, armed);
                    assert!(wheel.reschedule(key, Tick(deadline)) || deadline == u64::MAX);
                    if later.0 == deadline {
                        assert!(wheel.reschedule(key, later), "the same deadline changes nothing");
                    }
                    armed += 1;
                }
                left = left.min(next);
                if left > 0 {
                    assert_eq!(fire(&mut wheel, deadline - left), []);
                }
            }
            assert_eq!(values(fire(&mut wheel, deadline)), Vec::from_iter(0..armed), "{distance}");
        }
    }
}

#[test]
fn a_timer_moved_to_a_later_deadline_fires_at_that_tick_and_armed_again_keeps_its_place() {
    for start in STARTS {
        for distance in edges(start) {
            let deadline = start + distance;
            let mut wheel = Wheel::new(Tick(start));
            let mut keys = Vec::new();
            for earlier in edges(0).into_iter().filter(|&earlier| earlier < distance) {
                let key = wheel.insert(Tick(deadline - earlier), earlier);
                assert!(wheel.reschedule(key, Tick(deadline)));
                assert_eq!(wheel.deadline(key), Some(Tick(deadline)));
                keys.push((key, earlier));
            }
            assert_eq!(fire(&mut wheel, deadline - 1), [], "{start} + {distance}");
            // Armed by a move to a tick already reached, in another order than that of insertion.
            for &(key, _) in keys.iter().rev() {
                assert!(wheel.reschedule(key, Tick(start)));
            }
            let expected: Vec<u64> = keys.iter().rev().map(|&(_, earlier)| earlier).collect();
            assert_eq!(values(fire(&mut wheel, deadline - 1)), expected);
        }
    }
}

#[test]
fn any_tick_is_a_legal_deadline_and_a_huge_one_stays_pending() {
    for start in STARTS {
        let mut wheel = Wheel::new(Tick(start));
        let last = wheel.insert(Tick(u64::MAX), "last");
        for step in edges(start) {
            let to = start + step;
            if to < u64::MAX {
                assert_eq!(fire(&mut wheel, to), []);
                assert_eq!(wheel.deadline(last), Some(Tick(u64::MAX)));
            }
        }
        assert_eq!(fire(&mut wheel, u64::MAX), [(u64::MAX, "last")]);
        // At the end of time the wheel still works.
        wheel.insert(Tick(u64::MAX), "after");
        assert_eq!(fire(&mut wheel, u64::MAX), [(u64::MAX, "after")]);
    }
}

#[test]
fn a_past_deadline_is_due_in_the_next_pass_in_order_of_arming() {
    for start in STARTS {
        let mut wheel = Wheel::new(Tick(start));
        let back = [0, 5, 1, 300, 70_000, start];
        for (value, back) in back.into_iter().enumerate() {
            let deadline = Tick(start.saturating_sub(back));
            let key = wheel.insert(deadline, value);
            assert_eq!(wheel.deadline(key), Some(deadline), "the deadline is what was asked for");
        }
        assert_eq!(wheel.next_wake(), Some(Tick(start)));
        assert_eq!(values(fire(&mut wheel, start)), Vec::from_iter(0..back.len()));
        assert_eq!(wheel.next_wake(), None);
    }
}

#[test]
fn time_does_not_go_back() {
    let mut wheel = Wheel::new(Tick(1_000));
    wheel.insert(Tick(1_200), ());
    assert_eq!(fire(&mut wheel, 1_100), []);
    assert_eq!(fire(&mut wheel, 0), []);
    assert_eq!(wheel.now(), Tick(1_100));
    assert_eq!(fire(&mut wheel, 1_200), [(1_200, ())]);
}

// ---- in a pass

#[test]
fn a_deadline_that_has_been_reached_is_due_in_the_next_pass() {
    for start in STARTS {
        let mut wheel = Wheel::new(Tick(start));
        wheel.insert(Tick(start), "first");
        let mut pass = wheel.advance(Tick(start));
        assert_eq!(pass.next().unwrap().remove(), "first");
        pass.insert(Tick(start), "this tick");
        pass.insert(Tick(0), "a past one");
        assert!(pass.next().is_none());
        assert_eq!(wheel.next_wake(), Some(Tick(start)));
        // Even one to the same tick.
        assert_eq!(values(fire(&mut wheel, start)), ["this tick", "a past one"]);
    }
}

#[test]
fn a_timer_armed_in_a_pass_for_a_tick_ahead_runs_in_that_pass() {
    for start in STARTS {
        for distance in edges(start) {
            let mut wheel = Wheel::new(Tick(start));
            wheel.insert(Tick(start), 0);
            let mut pass = wheel.advance(Tick(start + distance));
            assert_eq!(pass.next().unwrap().remove(), 0);
            pass.insert(Tick(start + distance), 1);
            assert_eq!(pass.next().unwrap().remove(), 1);
            assert!(pass.next().is_none());
        }
    }
}

#[test]
fn a_zero_delay_cannot_keep_a_pass_from_ending() {
    let mut wheel = Wheel::new(Tick(0));
    for value in 0..10 {
        wheel.insert(Tick(0), value);
    }
    for now in [0, 0, 1, 1, 300, 70_000] {
        let mut pass = wheel.advance(Tick(now));
        let mut runs = Vec::new();
        while let Some(expired) = pass.next() {
            runs.push(*expired.value());
            match runs.len() % 3 {
                0 => {
                    let reached = expired.deadline();
                    expired.rearm(reached);
                }
                1 => {
                    let key = expired.key();
                    assert!(pass.reschedule(key, Tick(0)));
                }
                _ => {
                    let (key, value) = expired.take();
                    let reached = pass.now();
                    pass.rearm(key, reached, value).unwrap();
                }
            }
            assert!(runs.len() <= 10, "the pass spins");
        }
        assert_eq!(runs, Vec::from_iter(0..10), "each runs once in each pass, in order");
    }
}

#[test]
fn stopping_early_leaves_now_at_the_tick_being_fired_and_the_rest_due() {
    for budget in [0, 1, 2, 126, 127, 128, 299] {
        let mut wheel = Wheel::new(Tick(0));
        for value in 0..300 {
            wheel.insert(Tick(500), value);
            wheel.insert(Tick(70_000), 300 + value);
        }
        let mut pass = wheel.advance(Tick(100_000));
        for value in 0..budget {
            assert_eq!(pass.next().unwrap().remove(), value);
            assert_eq!(pass.now(), Tick(500));
        }
        drop(pass);
        assert_eq!(wheel.now(), Tick(if budget == 0 { 0 } else { 500 }));
        let wake = wheel.next_wake().unwrap();
        assert!(if budget == 0 { wake <= Tick(500) } else { wake == Tick(500) });
        // The rest comes first in the next pass, however far that goes.
        let rest = fire(&mut wheel, u64::MAX);
        assert!(rest.iter().all(|&(tick, value)| tick == if value < 300 { 500 } else { 70_000 }));
        assert_eq!(values(rest), Vec::from_iter(budget..600));
    }
}

#[test]
fn a_timer_cancelled_or_moved_during_the_pass_does_not_run_in_it() {
    let mut wheel = Wheel::new(Tick(0));
    let keys: Vec<_> = (0..600_usize).map(|value| wheel.insert(Tick(9), value)).collect();
    let mut pass = wheel.advance(Tick(9));
    assert_eq!(pass.next().unwrap().remove(), 0);
    for (value, &key) in keys.iter().enumerate().skip(1) {
        match value % 3 {
            0 => assert_eq!(pass.cancel(key), Some(value)),
            1 => assert!(pass.reschedule(key, Tick(20))),
            _ => {}
        }
    }
    let mut ran = Vec::new();
    while let Some(expired) = pass.next() {
        ran.push(expired.remove());
    }
    assert_eq!(ran, Vec::from_iter((0..600).filter(|value| value % 3 == 2)));
    let moved = values(fire(&mut wheel, 20));
    assert_eq!(moved, Vec::from_iter((0..600).filter(|value| value % 3 == 1)));
}

#[test]
fn a_timer_left_alone_can_be_cancelled_or_moved_until_the_next_one() {
    let mut wheel = Wheel::new(Tick(0));
    let [ended, cancelled, moved] = ["a", "b", "c"].map(|value| wheel.insert(Tick(1), value));
    let mut pass = wheel.advance(Tick(1));
    assert_eq!(pass.next().unwrap().key(), ended);
    assert_eq!(pass.next().unwrap().key(), cancelled);
    assert_eq!(pass.cancel(ended), None, "it ended with the next");
    assert_eq!(pass.cancel(cancelled), Some("b"));
    assert_eq!(pass.next().unwrap().key(), moved);
    assert!(pass.reschedule(moved, Tick(5)));
    assert!(pass.next().is_none());
    assert_eq!(fire(&mut wheel, 5), [(5, "c")]);
}

#[test]
fn a_taken_timer_keeps_its_key_until_it_is_armed_again_or_cancelled() {
    let mut wheel = Wheel::new(Tick(0));
    let first = wheel.insert(Tick(1), String::from("first"));
    let second = wheel.insert(Tick(1), String::from("second"));
    let mut pass = wheel.advance(Tick(1));
    let (key, value) = pass.next().unwrap().take();
    assert_eq!(key, first);
    let (other, lost) = pass.next().unwrap().take();
    assert_eq!((other, lost.as_str()), (second, "second"));
    drop(pass);
    assert!(wheel.is_empty(), "a taken timer does not count");
    assert_eq!(wheel.next_wake(), None);
    assert_eq!((wheel.deadline(key), wheel.value(key)), (None, None));
    assert_eq!(wheel.value_mut(key), None);
    assert!(!wheel.reschedule(key, Tick(2)));
    assert!(wheel.keys().next().is_none());
    let third = wheel.insert(Tick(9), String::from("third"));
    assert!(third != first && third != second, "the record of a taken timer stays in use");

    assert_eq!(wheel.cancel(second), None);
    assert_eq!(wheel.rearm(second, Tick(3), lost), Err(String::from("second")));
    assert_eq!(wheel.rearm(first, Tick(3), value), Ok(()));
    assert_eq!(wheel.rearm(first, Tick(3), String::new()), Err(String::new()), "it is armed");
    assert_eq!(wheel.deadline(first), Some(Tick(3)));
    assert_eq!(values(fire(&mut wheel, 9)), ["first", "third"]);
}

#[test]
fn a_periodic_timer_keeps_key_and_value() {
    let mut wheel = Wheel::new(Tick(0));
    let key = wheel.insert(Tick(7), 0_u32);
    let mut pass = wheel.advance(Tick(7 * 1_000));
    while let Some(mut expired) = pass.next() {
        assert_eq!(expired.key(), key);
        *expired.value_mut() += 1;
        let next = expired.deadline().saturating_add(7);
        expired.rearm(next);
    }
    assert_eq!(wheel.value(key), Some(&1_000));
    assert_eq!(wheel.deadline(key), Some(Tick(7 * 1_001)));
}

// ---- keys

#[test]
fn a_stale_key_is_none_for_ever() {
    let mut wheel = Wheel::new(Tick(0));
    let mut stale: Vec<TimerKey> = Vec::new();
    for round in 0..3_000_u64 {
        let key = wheel.insert(Tick(round + 1), round);
        assert!(!stale.contains(&key), "a key was reused");
        match round % 3 {
            0 => assert_eq!(wheel.cancel(key), Some(round)),
            1 => assert_eq!(values(fire(&mut wheel, round + 1)), [round]),
            _ => {
                let mut pass = wheel.advance(Tick(round + 1));
                let _ = pass.next().unwrap().take();
                assert_eq!(pass.cancel(key), None);
            }
        }
        stale.push(key);
        // The record is in use again, by another timer.
        let other = wheel.insert(Tick(u64::MAX), u64::MAX);
        for &key in stale.iter().rev().take(50).chain(stale.first()) {
            assert_eq!(wheel.cancel(key), None);
            assert!(!wheel.reschedule(key, Tick(0)));
            assert_eq!(wheel.deadline(key), None);
            assert_eq!(wheel.value(key), None);
            assert_eq!(wheel.value_mut(key), None);
            assert_eq!(wheel.rearm(key, Tick(0), 7), Err(7));
        }
        assert_eq!(Vec::from_iter(wheel.keys()), [other]);
        assert_eq!(wheel.cancel(other), Some(u64::MAX));
        stale.push(other);
    }
}

// ---- next_wake

#[test]
fn no_timer_fires_before_next_wake_and_it_leads_to_the_next_timer() {
    for start in STARTS {
        let deadlines: Vec<u64> = edges(start).into_iter().map(|edge| start + edge).collect();
        let mut wheel = Wheel::new(Tick(start));
        assert_eq!(wheel.next_wake(), None, "an empty wheel wakes nobody");
        for &deadline in deadlines.iter().rev() {
            wheel.insert(Tick(deadline), ());
        }
        let mut idle = 0;
        for &deadline in &deadlines {
            loop {
                let wake = wheel.next_wake().expect("a timer waits");
                assert!(wheel.now() <= wake && wake <= Tick(deadline));
                let fired = fire(&mut wheel, wake.0);
                assert_eq!(wheel.now(), wake);
                if !fired.is_empty() {
                    assert_eq!(fired, [(deadline, ())]);
                    break;
                }
                idle += 1;
            }
        }
        assert_eq!(wheel.next_wake(), None);
        assert!(
            idle <= 8 * deadlines.len(),
            "{idle} needless wakes: more than one a level and timer"
        );
    }
}

#[test]
fn a_single_timer_wakes_its_owner_at_most_once_in_vain() {
    for start in STARTS {
        for distance in edges(start) {
            let deadline = Tick(start + distance);
            let mut wheel = Wheel::new(Tick(start));
            wheel.insert(deadline, ());
            let first = wheel.next_wake().expect("a timer waits");
            let fired = fire(&mut wheel, first.0);
            if first < deadline {
                assert_eq!(fired, []);
                assert_eq!(wheel.next_wake(), Some(deadline), "{start} + {distance}");
            }
            let key = wheel.insert(deadline, ());
            wheel.cancel(key);
            fire(&mut wheel, deadline.0);
            assert_eq!(wheel.next_wake(), None);
        }
    }
}

// ---- room

#[test]
fn capacity_beyond_the_limit_or_memory_is_an_error() {
    for timers in [(1 << 30) + 1, u32::MAX as usize, u32::MAX as usize + 1, usize::MAX] {
        let refused = Wheel::<u8>::try_with_capacity(Tick(0), timers).err();
        assert_eq!(refused, Some(CapacityError { timers }));
        let line = CapacityError { timers }.to_string();
        assert!(line.contains(&timers.to_string()) && !line.contains('\n'), "{line}");
    }
    // No address space has room for so many values of a TiB.
    let timers = 1 << 30;
    let refused = Wheel::<[u8; 1 << 40]>::try_with_capacity(Tick(0), timers).err();
    assert_eq!(refused, Some(CapacityError { timers }));

    let mut wheel = Wheel::try_with_capacity(Tick(5), 1_000).unwrap();
    for value in 0..2_000 {
        wheel.insert(Tick(6), value);
    }
    assert_eq!(values(fire(&mut wheel, 6)), Vec::from_iter(0..2_000), "capacity is no limit");
}

#[test]
fn values_of_any_size_and_alignment_are_kept_whole() {
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(64))]
    struct Large([u64; 512]);
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(4096))]
    struct Page(u8);
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(4096))]
    struct Nothing;

    fn keeps<T: Clone + PartialEq + std::fmt::Debug>(value: impl Fn(u64) -> T) {
        let mut wheel = Wheel::new(Tick(0));
        let keys: Vec<_> = (0..300).map(|n| wheel.insert(Tick(n * 37 % 1_000), value(n))).collect();
        for (n, &key) in (0..).zip(&keys) {
            let kept = wheel.value(key).expect("it is armed");
            assert_eq!(std::ptr::from_ref(kept).align_offset(align_of::<T>()), 0);
            assert_eq!(kept, &value(n));
            if n % 3 == 0 {
                assert_eq!(wheel.cancel(key), Some(value(n)));
            }
        }
        assert_eq!(fire(&mut wheel, 1_000).len(), 200);
    }
    keeps(|n| Large([n; 512]));
    keeps(|n| Page(n.to_le_bytes()[0]));
    keeps(|_| Nothing);
    keeps(|_| ());
    keeps(Box::new);
}

#[test]
fn a_key_of_another_wheel_is_an_ordinary_none() {
    // Vacant records know the generation of their next timer, whose key another wheel may have given out.
    for rounds in 1..5 {
        let (mut one, mut other) = (Wheel::new(Tick(0)), Wheel::new(Tick(0)));
        for _ in 0..rounds {
            let key = one.insert(Tick(5), 1);
            one.cancel(key);
            let key = other.insert(Tick(5), 1);
            other.cancel(key);
        }
        let key = other.insert(Tick(7), 2);
        assert_eq!((one.cancel(key), one.value(key), one.deadline(key)), (None, None, None));
        assert!(!one.reschedule(key, Tick(9)) && one.rearm(key, Tick(9), 3).is_err());
        assert!(one.is_empty());
    }
}

#[test]
fn next_wake_is_exact_for_a_single_timer_wherever_it_lies() {
    for level in 0..8_u32 {
        for off in [0, 1, 2, 255, 257] {
            for start in [0_u64, 255, 65_535, 1 << 40] {
                let Some(deadline) = (1_u64 << (8 * level)).checked_add(start + off) else {
                    continue;
                };
                let mut wheel = Wheel::new(Tick(start));
                wheel.insert(Tick(deadline), ());
                assert_eq!(wheel.next_wake(), Some(Tick(deadline.max(start))));
            }
        }
    }
}

#[test]
fn a_wheel_replaced_inside_its_pass_does_not_go_back() {
    let mut wheel = Wheel::new(Tick(0));
    wheel.insert(Tick(1), ());
    let mut pass = wheel.advance(Tick(10));
    assert!(pass.next().is_some());
    *pass.wheel() = Wheel::new(Tick(1_000));
    assert!(pass.next().is_none());
    assert_eq!(wheel.now(), Tick(1_000));
}
