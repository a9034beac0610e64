//! Packet numbers: on the wire 32 bits that wrap past 0, here 64 bits that never do.
//!
//! ```text
//! here   1  2  3 ...  2^32-1   2^32   2^32+1 ...
//! wire   1  2  3 ...  2^32-1      1        2 ...
//! ```
//!
//! So windows, ages and comparisons are plain arithmetic, and the wrap exists in this file only.

/// Numbers on the wire before they repeat.
const CYCLE: u64 = u32::MAX as u64;

/// As it is written. `number` is at least 1.
#[allow(clippy::cast_possible_truncation, reason = "the remainder of a 32-bit cycle")]
#[inline]
pub(super) fn to_wire(number: u64) -> u32 {
    if number <= CYCLE { number as u32 } else { ((number - 1) % CYCLE) as u32 + 1 }
}

/// The number nearest to `near` that is written so; `None` for 0, which no numbered packet carries.
#[inline]
pub(super) fn from_wire(wire: u32, near: u64) -> Option<u64> {
    if wire == 0 {
        return None;
    }
    let cycle = if near <= CYCLE { 0 } else { (near - 1) / CYCLE * CYCLE };
    let number = cycle + u64::from(wire);
    Some(if number > near + CYCLE / 2 && cycle > 0 {
        number - CYCLE
    } else if number + CYCLE / 2 < near {
        number + CYCLE
    } else {
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_skipped_at_the_wrap() {
        assert_eq!(to_wire(CYCLE), u32::MAX);
        assert_eq!(to_wire(CYCLE + 1), 1);
        assert_eq!(to_wire(2 * CYCLE), u32::MAX);
        assert_eq!(to_wire(2 * CYCLE + 1), 1);
        assert_eq!(from_wire(0, 5), None);
    }

    #[test]
    fn what_is_near_is_found_on_either_side_of_each_wrap() {
        for near in [1, 2, 1000, CYCLE - 3, CYCLE, CYCLE + 1, CYCLE + 2, 2 * CYCLE, 7 * CYCLE + 9] {
            for distance in [0, 1, 2, 300, 32_767, CYCLE / 2 - 1] {
                let ahead = near + distance;
                assert_eq!(from_wire(to_wire(ahead), near), Some(ahead), "{near} + {distance}");
                if let Some(behind) = near.checked_sub(distance).filter(|&number| number > 0) {
                    assert_eq!(
                        from_wire(to_wire(behind), near),
                        Some(behind),
                        "{near} - {distance}"
                    );
                }
            }
        }
    }
}
