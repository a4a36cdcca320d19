//! A glimpse of a heap whose metadata are memory of this process, while its threads use it.

use super::{Glimpse, InspectError, glimpse_bytes};
use crate::counters::ClassCounters;
use crate::entry::PageEntry;
use crate::heap::{Core, Globals, Shared};
use crate::slab::SlabState;
use crate::stripe::Stripe;
use bytemuck::NoUninit;
use core::mem::offset_of;
use simt::atomic::{DeviceAtomicU64, Ordering};

/// The copy as it is made: all zero but for what was read.
struct Part(Vec<u8>);

impl Part {
    fn put<T: NoUninit>(&mut self, offset: u64, value: T) {
        // What is copied is in memory, and offsets are of its layout, so they fit.
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.0[start..][..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
    }

    /// Puts words one behind the other.
    fn put_words<'a>(&mut self, offset: u64, words: impl IntoIterator<Item = &'a DeviceAtomicU64>) {
        for (index, word) in (0..).zip(words) {
            // Relaxed: a glimpse is of any moment, and nothing is reached through what it reads.
            self.put(offset + 8 * index, word.load(Ordering::Relaxed));
        }
    }
}

/// Where an element of an array lies.
fn place<T>(array: u64, index: u32) -> u64 {
    array + u64::from(index) * size_of::<T>() as u64
}

impl Glimpse {
    /// A look at the heap with this head. Every word is read by an atomic as wide as those that change it.
    ///
    /// # Errors
    ///
    /// If the head is none.
    ///
    /// # Safety
    ///
    /// The metadata must be memory of this process, be those of a heap with this head that was initialised, and stay so
    /// until this returns. Nobody but the allocator may change them.
    pub unsafe fn of_running(head: &Core) -> Result<Self, InspectError> {
        let layout = head.layout();
        let bytes = usize::try_from(glimpse_bytes(layout)).unwrap_or(usize::MAX);
        let mut part = Part(vec![0; bytes]);
        part.put(0, *head);
        copy_counts(head, &mut part);
        copy_pages(head, &mut part);
        Self::new(part.0)
    }
}

/// Copies the globals and the counters.
fn copy_counts(head: &Core, part: &mut Part) {
    let offsets = &head.layout().offsets;
    let globals = head.globals();
    // Relaxed: as in `put_words`.
    let admitted = globals.shared.admitted.load(Ordering::Relaxed);
    let within = |offset: usize| offsets.globals + offset as u64;
    part.put(within(offset_of!(Shared, admitted)), admitted);
    part.put_words(within(offset_of!(Globals, misuses)), &globals.misuses);
    let addresses = globals.misused.iter().flatten();
    part.put_words(within(offset_of!(Globals, misused)), addresses);
    for class in 0..=head.layout().class_count {
        let counters = head.counters(class);
        let words = counters.failures.iter();
        let words = words.chain([&counters.served, &counters.asked]);
        part.put_words(place::<ClassCounters>(offsets.counters, class), words);
    }
}

/// Copies what tells how the pages are used: the free ones, the entries, the slabs and the stripes.
fn copy_pages(head: &Core, part: &mut Part) {
    let layout = head.layout();
    let offsets = &layout.offsets;
    let free = head.free_pages();
    let words = (0..layout.set_words()).map(|index| free.word(index));
    part.put_words(offsets.set_words, words);
    for page in 0..layout.page_count {
        // Relaxed: as in `put_words`.
        let entry = head.entry(page).load(Ordering::Relaxed);
        part.put(place::<PageEntry>(offsets.entries, page), entry);
        let usage = head.usage(page).load(Ordering::Relaxed);
        part.put(
            place::<SlabState>(offsets.slabs, layout.slab_place(page)),
            usage,
        );
    }
    for stripe in 0..layout.stripe_words() {
        copy_stripe(head, stripe, part);
    }
}

/// Copies a stripe's word, and the use of the slab that it shows once more: as they were while the slab was neither replaced nor
/// rewound, if that can be had.
fn copy_stripe(head: &Core, index: u32, part: &mut Part) {
    /// Looks after which the last counts. A refill takes as long as a few of them, unless its thread waits for a processor.
    const LOOKS: u32 = 16;
    let layout = head.layout();
    // SAFETY: as the caller of `of_running` promises; the rows have so many words.
    let stripe: &Stripe = unsafe { head.stripes.get(index) };
    for _ in 0..LOOKS {
        let seen = stripe.look();
        part.put(place::<Stripe>(layout.offsets.stripes, index), seen.0);
        let page = seen.page();
        if page >= layout.page_count {
            return;
        }
        // Relaxed: as in `put_words`.
        let usage = head.usage(page).load(Ordering::Relaxed);
        part.put(
            place::<SlabState>(layout.offsets.slabs, layout.slab_place(page)),
            usage,
        );
        let after = stripe.look();
        if after.is_of_slab_of(seen)
            && after.generation() == seen.generation()
            && !seen.is_rewinding()
        {
            return;
        }
    }
}
