//! What natives do with the host.

use std::num::NonZeroU32;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::time::saturating_nanos;
use mainspring::timers::{Cancelled, Plan, TimerKey};

use super::value::pass_and_call;
use super::{Call, Profile, SILENT, ScriptTimer, TICK, Value};
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
        let interval_ms = u32::try_from(interval).unwrap_or(0);
        let id = self.world.next_id;
        let timer = ScriptTimer {
            id,
            public: index.unwrap_or(SILENT),
            interval_ms,
            repeats,
            values: values.into(),
        };
        let now = self.world.now;
        let plan = plan(interval_ms, repeats);
        let Ok(key) = self.timers.try_arm(now, plan, timer) else { return Err(Code::Memory) };
        self.world.keys.insert(id, key);
        // After four thousand million timers the ids of those long gone come again.
        self.world.next_id = id.checked_add(1).unwrap_or(1);
        Ok(id.cast_signed())
    }

    fn key(&self, id: i32) -> Option<TimerKey> {
        self.world.keys.get(&id.cast_unsigned()).copied()
    }

    pub(crate) fn timer(&self, id: i32) -> Option<&ScriptTimer> {
        self.timers.value(self.key(id)?)
    }

    pub(crate) fn kill_timer(&mut self, id: i32) -> bool {
        let Some(key) = self.world.keys.remove(&id.cast_unsigned()) else { return false };
        !matches!(self.timers.cancel(key), Cancelled::Ended)
    }

    /// Milliseconds until it fires, rounded up; 0 if there is no such timer.
    pub(crate) fn remaining_ms(&self, id: i32) -> i32 {
        let remaining = self.key(id).and_then(|key| self.timers.remaining(self.world.now, key));
        let ms = remaining.map_or(0, |remaining| remaining.as_nanos().div_ceil(1_000_000));
        i32::try_from(ms).unwrap_or(i32::MAX)
    }

    pub(crate) fn interval_ms(&self, id: i32) -> i32 {
        self.timer(id).map_or(0, |timer| i32::try_from(timer.interval_ms).unwrap_or(i32::MAX))
    }

    /// From now on it fires at this interval, the first time one interval from now.
    pub(crate) fn set_interval(&mut self, id: i32, interval: i32) -> bool {
        let Some(key) = self.key(id) else { return false };
        let Some(timer) = self.timers.value_mut(key) else { return false };
        timer.interval_ms = u32::try_from(interval).unwrap_or(0);
        let plan = plan(timer.interval_ms, timer.repeats);
        self.timers.change(self.world.now, key, plan)
    }

    pub(crate) fn pause_timer(&mut self, id: i32) -> bool {
        self.key(id).is_some_and(|key| self.timers.pause(self.world.now, key))
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
    let first = Duration::from_millis(interval_ms.into());
    if repeats {
        let missed = match interval_ms {
            // Once per tick, not more.
            0 => Missed::Skip,
            _ => Missed::CatchUp { at_most: CATCH_UP },
        };
        Plan::every(first, interval(interval_ms), missed)
    } else {
        Plan::after(first)
    }
}
