//! `bench idle`: what a scheduler costs that has nothing to do: one timer, some seconds away.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use mainspring::scheduler::Scheduler;
use serde::Serialize;

use super::timers::process_cpu_ns;
use super::{Context, Experiment};
use crate::report::table::{Block, Table};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Until the timer.
    pub(crate) seconds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) engine: &'static str,
    pub(crate) wakeups: u64,
    pub(crate) cpu_us: f64,
}

impl Experiment for Plan {
    const NAME: &'static str = "idle";
    const TITLE: &'static str = "a scheduler that has nothing to do";
    const HOW: &'static str = "One timer is armed; wake-ups of the scheduler's thread and processor time of the process are counted until it fires.";
    type Row = Row;

    fn quick() -> Self {
        Self { seconds: 2 }
    }

    fn full() -> Self {
        Self { seconds: 10 }
    }

    fn estimate(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Row>> {
        context.progress.begin(Self::NAME, 1);
        let row = measure(Duration::from_secs(self.seconds.into()))?;
        context.progress.end();
        Ok(vec![row])
    }

    fn show(&self, rows: &[Row]) -> Vec<Block> {
        let title = format!("One timer, {} s away", self.seconds);
        let mut table = Table::new(title).words("engine").numbers("wake-ups").numbers("CPU us");
        for row in rows {
            table.row([
                row.engine.to_owned(),
                row.wakeups.to_string(),
                format!("{:.0}", row.cpu_us),
            ]);
        }
        table.note("From the arming of the timer to its firing; the processor time is that of the whole process.");
        vec![table.into()]
    }
}

fn measure(delay: Duration) -> Result<Row> {
    let (sender, receiver) = mpsc::channel();
    let scheduler = Scheduler::builder().start(move |_, (): &mut ()| {
        // Nobody listens any more only if the run has failed already.
        let _ = sender.send(process_cpu_ns());
    })?;
    let cpu = process_cpu_ns();
    scheduler.after(delay, ())?.detach();
    let end = receiver.recv()?;
    // The wake-up that armed it is counted too.
    let wakeups = scheduler.metrics().wakeups;
    Ok(Row { engine: "sink", wakeups, cpu_us: end.saturating_sub(cpu) as f64 / 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wait_is_measured() {
        let row = measure(Duration::from_millis(30)).unwrap();
        assert!(row.wakeups >= 1 && row.cpu_us >= 0.0);
    }
}
