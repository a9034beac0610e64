//! The program's commands, one file each.

pub(crate) mod arena;
pub(crate) mod bench;
pub(crate) mod clock;
pub(crate) mod compare;
pub(crate) mod cron;
pub(crate) mod pawn;
