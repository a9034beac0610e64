//! The decided command line of `mainspring arena`.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use mainspring_session::link::Conditions;

use super::args::{self, Format};
use crate::args::Count;
use crate::exit::Failure;

#[derive(Clone, Debug)]
pub(crate) struct Arena {
    pub(super) format: Format,
    pub(super) clients: u32,
    pub(super) rate: NonZeroU32,
    pub(super) messages: u32,
    pub(super) bytes: usize,
    pub(super) timers: u32,
    pub(super) network: Conditions,
    pub(super) flood: u32,
    pub(super) deaf: u32,
    pub(super) seconds: u32,
    pub(super) seed: u64,
    pub(super) json: Option<PathBuf>,
    pub(super) quiet: bool,
}

impl Arena {
    /// All that connect.
    pub(super) fn peers(&self) -> u32 {
        self.clients + self.flood + self.deaf
    }

    /// Whether datagrams go straight to the sockets.
    pub(super) fn is_direct(&self) -> bool {
        self.network == Conditions::default()
    }
}

pub(crate) fn decide(raw: args::Arena) -> Result<Arena, Failure> {
    let percent = |flag: &str, value: f64| {
        let is_good = (0.0..=95.0).contains(&value);
        is_good.then_some(value).ok_or_else(|| {
            Failure::Usage(format!("{flag} {value}: give percent from 0 to 95, such as {flag} 10"))
        })
    };
    let latency = u64::from(count("--latency", raw.latency, 0..=10_000)?);
    let network = Conditions {
        loss_percent: percent("--loss", raw.loss)?,
        duplicate_percent: percent("--duplicate", raw.duplicate)?,
        reorder_percent: percent("--reorder", raw.reorder)?,
        latency: Duration::from_millis(latency),
        ..Conditions::default()
    };
    let reorder_delay = if raw.reorder > 0.0 { Duration::from_millis(20) } else { Duration::ZERO };
    let rate = count("--rate", raw.rate, 1..=10_000)?;
    Ok(Arena {
        format: raw.format,
        clients: count("--clients", raw.clients, 1..=20_000)?,
        rate: NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN),
        messages: count("--messages", raw.messages, 0..=10_000)?,
        // Room for what a message says of itself.
        bytes: count("--bytes", raw.bytes, 16..=65_536)? as usize,
        timers: count("--timers", raw.timers, 0..=10_000_000)?,
        network: Conditions { reorder_delay, ..network },
        flood: count("--flood", raw.flood, 0..=1_000)?,
        deaf: count("--deaf", raw.deaf, 0..=1_000)?,
        seconds: count("--seconds", raw.seconds, 1..=3_600)?,
        seed: raw.seed,
        json: raw.json,
        quiet: raw.quiet,
    })
}

fn count(flag: &str, Count(count): Count, bounds: RangeInclusive<u64>) -> Result<u32, Failure> {
    let number = u32::try_from(count).ok().filter(|_| bounds.contains(&count));
    number.ok_or_else(|| {
        let (low, high) = (bounds.start(), bounds.end());
        Failure::Usage(format!("{flag} {count}: give a number from {low} to {high}"))
    })
}
