//! The processor's counter as a clock: opt-in, and checked for as long as it runs.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::string::String;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, Thread};

use super::steady::{Source, Steady};
use super::verdict::{Reason, TscReport, TscUnavailable};
use crate::sys;
use crate::time::{Clock, Instant};

/// [`Monotonic`](super::Monotonic) time, estimated from the processor's time-stamp counter.
///
/// A read is the counter instruction, a multiplication and a few loads; no system call whatever the kernel's clock source
/// is. Clones share one calibration. Instants count from the origin of [`Monotonic`](super::Monotonic).
///
/// # How good it is
/// The counter is never taken at its word:
/// * at the start the processor must promise a constant rate, the kernel must not distrust it, and the counters of all
///   cores the starting thread may use must agree to 2 us;
/// * each [`re_anchor`](Self::re_anchor) compares it with the system's clock (which daemons may slew by 500 ppm; beyond
///   1000 ppm it is found out) and measures its rate again. A thread of its own (`mainspring-tsc`) then visits every core
///   and compares them once more;
/// * a read whose anchor is older than 2 s by the counter, or whose counter is not within those 2 s, asks the system's
///   clock and re-anchors. So the clock keeps itself; a loop that calls `re_anchor` keeps that cost out of its reads. It
///   also is what finds a counter that has stopped: without such a loop, no read would notice that it stands still.
///
/// A failed check switches all clones to the system's clock, for good; [`report`](Self::report) says why. Suspending the
/// machine or restoring it from an image looks like a fault and does the same.
///
/// **On one thread** it never goes backwards: not across cores, not across re-anchors, not across the switch, not even
/// between two `Tsc` clocks. If a counter jumped ahead, time stands still until the system's clock is there, 2 s at most.
///
/// **Between threads** that synchronise, a later read may be lower by the cores' offset plus what a re-anchor corrected:
/// both are measured, see [`TscReport`]. The cores' offset is checked to be under 2 us. A sound counter is corrected by a
/// few microseconds at the first re-anchor, whose rate comes from a stretch of 2 ms, and by well under one at later ones.
///
/// ```
/// use mainspring::clock::{Monotonic, Tsc};
/// use mainspring::time::Clock;
///
/// match Tsc::start() {
///     Ok(clock) => assert!(clock.now() <= clock.now()),
///     Err(unavailable) => {
///         println!("{unavailable}; going on with the system's clock");
///         assert!(Monotonic.now() <= Monotonic.now());
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Tsc {
    steady: Arc<Steady<Hardware>>,
    _witness: Arc<Witness>,
}

impl Tsc {
    /// Checks and calibrates the counter, in about 2 ms plus the time to visit each core (some 20 us if it is idle).
    ///
    /// # Errors
    /// [`TscUnavailable`] says what is wrong with this machine's counter. The clock to use then is
    /// [`Monotonic`](super::Monotonic).
    pub fn start() -> Result<Self, TscUnavailable> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (tell, told) = mpsc::sync_channel(1);
        // The thread that visits the cores is not the caller's, whose own place is never touched.
        let thread = thread::Builder::new().name(String::from("mainspring-tsc")).spawn(move || {
            let started = Hardware::here().and_then(Steady::start).map(Arc::new);
            let steady = started.as_ref().ok().map(Arc::clone);
            if tell.send(started).is_err() {
                return;
            }
            let Some(steady) = steady else { return };
            loop {
                thread::park();
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                steady.check_cores();
            }
        });
        let unavailable = |reason| TscUnavailable { reason };
        let thread = thread.map_err(|_| unavailable(Reason::NoThread))?;
        let witness = Witness { stop, thread: Some(thread) };
        let started = told.recv().unwrap_or(Err(Reason::NoThread));
        Ok(Self { steady: started.map_err(unavailable)?, _witness: Arc::new(witness) })
    }

    /// Compares the counter with the system's clock, and goes on from there. For the owner of a loop, once a pass: it
    /// does nothing (but read the system's clock once) unless a tenth of a second has passed. It never waits.
    pub fn re_anchor(&self) {
        self.steady.re_anchor();
    }

    /// What is known about the counter by now.
    #[must_use]
    pub fn report(&self) -> TscReport {
        self.steady.report()
    }
}

impl Clock for Tsc {
    #[inline]
    fn now(&self) -> Instant {
        Instant::from_nanos(MARK.with(|mark| self.steady.read(mark)))
    }
}

/// The thread that compares the cores; dropped with the last clone of the clock.
#[derive(Debug)]
struct Witness {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It fails only if the thread panicked, which it has reported; there is nothing to clean up.
            let _ = thread.join();
        }
    }
}

/// The real counter, and the witness's thread: made on it.
#[derive(Debug)]
struct Hardware {
    cpus: std::vec::Vec<usize>,
    witness: Thread,
}

impl Hardware {
    fn here() -> Result<Self, Reason> {
        Ok(Self {
            cpus: sys::allowed_cpus().ok_or(Reason::CoresUnreachable)?,
            witness: thread::current(),
        })
    }
}

impl Source for Hardware {
    #[inline(always)]
    fn counter(&self) -> u64 {
        sys::counter()
    }

    fn os_nanos(&self) -> u64 {
        sys::monotonic_nanos()
    }

    fn is_invariant(&self) -> bool {
        // The kernel strikes the counter off its list when it sees it misbehave.
        let listed = sys::clock_source_file("available_clocksource")
            .is_none_or(|list| list.split_whitespace().any(|name| name == "tsc"));
        listed && sys::counter_is_invariant()
    }

    /// A core that this thread may no longer use (taken offline, say) is passed over: nobody else reads there either.
    fn on_each_core(&self, visit: &mut dyn FnMut()) -> bool {
        let mut visited = false;
        for &cpu in &self.cpus {
            if sys::pin_to(cpu) {
                visit();
                visited = true;
            }
        }
        visited
    }

    fn rest(&self) {
        thread::park_timeout(Duration::from_micros(200));
    }

    fn ask_for_core_check(&self) {
        self.witness.unpark();
    }
}

std::thread_local! {
    /// This thread's latest reading of any [`Tsc`]: they all tell the same time.
    static MARK: Cell<u64> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Monotonic;

    /// Whatever the machine, the clock is a clock: it keeps between two readings of the one it estimates (by what it
    /// admits to), it follows when it is re-anchored, and it ends with its last clone.
    #[test]
    fn the_counter_of_this_machine_is_a_clock_or_says_why_not() {
        let clock = match Tsc::start() {
            Ok(clock) => clock,
            Err(unavailable) => {
                assert!(std::format!("{unavailable}").starts_with("the processor's counter"));
                return;
            }
        };
        let reader = clock.clone();
        let other = thread::spawn(move || {
            let mut last = reader.now();
            for _ in 0..200_000 {
                let now = reader.now();
                assert!(now >= last, "{now:?} after {last:?}");
                last = now;
            }
        });
        let mut last = clock.now();
        for _ in 0..20_000 {
            clock.re_anchor();
            let before = Monotonic.now();
            let now = clock.now();
            let after = Monotonic.now();
            assert!(now >= last);
            // No anchor serves beyond 2 s, and checks allow 1000 ppm: 2 ms, and the offsets of cores.
            let allowed = Duration::from_millis(3);
            assert!(now.saturating_add(allowed) >= before && now <= after.saturating_add(allowed));
            last = now;
        }
        other.join().expect("the other thread saw no backward step");
        assert!(clock.report().hertz > 0);
    }
}
