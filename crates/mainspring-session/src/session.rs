//! The session: everything between an application's messages and datagrams, without a socket, a thread or a clock.

use std::num::NonZeroU32;
use std::time::Duration;

use mainspring::time::Instant;

use crate::budget::Budget;
use crate::inbound::{Inbound, InboundLimits};
use crate::outbox::{Outbox, OutboxLimits};
use crate::wire::WireFormat;
use crate::{Channel, Dropped, Event, Heard, MessageId, Reason, Refused, Stats};

/// Bounds of a session, whatever its format. The defaults suit a game server's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What waits to be sent.
    pub outbox: OutboxLimits,
    /// What was received and not read.
    pub inbound: InboundLimits,
    /// A peer of whom nothing was heard for so long is given up.
    pub idle_timeout: Duration,
    /// How long closing may take until all is sent and acknowledged.
    pub linger: Duration,
    /// After so long without anything to send or to acknowledge, memory is given back.
    pub rest: Duration,
    /// A session that refused messages as [`Refused::Full`], and has not come down to the soft mark for so long, is ended:
    /// its peer takes less than it is sent.
    pub patience: Duration,
    /// Bytes a second that may leave, at most; `None` as many as the format lets. What a burst may have on top is a 20th of
    /// it, or two datagrams.
    pub pace: Option<NonZeroU32>,
}

impl Default for Limits {
    /// 60 s idle, 2 s to close, memory back after 5 s, 60 s patience, no pace; see [`OutboxLimits`] and [`InboundLimits`]
    /// for theirs.
    fn default() -> Self {
        Self {
            outbox: OutboxLimits::default(),
            inbound: InboundLimits::default(),
            idle_timeout: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            rest: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            pace: None,
        }
    }
}

/// One peer's messages, in both directions.
///
/// `Send`, but one thread at a time: nothing inside is shared between sessions, and nothing locks.
///
/// # Four families of methods
///
/// 1. **The application hands over and asks**: [`enqueue`](Self::enqueue), [`close`](Self::close),
///    [`stats`](Self::stats), [`queued_bytes`](Self::queued_bytes), [`queued_messages`](Self::queued_messages).
/// 2. **The driver tells what happened**: [`handle_datagram`](Self::handle_datagram),
///    [`handle_timeout`](Self::handle_timeout).
/// 3. **The driver and the application take what came of it**: [`poll_transmit`](Self::poll_transmit),
///    [`poll_event`](Self::poll_event), each until `None`.
/// 4. **The driver asks when to come again**: [`next_timeout`](Self::next_timeout).
///
/// # The loop that drives it
///
/// Datagrams before timeouts: an acknowledgement that has arrived must count before anything is judged late.
///
/// ```
/// use mainspring::time::{Clock, ManualClock};
/// use mainspring_session::{Event, Session, ac};
///
/// # fn receive() -> Option<Vec<u8>> { None }
/// # fn send(_: &[u8]) {}
/// # fn wait_until(_: Option<mainspring::time::Instant>) {}
/// let clock = ManualClock::default();
/// let mut session = ac::server(ac::Config::server(7, 0x1234_5678, 0x9abc_def0), clock.now());
/// let (mut datagram, mut body) = (Vec::new(), Vec::new());
/// # for _ in 0..3 {
/// let now = clock.now(); // once a pass
/// while let Some(datagram) = receive() {
///     let _counted_if_dropped = session.handle_datagram(now, &datagram);
/// }
/// session.handle_timeout(now);
/// while let Some(event) = session.poll_event(&mut body) {
///     if let Event::Message { channel, .. } = event {
///         session.enqueue(channel, &body)?; // an echo server
///     }
/// }
/// while session.poll_transmit(now, &mut datagram).is_some() {
///     send(&datagram);
///     datagram.clear();
/// }
/// wait_until(session.next_timeout());
/// # }
/// # Ok::<(), mainspring_session::Refused>(())
/// ```
#[derive(Debug)]
pub struct Session<W> {
    pub(crate) wire: W,
    limits: Limits,
    outbox: Outbox,
    inbound: Inbound,
    state: State,
    /// When something of the peer was last accepted.
    heard: Instant,
    /// Whether memory may be kept that a session at rest does not need, and since when it is at rest.
    holds_memory: bool,
    rest: Option<Instant>,
    mark: Mark,
    pace: Option<Budget>,
    stats: Stats,
}

/// What waits to be sent, against the soft mark and the bound.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    is_above: bool,
    /// The application has not been told yet.
    is_news: bool,
    /// Something was refused for want of room; since when, as far as a time was heard.
    is_full: bool,
    full_since: Option<Instant>,
}

/// What has to be in a budget before a datagram is asked for: none is longer.
const DATAGRAM: u64 = 1200;

fn paced(rate: NonZeroU32, now: Instant) -> Budget {
    let rate = u64::from(rate.get());
    Budget::new(rate, (rate / 20).max(2 * DATAGRAM), now)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more is accepted; what was, leaves until then.
    Closing {
        by: Instant,
    },
    /// Over, and the application does not know yet.
    Closed(Reason),
    Ended,
}

/// A datagram that was appended to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its length: that many bytes at the end of the buffer.
    pub length: usize,
}

impl<W: WireFormat> Session<W> {
    /// A session whose peer is known and has agreed; its time starts at `now`.
    #[must_use]
    pub fn new(wire: W, mut limits: Limits, now: Instant) -> Self {
        // What is due at once is due after a millisecond: a loop that asks when to come again must not spin.
        for time in [&mut limits.rest, &mut limits.patience] {
            *time = (*time).max(Duration::from_millis(1));
        }
        let (least, most) = wire.message_bytes();
        limits.inbound.message_bytes = limits.inbound.message_bytes.min(most);
        let lengths = (least, limits.inbound.message_bytes);
        Self {
            // The other end is taken to have as much room.
            outbox: Outbox::new(
                limits.outbox,
                wire.shape(),
                wire.channels(),
                lengths,
                limits.inbound.waiting_bytes / 2,
            ),
            pace: limits.pace.map(|rate| paced(rate, now)),
            inbound: Inbound::new(limits.inbound, wire.shape().data, least, wire.first_message()),
            wire,
            limits,
            state: State::Open,
            heard: now,
            holds_memory: false,
            rest: None,
            mark: Mark::default(),
            stats: Stats::default(),
        }
    }

    /// Accepts a message: what its [channel](crate::channel) promises will be kept, or the session ends with a reason.
    ///
    /// O(length), amortized; no allocation once the queues have grown to their usual size. The longest message is
    /// [`InboundLimits::message_bytes`] and what the format can carry, whichever is less.
    ///
    /// # Errors
    ///
    /// Why not; see [`Refused`].
    pub fn enqueue(&mut self, channel: Channel, message: &[u8]) -> Result<MessageId, Refused> {
        self.enqueue_keyed(channel, 0, message)
    }

    /// The same with a key: messages of one key keep their order, or replace each other, apart from those of others.
    ///
    /// # Errors
    ///
    /// Why not; see [`Refused`].
    pub fn enqueue_keyed(
        &mut self,
        channel: Channel,
        key: u16,
        message: &[u8],
    ) -> Result<MessageId, Refused> {
        if self.state != State::Open {
            return Err(Refused::Closed);
        }
        let accepted = self.outbox.enqueue(channel, key, message, &mut self.stats);
        self.mark.is_full |= accepted == Err(Refused::Full);
        self.look_at_mark();
        accepted?;
        let id = MessageId(self.stats.messages_accepted);
        self.stats.messages_accepted += 1;
        (self.holds_memory, self.rest) = (true, None);
        Ok(id)
    }

    /// Accepts nothing more, sends what was accepted, says goodbye, and ends: when the peer has acknowledged all, or
    /// after [`Limits::linger`].
    pub fn close(&mut self, now: Instant) {
        if self.state == State::Open {
            self.state = State::Closing { by: now.saturating_add(self.limits.linger) };
        }
    }

    /// Takes a datagram from the peer.
    ///
    /// O(length). Nothing in it is believed before its checksum is right, nothing allocated by a number that it declares;
    /// no input panics.
    ///
    /// # Errors
    ///
    /// Why it was dropped; [`stats`](Self::stats) has counted it, so a driver may ignore this.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Dropped> {
        self.inbound.excuse(now);
        let heard = match self.state {
            State::Closed(_) | State::Ended => Err(Dropped::Closed),
            State::Open | State::Closing { .. } => {
                self.wire.receive(now, datagram, &mut self.inbound, &mut self.stats)
            }
        };
        match heard {
            Ok(heard) => {
                self.stats.datagrams_received += 1;
                self.heard = self.heard.max(now);
                self.holds_memory |= !self.inbound.is_empty();
                if heard == Heard::Goodbye {
                    self.end(Reason::Peer);
                }
                Ok(())
            }
            Err(reason) => {
                self.stats.count_dropped(reason);
                Err(reason)
            }
        }
    }

    /// Does what is due: gives up a silent peer, notices what will never come, gives memory back. O(1), but for the
    /// memory.
    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.state, State::Closed(_) | State::Ended) {
            return;
        }
        self.inbound.excuse(now);
        if now >= self.heard.saturating_add(self.limits.idle_timeout) {
            self.end(Reason::Silent);
        } else if self.inbound.is_stalled(now) {
            self.end(Reason::Stalled);
        } else if let Err(reason) = self.wire.expire(now, &mut self.stats) {
            self.end(reason);
        } else if self.is_overwhelmed(now) {
            self.end(Reason::Overwhelmed);
        } else if self.rests_at().is_some_and(|moment| moment <= now) {
            (self.holds_memory, self.rest) = (false, None);
            self.release();
        }
    }

    /// Appends the next datagram to send to `buffer`; `None` if there is none now.
    ///
    /// O(its bytes), whatever waits. Call it until `None` after each of the other methods that take a time; what a full
    /// window or a budget holds back comes out when that changes.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.outbox.note_time(now);
        let start = buffer.len();
        match self.state {
            State::Open => {
                if !self.transmit(now, buffer) {
                    self.note_rest(now);
                    return None;
                }
            }
            State::Closing { by } => {
                let delivered = self.outbox.is_empty() && self.wire.is_settled();
                if delivered || now >= by {
                    self.wire.farewell(now, buffer);
                    self.end(Reason::Local { delivered });
                } else if !self.transmit(now, buffer) {
                    return None;
                }
            }
            State::Closed(_) | State::Ended => return None,
        }
        let length = buffer.len() - start;
        if let Some(pace) = &mut self.pace {
            pace.take(now, length as u64);
        }
        self.holds_memory = true;
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += length as u64;
        Some(Transmit { length })
    }

    /// What happened next; `None` if nothing has since. A message's bytes replace what `body` held. O(length).
    pub fn poll_event(&mut self, body: &mut Vec<u8>) -> Option<Event> {
        if let Some((channel, key)) = self.inbound.read(body) {
            self.stats.messages_delivered += 1;
            return Some(Event::Message { channel, key });
        }
        if self.mark.is_news && !self.is_closed() {
            self.mark.is_news = false;
            return Some(if self.mark.is_above { Event::Crowded } else { Event::Relieved });
        }
        let State::Closed(reason) = self.state else { return None };
        self.state = State::Ended;
        Some(Event::Closed(reason))
    }

    /// Whether [`poll_event`](Self::poll_event) has something to tell. O(1).
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.inbound.unread_messages() > 0
            || matches!(self.state, State::Closed(_))
            || self.mark.is_news && self.state != State::Ended
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) again, if nothing
    /// arrives and nothing is enqueued before. May lie in the past: at once. `None` when the session is over.
    ///
    /// O(1): made to be a deadline in a wheel, so that a session with nothing due costs nothing.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let closing = match self.state {
            State::Open => None,
            State::Closing { by } => {
                Some(if self.outbox.is_empty() && self.wire.is_settled() { self.heard } else { by })
            }
            State::Closed(_) | State::Ended => return None,
        };
        let idle = self.heard.saturating_add(self.limits.idle_timeout);
        let wire = self.wire.next_timeout(&self.outbox);
        let paced = self.pace.map_or(wire, |pace| wire.map(|due| due.max(pace.ready_at(DATAGRAM))));
        let patience = self.mark.full_since.map(|since| since.saturating_add(self.limits.patience));
        [closing, paced, self.inbound.stalls_at(), self.rests_at(), patience]
            .into_iter()
            .flatten()
            .chain([idle])
            .min()
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes of messages that have not been sent yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    /// Messages that have not been sent completely yet.
    #[must_use]
    pub fn queued_messages(&self) -> usize {
        self.outbox.queued_messages()
    }

    /// Bytes and messages of one channel that have not been sent yet; nothing of one that does not exist.
    #[must_use]
    pub fn queued_on(&self, channel: Channel) -> (usize, usize) {
        self.outbox.queued_on(channel)
    }

    /// Whether all that was accepted has been sent and acknowledged. Of a session that is over, its [`Reason`] tells.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outbox.is_empty() && self.wire.is_settled()
    }

    /// Whether it is over; there may still be events to poll.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_) | State::Ended)
    }

    /// What was received and is not complete, in order or read yet.
    #[must_use]
    pub fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// The format's half.
    #[must_use]
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// All memory it keeps, in bytes: its own size and what it has allocated. O(messages waiting to be in order).
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.wire.capacity_bytes()
            + self.outbox.capacity_bytes()
            + self.inbound.capacity_bytes()
    }

    fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        if self.pace.as_mut().is_some_and(|pace| !pace.has(now, DATAGRAM)) {
            return false;
        }
        let is_sent = self.wire.transmit(now, &mut self.outbox, buffer, &mut self.stats);
        if self.mark.is_above {
            self.look_at_mark();
        }
        is_sent
    }

    /// Compares what waits with the soft mark: news above it, and again at half of it.
    fn look_at_mark(&mut self) {
        let (bytes, soft) = (self.outbox.queued_bytes(), self.limits.outbox.soft_bytes);
        let mark = &mut self.mark;
        if bytes <= soft {
            (mark.is_full, mark.full_since) = (false, None);
        }
        let is_above = if mark.is_above { bytes > soft / 2 } else { bytes > soft };
        if is_above != mark.is_above {
            (mark.is_above, mark.is_news) = (is_above, !mark.is_news);
        }
    }

    /// Whether what waits has been at its bound, and not down at the soft mark since, for too long.
    fn is_overwhelmed(&mut self, now: Instant) -> bool {
        if !self.mark.is_full {
            return false;
        }
        let since = *self.mark.full_since.get_or_insert(now);
        now >= since.saturating_add(self.limits.patience)
    }

    /// What was not sent never will be; what was received can still be read.
    fn end(&mut self, reason: Reason) {
        self.state = State::Closed(reason);
        self.outbox.abandon();
        self.wire.abandon();
        self.inbound.release();
    }

    fn note_rest(&mut self, now: Instant) {
        if !(self.is_settled() && self.inbound.is_empty()) {
            self.rest = None;
        } else if self.holds_memory {
            self.rest.get_or_insert(now);
        }
    }

    fn release(&mut self) {
        self.wire.release();
        self.outbox.release();
        self.inbound.release();
    }

    fn rests_at(&self) -> Option<Instant> {
        self.rest.map(|since| since.saturating_add(self.limits.rest))
    }
}
