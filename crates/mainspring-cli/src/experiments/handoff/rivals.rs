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

/// Timers that are futures.
pub(super) struct Futures<Make> {
    make: Make,
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

impl<Make> Futures<Make> {
    fn new(make: Make) -> Self {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        Self { make, woken, waker }
    }

    /// Those that were woken, or were due at once.
    pub(super) fn fired(&self) -> u64 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

impl<Make, F> Hand for Futures<Make>
where
    Make: Fn(Duration) -> F + Sync,
    F: Future + Unpin + Send,
{
    type Timer = F;

    fn arm(&self, delay: Duration) -> Option<F> {
        let mut timer = (self.make)(delay);
        let polled = Pin::new(&mut timer).poll(&mut Context::from_waker(&self.waker));
        self.woken.0.fetch_add(polled.is_ready().into(), Ordering::Relaxed);
        Some(timer)
    }

    /// What it says is not known; one that fired is counted as one too many.
    fn cancel(&self, timer: F) -> bool {
        drop(timer);
        true
    }

    fn leave(&self, timer: F, left: &mut Vec<F>) {
        left.push(timer);
    }
}

pub(super) fn async_io() -> Futures<impl Fn(Duration) -> async_io::Timer> {
    Futures::new(async_io::Timer::after)
}

pub(super) fn futures_timer() -> Futures<impl Fn(Duration) -> futures_timer::Delay> {
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

pub(super) fn tokio(runtime: Handle) -> Futures<impl Fn(Duration) -> Pin<Box<Sleep>>> {
    Futures::new(move |delay| {
        let _inside = runtime.enter();
        Box::pin(tokio::time::sleep(delay))
    })
}
