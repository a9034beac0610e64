//! How other threads reach the scheduler's: bounded queues, and the way to wake it no more than needed.
//!
//! ```text
//! thread 1 --lock--> shard 1 [ messages | cancelled keys ] --.
//! thread 2 --lock--> shard 2 [ messages | cancelled keys ] ---+-- taken whole, by a swap --> the scheduler's thread
//! thread 9 --lock--> shard 1 ...                             -'
//! the scheduler's own callbacks --> own [ messages ], without a bound
//! ```
//!
//! * A full shard refuses; it never blocks. A shard that is half full wakes the thread.
//! * Cancelled keys need no room that could be refused: a timer is cancelled once, so there are no more of them than
//!   timers.
//! * **Parking.** The thread announces until when it means to sleep, then looks whether anything has come; a sender puts
//!   its message in, then looks whether the thread sleeps too long for it. A fence stands before both looks, so one of the
//!   two sees the other.

use alloc::vec::Vec;

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex, lock};
use crate::timers::TimerKey;

/// Threads that send at the same time seldom share one.
#[cfg(not(mainspring_loom))]
const SHARDS: usize = 8;
#[cfg(mainspring_loom)]
const SHARDS: usize = 1;

/// The thread is awake.
const AWAKE: u64 = 0;

/// Why a message was not taken; it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal<M> {
    Full(M),
    Stopped(M),
}

#[derive(Debug)]
pub(crate) struct Mailbox<M> {
    shards: [Shard<M>; SHARDS],
    own: Mutex<Vec<M>>,
    /// Messages a shard takes.
    capacity: usize,
    stopped: AtomicBool,
    /// Until when the thread sleeps, in its clock's nanoseconds; [`AWAKE`] if it does not.
    asleep_until: AtomicU64,
    /// Set to wake the thread; what it sleeps on.
    wake: Mutex<bool>,
    woken: Condvar,
}

/// A cache line or two of its own, so that senders do not disturb each other.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<M> {
    inside: Mutex<Inside<M>>,
    /// Messages and keys inside: looked at without the lock.
    len: AtomicUsize,
}

#[derive(Debug)]
struct Inside<M> {
    messages: Vec<M>,
    cancelled: Vec<TimerKey>,
    /// Nothing is taken any more.
    closed: bool,
}

impl<M> Mailbox<M> {
    /// A mailbox whose shards take `capacity` messages each.
    pub(crate) fn new(capacity: usize) -> Self {
        let shard = |_| Shard {
            inside: Mutex::new(Inside {
                messages: Vec::new(),
                cancelled: Vec::new(),
                closed: false,
            }),
            len: AtomicUsize::new(0),
        };
        Self {
            shards: core::array::from_fn(shard),
            own: Mutex::new(Vec::new()),
            capacity: capacity.max(1),
            stopped: AtomicBool::new(false),
            asleep_until: AtomicU64::new(AWAKE),
            wake: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// The shard of the calling thread.
    pub(crate) fn my_shard() -> usize {
        #[cfg(not(mainspring_loom))]
        {
            use core::cell::Cell;
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            std::thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
            MINE.with(|mine| {
                if mine.get() == usize::MAX {
                    mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
                }
                mine.get()
            })
        }
        #[cfg(mainspring_loom)]
        0
    }

    /// Puts a message into a shard. The thread looks at it before `by`, nanoseconds of its clock, or when it wakes anyway.
    pub(crate) fn send(&self, shard: usize, message: M, by: u64) -> Result<(), Refusal<M>> {
        let shard = &self.shards[shard];
        let len = {
            let mut inside = lock(&shard.inside);
            if inside.closed {
                return Err(Refusal::Stopped(message));
            }
            if inside.messages.len() >= self.capacity {
                return Err(Refusal::Full(message));
            }
            inside.messages.push(message);
            shard.len.fetch_add(1, Ordering::SeqCst);
            inside.messages.len()
        };
        fence(Ordering::SeqCst); // the message, then the look
        let asleep_until = self.asleep_until.load(Ordering::SeqCst);
        if asleep_until != AWAKE && (by < asleep_until || len == self.capacity.div_ceil(2)) {
            self.wake();
        }
        Ok(())
    }

    /// Puts in a message of the scheduler's own callbacks, which is never refused and wakes nobody.
    pub(crate) fn send_own(&self, message: M) {
        lock(&self.own).push(message);
    }

    /// Notes that a timer was cancelled: its memory can be had back whenever the thread comes by.
    pub(crate) fn cancelled(&self, shard: usize, key: TimerKey) {
        let shard = &self.shards[shard];
        let mut inside = lock(&shard.inside);
        if !inside.closed {
            inside.cancelled.push(key);
            shard.len.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Takes all that has come, in the order of each shard; what the callbacks sent comes last.
    pub(crate) fn take(&self, messages: &mut Vec<M>, cancelled: &mut Vec<TimerKey>) {
        for shard in &self.shards {
            if shard.len.load(Ordering::SeqCst) > 0 {
                let mut inside = lock(&shard.inside);
                shard.len.store(0, Ordering::SeqCst);
                take_all(&mut inside.messages, messages);
                take_all(&mut inside.cancelled, cancelled);
            }
        }
        take_all(&mut lock(&self.own), messages);
    }

    /// Refuses all messages from here on, and wakes the thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Closes the shards: what [`take`](Self::take) finds after this is all there will ever be.
    pub(crate) fn close(&self) {
        for shard in &self.shards {
            lock(&shard.inside).closed = true;
        }
    }

    /// Wakes the thread, if it sleeps or is about to.
    pub(crate) fn wake(&self) {
        let mut wake = lock(&self.wake);
        *wake = true;
        self.woken.notify_one();
    }

    /// Sleeps, with `wait`, until something has come or `until`, whichever is first. Only the scheduler's thread calls it.
    ///
    /// `wait` gets the condition variable's guard and the time to sleep until; it may return early.
    pub(crate) fn sleep(
        &self,
        until: u64,
        wait: impl FnOnce(&Condvar, crate::sync::MutexGuard<'_, bool>),
    ) {
        self.asleep_until.store(until.max(AWAKE + 1), Ordering::SeqCst);
        fence(Ordering::SeqCst); // the announcement, then the look
        let nothing_came = !self.is_stopped()
            && lock(&self.own).is_empty()
            && self.shards.iter().all(|shard| shard.len.load(Ordering::SeqCst) == 0);
        if nothing_came {
            let wake = lock(&self.wake);
            if !*wake {
                wait(&self.woken, wake);
            }
        }
        self.asleep_until.store(AWAKE, Ordering::SeqCst);
        *lock(&self.wake) = false;
    }
}

/// Moves all items over; swaps where it can, so that nothing is copied and both keep their memory.
fn take_all<M>(from: &mut Vec<M>, to: &mut Vec<M>) {
    if to.is_empty() {
        core::mem::swap(from, to);
    } else {
        to.append(from);
    }
}
