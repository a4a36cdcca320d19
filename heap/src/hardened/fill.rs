//! Filling memory with a byte, and looking whether it still is: words where it is aligned.
//!
//! All accesses are plain. What is looked for are writes that should not be there; one that comes
//! while it is looked for is seen or not, as it happens, and the next look sees it.

use super::POISON;
use super::header::{BYTES, Header};
use core::mem::MaybeUninit;

/// A word of a byte.
const fn word(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Where the aligned words between two addresses begin and end.
fn words(begin: u64, end: u64) -> (u64, u64) {
    let first = ((begin + 7) & !7).min(end);
    (first, (end & !7).max(first))
}

/// Fills the bytes from `begin` to `end`.
///
/// # Safety
///
/// They must be the caller's to write.
pub(super) unsafe fn fill(begin: u64, end: u64, byte: u8) {
    let (first, last) = words(begin, end);
    // SAFETY: each byte and word lies between `begin` and `end`.
    unsafe {
        let mut at = begin;
        while at < first {
            (at as *mut u8).write(byte);
            at += 1;
        }
        while at < last {
            (at as *mut u64).write(word(byte));
            at += 8;
        }
        while at < end {
            (at as *mut u8).write(byte);
            at += 1;
        }
    }
}

/// Whether the bytes from `begin` to `end` are all `byte`.
///
/// # Safety
///
/// They must be readable.
pub(super) unsafe fn is_filled(begin: u64, end: u64, byte: u8) -> bool {
    let (first, last) = words(begin, end);
    let mut difference = 0;
    // SAFETY: as in `fill`.
    unsafe {
        let mut at = begin;
        while at < first {
            difference |= u64::from((at as *const u8).read() ^ byte);
            at += 1;
        }
        while at < last {
            difference |= (at as *const u64).read() ^ word(byte);
            at += 8;
        }
        while at < end {
            difference |= u64::from((at as *const u8).read() ^ byte);
            at += 1;
        }
    }
    difference == 0
}

/// Bytes that are looked at at once: their loads wait for the memory together.
const AT_ONCE: u64 = 8 * WORDS as u64;
/// Words of them.
const WORDS: usize = 16;

/// Whether the `AT_ONCE` bytes from `begin` on, a multiple of 8, are all poison.
///
/// # Safety
///
/// They must be readable.
#[inline(always)]
unsafe fn are_poison(begin: u64) -> bool {
    // SAFETY: as the caller promises.
    let words = unsafe { (begin as *const [u64; WORDS]).read() };
    words
        .iter()
        .fold(0, |all, read| all | (read ^ word(POISON)))
        == 0
}

/// Whether the bytes from `begin` to `end`, multiples of 16, are poison. Headers of blocks that were
/// freed there may be among them: those of a slab that was here before lie elsewhere.
///
/// # Safety
///
/// They must be readable, and of a framed heap of generation `generation`.
pub(super) unsafe fn is_poison(begin: u64, end: u64, generation: u32) -> bool {
    let mut at = begin;
    while at < end {
        // SAFETY: as the caller promises.
        let step = unsafe {
            if at + AT_ONCE <= end && are_poison(at) {
                AT_ONCE
            } else if is_filled(at, at + BYTES, POISON) || Header::read(at).is_freed(at, generation)
            {
                BYTES
            } else {
                return false;
            }
        };
        at += step;
    }
    true
}

/// Bytes that may be anything, padding and what nobody has written too.
type Eight = MaybeUninit<u64>;
type One = MaybeUninit<u8>;

/// Copies bytes, aligned to 8 bytes where they begin.
///
/// # Safety
///
/// As for `ptr::copy_nonoverlapping`.
pub(super) unsafe fn copy(from: u64, to: u64, bytes: u64) {
    let mut offset = 0;
    // SAFETY: as the caller promises.
    unsafe {
        while offset + 8 <= bytes {
            ((to + offset) as *mut Eight).write(((from + offset) as *const Eight).read());
            offset += 8;
        }
        while offset < bytes {
            ((to + offset) as *mut One).write(((from + offset) as *const One).read());
            offset += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_between_is_filled_and_no_other() {
        for begin in 0..20 {
            for end in begin..40 {
                let mut memory = [0_u64; 6];
                let base = memory.as_mut_ptr() as u64;
                // SAFETY: all lies in the memory.
                unsafe {
                    fill(base + begin, base + end, 0xaa);
                    assert!(is_filled(base + begin, base + end, 0xaa));
                    assert!(
                        is_filled(base, base + begin, 0) && is_filled(base + end, base + 48, 0)
                    );
                    for at in begin..end {
                        *((base + at) as *mut u8) ^= 1;
                        assert!(!is_filled(base + begin, base + end, 0xaa));
                        *((base + at) as *mut u8) ^= 1;
                    }
                }
            }
        }
    }
}
