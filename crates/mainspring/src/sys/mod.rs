//! What only the processor or the operating system can do, behind safe functions.
//!
//! Everything here degrades: where the platform (or the feature `std`) lacks a thing, the function does nothing or
//! says so in its return value. No caller needs a `cfg` of its own.
//!
//! This is where the crate's `unsafe` lives, one operation per block, each with its argument.
#![allow(unsafe_code)]

#[cfg(feature = "std")]
mod affinity;
#[cfg(feature = "std")]
mod clock_source;
#[cfg(feature = "std")]
mod counter;
mod memory;
#[cfg(feature = "std")]
mod os_clock;
#[cfg(feature = "std")]
mod punctual;

#[cfg(feature = "std")]
pub(crate) use affinity::{allowed_cpus, pin_to};
#[cfg(feature = "std")]
pub(crate) use clock_source::clock_source_file;
#[cfg(feature = "std")]
pub(crate) use counter::{counter, counter_is_invariant};
pub(crate) use memory::{Pages, advise_huge_pages, prefetch};
#[cfg(feature = "std")]
pub(crate) use os_clock::{boot_nanos, monotonic_nanos, unix_nanos};
#[cfg(feature = "std")]
pub(crate) use punctual::be_punctual;
