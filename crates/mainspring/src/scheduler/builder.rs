//! What can be chosen about a scheduler.

use alloc::boxed::Box;
use alloc::string::String;
use core::any::Any;
use core::fmt;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::io;
use std::thread;

use super::mailbox::Mailbox;
use super::pool::Pool;
use super::runner::{Dispatch, Runner};
use super::{Callback, Counts, Scheduler, Shared};
use crate::clock::Monotonic;
use crate::sync::atomic::AtomicUsize;
use crate::sync::{Arc, Condvar, Mutex};
use crate::time::{Clock, Resolution, saturating_nanos};
use crate::timers::{self, DEFAULT_TOLERANCE, Fired};

/// Starts a [`Scheduler`] with other choices than the usual.
pub struct Builder {
    clock: Option<Box<dyn Clock + Send + Sync>>,
    resolution: Resolution,
    tolerance: Duration,
    mailbox: usize,
    name: String,
    on_panic: Option<PanicHook>,
}

pub(super) type PanicHook = Box<dyn FnMut(&(dyn Any + Send)) -> OnPanic + Send>;

/// What becomes of a timer whose callback has panicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// It goes on.
    #[default]
    Continue,
    /// It ends.
    Stop,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            resolution: Resolution::FINE,
            tolerance: DEFAULT_TOLERANCE,
            mailbox: 1 << 14,
            name: "mainspring".into(),
            on_panic: None,
        }
    }
}

impl Builder {
    /// The clock that deadlines are on; [`Monotonic`] by default, [`Boot`](crate::clock::Boot) to count a suspend too.
    #[must_use]
    pub fn clock(self, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { clock: Some(Box::new(clock)), ..self }
    }

    /// The length of a tick; [`Resolution::FINE`], 31 us, by default.
    #[must_use]
    pub fn resolution(self, resolution: Resolution) -> Self {
        Self { resolution, ..self }
    }

    /// The tolerance of timers whose plan names none; 1 ms by default, zero for exact ones.
    #[must_use]
    pub fn tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// How many messages wait for the thread at most before [`Refused::Full`](super::Refused::Full); 16,384 by default.
    /// Up to eight threads have so many each.
    #[must_use]
    pub fn mailbox(self, messages: usize) -> Self {
        Self { mailbox: messages, ..self }
    }

    /// The thread's name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Called with the payload when a callback has panicked; decides whether its timer goes on. A pool's timers always do,
    /// and the hook is told on the scheduler's thread.
    #[must_use]
    pub fn on_panic(self, hook: impl FnMut(&(dyn Any + Send)) -> OnPanic + Send + 'static) -> Self {
        Self { on_panic: Some(Box::new(hook)), ..self }
    }

    /// Starts a thread that gives every firing, and the timer's value, to `sink`.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn start<T: Send + 'static>(
        self,
        sink: impl FnMut(&Fired, &mut T) + Send + 'static,
    ) -> io::Result<Scheduler<T>> {
        self.run(|_| Ok(Dispatch::Inline(Box::new(sink))))
    }

    /// Starts a thread whose callbacks are closures, one for each timer.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn closures(self) -> io::Result<Scheduler<Callback>> {
        self.start(|fired, callback: &mut Callback| callback(fired))
    }

    /// Starts a thread that gives every firing, with a copy of the timer's value, to `sink` on one of so many threads.
    ///
    /// Callbacks of one timer may overlap: [`Plan::overlap`](crate::timers::Plan::overlap) says whether. When many wait for
    /// a thread the scheduler fires no more until some have been taken: timers are late then, and none is lost.
    ///
    /// # Errors
    /// If the system refuses the threads.
    pub fn start_pool<T: Clone + Send + 'static>(
        self,
        threads: NonZeroUsize,
        sink: impl Fn(&Fired, &T) + Send + Sync + 'static,
    ) -> io::Result<Scheduler<T>> {
        let name = self.name.clone();
        self.run(|shared| Ok(Dispatch::Pool(Pool::start(threads, &name, shared, sink)?)))
    }

    fn run<T: Send + 'static>(
        self,
        dispatch: impl FnOnce(&Arc<Shared<T>>) -> io::Result<Dispatch<T>>,
    ) -> io::Result<Scheduler<T>> {
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(self.mailbox),
            clock: self.clock.unwrap_or_else(|| Box::new(Monotonic)),
            tolerance: saturating_nanos(self.tolerance),
            metrics: Mutex::new(timers::Metrics::default()),
            counts: Counts::default(),
            waiting: AtomicUsize::new(0),
            returned: (Mutex::new(()), Condvar::new()),
        });
        let dispatch = dispatch(&shared)?;
        let runner = Runner::new(
            Arc::clone(&shared),
            self.resolution,
            self.tolerance,
            dispatch,
            self.on_panic,
        );
        let thread = thread::Builder::new().name(self.name).spawn(move || runner.run())?;
        Ok(Scheduler { shared, thread: Some(thread) })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("resolution", &self.resolution)
            .field("tolerance", &self.tolerance)
            .field("mailbox", &self.mailbox)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
