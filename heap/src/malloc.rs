//! The fast way to a block: one atomic on a stripe for each warp and class, one on the bitmap.
//!
//! Lanes that want the same class of the same heap form a group. Its leader draws as many units
//! from the stripe as the group has lanes. Where a unit is a slot, as in a slab that was empty, the
//! units drawn are a row of bits in the slab's bitmap, and the leader sets them with one atomic, or
//! two if the row crosses a word. If all groups get rows, each lane has its block beside the leader's. Else slots are looked for
//! elsewhere in the slab ([`crate::places`]), or are packed ([`crate::packed`]), and if units lack the leader first refills the stripe or waits for who does ([`crate::refill`]); then all go on
//! together out of line ([`crate::beyond`]). So the code in every kernel is short, and nothing of what is rare lives in its registers.
//!
//! The stripe only says where to look: a block belongs to
//! the lane whose atomic turned its bit from 0 to 1, so no block is ever handed out twice.
//!
//! All collectives take the mask of the lanes that came together, so groups do not split the
//! warp, and no lane leaves before the last of them.

use crate::class;
use crate::cold;
use crate::heap::{Core, Heap, Mark, block_of_leader};
use crate::packed::{MOST_LANES, may_be_packed, without_lowest};
use crate::places::{Claimed, Places};
use crate::stripe::{Churned, Stripes};
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::lanes::{Lanes, Whole};
use simt::{thread, warp, with_active_lanes};

/// Every block is aligned to this many bytes.
pub(crate) const USUAL_ALIGNMENT: u64 = 16;

/// What a request for a slot needs: its class (8 bits), and the alignment that will do (binary
/// logarithm in 5 bits), which slots of larger classes may have although they are not multiples of
/// the class's own. On its way to a slow path it carries the generation of the handle (8 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish(pub u32);

const _: () = assert!(
    Mark::GENERATION.trailing_zeros() >= 13,
    "a wish has a generation beside its own 13 bits"
);

impl Wish {
    #[inline(always)]
    pub fn new(class: u32, alignment: u64) -> Self {
        // The mask is nothing to a class, and tells the compiler that `group_key` needs none.
        Self(class & 0xff | alignment.trailing_zeros() << 8)
    }

    #[inline(always)]
    pub fn class(self) -> u32 {
        self.0 & 0xff
    }

    /// Alignment in bytes.
    pub fn alignment(self) -> u32 {
        1 << (self.0 >> 8 & 31)
    }

    /// The wish as it comes through a handle of `mark`.
    #[inline(always)]
    pub fn through(self, mark: Mark) -> Self {
        Self(self.0 | mark.generation_bits())
    }

    /// The wish alone.
    pub fn alone(self) -> Self {
        Self(self.0 & !Mark::GENERATION)
    }

    /// The wish alone; none if it came through another handle than one of `mark`.
    pub fn unless_stale(self, mark: Mark) -> Option<Self> {
        let wish = self.alone();
        (wish.through(mark) == self).then_some(wish)
    }
}

/// What a fast path needs to know of the slot that it is to allocate.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) wish: Wish,
    /// Slot size of the wish's class in bytes.
    bytes: u32,
    /// Stripes of the class.
    pub(crate) stripes: Stripes,
}

impl Slot {
    /// The smallest that holds `bytes`, 1 or more.
    #[inline(always)]
    pub(crate) fn of(bytes: u32, stripes: Stripes) -> Self {
        Self {
            wish: Wish::new(class::class_of(bytes), USUAL_ALIGNMENT),
            bytes: class::slot_bytes_for(bytes),
            stripes,
        }
    }

    /// One of a class that will do for an alignment in bytes.
    #[inline(always)]
    pub fn aligned(class: u32, alignment: u64, stripes: Stripes) -> Self {
        Self::for_wish(Wish::new(class, alignment), stripes)
    }

    /// One for a wish.
    #[inline(always)]
    fn for_wish(wish: Wish, stripes: Stripes) -> Self {
        Self {
            wish,
            bytes: class::slot_bytes(wish.class()),
            stripes,
        }
    }
}

/// What the leader of a group got for it.
#[derive(Clone, Copy)]
struct Served {
    /// What it drew, or the ticket of a row that begins where its slots are packed or lie elsewhere.
    drawn: Ticket,
    /// Which of the slots' bits it turned from 0 to 1, from the first on.
    won: u32,
    /// Whether there is not one of these slots for each lane, or its lanes cannot be told theirs as those of others are.
    lacks: bool,
    /// Address of the first of them, or if it lacks some the slots that it has in another place instead ([`Claimed`]).
    row: u64,
    /// Whether the lanes' slots do not follow one another: then they are those of the bits.
    is_packed: bool,
}

impl Served {
    /// What a lane has that leads no group.
    const MATE: Self = Self {
        drawn: Ticket(0),
        won: 0,
        lacks: false,
        row: Claimed::NONE.0,
        is_packed: false,
    };
}

impl Heap {
    /// Allocates `bytes`, aligned to 16 bytes; [`aligned_alloc`](Self::aligned_alloc) aligns to more.
    ///
    /// Gives NULL for 0 bytes, and when the request cannot be met: then the failure is counted by
    /// class and reason. Never because of contention. Lanes may call in any divergence. The handle
    /// must be that of a living heap, as for all that is called through it ([`Heap`]).
    #[inline(always)]
    #[must_use]
    pub fn malloc(&self, bytes: u64) -> *mut u8 {
        self.malloc_tagged(bytes, 0)
    }

    /// [`malloc`](Self::malloc) for a site of the program, of the caller's choosing: in a heap with
    /// [`TAGS`](crate::hardened::Hardening::TAGS) the host can group live blocks by it.
    #[inline(always)]
    #[must_use]
    pub fn malloc_tagged(&self, bytes: u64, site: u32) -> *mut u8 {
        if self.is_rarer(bytes) {
            return cold::malloc_rarer(self, self.mark, bytes, 1, site);
        }
        self.malloc_slot(self.slot_for(bytes), bytes)
    }

    /// Whether a request is none for a slot that the fast path serves.
    #[inline(always)]
    pub(crate) fn is_rarer(&self, bytes: u64) -> bool {
        // Zero wraps around and is large.
        bytes.wrapping_sub(1) >= u64::from(self.fast_limit)
    }

    /// The slot for a request that the fast path serves.
    #[inline(always)]
    pub(crate) fn slot_for(&self, bytes: u64) -> Slot {
        #[allow(clippy::cast_possible_truncation, reason = "no more than the limit")]
        Slot::of(bytes as u32, self.most_stripes())
    }

    /// Allocates a slot for a request of `bytes`.
    #[inline(always)]
    pub(crate) fn malloc_slot(&self, slot: Slot, bytes: u64) -> *mut u8 {
        let through = slot.wish.through(self.mark);
        with_active_lanes!(lanes => self.malloc_in_groups(lanes, slot, through, bytes))
    }

    /// The lanes that want the same form a group. `through` is the slot's wish as it came through the calling lane's handle.
    #[inline(always)]
    fn malloc_in_groups<L: Lanes>(
        &self,
        lanes: L,
        slot: Slot,
        through: Wish,
        bytes: u64,
    ) -> *mut u8 {
        let group = lanes.match_any_u64(self.group_key(slot.wish));
        if !L::ARE_WHOLE_WARP {
            self.malloc_row(lanes, group, slot, through, bytes)
        } else if group == u32::MAX {
            // The same with a constant, which spares a tenth of the instructions.
            self.malloc_row(lanes, u32::MAX, slot, through, bytes)
        } else {
            self.malloc_rows_of_warp(group, slot, through, bytes)
        }
    }

    /// The same, but a whole warp of several groups is served out of line if some group did not draw a row.
    #[inline(always)]
    pub(crate) fn malloc_rows<L: Lanes>(
        &self,
        lanes: L,
        slot: Slot,
        through: Wish,
        bytes: u64,
    ) -> *mut u8 {
        let group = lanes.match_any_u64(self.group_key(slot.wish));
        if !L::ARE_WHOLE_WARP {
            self.malloc_row(lanes, group, slot, through, bytes)
        } else if group == u32::MAX {
            // As in `malloc_in_groups`.
            self.malloc_row(lanes, u32::MAX, slot, through, bytes)
        } else {
            self.malloc_drawn_rows(group, slot, through, bytes)
        }
    }

    /// The same for a whole warp of several groups.
    #[inline(always)]
    fn malloc_drawn_rows(&self, group: u32, slot: Slot, through: Wish, bytes: u64) -> *mut u8 {
        let (count, leads) = (group.count_ones(), Whole.leads(group));
        let (mut drawn, mut has_row) = (Ticket(0), true);
        if leads {
            let block = block_of_leader(warp::opaque(group & warp::lanes_below()));
            let index = slot.stripes.of(block);
            drawn = self.stripe(slot.wish.class(), index).draw(count);
            has_row = drawn.has_row(count) & !may_be_packed(drawn, count);
        }
        // Before any row is claimed: else who has none begins only when the others are done.
        if Whole.ballot(!has_row) != 0 {
            return cold::malloc_classes(self, through, bytes, group, drawn);
        }
        let (mut won, mut row) = (0, 0);
        if leads {
            (won, row) = self.claim_whole_row(drawn, count, slot.bytes);
        }
        let Some(block) = share_row(Whole, group, slot, row) else {
            return cold::malloc_beyond(self, through, bytes, u32::MAX, group, drawn, won);
        };
        block
    }

    /// Each leader of a group of the lanes that came together draws, and sets the bits of a row; if all groups have rows that is all. What is rarer is
    /// out of line as a whole: whatever lives across a call needs registers of its own.
    #[inline(always)]
    fn malloc_row(
        &self,
        lanes: impl Lanes,
        group: u32,
        slot: Slot,
        through: Wish,
        bytes: u64,
    ) -> *mut u8 {
        let (mut drawn, mut won, mut row) = (Ticket(0), 0, 0);
        if lanes.leads(group) {
            let count = lanes.count_of(group);
            // Both are 0 in the leader, which ptxas must not see: of a whole warp it would, of the lanes below.
            let block = block_of_leader(if lanes.is_whole_warp(group) {
                warp::lane_id()
            } else {
                warp::opaque(group & warp::lanes_below())
            });
            drawn = self
                .stripe(slot.wish.class(), slot.stripes.of(block))
                .draw(count);
            // Else slots may be packed, which is seen to out of line. (Not `&&`, as in `has_row`.)
            if drawn.has_row(count) & !may_be_packed(drawn, count) {
                (won, row) = self.claim_whole_row(drawn, count, slot.bytes);
            }
        }
        let Some(block) = share_row(lanes, group, slot, row) else {
            return cold::malloc_beyond(self, through, bytes, lanes.mask(), group, drawn, won);
        };
        block
    }

    /// The slots of a whole warp of several groups, where it is not rare that some leader lacks units, finds slots in use, or has slots
    /// packed: it is served while the others wait, for to go on together out of line takes longer.
    #[inline(always)]
    fn malloc_rows_of_warp(&self, group: u32, slot: Slot, through: Wish, bytes: u64) -> *mut u8 {
        let index = slot
            .stripes
            .of(block_of_leader(warp::opaque(group & warp::lanes_below())));
        let mut served = Served::MATE;
        if Whole.leads(group) {
            let count = group.count_ones();
            // Before the draw: to wait for both takes no longer.
            let churned = self.churn_note(index).read();
            let drawn = self.stripe(slot.wish.class(), index).draw(count);
            served = self.serve_group(count, index, slot, through, churned, drawn);
        }
        self.share_served(group, slot, through, bytes, served)
    }

    /// The calling lane's block, if all groups of its warp were served, or what further attempts give.
    #[inline(always)]
    fn share_served(
        &self,
        group: u32,
        slot: Slot,
        through: Wish,
        bytes: u64,
        served: Served,
    ) -> *mut u8 {
        let Some(block) = share_slots(group, slot, &served) else {
            let Served {
                drawn,
                won,
                lacks,
                row,
                ..
            } = served;
            let rest = if lacks { Claimed(row) } else { Claimed::NONE };
            return cold::malloc_of_warp_beyond(self, through, bytes, group, drawn, won, rest);
        };
        block
    }

    /// What the leader of a group of `count` lanes does for them that drew `drawn` from the stripe of the slot's class that is `index`.
    #[inline(always)]
    fn serve_group(
        &self,
        count: u32,
        index: u32,
        slot: Slot,
        through: Wish,
        churned: Churned,
        drawn: Ticket,
    ) -> Served {
        let class = slot.wish.class();
        let mut served = Served {
            drawn,
            lacks: true,
            ..Served::MATE
        };
        let mut is_row = served.drawn.has_row(count);
        if !is_row && served.drawn.left() < count.cast_signed() {
            served.drawn = cold::draw(self, through, index, count, served.drawn);
            // A slot of another class begins elsewhere.
            is_row = served.drawn.class() == class && served.drawn.has_row(count);
        }
        let drawn = served.drawn;
        if !is_row {
            return served;
        }
        // (Of a damaged word the class may be another.)
        let is_of_class = drawn.class() == class;
        let claimed = if is_of_class && self.packs(drawn, count, slot.bytes, churned) {
            let claimed = self.claim_packed(drawn, count);
            if claimed.count() == count {
                Places::one(claimed)
            } else {
                let found = cold::complete_packed(self, drawn, count, claimed);
                Places::completed(claimed, found)
            }
        } else {
            (served.won, served.row) = self.claim_whole_row(drawn, count, slot.bytes);
            served.lacks = served.row == 0;
            if !served.lacks || !is_of_class {
                return served;
            }
            let row = Claimed::new(first_of_row(drawn, count), served.won);
            let (lacking, bitmap) = (count - row.count(), self.bitmap_of(drawn));
            // SAFETY: the bitmap is the ticket's.
            let found = unsafe {
                self.core()
                    .claim_elsewhere(drawn, row.first(), lacking, bitmap)
            };
            if found.count() != lacking {
                cold::give_back_units(self, drawn, lacking - found.count());
            }
            Places::completed(row, found)
        };
        (served.drawn, served.won) = (claimed.first.ticket(drawn, count), claimed.first.won());
        served.row = claimed.rest.0;
        served.is_packed = served.won != whole_row(count);
        if served.won.count_ones() == count && (!served.is_packed || count <= MOST_LANES) {
            let reach = if served.is_packed { u32::BITS } else { count };
            let first = first_of_row(served.drawn, count);
            if let Some(row) = self.row_address(drawn.page(), first, reach, slot.bytes) {
                (served.row, served.lacks) = (row, false);
            }
        }
        served
    }

    /// What lanes of a group have in common: the heap and the wish. Metadata begin at multiples of
    /// 256, and addresses have fewer than 59 bits.
    #[inline(always)]
    pub(crate) fn group_key(&self, wish: Wish) -> u64 {
        let (class, alignment) = (wish.0 & 0xff, wish.0 >> 8);
        self.metadata() | u64::from(class) | u64::from(alignment) << 59
    }

    /// Sets the bits of the `count` slots of `bytes` bytes that a group drew as units of a row: which of them it turned from 0 to 1, from
    /// the first on, and if all the address of the first block.
    #[inline(always)]
    fn claim_whole_row(&self, drawn: Ticket, count: u32, bytes: u32) -> (u32, u64) {
        let (page, first) = (drawn.page(), first_of_row(drawn, count));
        let Some(address) = self.row_address(page, first, count, bytes) else {
            // The stripe's word is damaged.
            return (0, 0);
        };
        let won = self.claim_bits(page, first, count);
        (won, if won == whole_row(count) { address } else { 0 })
    }

    /// Address of slot `first` of the slab at a page, if it and those up to `count` from there, of `bytes` bytes each, lie in the heap.
    #[inline(always)]
    fn row_address(&self, page: u32, first: u32, count: u32, bytes: u32) -> Option<u64> {
        let offset = (u64::from(page) << self.page_shift) + u64::from(first) * u64::from(bytes);
        (offset + u64::from(count) * u64::from(bytes) <= self.capacity)
            .then_some(self.base + offset)
    }

    /// Sets the bits of `drawn` slots from `first` on, 1 to 32; gives those that it turned from 0 to 1, from the first on.
    #[inline(always)]
    pub(crate) fn claim_bits(&self, page: u32, first: u32, drawn: u32) -> u32 {
        let row = whole_row(drawn);
        let index = self.slot_word_index(page, first);
        let shift = first & 31;
        if row == u32::MAX && shift == 0 {
            // The same with constants, of a whole word.
            return !self.slot_word(index).fetch_or(row, Ordering::Acquire);
        }
        let low = row << shift;
        // Acquire: pairs with the release of `free` that cleared the bit, so what was done to the
        // block before is seen.
        let mut won = (low & !self.slot_word(index).fetch_or(low, Ordering::Acquire)) >> shift;
        if shift + drawn > 32 {
            let high = row >> (32 - shift);
            let before = self.slot_word(index + 1).fetch_or(high, Ordering::Acquire);
            won |= (high & !before) << (32 - shift);
        }
        won
    }
}

impl Core {
    /// What the fast path does not serve: more than [`fast_limit`](Heap::fast_limit) bytes, or none, at a multiple of `alignment`, for
    /// a handle of `mark`.
    #[cold]
    #[inline(never)]
    pub(crate) fn malloc_rarer(
        &self,
        mark: Mark,
        bytes: u64,
        alignment: u64,
        site: u32,
    ) -> *mut u8 {
        if self.flags == 0 {
            self.malloc_plain(mark, bytes, alignment.max(USUAL_ALIGNMENT))
        } else {
            self.hardened_malloc(mark, bytes, alignment, site, false)
        }
    }

    /// The rest of [`Heap::aligned_called`] for a whole warp of several groups, of which `group` is the caller's: of slots for `bytes` bytes, no more than the
    /// fast path serves. The leaders have `drawn`, which in other lanes means nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn malloc_classes(
        &self,
        through: Wish,
        bytes: u64,
        group: u32,
        drawn: Ticket,
    ) -> *mut u8 {
        let slot = Slot::for_wish(through.alone(), self.most_stripes());
        let mut served = Served::MATE;
        if Whole.leads(group) {
            let index = slot.stripes.of(thread::block_number());
            let (count, churned) = (group.count_ones(), self.churn_note(index).read());
            served = self.serve_group(count, index, slot, through, churned, drawn);
        }
        self.share_served(group, slot, through, bytes, served)
    }

    /// A slot or run of at least `bytes` bytes without regard to modes, at a multiple of `alignment`, 16 or more, for a handle of `mark`.
    #[inline(never)]
    pub(crate) fn malloc_plain(&self, mark: Mark, bytes: u64, alignment: u64) -> *mut u8 {
        match self.aligned_class(bytes, alignment, self.layout().largest_slot) {
            Some(class) if mark == self.mark() => {
                let slot = Slot::aligned(class, alignment, self.stripes_of(class));
                self.malloc_slot(slot, bytes)
            }
            _ => self.malloc_run(mark, bytes, alignment),
        }
    }
}

/// The calling lane's block of the row that the leader of its group got, if all groups got rows; `row` is the address of its first block in the leader.
#[inline(always)]
fn share_row(lanes: impl Lanes, group: u32, slot: Slot, row: u64) -> Option<*mut u8> {
    // What the leader's acquire saw, its mates see. And before the collectives, which cost lanes that are together a
    // tenth of what they cost those that are not.
    lanes.sync();
    let row = lanes.shuffle_u64(row, warp::lowest(group));
    // A whole warp that is one group has one row.
    let all_have_rows = if lanes.is_whole_warp(group) {
        row != 0
    } else {
        lanes.ballot(row == 0) == 0
    };
    let rank = u64::from(lanes.rank_in(group));
    all_have_rows.then(|| (row + rank * u64::from(slot.bytes)) as *mut u8)
}

/// The same for a whole warp, where the slots of a group may be packed.
#[inline(always)]
fn share_slots(group: u32, slot: Slot, served: &Served) -> Option<*mut u8> {
    // As in `share_row`.
    Whole.sync();
    let leader = warp::lowest(group);
    let row = Whole.shuffle_u64(served.row, leader);
    let packed = Whole.shuffle(if served.is_packed { served.won } else { 0 }, leader);
    let all_have_slots = Whole.ballot(served.lacks) == 0;
    let mut number = Whole.rank_in(group);
    if packed != 0 {
        number = without_lowest(packed, number).trailing_zeros();
    }
    all_have_slots.then(|| (row + u64::from(number) * u64::from(slot.bytes)) as *mut u8)
}

/// The first of the `count` slots of a row.
#[inline(always)]
fn first_of_row(drawn: Ticket, count: u32) -> u32 {
    drawn.left().cast_unsigned() - count
}

/// All bits of a row of `count` slots, 1 to 32.
#[inline(always)]
pub(crate) fn whole_row(count: u32) -> u32 {
    u32::MAX >> (32 - count)
}
