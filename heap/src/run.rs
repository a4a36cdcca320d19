//! Large requests: runs of pages, up to the whole heap.

use crate::counters::Failure;
use crate::entry::Entry;
use crate::heap::{Core, Mark};
use crate::misuse::Misuse;
use crate::nap::nap;
use crate::page_set::WORD_PAGES;
use crate::pages::Found;
use core::ptr;
use simt::atomic::{Ordering, fence};
use simt::{thread, warp};

/// Nanoseconds between the first two looks while pages are on their way.
const NAP: u32 = 200;
/// Searches begin at one of this many places, so that threads do not all try the same run.
const STARTS: u32 = 64;

impl Core {
    /// Allocates a run of pages for `bytes`, at an address that is a multiple of `alignment`, for a
    /// handle of `mark`.
    #[cold]
    #[inline(never)]
    pub(crate) fn malloc_run(&self, mark: Mark, bytes: u64, alignment: u64) -> *mut u8 {
        if bytes == 0 {
            return ptr::null_mut();
        }
        if mark != self.mark() {
            self.report_misuse(Misuse::Stale, 0);
            return ptr::null_mut();
        }
        let counters = self.run_counters();
        if bytes > self.capacity
            || !alignment.is_power_of_two()
            || !self.has_place(self.run_length(bytes), alignment)
        {
            counters.count_failures(Failure::Impossible, 1);
            return ptr::null_mut();
        }
        let mut searched = None;
        loop {
            let failure = match self.take_run_for(bytes, alignment) {
                Ok(block) => return block,
                Err(failure) => failure,
            };
            if !self.may_search_again(&mut searched, self.run_length(bytes)) {
                counters.count_failures(failure, 1);
                return ptr::null_mut();
            }
        }
    }

    /// Pages of a run for `bytes`, at most the capacity.
    #[allow(clippy::cast_possible_truncation, reason = "at most the page count")]
    fn run_length(&self, bytes: u64) -> u32 {
        bytes.div_ceil(1 << self.page_shift) as u32
    }

    /// Takes a run of pages for `bytes`, at most the capacity, or says why there is none.
    pub(crate) fn take_run_for(&self, bytes: u64, alignment: u64) -> Result<*mut u8, Failure> {
        let length = self.run_length(bytes);
        let first = self.find_run(length, alignment)?;
        // Relaxed: whoever frees the block got it from this thread.
        self.entry(first)
            .store(Entry::run(length).marked(self.mark()).0, Ordering::Relaxed);
        self.settle_pages(first, length);
        self.look_ahead();
        Ok(self.page_address(first) as *mut u8)
    }

    fn find_run(&self, length: u32, alignment: u64) -> Result<u32, Failure> {
        // A run is made of pages alone.
        let classes = self.layout().class_count;
        for vain in 0.. {
            if self.gives_up(classes, vain) {
                break;
            }
            let epoch = self.epochs_first(classes);
            let found = self.take_run(length, alignment, self.run_start(length));
            if let Some(first) = found.page() {
                return Ok(first);
            }
            if found == Found::NOTHING {
                if self.make_room() {
                    // Perhaps by another.
                    nap(NAP, vain);
                    continue;
                }
                // Acquire: whose change was seen in the search, its epoch is seen too.
                fence(Ordering::Acquire);
                if self.epochs(classes) == epoch {
                    return Err(if self.free_pages().count() >= length {
                        Failure::Fragmented
                    } else {
                        Failure::Exhausted
                    });
                }
            }
            nap(NAP, vain);
        }
        Err(Failure::Damaged)
    }

    /// Word at which the calling thread begins its search for a run. Small runs begin in the upper
    /// half, away from the slabs.
    fn run_start(&self, length: u32) -> u32 {
        let pages = self.admitted_hint();
        let words = pages.div_ceil(WORD_PAGES);
        if length > pages / STARTS {
            return 0;
        }
        let place = thread::sm_id()
            .wrapping_mul(7)
            .wrapping_add(place_in_block(warp::lane_id(), thread::thread_index()))
            % STARTS;
        words / 2 + words / 2 * place / STARTS
    }

    /// Frees the run of `entry` that begins at `page`, if `address` is where it begins.
    pub(crate) fn free_run(&self, page: u32, entry: Entry, address: u64) {
        if self.page_address(page) != address {
            self.report_misuse(Misuse::Interior, address);
            return;
        }
        if !self.is_run(page, entry) {
            return self.report_damage(self.layout().class_count);
        }
        // Relaxed: atomicity lets one of two that free the same run see that it is gone; `give_run`
        // releases what this thread did to the block.
        let taken = self.entry(page).compare_exchange(
            entry.0,
            Entry::BLANK.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if taken.is_ok() {
            self.give_run(page, entry.run_pages());
        } else {
            self.report_misuse(Misuse::Retired, address);
        }
    }
}

/// Of a thread of a block, by its lane and its index: the lanes of two warps side by side differ modulo [`STARTS`], and so do the first lanes of all warps. (In a block of more than one
/// dimension several warps have the same index.)
fn place_in_block(lane: u32, index: u32) -> u32 {
    let warp = index / warp::LANES;
    lane + warp * warp::LANES + warp / 2
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use simt::warp::LANES;
    use std::collections::HashSet;

    #[test]
    fn threads_of_a_block_begin_apart() {
        for indices in [
            (0..STARTS).collect::<Vec<_>>(),
            (0..32).map(|warp| warp * LANES).collect(),
        ] {
            let place = |index: &u32| place_in_block(index % LANES, *index) % STARTS;
            let places: HashSet<_> = indices.iter().map(place).collect();
            assert_eq!(places.len(), indices.len());
        }
    }
}
