//! `mainspring cron run`: a command at the times of a schedule.

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
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

/// How often the commands that run, and Ctrl-C, are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Commands that run at a time.
const MOST: usize = 64;

pub(super) fn run(options: &Run) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::Experiment(error.context("cron run"));
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot listen for Ctrl-C")
        .map_err(failed)?;
    let scheduler = Scheduler::closures().context("no thread").map_err(failed)?;
    let service = Service::start(&scheduler, Monotonic, Wall::new())
        .map_err(|refused| failed(anyhow::anyhow!("{refused}")))?;
    let (sender, due) = mpsc::channel();
    let work = move |run: &cron::Run| {
        let _ = sender.send(*run); // refused once the loop below has ended
    };
    if service.add(options.schedule.clone(), None, work).is_none() {
        return line("never");
    }

    let wall = Wall::new();
    let mut work = Work { options, running: Vec::new(), waiting: None, number: 0 };
    while !interrupted.load(Ordering::Relaxed) {
        match due.recv_timeout(LOOK) {
            Ok(run) => {
                // The command may just have ended.
                work.look(wall.wall())?;
                work.due(run)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The schedule has ended, and dropped the job's closure.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        work.look(wall.wall())?;
    }
    while let Some((.., child)) = work.running.first_mut() {
        // A child that cannot be waited for is told by the look that follows.
        drop(child.wait());
        if interrupted.load(Ordering::Relaxed) {
            work.waiting = None;
        }
        work.look(wall.wall())?;
    }
    Ok(())
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
