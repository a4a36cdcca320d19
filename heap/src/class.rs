//! Size classes: which slot size serves a request.
//!
//! Slots are multiples of 16 bytes up to 128, of 32 up to 256, and then eight to a doubling. A
//! slot is larger than its request by at most 15 bytes up to 64 B, by less than a quarter of
//! itself up to 256 B, and by less than an eighth beyond.
//!
//! Every slot size is `multiplier << shift` with a multiplier of 2 to 16, so dividing an offset
//! by it is a shift and a multiplication.

/// Classes that any heap has at most. Class numbers fit 8 bits.
pub const MAX_CLASSES: u32 = 192;

/// Slot sizes up to this are multiples of 16 bytes, with a shift of 3.
const SIXTEENS_END: u32 = 128;
/// Slot sizes up to this are multiples of 32 bytes.
const THIRTY_TWOS_END: u32 = 256;
/// Classes below the first octave.
const FINE_CLASSES: u32 = 12;

/// The class whose slots are the smallest that hold `bytes`, 1 to 2^31.
#[inline(always)]
#[must_use]
pub const fn class_of(bytes: u32) -> u32 {
    let last = bytes - 1;
    if bytes <= SIXTEENS_END {
        last >> 4
    } else if bytes <= THIRTY_TWOS_END {
        8 + ((last - SIXTEENS_END) >> 5)
    } else {
        let exponent = last.ilog2();
        FINE_CLASSES + (exponent - 8) * 8 + ((last >> (exponent - 3)) & 7)
    }
}

/// `(multiplier, shift)` of a class: its slot size is `multiplier << shift`.
#[inline(always)]
#[must_use]
pub const fn parts(class: u32) -> (u32, u32) {
    if class < 8 {
        (2 * (class + 1), 3)
    } else if class < FINE_CLASSES {
        (class - 3, 5)
    } else {
        let octave = class - FINE_CLASSES;
        (9 + (octave & 7), 5 + (octave >> 3))
    }
}

/// Slot size of a class in bytes.
#[inline(always)]
#[must_use]
pub const fn slot_bytes(class: u32) -> u32 {
    let (multiplier, shift) = parts(class);
    multiplier << shift
}

/// Largest power of two that all multiples of the slot size are multiples of.
#[must_use]
pub const fn alignment(class: u32) -> u32 {
    1 << slot_bytes(class).trailing_zeros()
}

/// Binary logarithm of a power of two that is at least the slot size, and less than twice of it
/// above 256 bytes.
#[inline(always)]
#[must_use]
pub const fn slot_log2(class: u32) -> u32 {
    if class < FINE_CLASSES {
        8
    } else {
        9 + ((class - FINE_CLASSES) >> 3)
    }
}

/// `ceil(2^32 / multiplier)`, by which [`divide`] divides by multiplication.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the multiplier is at least 2"
)]
pub const fn reciprocal(multiplier: u32) -> u32 {
    (1_u64 << 32).div_ceil(multiplier as u64) as u32
}

/// `number / multiplier` by a multiplication; exact for numbers below 2^28 and multipliers of 2
/// to 16, because the reciprocal's error times the number stays below 2^32.
#[inline(always)]
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the quotient is smaller than the number"
)]
pub const fn divide(number: u32, reciprocal: u32) -> u32 {
    ((number as u64 * reciprocal as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_the_smallest_slot_that_holds_it() {
        for bytes in 1..=1 << 18 {
            let class = class_of(bytes);
            assert!(slot_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes}");
        }
    }

    #[test]
    fn rounding_wastes_what_the_module_says() {
        for bytes in 1..=1 << 18 {
            let slot = slot_bytes(class_of(bytes));
            let waste = slot - bytes;
            match bytes {
                0..=64 => assert!(waste < 16, "{bytes}"),
                65..=256 => assert!(4 * waste < slot, "{bytes}"),
                _ => assert!(8 * waste < slot, "{bytes}"),
            }
        }
    }

    #[test]
    fn slots_are_multiples_of_sixteen_bytes() {
        assert!((0..172).all(|class| slot_bytes(class).is_multiple_of(16)));
    }

    #[test]
    fn division_is_exact() {
        for class in 0..172 {
            let (multiplier, _) = parts(class);
            let reciprocal = reciprocal(multiplier);
            for number in (0..1 << 16).chain((1 << 28) - 1000..1 << 28) {
                assert_eq!(divide(number, reciprocal), number / multiplier);
            }
        }
    }
}
