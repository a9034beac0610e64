//! The packers against their rules, told once more in the plainest way.

use proptest::prelude::*;

use super::*;

const SHAPE: Shape = Shape { data: 448, overhead: 16, oversize_tails: false };
const OVERSIZE: Shape = Shape { oversize_tails: true, ..SHAPE };

/// Message and piece of everything in each packet.
type Packets = Vec<Vec<(u32, u16)>>;

fn bundle(shape: Shape, packer: Packer, lengths: &[usize]) -> Bundle {
    let mut queue = Queue::default();
    for (nth, &length) in lengths.iter().enumerate() {
        queue.push(&vec![nth.to_le_bytes()[0]; length], shape);
    }
    let mut bundle = Bundle::new(shape);
    bundle.begin(&mut queue, packer);
    bundle
}

fn packets(bundle: &mut Bundle) -> Packets {
    let mut packets = Packets::new();
    while !bundle.is_empty() {
        let mut pieces = Vec::new();
        let taken = bundle.next_packet(0, |piece| pieces.push((piece.message, piece.index)));
        assert!(taken.bytes > 0, "a packet without progress");
        packets.push(pieces);
    }
    packets
}

fn pack(shape: Shape, packer: Packer, lengths: &[usize]) -> Packets {
    packets(&mut bundle(shape, packer, lengths))
}

#[test]
fn published_orders() {
    use Packer::{FirstFit, StopAtSkip};
    type Expected = &'static [&'static [(u32, u16)]];
    let cases: [(Shape, Packer, &[usize], Expected); 11] = [
        (OVERSIZE, StopAtSkip, &[300, 200, 100, 40], &[&[(0, 0)], &[(1, 0), (2, 0), (3, 0)]]),
        (OVERSIZE, FirstFit, &[300, 200, 100, 40], &[&[(0, 0), (2, 0)], &[(1, 0), (3, 0)]]),
        (
            OVERSIZE,
            StopAtSkip,
            &[100, 1000, 50],
            &[&[(0, 0), (1, 2), (2, 0)], &[(1, 0)], &[(1, 1)]],
        ),
        (
            OVERSIZE,
            StopAtSkip,
            &[1000, 1000],
            &[&[(0, 0)], &[(0, 1)], &[(0, 2), (1, 2)], &[(1, 0)], &[(1, 1)]],
        ),
        (OVERSIZE, FirstFit, &[449], &[&[(0, 1)], &[(0, 0)]]),
        (OVERSIZE, FirstFit, &[463], &[&[(0, 1)], &[(0, 0)]]),
        (OVERSIZE, FirstFit, &[464], &[&[(0, 0)], &[(0, 1)]]),
        (OVERSIZE, FirstFit, &[911], &[&[(0, 0)], &[(0, 2)], &[(0, 1)]]),
        (OVERSIZE, FirstFit, &[100, 896], &[&[(0, 0), (1, 1)], &[(1, 0)]]),
        (SHAPE, FirstFit, &[100, 896], &[&[(0, 0)], &[(1, 0)], &[(1, 1)]]),
        (SHAPE, FirstFit, &[896], &[&[(0, 0)], &[(0, 1)]]),
    ];
    for (shape, packer, lengths, expected) in cases {
        assert_eq!(pack(shape, packer, lengths), expected, "{packer:?} {lengths:?}");
    }
}

#[test]
fn strict_order_holds_past_a_large_message() {
    let packets = pack(SHAPE, Packer::InOrder, &[100, 1000, 50]);
    assert_eq!(packets, [&[(0, 0)][..], &[(1, 0)], &[(1, 1)], &[(1, 2), (2, 0)]]);
}

/// What is reserved is kept free, and waits for a packet that shares, as does what it stands for.
#[test]
fn reserved_bytes_go_into_the_first_packet_that_shares() {
    let mut bundle = bundle(OVERSIZE, Packer::FirstFit, &[896]);
    let mut sizes = Vec::new();
    let mut is_reserved = false;
    while !bundle.is_empty() {
        let reserved = if bundle.shares_next_packet() && !is_reserved { 4 } else { 0 };
        is_reserved |= reserved > 0;
        let mut size = 20 + usize::from(reserved);
        bundle.next_packet(reserved, |piece| size += 16 + piece.data.len());
        sizes.push(size);
    }
    assert_eq!(sizes, [484, 488], "the original's, mistake included");
}

/// The rule as it is told, in quadratic time.
fn slow(shape: Shape, packer: Packer, lengths: &[usize]) -> Packets {
    struct Message {
        length: usize,
        left: usize,
        next: usize,
        tail_sent: bool,
    }
    let count = |length: usize| length.div_ceil(448);
    let mut messages: Vec<Message> = lengths
        .iter()
        .map(|&length| Message { length, left: length, next: 0, tail_sent: count(length) == 1 })
        .collect();
    let mut packets = Packets::new();
    while messages.iter().any(|message| message.left > 0) {
        let mut pieces = Vec::new();
        let mut room = 464_i64;
        let mut is_first = true;
        for (nth, message) in messages.iter_mut().enumerate().filter(|(_, m)| m.left > 0) {
            let was_first = std::mem::take(&mut is_first);
            let tail = match message.length % 448 {
                0 if !shape.oversize_tails => 448,
                rest => rest,
            };
            let next = message.left.min(448);
            let piece = if was_first && message.left >= 464 {
                message.next
            } else if !message.tail_sent && room >= 16 + tail as i64 {
                count(message.length) - 1
            } else if room >= 16 + next as i64 {
                message.next
            } else if packer == Packer::StopAtSkip {
                break;
            } else {
                continue;
            };
            let is_large = was_first && message.left >= 464;
            if !is_large && !message.tail_sent && room >= 16 + tail as i64 {
                message.tail_sent = true;
            } else {
                message.next += 1;
            }
            let size = (message.length - piece * 448).min(448);
            message.left -= size;
            room -= 16 + size as i64;
            pieces.push((nth as u32, piece as u16));
            if is_large {
                break;
            }
        }
        packets.push(pieces);
    }
    packets
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![
        4 => 4_usize..145,
        3 => 4_usize..1700,
        1 => (1_usize..4).prop_map(|pieces| pieces * 448),
        1 => prop::sample::select(vec![431, 432, 433, 447, 449, 463, 464, 465, 895, 897, 911, 912]),
    ];
    prop_oneof![
        prop::collection::vec(length.clone(), 1..30),
        prop::collection::vec(length, 25..300)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_those_of_the_rule(lengths in lengths(), stop: bool, oversize: bool) {
        let packer = if stop { Packer::StopAtSkip } else { Packer::FirstFit };
        let shape = if oversize { OVERSIZE } else { SHAPE };
        prop_assert_eq!(pack(shape, packer, &lengths), slow(shape, packer, &lengths));
    }

    /// Every byte once, no packet too long, and accounts that add up.
    #[test]
    fn every_piece_leaves_once_and_fits(lengths in lengths(), which in 0_usize..3, reserved in 0_u16..100) {
        let packer = [Packer::FirstFit, Packer::StopAtSkip, Packer::InOrder][which];
        let mut bundle = bundle(SHAPE, packer, &lengths);
        let mut came: Vec<Vec<bool>> = lengths.iter().map(|l| vec![false; l.div_ceil(448)]).collect();
        let (mut bytes, mut messages, mut first) = (0, 0, true);
        while !bundle.is_empty() {
            let reserved = if std::mem::take(&mut first) && bundle.shares_next_packet() { reserved } else { 0 };
            let mut size = usize::from(reserved);
            let taken = bundle.next_packet(reserved, |piece| {
                size += 16 + piece.data.len();
                assert!(!came[piece.message as usize][piece.index as usize], "twice");
                came[piece.message as usize][piece.index as usize] = true;
                assert_eq!(piece.count as usize, came[piece.message as usize].len());
                let expected = if piece.index + 1 == piece.count {
                    lengths[piece.message as usize] - 448 * piece.index as usize
                } else {
                    448
                };
                assert_eq!(piece.data.len(), expected);
            });
            prop_assert!(size <= 464, "{}", size);
            bytes += taken.bytes;
            messages += taken.messages;
        }
        prop_assert_eq!(bytes, lengths.iter().sum::<usize>());
        prop_assert_eq!(messages, lengths.len());
        prop_assert!(came.iter().flatten().all(|came| *came));
    }

    /// In strict order nothing of a message leaves before all of the one in front of it.
    #[test]
    fn strict_order_is_strict(lengths in lengths()) {
        let order = pack(SHAPE, Packer::InOrder, &lengths).concat();
        prop_assert!(order.is_sorted());
    }
}

/// Sizes that make a search go far: each packet leaves room for something tiny that waits at the very end.
#[test]
fn hostile_orders_are_packed_as_the_rule_says() {
    let far: Vec<usize> =
        (0..3000).map(|nth| if nth < 2000 { 300 } else { 4 + nth % 100 }).collect();
    let falling: Vec<usize> = (0..1500).map(|nth| 448 - nth % 440).collect();
    let long_and_short: Vec<usize> =
        (0..1500).map(|nth| if nth % 2 == 0 { 449 } else { 4 }).collect();
    for lengths in [far, falling, long_and_short] {
        let expected = slow(SHAPE, Packer::FirstFit, &lengths);
        assert_eq!(pack(SHAPE, Packer::FirstFit, &lengths), expected);
    }
}

#[test]
fn memory_is_kept_for_the_next_bundle_and_given_back_on_request() {
    let mut queue = Queue::default();
    let mut bundle = Bundle::new(SHAPE);
    let mut kept = Vec::new();
    for _ in 0..5 {
        for _ in 0..1000 {
            queue.push(&[1; 88], SHAPE);
        }
        bundle.begin(&mut queue, Packer::FirstFit);
        assert_eq!(packets(&mut bundle).len(), 250);
        kept.push(bundle.capacity_bytes() + queue.capacity_bytes());
    }
    assert_eq!(kept[1..], [kept[1]; 4], "two memories take turns from the second bundle on");
    bundle.release();
    assert_eq!(bundle.capacity_bytes(), 0);
}
