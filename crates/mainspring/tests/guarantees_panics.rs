//! The wheel's promise that a panic of others, in a value's drop or in the code of whoever fires timers, leaves it
//! consistent and loses no other timer.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mainspring::time::Tick;
use mainspring::wheel::Wheel;

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

/// Counts its drops, and panics in the first drop of the one that is bad.
struct Value {
    number: usize,
    is_bad: bool,
    drops: Rc<Cell<usize>>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        assert!(!self.is_bad, "a bad value");
    }
}

const MANY: usize = 400;

/// A wheel with many timers at one tick, and as many at the next; the one at `bad` panics in its drop.
fn with_a_bad_value(bad: usize) -> (Wheel<Value>, Rc<Cell<usize>>) {
    let drops = Rc::new(Cell::new(0));
    let mut wheel = Wheel::new(Tick(0));
    for number in 0..2 * MANY {
        let deadline = Tick(if number < MANY { 300 } else { 301 });
        let value = Value { number, is_bad: number == bad, drops: Rc::clone(&drops) };
        wheel.insert(deadline, value);
    }
    (wheel, drops)
}

#[test]
fn a_panic_in_a_values_drop_loses_no_other_timer() {
    for bad in [0, 1, 126, 127, MANY - 1, MANY, 2 * MANY - 1] {
        let (mut wheel, drops) = with_a_bad_value(bad);
        let seen = Cell::new(0);
        let mut panics = 0;
        // Each lent timer is left to be dropped by the next call; the panic comes out of that call.
        while wheel.now() < Tick(400) {
            let pass = catch_unwind(AssertUnwindSafe(|| {
                let mut pass = wheel.advance(Tick(400));
                while let Some(expired) = pass.next() {
                    assert_eq!(expired.value().number, seen.get(), "lost, repeated or disordered");
                    seen.set(seen.get() + 1);
                }
            }));
            panics += usize::from(pass.is_err());
            assert!(panics <= 1, "one bad value panicked twice, or something else did");
        }
        assert_eq!((seen.get(), drops.get(), panics), (2 * MANY, 2 * MANY, 1), "bad {bad}");
        assert!(wheel.is_empty());
        let drops = Rc::new(Cell::new(0));
        wheel.insert(Tick(0), Value { number: 7, is_bad: false, drops });
        assert_eq!(fire(&mut wheel, 400).len(), 1, "the wheel goes on");
    }
}

#[test]
fn a_panic_in_a_values_drop_costs_no_other_value_its_drop_when_the_wheel_ends() {
    for bad in [0, 1, MANY, 2 * MANY - 1] {
        let (wheel, drops) = with_a_bad_value(bad);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(wheel))).is_err());
        assert_eq!(drops.get(), 2 * MANY);
    }
}

#[test]
fn a_panic_in_the_callers_code_loses_no_other_timer() {
    let fates = ["before", "leave", "remove", "rearm", "take"];
    for (fate, at) in fates.iter().flat_map(|fate| [0, 126, 127, MANY - 1].map(|at| (fate, at))) {
        let mut wheel = Wheel::new(Tick(0));
        for number in 0..MANY {
            wheel.insert(Tick(300), number);
        }
        let mut ran = Vec::new();
        let pass = catch_unwind(AssertUnwindSafe(|| {
            let mut pass = wheel.advance(Tick(400));
            while let Some(expired) = pass.next() {
                let number = *expired.value();
                if number != at {
                    ran.push(expired.remove());
                    continue;
                }
                match *fate {
                    "before" => panic!("while it is lent"),
                    "leave" => {}
                    "remove" => drop(expired.remove()),
                    "rearm" => expired.rearm(Tick(350)),
                    _ => drop(expired.take()),
                }
                panic!("a callback's");
            }
        }));
        assert!(pass.is_err());
        assert_eq!(wheel.now(), Tick(300));
        ran.extend(fire(&mut wheel, 340).into_iter().map(|(_, number)| number));
        assert_eq!(ran, Vec::from_iter((0..MANY).filter(|&number| number != at)), "{fate}");
        let again = fire(&mut wheel, 400);
        assert_eq!(again, if *fate == "rearm" { vec![(350, at)] } else { vec![] });
        assert!(wheel.is_empty());
    }
}
