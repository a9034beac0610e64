//! `async_io::Timer`: a map of deadlines in a reactor that all threads share.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_io::Timer;

use super::{OwnClock, Woken};

#[derive(Debug)]
pub(crate) struct AsyncIo {
    woken: Woken,
    timers: Vec<Option<Timer>>,
    wakers: Vec<Option<Waker>>,
}

impl AsyncIo {
    /// A timer is in the reactor from its first poll on.
    fn register(&mut self, value: u32) {
        let place = value as usize;
        let waker = self.wakers[place].get_or_insert_with(|| self.woken.waker(value));
        if let Some(timer) = &mut self.timers[place] {
            let _pending = Pin::new(timer).poll(&mut Context::from_waker(waker));
        }
    }
}

impl OwnClock for AsyncIo {
    type Key = u32;

    fn new(timers: usize) -> Self {
        Self {
            woken: Woken::default(),
            timers: (0..timers).map(|_| None).collect(),
            wakers: vec![None; timers],
        }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> u32 {
        self.timers[value as usize] = Some(Timer::after(delay));
        self.register(value);
        value
    }

    fn cancel(&mut self, key: u32) -> bool {
        self.timers[key as usize].take().is_some()
    }

    fn reschedule(&mut self, key: &mut u32, delay: Duration) -> bool {
        let Some(timer) = &mut self.timers[*key as usize] else { return false };
        timer.set_after(delay);
        self.register(*key);
        true
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        // Pending once, so that the reactor is turned meanwhile.
        let mut is_second = false;
        async_io::block_on(std::future::poll_fn(|context| {
            if is_second {
                return Poll::Ready(());
            }
            is_second = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        for value in self.woken.take() {
            let place = value as usize;
            let (Some(timer), Some(waker)) = (&mut self.timers[place], &self.wakers[place]) else {
                continue;
            };
            if Pin::new(timer).poll(&mut Context::from_waker(waker)).is_ready() {
                self.timers[place] = None;
                fired(value);
            }
        }
    }
}
