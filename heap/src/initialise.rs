//! Making the metadata of an empty heap, by all threads of a launch.

use crate::array::Array;
use crate::counters::ClassCounters;
use crate::entry::PageEntry;
use crate::heap::{Globals, Heap};
use crate::page_set::{SetState, WORD_PAGES, low_bits};
use crate::slab::SlabState;
use crate::stripe::{ChurnNote, Stripe};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64};

/// The share of one thread among several.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Index of the thread.
    pub index: u32,
    /// Number of threads.
    pub count: u32,
}

impl Share {
    /// Writes the caller's share of an array.
    ///
    /// # Safety
    ///
    /// The array must have `length` elements that nobody else uses.
    unsafe fn write<T>(self, address: u64, length: u64, value: impl Fn(u32) -> T) {
        let array = Array::<T>::new(address);
        let mut index = u64::from(self.index);
        while index < length {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "no array has 2^32 elements"
            )]
            let element = index as u32;
            // SAFETY: as the caller promises; each element is one thread's.
            unsafe { array.pointer(element).write(value(element)) };
            index += u64::from(self.count);
        }
    }
}

impl Heap {
    /// Writes one thread's share of the metadata that follows the head. Once all threads have,
    /// the heap is empty and usable after their launch. Also how a heap is reset.
    ///
    /// # Safety
    ///
    /// The head must have been made for the memory it points to; nobody may use the heap
    /// meanwhile.
    pub unsafe fn initialise(&self, share: Share) {
        let layout = self.layout();
        let metadata = self.metadata();
        let at = |offset| metadata + offset;
        let offsets = &layout.offsets;
        let classes = u64::from(layout.class_count);
        let pages = u64::from(layout.page_count);
        let admitted = self.core().growth().pages;
        let (set_words, summary_words) = (layout.set_words(), layout.summary_words());
        // Only the first set, the free pages, begins full.
        let bit_words = |index, words: u32, bits: u32| {
            let before = if index < words { index * 64 } else { bits };
            DeviceAtomicU64::new(low_bits(bits.saturating_sub(before)))
        };
        let sets = u64::from(layout.set_count());
        // SAFETY: the layout has room for each of these arrays.
        unsafe {
            share.write(at(offsets.globals), 1, |_| Globals::new(admitted));
            share.write(at(offsets.classes), classes, |class| {
                layout.class_info(class)
            });
            share.write(at(offsets.counters), classes + 1, |_| ClassCounters::zero());
            share.write(at(offsets.set_states), sets, |set| {
                SetState::of(if set == 0 { admitted } else { 0 })
            });
            share.write(
                at(offsets.set_summaries),
                sets * u64::from(summary_words),
                |index| bit_words(index, summary_words, admitted.div_ceil(WORD_PAGES)),
            );
            share.write(
                at(offsets.set_words),
                sets * u64::from(set_words),
                |index| bit_words(index, set_words, admitted),
            );
            share.write(at(offsets.stripes), layout.stripe_words().into(), |place| {
                Stripe::empty(layout.stripe_at(place).map_or(0, |(class, _)| class))
            });
            share.write(at(offsets.entries), pages, |_| PageEntry::blank());
            share.write(at(offsets.slabs), layout.slab_places(), |_| {
                SlabState::zero()
            });
            share.write(at(offsets.slot_words), layout.slot_word_count(), |_| {
                DeviceAtomicU32::new(0)
            });
            share.write(at(layout.churn_notes()), layout.stripes.into(), |_| {
                ChurnNote::none()
            });
        }
    }
}
