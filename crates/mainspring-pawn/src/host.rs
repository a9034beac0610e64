//! A server around one script: what the servers do with timers, natives and callbacks, by their rules.
//!
//! The host has no clock and no loop: its owner calls [`Host::start`], then [`Host::tick`] at each tick with the time of it,
//! and [`Host::stop`]. Timers are [`mainspring::timers::Timers`], so the n-th firing of a repeating timer is due at its start
//! plus n intervals, whatever happened to the ones before; `server_drift` repeats the servers' own arithmetic instead.

mod batch;
mod call;
mod value;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Write};
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::time::{Clock, Instant, Resolution, saturating_nanos};
use mainspring::timers::{Fired, Plan, TimerKey, Timers};

use crate::error::{Code, LoadError};
use crate::image::Image;
use crate::machine::{Entry, Fault, Machine, Outcome};
use crate::natives::{self, Native};
use crate::report::Report;

use self::batch::{Batches, DEAD};
use self::call::interval;
use self::value::pass_and_call;

pub use self::value::Value;

/// Whose rules a script is run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// SA:MP 0.3.7: a timer on a public that is not there does nothing, silently; a missing native is error 19.
    Samp,
    /// open.mp: such a timer is refused with a warning; a missing native does nothing, with a warning.
    OpenMp,
}

/// How a host is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whose rules.
    pub profile: Profile,
    /// Repeat the server's own re-arming, which drifts.
    pub server_drift: bool,
    /// Keep to the format of told runs: see [`script`](crate::script).
    pub scripted: bool,
    /// Jumps that each call into the script may take; a call of a native counts as 16, 64 bytes copied or filled as one.
    pub budget: u64,
}

impl Options {
    /// Drift-free, with the usual budget.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, server_drift: false, scripted: false, budget: crate::BUDGET }
    }
}

/// What the wheel holds of a script's timer, as little as it can: each firing touches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptTimer {
    id: u32,
    /// [`SILENT`], or the index of a public and [`RARE`]; or [`BATCH`], and then `id` is that of a batch.
    public: u32,
}

/// The rest of a script's timer, by its id.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    key: TimerKey,
    interval_ms: u32,
    repeats: bool,
    /// The batch that it is a member of, and its place there.
    place: Option<(u32, u32)>,
    values: Box<[Value]>,
}

/// The public of a repeating timer that fires without calling anything.
const SILENT: u32 = u32::MAX >> 1;
/// Set if a firing has to look at the details: the timer has values, or fires once.
const RARE: u32 = 1 << 31;
/// Not one timer but a batch of them.
const BATCH: u32 = SILENT - 1;

/// Between two ticks of a server, and so between two firings of a timer with no interval.
pub const TICK: Duration = Duration::from_millis(5);

/// Timers of one script, and cells and characters that they carry, at most.
const MOST_TIMERS: usize = 1 << 24;
const MOST_CARRIED: usize = 1 << 24;

/// Faults of one public that are told in full; more are only counted.
const TOLD_FAULTS: u64 = 20;

/// One script, its timers and its output.
pub struct Host {
    machine: Machine,
    world: World,
    timers: Timers<ScriptTimer>,
}

/// All that natives see beside the machine and the timers.
pub(crate) struct World {
    options: Options,
    table: Vec<Native>,
    details: HashMap<u32, Details, BuildHasherDefault<IdHasher>>,
    batches: Batches,
    /// Cells and characters that all timers carry.
    carried: usize,
    next_id: u32,
    started: Instant,
    now: Instant,
    tick_rate: u32,
    random: u64,
    output: Box<dyn Write + Send>,
    output_error: Option<io::Error>,
    warned: HashSet<String>,
    faults: HashMap<String, u64>,
    report: Option<(Report, Box<dyn Clock + Send>)>,
    /// When `main` wakes up, if it sleeps.
    wakes: Option<Instant>,
    fired: u64,
    called: u64,
    is_started: bool,
}

/// What a native is given to work with.
pub(crate) struct Call<'h> {
    world: &'h mut World,
    timers: &'h mut Timers<ScriptTimer>,
}

impl Host {
    /// Loads a script; its text goes to `output`. Nothing of it runs before [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// What is wrong with the file, or, with [`Profile::Samp`], which natives are missing.
    pub fn new(
        image: Image,
        options: Options,
        now: Instant,
        output: Box<dyn Write + Send>,
    ) -> Result<Self, LoadError> {
        let table: Vec<Option<Native>> =
            image.natives.iter().map(|native| natives::find(&native.name)).collect();
        let missing: Vec<String> = missing_natives(&image).map(str::to_owned).collect();
        if options.profile == Profile::Samp && !missing.is_empty() {
            let what = format!(
                "natives that are not here: {}; --profile openmp runs the script without them",
                missing.join(", ")
            );
            return Err(LoadError { code: Code::NotFound, what });
        }
        let mut machine = Machine::new(image)?;
        machine.set_budget(options.budget);
        let mut host = Self {
            machine,
            world: World {
                options,
                table: table.into_iter().map(|n| n.unwrap_or(natives::missing)).collect(),
                details: HashMap::default(),
                batches: Batches::default(),
                carried: 0,
                next_id: 1,
                started: now,
                now,
                tick_rate: 200,
                random: 0x5eed,
                output,
                output_error: None,
                warned: HashSet::new(),
                faults: HashMap::new(),
                report: None,
                wakes: None,
                fired: 0,
                called: 0,
                is_started: false,
            },
            timers: Timers::with(now, Resolution::MILLISECOND, Duration::ZERO),
        };
        for name in missing {
            host.world.complain(&format!("warning: the native {name} is not here and returns 0"));
        }
        Ok(host)
    }

    /// From now on accounts for each callback; the clock is read before and after each.
    pub fn keep_report(&mut self, clock: Box<dyn Clock + Send>) {
        self.world.report = Some((Report::default(), clock));
    }

    /// What was accounted for.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.world.report.as_ref().map(|(report, _)| report)
    }

    /// Runs `OnGameModeInit`, if it is there, then `main`.
    pub fn start(&mut self, now: Instant) {
        (self.world.now, self.world.is_started) = (now, true);
        self.callback("OnGameModeInit");
        if self.machine.image().main.is_some() {
            let result = self.main(Entry::Main);
            if let Err(fault) = result {
                self.world.tell_fault("main", &fault);
            }
        }
    }

    /// Runs what is due; returns how many timers fired. `rate` is what the script is told of the tick rate.
    pub fn tick(&mut self, now: Instant, rate: u32) -> u64 {
        self.world.now = self.world.now.max(now);
        self.world.tick_rate = rate;
        if self.world.wakes.is_some_and(|wakes| wakes <= now)
            && let Err(fault) = self.main(Entry::Continue)
        {
            self.world.tell_fault("main", &fault);
        }
        let before = self.world.fired;
        if self.world.options.scripted {
            self.fire_in_order(now);
        } else {
            let mut pass = self.timers.poll(now);
            while let Some(due) = pass.next() {
                let (key, timer, fired) = (due.key(), *due.value(), due.fired());
                self.world.run_timer(&mut self.machine, pass.timers(), key, timer, fired);
            }
        }
        self.world.flush();
        self.world.fired - before
    }

    /// As told runs want it: what is due at one moment in the order of ids, whenever it was armed.
    fn fire_in_order(&mut self, now: Instant) {
        let mut due = Vec::new();
        let mut pass = self.timers.poll(now);
        while let Some(firing) = pass.next() {
            due.push((firing.key(), *firing.value(), firing.fired()));
        }
        due.sort_by_key(|(_, timer, fired)| (fired.nominal, timer.id));
        for (key, timer, fired) in due {
            // One that was killed by another in the meantime does not run.
            if self.world.details.contains_key(&timer.id) {
                self.world.run_timer(&mut self.machine, &mut self.timers, key, timer, fired);
            }
        }
    }

    /// Ends the run: `OnGameModeExit`, if it is there and the script was [started](Self::start).
    pub fn stop(&mut self, now: Instant) {
        self.world.now = self.world.now.max(now);
        if std::mem::take(&mut self.world.is_started) {
            self.callback("OnGameModeExit");
        }
        self.world.flush();
    }

    /// When the next timer is due or `main` wakes up.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        [self.timers.next_wake(), self.world.wakes].into_iter().flatten().min()
    }

    /// Timers alive.
    #[must_use]
    pub fn timers_alive(&self) -> usize {
        self.world.details.len()
    }

    /// Timers that have fired, since the start.
    #[must_use]
    pub fn timers_fired(&self) -> u64 {
        self.world.fired
    }

    /// Of these, those that called a public of the script.
    #[must_use]
    pub fn timers_called(&self) -> u64 {
        self.world.called
    }

    /// Faults of callbacks, since the start.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.world.faults.values().sum()
    }

    /// Whether the output could not be written.
    #[must_use]
    pub fn has_output_error(&self) -> bool {
        self.world.output_error.is_some()
    }

    /// Why the output could not be written, once.
    pub fn take_output_error(&mut self) -> Option<io::Error> {
        self.world.output_error.take()
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Sets a public variable of the script, before it is started; whether there is one of this name.
    ///
    /// # Errors
    ///
    /// [`Code::MemoryAccess`] if it lies outside of memory.
    pub fn set_variable(&mut self, name: &str, value: i32) -> Result<bool, Code> {
        let Some(address) = self.variable_address(name) else { return Ok(false) };
        self.machine.set_cell(address, value)?;
        Ok(true)
    }

    /// A public variable of the script: its address and its value.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<(i32, i32)> {
        let address = self.variable_address(name)?;
        Some((address, self.machine.cell(address).ok()?))
    }

    fn variable_address(&self, name: &str) -> Option<i32> {
        let variables = &self.machine.image().pubvars;
        variables.iter().find(|entry| entry.name == name).map(|entry| entry.address.cast_signed())
    }

    /// Runs `main`, or goes on with it.
    pub(crate) fn main(&mut self, entry: Entry) -> Result<Outcome, Fault> {
        let Self { machine, world, timers } = self;
        if entry == Entry::Continue || !machine.is_asleep() {
            world.wakes = None;
        }
        let outcome = machine.call(&mut Call { world, timers }, entry);
        if let Ok(Outcome::Sleeping(ms)) = outcome {
            // At least a moment: a script that sleeps for nothing in a loop must not stop the time.
            let ms = u64::try_from(ms).unwrap_or(0).max(1);
            world.wakes = Some(world.now.saturating_add(Duration::from_millis(ms)));
        }
        outcome
    }

    /// Calls a public with these arguments. Arrays and references are read back into `values`.
    pub(crate) fn call_public(
        &mut self,
        index: usize,
        values: &mut [Value],
    ) -> Result<Outcome, Fault> {
        let Self { machine, world, timers } = self;
        pass_and_call(machine, &mut Call { world, timers }, index, values, true)
    }

    /// A callback of the server, without arguments, if the script has it.
    fn callback(&mut self, name: &str) {
        let Some(index) = self.machine.image().find_public(name) else { return };
        match self.call_public(index, &mut []) {
            Ok(Outcome::Returned(_)) => {}
            Ok(Outcome::Sleeping(_)) => self.world.sleeps_in_vain(&mut self.machine, name),
            Err(fault) => self.world.tell_fault(name, &fault),
        }
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.world.line(line.as_bytes());
    }

    pub(crate) fn now(&self) -> Instant {
        self.world.now
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("options", &self.world.options)
            .field("timers", &self.world.details.len())
            .finish_non_exhaustive()
    }
}

/// Natives that a script wants and that are not here.
pub fn missing_natives(image: &Image) -> impl Iterator<Item = &str> {
    let is_missing = |name: &&str| natives::find(name).is_none();
    image.natives.iter().map(|native| native.name.as_str()).filter(is_missing)
}

impl World {
    /// A firing of the wheel: one timer, or a batch of them.
    #[inline]
    fn run_timer(
        &mut self,
        machine: &mut Machine,
        timers: &mut Timers<ScriptTimer>,
        key: TimerKey,
        ScriptTimer { id, public }: ScriptTimer,
        fired: Fired,
    ) {
        if public == BATCH {
            self.run_batch(machine, timers, key, id, fired);
            return;
        }
        self.fired += 1;
        let is_rare = public & RARE != 0;
        let public = public & !RARE;
        if public != SILENT {
            // A timer with values keeps them: the callback gets copies.
            let details = if is_rare { self.details.get(&id) } else { None };
            let values = details.map(|details| details.values.clone()).unwrap_or_default();
            self.fire(machine, timers, (id, public), values, fired);
        }
        if is_rare && self.details.get(&id).is_some_and(|details| !details.repeats) {
            self.remove(id);
        } else if self.options.server_drift {
            self.drift(timers, id, key, fired);
        }
    }

    fn run_batch(
        &mut self,
        machine: &mut Machine,
        timers: &mut Timers<ScriptTimer>,
        key: TimerKey,
        batch: u32,
        fired: Fired,
    ) {
        self.batches.begin_run(batch);
        let mut place = 0;
        while let Some(member) = self.batches.member(batch, place) {
            place += 1;
            if member.public == DEAD {
                continue;
            }
            self.fired += 1;
            if member.public != SILENT {
                self.fire(machine, timers, (member.id, member.public), Box::default(), fired);
            }
        }
        if self.batches.end_run(batch) {
            timers.cancel(key);
        } else if let Some(members) = self.batches.compact(batch) {
            for (place, member) in (0..).zip(members) {
                if let Some(details) = self.details.get_mut(&member.id) {
                    details.place = Some((batch, place));
                }
            }
        }
    }

    /// Runs the callback of a timer, and accounts for it.
    fn fire(
        &mut self,
        machine: &mut Machine,
        timers: &mut Timers<ScriptTimer>,
        (id, public): (u32, u32),
        mut values: Box<[Value]>,
        fired: Fired,
    ) {
        self.called += 1;
        let started = self.report.as_ref().map(|(_, clock)| clock.now());
        let mut call = Call { world: self, timers };
        let result = if values.is_empty() {
            machine.call(&mut call, Entry::Public(public as usize))
        } else {
            pass_and_call(machine, &mut call, public as usize, &mut values, false)
        };
        if let (Some((report, clock)), Some(started)) = (&mut self.report, started) {
            let took = clock.now().saturating_duration_since(started);
            report.record(public as usize, took, fired.lateness());
        }
        if matches!(result, Ok(Outcome::Sleeping(_))) {
            let name = machine.image().publics[public as usize].name.clone();
            self.sleeps_in_vain(machine, &name);
        }
        if let Err(fault) = result {
            if self.options.scripted {
                self.line(format!("timer {id} err {}", fault.code.number()).as_bytes());
            } else {
                let name = machine.image().publics[public as usize].name.clone();
                self.tell_fault(&name, &fault);
            }
        }
    }

    /// Plans the next firing as the servers do.
    fn drift(&self, timers: &mut Timers<ScriptTimer>, id: u32, key: TimerKey, fired: Fired) {
        let Some(details) = self.details.get(&id) else { return };
        let interval = interval(details.interval_ms);
        let late = match self.options.profile {
            // Each tick whole milliseconds are subtracted, and it starts again at its full interval.
            Profile::Samp => Duration::ZERO,
            // Whole milliseconds of lateness are made up for.
            Profile::OpenMp => {
                Duration::from_millis(saturating_nanos(fired.lateness()) / 1_000_000)
            }
        };
        let first = interval.saturating_sub(late);
        timers.change(self.now, key, Plan::every(first, interval, Missed::Skip));
    }

    /// The timer is gone, and what it carried.
    fn remove(&mut self, id: u32) -> Option<Details> {
        let details = self.details.remove(&id)?;
        self.carried -= value::size(&details.values);
        Some(details)
    }

    /// Only `main` may sleep, as on the servers.
    fn sleeps_in_vain(&mut self, machine: &mut Machine, name: &str) {
        machine.abandon_sleep();
        self.complain(&format!("error: {name} sleeps; only main can, so it ends there"));
    }

    fn tell_fault(&mut self, public: &str, fault: &Fault) {
        let count = self.faults.entry(public.to_owned()).or_insert(0);
        *count += 1;
        let line = match *count {
            TOLD_FAULTS => format!("{public}: {fault} (more of these are only counted)"),
            count if count < TOLD_FAULTS => format!("{public}: {fault}"),
            _ => return,
        };
        self.line(line.as_bytes());
    }

    /// Says a thing once.
    fn complain(&mut self, line: &str) {
        const MOST: usize = 1000;
        if self.warned.len() < MOST && self.warned.insert(line.to_owned()) {
            self.line(line.as_bytes());
        }
    }

    fn line(&mut self, line: &[u8]) {
        let written = self.output.write_all(line).and_then(|()| self.output.write_all(b"\n"));
        if let Err(error) = written {
            self.output_error.get_or_insert(error);
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.output.flush() {
            self.output_error.get_or_insert(error);
        }
    }
}

/// Ids count up: a multiplication spreads them.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
