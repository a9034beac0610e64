//! The timing core for real-time servers.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod cadence;
mod sys;
pub mod time;
pub mod wheel;
