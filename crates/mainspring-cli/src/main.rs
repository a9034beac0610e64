//! `mainspring`: measures timers, clocks, ticks and sends on the machine it runs on.

mod engines;
mod experiments;
mod memory;
mod os;
mod report;
mod stopwatch;
mod workload;

fn main() {}
