//! What tells a peer's datagrams from damaged and forged ones: the hook for encryption.

use std::fmt;

/// Protects datagrams. One end's `seal` is undone by the other end's `open`.
///
/// `number` is different for every datagram that one end seals, so it can be a nonce; a cipher needs another key for
/// each direction. `header` is not encrypted, and must be covered by the tag.
///
/// The default, [`Checksum`], keeps out damage, strangers and mixed-up channel tables, and hides nothing. An AEAD, such as
/// ChaCha20-Poly1305, is a few lines: `tests/plain.rs` has them.
pub trait Seal: fmt::Debug {
    /// Bytes at the end of each datagram; [`layout::TAG`](super::layout::TAG) at most.
    fn tag_bytes(&self) -> usize;

    /// Encrypts `body` in place, if it does that, and writes the tag.
    fn seal(&mut self, number: u64, header: &[u8], body: &mut [u8], tag: &mut [u8]);

    /// The body as it was, in `space` if it had to be decrypted; `None` if header, body or tag are not what was sealed.
    fn open<'a>(
        &mut self,
        number: u64,
        header: &[u8],
        body: &'a [u8],
        tag: &[u8],
        space: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;
}

/// Eight bytes that depend on every byte of the datagram, its number, and a secret of the session.
///
/// Not a message authentication code: who sees datagrams can learn to make them. Who does not, cannot.
#[derive(Clone, Debug)]
pub struct Checksum {
    sending: u64,
    receiving: u64,
}

impl Checksum {
    /// With a number for each direction; the other end has them the other way round.
    #[must_use]
    pub const fn new(sending: u64, receiving: u64) -> Self {
        Self { sending, receiving }
    }
}

impl Seal for Checksum {
    fn tag_bytes(&self) -> usize {
        8
    }

    fn seal(&mut self, number: u64, header: &[u8], body: &mut [u8], tag: &mut [u8]) {
        let sum = sum(self.sending, number, header, body);
        tag.copy_from_slice(&sum.to_le_bytes());
    }

    fn open<'a>(
        &mut self,
        number: u64,
        header: &[u8],
        body: &'a [u8],
        tag: &[u8],
        _: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        (sum(self.receiving, number, header, body).to_le_bytes() == tag).then_some(body)
    }
}

/// Odd, with bits in no pattern: the fractions of the square roots of 2, 3 and 5.
const ROOTS: [u64; 3] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b];

/// The two halves of a product, one laid over the other: each bit of it depends on most of both factors.
#[inline]
pub(super) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

/// Sixteen bytes a step, what is missing of the last ones is zero; the lengths go in at the end.
fn sum(secret: u64, number: u64, header: &[u8], body: &[u8]) -> u64 {
    // Both factors of each step are unknown to who does not know the secret: a factor of zero would hide the other.
    let key = fold(secret ^ ROOTS[1], ROOTS[2]);
    let mut sum = fold(secret ^ ROOTS[0], number ^ ROOTS[1]);
    for part in [header, body] {
        let (whole, rest) = part.as_chunks::<16>();
        for bytes in whole {
            sum = step(key, sum, bytes);
        }
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            sum = step(key, sum, &last);
        }
        sum = fold(sum ^ part.len() as u64, ROOTS[2]);
    }
    fold(sum ^ secret, ROOTS[1])
}

#[inline]
fn step(key: u64, sum: u64, bytes: &[u8; 16]) -> u64 {
    let word = |at: usize| {
        let half: [u8; 8] = bytes[at..at + 8].try_into().expect("half of sixteen");
        u64::from_le_bytes(half)
    };
    fold(word(0) ^ key, word(8) ^ sum).wrapping_add(sum.rotate_left(23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let (header, body) = ([3_u8; 9], [0_u8; 100]);
        let right = sum(1, 2, &header, &body);
        assert_ne!(sum(2, 2, &header, &body), right);
        assert_ne!(sum(1, 3, &header, &body), right);
        assert_ne!(sum(1, 2, &header, &body[..99]), right);
        for bit in 0..800 {
            let mut body = body;
            body[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(sum(1, 2, &header, &body), right, "bit {bit}");
            let mut header = header;
            header[bit / 8 % 9] ^= 1 << (bit % 8);
            assert_ne!(sum(1, 2, &header, &body[..]), right, "bit {bit}");
        }
    }

    /// One wrong bit changes about half of the sum's.
    #[test]
    fn sums_of_neighbours_have_nothing_in_common() {
        let mut changed = 0;
        for number in 0..1000 {
            let body = [7; 64];
            changed += (sum(9, number, &[], &body) ^ sum(9, number + 1, &[], &body)).count_ones();
        }
        assert!((31_000..33_000).contains(&changed), "{changed} of 64,000");
    }
}
