//! The header of a framed block, and its seal.

use bytemuck::{Pod, Zeroable};
#[cfg(not(any(loom, shuttle)))]
use simt::atomic::DeviceAtomicU64 as Word;

/// Explorers' atomics cannot lie in user memory: there the seal is no scheduling point.
#[cfg(any(loom, shuttle))]
use core::sync::atomic::AtomicU64 as Word;
use core::sync::atomic::Ordering;

/// Bytes of a header.
pub const BYTES: u64 = size_of::<Header>() as u64;
/// Where the distance stands.
const DISTANCE_SHIFT: u32 = 56;

/// A header as it lies at the beginning of a slot or run. A copy of the memory can be read as one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// Bytes asked for, and the binary logarithm of the distance to the user's pointer in the top 8
    /// bits.
    shape: u64,
    /// Seal (low half) and site.
    state: u64,
}

/// What a seal says of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live = 1,
    Freed = 2,
}

impl Header {
    /// A live block of `bytes` bytes, `distance` (a power of two) behind `slot`.
    pub(super) fn live(slot: u64, bytes: u64, distance: u64, site: u32, generation: u32) -> Self {
        let shape = bytes | u64::from(distance.trailing_zeros()) << DISTANCE_SHIFT;
        Self { shape, state: 0 }.with(slot, site, Life::Live, generation)
    }

    /// The same shape with a seal.
    fn with(self, slot: u64, site: u32, life: Life, generation: u32) -> Self {
        let seal = self.seal(slot, site, life, generation);
        Self {
            shape: self.shape,
            state: u64::from(site) << 32 | u64::from(seal),
        }
    }

    /// A hash of all that the seal is to protect.
    #[allow(clippy::cast_possible_truncation, reason = "the best bits of a hash")]
    fn seal(self, slot: u64, site: u32, life: Life, generation: u32) -> u32 {
        let mut hash = slot ^ self.shape.rotate_left(32);
        hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^= u64::from(site) << 16 ^ u64::from(generation) << 48 ^ life as u64;
        hash = (hash ^ hash >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
        (hash >> 32) as u32
    }

    fn is(self, life: Life, slot: u64, generation: u32) -> bool {
        self == self.with(slot, self.site(), life, generation)
    }

    /// Whether this is the header of a live block, undamaged, of the slot or run at `slot` in a heap
    /// of generation `generation`.
    #[must_use]
    pub fn is_live(self, slot: u64, generation: u32) -> bool {
        self.is(Life::Live, slot, generation)
    }

    /// The same of a block that was freed.
    #[must_use]
    pub fn is_freed(self, slot: u64, generation: u32) -> bool {
        self.is(Life::Freed, slot, generation)
    }

    /// The same header, freed.
    pub(super) fn freed(self, slot: u64, generation: u32) -> Self {
        self.with(slot, self.site(), Life::Freed, generation)
    }

    /// Bytes asked for.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.shape & ((1 << DISTANCE_SHIFT) - 1)
    }

    /// Bytes from the beginning of the slot to the user's pointer.
    #[must_use]
    pub fn distance(self) -> u64 {
        1 << (self.shape >> DISTANCE_SHIFT & 63)
    }

    /// The site that asked.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
    pub fn site(self) -> u32 {
        (self.state >> 32) as u32
    }

    /// The header at the beginning of a slot.
    ///
    /// # Safety
    ///
    /// The slot must be one of a framed heap.
    pub(super) unsafe fn read(slot: u64) -> Self {
        // SAFETY: a slot has a header, and is aligned to 16 bytes.
        unsafe {
            Self {
                shape: (slot as *const u64).read(),
                // Relaxed: of a block that the caller was given nothing else changes.
                state: Self::state_at(slot).load(Ordering::Relaxed),
            }
        }
    }

    /// Writes the header at the beginning of a slot.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read); the slot must be the caller's.
    pub(super) unsafe fn write(self, slot: u64) {
        // SAFETY: as for `read`.
        unsafe {
            (slot as *mut u64).write(self.shape);
            // Relaxed: the block is handed on by the user's synchronisation, and freed by ours.
            Self::state_at(slot).store(self.state, Ordering::Relaxed);
        }
    }

    /// Replaces the state of a slot's header by that of `next`, if it still is this one's.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read).
    pub(super) unsafe fn become_in(self, slot: u64, next: Self) -> bool {
        let (from, to) = (self.state, next.state);
        // SAFETY: as the caller promises.
        let state = unsafe { Self::state_at(slot) };
        // Relaxed: only who of several frees the block is decided here.
        state
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// # Safety
    ///
    /// As for [`read`](Self::read).
    unsafe fn state_at<'a>(slot: u64) -> &'a Word {
        // SAFETY: as the caller promises; the word is aligned.
        unsafe { &*((slot + 8) as *const Word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_all_that_is_in_the_header() {
        let header = Header::live(4096, 100, 64, 7, 3);
        assert_eq!(
            (header.bytes(), header.distance(), header.site()),
            (100, 64, 7)
        );
        assert!(header.is_live(4096, 3) && !header.is_freed(4096, 3));
        assert!(!header.is_live(4112, 3) && !header.is_live(4096, 4));
        let freed = header.freed(4096, 3);
        assert!(freed.is_freed(4096, 3) && !freed.is_live(4096, 3));
        assert_eq!((freed.bytes(), freed.site()), (100, 7));
        for bit in 0..128 {
            let mut words: [u64; 2] = bytemuck::cast(header);
            words[bit / 64] ^= 1 << (bit % 64);
            let damaged: Header = bytemuck::cast(words);
            assert!(!damaged.is_live(4096, 3), "bit {bit}");
        }
    }
}
