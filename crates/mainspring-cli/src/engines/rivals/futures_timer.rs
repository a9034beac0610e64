//! `futures_timer::Delay`: a heap on a thread of its own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_timer::Delay;

use super::{OwnClock, Woken};

#[derive(Debug)]
pub(crate) struct FuturesTimer {
    woken: Woken,
    delays: Vec<Option<Delay>>,
    wakers: Vec<Option<Waker>>,
}

impl FuturesTimer {
    /// It wakes whoever polled it last.
    fn register(&mut self, value: u32) {
        let place = value as usize;
        let waker = self.wakers[place].get_or_insert_with(|| self.woken.waker(value));
        if let Some(delay) = &mut self.delays[place]
            && Pin::new(delay).poll(&mut Context::from_waker(waker)).is_ready()
        {
            waker.wake_by_ref();
        }
    }
}

impl OwnClock for FuturesTimer {
    type Key = u32;

    fn new(timers: usize) -> Self {
        Self {
            woken: Woken::default(),
            delays: (0..timers).map(|_| None).collect(),
            wakers: vec![None; timers],
        }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> u32 {
        self.delays[value as usize] = Some(Delay::new(delay));
        self.register(value);
        value
    }

    fn cancel(&mut self, key: u32) -> bool {
        self.delays[key as usize].take().is_some()
    }

    fn reschedule(&mut self, key: &mut u32, delay: Duration) -> bool {
        let Some(timer) = &mut self.delays[*key as usize] else { return false };
        timer.reset(delay);
        self.register(*key);
        true
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        for value in self.woken.take() {
            let place = value as usize;
            let (Some(delay), Some(waker)) = (&mut self.delays[place], &self.wakers[place]) else {
                continue;
            };
            if Pin::new(delay).poll(&mut Context::from_waker(waker)).is_ready() {
                self.delays[place] = None;
                fired(value);
            }
        }
    }
}
