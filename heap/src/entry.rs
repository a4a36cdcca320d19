//! What a page is used for: one 64-bit word per page, which tells `free` all it needs.
//!
//! | bits | slab | run |
//! |---|---|---|
//! | 0–3 | order: the slab has `2^order` pages, aligned | – |
//! | 4–5 | kind 1 | kind 2 |
//! | 6–13 | class | – |
//! | 14–21 | generation of the heap | generation of the heap |
//! | 22–26 | – | – |
//! | 27–31 | shift of the slot size, see [`class::parts`] | – |
//! | 32–63 | reciprocal of its multiplier | pages of the run |
//!
//! Order and shift lie at the ends, where one instruction gets them.
//! Kind 0 is a page that is free or lies inside a run. All pages of a slab carry the slab's word;
//! of a run only the first page does. The generation is the one that the heap had when the entry was
//! made, so that `free` sees in one comparison that a page is in a slab and its own handle of today.

use crate::class;
use crate::heap::Mark;
use simt::atomic::DeviceAtomicU64;
use simt::warp;

/// Where the [`Entry`] of a page lies, alone on its sector of 32 bytes.
///
/// All that is freed reads its page's entry first. Where one launch frees what a page of each stripe holds, these are a hundred pages side by side: if their entries shared a
/// few lines of L2, all reads would wait for these (measured in `docs/experiments.md`).
#[repr(C, align(32))]
pub struct PageEntry(pub(crate) DeviceAtomicU64);

impl PageEntry {
    /// That of a page without use.
    #[must_use]
    pub fn blank() -> Self {
        Self(DeviceAtomicU64::new(Entry::BLANK.0))
    }
}

/// A page's use, see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// What kind of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free, or not the first page of a run.
    Blank,
    /// Part of a slab.
    Slab,
    /// First page of a run.
    Run,
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "fields are masked to their widths"
)]
impl Entry {
    const ORDER: u64 = 15;
    const KIND_SHIFT: u32 = 4;
    /// The bits of the kind.
    pub(crate) const KIND: u32 = 3 << Self::KIND_SHIFT;
    /// Kind of a page of a slab, as it stands in an entry.
    pub(crate) const SLAB: u32 = 1 << Self::KIND_SHIFT;
    const RUN: u32 = 2 << Self::KIND_SHIFT;
    const CLASS_SHIFT: u32 = 6;
    const SLOT_SHIFT: u32 = 27;
    /// A page without use.
    pub const BLANK: Self = Self(0);

    /// A page of a slab of `2^order` pages.
    #[must_use]
    pub const fn slab(class: u32, order: u32) -> Self {
        let (multiplier, shift) = class::parts(class);
        let fields = order | Self::SLAB | class << Self::CLASS_SHIFT | shift << Self::SLOT_SHIFT;
        Self((class::reciprocal(multiplier) as u64) << 32 | fields as u64)
    }

    /// The first of `pages` pages.
    #[must_use]
    pub const fn run(pages: u32) -> Self {
        Self((pages as u64) << 32 | Self::RUN as u64)
    }

    /// The same use, in the generation of a mark.
    #[inline(always)]
    #[must_use]
    pub const fn marked(self, mark: Mark) -> Self {
        Self(self.0 | mark.generation_bits() as u64)
    }

    /// Whether this is a page of a slab, in the generation of a mark.
    #[inline(always)]
    #[must_use]
    pub const fn is_slab_of(self, mark: Mark) -> bool {
        self.0 as u32 & Mark::FIELDS == mark.0
    }

    /// What kind of use this is.
    #[inline(always)]
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self.0 as u32 & Self::KIND {
            Self::SLAB => Kind::Slab,
            Self::RUN => Kind::Run,
            _ => Kind::Blank,
        }
    }

    /// What kind of use this is in the generation of a mark; of another it is none.
    #[inline(always)]
    #[must_use]
    pub const fn kind_of(self, mark: Mark) -> Kind {
        if (self.0 as u32 ^ mark.0) & Mark::GENERATION == 0 {
            self.kind()
        } else {
            Kind::Blank
        }
    }

    /// Whether this is a page of a slab of the same class and generation as another's.
    #[inline(always)]
    #[must_use]
    pub const fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::ORDER == 0
    }

    /// Class of the slab.
    #[inline(always)]
    #[must_use]
    pub const fn class(self) -> u32 {
        self.0 as u32 >> Self::CLASS_SHIFT & 0xff
    }

    /// Binary logarithm of the slab's pages.
    #[inline(always)]
    #[must_use]
    pub const fn order(self) -> u32 {
        (self.0 & Self::ORDER) as u32
    }

    /// Shift of the slot size.
    #[inline(always)]
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.0 as u32 >> Self::SLOT_SHIFT
    }

    /// Reciprocal of the slot size's multiplier.
    #[inline(always)]
    #[must_use]
    pub const fn reciprocal(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Slots of the slab, where pages have `2^page_shift` bytes; any number if the entry is damaged.
    #[inline(always)]
    #[must_use]
    pub const fn slots(self, page_shift: u32) -> u32 {
        class::divide(
            1_u32.wrapping_shl((page_shift + self.order()).wrapping_sub(self.shift())),
            self.reciprocal(),
        )
    }

    /// Pages of the run.
    #[inline(always)]
    #[must_use]
    pub const fn run_pages(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// First page of the slab that `page` belongs to.
    #[inline(always)]
    #[must_use]
    pub const fn head(self, page: u32) -> u32 {
        page >> self.order() << self.order()
    }

    /// The slot that `offset` bytes into the slab are in.
    #[must_use]
    pub const fn slot_holding(self, offset: u32) -> u32 {
        class::divide(offset >> self.shift(), self.reciprocal())
    }

    /// The slot that begins `offset` bytes into the slab, if one begins there.
    #[inline(always)]
    #[must_use]
    pub fn slot_at(self, offset: u32) -> Option<u32> {
        let (slot, begins) = self.slot_beginning_at(offset);
        if begins { Some(slot) } else { None }
    }

    /// The slot that begins `offset` bytes into the slab, and whether one begins there; else it is any number. Without a branch.
    #[inline(always)]
    #[must_use]
    pub fn slot_beginning_at(self, offset: u32) -> (u32, bool) {
        let number = offset >> self.shift();
        // Not seen to be the upper half of a word: a product of two halves is one instruction less.
        let reciprocal = warp::opaque(self.reciprocal());
        let (slot, is_multiple) = class::divide_exactly(number, reciprocal);
        (slot, is_multiple & (number << self.shift() == offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_ORDER;

    #[test]
    fn a_slab_entry_gives_back_what_it_was_made_of() {
        for class in 0..class::MAX_CLASSES {
            for order in 0..=MAX_ORDER {
                let mark = Mark::of_generation(class + order);
                let entry = Entry::slab(class, order).marked(mark);
                assert!(entry.is_slab_of(mark) && !entry.is_slab_of(Mark::of_generation(200)));
                assert_eq!(
                    (entry.kind(), entry.class(), entry.order()),
                    (Kind::Slab, class, order)
                );
                // A slab has at most 2 GiB.
                for page_shift in (10..25).filter(|shift| shift + order <= 31) {
                    let bytes = 1_u64 << (page_shift + order);
                    if bytes >= u64::from(class::slot_bytes(class)) {
                        let slots = bytes / u64::from(class::slot_bytes(class));
                        assert_eq!(u64::from(entry.slots(page_shift)), slots);
                    }
                }
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_slot_is_one() {
        for class in 0..40 {
            let entry = Entry::slab(class, 0);
            let size = class::slot_bytes(class);
            for offset in 0..8 * size {
                let expected = (offset % size == 0).then_some(offset / size);
                assert_eq!(
                    entry.slot_at(offset),
                    expected,
                    "class {class} offset {offset}"
                );
            }
        }
    }
}
