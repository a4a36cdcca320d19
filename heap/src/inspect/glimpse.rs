//! A heap as it looks while threads are in the allocator.
//!
//! What is copied then belongs to slightly different moments: a slab may be found whose pages are still among the
//! free ones, and a block may be counted that is not handed out yet. So there is nothing to verify here, and figures may
//! disagree with each other by what was under way.
//!
//! The slots' bitmap, which is the larger part of the metadata of a large heap, is not looked at. How many slots of a slab are
//! handed out is told by its word of use, less what its stripe may still draw. Where no stripe tells that of a slab which one
//! holds, since it is being installed or rewound, next to nothing of it is handed out, and it counts as nothing: else all that may be drawn would
//! count.

use super::{InspectError, Occupancy, PageUse, Snapshot};
use crate::layout::Layout;
use crate::slab::{INSTALLED, PUNCHED, USE};

/// How much of the metadata a [`Glimpse`] needs: so many bytes from their beginning. At most 18 MiB, however
/// large the heap is.
#[must_use]
pub fn glimpse_bytes(layout: &Layout) -> u64 {
    layout.offsets.slot_words
}

/// A look at a heap that is in use.
#[derive(Clone, Debug)]
pub struct Glimpse(Snapshot);

impl Glimpse {
    /// A look at the heap the first [`glimpse_bytes`] of whose metadata were copied to `part`, at any time.
    ///
    /// # Errors
    ///
    /// When the bytes do not begin with the head of a heap of this version of the allocator, or are not as many.
    pub fn new(part: Vec<u8>) -> Result<Self, InspectError> {
        let mut snapshot = Snapshot::of_length(part, glimpse_bytes)?;
        snapshot.uses = Some(slots_in_use(&snapshot));
        Ok(Self(snapshot))
    }

    /// How full the heap is, about.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.0.occupancy()
    }

    /// What each page is used for, about, in the order of their addresses.
    #[must_use]
    pub fn page_map(&self) -> Vec<PageUse> {
        self.0.page_map()
    }
}

/// Slots handed out of the slab that begins at a page, for each page.
fn slots_in_use(snapshot: &Snapshot) -> Vec<u32> {
    let left = units_left(snapshot);
    let in_use = |(page, left): (u32, Option<u32>)| {
        let usage = snapshot.usage(page);
        match left {
            Some(left) => (usage & USE).saturating_sub(left),
            None if usage & INSTALLED != 0 => 0,
            None => usage & USE & !PUNCHED,
        }
    };
    (0..).zip(left).map(in_use).collect()
}

/// Units that a stripe may still draw of the slab that begins at a page, for each page; none where no stripe tells.
fn units_left(snapshot: &Snapshot) -> Vec<Option<u32>> {
    let layout = &snapshot.layout;
    let mut left = vec![None; snapshot.page_count() as usize];
    for class in 0..layout.class_count {
        for stripe in 0..layout.stripes {
            let ticket = snapshot.stripe(class, stripe);
            if let Some(left) = left.get_mut(ticket.page() as usize)
                && !ticket.is_rewinding()
            {
                *left = Some(ticket.units_left());
            }
        }
    }
    left
}
