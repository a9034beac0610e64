//! The timing core for real-time servers.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod cadence;
#[cfg(feature = "std")]
pub mod clock;
mod sys;
#[cfg(feature = "std")]
pub mod tick;
pub mod time;
pub mod wheel;

/// Bodies for fuzzing that need what is private; see `fuzz/`.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz {
    /// Runs the script that the bytes spell on a wheel and its oracle; panics where they differ.
    pub fn wheel(data: &[u8]) {
        crate::wheel::model::Script::decode(data).run();
    }
}
