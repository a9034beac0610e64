//! A game server's loop: a steady tick, timers on the loop's own thread, and a clock that everyone may read for free.
//!
//!     cargo run --example game_loop

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::clock::Monotonic;
use mainspring::tick::TickLoop;
use mainspring::time::Clock;
use mainspring::timers::{Plan, Timers};

/// What the game does later. A plain value: no closure, no box.
#[derive(Clone, Copy, Debug)]
enum Event {
    Regenerate,
    Respawn { player: u32 },
    RoundEnds,
}

fn main() {
    let mut timers = Timers::new(Monotonic.now());
    let now = Monotonic.now();
    let ms = Duration::from_millis;
    timers.arm(now, Plan::every(ms(100), ms(100), Missed::Skip), Event::Regenerate);
    timers.arm(now, Plan::after(ms(250)), Event::Respawn { player: 7 });
    timers.arm(now, Plan::after(ms(500)), Event::RoundEnds);

    let server = TickLoop::per_second(NonZeroU32::new(60).expect("not zero"));
    // Anyone, on any thread, stamps with this for the price of a load; the loop publishes it once a tick.
    let stamp = server.cached();

    let mut health = 0;
    let summary = server.run(&Monotonic, |tick| {
        // One clock read a tick; it is `tick.now`.
        let mut pass = timers.poll(tick.now);
        while let Some(due) = pass.next() {
            let (fired, event) = (due.fired(), *due.value());
            println!("tick {:>2}, {:?} late: {event:?}", tick.number, fired.lateness());
            match event {
                Event::Regenerate => health += 1,
                // The timers are at hand while they fire: to arm, change or cancel others.
                Event::Respawn { player } => {
                    let again = Event::Respawn { player: player + 1 };
                    pass.timers().arm(tick.now, Plan::after(ms(100)), again);
                }
                Event::RoundEnds => return ControlFlow::Break(()),
            }
        }
        assert_eq!(stamp.now(), tick.now);
        ControlFlow::Continue(())
    });
    println!("health {health}; {summary:?}");
}
