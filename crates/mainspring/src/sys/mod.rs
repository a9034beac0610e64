//! What only the processor or the operating system can do, behind safe functions.
//!
//! Everything here degrades: where the platform (or the feature `std`) lacks a thing, the function does nothing or
//! says so in its return value. No caller needs a `cfg` of its own.
//!
//! This is where the crate's `unsafe` lives, one operation per block, each with its argument.
#![allow(unsafe_code)]

mod memory;

#[allow(unused_imports, reason = "hints for whoever owns much memory")]
pub(crate) use memory::{advise_huge_pages, prefetch};
