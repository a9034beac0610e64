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
