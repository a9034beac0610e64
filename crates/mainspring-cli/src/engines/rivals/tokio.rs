//! `tokio::time::Sleep` on a current-thread runtime: moved by `reset`, or dropped and made anew.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep, sleep};

use super::{OwnClock, Woken};

/// `RESETS`: a timer is moved by `reset`; otherwise it is dropped, and another one made.
#[derive(Debug)]
pub(crate) struct Tokio<const RESETS: bool> {
    runtime: Runtime,
    woken: Woken,
    /// By value, as tasks would hold them.
    sleeps: Vec<Option<Pin<Box<Sleep>>>>,
    wakers: Vec<Option<Waker>>,
}

impl<const RESETS: bool> Tokio<RESETS> {
    /// A sleep is in the runtime's wheel from its first poll on.
    fn start(&mut self, delay: Duration, value: u32) {
        let _inside = self.runtime.enter();
        let mut timer = Box::pin(sleep(delay));
        let waker = self.wakers[value as usize].get_or_insert_with(|| self.woken.waker(value));
        let is_over = timer.as_mut().poll(&mut Context::from_waker(waker)).is_ready();
        debug_assert!(!is_over, "delays are a millisecond at least");
        self.sleeps[value as usize] = Some(timer);
    }
}

impl<const RESETS: bool> OwnClock for Tokio<RESETS> {
    type Key = u32;

    fn new(timers: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self {
            runtime,
            woken: Woken::default(),
            sleeps: (0..timers).map(|_| None).collect(),
            wakers: vec![None; timers],
        }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> u32 {
        self.start(delay, value);
        value
    }

    fn cancel(&mut self, key: u32) -> bool {
        self.sleeps[key as usize].take().is_some()
    }

    fn reschedule(&mut self, key: &mut u32, delay: Duration) -> bool {
        if !RESETS {
            let was_alive = self.cancel(*key);
            self.start(delay, *key);
            return was_alive;
        }
        let Some(sleep) = &mut self.sleeps[*key as usize] else { return false };
        sleep.as_mut().reset(Instant::now() + delay);
        true
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        // One turn of the scheduler, its timers included.
        self.runtime.block_on(tokio::task::yield_now());
        for value in self.woken.take() {
            let place = value as usize;
            let (Some(sleep), Some(waker)) = (&mut self.sleeps[place], &self.wakers[place]) else {
                continue;
            };
            if sleep.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                self.sleeps[place] = None;
                fired(value);
            }
        }
    }
}
