//! `mainspring cron run`: a command at the times of a schedule.

use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use mainspring::clock::{Monotonic, Wall};
use mainspring::cron::{self, Service, WallClock as _};
use mainspring::scheduler::Scheduler;

use super::args::Overlapping;
use super::line;
use super::options::Run;
use crate::exit::Failure;

enum Event {
    Due(cron::Run),
    Interrupted,
}

/// How often the commands that run are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Commands that run at a time.
const MOST: usize = 64;

pub(super) fn run(options: &Run) -> Result<(), Failure> {
    let (sender, events) = mpsc::channel();
    let interrupt = sender.clone();
    let failed = |error: anyhow::Error| Failure::Experiment(error.context("cron run"));
    ctrlc::set_handler(move || drop(interrupt.send(Event::Interrupted)))
        .context("cannot listen for Ctrl-C")
        .map_err(failed)?;
    let scheduler = Scheduler::closures().context("no thread").map_err(failed)?;
    let service = Service::start(&scheduler, Monotonic, Wall::new())
        .map_err(|refused| failed(anyhow::anyhow!("{refused}")))?;
    let Some(job) = add(&service, options, sender) else {
        return line("never");
    };

    let wall = Wall::new();
    let mut work = Work { options, running: Vec::new(), waiting: None, number: 0 };
    let mut ends = false;
    loop {
        match events.recv_timeout(if work.running.is_empty() { 10 * LOOK } else { LOOK }) {
            Ok(Event::Due(run)) if !ends => work.due(run)?,
            Ok(Event::Interrupted) => {
                ends = true;
                work.waiting = None;
            }
            Ok(Event::Due(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => ends = true,
        }
        work.look(wall.wall())?;
        let is_over = ends || service.next_due(job).is_none();
        // What was handed out before the schedule ended is still in the channel.
        if is_over && work.running.is_empty() && work.waiting.is_none() {
            match events.try_recv() {
                Ok(Event::Due(run)) if !ends => work.due(run)?,
                _ => return Ok(()),
            }
        }
    }
}

fn add(service: &Service, options: &Run, sender: Sender<Event>) -> Option<cron::JobKey> {
    service.add(options.schedule.clone(), None, move |run| drop(sender.send(Event::Due(*run))))
}

/// The commands that run, and the run that waits.
struct Work<'a> {
    options: &'a Run,
    running: Vec<(u64, Timestamp, Child)>,
    waiting: Option<cron::Run>,
    number: u64,
}

impl Work<'_> {
    /// A run is due: by the policy it starts, waits or is left out.
    fn due(&mut self, run: cron::Run) -> Result<(), Failure> {
        let starts = match self.options.overlap {
            Overlapping::Allow => self.running.len() < MOST,
            Overlapping::Skip | Overlapping::Queue => self.running.is_empty(),
        };
        if starts {
            return self.start(&run);
        }
        if self.options.overlap == Overlapping::Queue && self.waiting.is_none() {
            self.waiting = Some(run);
            return Ok(());
        }
        line(format_args!("{}  left out: the command still runs", run.occurrence.nominal))
    }

    fn start(&mut self, run: &cron::Run) -> Result<(), Failure> {
        let [program, arguments @ ..] = &self.options.command[..] else { return Ok(()) };
        self.number += 1;
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => {
                self.running.push((self.number, run.actual, child));
                let missed = match run.missed {
                    0 => String::new(),
                    missed => format!(", {missed} missed before it"),
                };
                let late = run.lateness().as_millis();
                line(format_args!(
                    "{}  run {} started {late} ms after its time{missed}",
                    run.occurrence.nominal, self.number
                ))
            }
            Err(error) => Err(Failure::Experiment(
                anyhow::Error::new(error).context(format!("cannot run {}", program.display())),
            )),
        }
    }

    /// Says which commands have ended, and starts what waited for them.
    fn look(&mut self, now: Timestamp) -> Result<(), Failure> {
        let mut ended = Vec::new();
        self.running.retain_mut(|(number, started, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            Ok(Some(status)) => {
                ended.push(format!(
                    "run {number} failed after {} ms: {status}",
                    now.duration_since(*started).as_millis()
                ));
                false
            }
            Err(error) => {
                ended.push(format!("run {number} is lost: {error}"));
                false
            }
        });
        for end in ended {
            line(end)?;
        }
        if self.running.is_empty()
            && let Some(run) = self.waiting.take()
        {
            self.start(&run)?;
        }
        Ok(())
    }
}
