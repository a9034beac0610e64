//! Reassembly against a plain collector, and against liars.

use proptest::prelude::*;

use super::*;

const NOW: Instant = Instant::from_nanos(1_000);

fn inbound(limits: InboundLimits) -> Inbound {
    Inbound::new(limits, 448, 4, 1)
}

fn small() -> InboundLimits {
    InboundLimits {
        message_bytes: 10_000,
        waiting_bytes: 20_000,
        waiting_messages: 8,
        partial_messages: 3,
        unread_bytes: 30_000,
        stall: Duration::from_secs(30),
    }
}

fn fragment(message: u32, index: u16, count: u16, data: &[u8]) -> Fragment<'_> {
    Fragment {
        stream: 0,
        message,
        index,
        count,
        channel: Channel(9),
        key: 0,
        arrival: Arrival::InOrder,
        data,
    }
}

fn read_all(inbound: &mut Inbound) -> Vec<Vec<u8>> {
    let mut body = Vec::new();
    std::iter::from_fn(|| inbound.read(&mut body).map(|_| body.clone())).collect()
}

/// A message's body, different for each.
fn body(message: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32 * 31 + message * 7).to_le_bytes()[0]).collect()
}

proptest! {
    /// Whatever the order, and however often each piece comes: each message once, in order, byte for byte.
    #[test]
    fn messages_come_out_once_in_order(
        lengths in prop::collection::vec(4_usize..3000, 1..20),
        order in prop::collection::vec(any::<u32>(), 1..200),
    ) {
        let bodies: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(nth, &length)| body(nth as u32, length)).collect();
        let mut pieces: Vec<(u32, u16, u16, &[u8])> = Vec::new();
        for (nth, body) in bodies.iter().enumerate() {
            let count = body.len().div_ceil(448) as u16;
            for (index, data) in body.chunks(448).enumerate() {
                pieces.push((nth as u32 + 1, index as u16, count, data));
            }
        }
        // Shuffle by random keys, some pieces twice.
        let mut arrivals: Vec<(u32, usize)> =
            (0..pieces.len()).map(|nth| (order[nth % order.len()].rotate_left(nth as u32), nth)).collect();
        arrivals.extend(order.iter().take(10).map(|&key| (key, key as usize % pieces.len())));
        arrivals.sort_unstable();
        let mut inbound = inbound(InboundLimits::default());
        let mut seen = vec![false; pieces.len()];
        for (_, nth) in arrivals {
            let (message, index, count, data) = pieces[nth];
            let accepted = inbound.accept(NOW, fragment(message, index, count, data));
            let expected = if seen[nth] { Accepted::Duplicate } else { Accepted::Taken };
            prop_assert_eq!(accepted, expected);
            seen[nth] = true;
        }
        prop_assert_eq!(read_all(&mut inbound), bodies);
        prop_assert!(inbound.is_empty());
        prop_assert_eq!((inbound.bytes, inbound.partial), (0, 0));
    }

    /// Any fragments at all: nothing panics, and no bound is passed.
    #[test]
    fn no_fragments_break_the_bounds(
        fragments in prop::collection::vec(
            (0_u32..24, 0_u16..30, 0_u16..30, prop::sample::select(vec![0_usize, 1, 3, 4, 100, 447, 448]), 0_u8..2),
            1..300,
        ),
    ) {
        let mut inbound = inbound(small());
        for (message, index, count, length, channel) in fragments {
            let data = vec![7; length];
            let fragment = Fragment { channel: Channel(channel), ..fragment(message, index, count, &data) };
            let _ = inbound.accept(NOW, fragment);
            // One longest message may come on top, for the one that is next.
            prop_assert!(inbound.waiting_bytes() <= 20_000 + 10_000);
            prop_assert!(inbound.waiting_messages() <= 8 + 1);
            prop_assert!(inbound.partial <= 3 + 1);
            let counted: usize = inbound.waiting.values().map(|waiting| match waiting {
                Waiting::Whole { bytes, .. } => bytes.len(),
                Waiting::Parts(parts) => parts.len(),
                Waiting::Done => 0,
            }).sum();
            prop_assert_eq!(counted, inbound.waiting_bytes());
            prop_assert!(inbound.unread_bytes() < 30_000 + 10_000);
        }
    }
}

/// Every length of the last piece: a count that is off by one there has been a remote overflow elsewhere.
#[test]
fn last_pieces_of_every_size() {
    for last in 1..=448 {
        let mut inbound = inbound(InboundLimits::default());
        let whole = body(last, 896 + last as usize);
        for (index, data) in whole.chunks(448).enumerate().rev() {
            assert_eq!(inbound.accept(NOW, fragment(1, index as u16, 3, data)), Accepted::Taken);
        }
        assert_eq!(read_all(&mut inbound), [whole], "{last}");
    }
}

#[test]
fn lies_are_told_from_messages() {
    let full = [1; 448];
    let mut inbound = inbound(small());
    let mut accept = |fragment| inbound.accept(NOW, fragment);
    // By themselves.
    assert_eq!(accept(fragment(1, 0, 0, &full)), Accepted::Lie);
    assert_eq!(accept(fragment(1, 2, 2, &full)), Accepted::Lie);
    assert_eq!(accept(fragment(1, 65_535, 65_535, &full)), Accepted::Lie);
    assert_eq!(accept(fragment(1, 0, 65_535, &full)), Accepted::Lie, "longer than any message");
    assert_eq!(accept(fragment(1, 0, 2, &full[..447])), Accepted::Lie, "a hole in the middle");
    assert_eq!(accept(fragment(1, 1, 2, &[])), Accepted::Lie, "an empty last piece");
    assert_eq!(accept(fragment(2, 22, 23, &full)), Accepted::Lie, "10,304 bytes of 10,000");
    // Against what came before.
    assert_eq!(accept(fragment(3, 0, 3, &full)), Accepted::Taken);
    assert_eq!(accept(fragment(3, 1, 4, &full)), Accepted::Lie);
    let other = Fragment { channel: Channel(4), ..fragment(3, 1, 3, &full) };
    assert_eq!(accept(other), Accepted::Lie);
    assert_eq!(accept(fragment(3, 0, 1, &full)), Accepted::Lie);
    assert_eq!(accept(fragment(1, 0, 2, &full)), Accepted::Taken);
    assert_eq!(accept(fragment(1, 0, 1, &full)), Accepted::Lie, "the next one, in parts already");
    // None of it keeps the truth from being told.
    assert_eq!(accept(fragment(1, 1, 2, &full[..9])), Accepted::Taken);
    assert_eq!(accept(fragment(2, 0, 1, &full)), Accepted::Taken);
    assert_eq!(read_all(&mut inbound).iter().map(Vec::len).collect::<Vec<_>>(), [457, 448]);
}

#[test]
fn nothing_is_allocated_by_a_declared_size() {
    let mut inbound = inbound(InboundLimits::default());
    let before = inbound.capacity_bytes();
    // Two pieces of a message that claims a mebibyte.
    assert_eq!(inbound.accept(NOW, fragment(2, 2339, 2340, &[1; 400])), Accepted::Taken);
    assert_eq!(inbound.accept(NOW, fragment(2, 5, 2340, &[1; 448])), Accepted::Taken);
    assert!(inbound.capacity_bytes() - before < 2500, "{}", inbound.capacity_bytes());
}

#[test]
fn what_is_next_has_room_however_full_it_is() {
    let mut inbound = inbound(small());
    let full = [1; 448];
    for message in 2.. {
        if inbound.accept(NOW, fragment(message, 0, 1, &full)) == Accepted::Full {
            break;
        }
    }
    assert_eq!(inbound.waiting_messages(), 8);
    for index in 0..22 {
        assert_eq!(inbound.accept(NOW, fragment(1, index, 23, &full)), Accepted::Taken);
    }
    assert_eq!(inbound.accept(NOW, fragment(1, 22, 23, &full[..4])), Accepted::Taken);
    assert_eq!(read_all(&mut inbound).len(), 9);
    assert!(inbound.is_empty());
}

#[test]
fn a_reader_who_does_not_read_is_full_not_forgotten() {
    let mut inbound = inbound(small());
    let full = [1; 448];
    let mut message = 1;
    while inbound.accept(NOW, fragment(message, 0, 1, &full)) == Accepted::Taken {
        message += 1;
    }
    // Eight more each for what is known of them.
    let taken = inbound.unread_bytes() + 8 * inbound.unread_messages();
    assert!((30_000..30_456).contains(&taken), "{taken}");
    assert_eq!(inbound.accept(NOW, fragment(message, 0, 1, &full)), Accepted::Full);
    let read = read_all(&mut inbound).len();
    assert_eq!(read, message as usize - 1);
    assert_eq!(inbound.accept(NOW, fragment(message, 0, 1, &full)), Accepted::Taken);
}

#[test]
fn a_reader_a_little_behind_makes_nothing_grow() {
    let mut inbound = inbound(InboundLimits::default());
    let mut body = Vec::new();
    inbound.accept(NOW, fragment(1, 0, 1, &[1; 448]));
    for message in 2..20_000 {
        assert_eq!(inbound.accept(NOW, fragment(message, 0, 1, &[1; 448])), Accepted::Taken);
        assert!(inbound.read(&mut body).is_some());
    }
    assert!(inbound.capacity_bytes() < 512 << 10, "{}", inbound.capacity_bytes());
}

#[test]
fn numbers_wrap() {
    let mut inbound = Inbound::new(InboundLimits::default(), 448, 4, u64::from(u32::MAX) - 1);
    let full = [1; 448];
    for message in [0, u32::MAX, u32::MAX - 1, 1] {
        assert_eq!(inbound.accept(NOW, fragment(message, 0, 1, &full)), Accepted::Taken);
    }
    assert_eq!(read_all(&mut inbound).len(), 4);
    for message in [u32::MAX, 0, 1] {
        assert_eq!(inbound.accept(NOW, fragment(message, 0, 1, &full)), Accepted::Duplicate);
    }
}

#[test]
fn what_never_comes_is_noticed_and_progress_puts_it_off() {
    let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
    let mut inbound = inbound(small());
    assert_eq!(inbound.stalls_at(), None);
    inbound.accept(at(100), fragment(3, 0, 1, &[1; 10]));
    assert_eq!(inbound.stalls_at(), Some(at(130)));
    inbound.accept(at(120), fragment(1, 0, 2, &[1; 448]));
    assert_eq!(inbound.stalls_at(), Some(at(150)));
    assert!(!inbound.is_stalled(at(149)));
    assert!(inbound.is_stalled(at(150)));
    inbound.accept(at(150), fragment(1, 1, 2, &[1; 10]));
    inbound.accept(at(151), fragment(2, 0, 1, &[1; 10]));
    assert_eq!(inbound.stalls_at(), None);
}

/// The original drops messages too short for an operation code; their number still counts.
#[test]
fn a_message_too_short_to_be_one_keeps_nothing_up() {
    let mut inbound = inbound(small());
    assert_eq!(inbound.accept(NOW, fragment(1, 0, 1, &[])), Accepted::Taken);
    assert_eq!(inbound.accept(NOW, fragment(2, 0, 1, &[1, 2, 3])), Accepted::Taken);
    assert_eq!(inbound.accept(NOW, fragment(3, 0, 1, &[1, 2, 3, 4])), Accepted::Taken);
    assert_eq!(read_all(&mut inbound), [[1, 2, 3, 4]]);
}

/// An application that read nothing for a minute must not find its peer accused.
#[test]
fn time_in_which_nothing_is_read_is_not_the_peers() {
    let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
    let mut inbound = inbound(InboundLimits { unread_bytes: 100, ..small() });
    inbound.accept(at(0), fragment(3, 0, 1, &[1; 10]));
    inbound.accept(at(0), fragment(1, 0, 1, &[1; 100]));
    for second in 1..60 {
        inbound.excuse(at(second));
        assert!(!inbound.is_stalled(at(second)));
    }
    assert_eq!(read_all(&mut inbound).len(), 1);
    assert_eq!(inbound.stalls_at(), Some(at(59 + 30)));
}

/// No room at all would deliver nothing, and say nothing.
#[test]
fn a_bound_of_nothing_is_one_message() {
    let mut inbound = inbound(InboundLimits { unread_bytes: 0, ..small() });
    assert_eq!(inbound.accept(NOW, fragment(1, 0, 1, &[1; 100])), Accepted::Taken);
    assert_eq!(inbound.accept(NOW, fragment(2, 0, 1, &[1; 100])), Accepted::Full);
    assert_eq!(read_all(&mut inbound).len(), 1);
}
