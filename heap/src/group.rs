//! What a group of lanes does, by one call: the leader's part as it is, and that of its mates by counting. For tests in which a thread stands for
//! a warp.

use crate::class::class_of;
use crate::free::Slot as Used;
use crate::heap::Heap;
use crate::malloc::{Slot, USUAL_ALIGNMENT, whole_row};
use crate::places::Claimed;
use crate::refill::MAX_DENSITY;
use crate::ticket::Ticket;
use simt::thread;

/// Draws after which a group should have its slots.
const MOST_DRAWS: u32 = 10_000;

/// How often groups did not get at once what they wanted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Misses {
    /// A stripe had too little for a group, or it had to draw again.
    pub draws: usize,
    /// A group found slots of its row in use.
    pub slots: usize,
}

/// Allocates a slot for `bytes` for each of `count` lanes; 0 for those that got NULL.
///
/// # Panics
///
/// If there are more lanes than a warp has, or if they had to draw ten thousand times.
pub fn malloc_group(heap: &Heap, bytes: u32, count: usize, misses: &mut Misses) -> Vec<u64> {
    let class = class_of(bytes);
    // Where a class has fewer stripes than others, too.
    let slot = Slot::aligned(class, USUAL_ALIGNMENT, heap.stripes_of(class));
    let index = slot.stripes.of(thread::block_number());
    let wish = slot.wish.through(heap.mark());
    let wanted = u32::try_from(count).expect("a warp has 32 lanes");
    let mut drawn = heap.stripe(class, index).draw(wanted);
    if drawn.left() < wanted.cast_signed() {
        misses.draws += 1;
        drawn = heap.core().draw_beyond(wish, index, wanted, drawn);
    }
    let mut blocks = claim(heap, drawn, wanted, misses);
    for _ in 0..MOST_DRAWS {
        let lacking = u32::try_from(count - blocks.len()).expect("no more than were wanted");
        if lacking == 0 {
            return blocks;
        }
        if drawn == Ticket::EXHAUSTED {
            blocks.resize(count, 0);
            return blocks;
        }
        // Who comes again looks before it draws.
        misses.draws += 1;
        drawn = heap
            .core()
            .draw_beyond(wish, index, lacking, Ticket::refilling(class));
        blocks.extend(claim(heap, drawn, lacking, misses));
    }
    panic!("{count} lanes did not get {bytes} bytes each");
}

/// Whether a lane sees that a heap has more than `seen` pages, and so searches again.
#[must_use]
pub fn sees_growth(heap: &Heap, seen: u32) -> bool {
    heap.core().admitted() > seen
}

/// How many exchanges of the quarantine a lane knows to be done when it searches.
#[must_use]
pub fn drains_done(heap: &Heap) -> u64 {
    heap.core().drains_done()
}

/// How many free pages a lane sees that begins to search.
#[must_use]
pub fn free_pages(heap: &Heap) -> u32 {
    heap.core().free_pages().count()
}

/// Allocates a slot of a listed slab, as who does not wait for its stripe while hardly any page is free; 0 if none is found.
#[must_use]
pub fn malloc_listed(heap: &Heap, bytes: u32) -> u64 {
    let class = class_of(bytes);
    let drawn = heap.core().search_for_group(class, 1);
    let block = claim(heap, drawn, 1, &mut Misses::default());
    block.first().copied().unwrap_or(0)
}

/// Whether a lane that found nothing anywhere else gets pages of slabs of which little is in use, or is to come again.
#[must_use]
pub fn punch_slabs(heap: &Heap) -> bool {
    heap.core().punch_slabs(true)
}

/// Addresses of the slots that a group of `count` lanes gets of what it drew.
fn claim(heap: &Heap, drawn: Ticket, count: u32, misses: &mut Misses) -> Vec<u64> {
    let core = heap.core();
    if drawn == Ticket::EXHAUSTED || drawn.left() <= 0 {
        return Vec::new();
    }
    if drawn.is_of_slots() {
        let places = core.claim_row(drawn, count);
        let (first, slots) = drawn.row(count);
        let is_row = places.first.first() == first && places.first.won() == whole_row(slots);
        misses.slots += usize::from(!is_row);
        let of = |place: Claimed| addresses(heap, drawn, place.first(), place.won());
        return [of(places.first), of(places.rest)].concat();
    }
    // Word by word of the bitmap, as in `claim_spread`.
    let density = drawn.density().min(MAX_DENSITY);
    let word_units = 32 >> density;
    let end = drawn.left().cast_unsigned();
    let mut unit = end.saturating_sub(count);
    let mut blocks = Vec::new();
    while unit < end {
        let units = (word_units - unit % word_units).min(end - unit);
        let slot = unit << density;
        let places = core.claim_units(drawn, slot, units, density);
        for place in [places.first, places.rest] {
            blocks.extend(addresses(heap, drawn, place.first(), place.won()));
        }
        unit += units;
    }
    blocks
}

/// Addresses of those slots from `first` on whose bits are set.
fn addresses(heap: &Heap, ticket: Ticket, first: u32, bits: u32) -> Vec<u64> {
    let address = |number| heap.base + heap.core().slot_offset(ticket, first + number);
    (0..32)
        .filter(|number| bits >> number & 1 != 0)
        .map(address)
        .collect()
}

/// Frees the blocks of a warp's lanes, those of a word of the bitmap at once.
pub fn free_warp(heap: &Heap, blocks: &[u64]) {
    let mut groups: Vec<(Used, u32)> = Vec::new();
    for block in blocks.iter().filter(|block| **block != 0) {
        let slot = used_slot(heap, *block);
        match groups
            .iter_mut()
            .find(|(first, _)| first.index == slot.index)
        {
            Some((_, bits)) => *bits |= slot.bit,
            None => groups.push((slot, slot.bit)),
        }
    }
    for (slot, bits) in groups {
        heap.free_bits(slot, bits.count_ones(), bits);
    }
}

/// The slot of a block.
fn used_slot(heap: &Heap, block: u64) -> Used {
    let (page, entry) = heap.look_up(block).expect("a block of the heap");
    let first = entry.head(page);
    let number = entry.slot_at(heap.offset_in_slab(first, block));
    let number = number.expect("a block of the heap");
    Used {
        head: first,
        entry,
        index: heap.slot_word_index(first, number),
        bit: 1 << (number & 31),
        address: block,
    }
}
