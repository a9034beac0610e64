//! The name of a timer.

use core::num::NonZeroU32;

/// Names one timer of one wheel, for as long as that timer lives and never after.
///
/// A key is an index and a generation: 8 bytes, and `Option<TimerKey>` is 8 bytes as well. Once its timer has ended
/// the key is *stale*: every operation answers it with `None` or `false`, for ever, because a record whose generation
/// would wrap is retired instead of reused.
///
/// A key says nothing to any other wheel; asked there, it may name a timer of that wheel by coincidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

const _: () = assert!(size_of::<TimerKey>() == 8);
const _: () = assert!(size_of::<Option<TimerKey>>() == 8);
