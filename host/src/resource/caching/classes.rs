//! Size classes: multiples of 256 B up to 4 KiB, then 16 for each power of two up to 64 KiB, then 64. So
//! rounding adds a sixteenth at most, and a sixty-fourth where most bytes are.

use super::super::DEFAULT_ALIGNMENT;

/// Classes for each power of two up to [`FINE_UNITS`].
const STEPS: u64 = 16;
/// Classes for each power of two beyond.
const FINE_STEPS: u64 = 64;
/// See [`nearest`]: six sixteenths more at most, or three sixty-fourths where most bytes are.
const NEAREST: usize = 6;
const FINE_NEAREST: usize = 3;
/// As many more classes have blocks of up to half as much again.
const ROOMY: usize = 32;
/// Blocks of more bytes are large: few of them are live at once, so that their sizes hardly ever come again.
const MOST_SMALL: u64 = 1 << 20;
/// Units of 256 B from which on there are more classes.
const FINE_UNITS: u64 = 256;
/// The class of one unit more.
const FINE_CLASS: u64 = STEPS * (FINE_UNITS / STEPS).ilog2() as u64 + STEPS;
/// How far units are shifted in that class.
const FINE_SHIFT: u64 = (FINE_UNITS / FINE_STEPS).ilog2() as u64;

/// The class of blocks that have room for so many bytes, at least one.
#[inline]
pub(super) fn class_of(bytes: u64) -> usize {
    let before = (bytes - 1) / DEFAULT_ALIGNMENT;
    let class = if before < STEPS {
        before
    } else if before < FINE_UNITS {
        let shift = before.ilog2() - STEPS.ilog2();
        STEPS * u64::from(shift) + (before >> shift)
    } else {
        let shift = before.ilog2() - FINE_STEPS.ilog2();
        let power = u64::from(shift) - FINE_SHIFT;
        FINE_CLASS + FINE_STEPS * power + (before >> shift) - FINE_STEPS
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "64 powers of two, 64 classes each"
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
    } else if class < FINE_CLASS {
        let shift = class / STEPS - 1;
        (class % STEPS + STEPS + 1) << shift
    } else {
        let (power, step) = (
            (class - FINE_CLASS) / FINE_STEPS,
            (class - FINE_CLASS) % FINE_STEPS,
        );
        (step + FINE_STEPS + 1) << (power + FINE_SHIFT)
    };
    units * DEFAULT_ALIGNMENT
}

/// How many larger classes have blocks that do for a class as well, as they are larger by little.
#[inline]
pub(super) fn nearest(class: usize) -> usize {
    let class = class as u64;
    if class < STEPS {
        0
    } else if class < FINE_CLASS {
        NEAREST
    } else {
        FINE_NEAREST
    }
}

/// The first class of large blocks, which may serve requests that are smaller by more than little. That
/// is waste, which is counted (`allowance.rs`).
#[inline]
pub(super) fn first_large() -> usize {
    class_of(MOST_SMALL + 1)
}

/// How many larger classes have blocks that do for a class, if waste is allowed.
#[inline]
pub(super) fn reach(class: usize) -> usize {
    if class >= first_large() {
        ROOMY
    } else {
        nearest(class)
    }
}

/// Bytes of a block that are waste which counts, if its class is so many beyond that of its request.
#[inline]
pub(super) fn waste(class: usize, beyond: usize) -> u64 {
    if beyond > nearest(class) {
        bytes_of(class + beyond) - bytes_of(class)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_blocks_are_roomy_and_only_what_is_beyond_near_is_waste() {
        let large = class_of(8 << 20);
        assert_eq!(reach(class_of(1 << 20)), nearest(class_of(1 << 20)));
        assert_eq!(bytes_of(large + reach(large)), 12 << 20);
        assert_eq!(waste(large, nearest(large)), 0);
        assert_eq!(waste(large, reach(large)), 4 << 20);
    }

    #[test]
    fn a_class_is_the_smallest_with_room() {
        let mut before = 0;
        for class in 0..1400 {
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
        assert_eq!(bytes_of(class_of((1 << 20) + 1)), (1 << 20) + (1 << 14));
    }
}
