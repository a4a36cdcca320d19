//! Verifies every invariant of a heap that no thread is using.
//!
//! What must hold is told by the modules of the allocator. While threads are in it, uses and
//! counts run ahead of bits and pages are in transit; when the last has left, everything is
//! exact:
//!
//! - Each page is in one slab, or in one run, or in the free set; nothing is left behind on pages
//!   that are no slab's: no entry, no use, no bit.
//! - A slab's use is its slots handed out plus the units left in the one stripe that has it. One
//!   that no stripe has is listed if it has slots free, and retired if it has no slot in use.
//! - No stripe has fewer than no units. The group that takes the units below zero replaces the
//!   stripe's word before it leaves the allocator: by that of another slab, or of none. What late
//!   groups drew meanwhile is overwritten with it, and who draws after finds units, or is the
//!   next such group.
//! - Counts equal what they count. Summaries are set over all words with members; they may also
//!   be set over words that have none.
//!
//! # What means nothing
//!
//! A bit that changes what the metadata mean breaks one of these rules, with the exceptions below.
//! Not verified, because any value is right:
//!
//! - what is counted for diagnosis: requests, failures, refused frees and their first addresses;
//! - the pages that a heap which grows has wanted last;
//! - the epoch of a set;
//! - the generation of a stripe in use, its hints, and those of a row of stripes;
//! - the density of a stripe, among those at which its slab has as many units as are left;
//! - a summary bit over a word without members;
//! - which stripe is noted to have had a slab, how much it was offered of it, and when it was looked through for empty pages;
//! - padding: what follows a counter, a set's state, a stripe, a slab's state or the note of a row on its line or
//!   sector, and what aligns an array.
//!
//! Two things cannot be seen in the metadata alone. One is a slot's bit that was set and another of
//! the same slab that was cleared: that is the whole heap of somebody who freed and allocated. The
//! other are the pages' address, the flags and the bound of attempts in the head, which
//! whoever made the heap compares ([`Snapshot::is_of`]).
//!
//! `heap/tests/faults` flips bits of all kinds and knows the same list.

use super::region::Region;
use super::violation::{Members, Place, Rule, Violation};
use super::{Snapshot, WORD_PAGES};
use crate::entry::Entry;
use crate::page_set::low_bits;
use crate::slab::{INSTALLED, PUNCHED, Slab, USE, times_away};
use crate::ticket::Ticket;
use std::collections::BTreeMap;

/// [`Snapshot::violations`] stops after this many.
pub const MAX_VIOLATIONS: usize = 64;
/// Units span at most a word of the bitmap.
const MAX_DENSITY: u32 = u32::BITS.ilog2();

impl Snapshot {
    /// Verifies every invariant of the heap.
    ///
    /// # Errors
    ///
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.violations_up_to(1).pop().map_or(Ok(()), Err)
    }

    /// The invariants that do not hold, the first [`MAX_VIOLATIONS`]. One damaged word may break
    /// several.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.violations_up_to(MAX_VIOLATIONS)
    }

    fn violations_up_to(&self, limit: usize) -> Vec<Violation> {
        let mut check = Check {
            snapshot: self,
            limit,
            found: Vec::new(),
            holders: BTreeMap::new(),
        };
        check.constants();
        check.stripes();
        for region in self.regions() {
            if check.is_full() {
                break;
            }
            check.region(region);
        }
        for page in self.page_count()..self.layout.page_count {
            if check.is_full() {
                break;
            }
            check.missing_page(page);
        }
        for set in 0..self.layout.set_count() {
            if check.is_full() {
                break;
            }
            check.set(set);
        }
        check.found
    }
}

/// The stripe that has a slab.
#[derive(Clone, Copy)]
struct Holder {
    /// Index in the array of all stripes.
    stripe: u64,
    ticket: Ticket,
}

impl Holder {
    fn units_left(self) -> u32 {
        self.ticket.units_left()
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot,
    limit: usize,
    found: Vec<Violation>,
    /// By the first page of the slab.
    holders: BTreeMap<u32, Holder>,
}

impl Check<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    fn report(&mut self, rule: Rule, place: Place, expected: u64, found: u64) {
        if !self.is_full() {
            self.found.push(Violation {
                rule,
                place,
                expected,
                found,
            });
        }
    }

    fn expect(&mut self, rule: Rule, place: Place, expected: u64, found: u64) {
        if expected != found {
            self.report(rule, place, expected, found);
        }
    }

    fn constants(&mut self) {
        let snapshot = self.snapshot;
        let beyond = snapshot.base & (snapshot.layout.page_bytes() - 1);
        self.expect(
            Rule::BaseAligned,
            Place::Heap,
            snapshot.base - beyond,
            snapshot.base,
        );
        let (most, admitted) = (snapshot.layout.page_count, snapshot.globals().admitted);
        if admitted > most || (snapshot.growth.mailbox == 0 && admitted < most) {
            self.report(Rule::PageCount, Place::Heap, most.into(), admitted.into());
        }
        let lease = snapshot.globals().lease.into();
        self.expect(Rule::Lease, Place::Heap, 0, lease);
        let [_, begun, done] = snapshot.globals().quarantine;
        self.expect(Rule::Drains, Place::Heap, begun, done);
        for class in 0..snapshot.layout.class_count {
            let words = |info| -> [u32; 4] { bytemuck::cast(info) };
            let expected = words(snapshot.layout.class_info(class));
            let found = words(snapshot.class_info(class));
            if let Some((expected, found)) = expected.iter().zip(&found).find(|(a, b)| a != b) {
                let place = Place::Class(class);
                self.report(
                    Rule::ClassInfo,
                    place,
                    u64::from(*expected),
                    u64::from(*found),
                );
            }
        }
    }

    fn stripes(&mut self) {
        let layout = &self.snapshot.layout;
        let mut installed = 0;
        for class in 0..layout.class_count {
            let mut holders = 0;
            let used = layout.stripe_count(class);
            for index in 0..layout.stripes {
                let word = self.snapshot.stripe(class, index);
                let ticket = word.without_hints();
                let place = Place::Stripe { class, index };
                let empty = Ticket::empty(class);
                if index >= used {
                    self.expect(Rule::StripeEmpty, place, empty.0, word.0);
                } else if ticket.has_slab() {
                    holders += 1;
                    let stripe = layout.stripe_place(class, index).into();
                    self.stripe_with_slab(class, place, Holder { stripe, ticket });
                } else if empty.following(ticket) != ticket.following(ticket) {
                    self.report(Rule::StripeEmpty, place, empty.0, ticket.0);
                }
            }
            let place = Place::Set(Members::Listed(class));
            let counted = self.snapshot.set(1 + class).holders.into();
            self.expect(Rule::InstalledCount, place, holders, counted);
            installed += holders;
        }
        let of_free_pages = self.snapshot.set(0).holders.into();
        let place = Place::Set(Members::Free);
        self.expect(Rule::InstalledCount, place, 0, of_free_pages);
        let counted = self.snapshot.globals().installed.into();
        self.expect(Rule::InstalledCount, Place::Heap, installed, counted);
    }

    fn stripe_with_slab(&mut self, class: u32, place: Place, holder: Holder) {
        let ticket = holder.ticket;
        let slab = self.snapshot.slab_at(ticket.page()).filter(|slab| {
            let (order, density) = (slab.order(), ticket.density());
            let expected = Ticket::new(class, slab.page(), order, density, ticket.left());
            slab.class() == class && expected.following(ticket) == ticket.following(ticket)
        });
        let Some(slab) = slab.filter(|_| ticket.density() <= MAX_DENSITY) else {
            let entry = match ticket.page() {
                page if page < self.snapshot.page_count() => self.snapshot.entry(page),
                _ => Entry::BLANK,
            };
            self.report(Rule::StripeSlab, place, entry.0, ticket.0);
            return;
        };
        let units = self.snapshot.slots(slab).div_ceil(1 << ticket.density());
        if !(0..=units.cast_signed()).contains(&ticket.left()) {
            let left = i64::from(ticket.left()).cast_unsigned();
            self.report(Rule::StripeLeft, place, units.into(), left);
        }
        if let Some(other) = self.holders.insert(slab.page(), holder) {
            self.report(Rule::StripeShared, place, other.stripe, holder.stripe);
        }
    }

    fn region(&mut self, region: Region) {
        let snapshot = self.snapshot;
        match region {
            Region::Slab(slab) => {
                for page in slab.page()..slab.page() + slab.pages() {
                    self.page_of_slab(page, slab);
                }
                self.slab_usage(slab, region);
            }
            Region::Punched(slab) => {
                self.page_of_slab(slab.page(), slab);
                self.punched_pages(slab);
                self.slab_usage(slab, region);
            }
            Region::Kept { page, slab } => self.page_of_slab(page, slab),
            Region::Run { page: head, pages } => {
                for page in head..head + pages {
                    let place = Place::Page(page);
                    if page != head {
                        self.expect(Rule::RunEntry, place, 0, snapshot.entry(page).0);
                    }
                    self.used_page(page);
                    self.page_without_slab(page);
                }
            }
            Region::Other { page } => {
                let (place, entry) = (Place::Page(page), snapshot.entry(page));
                self.expect(Rule::Entry, place, 0, entry.0);
                if entry == Entry::BLANK {
                    self.expect(Rule::PageLost, place, 1, snapshot.is_free(page).into());
                }
                self.page_without_slab(page);
            }
        }
    }

    fn used_page(&mut self, page: u32) {
        let free = self.snapshot.is_free(page).into();
        self.expect(Rule::PageNotFree, Place::Page(page), 0, free);
    }

    /// Verifies a page that the heap does not have yet.
    fn missing_page(&mut self, page: u32) {
        let (place, entry) = (Place::Page(page), self.snapshot.entry(page));
        self.expect(Rule::Entry, place, 0, entry.0);
        self.used_page(page);
        self.page_without_slab(page);
    }

    fn page_without_slab(&mut self, page: u32) {
        let snapshot = self.snapshot;
        let usage = snapshot.usage(page).into();
        self.expect(Rule::StrayUsage, Place::Page(page), 0, usage);
        let first = snapshot.first_slot_word(page);
        for index in 0..snapshot.slot_words_per_page() {
            self.stray_bits(first + index, index, 0);
        }
    }

    /// Verifies a page of a slab, and the words of the slab's bitmap that it has.
    fn page_of_slab(&mut self, page: u32, slab: Slab) {
        let snapshot = self.snapshot;
        let (entry, place) = (snapshot.entry(slab.page()), Place::Page(page));
        self.expect(Rule::SlabEntry, place, entry.0, snapshot.entry(page).0);
        self.used_page(page);
        if page != slab.page() {
            let usage = snapshot.usage(page).into();
            self.expect(Rule::StrayUsage, place, 0, usage);
        }
        let slots = u64::from(snapshot.slots(slab));
        let begin = snapshot.first_slot_word(slab.page());
        let first = snapshot.first_slot_word(page) - begin;
        let end = first + snapshot.slot_words_per_page();
        for index in first.max(slots / 32)..end {
            #[allow(clippy::cast_possible_truncation, reason = "at most 32")]
            let present = low_bits((slots.saturating_sub(32 * index)).min(32) as u32);
            self.stray_bits(begin + index, index, present);
        }
    }

    /// Verifies that a punched slab has the pages that its bitmap's words and its blocks need.
    fn punched_pages(&mut self, slab: Slab) {
        let snapshot = self.snapshot;
        let words = u64::from(snapshot.slots(slab)).div_ceil(32);
        let of_words = words.div_ceil(snapshot.slot_words_per_page());
        let bytes = snapshot.block_bytes(Region::Punched(slab));
        let shift = snapshot.layout.page_shift;
        let mut needed: Vec<_> = (0..of_words).collect();
        for block in snapshot.live_in(Region::Punched(slab), 0..u32::MAX) {
            let begin = block.address - snapshot.page_address(slab.page());
            needed.extend(begin >> shift..=(begin + bytes - 1) >> shift);
        }
        needed.dedup();
        let entry = snapshot.entry(slab.page());
        for page in needed {
            let page = slab.page() + u32::try_from(page).unwrap_or(0);
            let found = snapshot.entry(page);
            self.expect(Rule::SlabEntry, Place::Page(page), entry.0, found.0);
        }
    }

    /// Verifies that no bits but those of `present` are set in a word of the bitmap, which is the
    /// `index`th of its slab or page.
    fn stray_bits(&mut self, word: u64, index: u64, present: u64) {
        let bits = u64::from(self.snapshot.slot_word(word));
        let stray = bits & !present;
        let place = Place::SlotWord {
            page: self.snapshot.page_of_slot_word(word),
            word,
            slot: 32 * index + u64::from(stray.trailing_zeros()),
        };
        self.expect(Rule::StrayBits, place, bits & present, bits);
    }

    /// Verifies the word of the slab of a region.
    fn slab_usage(&mut self, slab: Slab, region: Region) {
        let snapshot = self.snapshot;
        let is_punched = matches!(region, Region::Punched(_));
        let (page, class) = (slab.page(), slab.class());
        let place = Place::Slab { page, class };
        let holder = self.holders.get(&page).copied();
        let usage = snapshot.usage(page);
        let used = snapshot.used_blocks(region);

        let installed = usage & INSTALLED != 0;
        let held = holder.is_some();
        self.expect(Rule::Installed, place, held.into(), installed.into());
        let left = holder.map_or(0, Holder::units_left);
        let mark = if is_punched { PUNCHED } else { 0 };
        let in_use = u64::from(used) + u64::from(left) + u64::from(mark);
        self.expect(Rule::Usage, place, in_use, u64::from(usage & USE));
        if !held && used == 0 {
            self.report(Rule::Retired, place, 0, usage.into());
        }
        if is_punched {
            let entry = snapshot.entry(page);
            let lacks_one = (page..page + slab.pages()).any(|page| snapshot.entry(page) != entry);
            self.expect(Rule::Punched, place, 1, (lacks_one && !held).into());
        }
        let roomy = !held && !is_punched && used < snapshot.slots(slab);
        let listed = snapshot.set_has(1 + class, page);
        self.expect(Rule::Listed, place, roomy.into(), listed.into());
        let away = !held && !roomy;
        self.expect(Rule::Away, place, away.into(), times_away(usage).into());
    }

    fn set(&mut self, set: u32) {
        let snapshot = self.snapshot;
        let layout = &snapshot.layout;
        let (word_count, summary_count) = (layout.set_words(), layout.summary_words());
        let members = match set {
            0 => Members::Free,
            _ => Members::Listed(set - 1),
        };
        let (place, found) = (Place::Set(members), snapshot.set(set));

        let mut count = 0;
        for word in 0..word_count {
            let bits = snapshot.set_word(set, word);
            if bits != 0 {
                count += u64::from(bits.count_ones());
                self.set_word(set, members, word, bits);
            }
        }
        self.expect(Rule::SetCount, place, count, found.count.into());
        for word in 0..summary_count {
            let bits = snapshot.set_summary(set, word);
            let inside = bits & low_bits(word_count - word * WORD_PAGES);
            let place = Place::Summary { set: members, word };
            self.expect(Rule::SummaryBeyond, place, inside, bits);
        }
    }

    /// Verifies a word of a set that has members.
    fn set_word(&mut self, set: u32, members: Members, word: u32, bits: u64) {
        let snapshot = self.snapshot;
        let place = Place::SetWord { set: members, word };
        let pages = low_bits(snapshot.layout.page_count - word * WORD_PAGES);
        self.expect(Rule::SetBeyond, place, bits & pages, bits);

        let (over, bit) = (word / WORD_PAGES, 1 << (word % WORD_PAGES));
        let summary = snapshot.set_summary(set, over);
        let summary_place = Place::Summary {
            set: members,
            word: over,
        };
        self.expect(Rule::SetSummary, summary_place, summary | bit, summary);

        if let Members::Listed(class) = members {
            let mut rest = bits & pages;
            while rest != 0 {
                let page = word * WORD_PAGES + rest.trailing_zeros();
                let slab = snapshot.slab_at(page).filter(|slab| slab.class() == class);
                if slab.is_none() {
                    let entry = snapshot.entry(page).0;
                    let place = Place::Page(page);
                    self.report(Rule::ListedSlab, place, class.into(), entry);
                }
                rest &= rest - 1;
            }
        }
    }
}
