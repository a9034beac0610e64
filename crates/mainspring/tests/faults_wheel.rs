//! What the wheel protects its users from, in virtual time.

use mainspring::time::Tick;
use mainspring::wheel::{TimerKey, Wheel};

/// Fires everything that is due up to `to`: the tick at which each fired, and its value.
fn fire<T>(wheel: &mut Wheel<T>, to: u64) -> Vec<(u64, T)> {
    let mut fired = Vec::new();
    let mut pass = wheel.advance(Tick(to));
    while let Some(expired) = pass.next() {
        let value = expired.remove();
        fired.push((pass.now().0, value));
    }
    fired
}

/// Milliseconds, at ticks of one.
const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;

/// Edges of wheels of 64 and of 256 slots a level, and of 32-bit counters.
fn edges() -> impl Iterator<Item = u64> {
    let of_64 = (1..=10).map(|level| 1_u64 << (6 * level));
    let of_256 = (1..=7).map(|level| 1_u64 << (8 * level));
    of_64.chain(of_256).chain([1 << 31, 1 << 32, (1 << 63) / 10_000_000])
}

#[test]
fn a_far_timer_does_not_hide_a_nearer_one() {
    for far in [60 * DAY, 1 << 30, 1 << 36, 1 << 50, u64::MAX] {
        for edge in edges() {
            for now in [edge - 1, edge, edge + 1] {
                let mut wheel = Wheel::new(Tick(0));
                wheel.insert(Tick(far), "far");
                fire(&mut wheel, now);
                for delay in [1, 20, SECOND, 15 * SECOND] {
                    wheel.insert(Tick(now + delay), "near");
                    assert!(wheel.next_wake() <= Some(Tick(now + delay)));
                    let near = fire(&mut wheel, now + delay);
                    assert!(near.contains(&(now + delay, "near")), "{delay} at {now}, far {far}");
                }
            }
        }
    }
}

#[test]
fn huge_delays_stay_pending() {
    let delays = [u64::MAX, u64::MAX / 10, 1 << 63, (1 << 36) - 1, 1 << 36, (1 << 36) + 1, 0];
    let mut wheel = Wheel::new(Tick(0));
    for delay in delays {
        wheel.insert(Tick(delay), delay);
    }
    let century = 36_525 * DAY;
    let fired: Vec<u64> = fire(&mut wheel, century).into_iter().map(|(_, delay)| delay).collect();
    assert_eq!(fired, [0, (1 << 36) - 1, 1 << 36, (1 << 36) + 1]);
    assert_eq!(wheel.len(), 3);
}

#[test]
fn an_old_wheel_still_takes_timers() {
    for edge in edges() {
        for age in [edge - 1, edge, edge + 1, 3 * edge] {
            let mut wheel = Wheel::new(Tick(0));
            fire(&mut wheel, age);
            wheel.insert(Tick(age + 10 * SECOND), ());
            assert_eq!(fire(&mut wheel, age + 10 * SECOND - 1), []);
            assert_eq!(fire(&mut wheel, u64::MAX), [(age + 10 * SECOND, ())]);
        }
    }
}

#[test]
fn delays_beyond_what_32_bits_hold_are_exact() {
    let mut delays = vec![25 * DAY, 50 * DAY, 400 * DAY];
    for bits in [31, 32, 33] {
        delays.extend([(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    }
    for start in [0, 12_345, (1 << 32) - 1] {
        for &delay in &delays {
            let mut wheel = Wheel::new(Tick(start));
            wheel.insert(Tick(start + delay), ());
            assert_eq!(fire(&mut wheel, start + delay - 1), []);
            assert_eq!(fire(&mut wheel, start + 3 * delay), [(start + delay, ())]);
        }
    }
}

#[test]
fn timers_run_on_where_counters_wrap() {
    for edge in edges() {
        let start = edge - 5;
        let mut wheel = Wheel::new(Tick(start));
        wheel.insert(Tick(start + 1), 0);
        for tick in start + 1..=start + 10 {
            let mut pass = wheel.advance(Tick(tick));
            let mut expired = pass.next().expect("it is due every tick");
            *expired.value_mut() += 1;
            expired.rearm(Tick(tick + 1));
            assert!(pass.next().is_none());
        }
        assert_eq!(fire(&mut wheel, start + 11), [(start + 11, 10)]);
    }
}

#[test]
fn a_due_timer_can_still_be_moved_and_cancelled() {
    // Before its pass, and in the pass while a peer of its tick is lent; once moved, twice moved.
    for moves in [vec![5], vec![20, 30], vec![30, 20], vec![10, 9, 1_000], vec![70_000]] {
        for in_pass in [false, true] {
            let mut wheel = Wheel::new(Tick(0));
            let first = wheel.insert(Tick(10), 1);
            let second = wheel.insert(Tick(10), 2);
            let mut pass = wheel.advance(Tick(10));
            assert_eq!(pass.next().unwrap().key(), first);
            if !in_pass {
                drop(pass);
                for &to in &moves {
                    assert!(wheel.reschedule(second, Tick(to)));
                }
                assert_eq!(wheel.deadline(second), Some(Tick(*moves.last().unwrap())));
                assert_eq!(wheel.cancel(second), Some(2));
            } else {
                for &to in &moves {
                    assert!(pass.reschedule(second, Tick(to)));
                }
                assert_eq!(pass.cancel(second), Some(2));
                assert!(pass.next().is_none());
            }
            assert_eq!(wheel.cancel(second), None);
            assert_eq!(fire(&mut wheel, u64::MAX), []);
        }
    }
}

#[test]
fn cancelling_the_last_timer_is_told_by_next_wake() {
    for edge in edges() {
        let mut wheel = Wheel::new(Tick(0));
        let keys = [edge - 1, edge, edge + 1, 0].map(|deadline| wheel.insert(Tick(deadline), ()));
        for key in keys {
            assert!(wheel.next_wake().is_some());
            wheel.cancel(key);
        }
        assert_eq!(wheel.next_wake(), None);
    }
}

#[test]
fn an_earlier_timer_brings_next_wake_forward() {
    for edge in edges() {
        let mut wheel = Wheel::new(Tick(0));
        let moved = wheel.insert(Tick(u64::MAX), ());
        for deadline in [edge + 1, edge, edge - 1] {
            wheel.insert(Tick(deadline), ());
            assert!(wheel.next_wake() <= Some(Tick(deadline)));
        }
        assert!(wheel.reschedule(moved, Tick(edge - 3)));
        assert!(wheel.next_wake() <= Some(Tick(edge - 3)));
        assert_eq!(fire(&mut wheel, edge - 3), [(edge - 3, ())]);
    }
}

#[test]
fn a_delay_counts_from_the_callers_now_not_from_the_last_pass() {
    // The owner was blocked; the deadline is the caller's, so nothing depends on when the wheel last looked.
    for blocked in [5 * SECOND, DAY, 100 * DAY] {
        let mut wheel = Wheel::new(Tick(0));
        wheel.insert(Tick(blocked + 5 * SECOND), ());
        assert_eq!(fire(&mut wheel, blocked), []);
        assert_eq!(fire(&mut wheel, blocked + 5 * SECOND), [(blocked + 5 * SECOND, ())]);
    }
}

#[test]
fn a_timer_that_arms_itself_for_now_starves_nobody() {
    for now in [0, 10, 300, 1 << 20, u64::MAX] {
        let mut wheel = Wheel::new(Tick(0));
        wheel.insert(Tick(now), "spinner");
        wheel.insert(Tick(now), "other");
        for pass_number in 0..5 {
            let mut pass = wheel.advance(Tick(now));
            let mut ran = Vec::new();
            while let Some(expired) = pass.next() {
                ran.push(expired.remove());
                if ran.last() == Some(&"spinner") {
                    let now = pass.now();
                    pass.insert(now, "spinner");
                }
            }
            assert_eq!(ran, ["spinner", "other"][..if pass_number == 0 { 2 } else { 1 }]);
        }
    }
}

#[test]
fn cancelled_timers_leave_nothing_that_fires() {
    let mut wheel = Wheel::new(Tick(0));
    for round in 0..2_000_u64 {
        let keys: Vec<_> =
            edges().map(|edge| wheel.insert(Tick(round + edge % (DAY * 50)), edge)).collect();
        for key in keys {
            assert!(wheel.cancel(key).is_some());
        }
        assert_eq!(fire(&mut wheel, round), []);
    }
    assert_eq!((wheel.len(), wheel.next_wake()), (0, None));
}

#[test]
fn a_callback_may_cancel_its_peers_itself_and_arm_more() {
    for acting in [0, 1, 126, 127, 128, 299] {
        let mut wheel = Wheel::new(Tick(0));
        let keys: Vec<TimerKey> = (0..300).map(|value| wheel.insert(Tick(10), value)).collect();
        let mut pass = wheel.advance(Tick(20));
        let mut ran = Vec::new();
        while let Some(expired) = pass.next() {
            let (key, value) = (expired.key(), *expired.value());
            ran.push(value);
            if value == acting {
                for &peer in keys.iter().filter(|&&peer| peer != key) {
                    pass.cancel(peer);
                }
                pass.insert(Tick(15), 1_000);
                assert_eq!(pass.cancel(key), Some(value), "itself");
            }
        }
        assert_eq!(ran, Vec::from_iter((0..=acting).chain([1_000])));
        assert!(wheel.is_empty());
    }
}

#[test]
fn a_stale_key_never_touches_another_timer() {
    let mut wheel = Wheel::new(Tick(0));
    let mut stale = Vec::new();
    for round in 0..1_000 {
        let old = wheel.insert(Tick(round + 1), "old");
        if round % 2 == 0 {
            assert_eq!(wheel.cancel(old), Some("old"));
        } else {
            assert_eq!(fire(&mut wheel, round + 1).len(), 1);
        }
        stale.push(old);
        let new = wheel.insert(Tick(1 << 40), "new");
        for &key in stale.iter().rev().take(20) {
            assert_eq!((wheel.cancel(key), wheel.deadline(key)), (None, None));
            assert!(!wheel.reschedule(key, Tick(0)));
        }
        assert_eq!(wheel.deadline(new), Some(Tick(1 << 40)));
        assert_eq!(wheel.cancel(new), Some("new"));
    }
}

#[test]
fn a_budget_keeps_a_crowd_from_delaying_others() {
    // A hundred thousand due at once, a thousand served in each pass: no pass does more than that, the one behind the
    // crowd runs right after it, nothing is lost and order holds.
    let crowd = 100_000_u64;
    let mut wheel = Wheel::new(Tick(0));
    for value in 0..crowd {
        wheel.insert(Tick(10), value);
    }
    wheel.insert(Tick(11), crowd);
    let (mut served, mut now) = (Vec::new(), 10);
    while !wheel.is_empty() {
        let mut pass = wheel.advance(Tick(now));
        for _ in 0..SECOND {
            let Some(expired) = pass.next() else { break };
            served.push(expired.remove());
        }
        assert_eq!(pass.now() == Tick(10), served.len() <= 100_000);
        now += 1;
    }
    assert_eq!(served, Vec::from_iter(0..=crowd));
    assert_eq!(now, 10 + crowd.div_ceil(SECOND) + 1, "each pass did its budget's work, no more");
}

#[test]
fn equal_deadlines_keep_the_order_of_arming_among_random_others() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for span in [1, 10, 300, 70_000, 1 << 40] {
        let mut wheel = Wheel::new(Tick(0));
        let mut expected = Vec::new();
        for sequence in 0..5_000_u32 {
            let deadline = 1 + random() % span;
            wheel.insert(Tick(deadline), (deadline, sequence));
            expected.push((deadline, (deadline, sequence)));
        }
        expected.sort();
        assert_eq!(fire(&mut wheel, span), expected);
    }
}

#[test]
fn a_delay_of_whole_revolutions_fires_in_the_last_of_them() {
    for edge in edges().filter(|&edge| edge < 1 << 56) {
        for revolutions in [1, 2, 3, 64, 255, 256] {
            for start in [0, 1, edge - 1, edge] {
                let delay = edge * revolutions;
                let mut wheel = Wheel::new(Tick(start));
                wheel.insert(Tick(start + delay), ());
                assert_eq!(fire(&mut wheel, start + delay - 1), [], "{start} + {delay}");
                assert_eq!(fire(&mut wheel, start + delay), [(start + delay, ())]);
            }
        }
    }
}

#[test]
fn the_first_tick_after_a_level_edge_is_on_time() {
    for edge in edges() {
        let mut wheel = Wheel::new(Tick(edge - 2));
        for tick in edge - 1..=edge + 2 {
            wheel.insert(Tick(tick), tick);
        }
        for tick in edge - 1..=edge + 2 {
            assert_eq!(fire(&mut wheel, tick), [(tick, tick)]);
        }
    }
}

#[test]
fn a_clock_that_stands_still_or_jumps_years_is_borne() {
    let mut wheel = Wheel::new(Tick(0));
    wheel.insert(Tick(5), 5);
    wheel.insert(Tick(400 * DAY), 400 * DAY);
    for _ in 0..1_000 {
        assert_eq!(fire(&mut wheel, 0), []);
    }
    let century = 36_525 * DAY;
    assert_eq!(fire(&mut wheel, century), [(5, 5), (400 * DAY, 400 * DAY)]);
    wheel.insert(Tick(century + 1), 0);
    assert_eq!(fire(&mut wheel, century + 1), [(century + 1, 0)]);
}
