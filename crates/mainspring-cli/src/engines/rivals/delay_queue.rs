//! `tokio_util::time::DelayQueue`.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::time::delay_queue::{DelayQueue as Queue, Key};

use super::{OwnClock, Woken};

#[derive(Debug)]
pub(crate) struct DelayQueue {
    runtime: Runtime,
    queue: Queue<u32>,
    waker: Waker,
    woken: Woken,
}

impl OwnClock for DelayQueue {
    type Key = Key;

    fn new(timers: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let woken = Woken::default();
        let queue = {
            let _inside = runtime.enter();
            Queue::with_capacity(timers)
        };
        Self { runtime, queue, waker: woken.waker(0), woken }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> Key {
        let _inside = self.runtime.enter();
        self.queue.insert(value, delay)
    }

    fn cancel(&mut self, key: Key) -> bool {
        let _inside = self.runtime.enter();
        self.queue.try_remove(&key).is_some()
    }

    fn reschedule(&mut self, key: &mut Key, delay: Duration) -> bool {
        let _inside = self.runtime.enter();
        self.queue.reset(key, delay);
        true
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        self.runtime.block_on(tokio::task::yield_now());
        self.woken.take();
        let _inside = self.runtime.enter();
        let mut context = Context::from_waker(&self.waker);
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            fired(expired.into_inner());
        }
    }
}
