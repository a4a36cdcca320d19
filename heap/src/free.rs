//! Giving a block back: one atomic on the bitmap for each warp and word, one on the slab's use.
//!
//! The bitmap's old word tells for nothing whether the block was handed out: if its bit was
//! already 0, it was freed before or never allocated. Then nothing changed, and the misuse is
//! counted (`misuse`).

use crate::cold;
use crate::entry::Entry;
use crate::heap::Heap;
use crate::rewind::is_turn;
use crate::slab::{Slab, USE};
use simt::atomic::{Ordering, fence};
use simt::lanes::Lanes;
use simt::{warp, with_active_lanes};

impl Heap {
    /// Frees a block that this heap's `malloc` or its like gave; NULL is nothing to free. A
    /// pointer that is no block of this heap, or a block that is not handed out, changes nothing
    /// and is counted. Lanes may call in any divergence.
    ///
    /// # Safety
    ///
    /// Nobody may use the block after this begins. The pointer must have come to this thread by
    /// synchronisation (release and acquire, or a new launch), as with any `free`.
    #[inline(always)]
    pub unsafe fn free(&self, pointer: *mut u8) {
        if pointer.is_null() {
            return;
        }
        let address = pointer as u64;
        if self.flags != 0 {
            cold::hardened_free(self, address, self.mark);
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.plain_free(address) };
    }

    /// `free` of a heap without modes.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(always)]
    pub(crate) unsafe fn plain_free(&self, address: u64) {
        let Some((page, entry)) = self.look_up(address) else {
            cold::refuse(self, self.mark, address);
            return;
        };
        if entry.is_slab_of(self.mark) {
            self.free_slot(page, entry, address);
        } else {
            cold::free_other(self, self.mark, page, entry, address);
        }
    }

    /// Page and entry of an address, if it lies in the heap.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a page number is at most 2^17"
    )]
    pub(crate) fn look_up(&self, address: u64) -> Option<(u32, Entry)> {
        let offset = address.wrapping_sub(self.base);
        if offset >= self.capacity {
            return None;
        }
        let page = (offset >> self.page_shift) as u32;
        // Relaxed: the thread got the block after its slab's entries were written, see
        // `Stripe::draw`; for a wild pointer any value will do.
        Some((page, Entry(self.entry(page).load(Ordering::Relaxed))))
    }

    /// Offset in bytes of an address from the beginning of its slab.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "slabs are at most 2 GiB")]
    pub(crate) fn offset_in_slab(&self, head: u32, address: u64) -> u32 {
        (address - self.page_address(head)) as u32
    }

    #[inline(always)]
    fn free_slot(&self, page: u32, entry: Entry, address: u64) {
        with_active_lanes!(lanes => self.free_together(lanes, page, entry, address));
    }

    /// Frees the slots of the lanes that came together: one lane clears the bits of each word.
    #[inline(always)]
    fn free_together(&self, lanes: impl Lanes, page: u32, entry: Entry, address: u64) {
        let head = entry.head(page);
        let slot = entry.slot_at(self.offset_in_slab(head, address));
        let index = self.slot_word_index(head, slot.unwrap_or(0));
        let bit = slot.map_or(0, |slot| 1 << (slot & 31));

        // The word's address: lanes may free into several heaps at once.
        let key = self.slot_words.pointer(index) as u64;
        let group = lanes.match_any_u64(key);
        let leads = group & warp::lanes_below() == 0;
        let bits = or_in_groups(lanes, group, leads, key, bit);
        // What the lanes did to their blocks comes before the leader's release.
        lanes.sync();
        let mut taken = 0;
        let mut doubtful = false;
        if leads {
            // Beyond the last word only if the entry is damaged.
            if self.has_slot_word(index) {
                // Release, for this change and that of the use: pairs with the acquire of `malloc` that sets the bit again.
                fence(Ordering::Release);
                // Relaxed, after the fence.
                taken = bits & self.slot_word(index).fetch_and(!bits, Ordering::Relaxed);
            }
            if taken != 0 {
                let (before, after) = self.release(head, entry, taken.count_ones());
                if is_turn(before, after, || entry.slots(u32::from(self.page_shift))) {
                    cold::look_after(
                        self,
                        Slab::new(head, entry.class(), entry.order()),
                        after & USE,
                    );
                }
            }
            // Lanes with the same block, with one that is free already, or with no block at all.
            doubtful = group.count_ones() != taken.count_ones();
        }
        // The collective that follows costs lanes that are together a tenth of what it costs those that are not.
        lanes.sync();
        if lanes.ballot(doubtful) != 0 {
            cold::refuse_among(self, lanes.mask(), group, taken, page, entry, address);
        }
    }
}

/// The or of `bit` over the lanes of the caller's group, for all groups at once.
#[inline(always)]
fn or_in_groups(lanes: impl Lanes, group: u32, leads: bool, key: u64, bit: u32) -> u32 {
    if group == lanes.mask() {
        return lanes.reduce_or(bit);
    }
    let mut result = bit;
    let shared = leads && !group.is_power_of_two();
    let mut pending = lanes.ballot(shared);
    while pending != 0 {
        let chosen = lanes.shuffle_u64(key, pending.trailing_zeros());
        // All ones in the lanes of the group whose turn it is. Not `if`: of two that ask the same, the
        // compiler made two ways, each with a reduction of its own, in which lanes wait for those
        // on the other.
        let turn = u32::from(key == chosen).wrapping_neg();
        let all = lanes.reduce_or(bit & turn);
        result = result & !turn | all & turn;
        pending &= pending - 1;
    }
    result
}
