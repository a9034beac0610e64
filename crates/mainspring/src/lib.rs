//! The timing core for real-time servers: millions of timers on one thread, clocks that say how good they are, and a steady
//! tick.
//!
//! | you want                                             | use                                        | needs  |
//! |------------------------------------------------------|--------------------------------------------|--------|
//! | timers from any thread, with callbacks               | [`Scheduler`](scheduler::Scheduler)        | `std`  |
//! | timers in a loop of your own, with all their rules   | [`Timers`](timers::Timers)                 | alloc  |
//! | to hold deadlines and get back what is due           | [`Wheel`](wheel::Wheel)                    | alloc  |
//! | to know which period of an exact rate is due         | [`Cadence`](cadence::Cadence)              | core   |
//! | a loop that runs at a fixed rate                     | [`TickLoop`](tick::TickLoop)               | `std`  |
//! | the time                                             | [`Monotonic`](clock::Monotonic)            | `std`  |
//! | the time, suspended hours included                   | [`Boot`](clock::Boot)                      | `std`  |
//! | the time for a load, as of this pass                 | [`Cached`](clock::Cached)                  | `std`  |
//! | the time without a system call, checked              | [`Tsc`](clock::Tsc)                        | `std`  |
//! | schedules over minutes, days and clock changes      | [`cron`]                                   | `cron` |
//! | unix time, and to be told when somebody sets it      | [`Wall`](clock::Wall)                      | `std`  |
//! | time under a test's control                          | [`ManualClock`](time::ManualClock)         | core   |
//!
//! # A tour
//!
//! **Time is a number.** [`time::Instant`] counts nanoseconds from its clock's origin, [`time::Tick`] counts units of a
//! [`time::Resolution`]. Deadlines round up, now rounds down; that is [why nothing is early](time).
//!
//! **The wheel** is told the time and hands back what is due. It has no thread, no clock and no callback.
//!
//! ```
//! use mainspring::time::Tick;
//! use mainspring::wheel::Wheel;
//!
//! let mut timeouts = Wheel::new(Tick(0));
//! let player = timeouts.insert(Tick(30_000), "player 7 timed out");
//! timeouts.reschedule(player, Tick(31_000)); // heard from player 7: one store
//!
//! let mut pass = timeouts.advance(Tick(31_000));
//! while let Some(timer) = pass.next() {
//!     assert_eq!(timer.remove(), "player 7 timed out");
//! }
//! assert!(timeouts.next_wake().is_none());
//! ```
//!
//! **Timers** add the rules of a timer's life to it: exact periods, missed ones, tolerance, pausing, groups. A game loop owns
//! one and asks it once a tick; see [`timers`]. **The scheduler** is a thread around them, with handles that may be used from
//! anywhere; see [`scheduler`].
//!
//! **A cadence** says which period is due and what became of those that were missed.
//!
//! ```
//! use core::num::NonZeroU32;
//! use mainspring::cadence::{Cadence, Missed};
//! use mainspring::time::Instant;
//!
//! let mut beat =
//!     Cadence::per_second(Instant::ORIGIN, NonZeroU32::new(3).unwrap(), Missed::Skip);
//! assert_eq!(beat.next_at().as_nanos(), 333_333_334); // never before a third of a second
//! assert_eq!(beat.poll(Instant::from_nanos(1_000_000_000)).unwrap().number, 3);
//! ```
//!
//! **Clocks** and **the tick loop** are where the system comes in. The loop reads its clock, runs the body with that reading,
//! and publishes it; whoever else needs the time reads the cached clock.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::{num::NonZeroU32, ops::ControlFlow};
//! use mainspring::{clock::Monotonic, tick::TickLoop, time::Clock};
//!
//! let ticks = TickLoop::per_second(NonZeroU32::new(200).unwrap());
//! let cached = ticks.cached();
//! ticks.run(&Monotonic, |tick| {
//!     assert_eq!(cached.now(), tick.now);
//!     if tick.number < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
//! });
//! # }
//! ```
//!
//! # Promises, and where they are made
//!
//! * No timer fires before its deadline: [`time`], [`wheel`](wheel#contract).
//! * Order of ticks, and of arming within a tick, with one exception: [`wheel`](wheel#contract).
//! * Arming, moving and cancelling are O(1), and a call pays for a bounded part of the housekeeping: [`wheel`](wheel#costs).
//! * A stale key is answered with `None`, for ever: [`wheel::TimerKey`].
//! * What is armed for a tick already reached runs in the next pass, so a pass ends: [`wheel::Advance`].
//! * Rates and periods are exact after any time; missed ones follow the policy you chose: [`cadence`], [`timers`](timers#rules).
//! * A cancellation tells the truth, and does not wait: [`scheduler::Cancelled`].
//! * A full mailbox refuses and hands back; nothing is lost silently: [`scheduler::Refused`].
//! * Dropped ticks are counted and told: [`tick::TickStats`].
//! * What a clock costs, and by how much it may be wrong: [`clock`].
//!
//! # Features and `no_std`
//!
//! `std` is on by default. Without it (`default-features = false`) the crate is `no_std` and needs `alloc`: [`time`],
//! [`wheel`], [`timers`] and [`cadence`] remain, with the same contracts; memory then comes in smaller pieces and no system is asked for
//! huge pages. A target needs 64-bit atomics.
//!
//! # Threads
//!
//! A wheel, timers, a cadence and a loop belong to one thread at a time: their methods take `&mut self`, or run on the calling
//! thread, and nothing inside locks. They are [`Send`] where their values are. Clocks and the scheduler are shared: their
//! methods take `&self` from any thread. The library starts threads only for a [`scheduler`], for
//! [`Tsc::start`](clock::Tsc::start) and for [`Cached::upkeep`](clock::Cached::upkeep), and joins them when the last owner is
//! dropped. It prints nothing and has no global settings. A panic in your code during a pass leaves wheel and timers usable; the
//! scheduler catches those of its callbacks.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

/// Longer texts, kept beside the code so that their examples are tested.
#[cfg(all(feature = "std", any(doc, doctest)))]
pub mod _documentation {
    #[doc = include_str!("../docs/benchmarks.md")]
    pub mod benchmarks {}

    #[doc = include_str!("../docs/design.md")]
    pub mod design {}

    #[cfg(doctest)]
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}

pub mod cadence;
#[cfg(feature = "std")]
pub mod clock;
#[cfg(feature = "cron")]
pub mod cron;
#[cfg(feature = "std")]
pub mod scheduler;
#[cfg(feature = "std")]
mod sync;
mod sys;
#[cfg(feature = "std")]
pub mod tick;
pub mod time;
pub mod timers;
pub mod wheel;

/// Bodies for fuzzing that need what is private; see `fuzz/`.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz {
    /// Runs the script that the bytes spell on a wheel and its oracle; panics where they differ.
    pub fn wheel(data: &[u8]) {
        crate::wheel::model::Script::decode(data).run();
    }
}
