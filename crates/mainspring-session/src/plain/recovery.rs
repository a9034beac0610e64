//! How long packets take, and from when on one counts as lost: the estimator and the two rules of RFC 9002, sections 5 and 6.

use std::time::Duration;

/// What was measured of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    least: Duration,
    latest: Duration,
    smoothed: Duration,
    variance: Duration,
}

/// Of packets older than one that was acknowledged, those by so many are lost.
pub(super) const REORDERED: u64 = 3;

/// Taken for the round trip before one is measured.
const UNKNOWN: Duration = Duration::from_millis(333);
/// No clock or scheduler is trusted to be finer.
const GRAIN: Duration = Duration::from_millis(1);
/// A probe waits no longer than this, or than the path itself demands.
const LONGEST_PROBE: Duration = Duration::from_secs(2);

impl RoundTrip {
    /// A packet was acknowledged `sample` after it was sent, `delay` of which the peer held the acknowledgement back.
    pub(super) fn measure(&mut self, sample: Duration, delay: Duration) {
        let Some(measured) = &mut self.measured else {
            self.measured = Some(Measured {
                least: sample,
                latest: sample,
                smoothed: sample,
                variance: sample / 2,
            });
            return;
        };
        measured.least = measured.least.min(sample);
        measured.latest = sample;
        // A peer cannot talk the path shorter than it was ever seen to be.
        let without_delay = sample.saturating_sub(delay);
        let adjusted = if without_delay >= measured.least { without_delay } else { sample };
        measured.variance = measured.variance / 4 * 3 + measured.smoothed.abs_diff(adjusted) / 4;
        measured.smoothed = measured.smoothed / 8 * 7 + adjusted / 8;
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.measured.map(|measured| measured.smoothed)
    }

    /// A packet this old is lost, once a later one was acknowledged.
    pub(super) fn lost_after(&self) -> Duration {
        let longest =
            self.measured.map_or(UNKNOWN, |measured| measured.smoothed.max(measured.latest));
        (longest.saturating_add(longest / 8)).max(GRAIN)
    }

    /// After so long without an answer one is asked for; `asked` have been in vain.
    pub(super) fn probe_after(&self, most_delay: Duration, asked: u32) -> Duration {
        let once = match self.measured {
            None => UNKNOWN,
            Some(measured) => {
                let noise = measured.variance.saturating_mul(4).max(GRAIN);
                measured.smoothed.saturating_add(noise).saturating_add(most_delay)
            }
        };
        once.saturating_mul(1 << asked.min(16)).min(LONGEST_PROBE.max(once))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// By hand, from the formulas.
    #[test]
    fn the_estimator_is_the_standards() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.probe_after(ms(25), 0), ms(333));
        assert_eq!(round_trip.probe_after(ms(25), 1), ms(666));
        round_trip.measure(ms(100), ms(80));
        // The first sample counts as it is: smoothed 100, variance 50.
        assert_eq!(round_trip.smoothed(), Some(ms(100)));
        assert_eq!(round_trip.probe_after(ms(25), 0), ms(325));
        assert_eq!(round_trip.lost_after(), Duration::from_micros(112_500));
        // 160 - 40 = 120 is above the least: variance 37.5 + 5, smoothed 87.5 + 15.
        round_trip.measure(ms(160), ms(40));
        assert_eq!(round_trip.smoothed(), Some(Duration::from_micros(102_500)));
        assert_eq!(
            round_trip.probe_after(ms(25), 0),
            Duration::from_micros(102_500 + 170_000 + 25_000)
        );
        assert_eq!(round_trip.lost_after(), ms(180));
        // A delay that would bring it below the least ever seen is not believed.
        round_trip.measure(ms(110), ms(109));
        assert_eq!(
            round_trip.smoothed(),
            Some(Duration::from_nanos(102_500_000 / 8 * 7 + 110_000_000 / 8))
        );
    }

    /// Times that no path takes are no reason to panic.
    #[test]
    fn absurd_times_saturate() {
        let mut round_trip = RoundTrip::default();
        for sample in [Duration::MAX, Duration::ZERO, Duration::MAX] {
            round_trip.measure(sample, Duration::MAX);
            assert!(round_trip.probe_after(Duration::MAX, 40) > ms(1000));
            assert!(round_trip.lost_after() >= GRAIN);
        }
    }

    #[test]
    fn probes_back_off_and_end_at_two_seconds() {
        let round_trip = RoundTrip::default();
        let after: Vec<Duration> =
            (0..5).map(|asked| round_trip.probe_after(ms(25), asked)).collect();
        assert_eq!(after, [ms(333), ms(666), ms(1332), ms(2000), ms(2000)]);
        let mut slow = RoundTrip::default();
        slow.measure(ms(4000), ms(0));
        assert!(slow.probe_after(ms(25), 9) > ms(4000), "a slow path is waited for");
    }
}
