//! A timer that repeats, with a closure: what `Timer(callback, state, dueTime, period)` is elsewhere.
//!
//!     cargo run --example periodic

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::scheduler::{Cancelled, Scheduler};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = Scheduler::closures()?;
    let beats = Arc::new(AtomicU32::new(0));

    // First after 10 ms, then every 20 ms. If the machine stalls, the newest period is made up for and `missed` tells
    // how many were not.
    let count = Arc::clone(&beats);
    let beat = scheduler.call_every(
        Duration::from_millis(10),
        Duration::from_millis(20),
        Missed::Skip,
        move |fired| {
            count.fetch_add(1, Ordering::Relaxed);
            println!("beat {}: {:?} late, {} missed", fired.number, fired.lateness(), fired.missed);
        },
    )?;

    // Something to wait for: a timer that fires once.
    let (done, is_done) = std::sync::mpsc::channel();
    scheduler
        .call_after(Duration::from_millis(200), move |_| {
            let _ = done.send(());
        })?
        .detach();
    is_done.recv()?;

    // Keep the handle: dropping it cancels. After this no beat comes any more.
    assert_ne!(beat.cancel_and_wait(), Cancelled::AlreadyRun);
    println!("{} beats", beats.load(Ordering::Relaxed));
    Ok(())
}
