//! The content of a block: a pattern made of its owner's number, so that a byte that another
//! thread wrote is noticed.
//!
//! Up to 4 KiB every byte is written and checked; of larger blocks the first and last 512 bytes
//! and one word of eight between, of blocks above 64 KiB one of 64.

use crate::sizes::mix;

/// Blocks up to this many bytes are filled wholly.
const WHOLE: u64 = 4096;
/// Words at either end of a larger block that are filled wholly.
const EDGE: u64 = 64;
/// Between the edges, one word of this many is filled.
const SAMPLE: u64 = 8;
/// Blocks above this many bytes are sampled more sparsely.
const LARGE: u64 = 64 << 10;
/// Between their edges, one word of this many is filled.
const SPARSE_SAMPLE: u64 = 64;

/// The word `index` of a block of `owner`.
#[inline]
fn word(owner: u64, index: u64) -> u64 {
    (owner ^ index.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Calls `act` with each word index below `end` of a block of `bytes` bytes that is filled.
#[inline]
fn for_each_word(bytes: u64, end: u64, mut act: impl FnMut(u64)) {
    let words = bytes / 8;
    let sample = if bytes > LARGE { SPARSE_SAMPLE } else { SAMPLE };
    let mut index = 0;
    while index < words.min(end) {
        act(index);
        let inside = bytes > WHOLE && index >= EDGE && index + EDGE + sample < words;
        index += if inside { sample } else { 1 };
    }
}

/// Fills a block.
///
/// # Safety
///
/// `block` must have `bytes` bytes that are the caller's, aligned to 8 bytes.
#[inline]
pub unsafe fn fill(block: *mut u8, bytes: u64, owner: u64) {
    let owner = mix(owner);
    for_each_word(bytes, bytes / 8, |index| {
        // SAFETY: the word lies in the block.
        unsafe {
            block
                .cast::<u64>()
                .add(index as usize)
                .write(word(owner, index));
        };
    });
    for offset in bytes & !7..bytes {
        // SAFETY: the byte lies in the block.
        unsafe { block.add(offset as usize).write(owner as u8) };
    }
}

/// Whether a block is as [`fill`] left it.
///
/// # Safety
///
/// As for [`fill`].
#[inline]
#[must_use]
pub unsafe fn is_intact(block: *const u8, bytes: u64, owner: u64) -> bool {
    let owner = mix(owner);
    let mut intact = true;
    for_each_word(bytes, bytes / 8, |index| {
        // SAFETY: the word lies in the block.
        let found = unsafe { block.cast::<u64>().add(index as usize).read() };
        intact &= found == word(owner, index);
    });
    for offset in bytes & !7..bytes {
        // SAFETY: the byte lies in the block.
        intact &= unsafe { block.add(offset as usize).read() } == owner as u8;
    }
    intact
}

/// Whether the first `kept` bytes of a block are as [`fill`] left them when it had `bytes` bytes, which may be more.
///
/// # Safety
///
/// `block` must have `kept` bytes that are the caller's, aligned to 8 bytes.
#[inline]
#[must_use]
pub unsafe fn is_intact_up_to(block: *const u8, kept: u64, bytes: u64, owner: u64) -> bool {
    let owner = mix(owner);
    let kept = kept.min(bytes);
    let mut intact = true;
    for_each_word(bytes, kept.div_ceil(8), |index| {
        let expected = word(owner, index);
        if index < kept / 8 {
            // SAFETY: the word lies in the block.
            intact &= unsafe { block.cast::<u64>().add(index as usize).read() } == expected;
        } else {
            // The block ends within the word.
            for offset in 8 * index..kept {
                // SAFETY: the byte lies in the block.
                let found = unsafe { block.add(offset as usize).read() };
                intact &= found == (expected >> (8 * (offset % 8))) as u8;
            }
        }
    });
    for offset in bytes & !7..kept {
        // SAFETY: the byte lies in the block.
        intact &= unsafe { block.add(offset as usize).read() } == owner as u8;
    }
    intact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_of_a_small_block_is_noticed() {
        for bytes in [1_usize, 7, 8, 100, 4096] {
            let mut block = vec![0_u64; bytes.div_ceil(8)];
            let pointer = block.as_mut_ptr().cast::<u8>();
            // SAFETY: the block has that many bytes.
            unsafe {
                fill(pointer, bytes as u64, 42);
                assert!(is_intact(pointer, bytes as u64, 42));
                assert!(!is_intact(pointer, bytes as u64, 43));
                for offset in 0..bytes {
                    *pointer.add(offset) ^= 1;
                    assert!(!is_intact(pointer, bytes as u64, 42), "{offset} of {bytes}");
                    *pointer.add(offset) ^= 1;
                }
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_block_is_compared_to_its_end() {
        for bytes in [7_usize, 100, 4096, 4099, 70_005] {
            let mut block = vec![0_u64; bytes.div_ceil(8)];
            let pointer = block.as_mut_ptr().cast::<u8>();
            for kept in [0, 1, 7, 8, 13, 512, 515, 4096, 69_999, 70_005] {
                let last = kept.min(bytes);
                // SAFETY: the block has that many bytes.
                unsafe {
                    fill(pointer, bytes as u64, 42);
                    let intact = || is_intact_up_to(pointer, kept as u64, bytes as u64, 42);
                    assert!(intact(), "{kept} of {bytes}");
                    // What is behind is not looked at.
                    for offset in last..bytes {
                        *pointer.add(offset) ^= 1;
                    }
                    assert!(intact(), "{kept} of {bytes}");
                    // The last one is filled, in these.
                    if last > 0 && (bytes <= 4096 || last == bytes || last <= 512) {
                        *pointer.add(last - 1) ^= 1;
                        assert!(!intact(), "{kept} of {bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_blocks_are_sampled_densely_and_at_both_ends() {
        let bytes = 60_003;
        let mut touched = vec![false; 60_003 / 8];
        for_each_word(bytes, bytes / 8, |index| {
            touched[usize::try_from(index).expect("small")] = true;
        });
        assert!(
            touched[..64].iter().all(|is| *is)
                && touched[touched.len() - 64..].iter().all(|is| *is)
        );
        assert!(touched.iter().filter(|is| **is).count() * 10 > touched.len());
    }
}
