//! Pawn scripts of SA:MP and open.mp servers, run by a machine that cannot be made to read or write outside of its memory, with
//! their timers on mainspring.
//!
//! | module | what it is for |
//! |---|---|
//! | `image` | the `.amx` file, checked |
//! | `decode`, `fuse` | its code as instructions that run fast |
//! | `run`, `memory`, `machine` | the abstract machine |
//! | `natives` | what scripts call |
//! | [`host`] | a server around one script: profiles, timers, callbacks |
//! | [`script`] | runs that are told line by line, in virtual time |
//!
//! A hostile file is a [`LoadError`], a failing callback a [`Fault`] that stops nothing else, an endless loop ends with its
//! budget.

#![forbid(unsafe_code)]

mod debug;
mod decode;
mod error;
mod fuse;
pub mod host;
mod image;
mod machine;
mod memory;
mod natives;
pub mod report;
mod run;
pub mod script;

pub use error::{Code, LoadError};
pub use image::{Entry as ImageEntry, Image};
pub use machine::{Arguments, BUDGET, Entry, Fault, Machine, Natives, Outcome};
