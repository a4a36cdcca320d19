//! Snapshots: what they tell is what was done to the heap, and damage of any bit is found.

#![cfg(all(feature = "inspect", not(any(loom, shuttle))))]

mod host_heap;

use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::inspect::{InspectError, LiveBlock, PageUse, Rule, Snapshot};
use scatterheap_heap::layout::Layout;
use scatterheap_heap::misuse::Misuse;
use scatterheap_heap::ticket::{NO_PAGE, Ticket};
use scatterheap_heap::{COUNT_BYTES, Core, Globals, Heap};
use scatterheap_simt::emulation::{Position, set_position};
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

fn copy(heap: &Heap) -> Vec<u8> {
    let bytes = usize::try_from(heap.layout().metadata_bytes).expect("fits");
    // SAFETY: the metadata begins with the head and has that many bytes; no thread uses the heap.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(heap).cast::<u8>(), bytes) }.to_vec()
}

fn snapshot(heap: &Heap) -> Snapshot {
    Snapshot::new(copy(heap)).expect("a heap")
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % end
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("fits")
    }
}

/// The caller stands for a block of threads, of a small launch or of a large one.
fn stand_in(block_index: u32) {
    set_position(Position {
        block_index,
        grid_dim: if block_index.is_multiple_of(2) {
            1
        } else {
            1 << 12
        },
        ..Default::default()
    });
}

/// The blocks that a test has, with the bytes they have.
type Shadow = BTreeMap<u64, u64>;

fn free(heap: &Heap, address: u64) {
    // SAFETY: the tests free blocks that they got, or test what happens if not.
    unsafe { heap.free(address as *mut u8) };
}

/// Does random operations; sizes are mostly small, and at times up to `largest`.
fn operate(heap: &Heap, random: &mut Random, rounds: u32, largest: u64, shadow: &mut Shadow) {
    for _ in 0..rounds {
        stand_in(u32::try_from(random.below(8)).expect("small"));
        if shadow.is_empty() || random.below(5) < 3 {
            let limit = largest >> random.below(12);
            let bytes = random.below(limit.max(16)) + 1;
            let block = heap.malloc(bytes);
            if !block.is_null() {
                let usable = heap.usable_size(block);
                assert!(shadow.insert(block as u64, usable).is_none());
            }
        } else {
            let index = random.index(shadow.len());
            let address = *shadow.keys().nth(index).expect("below the length");
            shadow.remove(&address);
            free(heap, address);
        }
    }
}

fn agrees(heap: &Heap, shadow: &Shadow) {
    let snapshot = snapshot(heap);
    assert_eq!(snapshot.violations(), []);
    let live: Vec<_> = snapshot.live().collect();
    let told: Vec<_> = live
        .iter()
        .map(|block| (block.address, block.bytes))
        .collect();
    let expected: Vec<_> = shadow
        .iter()
        .map(|(address, bytes)| (*address, *bytes))
        .collect();
    assert_eq!(told, expected);
    assert_eq!(snapshot.is_empty(), shadow.is_empty());
    occupancy_agrees(&snapshot, &live);
    page_map_agrees(&snapshot);
}

fn occupancy_agrees(snapshot: &Snapshot, live: &[LiveBlock]) {
    let occupancy = snapshot.occupancy();
    let pages = occupancy.pages;
    assert_eq!(pages.lost, 0);
    assert_eq!(
        pages.free + pages.in_slabs + pages.in_runs,
        u64::from(snapshot.layout().page_count)
    );
    assert_eq!(occupancy.used_blocks, live.len() as u64);
    let bytes: u64 = live.iter().map(|block| block.bytes).sum();
    assert_eq!(occupancy.used_bytes, bytes);
    for class in &occupancy.classes {
        let used = live.iter().filter(|block| block.class == Some(class.class));
        assert_eq!(used.count() as u64, class.used);
        assert_eq!(class.handed_out_bytes, class.used * class.slot_bytes);
        assert!(class.used <= class.slots && class.idle_slabs <= class.slabs);
    }
    let runs = live.iter().filter(|block| block.class.is_none());
    assert_eq!(runs.count() as u64, occupancy.runs.count);
    let leaked: u64 = snapshot.leaks().iter().map(|leak| leak.blocks).sum();
    assert_eq!(leaked, occupancy.used_blocks);
    assert!((0.0..=1.0).contains(&occupancy.external_fragmentation));
}

fn page_map_agrees(snapshot: &Snapshot) {
    let map = snapshot.page_map();
    assert_eq!(map.len(), snapshot.layout().page_count as usize);
    let pages = snapshot.occupancy().pages;
    let count = |is: fn(&PageUse) -> bool| map.iter().filter(|page| is(page)).count() as u64;
    assert_eq!(count(|page| *page == PageUse::Free), pages.free);
    assert_eq!(
        count(|page| matches!(page, PageUse::Slab { used, .. } if (0.0..=1.0).contains(used))),
        pages.in_slabs
    );
    assert_eq!(
        count(|page| matches!(page, PageUse::Run { .. })),
        pages.in_runs
    );
}

#[test]
fn an_empty_heap_is_clean() {
    for (capacity, stripes) in [(16 << 10, 1), (1_000_000, 8), (9 << 20, 132)] {
        let host = HostHeap::new(capacity, stripes, 0);
        let heap = host.heap();
        agrees(heap, &Shadow::new());
        let occupancy = snapshot(heap).occupancy();
        assert_eq!(occupancy.largest_request, heap.capacity());
        assert!(occupancy.classes.is_empty() && occupancy.external_fragmentation == 0.0);
        assert_eq!(occupancy.internal_fragmentation, None);
    }
}

#[test]
fn a_snapshot_tells_what_was_done() {
    for (seed, capacity, stripes, looks) in [
        (1, 16 << 10, 4, 60),
        (2, 100_000, 1, 60),
        (3, 1_000_000, 8, 60),
        (4, 5_000_000, 16, 60),
        (5, 20_000_000, 8, 60),
        // The words of its slabs lie at every other place.
        (6, 3 << 30, 132, 6),
    ] {
        let host = HostHeap::new(capacity, stripes, 0);
        let (heap, mut random, mut shadow) = (host.heap(), Random::new(seed), Shadow::new());
        for _ in 0..looks {
            operate(heap, &mut random, 200, capacity / 8, &mut shadow);
            agrees(heap, &shadow);
        }
        for address in shadow.keys() {
            free(heap, *address);
        }
        agrees(heap, &Shadow::new());
        assert_eq!(
            snapshot(heap).occupancy().largest_request,
            heap.capacity(),
            "what is left are idle slabs"
        );
    }
}

#[test]
fn what_many_threads_leave_is_clean() {
    for (seed, capacity) in [(1, 1 << 20), (2, 16 << 20)] {
        let host = HostHeap::new(capacity, 4, 0);
        let heap = host.heap();
        for round in 0..10 {
            let shadows: Vec<_> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..4)
                    .map(|thread| {
                        scope.spawn(move || {
                            let mut random = Random::new(seed << 32 | round << 8 | thread);
                            let mut shadow = Shadow::new();
                            operate(heap, &mut random, 4000, 20_000, &mut shadow);
                            shadow
                        })
                    })
                    .collect();
                workers
                    .into_iter()
                    .map(|worker| worker.join().expect("no panic"))
                    .collect()
            });
            let shadow: Shadow = shadows.into_iter().flatten().collect();
            agrees(heap, &shadow);
            for address in shadow.keys() {
                free(heap, *address);
            }
            agrees(heap, &Shadow::new());
        }
    }
}

/// Fills a heap with random blocks and frees a few of them.
fn fill(heap: &Heap, random: &mut Random, largest: u64, shadow: &mut Shadow) {
    let mut refused = 0;
    while refused < 40 {
        let block = heap.malloc(random.below(largest.max(16)) + 1);
        if block.is_null() {
            refused += 1;
        } else {
            shadow.insert(block as u64, 0);
        }
    }
    for _ in 0..random.below(10) {
        let index = random.index(shadow.len());
        let address = *shadow.keys().nth(index).expect("below the length");
        shadow.remove(&address);
        free(heap, address);
    }
}

#[test]
fn the_largest_request_is_served_and_a_larger_one_is_not() {
    for (seed, capacity) in [(1, 16 << 10), (2, 200_000), (3, 3_000_000)] {
        let (mut random, mut small, mut punched) = (Random::new(seed), 0, 0);
        for round in 0..200 {
            let host = HostHeap::new(capacity, 8, 0);
            let (heap, mut shadow) = (host.heap(), Shadow::new());
            let largest = capacity >> (round % 10);
            operate(
                heap,
                &mut random,
                50 << (round % 6),
                largest.max(64),
                &mut shadow,
            );
            if round % 2 == 0 {
                fill(heap, &mut random, largest >> 6, &mut shadow);
            }
            let before = snapshot(heap).occupancy();
            let told = before.largest_request;
            small += u32::from(told <= u64::from(heap.layout().largest_slot));
            if heap.malloc(told + 1).is_null() {
                assert!(
                    told == 0 || !heap.malloc(told).is_null(),
                    "{told} of {capacity}"
                );
            } else {
                // Then empty pages of slabs were given back, on which it does not count.
                let kept = before.pages.in_slabs - before.pages.reclaimable;
                let in_slabs = snapshot(heap).occupancy().pages.in_slabs;
                assert!(in_slabs < kept, "{told} of {capacity}");
                punched += 1;
            }
        }
        assert!(punched <= 10, "{punched} times more was to be had");
        assert!(small > 0, "full heaps were tried");
    }
}

#[test]
fn the_largest_request_of_a_framed_heap_leaves_room_for_its_frame() {
    let host = HostHeap::new(1 << 20, 4, Hardening::RED_ZONES.flags());
    let heap = host.heap();
    let told = snapshot(heap).occupancy().largest_request;
    assert!(heap.malloc(told + 1).is_null());
    assert!(!heap.malloc(told).is_null(), "{told}");
}

#[test]
fn a_head_whose_addresses_cannot_be_is_refused() {
    let host = HostHeap::new(1 << 20, 4, 0);
    let bytes = copy(host.heap());
    for place in (0..size_of::<Core>()).step_by(8) {
        for word in [0, 1, 4096, u64::MAX / 2, u64::MAX] {
            let mut bytes = bytes.clone();
            bytes[place..place + 8].copy_from_slice(&word.to_ne_bytes());
            exercise(bytes);
        }
    }
}

#[test]
fn counters_are_told() {
    let host = HostHeap::new(1 << 20, 4, COUNT_BYTES);
    let heap = host.heap();
    let block = heap.malloc(20) as u64;
    let run = heap.malloc(100_000) as u64;
    assert!(heap.malloc(2 << 20).is_null() && heap.malloc(1_000_000).is_null());
    for address in [block + 8, run + 512, 64, 96, heap.base() + heap.capacity()] {
        free(heap, address);
    }
    free(heap, block);
    free(heap, block);
    let occupancy = snapshot(heap).occupancy();
    let [class] = occupancy.classes[..] else {
        panic!("one class: {:?}", occupancy.classes)
    };
    assert_eq!((class.slot_bytes, class.slabs, class.used), (32, 1, 0));
    assert_eq!((class.served, class.asked_bytes), (Some(1), Some(20)));
    assert_eq!(occupancy.internal_fragmentation, Some(12.0 / 32.0));
    let runs = occupancy.runs;
    assert_eq!(
        (runs.count, runs.bytes, runs.asked_bytes),
        (1, 100_352, Some(100_000))
    );
    assert_eq!(
        (runs.failures.impossible, runs.failures.exhausted),
        (1, 1),
        "{runs:?}"
    );
    let misuses = occupancy.misuses;
    let addresses = |kind| &misuses.of(kind).addresses[..];
    let end = heap.base() + heap.capacity();
    assert_eq!(addresses(Misuse::Foreign), [64, 96, end]);
    assert_eq!(addresses(Misuse::Interior), [block + 8, run + 512]);
    assert_eq!(addresses(Misuse::NotAllocated), [block]);
    assert_eq!(misuses.total(), 6);
    assert_eq!(snapshot(heap).check(), Ok(()));
}

#[test]
fn what_is_no_heap_is_refused_with_a_reason() {
    let host = HostHeap::new(1 << 20, 4, 0);
    let bytes = copy(host.heap());
    let refused = |bytes: Vec<u8>| Snapshot::new(bytes).expect_err("refused");
    assert_eq!(
        refused(bytes[..100].to_vec()),
        InspectError::NoHead { bytes: 100 }
    );
    assert_eq!(refused(vec![0; 4096]), InspectError::NotAHeap);
    let short = bytes.len() - 1;
    assert_eq!(
        refused(bytes[..short].to_vec()),
        InspectError::Length {
            expected: bytes.len() as u64,
            found: short as u64
        }
    );
    let mut damaged = bytes.clone();
    damaged[16] ^= 1;
    assert_eq!(refused(damaged), InspectError::Head);
    assert!(Snapshot::new(bytes).is_ok());
}

/// A heap in which everything occurs: full, listed, idle and half-drawn slabs, runs, free pages.
fn varied(capacity: u64, seed: u64) -> HostHeap {
    let host = HostHeap::new(capacity, 8, 0);
    let (heap, mut random, mut shadow) = (host.heap(), Random::new(seed), Shadow::new());
    operate(heap, &mut random, 3000, capacity / 16, &mut shadow);
    for bytes in [16, 48, 100] {
        stand_in(3);
        let many: Vec<_> = (0..400).map(|_| heap.malloc(bytes) as u64).collect();
        many.iter().step_by(3).for_each(|block| free(heap, *block));
    }
    let idle = heap.malloc(1000) as u64;
    free(heap, idle);
    host
}

/// What `check` must say to a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Found,
    /// Any value is right.
    Unnoticed,
    /// It depends on the rest of the heap.
    Either,
}

/// Bits that `check` must find, or may leave unnoticed, by the array that they are in.
struct Judge<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

impl Judge<'_> {
    fn word(&self, array: u64, index: u64) -> u64 {
        let start = usize::try_from(array + 8 * index).expect("fits");
        u64::from_le_bytes(self.bytes[start..start + 8].try_into().expect("eight"))
    }

    /// Begin and length of each array in bytes.
    fn arrays(&self) -> [(u64, u64); 11] {
        let (layout, offsets) = (self.layout, &self.layout.offsets);
        let classes = u64::from(layout.class_count);
        let (sets, pages) = (classes + 1, u64::from(layout.page_count));
        [
            (offsets.globals, size_of::<Globals>() as u64),
            (offsets.classes, 16 * classes),
            (offsets.counters, 64 * (classes + 1)),
            (offsets.set_states, 128 * sets),
            (
                offsets.set_summaries,
                8 * sets * u64::from(layout.summary_words()),
            ),
            (offsets.set_words, 8 * sets * u64::from(layout.set_words())),
            (offsets.stripes, 8 * u64::from(layout.stripe_words())),
            (offsets.entries, 32 * pages),
            (offsets.slabs, 32 * layout.slab_places()),
            (offsets.slot_words, 4 * layout.slot_word_count()),
            (layout.churn_notes(), 128 * u64::from(layout.stripes)),
        ]
    }

    /// The verdict on bit `bit` of array `array`.
    fn verdict(&self, array: usize, bit: u64) -> Verdict {
        let byte = bit / 8;
        let found_if = |found| {
            if found {
                Verdict::Found
            } else {
                Verdict::Unnoticed
            }
        };
        match array {
            // Stripes with a slab, pages that have memory, the lease, exchanges of the quarantine; the others are wishes,
            // for diagnosis, or padding.
            0 => {
                let begun = offset_of!(Globals, drains_begun) as u64;
                let is_of_exchanges = (begun..begun + 16).contains(&byte);
                found_if(byte < 8 || (12..16).contains(&byte) || is_of_exchanges)
            }
            2 | 10 => Verdict::Unnoticed,
            // The count, and after the epoch the holders.
            3 => found_if(byte % 128 < 4 || (8..12).contains(&(byte % 128))),
            4 => self.summary(bit / 64, bit % 64),
            6 => self.stripe(byte / 8, bit % 64),
            7 => found_if(byte % 32 < 8),
            8 => found_if(byte % 32 < 4),
            _ => Verdict::Found,
        }
    }

    fn summary_bit(&self, position: u64, bit: u64, exists: bool, over: bool) -> Verdict {
        let set = self.word(position, 0) >> bit & 1 != 0;
        if !exists || (set && over) {
            Verdict::Found
        } else {
            Verdict::Unnoticed
        }
    }

    fn has_members(&self, set: u64, word: u64) -> bool {
        let words = u64::from(self.layout.set_words());
        word < words && self.word(self.layout.offsets.set_words, set * words + word) != 0
    }

    fn summary(&self, index: u64, bit: u64) -> Verdict {
        let summary_words = u64::from(self.layout.summary_words());
        let word = index % summary_words * 64 + bit;
        self.summary_bit(
            self.layout.offsets.set_summaries + 8 * index,
            bit,
            word < self.layout.set_words().into(),
            self.has_members(index / summary_words, word),
        )
    }

    fn stripe(&self, index: u64, bit: u64) -> Verdict {
        let place = u32::try_from(index).expect("a word");
        let Some((class, stripe)) = self.layout.stripe_at(place) else {
            return Verdict::Unnoticed;
        };
        let in_use = stripe < self.layout.stripe_count(class);
        let ticket = Ticket(self.word(self.layout.offsets.stripes, index));
        match bit {
            // The density: any at which the slab has that many units.
            32..35 if ticket.page() != NO_PAGE => Verdict::Either,
            // Hints, and the generation.
            30..32 | 35..39 if in_use => Verdict::Unnoticed,
            _ => Verdict::Found,
        }
    }
}

fn flip(bytes: &mut [u8], bit: u64) {
    bytes[usize::try_from(bit / 8).expect("fits")] ^= 1 << (bit % 8);
}

#[test]
fn any_flipped_bit_that_matters_is_found() {
    for (capacity, seed, flips) in [(1_000_000, 1, 600), (5_000_000, 2, 300), (60_000, 3, 200)] {
        let host = varied(capacity, seed);
        let (heap, mut random) = (host.heap(), Random::new(seed));
        let bytes = copy(heap);
        assert_eq!(snapshot(heap).violations(), []);
        let judge = Judge {
            layout: heap.layout(),
            bytes: &bytes,
        };
        for (array, (start, length)) in judge.arrays().into_iter().enumerate() {
            for _ in 0..flips {
                let bit = random.below(8 * length);
                let mut damaged = bytes.clone();
                flip(&mut damaged, 8 * start + bit);
                let snapshot = Snapshot::new(damaged).expect("the head is whole");
                let (verdict, said) = (judge.verdict(array, bit), snapshot.check());
                let right = match verdict {
                    Verdict::Found => said.is_err(),
                    Verdict::Unnoticed => said.is_ok(),
                    Verdict::Either => true,
                };
                assert!(right, "bit {bit} of array {array}: {verdict:?}, {said:?}");
            }
        }
    }
}

#[test]
fn any_flipped_bit_of_the_head_is_found_but_for_what_may_be_anything() {
    let host = varied(1_000_000, 4);
    let (bytes, whole) = (copy(host.heap()), snapshot(host.heap()));
    for bit in 0..8 * size_of::<Heap>() as u64 {
        let mut damaged = bytes.clone();
        flip(&mut damaged, bit);
        if let Ok(snapshot) = Snapshot::new(damaged) {
            let beyond = snapshot.base() % snapshot.layout().page_bytes();
            let aged = snapshot.generation() != whole.generation();
            // Only who made the heap knows these.
            assert!(
                aged || snapshot.base() != whole.base() || snapshot.flags() != whole.flags(),
                "bit {bit}"
            );
            let head = bytemuck::pod_read_unaligned(&bytes[..size_of::<Core>()]);
            assert!(whole.is_of(&head) && !snapshot.is_of(&head), "bit {bit}");
            // What is in use is of the heap's generation.
            assert_eq!(snapshot.check().is_err(), aged || beyond != 0, "bit {bit}");
        }
    }
}

#[test]
fn a_violation_says_where_and_what() {
    // Slabs of this heap are single pages of two words of the bitmap.
    let host = HostHeap::new(16 << 10, 1, 0);
    let heap = host.heap();
    let page = usize::try_from((heap.malloc(16) as u64 - heap.base()) >> 10).expect("fits");
    let mut bytes = copy(heap);
    let slot_words = usize::try_from(heap.layout().offsets.slot_words).expect("fits");
    bytes[slot_words + 8 * page] ^= 1;
    let snapshot = Snapshot::new(bytes).expect("the head is whole");
    let violation = snapshot.check().expect_err("a bit too many");
    assert_eq!(violation.rule, Rule::Usage);
    let told = violation.to_string();
    assert!(
        told.contains("slab of class") && told.contains("expected") && told.contains("found"),
        "{told}"
    );
}

/// Everything that reads a snapshot.
fn exercise(bytes: Vec<u8>) {
    if let Ok(snapshot) = Snapshot::new(bytes) {
        let occupancy = snapshot.occupancy();
        assert_eq!(occupancy.used_blocks, snapshot.live().count() as u64);
        assert_eq!(snapshot.is_empty(), snapshot.leaks().is_empty());
        // Fewer, where the number of pages that the heap has so far is damaged.
        assert!(snapshot.page_map().len() <= snapshot.layout().page_count as usize);
        let violations = snapshot.violations();
        assert_eq!(snapshot.check().err(), violations.first().copied());
        assert!(
            violations
                .iter()
                .all(|violation| !violation.to_string().is_empty())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_a_snapshot_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        exercise(bytes);
    }

    #[test]
    fn no_damage_makes_a_snapshot_panic(
        seed in 0_u64..8,
        changes in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..200),
        whole_head in any::<bool>(),
    ) {
        let host = varied(60_000 << (seed % 4), seed);
        let mut bytes = copy(host.heap());
        let first = if whole_head { size_of::<Heap>() as u64 } else { 0 } / 8;
        let words = bytes.len() as u64 / 8 - first;
        for (place, value) in changes {
            let start = usize::try_from(8 * (first + place % words)).expect("fits");
            // Sparse words are more often nearly right.
            let value = if value % 3 == 0 { value >> (value % 64) } else { 1 << (value % 64) };
            let before = u64::from_le_bytes(bytes[start..start + 8].try_into().expect("eight"));
            bytes[start..start + 8].copy_from_slice(&(before ^ value).to_le_bytes());
        }
        exercise(bytes);
    }

    #[test]
    fn no_noise_after_a_head_makes_a_snapshot_panic(seed in any::<u64>(), sparse in 0_u64..40) {
        let host = HostHeap::new(60_000, 4, COUNT_BYTES);
        let (mut bytes, mut random) = (copy(host.heap()), Random::new(seed));
        for byte in &mut bytes[size_of::<Heap>()..] {
            if random.below(sparse + 1) == 0 {
                *byte = random.below(256).to_le_bytes()[0];
            }
        }
        exercise(bytes);
    }
}
