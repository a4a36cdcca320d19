//! The rest of the malloc family: zeroed, aligned, resized.

use crate::class;
use crate::cold;
use crate::contents::{copy, fill_with_zero};
use crate::counters::Failure;
use crate::entry::Kind;
use crate::heap::Heap;
use crate::malloc::{Slot, USUAL_ALIGNMENT};
use core::alloc::Layout as Request;
use core::ptr;
use simt::atomic::Ordering;

impl Heap {
    /// Allocates `count * size` bytes, all zero. NULL as for [`malloc`](Self::malloc), and when
    /// the product overflows.
    #[inline]
    #[must_use]
    pub fn calloc(&self, count: u64, size: u64) -> *mut u8 {
        let Some(bytes) = self.product(count, size) else {
            return ptr::null_mut();
        };
        if self.flags != 0 {
            return cold::hardened_malloc(self, self.mark, bytes, 1, 0, true);
        }
        let block = self.malloc(bytes);
        if !block.is_null() {
            // SAFETY: the block has that many bytes and is this thread's alone. Blocks are
            // multiples of 16 bytes, and aligned so.
            unsafe { fill_with_zero(block, bytes) };
        }
        block
    }

    /// `count * size`; none if that overflows, which is counted.
    #[inline(always)]
    pub(crate) fn product(&self, count: u64, size: u64) -> Option<u64> {
        let bytes = count.checked_mul(size);
        if bytes.is_none() {
            self.core()
                .run_counters()
                .count_failures(Failure::Impossible, 1);
        }
        bytes
    }

    /// Allocates for a `core::alloc::Layout`: any power of two of alignment, also beyond the page
    /// size. NULL as for [`malloc`](Self::malloc).
    #[inline]
    #[must_use]
    pub fn aligned_alloc(&self, request: Request) -> *mut u8 {
        let (bytes, alignment) = (request.size() as u64, request.align() as u64);
        if alignment <= USUAL_ALIGNMENT {
            return self.malloc(bytes);
        }
        match self.aligned_class(bytes, alignment, self.fast_limit) {
            Some(class) => {
                let slot = Slot::aligned(class, alignment, self.most_stripes());
                self.malloc_slot(slot, bytes)
            }
            None => cold::malloc_rarer(self, self.mark, bytes, alignment, 0),
        }
    }

    /// The smallest class whose slots hold `bytes`, are all multiples of `alignment` and have at most `largest` bytes, a power of two.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked against the largest slot"
    )]
    pub(crate) fn aligned_class(&self, bytes: u64, alignment: u64, largest: u32) -> Option<u32> {
        let least = bytes.max(alignment);
        if bytes == 0 || alignment > 1 << self.page_shift || least > u64::from(largest) {
            return None;
        }
        // A power of two follows within an octave, and serves every smaller alignment.
        (class::class_of(least as u32)..=class::class_of(largest))
            .find(|class| u64::from(class::slot_bytes(*class)) & (alignment - 1) == 0)
    }

    /// Bytes that the block at `pointer` has, at least as many as were asked for, and just as many
    /// in a heap with framed blocks; 0 if it is no block of this heap.
    #[must_use]
    pub fn usable_size(&self, pointer: *const u8) -> u64 {
        let address = pointer as u64;
        if self.flags != 0 {
            return cold::hardened_usable_size(self, self.mark, address);
        }
        self.plain_usable_size(address)
    }

    /// `usable_size` of a heap without modes.
    pub(crate) fn plain_usable_size(&self, address: u64) -> u64 {
        let Some((page, entry)) = self.look_up(address) else {
            return 0;
        };
        let head = entry.head(page);
        let bytes = match entry.kind_of(self.mark) {
            Kind::Slab => match entry.slot_at(self.offset_in_slab(head, address)) {
                Some(slot) if self.is_handed_out(head, slot) => {
                    u64::from(class::slot_bytes(entry.class()))
                }
                _ => 0,
            },
            Kind::Run if self.page_address(page) == address => {
                u64::from(entry.run_pages()) << self.page_shift
            }
            _ => 0,
        };
        // More than the heap has there only if the entry is damaged.
        let room = self.capacity - (address - self.base);
        if bytes <= room { bytes } else { 0 }
    }

    pub(crate) fn is_handed_out(&self, head: u32, slot: u32) -> bool {
        // Relaxed: the bit is the caller's own while the block is.
        let index = self.slot_word_index(head, slot);
        self.has_slot_word(index)
            && self.slot_word(index).load(Ordering::Relaxed) & 1 << (slot & 31) != 0
    }

    /// Gives a block of `bytes` bytes that begins as the block at `pointer` did: the same block
    /// where it fits and wastes less than half, or where nothing smaller is left, else a new one.
    /// NULL for `pointer` is `malloc`; 0 bytes is `free` and gives NULL. If NULL is given for other
    /// sizes, the old block stays. What is no block gives NULL, and is counted as `free` does.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free); if another pointer is given, the old one is dead.
    #[inline]
    pub unsafe fn realloc(&self, pointer: *mut u8, bytes: u64) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { self.realloc_by::<false>(pointer, bytes) }
    }

    /// [`realloc`](Self::realloc), which gets the new block by a call, and gives the old one back by one, or does both in line.
    ///
    /// # Safety
    ///
    /// As for [`realloc`](Self::realloc).
    #[inline]
    pub(crate) unsafe fn realloc_by<const CALLS: bool>(
        &self,
        pointer: *mut u8,
        bytes: u64,
    ) -> *mut u8 {
        if pointer.is_null() {
            return self.malloc_by::<CALLS>(bytes);
        }
        if self.flags != 0 {
            return cold::hardened_realloc(self, pointer as u64, bytes, self.mark);
        }
        if bytes == 0 {
            // SAFETY: as the caller promises.
            unsafe { self.free_by::<CALLS>(pointer) };
            return ptr::null_mut();
        }
        let usable = self.plain_usable_size(pointer as u64);
        if usable == 0 {
            cold::refuse(self, self.mark, pointer as u64);
            return ptr::null_mut();
        }
        if bytes <= usable && usable - bytes <= usable / 2 {
            return pointer;
        }
        let block = self.malloc_by::<CALLS>(bytes);
        if !block.is_null() {
            // SAFETY: both blocks have that many bytes, rounded up to 16, and are aligned so; they
            // are different blocks, and the old one dies here as the caller promises.
            unsafe {
                copy(pointer, block, bytes.min(usable));
                self.free_by::<CALLS>(pointer);
            }
        } else if bytes <= usable {
            // Nothing smaller is left (which is counted): the old block will do.
            return pointer;
        }
        block
    }

    #[inline(always)]
    fn malloc_by<const CALLS: bool>(&self, bytes: u64) -> *mut u8 {
        if CALLS {
            self.malloc_out_of_line(bytes, 1)
        } else {
            self.malloc(bytes)
        }
    }

    /// Frees a block of a heap without modes.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(always)]
    unsafe fn free_by<const CALLS: bool>(&self, pointer: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe {
            if CALLS {
                self.free_out_of_line(pointer);
            } else {
                self.plain_free(pointer as u64);
            }
        }
    }
}
