//! The timers that people would otherwise use, measured with the feature `compare`.
//!
//! They have clocks of their own, so they live in real time: a deadline is a delay from now, and what is due is found when the
//! rival is turned, without waiting. Mainspring's wheel does the same beside them. What each is made to do is what its own
//! documentation shows; where it has two ways, both are here.

mod async_io;
mod delay_queue;
mod futures_timer;
mod hash_wheel;
#[cfg(any(mainspring_libuv, mainspring_libevent))]
mod shim;
mod tokio;
mod wheel;

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// Ours, for the same conditions.
    Wheel,
    TokioReset,
    Tokio,
    DelayQueue,
    HashWheel,
    AsyncIo,
    FuturesTimer,
    #[cfg(mainspring_libuv)]
    Libuv,
    #[cfg(mainspring_libevent)]
    Libevent,
}

impl Rival {
    pub(crate) const ALL: &[Self] = &[
        Self::Wheel,
        Self::TokioReset,
        Self::Tokio,
        Self::DelayQueue,
        Self::HashWheel,
        Self::AsyncIo,
        Self::FuturesTimer,
        #[cfg(mainspring_libuv)]
        Self::Libuv,
        #[cfg(mainspring_libevent)]
        Self::Libevent,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::TokioReset => "tokio-reset",
            Self::Tokio => "tokio",
            Self::DelayQueue => "delay-queue",
            Self::HashWheel => "hierarchical-hash-wheel-timer",
            Self::AsyncIo => "async-io",
            Self::FuturesTimer => "futures-timer",
            #[cfg(mainspring_libuv)]
            Self::Libuv => "libuv",
            #[cfg(mainspring_libevent)]
            Self::Libevent => "libevent",
        }
    }

    /// With more timers than this it is not measured: it would take minutes.
    pub(crate) const fn most(self) -> u32 {
        match self {
            Self::AsyncIo | Self::FuturesTimer => 100_000,
            _ => 1_000_000,
        }
    }

    /// One of those that are missing here, and how to have them.
    pub(crate) const fn hint() -> Option<&'static str> {
        if cfg!(all(mainspring_libuv, mainspring_libevent)) {
            None
        } else {
            Some(
                "libuv and libevent are measured where their headers are: apt-get install libuv1-dev libevent-dev, and build again.",
            )
        }
    }
}

/// One way to hold timers in real time.
pub(crate) trait OwnClock {
    /// What the caller keeps of a timer.
    type Key;

    /// With room for values below `timers`, if it takes that.
    fn new(timers: usize) -> Self;

    /// Starts a timer.
    fn insert(&mut self, delay: Duration, value: u32) -> Self::Key;

    /// Ends it; whether it was alive.
    fn cancel(&mut self, key: Self::Key) -> bool;

    /// Moves it; whether it was alive.
    fn reschedule(&mut self, key: &mut Self::Key, delay: Duration) -> bool;

    /// Fires what is due now, without waiting.
    fn turn(&mut self, fired: &mut dyn FnMut(u32));
}

/// The rivals' names with their types: `with_rival!(rival, Type => expression)`.
macro_rules! with_rival {
    ($rival:expr, $kind:ident => $body:expr) => {
        match $rival {
            $crate::engines::rivals::Rival::Wheel => {
                type $kind = $crate::engines::rivals::OurWheel;
                $body
            }
            $crate::engines::rivals::Rival::TokioReset => {
                type $kind = $crate::engines::rivals::Tokio<true>;
                $body
            }
            $crate::engines::rivals::Rival::Tokio => {
                type $kind = $crate::engines::rivals::Tokio<false>;
                $body
            }
            $crate::engines::rivals::Rival::DelayQueue => {
                type $kind = $crate::engines::rivals::DelayQueue;
                $body
            }
            $crate::engines::rivals::Rival::HashWheel => {
                type $kind = $crate::engines::rivals::HashWheel;
                $body
            }
            $crate::engines::rivals::Rival::AsyncIo => {
                type $kind = $crate::engines::rivals::AsyncIo;
                $body
            }
            $crate::engines::rivals::Rival::FuturesTimer => {
                type $kind = $crate::engines::rivals::FuturesTimer;
                $body
            }
            #[cfg(mainspring_libuv)]
            $crate::engines::rivals::Rival::Libuv => {
                type $kind = $crate::engines::rivals::Libuv;
                $body
            }
            #[cfg(mainspring_libevent)]
            $crate::engines::rivals::Rival::Libevent => {
                type $kind = $crate::engines::rivals::Libevent;
                $body
            }
        }
    };
}
pub(crate) use with_rival;

pub(crate) use self::async_io::AsyncIo;
pub(crate) use self::delay_queue::DelayQueue;
pub(crate) use self::futures_timer::FuturesTimer;
pub(crate) use self::hash_wheel::HashWheel;
#[cfg(mainspring_libevent)]
pub(crate) type Libevent = self::shim::Loop<self::shim::Event>;
#[cfg(mainspring_libuv)]
pub(crate) type Libuv = self::shim::Loop<self::shim::Uv>;
pub(crate) use self::tokio::Tokio;
pub(crate) use self::wheel::OurWheel;

/// Where the wakers of timers that fired leave their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Woken(Arc<Mutex<Vec<u32>>>);

#[derive(Debug)]
struct Bell {
    woken: Woken,
    value: u32,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.value);
    }
}

impl Woken {
    /// One that leaves `value` here when it is woken.
    pub(crate) fn waker(&self, value: u32) -> Waker {
        Arc::new(Bell { woken: self.clone(), value }).into()
    }

    /// What was left since the last time.
    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// That a small number of timers all fire, once each and none early; or why a rival's numbers are worth nothing.
pub(crate) fn sanity<R: OwnClock>() -> Result<(), String> {
    const TIMERS: u32 = 1000;
    let mut rival = R::new(TIMERS as usize);
    let start = crate::stopwatch::Stopwatch::start();
    let mut due = Vec::new();
    let mut keys = Vec::new();
    for value in 0..TIMERS {
        let delay = Duration::from_millis(1 + u64::from(value % 200));
        due.push(start.elapsed() + delay);
        keys.push(Some(rival.insert(delay, value)));
    }
    // Some are cancelled, some moved: neither may fire when it would have.
    let mut expected = vec![1_u32; TIMERS as usize];
    for value in (0..TIMERS).step_by(10) {
        let place = value as usize;
        if let Some(key) = keys[place].take() {
            expected[place] = u32::from(!rival.cancel(key));
        }
        if let Some(key) = &mut keys[place + 1] {
            due[place + 1] = start.elapsed() + Duration::from_millis(250);
            rival.reschedule(key, Duration::from_millis(250));
        }
    }
    let wanted: u32 = expected.iter().sum();
    let mut fired = vec![0_u32; TIMERS as usize];
    let (mut count, mut early, mut earliest) = (0, 0, Duration::ZERO);
    while count < wanted && start.elapsed() < Duration::from_secs(3) {
        rival.turn(&mut |value| {
            fired[value as usize] += 1;
            count += 1;
            if let Some(by) = due[value as usize].checked_sub(start.elapsed()) {
                early += 1;
                earliest = earliest.max(by);
            }
        });
        crate::stopwatch::wait(Duration::from_micros(200));
    }
    match (fired == expected, early) {
        (true, 0) => Ok(()),
        (false, _) => {
            Err(format!("{count} of {wanted} timers fired, or one twice or after its end"))
        }
        (true, early) => Err(format!(
            "{early} of {wanted} timers fired early, by up to {:.2} ms",
            earliest.as_secs_f64() * 1e3
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What makes their numbers worth comparing. None of these is early by more than its own rounding, which is judged
    /// in each run and told in its row.
    #[test]
    fn every_rival_fires_all_its_timers() {
        for &rival in Rival::ALL {
            let sane = with_rival!(rival, Kind => sanity::<Kind>());
            let is_told = sane.as_ref().is_err_and(|why| why.contains("early"));
            assert!(sane.is_ok() || is_told, "{}: {sane:?}", rival.name());
        }
        assert_eq!(sanity::<OurWheel>(), Ok(()));
    }
}
