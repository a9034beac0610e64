//! The wheel against a slow oracle: one script of operations, for seeded tests, property tests and fuzzing.

use super::{TimerKey, Wheel};
use crate::time::Tick;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// What can be done to a wheel.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Insert(When),
    Cancel(u16),
    /// Every operation that takes a key, with one whose timer has ended.
    Stale(u16),
    Reschedule(u16, When),
    Advance {
        to: When,
        /// Timers to fire before the pass is dropped.
        budget: u16,
        /// What to do with each timer that fires, and between two of them.
        fates: Vec<Fate>,
    },
}

/// What happens in a pass, after a timer was lent.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Drop,
    Remove,
    Rearm(When),
    /// Take the value, do something else, give it back.
    TakeAndRearm(When),
    TakeAndCancel,
    /// Remove, then one more operation inside the pass (an advance in it is skipped).
    RemoveThen(alloc::boxed::Box<Op>),
}

/// A tick as seen from now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Ahead(u64),
    Behind(u64),
    /// So long before the end of time.
    End(u64),
}

impl When {
    fn from(self, now: u64) -> u64 {
        match self {
            Self::Ahead(ticks) => now.saturating_add(ticks),
            Self::Behind(ticks) => now.saturating_sub(ticks),
            Self::End(ticks) => u64::MAX - ticks,
        }
    }
}

/// Operations, and the wheel they start from.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    start: u64,
    first_generation: NonZeroU32,
    ops: Vec<Op>,
}

/// Clocks start where wheels of others broke: at zero, and just below powers of two.
const STARTS: [u64; 8] = [
    0,
    (1 << 30) - 300,
    (1 << 31) - 3,
    (1 << 36) - 70_000,
    (1 << 63) - 2,
    u64::MAX - (1 << 17),
    u64::MAX - 600,
    255,
];

/// Reads a script from bytes; there is one for any bytes.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Distances lie at the edges of levels and blocks, at every magnitude, and mostly nearby.
    fn distance(&mut self) -> u64 {
        let kind = self.byte();
        match kind % 8 {
            0 => 0,
            1..=3 => u64::from(self.byte()) * 3,
            4 => u64::from(self.short()),
            5 => {
                let edge = 1_u64 << (8 * (u32::from(self.byte()) % 8)).max(1);
                edge.wrapping_add(u64::from(kind / 8) % 5).wrapping_sub(2)
            }
            6 => (u64::from(self.short()) << 48 | 0x1234_5678_9abc) >> (self.byte() % 64),
            _ => {
                let edge = 1_u64 << (8 * (u32::from(self.byte()) % 8)).max(1);
                (2 * edge)
                    .wrapping_add(u64::from(kind / 8) % 5)
                    .wrapping_sub(2)
            }
        }
    }

    fn when(&mut self) -> When {
        match self.byte() % 16 {
            0 => When::Behind(self.distance()),
            1 => When::End(u64::from(self.byte() % 4)),
            _ => When::Ahead(self.distance()),
        }
    }

    fn fate(&mut self, depth: u8) -> Fate {
        match self.byte() % 8 {
            0 => Fate::Drop,
            1 => Fate::Remove,
            2 | 3 => Fate::Rearm(self.when()),
            4 => Fate::TakeAndRearm(self.when()),
            5 => Fate::TakeAndCancel,
            _ if depth == 0 => Fate::RemoveThen(self.op(1).into()),
            _ => Fate::Remove,
        }
    }

    fn op(&mut self, depth: u8) -> Op {
        match self.byte() % 16 {
            0..=4 => Op::Insert(self.when()),
            5 | 6 => Op::Cancel(self.short()),
            7 => Op::Stale(self.short()),
            8..=10 => Op::Reschedule(self.short(), self.when()),
            _ if depth > 0 => Op::Insert(self.when()),
            _ => {
                let to = self.when();
                let budget = if self.byte() % 3 == 0 {
                    u16::from(self.byte() % 8)
                } else {
                    u16::MAX
                };
                let fates = (0..=self.byte() % 6).map(|_| self.fate(depth)).collect();
                Op::Advance { to, budget, fates }
            }
        }
    }
}

impl Script {
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut decoder = Decoder(bytes);
        let start = STARTS[usize::from(decoder.byte()) % STARTS.len()];
        let near_end = decoder.byte() % 2 == 0;
        let first_generation = if near_end { u32::MAX - 2 } else { 1 };
        let first_generation = NonZeroU32::new(first_generation).expect("not zero");
        let mut ops = Vec::new();
        while !decoder.0.is_empty() {
            ops.push(decoder.op(0));
        }
        Self {
            start,
            first_generation,
            ops,
        }
    }

    /// Runs it on a wheel and on the oracle; panics where they differ or an invariant breaks.
    pub(crate) fn run(&self) {
        let mut pair = Pair::new(self.start, self.first_generation);
        for op in &self.ops {
            pair.apply(op);
            pair.agree();
        }
        pair.finish();
    }
}

/// A value that knows its timer, and shows by its count whether it was dropped.
type Value = (u64, Rc<()>);

/// One armed timer, as the oracle sees it.
#[derive(Clone, Copy, Debug)]
struct Armed {
    key: TimerKey,
    deadline: u64,
    turn: Turn,
    /// Armed at its deadline, not moved to it: its place within the tick is promised.
    is_ordered: bool,
}

/// When a timer fires: ticks in order; the timers of a tick, then those that were overdue when a pass began there; each
/// in the order of arming.
type Turn = (u64, Phase, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    OnTime,
    Overdue,
    /// Armed for a tick that had been reached: waits for the next pass.
    NextPass,
}

struct Pair {
    wheel: Wheel<Value>,
    count: Rc<()>,
    now: u64,
    armed: BTreeMap<u64, Armed>,
    turns: BTreeMap<Turn, u64>,
    stale: Vec<TimerKey>,
    arming: u64,
    next_id: u64,
    most: usize,
}

impl Pair {
    fn new(start: u64, first_generation: NonZeroU32) -> Self {
        let mut wheel = Wheel::new(Tick(start));
        wheel.set_first_generation(first_generation);
        Self {
            wheel,
            count: Rc::new(()),
            now: start,
            armed: BTreeMap::new(),
            turns: BTreeMap::new(),
            stale: Vec::new(),
            arming: 0,
            next_id: 0,
            most: 0,
        }
    }

    // ---- the oracle

    fn arm(&mut self, id: u64, key: TimerKey, deadline: u64, is_ordered: bool) {
        self.disarm(id);
        self.arming += 1;
        let turn = if deadline <= self.now {
            (self.now, Phase::NextPass, self.arming)
        } else {
            (deadline, Phase::OnTime, self.arming)
        };
        self.turns.insert(turn, id);
        self.armed.insert(
            id,
            Armed {
                key,
                deadline,
                turn,
                is_ordered,
            },
        );
        self.most = self.most.max(self.armed.len());
    }

    fn disarm(&mut self, id: u64) -> Option<Armed> {
        let armed = self.armed.remove(&id)?;
        self.turns.remove(&armed.turn);
        Some(armed)
    }

    fn ended(&mut self, id: u64) -> Option<Armed> {
        let armed = self.disarm(id)?;
        self.stale.push(armed.key);
        Some(armed)
    }

    /// A pass begins: what waited for it is due now.
    fn begin_pass(&mut self) {
        let waiting: Vec<_> = self
            .turns
            .iter()
            .filter(|(turn, _)| turn.1 == Phase::NextPass)
            .map(|(&t, &id)| (t, id))
            .collect();
        for (turn, id) in waiting {
            self.turns.remove(&turn);
            let turn = (self.now, Phase::Overdue, turn.2);
            self.turns.insert(turn, id);
            self.armed.get_mut(&id).expect("it is armed").turn = turn;
        }
    }

    /// The turn whose timers are due first in a pass to `to`.
    fn first_due(&self, to: u64) -> Option<(u64, Phase)> {
        let mut due = self
            .turns
            .keys()
            .filter(|turn| turn.1 != Phase::NextPass && turn.0 <= to);
        due.next().map(|turn| (turn.0, turn.1))
    }

    fn assert_next(&self, id: u64, to: u64) {
        let turn = self
            .armed
            .get(&id)
            .expect("a timer fired that is not armed")
            .turn;
        assert!(
            turn.1 != Phase::NextPass,
            "a timer armed for a tick already reached fired at once"
        );
        assert_eq!(
            Some((turn.0, turn.1)),
            self.first_due(to),
            "a timer fired before its turn"
        );
        if self.armed[&id].is_ordered {
            let peers = self.turns.range((turn.0, turn.1, 0)..=turn);
            let earlier = peers.filter(|(_, id)| self.armed[id].is_ordered).count();
            assert_eq!(
                earlier, 1,
                "a timer fired before one that was armed earlier for the same tick"
            );
        }
    }

    // ---- both

    fn pick(&self, choice: u16) -> Option<(u64, Armed)> {
        let nth = usize::from(choice).checked_rem(self.armed.len())?;
        self.armed.iter().nth(nth).map(|(&id, &armed)| (id, armed))
    }

    fn value(&mut self) -> Value {
        self.next_id += 1;
        (self.next_id, Rc::clone(&self.count))
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Insert(when) => {
                let (deadline, value) = (when.from(self.now), self.value());
                let id = value.0;
                let key = self.wheel.insert(Tick(deadline), value);
                self.arm(id, key, deadline, true);
            }
            &Op::Cancel(choice) => {
                if let Some((id, armed)) = self.pick(choice) {
                    assert_eq!(self.wheel.cancel(armed.key).expect("it is armed").0, id);
                    self.ended(id);
                }
            }
            &Op::Stale(choice) => {
                if let Some(nth) = usize::from(choice).checked_rem(self.stale.len()) {
                    let key = self.stale[nth];
                    assert!(self.wheel.cancel(key).is_none());
                    assert!(!self.wheel.reschedule(key, Tick(self.now)));
                    assert!(self.wheel.deadline(key).is_none() && self.wheel.value(key).is_none());
                    let value = self.value();
                    assert!(self.wheel.rearm(key, Tick(self.now), value).is_err());
                }
            }
            &Op::Reschedule(choice, when) => {
                if let Some((id, armed)) = self.pick(choice) {
                    let deadline = when.from(self.now);
                    assert!(self.wheel.reschedule(armed.key, Tick(deadline)));
                    if deadline <= self.now {
                        self.arm(id, armed.key, deadline, true);
                    } else if deadline != armed.deadline || armed.turn.1 == Phase::NextPass {
                        let is_earlier = deadline < armed.deadline;
                        self.arm(id, armed.key, deadline, is_earlier && armed.is_ordered);
                    }
                }
            }
            Op::Advance { to, budget, fates } => self.advance(to.from(self.now), *budget, fates),
        }
    }

    fn advance(&mut self, to: u64, budget: u16, fates: &[Fate]) {
        let to = to.max(self.now);
        self.begin_pass();
        let mut fates = fates.iter().cycle();
        // The pass is dropped and taken up again around each operation inside it, which must make no difference but
        // that what is overdue waits for the next pass: so operations inside go through the pass itself.
        let mut wheel = core::mem::replace(&mut self.wheel, Wheel::new(Tick(0)));
        let mut pass = wheel.advance(Tick(to));
        let mut fired = 0;
        while fired < budget {
            let Some(mut expired) = pass.next() else {
                assert_eq!(
                    self.first_due(to),
                    None,
                    "a pass ended and left a timer that is due"
                );
                self.now = to;
                break;
            };
            fired += 1;
            let (id, key) = (expired.value_mut().0, expired.key());
            self.assert_next(id, to);
            let armed = self.armed[&id];
            assert_eq!((expired.deadline(), key), (Tick(armed.deadline), armed.key));
            self.now = self.now.max(armed.turn.0);
            assert!(armed.deadline <= self.now, "a timer fired early");
            match fates.next().expect("there is at least one fate") {
                Fate::Drop => {
                    drop(expired);
                    self.ended(id);
                }
                Fate::Remove => {
                    assert_eq!(expired.remove().0, id);
                    self.ended(id);
                }
                Fate::Rearm(when) => {
                    let deadline = when.from(self.now);
                    expired.rearm(Tick(deadline));
                    self.arm(id, key, deadline, true);
                }
                Fate::TakeAndRearm(when) => {
                    let (key, value) = expired.take();
                    assert_eq!(pass.wheel().deadline(key), None);
                    assert!(!pass.reschedule(key, Tick(0)));
                    let deadline = when.from(self.now);
                    pass.rearm(key, Tick(deadline), value)
                        .expect("it was taken");
                    self.arm(id, key, deadline, true);
                }
                Fate::TakeAndCancel => {
                    let (key, value) = expired.take();
                    assert!(pass.cancel(key).is_none());
                    assert!(pass.rearm(key, Tick(self.now), value).is_err());
                    self.ended(id);
                }
                Fate::RemoveThen(op) => {
                    drop(expired.remove());
                    self.ended(id);
                    assert_eq!(
                        pass.now(),
                        Tick(self.now),
                        "the wheel's time is the tick being fired"
                    );
                    if !matches!(**op, Op::Advance { .. }) {
                        // Swap the wheel under the pass in, apply, and swap it back.
                        core::mem::swap(pass.wheel(), &mut self.wheel);
                        self.apply(op);
                        core::mem::swap(pass.wheel(), &mut self.wheel);
                    }
                }
            }
        }
        drop(pass);
        self.wheel = wheel;
        assert_eq!(
            self.wheel.now(),
            Tick(self.now),
            "a pass that stops early stays at its tick"
        );
    }

    fn agree(&mut self) {
        self.wheel.check();
        assert_eq!(self.wheel.len(), self.armed.len());
        assert_eq!(
            Rc::strong_count(&self.count),
            self.armed.len() + 1,
            "values held"
        );
        match (self.wheel.next_wake(), self.turns.keys().next()) {
            (None, None) => {}
            (Some(wake), Some(first)) => {
                // What was armed for a tick already reached is due now.
                let first = first.0.max(self.now);
                assert!(
                    (self.now..=first).contains(&wake.0),
                    "next_wake {wake:?} after {first}"
                );
            }
            (wake, first) => panic!("next_wake is {wake:?}, the first turn {first:?}"),
        }
        let bound = Wheel::<Value>::stale_bound(self.most);
        assert!(self.wheel.stale_entries() <= bound, "stale entries pile up");
    }

    /// Everything still armed fires, up to the end of time, or is dropped with the wheel.
    fn finish(mut self) {
        for (&id, armed) in &self.armed {
            assert_eq!(self.wheel.deadline(armed.key), Some(Tick(armed.deadline)));
            assert_eq!(self.wheel.value(armed.key).map(|value| value.0), Some(id));
        }
        let half = When::Ahead((u64::MAX - self.now) / 2);
        self.apply(&Op::Advance {
            to: half,
            budget: u16::MAX,
            fates: [Fate::Remove].into(),
        });
        self.agree();
        drop(self.wheel);
        assert_eq!(
            Rc::strong_count(&self.count),
            1,
            "a value outlived the wheel"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Many scripts from one seed, without any library.
    #[test]
    fn agrees_with_the_oracle_on_seeded_scripts() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200 {
            let len = 100 + random() % 1_500;
            let bytes: Vec<u8> = (0..len).map(|_| (random() >> 32) as u8).collect();
            Script::decode(&bytes).run();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn agrees_with_the_oracle(bytes in proptest::collection::vec(any::<u8>(), 0..1_200)) {
            Script::decode(&bytes).run();
        }
    }
}
