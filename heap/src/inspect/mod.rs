//! Reads a heap back on the host, from a copy of its metadata.
//!
//! The metadata is the region that begins with the [`Core`] and is
//! [`Layout::metadata_bytes`] long; it tells everything about the heap, and the user's pages are
//! not needed. Copy it while no thread is in the allocator, and make a [`Snapshot`] of it:
//!
//! - [`occupancy`](Snapshot::occupancy): how full the heap is, how fragmented, what failed;
//! - [`live`](Snapshot::live), [`leaks`](Snapshot::leaks): the blocks that are handed out;
//! - [`page_map`](Snapshot::page_map): what each page is used for;
//! - [`misuse_report`](Snapshot::misuse_report): how the heap was misused;
//! - [`check`](Snapshot::check), [`violations`](Snapshot::violations): whether every invariant
//!   of the allocator holds.
//!
//! Nothing here panics or reads out of bounds, whatever the bytes are: a snapshot may be of a heap
//! that a stray write has damaged, or be no heap at all. [`Snapshot::new`] verifies the head, which
//! never changes; of the rest, everything but `check` reads what makes sense and skips what does
//! not.
//!
//! Of a heap that is in use there is no such copy. A [`Glimpse`] makes do with one that was taken while
//! threads were in the allocator: it gives the figures, as well as they can be known then.
//!
//! A snapshot knows the heap's layout from the heap's own code, not from offsets of its own.

mod check;
mod counted;
mod error;
mod glimpse;
mod live;
mod mirror;
mod misused;
mod occupancy;
mod page_map;
mod region;
mod running;
mod tagged;
mod violation;

pub use check::MAX_VIOLATIONS;
pub use counted::{counters_range, failed_requests};
pub use error::InspectError;
pub use glimpse::{Glimpse, glimpse_bytes};
pub use live::{Leak, LiveBlock};
pub use misused::{MisuseReport, Misused};
pub use occupancy::{ClassOccupancy, Failures, Occupancy, PageOccupancy, RunOccupancy};
pub use page_map::PageUse;
pub use tagged::{FoundHeader, LeakReport, SiteLeak};
pub use violation::{Members, Place, Rule, Violation};

use crate::entry::Entry;
use crate::growth::Growth;
use crate::heap::{COUNT_BYTES, Core, Mark};
use crate::layout::{ClassInfo, Layout};
use crate::page_set::WORD_PAGES;
use crate::slab::Slab;
use crate::ticket::Ticket;
use bytemuck::AnyBitPattern;
use core::fmt;
use mirror::{CounterWords, EntryWords, GlobalWords, SetWords, SlabWords, StripeWord};

/// The metadata of a heap, at a moment when no thread was in the allocator.
#[derive(Clone)]
pub struct Snapshot {
    metadata: Vec<u8>,
    layout: Layout,
    base: u64,
    flags: u32,
    mark: Mark,
    growth: Growth,
    /// Slots handed out of the slab that begins at a page, where they are not told by the bitmap: a
    /// [`Glimpse`] has none.
    uses: Option<Vec<u32>>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("base", &self.base)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// A snapshot of the heap whose metadata, all of it, was copied to `metadata`.
    ///
    /// # Errors
    ///
    /// When the bytes do not begin with the head of a heap of this version of the allocator, or
    /// are not as long as that heap's metadata.
    pub fn new(metadata: Vec<u8>) -> Result<Self, InspectError> {
        Self::of_length(metadata, |layout| layout.metadata_bytes)
    }

    /// A snapshot of as much of the metadata as `length` says of the heap's layout.
    fn of_length(metadata: Vec<u8>, length: impl Fn(&Layout) -> u64) -> Result<Self, InspectError> {
        let head_bytes = metadata
            .get(..size_of::<Core>())
            .ok_or(InspectError::NoHead {
                bytes: metadata.len(),
            })?;
        let head: Core = bytemuck::pod_read_unaligned(head_bytes);
        if !head.is_valid() {
            return Err(InspectError::NotAHeap);
        }
        let claimed = *head.layout();
        let layout =
            Layout::new(claimed.capacity, claimed.stripes).map_err(InspectError::Capacity)?;
        if layout != claimed {
            return Err(InspectError::OtherLayout);
        }
        let expected = length(&layout);
        if metadata.len() as u64 != expected {
            return Err(InspectError::Length {
                expected,
                found: metadata.len() as u64,
            });
        }
        let (base, flags, mark) = (head.heap().base(), head.heap().flags(), head.heap().mark());
        let growth = *head.growth();
        let origin = (head.heap().entries.pointer(0) as u64).wrapping_sub(layout.offsets.entries);
        let fits = origin.checked_add(layout.metadata_bytes).is_some()
            && base.checked_add(layout.capacity).is_some()
            && growth.pages <= layout.page_count;
        if !fits {
            return Err(InspectError::Head);
        }
        // The head is constant: it must be what the allocator writes for such a heap.
        let expected = Core::new(layout, origin, base, flags)
            .with_attempts_log2(head.attempts_log2())
            .of_generation(mark.generation())
            .with_quarantine_of(&head);
        let expected = match growth.mailbox {
            0 => expected,
            _ => expected.growing(growth),
        };
        if bytemuck::bytes_of(&expected) != head_bytes {
            return Err(InspectError::Head);
        }
        Ok(Self {
            metadata,
            layout,
            base,
            flags,
            mark,
            growth,
            uses: None,
        })
    }

    /// The metadata, as they were copied.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// Shape of the heap.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Address of the heap's first page, on its device.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Pages that the heap has so far: fewer than in its layout if it can still grow.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.globals().admitted.min(self.layout.page_count)
    }

    /// Bytes that can be allocated so far.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        u64::from(self.page_count()) << self.layout.page_shift
    }

    /// Flags that the heap was made with.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// How often the heap was reset, modulo 256.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.mark.generation()
    }

    /// Whether the snapshot is of the heap that was made with this head. The head never changes: if it
    /// did, it was overwritten. [`new`](Self::new) finds all that cannot be; that the pages are
    /// elsewhere or the flags are others only who made the heap can tell.
    #[must_use]
    pub fn is_of(&self, head: &Core) -> bool {
        self.metadata.starts_with(bytemuck::bytes_of(head))
    }

    /// Whether the heap counts the bytes asked for.
    #[must_use]
    pub fn counts_bytes(&self) -> bool {
        self.flags & COUNT_BYTES != 0
    }

    /// Element `index` of the array at offset `array`; both must be of the layout.
    fn element<T: AnyBitPattern>(&self, array: u64, index: u64) -> T {
        let start = array + index * size_of::<T>() as u64;
        // The metadata is in memory and as long as the layout says, so offsets fit.
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        bytemuck::pod_read_unaligned(&self.metadata[start..][..size_of::<T>()])
    }

    fn globals(&self) -> GlobalWords {
        self.element(self.layout.offsets.globals, 0)
    }

    fn class_info(&self, class: u32) -> ClassInfo {
        self.element(self.layout.offsets.classes, class.into())
    }

    /// Counters of a class; of the runs at the class count.
    fn counters(&self, class: u32) -> CounterWords {
        self.element(self.layout.offsets.counters, class.into())
    }

    fn stripe(&self, class: u32, index: u32) -> Ticket {
        let place = self.layout.stripe_place(class, index);
        let word: StripeWord = self.element(self.layout.offsets.stripes, place.into());
        Ticket(word)
    }

    fn entry(&self, page: u32) -> Entry {
        let words: EntryWords = self.element(self.layout.offsets.entries, page.into());
        Entry(words.entry)
    }

    fn usage(&self, page: u32) -> u32 {
        let place = self.layout.slab_place(page);
        let words: SlabWords = self.element(self.layout.offsets.slabs, place.into());
        words.usage
    }

    fn slot_word(&self, index: u64) -> u32 {
        self.element(self.layout.offsets.slot_words, index)
    }

    /// First word of the slots' bitmap that belongs to a page.
    fn first_slot_word(&self, page: u32) -> u64 {
        u64::from(page) * self.slot_words_per_page()
    }

    /// The page that a word of the slots' bitmap belongs to.
    fn page_of_slot_word(&self, word: u64) -> u32 {
        u32::try_from(word / self.slot_words_per_page()).unwrap_or(u32::MAX)
    }

    fn slot_words_per_page(&self) -> u64 {
        self.layout.page_bytes() / 16 / 32
    }

    fn set(&self, set: u32) -> SetWords {
        self.element(self.layout.offsets.set_states, set.into())
    }

    fn set_summary(&self, set: u32, index: u32) -> u64 {
        let position = u64::from(set) * u64::from(self.layout.summary_words()) + u64::from(index);
        self.element(self.layout.offsets.set_summaries, position)
    }

    fn set_word(&self, set: u32, index: u32) -> u64 {
        let position = u64::from(set) * u64::from(self.layout.set_words()) + u64::from(index);
        self.element(self.layout.offsets.set_words, position)
    }

    fn set_has(&self, set: u32, page: u32) -> bool {
        self.set_word(set, page / WORD_PAGES) >> (page % WORD_PAGES) & 1 != 0
    }

    /// Whether a page is in the set of free pages.
    fn is_free(&self, page: u32) -> bool {
        self.set_has(0, page)
    }

    fn page_address(&self, page: u32) -> u64 {
        self.base + (u64::from(page) << self.layout.page_shift)
    }

    /// Slots of a slab.
    fn slots(&self, slab: Slab) -> u32 {
        self.layout.slots(slab.class(), slab.order())
    }
}
