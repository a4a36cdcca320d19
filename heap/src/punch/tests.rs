//! Slabs of a full heap in which little lives, and who asks for their pages.

use super::*;
use crate::entry::Kind;
use crate::layout;
use crate::malloc::Wish;
use crate::simulated::host_heap::HostHeap;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of the blocks of the slab that is to be punched, and of a page.
const BYTES: u32 = 64;
const PAGE: u64 = 1 << 10;

fn obtain(host: &HostHeap, bytes: u32) -> Option<u64> {
    let address = host.heap().malloc(bytes.into()) as u64;
    (address != 0).then_some(address)
}

fn free(host: &HostHeap, address: u64) {
    // SAFETY: the tests free what they obtained, once.
    unsafe { host.heap().free(address as *mut u8) };
}

/// A full heap of 1 MiB, a slab of eight pages or more in it, and the slab's blocks.
fn full() -> (HostHeap, Slab, Vec<u64>) {
    let host = HostHeap::new(1 << 20, 1, 0);
    let (mut blocks, mut large) = (Vec::new(), None);
    while let Some(block) = obtain(&host, BYTES) {
        blocks.push(block);
        let seen = host.stripe(class::class_of(BYTES)).look();
        if seen.order() >= 3 && large.is_none() {
            large = Some(ticket_slab(seen));
        }
    }
    let slab = large.expect("slabs grow");
    let begin = host.heap().base() + (u64::from(slab.page()) << host.heap().page_shift);
    let end = begin + (u64::from(slab.pages()) << host.heap().page_shift);
    blocks.retain(|block| (begin..end).contains(block));
    blocks.sort_unstable();
    (host, slab, blocks)
}

/// The same, but nothing is in use of the slab but its first block, so it is listed.
fn sparse() -> (HostHeap, Slab) {
    let (host, slab, blocks) = full();
    blocks[1..].iter().for_each(|&block| free(&host, block));
    (host, slab)
}

fn given(core: &Core, slab: Slab) -> u32 {
    core.slab_state(slab.page()).given()
}

fn is_listed(host: &HostHeap, slab: Slab) -> bool {
    let word = host
        .heap()
        .core()
        .listed(slab.class())
        .look(slab.page() / WORD_PAGES);
    word >> (slab.page() % WORD_PAGES) & 1 != 0
}

#[test]
fn a_slab_that_is_sparse_is_punched() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    assert!(is_listed(&host, slab));
    assert!(core.is_worth_punching(slab, given(core, slab), 0, core.used_hint(slab.page())));
    assert!(core.punch_listed(slab));
    assert!(!is_listed(&host, slab));
    // But for those with words of the bitmap.
    assert!(core.free_pages().count() >= slab.pages() / 2);
}

#[test]
fn slabs_that_were_looked_at_in_vain_are_not_looked_at_again() {
    let (host, slab, blocks) = full();
    let core = host.heap().core();
    let listed = core.listed(slab.class());
    // Of each page something lives on.
    let lives = |block: &&u64| (**block - host.heap().base()).is_multiple_of(PAGE);
    let dies = |block: &&u64| !lives(block);
    blocks
        .iter()
        .filter(dies)
        .for_each(|&block| free(&host, block));
    assert!(is_listed(&host, slab) && listed.thinned_since().is_some());
    assert!(!core.punch_slabs(true));
    assert_eq!(listed.thinned_since(), None);
    assert!(!core.punch_slabs(true));
    blocks
        .iter()
        .filter(lives)
        .skip(1)
        .for_each(|&block| free(&host, block));
    assert!(listed.thinned_since().is_some());
    assert!(core.punch_slabs(true));
    assert!(!core.punch_slabs(true));
}

#[test]
fn who_searches_is_told_of_each_slab_that_may_have_become_worth_it() {
    let mut random = 1_u64;
    let mut told = 0;
    for _ in 0..20 {
        let (host, slab, mut blocks) = full();
        let core = host.heap().core();
        let listed = core.listed(slab.class());
        while blocks.len() > 1 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = usize::try_from(random >> 40).expect("24 bits");
            free(&host, blocks.swap_remove(number % blocks.len()));
            let used = core.used_hint(slab.page());
            assert_eq!(used as usize, blocks.len());
            let thinned = listed.thinned_since();
            let sight = core.may_be_worth_punching(slab, given(core, slab), 0, used);
            assert!(thinned.is_some() || sight.is_none());
            if let Some(thinned) = thinned {
                told += 1;
                if let Some(sight) = sight
                    && number & 1 != 0
                {
                    core.slab_state(slab.page()).note_searched(sight.note());
                }
                if number & 3 != 0
                    && core
                        .may_be_worth_punching(slab, given(core, slab), 0, used)
                        .is_none()
                {
                    listed.note_in_vain(thinned);
                }
            }
        }
    }
    assert!(told > 100, "{told}");
}

#[test]
fn a_slab_that_others_drew_from_since_it_was_seen_is_put_back() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    // Blocks of the class below come from the slab, which stays listed.
    while core.used_hint(slab.page()) < core.slots(slab) / 2 {
        obtain(&host, BYTES - 16).expect("the slab has room");
    }
    assert!(!core.punch_listed(slab));
    assert!(is_listed(&host, slab));
    assert_eq!(core.free_pages().count(), 0);
}

#[test]
fn a_larger_slab_than_was_seen_is_put_back() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    let seen = Slab::new(slab.page(), slab.class(), slab.order() - 1);
    // The caller is to come again.
    assert!(core.punch_listed(seen));
    assert!(is_listed(&host, slab));
    assert_eq!(core.free_pages().count(), 0);
    assert!(core.punch_listed(slab));
}

/// Another slab where one was: all of it was drawn, and it is in no stripe. And its blocks.
fn full_again(host: &HostHeap, slab: Slab) -> (Slab, Vec<u64>) {
    let core = host.heap().core();
    let next = Slab::new(slab.page(), class::class_of(2 * BYTES), slab.order());
    assert!(core.take_exactly(next.page(), next.pages()));
    core.found_slab(next);
    let slots = core.slots(next);
    assert!(!core.reserve(next, slots));
    for first in (0..slots).step_by(32) {
        let word = core.slot_word(core.slot_word_index(next.page(), first));
        word.store(u32::MAX, Ordering::Relaxed);
    }
    let begin = host.heap().base() + u64::from(next.page()) * PAGE;
    let block = |slot| begin + u64::from(slot * 2 * BYTES);
    (next, (0..slots).map(block).collect())
}

/// Whether pages of a slab are had, of which one block lives, if who listed the slab that was there before `rests` before it says so, until then.
fn has_pages_while_a_lister_rests(rests: bool) -> bool {
    let (host, slab, blocks) = full();
    let core = host.heap().core();
    // Whose free lists the slab, all but the last change of that.
    free(&host, blocks[0]);
    if rests {
        core.usage(slab.page()).fetch_add(AWAY, Ordering::Relaxed);
    }
    blocks[1..].iter().for_each(|&block| free(&host, block));
    let (next, blocks) = full_again(&host, slab);
    blocks[1..].iter().for_each(|&block| free(&host, block));
    if rests {
        let before = core.usage(slab.page()).fetch_sub(AWAY, Ordering::Relaxed);
        core.note_if_thinned(slab, before & USE);
    }
    assert!(
        is_listed(&host, next)
            && core
                .may_be_worth_punching(next, given(core, next), 0, 1)
                .is_some()
    );
    obtain(&host, 1024).is_some()
}

#[test]
fn a_slab_is_found_though_who_listed_the_one_before_rests() {
    assert!(has_pages_while_a_lister_rests(false));
    assert!(has_pages_while_a_lister_rests(true));
}

#[test]
fn a_slab_is_found_though_who_looked_through_the_one_before_rests() {
    let (host, slab, blocks) = full();
    let core = host.heap().core();
    blocks[1..].iter().for_each(|&block| free(&host, block));
    // It is in vain, somehow, and who looks rests before it says so.
    let sight = core
        .may_be_worth_punching(slab, given(core, slab), 0, 1)
        .expect("few live");
    free(&host, blocks[0]);
    let (next, blocks) = full_again(&host, slab);
    core.slab_state(slab.page()).note_searched(sight.note());
    blocks[1..].iter().for_each(|&block| free(&host, block));
    assert!(is_listed(&host, next));
    assert!(obtain(&host, 1024).is_some());
}

#[test]
fn a_slab_of_which_more_was_drawn_since_it_was_looked_through_is_looked_through_again() {
    let (host, slab, blocks) = full();
    // One block in each page that may be a hole lives.
    let page = |block: u64| (block - blocks[0]) / PAGE;
    let first_of = |page_of: u64| blocks.iter().find(|block| page(**block) == page_of);
    let pages = 1..u64::from(slab.pages());
    let kept: Vec<_> = pages.map(|page| *first_of(page).expect("one")).collect();
    let others = blocks.iter().filter(|block| !kept.contains(block));
    others.for_each(|&block| free(&host, block));
    assert_eq!(obtain(&host, 1024), None);
    // Some more, from the top of the listed slab, and then the others go.
    for _ in 0..2 * kept.len() {
        let block = obtain(&host, BYTES - 16).expect("the slab has room");
        assert_eq!(page(block), u64::from(slab.pages()) - 1);
    }
    kept[..kept.len() - 1]
        .iter()
        .for_each(|&block| free(&host, block));
    assert!(obtain(&host, 1024).is_some());
}

#[test]
fn a_slab_of_a_stripe_that_was_drawn_from_since_it_was_looked_through_is_looked_through_again() {
    let host = HostHeap::new(1 << 20, 1, 0);
    let stripe = host.stripe(class::class_of(BYTES));
    let mut blocks = Vec::new();
    while stripe.look().order() != 3 || stripe.look().left() != 10 {
        blocks.push(obtain(&host, BYTES).expect("a young heap"));
    }
    let slab = ticket_slab(stripe.look());
    let page = |block: u64| (block - host.heap().base()) / PAGE;
    let pages = u64::from(slab.page())..u64::from(slab.page() + slab.pages());
    blocks.retain(|block| pages.contains(&page(*block)));
    // One block in each page that may be a hole lives, but the first.
    let may_be_holes = pages.clone().skip(3);
    let kept: Vec<_> = may_be_holes
        .filter_map(|number| blocks.iter().copied().find(|block| page(*block) == number))
        .collect();
    let others = blocks.iter().filter(|block| !kept.contains(block));
    others.for_each(|&block| free(&host, block));
    while obtain(&host, 1024).is_some() {}
    assert_eq!(ticket_slab(stripe.look()), slab);
    for _ in 0..5 {
        obtain(&host, BYTES).expect("it has units left");
    }
    kept[..4].iter().for_each(|&block| free(&host, block));
    assert!(obtain(&host, 1024).is_some());
}

#[test]
fn a_slab_is_punched_once_who_has_a_unit_of_it_has_claimed_that() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    let ticket = core.scavenge(Wish::new(class::class_of(BYTES - 16), 16), 1);
    assert_eq!(ticket.page(), slab.page());
    // Who has it may wait for who asks.
    assert_eq!(obtain(&host, 1024), None);
    assert!(is_listed(&host, slab));
    let unit = ticket.units_left() - 1;
    let slot = unit << ticket.density();
    assert_eq!(
        core.claim_word(ticket, slot, 1, ticket.density())
            .count_ones(),
        1
    );
    assert!(obtain(&host, 1024).is_some());
}

/// The slabs of a heap of which few slots are in use and enough pages are empty, with the units that their stripes have left, and how many slots are in use.
fn sparse_slabs(host: &HostHeap) -> Vec<(Slab, u32, u32)> {
    let core = host.heap().core();
    let mut found = Vec::new();
    for page in 0..core.layout().page_count {
        let entry = Entry(core.entry(page).load(Ordering::Relaxed));
        let word = core.usage(page).load(Ordering::Relaxed);
        if entry.kind() != Kind::Slab || entry.head(page) != page || word & PUNCHED != 0 {
            continue;
        }
        let slab = Slab::new(page, entry.class(), entry.order());
        let (used, holes) = core.look_through(slab, false);
        let left = if word & INSTALLED == 0 {
            0
        } else {
            (word & USE) - used
        };
        if core.are_few_in_use(slab, used) && holes.are_enough(slab) {
            found.push((slab, left, used));
        }
    }
    found
}

/// Of blocks some stay, chosen in one of three ways; the others are freed.
fn thin_out(host: &HostHeap, live: &mut Vec<u64>, random: &mut StdRng) {
    let (way, one_of) = (
        random.random_range(0..3),
        1_u32 << random.random_range(1..8),
    );
    let run = random.random_range(1..=64);
    let mut number: u32 = random.random_range(0..run);
    live.retain(|&block| {
        number += 1;
        let stays = match way {
            0 => (number / run).is_multiple_of(one_of),
            1 => random.random_range(0..one_of) == 0,
            _ => (block / PAGE).is_multiple_of(8),
        };
        if !stays {
            free(host, block);
        }
        stays
    });
}

/// Allocates, frees and asks for pages, again and again: how often in vain, and how often that left a slab alone which was looked through before.
fn pages_in_vain(seed: u64) -> (u32, u32) {
    let mut random = StdRng::seed_from_u64(seed);
    let host = HostHeap::new(1 << 20, random.random_range(1..=3), 0);
    let core = host.heap().core();
    let (mut live, mut nulls, mut left_alone) = (Vec::new(), 0, 0);
    for _ in 0..100 {
        let bytes = random.random_range(1..=8) * 16;
        match random.random_range(0..8) {
            0 | 1 => live.extend(std::iter::from_fn(|| obtain(&host, bytes))),
            2 | 3 => {
                let few = 0..random.random_range(1..=40);
                live.extend(few.map_while(|_| obtain(&host, bytes)));
            }
            4 | 5 => thin_out(&host, &mut live, &mut random),
            _ => {
                live.extend(std::iter::from_fn(|| obtain(&host, 1024)));
                nulls += 1;
                for (slab, left, used) in sparse_slabs(&host) {
                    left_alone += 1;
                    let sight = core.may_be_worth_punching(slab, given(core, slab), left, used);
                    assert!(sight.is_none(), "seed {seed}: {slab:?} with {used} in use");
                }
            }
        }
    }
    (nulls, left_alone)
}

#[test]
fn pages_are_refused_only_if_no_slab_may_be_worth_punching() {
    let all = (0..40).map(pages_in_vain);
    let (nulls, left_alone) = all.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(nulls > 100 && left_alone > 0, "{nulls}, {left_alone}");
}

#[test]
fn a_slab_that_a_stripe_got_since_stripes_were_looked_at_is_found() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    let classes = core.layout().class_count;
    let epoch = core.epochs_first(classes);
    let held = core.reclaim_idle();
    assert!(!held.was_idle && !held.is_sparse && held.is_listed);
    obtain(&host, BYTES).expect("of the slab");
    assert!(!is_listed(&host, slab));
    // Who wants pages is told of nothing else.
    assert_eq!(core.epochs_first(classes), epoch);
    assert!(core.punch_slabs(held.is_sparse));
}

/// Else units that the stripe may still draw would be noted as slots in use.
#[test]
fn a_slab_that_a_stripe_got_is_not_taken_for_a_listed_one() {
    let (host, slab) = sparse();
    let core = host.heap().core();
    let seen = || core.listed_slab_worth_punching(slab.class(), slab.page());
    assert_eq!(seen(), Some(slab));
    obtain(&host, BYTES).expect("of the slab");
    // Of what its stripe had all is drawn and freed but a unit.
    let stripe = host.stripe(slab.class());
    let word = stripe.look();
    stripe.publish(word.with_left(1));
    core.usage(slab.page())
        .fetch_sub(word.units_left() - 1, Ordering::Relaxed);
    assert!(core.are_few_in_use(slab, core.used_hint(slab.page())));
    let noted = core.slab_state(slab.page()).searched();
    assert_eq!(seen(), None);
    assert_eq!(core.slab_state(slab.page()).searched(), noted);
}

#[test]
fn few_slots_are_fewer_than_a_share_rounded_down_to_a_power_of_two() {
    for (page_shift, class) in (10..=20).flat_map(|shift| (0..96).map(move |class| (shift, class)))
    {
        for order in (0..=8).filter(|order| page_shift + order <= 26) {
            let slab = Slab::new(0, class, order);
            let slots = layout::slots(page_shift, class, order);
            let most = slots / FEW_SHARE;
            let power = most.checked_ilog2().map_or(0, |log2| 1 << log2);
            for used in (power.max(3) - 2..power + 3).chain([1, most]) {
                let few = are_few(page_shift, slab, used);
                let expected = used < power;
                assert_eq!(few, expected, "{page_shift} {class} {order} {used}");
            }
        }
    }
}
