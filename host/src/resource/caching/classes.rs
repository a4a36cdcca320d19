//! Size classes: multiples of 256 B up to 4 KiB, then 16 for each power of two, so that rounding adds
//! a sixteenth at most.

use super::super::DEFAULT_ALIGNMENT;

/// Classes for each power of two.
const STEPS: u64 = 16;

/// The class of blocks that have room for so many bytes, at least one.
#[inline]
pub(super) fn class_of(bytes: u64) -> usize {
    let before = (bytes - 1) / DEFAULT_ALIGNMENT;
    let class = if before < STEPS {
        before
    } else {
        let shift = before.ilog2() - STEPS.ilog2();
        STEPS * u64::from(shift) + (before >> shift)
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "64 powers of two, 16 classes each"
    )]
    {
        class as usize
    }
}

/// Bytes of the blocks of a class.
#[inline]
pub(super) fn bytes_of(class: usize) -> u64 {
    let class = class as u64;
    let units = if class < STEPS {
        class + 1
    } else {
        let shift = class / STEPS - 1;
        (class % STEPS + STEPS + 1) << shift
    };
    units * DEFAULT_ALIGNMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_with_room() {
        let mut before = 0;
        for class in 0..300 {
            let bytes = bytes_of(class);
            assert!(bytes > before);
            assert_eq!(class_of(before + 1), class);
            assert_eq!(class_of(bytes), class);
            assert!(
                class < 16 || (bytes - before) * 16 <= before,
                "{before} to {bytes}"
            );
            before = bytes;
        }
        assert_eq!(bytes_of(0), 256);
        assert_eq!(bytes_of(class_of(1 << 20)), 1 << 20);
        assert_eq!(bytes_of(class_of((1 << 20) + 1)), (1 << 20) + (1 << 16));
    }
}
