//! Threads that run callbacks for the scheduler's.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::any::Any;
use core::num::NonZeroUsize;
use core::panic::AssertUnwindSafe;
use std::io;
use std::panic;
use std::thread::{self, JoinHandle};

use super::runner::{Task, within_callback};
use super::state::State;
use super::{Message, Shared};
use crate::sync::{Arc, Condvar, Mutex, lock};
use crate::timers::{Fired, TimerKey};

/// Jobs that wait for a thread at most; then no more timers are fired until some have been taken.
const WAITING_AT_MOST: usize = 1024;

/// One firing, for whichever thread is free.
struct Job<T> {
    fired: Fired,
    key: TimerKey,
    is_last: bool,
    state: Option<Arc<State>>,
    /// A copy of the timer's.
    value: T,
}

/// What a callback's panic carried.
pub(super) type Payload = Box<dyn Any + Send>;

pub(super) struct Pool<T> {
    queue: Arc<Queue<T>>,
    clone: fn(&T) -> T,
    threads: Vec<JoinHandle<()>>,
}

struct Queue<T> {
    inside: Mutex<Inside<T>>,
    filled: Condvar,
}

struct Inside<T> {
    jobs: VecDeque<Job<T>>,
    panics: Vec<Payload>,
    is_stopped: bool,
}

impl<T: Send + 'static> Pool<T> {
    pub(super) fn start(
        threads: NonZeroUsize,
        name: &str,
        shared: &Arc<Shared<T>>,
        sink: impl Fn(&Fired, &T) + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        T: Clone,
    {
        let inside = Inside { jobs: VecDeque::new(), panics: Vec::new(), is_stopped: false };
        let queue = Arc::new(Queue { inside: Mutex::new(inside), filled: Condvar::new() });
        let mut pool = Self { queue, clone: T::clone, threads: Vec::new() };
        let sink = Arc::new(sink);
        for nth in 0..threads.get() {
            let (queue, shared, sink) =
                (Arc::clone(&pool.queue), Arc::clone(shared), Arc::clone(&sink));
            let work = move || queue.work(&shared, &*sink);
            match thread::Builder::new().name(format!("{name}-{nth}")).spawn(work) {
                Ok(thread) => pool.threads.push(thread),
                Err(refused) => {
                    pool.stop();
                    return Err(refused);
                }
            }
        }
        Ok(pool)
    }

    /// Queues a firing. Without a bound of its own: whoever fires asks [`is_full`](Self::is_full) first.
    pub(super) fn submit(&self, task: &Task<T>, fired: Fired, key: TimerKey, is_last: bool) {
        let (state, value) = (task.state.clone(), (self.clone)(&task.value));
        let job = Job { fired, key, is_last, state, value };
        lock(&self.queue.inside).jobs.push_back(job);
        self.queue.filled.notify_one();
    }

    /// Whether so many jobs wait that no more should be made.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.queue.inside).jobs.len() >= WAITING_AT_MOST
    }

    /// The panics since the last call.
    pub(super) fn panics(&self) -> Vec<Payload> {
        core::mem::take(&mut lock(&self.queue.inside).panics)
    }

    /// Lets the threads finish what is queued, and waits for them.
    pub(super) fn stop(&mut self) {
        lock(&self.queue.inside).is_stopped = true;
        self.queue.filled.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of callbacks are caught; there are no others to hear of.
            let _ = thread.join();
        }
    }
}

impl<T> Queue<T> {
    fn work(&self, shared: &Shared<T>, sink: &(impl Fn(&Fired, &T) + ?Sized)) {
        while let Some(job) = self.take() {
            let state = job.state.as_deref();
            if state.is_none_or(State::start) {
                let result = within_callback(shared, state, || {
                    panic::catch_unwind(AssertUnwindSafe(|| sink(&job.fired, &job.value)))
                });
                if let Err(payload) = result {
                    lock(&self.inside).panics.push(payload);
                }
                if let Some(state) = state {
                    state.finish(job.is_last);
                    shared.has_returned();
                }
            }
            shared.mailbox.send_own(Message::Finished(job.key));
            shared.mailbox.wake();
        }
    }

    fn take(&self) -> Option<Job<T>> {
        let mut inside = lock(&self.inside);
        loop {
            if let Some(job) = inside.jobs.pop_front() {
                return Some(job);
            }
            if inside.is_stopped {
                return None;
            }
            inside = self.filled.wait(inside).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}
