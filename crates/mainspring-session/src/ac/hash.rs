//! The format's checksum of bytes: their sum as little-endian words, on top of their number.

/// `length << 16`, plus each whole little-endian word, plus what is left over at the top of a word; all wrapping.
///
/// O(length), vectorized: about the speed of reading.
///
/// ```
/// assert_eq!(mainspring_session::ac::hash32(b"ABCDE"), 0x8948_4241);
/// ```
#[must_use]
#[inline]
pub fn hash32(bytes: &[u8]) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the sum wraps, and the length with it")]
    let mut sum = (bytes.len() as u32) << 16;
    // Sums side by side, in two vectors that do not wait for each other.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [0_u32; 8];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<4>().0) {
            *sum = sum.wrapping_add(u32::from_le_bytes(*word));
        }
    }
    for more in sums {
        sum = sum.wrapping_add(more);
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        sum = sum.wrapping_add(u32::from_le_bytes(*word));
    }
    for (byte, shift) in rest.iter().zip([24, 16, 8]) {
        sum = sum.wrapping_add(u32::from(*byte) << shift);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        let cases: [(&[u8], u32); 8] = [
            (b"", 0),
            (b"A", 0x4101_0000),
            (b"AB", 0x4144_0000),
            (b"ABC", 0x4145_4300),
            (b"ABCD", 0x4447_4241),
            (b"ABCDE", 0x8948_4241),
            (b"hello world", 0x4e5a_e9d7),
            (&[1, 2, 3, 4, 5], 0x0908_0201),
        ];
        for (bytes, expected) in cases {
            assert_eq!(hash32(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn every_remainder_and_a_full_fragment() {
        let bytes: Vec<u8> = (0..448_u32).map(|k| (7 * k + 13).to_le_bytes()[0]).collect();
        let cases = [
            (1, 0x0d01_0000),
            (2, 0x0d16_0000),
            (3, 0x0d17_1b00),
            (4, 0x221f_140d),
            (5, 0x4b20_140d),
            (7, 0x4b52_4b0d),
            (8, 0x605a_4436),
            (20, 0xc3b4_7d59),
            (33, 0x110c_b378),
            (448, 0xf9a5_d690),
        ];
        for (length, expected) in cases {
            assert_eq!(hash32(&bytes[..length]), expected, "{length}");
        }
    }
}
