//! What natives do with the host.

use std::num::NonZeroU32;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::time::saturating_nanos;
use mainspring::timers::{Plan, TimerKey};

use super::batch::Member;
use super::value::{pass_and_call, size};
use super::{
    BATCH, Call, Details, MOST_CARRIED, MOST_TIMERS, Profile, RARE, SILENT, ScriptTimer, TICK,
    Value, World,
};
use crate::error::Code;
use crate::machine::{Arguments, Machine, Natives, Outcome};

/// Missed firings of a repeating timer that are made up for in one tick, at most.
const CATCH_UP: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

impl Natives for Call<'_> {
    #[inline]
    fn call(
        &mut self,
        machine: &mut Machine,
        native: usize,
        arguments: Arguments,
    ) -> Result<i32, Code> {
        self.world.table[native](self, machine, arguments)
    }
}

impl Call<'_> {
    pub(crate) fn profile(&self) -> Profile {
        self.world.options.profile
    }

    pub(crate) fn is_scripted(&self) -> bool {
        self.world.options.scripted
    }

    pub(crate) fn print(&mut self, line: &[u8]) {
        self.world.line(line);
    }

    pub(crate) fn complain(&mut self, line: &str) {
        self.world.complain(line);
    }

    /// A number below `bound`, which is positive. The same run, the same numbers.
    pub(crate) fn random(&mut self, bound: i32) -> i32 {
        self.world.random = self
            .world
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let high = self.world.random >> 33;
        i32::try_from(high % u64::from(bound.unsigned_abs())).expect("below an i32")
    }

    /// Calls a public in the middle of another; 0 if there is none, or if it fails.
    pub(crate) fn call_public(
        &mut self,
        machine: &mut Machine,
        name: &str,
        values: &[Value],
    ) -> Result<i32, Code> {
        let Some(index) = machine.image().find_public(name) else { return Ok(0) };
        match pass_and_call(machine, self, index, &mut values.to_vec(), false) {
            Ok(Outcome::Returned(value) | Outcome::Sleeping(value)) => Ok(value),
            // The caller has no budget left either.
            Err(fault) if fault.code == Code::Budget => Err(fault.code),
            Err(fault) => {
                self.world.tell_fault(name, &fault);
                Ok(0)
            }
        }
    }

    /// Starts a timer; its id, or 0 if it is refused.
    pub(crate) fn set_timer(
        &mut self,
        machine: &Machine,
        public: &str,
        interval: i32,
        repeats: bool,
        values: Vec<Value>,
    ) -> Result<i32, Code> {
        let index = machine.image().find_public(public).and_then(|index| u32::try_from(index).ok());
        if index.is_none() && self.profile() == Profile::OpenMp {
            self.world.complain(&format!("warning: no public {public}: the timer is not started"));
            return Ok(0);
        }
        if interval < 0 && self.profile() == Profile::OpenMp {
            self.world.complain(&format!("error: the interval of {public} is negative; 0 is used"));
        }
        let carried = size(&values);
        if self.world.details.len() >= MOST_TIMERS || self.world.carried + carried > MOST_CARRIED {
            return Err(Code::Memory);
        }
        let interval_ms = u32::try_from(interval).unwrap_or(0);
        let id = self.world.next_id;
        let is_rare = !repeats || !values.is_empty();
        let public = index.unwrap_or(SILENT) | if is_rare { RARE } else { 0 };
        let now = self.world.now;
        // What a told run shows, and what drifts, is one by one.
        let options = self.world.options;
        let may_share = !is_rare && interval_ms > 0 && !options.scripted && !options.server_drift;
        let first = if may_share { self.world.batches.join(now, interval_ms, id) } else { None };
        let (key, place) = if let Some(first) = first {
            self.share(first, Member { id, public })
        } else {
            let plan = plan(interval_ms, repeats);
            let armed = self.timers.try_arm(now, plan, ScriptTimer { id, public });
            let Ok(key) = armed else {
                self.world.batches.close();
                return Err(Code::Memory);
            };
            (key, None)
        };
        let details = Details { key, interval_ms, repeats, place, values: values.into() };
        self.world.details.insert(id, details);
        self.world.carried += carried;
        // After four thousand million timers the ids of those long gone come again.
        self.world.next_id = id.checked_add(1).unwrap_or(1);
        Ok(id.cast_signed())
    }

    /// The entry of the wheel that the timer `first` waits in, from now on shared with one more.
    fn share(&mut self, first: u32, member: Member) -> (TimerKey, Option<(u32, u32)>) {
        let World { details, batches, .. } = &mut *self.world;
        let first = details.get_mut(&first).expect("what can be joined is alive");
        let batch = match first.place {
            Some((batch, _)) => batch,
            None => {
                let value = self.timers.value_mut(first.key).expect("and armed");
                let batch = batches.create(Member { id: value.id, public: value.public });
                *value = ScriptTimer { id: batch, public: BATCH };
                first.place = Some((batch, 0));
                batch
            }
        };
        (first.key, Some((batch, batches.push(batch, member))))
    }

    /// Takes a timer out of its batch: it waits for the same time, but by itself.
    fn go_alone(&mut self, id: i32) -> Option<TimerKey> {
        self.world.batches.close();
        let World { details, batches, now, .. } = &mut *self.world;
        let details = details.get_mut(&id.cast_unsigned())?;
        let Some((batch, place)) = details.place else { return Some(details.key) };
        let public = batches.member(batch, place as usize)?.public;
        let remaining = self.timers.remaining(*now, details.key)?;
        let plan = repeating(remaining, details.interval_ms);
        let timer = ScriptTimer { id: id.cast_unsigned(), public };
        let key = self.timers.try_arm(*now, plan, timer).ok()?;
        if batches.kill(batch, place) {
            self.timers.cancel(details.key);
        }
        (details.key, details.place) = (key, None);
        Some(key)
    }

    fn details(&self, id: i32) -> Option<&Details> {
        self.world.details.get(&id.cast_unsigned())
    }

    fn key(&self, id: i32) -> Option<TimerKey> {
        self.details(id).map(|details| details.key)
    }

    pub(crate) fn is_timer(&self, id: i32) -> bool {
        self.details(id).is_some()
    }

    pub(crate) fn kill_timer(&mut self, id: i32) -> bool {
        let Some(details) = self.world.remove(id.cast_unsigned()) else { return false };
        self.world.batches.close();
        let is_last = match details.place {
            Some((batch, place)) => self.world.batches.kill(batch, place),
            None => true,
        };
        if is_last {
            self.timers.cancel(details.key);
        }
        true
    }

    /// Milliseconds until it fires, rounded up; 0 if there is no such timer.
    pub(crate) fn remaining_ms(&self, id: i32) -> i32 {
        let remaining = self.key(id).and_then(|key| self.timers.remaining(self.world.now, key));
        let ms = remaining.map_or(0, |remaining| remaining.as_nanos().div_ceil(1_000_000));
        i32::try_from(ms).unwrap_or(i32::MAX)
    }

    pub(crate) fn interval_ms(&self, id: i32) -> i32 {
        self.details(id).map_or(0, |timer| i32::try_from(timer.interval_ms).unwrap_or(i32::MAX))
    }

    /// From now on it fires at this interval, the first time one interval from now.
    pub(crate) fn set_interval(&mut self, id: i32, interval: i32) -> bool {
        let Some(key) = self.go_alone(id) else { return false };
        let Some(details) = self.world.details.get_mut(&id.cast_unsigned()) else { return false };
        details.interval_ms = u32::try_from(interval).unwrap_or(0);
        let plan = plan(details.interval_ms, details.repeats);
        self.timers.change(self.world.now, key, plan)
    }

    pub(crate) fn pause_timer(&mut self, id: i32) -> bool {
        self.go_alone(id).is_some_and(|key| self.timers.pause(self.world.now, key))
    }

    pub(crate) fn resume_timer(&mut self, id: i32) -> bool {
        self.key(id).is_some_and(|key| self.timers.resume(self.world.now, key))
    }

    /// Milliseconds since the start; wraps after 24.8 days, as scripts expect, and never steps.
    #[allow(clippy::cast_possible_truncation, reason = "wraps")]
    pub(crate) fn tick_count(&self) -> i32 {
        let elapsed = self.world.now.saturating_duration_since(self.world.started);
        (saturating_nanos(elapsed) / 1_000_000) as i32
    }

    pub(crate) fn tick_rate(&self) -> i32 {
        i32::try_from(self.world.tick_rate).unwrap_or(i32::MAX)
    }
}

pub(super) fn interval(ms: u32) -> Duration {
    if ms == 0 { TICK } else { Duration::from_millis(ms.into()) }
}

fn plan(interval_ms: u32, repeats: bool) -> Plan {
    // No interval is a tick: at once would be in the same moment again, and time would stand still.
    let first = interval(interval_ms);
    if repeats { repeating(first, interval_ms) } else { Plan::after(first) }
}

fn repeating(first: Duration, interval_ms: u32) -> Plan {
    let missed = match interval_ms {
        // Once per tick, not more.
        0 => Missed::Skip,
        _ => Missed::CatchUp { at_most: CATCH_UP },
    };
    Plan::every(first, interval(interval_ms), missed)
}

#[cfg(test)]
mod tests {
    use mainspring::time::Instant;
    use proptest::prelude::*;

    use super::super::{Host, Options};
    use super::*;
    use crate::Image;

    const SCRIPT: &[u8] = include_bytes!("../../../../pawn/timers.amx");

    /// What scripts do to timers.
    #[derive(Clone, Debug)]
    enum Operation {
        Start { interval: i32, repeats: bool, exists: bool, count: u8 },
        Kill(u8),
        Pause(u8),
        Resume(u8),
        SetInterval(u8, i32),
        Tick(u16),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let interval = prop::sample::select(vec![0, 1, 5, 10, 10, 10, 20, 50]);
        prop_oneof![
            4 => (interval.clone(), prop::bool::weighted(0.8), any::<bool>(), 1_u8..20).prop_map(
                |(interval, repeats, exists, count)| Operation::Start { interval, repeats, exists, count }
            ),
            3 => any::<u8>().prop_map(Operation::Kill),
            1 => any::<u8>().prop_map(Operation::Pause),
            1 => any::<u8>().prop_map(Operation::Resume),
            1 => (any::<u8>(), interval).prop_map(|(id, interval)| Operation::SetInterval(id, interval)),
            4 => (1_u16..40).prop_map(Operation::Tick),
        ]
    }

    /// A host whose timers share entries of the wheel, or wait one by one.
    fn host(scripted: bool) -> Host {
        let image = Image::parse(SCRIPT).unwrap();
        let options = Options { scripted, ..Options::new(Profile::Samp) };
        Host::new(image, options, Instant::ORIGIN, Box::new(std::io::sink())).unwrap()
    }

    impl Host {
        fn apply(&mut self, operation: &Operation, now: &mut Instant) -> Vec<i32> {
            let Self { machine, world, timers } = self;
            let mut call = Call { world, timers };
            match *operation {
                Operation::Start { interval, repeats, exists, count } => (0..count)
                    .map(|_| {
                        let public = if exists { "OnTimer" } else { "OnNothing" };
                        call.set_timer(machine, public, interval, repeats, Vec::new()).unwrap()
                    })
                    .collect(),
                Operation::Kill(id) => vec![i32::from(call.kill_timer(id.into()))],
                Operation::Pause(id) => vec![i32::from(call.pause_timer(id.into()))],
                Operation::Resume(id) => vec![i32::from(call.resume_timer(id.into()))],
                Operation::SetInterval(id, interval) => {
                    vec![i32::from(call.set_interval(id.into(), interval))]
                }
                Operation::Tick(ms) => {
                    *now = now.saturating_add(Duration::from_millis(ms.into()));
                    self.tick(*now, 200);
                    Vec::new()
                }
            }
        }
    }

    proptest! {
        /// Shared or not, the same timers fire as often, and natives answer the same.
        #[test]
        fn sharing_an_entry_changes_nothing_that_a_script_sees(
            operations in prop::collection::vec(operation(), 1..120),
        ) {
            let (mut shared, mut alone) = (host(false), host(true));
            let mut times = [Instant::ORIGIN; 2];
            for operation in &operations {
                let answers = shared.apply(operation, &mut times[0]);
                prop_assert_eq!(answers, alone.apply(operation, &mut times[1]), "{:?}", operation);
                prop_assert_eq!(shared.timers_fired(), alone.timers_fired(), "{:?}", operation);
                prop_assert_eq!(shared.timers_alive(), alone.timers_alive());
                prop_assert_eq!(shared.variable("fired"), alone.variable("fired"));
                for id in 1..40 {
                    let ms = |host: &mut Host| {
                        let Host { world, timers, .. } = host;
                        let call = Call { world, timers };
                        (call.remaining_ms(id), call.interval_ms(id), call.is_timer(id))
                    };
                    prop_assert_eq!(ms(&mut shared), ms(&mut alone), "{}", id);
                }
            }
            prop_assert!(shared.timers.len() <= alone.timers.len());
        }
    }
}
