//! What has happened, in plain numbers.

use core::time::Duration;

use crate::time::saturating_nanos;

/// What has happened to the timers so far.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Firings handed out.
    pub fired: u64,
    /// Timers cancelled before they ended by themselves.
    pub cancelled: u64,
    /// Periods that were not delivered, by the policies for missed and overlapping ones.
    pub missed: u64,
    /// How late firings were handed out, behind their nominal time.
    pub lateness: Histogram,
}

impl Metrics {
    /// A firing is handed out.
    #[inline]
    pub(super) fn handed_out(&mut self, fired: &super::Fired) {
        self.fired += 1;
        let late = fired.actual.as_nanos().saturating_sub(fired.nominal.as_nanos());
        self.lateness.record_nanos(late);
    }
}

/// Durations, counted in buckets whose bounds differ by at most an eighth.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    max: u64,
}

/// Bits that tell the buckets of one power of two apart.
const FINE_BITS: u32 = 3;
const BUCKETS: usize = ((u64::BITS - FINE_BITS + 1) << FINE_BITS) as usize;

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], count: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one duration. O(1).
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(saturating_nanos(duration));
    }

    /// The same, without the way through seconds and their parts.
    #[inline]
    fn record_nanos(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// A duration that this share of those counted does not exceed, at most an eighth above the least such; zero if
    /// nothing was counted. `share` is taken between 0 and 1.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // clamped; a rank
    pub fn percentile(&self, share: f64) -> Duration {
        let exact = share.clamp(0.0, 1.0) * self.count as f64;
        // Rounded up by hand: `ceil` is not in core.
        let mut rank = exact as u64;
        rank += u64::from((rank as f64) < exact);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                return Duration::from_nanos(upper_bound(index).min(self.max));
            }
        }
        Duration::ZERO
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }
}

/// Below 2^FINE_BITS each number has a bucket; above, each power of two has 2^FINE_BITS.
#[inline]
fn bucket(nanos: u64) -> usize {
    let power = (nanos | ((1 << FINE_BITS) - 1)).ilog2() + 1 - FINE_BITS;
    #[allow(clippy::cast_possible_truncation)] // below 2^(FINE_BITS + 1)
    let fine = (nanos >> power.saturating_sub(1)) as usize;
    if power <= 1 {
        return fine;
    }
    ((power as usize - 1) << FINE_BITS) + fine
}

/// The largest number of a bucket.
fn upper_bound(index: usize) -> u64 {
    let fine = 1_usize << FINE_BITS;
    if index < 2 * fine {
        return index as u64;
    }
    let power = (index >> FINE_BITS) - 1;
    let low = ((fine | (index & (fine - 1))) as u64) << power;
    low + ((1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_its_bounds_say_and_is_narrow() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for nanos in edges.chain(0..2_000).chain([u64::MAX, u64::MAX / 3]) {
            let index = bucket(nanos);
            let upper = upper_bound(index);
            assert!(nanos <= upper && upper - nanos <= nanos / 8, "{nanos} {index} {upper}");
            assert_eq!(bucket(upper), index);
            assert!(upper == u64::MAX || bucket(upper + 1) == index + 1);
        }
    }

    #[test]
    fn percentiles_come_from_the_counts() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), Duration::ZERO);
        for micros in 1..=1_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let median = histogram.percentile(0.5);
        assert!(Duration::from_micros(500) <= median && median <= Duration::from_micros(563));
        assert_eq!(histogram.percentile(1.0), Duration::from_millis(1));
        assert_eq!(
            histogram.percentile(0.0),
            histogram.percentile(0.001).min(histogram.percentile(0.0))
        );
        let mut both = histogram.clone();
        both.merge(&histogram);
        assert_eq!((both.count(), both.percentile(0.5)), (2_000, median));
    }
}
