//! A server around one script: what the servers do with timers, natives and callbacks, by their rules.
//!
//! The host has no clock and no loop: its owner calls [`Host::start`], then [`Host::tick`] at each tick with the time of it,
//! and [`Host::stop`]. Timers are [`mainspring::timers::Timers`], so the n-th firing of a repeating timer is due at its start
//! plus n intervals, whatever happened to the ones before; `server_drift` repeats the servers' own arithmetic instead.

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
    /// Jumps and calls that each call into the script may take.
    pub budget: u64,
}

impl Options {
    /// Drift-free, with the usual budget.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, server_drift: false, scripted: false, budget: crate::BUDGET }
    }
}

/// What the wheel holds of a script's timer.
#[derive(Clone, Debug)]
pub(crate) struct ScriptTimer {
    id: u32,
    /// [`SILENT`] for one that does nothing.
    public: u32,
    interval_ms: u32,
    repeats: bool,
    values: Box<[Value]>,
}

/// The public of a timer that fires without calling anything.
const SILENT: u32 = u32::MAX;

/// Between two ticks of a server, and so between two firings of a timer with no interval.
pub const TICK: Duration = Duration::from_millis(5);

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
    keys: HashMap<u32, TimerKey, BuildHasherDefault<IdHasher>>,
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
                keys: HashMap::default(),
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
        let mut pass = self.timers.poll(now);
        while let Some(due) = pass.next() {
            self.world.fired += 1;
            let (key, fired) = (due.key(), due.fired());
            let timer = due.value();
            let (id, public, repeats) = (timer.id, timer.public, timer.repeats);
            if public != SILENT {
                self.world.called += 1;
                // A timer with values keeps them; the callback gets copies anyway.
                let values = timer.values.clone();
                self.world.fire(&mut self.machine, pass.timers(), (id, public), &values, fired);
            }
            if repeats && self.world.options.server_drift {
                self.world.drift(pass.timers(), key, fired);
            } else if !repeats {
                self.world.keys.remove(&id);
            }
        }
        self.world.flush();
        self.world.fired - before
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
        self.world.keys.len()
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
        world.wakes = None;
        let outcome = machine.call(&mut Call { world, timers }, entry);
        if let Ok(Outcome::Sleeping(ms)) = outcome {
            let ms = u64::try_from(ms).unwrap_or(0);
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
        if let Err(fault) = self.call_public(index, &mut []) {
            self.world.tell_fault(name, &fault);
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
            .field("timers", &self.world.keys.len())
            .finish_non_exhaustive()
    }
}

/// Natives that a script wants and that are not here.
pub fn missing_natives(image: &Image) -> impl Iterator<Item = &str> {
    let is_missing = |name: &&str| natives::find(name).is_none();
    image.natives.iter().map(|native| native.name.as_str()).filter(is_missing)
}

impl World {
    /// Runs the callback of a timer, and accounts for it.
    fn fire(
        &mut self,
        machine: &mut Machine,
        timers: &mut Timers<ScriptTimer>,
        (id, public): (u32, u32),
        values: &[Value],
        fired: Fired,
    ) {
        let started = self.report.as_ref().map(|(_, clock)| clock.now());
        let mut call = Call { world: self, timers };
        let result = if values.is_empty() {
            machine.call(&mut call, Entry::Public(public as usize))
        } else {
            pass_and_call(machine, &mut call, public as usize, &mut values.to_vec(), false)
        };
        if let (Some((report, clock)), Some(started)) = (&mut self.report, started) {
            let took = clock.now().saturating_duration_since(started);
            report.record(public as usize, took, fired.lateness());
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
    fn drift(&self, timers: &mut Timers<ScriptTimer>, key: TimerKey, fired: Fired) {
        let Some(timer) = timers.value(key) else { return };
        let interval = interval(timer.interval_ms);
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
