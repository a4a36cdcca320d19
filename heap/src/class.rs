//! Size classes: which slot size serves a request.
//!
//! Slots are multiples of 16 bytes up to 256, and then eight to a doubling: 288, 320, … 512, 576 and
//! so on. A slot is larger than its request by at most 15 bytes up to 256 B, and by less than an
//! eighth of itself beyond.
//!
//! All is arithmetic without a branch or a table, since every `malloc` asks.

/// Classes that any heap has at most. Class numbers fit 8 bits.
pub const MAX_CLASSES: u32 = 176;

/// Classes of an octave: sizes from one power of two to the next.
pub const OCTAVE: u32 = 8;
/// Sizes below two to this have the same steps.
const FINE_LOG2: u32 = 7;

/// The class whose slots are the smallest that hold `bytes`, 1 to 2^31.
#[inline(always)]
#[must_use]
#[allow(
    clippy::manual_ilog2,
    reason = "ilog2 would bring a panic into every malloc"
)]
pub const fn class_of(bytes: u32) -> u32 {
    let last = bytes - 1;
    let log2 = 31 - (last | 1 << FINE_LOG2).leading_zeros();
    (log2 - FINE_LOG2) * OCTAVE + (last >> (log2 - 3))
}

/// Slot size in bytes of the class of `bytes`, 1 to 2^31. Where the class is needed too it is cheaper than [`slot_bytes`].
#[inline(always)]
#[must_use]
#[allow(
    clippy::manual_ilog2,
    reason = "ilog2 would bring a panic into every malloc"
)]
pub const fn slot_bytes_for(bytes: u32) -> u32 {
    let last = bytes - 1;
    let step_log2 = 31 - (last | 1 << FINE_LOG2).leading_zeros() - 3;
    ((last >> step_log2) + 1) << step_log2
}

/// The octave that a class counts as. Those up to 256 bytes have the same steps, and are one.
#[inline(always)]
#[must_use]
pub const fn octave(class: u32) -> u32 {
    let octave = class / OCTAVE;
    if octave > 1 { octave } else { 1 }
}

/// Slot size of a class in bytes; any number for one that no heap has.
#[inline(always)]
#[must_use]
pub const fn slot_bytes(class: u32) -> u32 {
    let octave = octave(class);
    (class + 1 - (octave - 1) * OCTAVE).wrapping_shl(octave + 3)
}

/// `(multiplier, shift)` of a class: its slot size is `multiplier << shift`, with a multiplier of 2
/// to 16. So dividing an offset by it is a shift and a multiplication.
#[must_use]
pub const fn parts(class: u32) -> (u32, u32) {
    let octave = octave(class);
    let steps = class + 1 - (octave - 1) * OCTAVE;
    if class < OCTAVE {
        (2 * steps, octave + 2)
    } else {
        (steps, octave + 3)
    }
}

/// Largest power of two that all multiples of the slot size are multiples of.
#[must_use]
pub const fn alignment(class: u32) -> u32 {
    1 << slot_bytes(class).trailing_zeros()
}

/// Binary logarithm of a power of two that is at least the slot size, and less than twice of it
/// above 256 bytes.
#[must_use]
pub const fn slot_log2(class: u32) -> u32 {
    octave(class) + FINE_LOG2
}

/// `ceil(2^32 / multiplier)`, by which [`divide`] divides by multiplication.
#[must_use]
pub const fn reciprocal(multiplier: u32) -> u32 {
    // Not of 64 bits, which is a call on a GPU.
    u32::MAX / multiplier + 1
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

/// [`divide`], and whether nothing remains: what the product has below the quotient is the remainder over the multiplier, rounded
/// up by less than one over the multiplier (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019).
#[inline(always)]
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
pub const fn divide_exactly(number: u32, reciprocal: u32) -> (u32, bool) {
    let product = number as u64 * reciprocal as u64;
    ((product >> 32) as u32, (product as u32) < reciprocal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_the_smallest_slot_that_holds_it() {
        for bytes in 1..=1 << 18 {
            let class = class_of(bytes);
            assert!(slot_bytes(class) >= bytes, "{bytes}");
            assert_eq!(slot_bytes_for(bytes), slot_bytes(class), "{bytes}");
            assert!(class == 0 || slot_bytes(class - 1) < bytes, "{bytes}");
        }
    }

    #[test]
    fn rounding_wastes_what_the_module_says() {
        for bytes in 1..=1 << 18 {
            let slot = slot_bytes(class_of(bytes));
            let waste = slot - bytes;
            match bytes {
                0..=256 => assert!(waste < 16, "{bytes}"),
                _ => assert!(8 * waste < slot, "{bytes}"),
            }
        }
    }

    #[test]
    fn slots_are_multiples_of_sixteen_bytes() {
        assert!((0..MAX_CLASSES).all(|class| slot_bytes(class).is_multiple_of(16)));
    }

    #[test]
    fn division_is_exact() {
        for class in 0..MAX_CLASSES {
            let (multiplier, _) = parts(class);
            let reciprocal = reciprocal(multiplier);
            for number in (0..1 << 16).chain((1 << 28) - 1000..1 << 28) {
                assert_eq!(divide(number, reciprocal), number / multiplier);
                let exact = (number / multiplier, number.is_multiple_of(multiplier));
                assert_eq!(divide_exactly(number, reciprocal), exact);
            }
        }
    }
}
