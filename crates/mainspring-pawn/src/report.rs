//! What each callback cost, so that an owner sees which one eats the tick.

use std::time::Duration;

use mainspring::timers::Histogram;

/// Accounts by public.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By index of the public; those never called are empty.
    callbacks: Vec<Callback>,
}

/// The account of one callback.
#[derive(Clone, Debug, Default)]
pub struct Callback {
    /// Time in it.
    pub took: Histogram,
    /// How late it was.
    pub late: Histogram,
    /// All time in it.
    pub total: Duration,
}

impl Report {
    pub(crate) fn record(&mut self, public: usize, took: Duration, late: Duration) {
        if self.callbacks.len() <= public {
            self.callbacks.resize_with(public + 1, Callback::default);
        }
        let callback = &mut self.callbacks[public];
        callback.took.record(took);
        callback.late.record(late);
        callback.total += took;
    }

    /// Index of each public that was called, and its account.
    pub fn callbacks(&self) -> impl Iterator<Item = (usize, &Callback)> {
        self.callbacks.iter().enumerate().filter(|(_, callback)| callback.took.count() > 0)
    }
}
