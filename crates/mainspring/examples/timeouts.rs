//! A timeout for each connection, moved on every byte: most timers never fire, and moving one is a single store.
//!
//!     cargo run --example timeouts

use std::time::Duration;

use mainspring::time::{Clock, Instant, ManualClock};
use mainspring::timers::{Plan, TimerKey, Timers};

const IDLE: Duration = Duration::from_secs(30);

/// A connection and the timer that ends it.
struct Connection {
    id: usize,
    timeout: TimerKey,
}

impl Connection {
    fn accept(id: usize, now: Instant, timers: &mut Timers<usize>) -> Self {
        Self { id, timeout: timers.arm(now, Plan::after(IDLE), id) }
    }

    /// Bytes have come: the timeout starts anew. The key stays.
    fn on_bytes(&self, now: Instant, timers: &mut Timers<usize>) {
        let is_open = timers.change(now, self.timeout, Plan::after(IDLE));
        assert!(is_open, "connection {} has timed out before", self.id);
    }
}

fn main() {
    // A server passes the time of its clock; here time is made up, and a minute passes at once.
    let clock = ManualClock::new(Instant::ORIGIN);
    let mut timers = Timers::new(clock.now());
    let connections: Vec<Connection> =
        (0..1_000).map(|id| Connection::accept(id, clock.now(), &mut timers)).collect();

    // For a minute every connection but those of each hundred hears something every second.
    let mut closed = Vec::new();
    for _second in 0..60 {
        clock.advance(Duration::from_secs(1));
        let now = clock.now(); // once a pass, not once a timer
        for connection in connections.iter().filter(|connection| connection.id % 100 != 0) {
            connection.on_bytes(now, &mut timers);
        }
        let mut pass = timers.poll(now);
        while let Some(due) = pass.next() {
            closed.push(due.into_value());
        }
    }

    println!("{} connections were idle: {closed:?}", closed.len());
    assert_eq!(closed, (0..10).map(|hundred| hundred * 100).collect::<Vec<_>>());
    assert_eq!(timers.len(), 990);
}
