//! What became of one timer, as all threads see it.
//!
//! One word decides who is first: the scheduler's thread that starts the callback, or whoever cancels. The answer to a
//! cancellation is part of the word, so asking again gives the same one.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Instant, saturating_nanos};
use crate::timers::TimerKey;
use core::time::Duration;

/// A cancellation was first.
const CANCELLED: u32 = 1;
/// It found the callback running.
const WHILE_RUNNING: u32 = 1 << 1;
/// The timer has fired for the last time.
const DONE: u32 = 1 << 2;
/// The rest of the word counts the callbacks that run.
const ONE_RUNNING: u32 = 1 << 3;

/// What a cancellation achieved.
///
/// It tells the truth: after [`Prevented`](Self::Prevented) the callback does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancelled {
    /// The timer had still to fire, once or again, and will not.
    Prevented,
    /// Its callback is running, for the last time.
    Running,
    /// It had fired for the last time before.
    AlreadyRun,
}

/// The part of a timer that its handle and the scheduler's thread share.
#[derive(Debug)]
pub(crate) struct State {
    word: AtomicU32,
    /// The timer's key once the scheduler's thread has armed it; 0 before.
    key: AtomicU64,
    /// The next firing's nominal time; with [`PAUSED`], the time that is left.
    nominal: AtomicU64,
}

/// Set in `nominal` while the timer is paused. Times beyond it (292 years) are cut to it.
const PAUSED: u64 = 1 << 63;

impl State {
    pub(crate) fn new(nominal: Instant) -> Self {
        let nominal = AtomicU64::new(nominal.as_nanos().min(PAUSED - 1));
        Self { word: AtomicU32::new(0), key: AtomicU64::new(0), nominal }
    }

    /// The callback is about to run; `false` if a cancellation was first.
    pub(crate) fn start(&self) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        while word & CANCELLED == 0 {
            let running = word + ONE_RUNNING;
            match self.word.compare_exchange(word, running, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The callback has returned; `is_last` if the timer does not fire again.
    pub(crate) fn finish(&self, is_last: bool) {
        if is_last {
            // First, so that nobody finds a timer that neither runs nor has run.
            self.word.fetch_or(DONE, Ordering::AcqRel);
        }
        self.word.fetch_sub(ONE_RUNNING, Ordering::AcqRel);
    }

    /// Cancels, or says how an earlier cancellation or the last firing was first; and whether this call was the first.
    pub(crate) fn cancel(&self) -> (Cancelled, bool) {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let is_running = word >= ONE_RUNNING;
            if word & CANCELLED != 0 {
                let was_running = word & WHILE_RUNNING != 0;
                return (
                    if was_running { Cancelled::Running } else { Cancelled::Prevented },
                    false,
                );
            }
            if word & DONE != 0 && !is_running {
                return (Cancelled::AlreadyRun, false);
            }
            let answer = if is_running { CANCELLED | WHILE_RUNNING } else { CANCELLED };
            let exchange = self.word.compare_exchange(
                word,
                word | answer,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchange {
                Ok(_) if is_running => return (Cancelled::Running, true),
                Ok(_) => return (Cancelled::Prevented, true),
                Err(now) => word = now,
            }
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.word.load(Ordering::Acquire) & CANCELLED != 0
    }

    pub(crate) fn is_running(&self) -> bool {
        self.word.load(Ordering::Acquire) >= ONE_RUNNING
    }

    /// Whether it fires no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & (CANCELLED | DONE) != 0
    }

    /// The scheduler's thread has armed the timer; `false` if it has been cancelled meanwhile.
    ///
    /// Whoever cancels looks for a key after it has cancelled, and this looks for a cancellation after it has stored the
    /// key: one of the two sees the other.
    pub(crate) fn armed(&self, key: TimerKey) -> bool {
        self.key.store(key.to_bits(), Ordering::SeqCst);
        self.word.fetch_or(0, Ordering::SeqCst) & CANCELLED == 0
    }

    /// The key, if the scheduler's thread has armed the timer.
    pub(crate) fn key(&self) -> Option<TimerKey> {
        TimerKey::from_bits(self.key.load(Ordering::SeqCst))
    }

    pub(crate) fn set_nominal(&self, nominal: Instant) {
        self.nominal.store(nominal.as_nanos().min(PAUSED - 1), Ordering::Relaxed);
    }

    pub(crate) fn set_paused(&self, left: Duration) {
        self.nominal.store(PAUSED | saturating_nanos(left).min(PAUSED - 1), Ordering::Relaxed);
    }

    /// The time until the next firing, or what is left of it for a paused timer.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let nominal = self.nominal.load(Ordering::Relaxed);
        if nominal & PAUSED == 0 {
            Instant::from_nanos(nominal).saturating_duration_since(now)
        } else {
            Duration::from_nanos(nominal & !PAUSED)
        }
    }
}
