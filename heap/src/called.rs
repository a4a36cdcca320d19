//! The malloc family for functions that are called.
//!
//! A function that is called must keep registers of its caller, for each thread in local memory: as many as it needs for what lives across calls of its own. So
//! these leave what is rare to few calls, after which hardly anything is to be done. And those that allocate or free themselves copy the handle, for else each of its
//! fields would be read where it is needed, from L2 behind an acquire. What that spares is measured in `docs/experiments.md`.

use crate::cold;
use crate::contents::fill_with_zero;
use crate::heap::Heap;
use crate::malloc::{Slot, USUAL_ALIGNMENT};
use core::ptr;
use simt::with_active_lanes;

impl Heap {
    /// [`malloc_tagged`](Self::malloc_tagged) for a function that is called: warps that want several classes, of which some draw no row, are served in another.
    #[inline(always)]
    #[must_use]
    pub fn malloc_called(&self, bytes: u64, site: u32) -> *mut u8 {
        let heap = *self;
        if heap.is_rarer(bytes) {
            return cold::malloc_rarer(&heap, heap.mark, bytes, 1, site);
        }
        heap.malloc_slot_called(heap.slot_for(bytes), bytes)
    }

    /// [`aligned_alloc`](Self::aligned_alloc) of `bytes` bytes for a function that is called, at a multiple of `alignment`, a power of two.
    #[inline(always)]
    #[must_use]
    pub fn aligned_called(&self, bytes: u64, alignment: u64) -> *mut u8 {
        let heap = *self;
        let slot = if alignment > USUAL_ALIGNMENT {
            let Some(class) = heap.aligned_class(bytes, alignment, heap.fast_limit) else {
                return cold::malloc_rarer(&heap, heap.mark, bytes, alignment, 0);
            };
            Slot::aligned(class, alignment, heap.most_stripes())
        } else {
            if heap.is_rarer(bytes) {
                return cold::malloc_rarer(&heap, heap.mark, bytes, alignment, 0);
            }
            heap.slot_for(bytes)
        };
        heap.malloc_slot_called(slot, bytes)
    }

    #[inline(always)]
    fn malloc_slot_called(&self, slot: Slot, bytes: u64) -> *mut u8 {
        let through = slot.wish.through(self.mark);
        with_active_lanes!(lanes => self.malloc_rows(lanes, slot, through, bytes))
    }

    /// [`calloc`](Self::calloc) for a function that is called.
    #[inline(always)]
    #[must_use]
    pub fn calloc_called(&self, count: u64, size: u64) -> *mut u8 {
        match self.product(count, size) {
            Some(bytes) => self.zeroed_called(bytes, 1),
            None => ptr::null_mut(),
        }
    }

    /// [`aligned_called`](Self::aligned_called), and all bytes are zero.
    #[inline(always)]
    #[must_use]
    pub fn zeroed_called(&self, bytes: u64, alignment: u64) -> *mut u8 {
        if self.flags != 0 {
            return cold::hardened_malloc(self, self.mark, bytes, alignment, 0, true);
        }
        let block = self.aligned_called(bytes, alignment);
        if !block.is_null() {
            // SAFETY: the block has that many bytes, rounded up to 16, and is aligned so; it is this thread's alone.
            unsafe { fill_with_zero(block, bytes) };
        }
        block
    }

    /// [`free`](Self::free) for a function that is called: nothing lives across a call, since whatever is rare is left to one at the end, which all lanes that came
    /// together make if one of them must.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(always)]
    pub unsafe fn free_called(&self, pointer: *mut u8) {
        let heap = *self;
        with_active_lanes!(lanes => heap.free_but_rest(lanes, pointer as u64));
    }

    /// [`realloc`](Self::realloc) for a function that is called: to get the new block and to give the old one back are calls.
    ///
    /// # Safety
    ///
    /// As for [`realloc`](Self::realloc).
    #[inline(always)]
    pub unsafe fn realloc_called(&self, pointer: *mut u8, bytes: u64) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { self.realloc_by::<true>(pointer, bytes) }
    }

    /// [`aligned_called`](Self::aligned_called), called.
    #[inline(never)]
    pub(crate) fn malloc_out_of_line(&self, bytes: u64, alignment: u64) -> *mut u8 {
        self.aligned_called(bytes, alignment)
    }

    /// [`free_called`](Self::free_called), called.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(never)]
    pub(crate) unsafe fn free_out_of_line(&self, pointer: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { self.free_called(pointer) };
    }
}
