//! Where the random choices of a measurement come from: one seed, the same sequence on every machine.

/// SplitMix64: eight bytes of state, one multiplication chain a draw, so that the harness costs next to nothing.
///
/// Constants and output function are those of Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
/// (OOPSLA 2014), in the variant called Mix13.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 uniform bits.
    #[inline]
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Two independent draws of one step: a number below each bound. Of a bound of 0: 0.
    #[inline]
    pub(crate) const fn pair_below(&mut self, first: u32, second: u32) -> (u32, u32) {
        let bits = self.bits();
        (scale(bits >> 32, first), scale(bits & LOW, second))
    }

    /// A number below `bound`; 0 of a bound of 0.
    #[inline]
    pub(crate) const fn below(&mut self, bound: u32) -> u32 {
        scale(self.bits() >> 32, bound)
    }
}

/// Whole numbers from `low` on, `count` of them, all as likely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform {
    pub(crate) low: u64,
    pub(crate) count: u32,
}

impl Uniform {
    /// The ticks between two delays, both included. A tick count beyond 32 bits is cut to it.
    pub(crate) fn ticks(from_ns: u64, to_ns: u64, resolution_ns: u64) -> Self {
        let (low, high) = (from_ns.div_ceil(resolution_ns), to_ns / resolution_ns);
        Self { low, count: u32::try_from(high.saturating_sub(low) + 1).unwrap_or(u32::MAX) }
    }

    #[inline]
    pub(crate) const fn draw(self, random: &mut Random) -> u64 {
        self.low + random.below(self.count) as u64
    }
}

/// Maps 32 uniform bits to `0..bound` by a multiplication; the bias is below `bound / 2^32`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the product of two 32-bit numbers, shifted by 32"
)]
const fn scale(bits: u64, bound: u32) -> u32 {
    ((bits * bound as u64) >> 32) as u32
}

const LOW: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 0 that other implementations of the generator agree on.
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.bits(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(random.bits(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn draws_keep_their_bounds_and_reach_both_ends() {
        let mut random = Random::new(7);
        let delays = Uniform::ticks(1_000, 4_000, 1_000);
        let mut seen = [0_u32; 6];
        for _ in 0..1_000 {
            seen[usize::try_from(delays.draw(&mut random)).unwrap()] += 1;
            let (first, second) = random.pair_below(3, 1);
            assert!(first < 3 && second == 0);
        }
        assert_eq!((seen[0], seen[5]), (0, 0));
        assert!(seen[1..=4].iter().all(|&count| count > 150), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn delays_in_ticks_stay_within_the_delays_in_nanoseconds() {
        let delays = Uniform::ticks(1_000_000_000, 60_000_000_000, 1 << 16);
        assert!(delays.low << 16 >= 1_000_000_000);
        let last = delays.low + u64::from(delays.count) - 1;
        assert!(last << 16 <= 60_000_000_000 && (last + 1) << 16 > 60_000_000_000);
    }
}
