//! A task a timer on tokio's current-thread runtime, each waiting for the ticks of an interval.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use mainspring::clock::Monotonic;
use mainspring::time::{Clock, Instant};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{Instant as TokioInstant, MissedTickBehavior, interval_at};

use super::{MARK, Tally, workload};

/// The thread that runs the tasks, and what ends it.
pub(super) struct Tasks {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Tasks {
    pub(super) fn stop(self) {
        // It ends when the other half is gone as well.
        let _ = self.stop.send(());
        drop(self.thread.join());
    }
}

/// Spawns all tasks, and comes back when the last one is there.
pub(super) fn start(
    seed: u64,
    count: u32,
    tally: &Arc<Tally>,
    armed_at: &mut Vec<Instant>,
) -> Result<Tasks> {
    let tally = Arc::clone(tally);
    let (stop, stopped) = oneshot::channel();
    let (done, armed) = mpsc::channel();
    let thread = thread::Builder::new().name("tokio".to_owned()).spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_time().build() else { return };
        runtime.block_on(async move {
            let mut armed_at = Vec::new();
            for (nth, (due, period, is_sampled)) in workload(seed, count).enumerate() {
                if nth % MARK == 0 {
                    armed_at.push(Monotonic.now());
                }
                tokio::spawn(one_task(Arc::clone(&tally), due, period, is_sampled));
            }
            let _ = done.send(armed_at);
            let _ = stopped.await;
        });
    })?;
    *armed_at = armed.recv().map_err(|_| anyhow!("tokio's runtime did not start"))?;
    Ok(Tasks { stop, thread })
}

async fn one_task(tally: Arc<Tally>, due: Duration, period: Duration, is_sampled: bool) {
    let mut deadline = Monotonic.now().saturating_add(due);
    let mut interval = interval_at(TokioInstant::now() + due, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        interval.tick().await;
        tally.count_one(deadline, Monotonic.now(), is_sampled);
        deadline = deadline.saturating_add(period);
    }
}
