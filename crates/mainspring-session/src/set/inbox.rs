//! Messages for a session from any thread.
//!
//! Each session has a queue and a lock of its own; what all share is a channel of ids, which takes no lock and has at most
//! one entry for each queue. `posted` says whether that entry is there:
//!
//! ```text
//! a producer                              the set
//!   lock, put the message in, unlock        take the id out of the channel
//!   posted: was it false?                   posted = false
//!     then send the id                      lock, take messages out, unlock
//! ```
//!
//! A message that was put in before the set's lock is found; one that was put in after it finds `posted` false, and its id
//! is sent. A message in between does both, which costs a visit and no more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{InboxLimits, PeerId};
use crate::{Channel, Refused};

/// Where other threads post messages for one session. Clones post to the same one.
///
/// Messages of one thread are sent in the order in which they were posted. Those of several are in no order among each
/// other, nor with those that the set's own thread enqueues.
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Mailbox>);

impl Inbox {
    /// Leaves a message for the session, which will accept it as [`Session::enqueue`](crate::Session::enqueue) does, after
    /// the next [`SessionSet::advance`](super::SessionSet::advance).
    ///
    /// O(length), under a lock of this session's own. What the session cannot accept because it is full stays here until
    /// it can; what it never can (too large, no such channel) is dropped and
    /// [counted](super::SetStats::mail_refused).
    ///
    /// # Errors
    ///
    /// [`Refused::Full`] when the inbox is, [`Refused::TooLarge`] if the message is larger than the inbox,
    /// [`Refused::Closed`] when the session has been removed, or the set is gone.
    pub fn post(&self, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        self.0.post(channel, message)
    }

    /// Whose it is.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.0.peer
    }
}

#[derive(Debug)]
pub(super) struct Mailbox {
    peer: PeerId,
    limits: InboxLimits,
    queue: Mutex<Queue>,
    /// Whether the set knows that there is mail, or will.
    posted: AtomicBool,
    wake: Sender<PeerId>,
}

/// Messages one behind the other in one buffer, so that posting allocates nothing once it has grown.
#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<(Channel, usize)>,
    bytes: Vec<u8>,
    /// Where the first message begins.
    start: usize,
    is_closed: bool,
}

/// What became of the message in front.
pub(super) enum Verdict {
    /// It is out of the inbox.
    Taken,
    /// It stays, and so do those behind it.
    Stay,
}

impl Mailbox {
    pub(super) fn new(peer: PeerId, limits: InboxLimits, wake: Sender<PeerId>) -> Arc<Self> {
        let (queue, posted) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { peer, limits, queue, posted, wake })
    }

    pub(super) fn inbox(self: &Arc<Self>) -> Inbox {
        Inbox(Arc::clone(self))
    }

    fn post(&self, channel: Channel, message: &[u8]) -> Result<(), Refused> {
        {
            let mut queue = self.lock();
            if queue.is_closed {
                return Err(Refused::Closed);
            }
            if message.len() > self.limits.bytes {
                return Err(Refused::TooLarge { most: self.limits.bytes });
            }
            let has_room = message.len() <= self.limits.bytes - queue.waiting_bytes();
            if queue.messages.len() >= self.limits.messages || !has_room {
                return Err(Refused::Full);
            }
            queue.push(channel, message);
        }
        if !self.posted.swap(true, Ordering::AcqRel) {
            // Nobody receives while the set is being dropped, and then nobody needs to.
            let _ = self.wake.send(self.peer);
        }
        Ok(())
    }

    /// Offers messages in their order until one has to stay; whether any is left.
    ///
    /// Producers wait meanwhile, for as long as copying a full inbox takes at most.
    pub(super) fn empty(&self, mut offer: impl FnMut(Channel, &[u8]) -> Verdict) -> bool {
        self.posted.swap(false, Ordering::AcqRel);
        let mut queue = self.lock();
        while let Some(&(channel, length)) = queue.messages.front() {
            let message = &queue.bytes[queue.start..queue.start + length];
            match offer(channel, message) {
                Verdict::Taken => queue.pop(length),
                Verdict::Stay => return true,
            }
        }
        false
    }

    pub(super) fn close(&self) {
        let closed = Queue { is_closed: true, ..Queue::default() };
        // The messages are dropped when the lock is free.
        let _dropped = std::mem::replace(&mut *self.lock(), closed);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Each step leaves the queue as it should be, so a panic elsewhere is no reason to lose it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn push(&mut self, channel: Channel, message: &[u8]) {
        // What is gone makes room once it is as much as what waits, so a byte is moved once on average.
        if self.start > self.waiting_bytes() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(message);
        self.messages.push_back((channel, message.len()));
    }

    fn pop(&mut self, length: usize) {
        self.messages.pop_front();
        self.start += length;
        if self.messages.is_empty() {
            self.start = 0;
            self.bytes.clear();
            // A burst's memory is not kept for ever.
            self.bytes.shrink_to(KEPT_BYTES);
            self.messages.shrink_to(KEPT_MESSAGES);
        }
    }
}

/// Memory that an empty inbox keeps for the next messages.
const KEPT_BYTES: usize = 4096;
const KEPT_MESSAGES: usize = 64;
