//! Thousands of sessions on one thread, of which only those are looked at that have something to do.
//!
//! ```text
//!   datagrams  --> handle_datagram --.
//!   messages   --> enqueue ----------|--> in line to send  --> poll_transmit
//!   inboxes    --> advance ----------|
//!   a wheel    --> advance ----------'--> in line to read  --> poll_event
//! ```
//!
//! What happens to a session puts it in two lines: of those that may have something to send, and of those that may have
//! something to say. When it has sent all, its [`next_timeout`](Session::next_timeout) becomes a deadline in one
//! [`Wheel`], and until that, a datagram, a message or mail comes, it is not visited: an idle session costs nothing.
//!
//! # A tick
//!
//! 1. every datagram that has arrived: [`SessionSet::handle_datagram`];
//! 2. [`SessionSet::advance`]: timeouts that are due, and mail from other threads;
//! 3. [`SessionSet::poll_event`] until `None`, with answers by [`SessionSet::enqueue`];
//! 4. [`SessionSet::poll_transmit`] until `None`.
//!
//! In this order, because an acknowledgement that has arrived must count before anything is judged late.
//!
//! # Bounds
//!
//! [`SetLimits`] bounds the sessions, and what each may receive and send **in a tick, which is from one `advance` to the
//! next**: a peer that floods costs its own datagrams, and a session with much to send is put off to the next tick with the
//! rest of it. Sessions take turns of 64 datagrams.
//!
//! # Costs
//!
//! Each call is O(1) beside what the session itself does. Deadlines are rounded up to milliseconds: a timeout is handled
//! never early, and up to a millisecond late. A session at rest takes its own size, about 130 bytes here, and 24 to 36 in
//! the wheel.

mod inbox;
mod limits;
mod ring;
mod slab;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use mainspring::time::{Instant, Resolution};
use mainspring::wheel::{TimerKey, Wheel};

use self::inbox::{Mailbox, Verdict};
use self::limits::Spent;
use self::ring::Ring;
use self::slab::Slab;
use crate::{Channel, Dropped, Event, MessageId, Refused, Session, Transmit, WireFormat};

pub use self::inbox::Inbox;
pub use self::limits::{InboxLimits, Rejected, SetLimits, SetStats, TickBudget};
pub use self::slab::PeerId;

/// Many sessions, driven like one; see the [module](self) for the order of calls.
///
/// ```
/// use mainspring::time::{Clock, ManualClock};
/// use mainspring_session::set::{SessionSet, SetLimits};
/// use mainspring_session::{Event, ac};
///
/// # fn receive() -> Option<(mainspring_session::set::PeerId, Vec<u8>)> { None }
/// # fn send(_: mainspring_session::set::PeerId, _: &[u8]) {}
/// let clock = ManualClock::default();
/// let mut set = SessionSet::new(SetLimits::default(), clock.now());
/// let alice = set.insert(ac::server(ac::Config::server(7, 1, 2), clock.now())).unwrap();
/// set.enqueue(alice, ac::Group::Ui.into(), b"welcome").unwrap();
///
/// let (mut datagram, mut body) = (Vec::new(), Vec::new());
/// # for _ in 0..3 {
/// let now = clock.now(); // once a tick
/// while let Some((peer, datagram)) = receive() {
///     let _counted_if_refused = set.handle_datagram(now, peer, &datagram);
/// }
/// set.advance(now);
/// while let Some((peer, event)) = set.poll_event(&mut body) {
///     match event {
///         Event::Message { channel, .. } => drop(set.enqueue(peer, channel, &body)), // an echo server
///         Event::Closed(_) => drop(set.remove(peer)),
///         _ => {}
///     }
/// }
/// while let Some((peer, _)) = set.poll_transmit(now, &mut datagram) {
///     send(peer, &datagram);
///     datagram.clear();
/// }
/// # }
/// ```
pub struct SessionSet<W> {
    limits: SetLimits,
    peers: Slab<Peer<W>>,
    /// A deadline for each session that is not over; the value is its index.
    wheel: Wheel<u32>,
    /// Who may have something to say, to send, and who has sent his share of this tick.
    to_read: Ring,
    to_send: Ring,
    put_off: Ring,
    /// How many datagrams of its turn the first in line has sent.
    turn: u32,
    /// Which tick this is; shares are of one tick.
    tick: u64,
    now: Instant,
    mail: Receiver<PeerId>,
    /// For the mailboxes.
    wake: Sender<PeerId>,
    stats: SetStats,
}

struct Peer<W> {
    session: Session<W>,
    timer: Option<TimerKey>,
    received: Spent,
    sent: Spent,
    /// Once somebody has asked for it.
    mailbox: Option<Arc<Mailbox>>,
    /// Whether it may hold mail.
    has_mail: bool,
}

impl<W: WireFormat> SessionSet<W> {
    /// An empty set; its time starts at `now`. It allocates the slots of a wheel, 48 KiB.
    #[must_use]
    pub fn new(limits: SetLimits, now: Instant) -> Self {
        let (wake, mail) = mpsc::channel();
        Self {
            limits: SetLimits { sessions: limits.sessions.min(MOST_SESSIONS), ..limits },
            peers: Slab::new(),
            wheel: Wheel::new(RESOLUTION.tick_at_or_before(now)),
            to_read: Ring::default(),
            to_send: Ring::default(),
            put_off: Ring::default(),
            turn: 0,
            tick: 1,
            now,
            mail,
            wake,
            stats: SetStats::default(),
        }
    }

    /// Takes a session in. O(1), amortized.
    ///
    /// # Errors
    ///
    /// [`Full`], with the session, when there are as many as [`SetLimits::sessions`] allows.
    #[allow(clippy::result_large_err, reason = "the session comes back")]
    pub fn insert(&mut self, session: Session<W>) -> Result<PeerId, Full<W>> {
        if self.peers.len() >= self.limits.sessions {
            return Err(Full(session));
        }
        let id = self.peers.insert(|_| Peer {
            session,
            timer: None,
            received: Spent::default(),
            sent: Spent::default(),
            mailbox: None,
            has_mail: false,
        });
        self.mark(id);
        Ok(id)
    }

    /// Takes a session out, with all that it holds; mail that it has not accepted is dropped, and inboxes of it refuse from
    /// now on. `None` if it was out already. O(1).
    pub fn remove(&mut self, id: PeerId) -> Option<Session<W>> {
        let peer = self.peers.remove(id)?;
        if let Some(timer) = peer.timer {
            self.wheel.cancel(timer);
        }
        if let Some(mailbox) = peer.mailbox {
            mailbox.close();
        }
        if self.to_send.first() == Some(id.index) {
            self.turn = 0;
        }
        for line in [&mut self.to_read, &mut self.to_send, &mut self.put_off] {
            line.remove(id.index);
        }
        Some(peer.session)
    }

    /// A session, to look at.
    #[must_use]
    pub fn session(&self, id: PeerId) -> Option<&Session<W>> {
        self.peers.find(id).map(|peer| &peer.session)
    }

    /// A session, to do something with: it will be asked for events and datagrams afterwards.
    pub fn session_mut(&mut self, id: PeerId) -> Option<&mut Session<W>> {
        self.peers.find(id)?;
        self.mark(id);
        self.peers.find_mut(id).map(|peer| &mut peer.session)
    }

    /// [`Session::enqueue`].
    ///
    /// # Errors
    ///
    /// Why not; [`Refused::Closed`] also if there is no such session.
    pub fn enqueue(
        &mut self,
        id: PeerId,
        channel: Channel,
        message: &[u8],
    ) -> Result<MessageId, Refused> {
        self.enqueue_keyed(id, channel, 0, message)
    }

    /// [`Session::enqueue_keyed`].
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_keyed(
        &mut self,
        id: PeerId,
        channel: Channel,
        key: u16,
        message: &[u8],
    ) -> Result<MessageId, Refused> {
        let peer = self.peers.find_mut(id).ok_or(Refused::Closed)?;
        let accepted = peer.session.enqueue_keyed(channel, key, message);
        if peer.session.has_event() {
            self.to_read.push(id.index);
        }
        if accepted.is_ok() {
            self.mark_to_send(id.index);
        }
        accepted
    }

    /// Where other threads post messages for a session; `None` if there is no such one.
    #[must_use]
    pub fn inbox(&mut self, id: PeerId) -> Option<Inbox> {
        let peer = self.peers.find_mut(id)?;
        let new = || Mailbox::new(id, self.limits.inbox, self.wake.clone());
        Some(peer.mailbox.get_or_insert_with(new).inbox())
    }

    /// [`Session::handle_datagram`], within the session's share of the tick.
    ///
    /// # Errors
    ///
    /// Why it was refused or dropped. The set or the session has counted it, so a driver may ignore this.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        id: PeerId,
        datagram: &[u8],
    ) -> Result<(), Rejected> {
        let Some(peer) = self.peers.find_mut(id) else {
            self.stats.gone += 1;
            return Err(Rejected::Gone);
        };
        if !peer.received.leaves_some(self.tick, self.limits.receive) {
            self.stats.over_budget += 1;
            self.stats.over_budget_bytes += datagram.len() as u64;
            return Err(Rejected::OverBudget);
        }
        let taken = peer.session.handle_datagram(now, datagram);
        // Anything else a stranger can make in the peer's name, who shall have no part of its share. What is full may have
        // brought an acknowledgement, and with it room to send.
        if matches!(taken, Ok(()) | Err(Dropped::Full)) {
            peer.received.add(datagram.len());
            self.mark(id);
        }
        taken.map_err(Rejected::Dropped)
    }

    /// Ends a tick and begins the next: everyone has his share again, timeouts that are due are handled, and mail is
    /// looked for.
    ///
    /// **After the datagrams that have arrived by `now`**: what was acknowledged in time is not late. O(sessions that were
    /// put off, are due, or have mail).
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.tick += 1;
        while let Some(index) = self.put_off.pop() {
            self.to_send.push(index);
        }
        // At most one entry for each mailbox: its flag is up until it is emptied, and that is later.
        while let Ok(id) = self.mail.try_recv() {
            if let Some(peer) = self.peers.find_mut(id) {
                peer.has_mail = true;
                self.to_send.push(id.index);
            }
        }
        let mut pass = self.wheel.advance(RESOLUTION.tick_at_or_before(now));
        while let Some(due) = pass.next() {
            let index = due.remove();
            if let Some((_, peer)) = self.peers.at(index) {
                peer.timer = None;
                peer.session.handle_timeout(now);
                self.stats.timeouts += 1;
                self.stats.visits += 1;
                self.to_read.push(index);
                self.to_send.push(index);
            }
        }
    }

    /// What happened next to any session, and to which; `None` if nothing has since. A message's bytes replace what `body`
    /// held. Events of one session come in their order, and one behind the other.
    ///
    /// After [`Event::Closed`] the session stays until it is [removed](Self::remove).
    pub fn poll_event(&mut self, body: &mut Vec<u8>) -> Option<(PeerId, Event)> {
        while let Some(index) = self.to_read.first() {
            if let Some((id, peer)) = self.peers.at(index)
                && let Some(event) = peer.session.poll_event(body)
            {
                // What was read makes room, and the peer may have to be told.
                if !peer.session.is_closed() {
                    self.mark_to_send(index);
                }
                return Some((id, event));
            }
            self.to_read.remove(index);
            self.stats.visits += 1;
        }
        None
    }

    /// Appends the next datagram of any session to `buffer`, and says of which; `None` if there is none in this tick.
    ///
    /// Sessions take turns of 64 datagrams; those of one turn come one behind the other, so that a driver can make runs of
    /// them. A session that has sent [its share](SetLimits::transmit) waits for the next [`advance`](Self::advance).
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<(PeerId, Transmit)> {
        while let Some(index) = self.to_send.first() {
            let Some((id, peer)) = self.peers.at(index) else {
                self.to_send.remove(index);
                continue;
            };
            if !peer.sent.leaves_some(self.tick, self.limits.transmit) {
                self.leave_line(index);
                self.put_off.push(index);
                self.stats.put_off += 1;
                continue;
            }
            if self.turn >= TURN {
                self.leave_line(index);
                self.to_send.push(index);
                continue;
            }
            let transmit = peer.transmit(now, buffer, &mut self.stats);
            if peer.session.has_event() {
                self.to_read.push(index);
            }
            if let Some(transmit) = transmit {
                peer.sent.add(transmit.length);
                self.turn += 1;
                return Some((id, transmit));
            }
            let deadline = peer.session.next_timeout();
            self.leave_line(index);
            self.arm(id, deadline);
        }
        None
    }

    /// When to come again, if no datagram arrives and nothing is enqueued or posted before: at the next timeout, or at once
    /// if there is something to read or to send. May lie in the past. `None` when no session is alive.
    ///
    /// Mail is seen by [`advance`](Self::advance) only, so who sleeps until then should not sleep longer than mail may wait.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let lines = [&self.to_read, &self.to_send, &self.put_off];
        if lines.into_iter().any(|line| !line.is_empty()) {
            return Some(self.now);
        }
        self.wheel.next_wake().map(|tick| RESOLUTION.start_of(tick))
    }

    /// How many sessions there are, those that are over and not removed included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every session, in no particular order. O(the most sessions there ever were).
    pub fn ids(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.peers.ids()
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(&self) -> &SetLimits {
        &self.limits
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &SetStats {
        &self.stats
    }

    /// Something has happened to a session.
    fn mark(&mut self, id: PeerId) {
        self.to_read.push(id.index);
        self.mark_to_send(id.index);
    }

    fn mark_to_send(&mut self, index: u32) {
        // Whoever has sent his share stays where he is.
        if !self.put_off.contains(index) {
            self.to_send.push(index);
        }
    }

    /// The first in line has had its turn.
    fn leave_line(&mut self, index: u32) {
        self.to_send.remove(index);
        self.turn = 0;
        self.stats.visits += 1;
    }

    /// Makes a session's next timeout its deadline in the wheel.
    fn arm(&mut self, id: PeerId, deadline: Option<Instant>) {
        let Some(peer) = self.peers.find_mut(id) else { return };
        match (deadline.map(|moment| RESOLUTION.tick_at_or_after(moment)), peer.timer) {
            (Some(tick), Some(timer)) => drop(self.wheel.reschedule(timer, tick)),
            (Some(tick), None) => peer.timer = Some(self.wheel.insert(tick, id.index)),
            (None, Some(timer)) => {
                self.wheel.cancel(timer);
                peer.timer = None;
            }
            (None, None) => {}
        }
    }
}

impl<W: WireFormat> Peer<W> {
    /// The session's next datagram. Mail goes in before, as each datagram that leaves makes room for some.
    fn transmit(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        stats: &mut SetStats,
    ) -> Option<Transmit> {
        if self.has_mail {
            self.accept_mail(stats);
        }
        self.session.poll_transmit(now, buffer)
    }

    /// Moves mail into the session, as much as it takes.
    fn accept_mail(&mut self, stats: &mut SetStats) {
        let Some(mailbox) = &self.mailbox else { return };
        let session = &mut self.session;
        self.has_mail = mailbox.empty(|channel, message| match session.enqueue(channel, message) {
            Ok(_) => {
                stats.mail_accepted += 1;
                Verdict::Taken
            }
            // What finds an empty session full would wait for ever.
            Err(Refused::Full) if !session.is_settled() => Verdict::Stay,
            Err(_) => {
                stats.mail_refused += 1;
                Verdict::Taken
            }
        });
    }
}

impl<W> Drop for SessionSet<W> {
    /// Inboxes refuse from now on.
    fn drop(&mut self) {
        for mailbox in self.peers.values().filter_map(|peer| peer.mailbox.as_ref()) {
            mailbox.close();
        }
    }
}

impl<W: WireFormat> fmt::Debug for SessionSet<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSet")
            .field("len", &self.len())
            .field("next_timeout", &self.next_timeout())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// A set has as many sessions as it may have. Holds the one that was to be inserted.
pub struct Full<W>(pub Session<W>);

impl<W> fmt::Debug for Full<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<W> fmt::Display for Full<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the set has as many sessions as it may have")
    }
}

impl<W> std::error::Error for Full<W> {}

/// Of deadlines: finer than any network, coarse enough that sessions share ticks.
const RESOLUTION: Resolution = Resolution::MILLISECOND;

/// Datagrams that a session sends before the next one's turn: as many as the system takes in one call.
const TURN: u32 = 64;

/// What indices, and the wheel, can tell apart.
const MOST_SESSIONS: usize = 1 << 30;
