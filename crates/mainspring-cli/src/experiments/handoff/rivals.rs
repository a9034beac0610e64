//! Futures of other libraries: a thread that makes one and polls it once has armed a timer, and cancels it by dropping it.
//! The library's own thread turns its clockwork and wakes those that are due.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::Hand;

/// Makes a future that is ready after a delay.
pub(super) trait Make: Fn(Duration) -> Self::Future + Sync {
    type Future: Future + Unpin + Send;
}

impl<F: Future + Unpin + Send, M: Fn(Duration) -> F + Sync> Make for M {
    type Future = F;
}

/// Timers that are futures.
pub(super) struct Futures<M> {
    make: M,
    /// Wake-ups of those that were still to be cancelled. Those due at once do not count here: they may wake while they are
    /// polled for the first time and found ready, which is once and no fault.
    woken: Arc<Woken>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A timer that was polled.
pub(super) enum Armed<F> {
    Pending(F),
    /// It was due when it was polled first.
    Fired,
}

impl<F: Future + Unpin> Armed<F> {
    /// Polled again. A future that was ready is not, thereafter.
    pub(super) fn has_fired(&mut self) -> bool {
        match self {
            Self::Fired => true,
            Self::Pending(timer) => {
                Pin::new(timer).poll(&mut Context::from_waker(Waker::noop())).is_ready()
            }
        }
    }
}

impl<M: Make> Futures<M> {
    fn new(make: M) -> Self {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        Self { make, woken, waker }
    }

    /// Of the timers that were due in a second or later, and cancelled long before, those that woke their task.
    pub(super) fn woken_too_soon(&self) -> u64 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

impl<M: Make> Hand for Futures<M> {
    type Timer = Armed<M::Future>;

    fn arm(&self, delay: Duration) -> Option<Self::Timer> {
        let mut timer = (self.make)(delay);
        let waker = if delay.is_zero() { Waker::noop() } else { &self.waker };
        let is_ready = Pin::new(&mut timer).poll(&mut Context::from_waker(waker)).is_ready();
        Some(if is_ready { Armed::Fired } else { Armed::Pending(timer) })
    }

    fn cancel(&self, timer: Self::Timer) -> bool {
        matches!(timer, Armed::Pending(_))
    }

    fn leave(&self, timer: Self::Timer, left: &mut Vec<Self::Timer>) {
        left.push(timer);
    }
}

pub(super) fn async_io() -> Futures<impl Make<Future = async_io::Timer>> {
    Futures::new(async_io::Timer::after)
}

pub(super) fn futures_timer() -> Futures<impl Make<Future = futures_timer::Delay>> {
    Futures::new(futures_timer::Delay::new)
}

/// A current-thread runtime on a thread of its own, and timers made from outside.
pub(super) struct Tokio {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Tokio {
    pub(super) fn start() -> Result<(Self, Handle)> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("tokio".to_owned()).spawn(move || {
            // An error is the other half gone: the same.
            let _ = runtime.block_on(stopped);
        })?;
        Ok((Self { stop, thread }, handle))
    }

    pub(super) fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| anyhow!("tokio's thread has panicked"))
    }
}

pub(super) fn tokio(runtime: Handle) -> Futures<impl Make<Future = Pin<Box<Sleep>>>> {
    Futures::new(move |delay| {
        let _inside = runtime.enter();
        Box::pin(tokio::time::sleep(delay))
    })
}
