//! Giving a block back: one atomic on the bitmap for each warp and word, one on the slab's use.
//!
//! The bitmap's old word tells for nothing whether the block was handed out: if its bit was
//! already 0, it was freed before or never allocated. Then nothing changed, and the misuse is
//! counted (`misuse`).

use crate::cold;
use crate::entry::Entry;
use crate::heap::{Core, Heap, Mark};
use crate::malloc::whole_row;
use simt::atomic::{Ordering, fence};
use simt::lanes::Lanes;
use simt::{warp, with_active_lanes};

/// The address of no word of a bitmap: those are multiples of 4.
const NO_WORD: u64 = 1;

/// A slot that is to be freed.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// First page of its slab.
    pub(crate) head: u32,
    pub(crate) entry: Entry,
    /// Its word of the bitmap.
    pub(crate) index: u32,
    /// Its bit there.
    pub(crate) bit: u32,
    pub(crate) address: u64,
}

/// What is left to do for a lane, which is rare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// What the slab's use asks for.
    Use,
    /// To refuse some of the group's blocks, which were not handed out, and to free the others.
    Refusal,
    /// To free its block alone.
    Repeated,
    /// To free a block that is no slot, or in a mode, or to refuse it.
    Block,
}

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
        let address = pointer as u64;
        if !self.free_slot(self.mark, address) {
            cold::free_rarer(self, self.mark, address);
        }
    }

    /// `free` without regard to modes.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(always)]
    pub(crate) unsafe fn plain_free(&self, address: u64) {
        if !self.free_slot(self.mark.opened(), address) {
            cold::free_no_slot(self, self.mark, address);
        }
    }

    /// Frees the slot that begins at an address, in a slab whose pages have a mark, together with other lanes; false if there is
    /// none.
    #[inline(always)]
    fn free_slot(&self, mark: Mark, address: u64) -> bool {
        with_active_lanes!(lanes => self.free_together(lanes, mark, address))
    }

    /// The slot that begins at an address, in a slab whose pages have a mark; and whether there is one, else it may be anything. Releases for
    /// who frees it, once it has met the lanes whose slots it frees too (`meet`).
    #[inline(always)]
    fn slot_at(&self, mark: Mark, address: u64, meet: impl FnOnce()) -> (Slot, bool) {
        // NULL lies outside of every heap.
        let (page, entry) = self.look_up(address).unwrap_or((0, Entry::BLANK));
        meet();
        // Release, for the changes of the bitmap and of the use: pairs with the acquire of `malloc` that sets the bit again. Here, while the entry is on its
        // way.
        fence(Ordering::Release);
        let head = entry.head(page);
        let (number, begins) = entry.slot_beginning_at(self.offset_in_slab(head, address));
        let index = self.slot_word_index(head, number);
        // Beyond the last word only if the entry is damaged.
        let is_slot = entry.is_slab_of(mark) & begins & self.has_slot_word(index);
        let slot = Slot {
            head,
            entry,
            index,
            bit: 1 << (number & 31),
            address,
        };
        (slot, is_slot)
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

    /// Offset in bytes of an address from the beginning of its slab; any number for an address that is in none.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "slabs are at most 2 GiB")]
    pub(crate) fn offset_in_slab(&self, head: u32, address: u64) -> u32 {
        address.wrapping_sub(self.page_address(head)) as u32
    }

    /// Frees the slots of the lanes that came together: one lane clears the bits of each word. False if the calling lane has none.
    #[inline(always)]
    fn free_together(&self, lanes: impl Lanes, mark: Mark, address: u64) -> bool {
        // What the lanes did to their blocks comes before the leader's release.
        let (slot, is_slot) = self.slot_at(mark, address, || lanes.sync());
        self.free_in_groups::<_, false>(lanes, slot, is_slot);
        // No lane goes on before its block was given back: what it asks for next it may need that block for.
        lanes.sync();
        is_slot
    }

    /// The same, but what is rare is left to one call for all of them; blocks that are no slots too, and modes.
    #[inline(always)]
    pub(crate) fn free_but_rest(&self, lanes: impl Lanes, address: u64) {
        let (slot, is_slot) = self.slot_at(self.mark, address, || lanes.sync());
        let (mut rest, word, bits) = self.free_in_groups::<_, true>(lanes, slot, is_slot);
        if !is_slot {
            rest = Rest::Block;
        }
        if lanes.ballot(rest != Rest::Nothing) == 0 {
            // As in `free_together`: a ballot orders nothing.
            return lanes.sync();
        }
        let Slot {
            head, entry, bit, ..
        } = slot;
        let all = lanes.mask();
        cold::free_rest(
            self, rest, all, self.mark, address, head, entry, bit, word, bits,
        );
    }

    /// Finds the groups of lanes that free in one word, and frees the slots of the caller's: all that is to be done, or what it leaves, with the word that tells
    /// of it and the bits of the group.
    #[inline(always)]
    fn free_in_groups<L: Lanes, const LEAVES_REST: bool>(
        &self,
        lanes: L,
        slot: Slot,
        is_slot: bool,
    ) -> (Rest, u32, u32) {
        // The word's address: lanes may free into several heaps at once. Those without a slot have what is no word's address of any heap.
        let key = if is_slot {
            self.slot_words.pointer(slot.index) as u64
        } else {
            NO_WORD
        };
        let group = lanes.match_any_u64(key);
        let leads = is_slot & lanes.leads(group);
        if lanes.is_whole_warp(group) {
            // The same with constants.
            let bits = lanes.reduce_or(slot.bit);
            let is_repeated = is_slot && bits != u32::MAX;
            self.free_group::<LEAVES_REST>(slot, leads, is_repeated, u32::BITS, bits)
        } else {
            let count = lanes.count_of(group);
            let row = bits_of_rows(lanes, group, slot.bit, is_slot);
            let bits = row.unwrap_or_else(|| or_in_groups(lanes, group, slot.bit));
            // Of any group: it is rare.
            let is_repeated =
                row.is_none() && lanes.ballot(leads & (bits.count_ones() != count)) != 0;
            self.free_group::<LEAVES_REST>(slot, leads, is_repeated & is_slot, count, bits)
        }
    }

    /// Frees the slots of the caller's group: those of `count` lanes, whose bits in one word together are `bits`. The lane that leads does it for
    /// all, unless several lanes have the same block.
    #[inline(always)]
    fn free_group<const LEAVES_REST: bool>(
        &self,
        slot: Slot,
        leads: bool,
        is_repeated: bool,
        count: u32,
        bits: u32,
    ) -> (Rest, u32, u32) {
        let nothing = (Rest::Nothing, 0, bits);
        if is_repeated {
            if LEAVES_REST {
                return (Rest::Repeated, 0, bits);
            }
            cold::free_alone(self, slot.address);
        } else if leads {
            if LEAVES_REST {
                return self.free_bits_but_rest(slot, count, bits);
            }
            self.free_bits(slot, count, bits);
        }
        nothing
    }

    /// Frees `count` slots in the word of `slot`, whose bits there are `bits`, after a fence that releases.
    #[inline(always)]
    pub(crate) fn free_bits(&self, slot: Slot, count: u32, bits: u32) {
        let taken = self.clear_bits(slot, bits);
        if taken != bits {
            let Slot {
                head,
                entry,
                bit,
                address,
                ..
            } = slot;
            return cold::free_some(self, head, entry, taken, bits, bit, address);
        }
        self.release_slots(slot.head, slot.entry, count);
    }

    /// The same, but what is rare: what that is, the word that tells of it, and the bits.
    #[inline(always)]
    fn free_bits_but_rest(&self, slot: Slot, count: u32, bits: u32) -> (Rest, u32, u32) {
        let taken = self.clear_bits(slot, bits);
        if taken != bits {
            return (Rest::Refusal, taken, bits);
        }
        match self.lower_use_of_slots(slot.head, count) {
            // Asked here, though the function that is called asks again: of a warp of many sizes one lane or other is seldom without such a use.
            Some(before) if self.asks_for_more(slot.entry, before, count) => {
                (Rest::Use, before, bits)
            }
            _ => (Rest::Nothing, 0, bits),
        }
    }

    /// Clears bits in the word of `slot`, after a fence that releases; gives those that were set.
    #[inline(always)]
    fn clear_bits(&self, slot: Slot, bits: u32) -> u32 {
        // Relaxed, after the caller's fence.
        let word = self.slot_word(slot.index);
        word.fetch_and(!bits, Ordering::Relaxed) & bits
    }
}

impl Core {
    /// [`plain_free`](Heap::plain_free) for the calling lane alone.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_alone(&self, address: u64) {
        let (slot, is_slot) = self.slot_at(self.mark.opened(), address, || ());
        if is_slot {
            self.free_bits(slot, 1, slot.bit);
        } else {
            self.refuse(self.mark, address);
        }
    }

    /// What [`Heap::free_called`] left to do for the lanes of a mask that came together: each has its `rest`, of which the `word` tells, after the slots of
    /// a group whose bits are `bits` were freed in the slab that begins at `head`.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "a structure would lie in memory")]
    pub(crate) fn free_rest(
        &self,
        rest: Rest,
        lanes: u32,
        mark: Mark,
        address: u64,
        head: u32,
        entry: Entry,
        bit: u32,
        word: u32,
        bits: u32,
    ) {
        match rest {
            Rest::Nothing => {}
            Rest::Use => self.follow_use_of(head, entry, word, bits.count_ones()),
            Rest::Refusal => self.free_some(head, entry, word, bits, bit, address),
            Rest::Repeated => self.free_alone(address),
            Rest::Block => self.free_rarer(mark, address),
        }
        // As in `free_together`.
        warp::sync(lanes);
    }
}

/// The bits of the caller's group, if each group of lanes that have a slot frees a row: slots that follow one another as the lanes do, which is how `malloc`
/// hands them out. A step instead of a few.
#[inline(always)]
fn bits_of_rows(lanes: impl Lanes, group: u32, bit: u32, is_slot: bool) -> Option<u32> {
    let first = lanes.shuffle(bit, warp::lowest(group));
    let is_in_row = bit == first << lanes.rank_in(group);
    let are_rows = lanes.ballot(is_in_row || !is_slot) == lanes.mask();
    are_rows.then(|| whole_row(lanes.count_of(group)).wrapping_mul(first))
}

/// The or of `bit` over the lanes of the caller's group from the caller on, for all groups at once: in its first lane of the whole group.
#[inline(always)]
fn or_in_groups(lanes: impl Lanes, group: u32, bit: u32) -> u32 {
    /// Beside the number of the last lane of a group: none comes after it.
    const LAST: u32 = warp::LANES;
    if group == lanes.mask() {
        return lanes.reduce_or(bit);
    }
    let above = group & !(warp::lanes_below() << 1 | 1);
    let (mut all, mut next) = (bit, warp::lane_id() | LAST);
    if above != 0 {
        next = warp::lowest(above);
    }
    // Each step spans twice as many lanes of a group: `all` is the or of those before `next`. (The compiler makes two ballots of one in the head of the loop.
    // All lanes get the same from either.)
    let mut unfinished = lanes.ballot(next < LAST);
    while unfinished != 0 {
        let source = next & !LAST;
        all |= lanes.shuffle(all, source);
        next = lanes.shuffle(next, source);
        unfinished = lanes.ballot(next < LAST);
    }
    all
}
