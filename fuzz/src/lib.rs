//! What is fuzzed: each body takes any bytes and panics where a promise of the library is broken.
//!
//! The cargo-fuzz targets and the `smoke` binary run the same bodies.

pub mod cron;
pub mod pawn;
pub mod session;

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use mainspring::cadence::{Cadence, Missed};
use mainspring::time::{Instant, Resolution, Tick};

/// A body's name and the body.
pub type Body = (&'static str, fn(&[u8]));

/// All of them.
#[cfg(fuzzing)]
pub const BODIES: &[Body] = &[
    ("wheel", wheel),
    ("time", time),
    ("cadence", cadence),
    ("cron", cron::cron),
    ("session_input", session::input),
    ("session_peer", session::peer),
    ("session_plain", session::plain_peer),
    ("pawn", pawn::pawn),
];

#[cfg(not(fuzzing))]
compile_error!("build with RUSTFLAGS=\"--cfg fuzzing\", as scripts/fuzz-smoke does");

/// A script of operations on the wheel and on a slow oracle.
#[cfg(fuzzing)]
pub fn wheel(data: &[u8]) {
    mainspring::fuzz::wheel(data);
}

/// Deadlines round up, now rounds down: nothing is early, whatever the resolution and however far the time.
pub fn time(data: &[u8]) {
    let mut bytes = Bytes(data);
    while !bytes.is_empty() {
        let nanos = NonZeroU64::new(bytes.number()).unwrap_or(NonZeroU64::MIN);
        let resolution = Resolution::from_nanos(nanos);
        let (deadline, now) =
            (Instant::from_nanos(bytes.number()), Instant::from_nanos(bytes.number()));
        let up = resolution.tick_at_or_after(deadline);
        let down = resolution.tick_at_or_before(now);
        assert!(resolution.start_of(up) >= deadline, "a tick begins before the deadline");
        assert!(resolution.start_of(down) <= now, "a tick that has not begun is reached");
        assert!(down < up || deadline <= now, "early by rounding");
        let before = Tick(up.0.saturating_sub(1));
        let is_first = up.0 == 0 || resolution.start_of(before) < deadline;
        assert!(is_first, "a whole tick late");
    }
}

/// A schedule polled at any times: never early, numbers rise, nothing is lost, the bound on catching up holds.
pub fn cadence(data: &[u8]) {
    let mut bytes = Bytes(data);
    let start = bytes.number();
    let times = NonZeroU32::new(bytes.small()).unwrap_or(NonZeroU32::MIN);
    let span = Duration::from_nanos(bytes.number());
    let at_most = NonZeroU32::new(bytes.small() % 8).unwrap_or(NonZeroU32::MIN);
    let missed = match bytes.byte() % 3 {
        0 => Missed::CatchUp { at_most },
        1 => Missed::Skip,
        _ => Missed::Delay,
    };
    let mut cadence = Cadence::times_per(Instant::from_nanos(start), times, span, missed);
    let mut last = 0;
    let mut now = start;
    while !bytes.is_empty() {
        now = match bytes.byte() % 3 {
            0 => now.saturating_add(bytes.number()),
            1 => now.saturating_sub(bytes.number()),
            _ => cadence.next_at().as_nanos(),
        };
        let now = Instant::from_nanos(now);
        let mut polls = 0;
        while let Some(due) = cadence.poll(now) {
            polls += 1;
            assert!(due.scheduled <= now, "a period is due before its time");
            assert_eq!(due.late_by, now.saturating_duration_since(due.scheduled));
            assert_eq!(due.number, last + 1 + due.skipped, "periods got lost or came twice");
            last = due.number;
            match missed {
                Missed::CatchUp { at_most } => assert!(polls <= at_most.get()),
                Missed::Skip => assert_eq!(polls, 1),
                Missed::Delay => {
                    assert_eq!(due.skipped, 0);
                    assert!(cadence.next_at() > now || now == Instant::MAX, "the gap is too short");
                }
            }
        }
        // Periods shorter than a nanosecond may run out of numbers before they run out of time.
        let is_over = cadence.next_at() > now || now == Instant::MAX || last == u64::MAX - 1;
        assert!(is_over, "a period that is due was not delivered");
    }
}

/// Numbers of every magnitude out of bytes; zeros when they run out.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Near a power of two, or near the end of time.
    fn number(&mut self) -> u64 {
        let magnitude = self.byte();
        let near = u64::from(self.byte()) << 8 | u64::from(self.byte());
        match magnitude >> 6 {
            0 => (1_u64 << (magnitude & 63)).wrapping_add(near % 5).wrapping_sub(2),
            1 => (near << 48 | near << 21 | near) >> (magnitude & 63),
            2 => near,
            _ => u64::MAX - near,
        }
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number() & u64::from(u32::MAX)).expect("masked")
    }
}
