//! libuv and libevent, through `shim.c`.

#![allow(unsafe_code, reason = "calls of a C library, each with what its contract wants")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::OwnClock;

/// A library's five calls; see `shim.c`.
pub(crate) trait Library {
    const NEW: unsafe extern "C" fn(usize) -> *mut c_void;
    const FREE: unsafe extern "C" fn(*mut c_void);
    const START: unsafe extern "C" fn(*mut c_void, u32, u64);
    const STOP: unsafe extern "C" fn(*mut c_void, u32) -> c_int;
    const TURN: unsafe extern "C" fn(*mut c_void, *mut u32, usize) -> usize;
}

macro_rules! library {
    ($name:ident: $new:ident, $free:ident, $start:ident, $stop:ident, $turn:ident) => {
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Library for $name {
            const NEW: unsafe extern "C" fn(usize) -> *mut c_void = $new;
            const FREE: unsafe extern "C" fn(*mut c_void) = $free;
            const START: unsafe extern "C" fn(*mut c_void, u32, u64) = $start;
            const STOP: unsafe extern "C" fn(*mut c_void, u32) -> c_int = $stop;
            const TURN: unsafe extern "C" fn(*mut c_void, *mut u32, usize) -> usize = $turn;
        }

        unsafe extern "C" {
            fn $new(count: usize) -> *mut c_void;
            fn $free(state: *mut c_void);
            fn $start(state: *mut c_void, which: u32, ms: u64);
            fn $stop(state: *mut c_void, which: u32) -> c_int;
            fn $turn(state: *mut c_void, out: *mut u32, room: usize) -> usize;
        }
    };
}

#[cfg(mainspring_libuv)]
library!(Uv: mainspring_uv_new, mainspring_uv_free, mainspring_uv_start, mainspring_uv_stop, mainspring_uv_turn);
#[cfg(mainspring_libevent)]
library!(Event: mainspring_ev_new, mainspring_ev_free, mainspring_ev_start, mainspring_ev_stop, mainspring_ev_turn);

/// A loop of one of them with its timers. The pointer keeps it on the thread that made it.
#[derive(Debug)]
pub(crate) struct Loop<L: Library> {
    state: NonNull<c_void>,
    /// For all timers at once.
    fired: Vec<u32>,
    library: PhantomData<L>,
}

impl<L: Library> Loop<L> {
    fn check(&self, value: u32) {
        assert!((value as usize) < self.fired.len(), "no such timer");
    }
}

impl<L: Library> OwnClock for Loop<L> {
    type Key = u32;

    fn new(timers: usize) -> Self {
        // SAFETY: any count may be given; what cannot be had is null.
        let state = unsafe { L::NEW(timers) };
        let state = NonNull::new(state).expect("memory and descriptors for a loop");
        Self { state, fired: vec![0; timers], library: PhantomData }
    }

    fn insert(&mut self, delay: Duration, value: u32) -> u32 {
        self.check(value);
        // Both count whole milliseconds.
        let ms = u64::try_from(delay.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        // SAFETY: the state lives, and the number is below its count.
        unsafe { L::START(self.state.as_ptr(), value, ms) };
        value
    }

    fn cancel(&mut self, key: u32) -> bool {
        self.check(key);
        // SAFETY: the state lives, and the number is below its count.
        unsafe { L::STOP(self.state.as_ptr(), key) != 0 }
    }

    fn reschedule(&mut self, key: &mut u32, delay: Duration) -> bool {
        self.insert(delay, *key);
        true
    }

    fn turn(&mut self, fired: &mut dyn FnMut(u32)) {
        // SAFETY: the state lives, and writes no more numbers than there is room for.
        let count =
            unsafe { L::TURN(self.state.as_ptr(), self.fired.as_mut_ptr(), self.fired.len()) };
        self.fired[..count].iter().for_each(|value| fired(*value));
    }
}

impl<L: Library> Drop for Loop<L> {
    fn drop(&mut self) {
        // SAFETY: the state came from NEW, and is not used again.
        unsafe { L::FREE(self.state.as_ptr()) }
    }
}
