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

impl TimerKey {
    /// The key as one number, which is not zero: to keep it in an atomic, or to hand it through a foreign interface.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// The key of [`to_bits`](Self::to_bits); `None` for a number that is none. A number made up names no timer, or one by
    /// coincidence, to no harm.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // cut in two
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(Self { index: bits as u32, generation }),
            None => None,
        }
    }
}

const _: () = assert!(size_of::<TimerKey>() == 8);
const _: () = assert!(size_of::<Option<TimerKey>>() == 8);
