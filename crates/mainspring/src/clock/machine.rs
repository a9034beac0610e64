//! What this machine makes its time from.

use std::string::String;
use std::vec::Vec;

use crate::sys;

/// The device the kernel reads the time from, as Linux tells it.
///
/// While it is `tsc` (or a hypervisor's page of the same kind) reading a clock stays in the program; with `hpet`,
/// `acpi_pm` or `jiffies` each read is a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSource {
    /// The one in use.
    pub current: String,
    /// Those it could use, best first.
    pub available: Vec<String>,
}

impl ClockSource {
    /// Asks the system. `None` where it does not tell: not Linux, or a sandbox without `/sys`.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        let current = sys::clock_source_file("current_clocksource")?;
        let available = sys::clock_source_file("available_clocksource").unwrap_or_default();
        Some(Self { current, available: available.split_whitespace().map(String::from).collect() })
    }
}

/// The processor's time-stamp counter, raw, of the core this thread runs on; zero on processors without one.
///
/// A number to measure with. It is no clock: its rate is the processor's, cores may disagree, and a virtual machine that
/// is restored may take it back. [`Tsc`](super::Tsc) makes a clock of it.
#[inline]
#[must_use]
pub fn counter() -> u64 {
    sys::counter()
}

/// Whether the processor promises one rate for [`counter`] in every power state. False where nobody can say.
#[must_use]
pub fn counter_is_invariant() -> bool {
    sys::counter_is_invariant()
}
