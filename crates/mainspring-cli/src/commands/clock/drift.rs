//! How fast the `Tsc` clock departs from the system's monotonic one while nobody re-anchors it.

use std::time::Duration;

use mainspring::clock::{Monotonic, Tsc};
use mainspring::time::Clock;
use serde::Serialize;

use crate::stopwatch::{Stopwatch, wait};

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Drift {
    /// Over which was measured.
    pub(super) seconds: f64,
    /// Microseconds that the clock gains in a second.
    pub(super) ppm: f64,
    /// The true drift lies within this of `ppm`.
    pub(super) margin_ppm: f64,
    /// The farthest the two were apart, counted from the start.
    pub(super) largest_ns: f64,
}

/// Both clocks, read as nearly at once as two clocks can be.
#[derive(Clone, Copy, Debug)]
struct Pair {
    monotonic_ns: f64,
    tsc_ns: f64,
    /// The reading of the one lies within this of the middle of two of the other.
    margin_ns: f64,
}

pub(super) fn measure(tsc: &Tsc, span: Duration) -> Drift {
    let watch = Stopwatch::start();
    let mut pairs = vec![Pair::read(tsc)];
    while watch.elapsed() < span {
        wait(PAUSE.min(span.saturating_sub(watch.elapsed())));
        pairs.push(Pair::read(tsc));
    }
    Drift::between(&pairs)
}

impl Drift {
    /// Of at least two pairs, in order.
    fn between(pairs: &[Pair]) -> Self {
        let (first, last) = (pairs[0], pairs[pairs.len() - 1]);
        let gained =
            |pair: &Pair| (pair.tsc_ns - first.tsc_ns) - (pair.monotonic_ns - first.monotonic_ns);
        let elapsed = (last.monotonic_ns - first.monotonic_ns).max(1.0);
        Self {
            seconds: elapsed / 1e9,
            ppm: gained(&last) / elapsed * 1e6,
            margin_ppm: (first.margin_ns + last.margin_ns) / elapsed * 1e6,
            largest_ns: pairs.iter().map(|pair| gained(pair).abs()).fold(0.0, f64::max),
        }
    }
}

impl Pair {
    /// The narrowest of many tries.
    fn read(tsc: &Tsc) -> Self {
        let tries = (0..TRIES).map(|_| {
            let (before, between, after) = (Monotonic.now(), tsc.now(), Monotonic.now());
            let width = after.as_nanos() - before.as_nanos();
            Self {
                monotonic_ns: before.as_nanos() as f64 + width as f64 / 2.0,
                tsc_ns: between.as_nanos() as f64,
                margin_ns: width as f64 / 2.0,
            }
        });
        tries.min_by(|a, b| a.margin_ns.total_cmp(&b.margin_ns)).expect("there is at least one try")
    }
}

const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(monotonic_ns: f64, tsc_ns: f64) -> Pair {
        Pair { monotonic_ns, tsc_ns, margin_ns: 10.0 }
    }

    #[test]
    fn drift_is_what_is_gained_over_what_has_passed() {
        // Half a microsecond lost at half time, two gained in the end, over two seconds.
        let pairs = [pair(0.0, 7.0), pair(1e9, 1e9 + 7.0 - 500.0), pair(2e9, 2e9 + 7.0 + 2000.0)];
        let drift = Drift::between(&pairs);
        assert!((drift.ppm - 1.0).abs() < 1e-9, "{drift:?}");
        assert!((drift.margin_ppm - 0.01).abs() < 1e-9, "{drift:?}");
        assert_eq!((drift.seconds, drift.largest_ns), (2.0, 2000.0));
    }
}
