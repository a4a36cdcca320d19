//! Hardened heaps against a model, in all sets of modes, and each crime that a mode is to find.

#![cfg(all(feature = "inspect", not(any(loom, shuttle))))]
#![allow(clippy::cast_possible_truncation, reason = "64-bit addresses")]

mod host_heap;

use host_heap::{HostHeap, QUARANTINED};
use proptest::prelude::*;
use scatterheap_heap::hardened::{Hardening, Header};
use scatterheap_heap::inspect::{MisuseReport, Snapshot};
use scatterheap_heap::misuse::Misuse;
use scatterheap_heap::{COUNT_BYTES, Globals, Heap, Share};
use scatterheap_simt::atomic::Ordering;
use std::alloc::Layout as Request;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// All modes that let a program go on.
fn patient() -> Hardening {
    Hardening::all().without(Hardening::TRAP)
}

fn hardened(modes: Hardening) -> HostHeap {
    HostHeap::new(MIB, 2, modes.flags())
}

fn snapshot(heap: &Heap) -> Snapshot {
    let bytes = usize::try_from(heap.layout().metadata_bytes).expect("64 bit");
    // SAFETY: the metadata begin there and have that many bytes.
    let metadata = unsafe { std::slice::from_raw_parts(heap.metadata() as *const u8, bytes) };
    let snapshot = Snapshot::new(metadata.to_vec()).expect("a heap");
    assert_eq!(snapshot.violations(), []);
    snapshot
}

fn report(heap: &Heap) -> MisuseReport {
    snapshot(heap).misuse_report()
}

/// That there was one misuse, of this kind and with this address; no other.
fn assert_only(heap: &Heap, kind: Misuse, address: u64) {
    let report = report(heap);
    assert_eq!(report.of(kind).addresses, [address], "{kind:?}: {report}");
    assert_eq!(report.total(), 1, "{report}");
}

fn ask(heap: &Heap, bytes: u64) -> u64 {
    let block = heap.malloc(bytes) as u64;
    assert_ne!(block, 0, "{bytes} bytes");
    block
}

fn free(heap: &Heap, address: u64) {
    // SAFETY: what is no block is refused, which is what is tested; blocks are the caller's.
    unsafe { heap.free(address as *mut u8) };
}

/// Writes another byte than the one that is there: a header's seal is a hash of its address, so any
/// given byte may be there already.
fn spoil(address: u64) {
    let byte = address as *mut u8;
    // SAFETY: a crime, but in memory of the test's own heap.
    unsafe { byte.write(!byte.read()) };
}

fn takes_whole(host: &HostHeap) {
    let heap = host.heap();
    let modes = Hardening::of_flags(heap.flags());
    let everything = ask(heap, heap.capacity() - modes.overhead());
    free(heap, everything);
    heap.drain_quarantine(Share { index: 0, count: 1 });
    assert!(snapshot(heap).is_empty());
}

#[test]
fn an_overrun_of_one_byte_is_found_in_every_size() {
    for bytes in [1, 7, 8, 16, 17, 100, 1000, 8000, 100_000] {
        let host = hardened(Hardening::RED_ZONES);
        let heap = host.heap();
        let (good, block) = (ask(heap, bytes), ask(heap, bytes));
        spoil(block + bytes);
        free(heap, good);
        free(heap, block);
        assert_only(heap, Misuse::Overrun, block);
        takes_whole(&host);
    }
}

#[test]
fn an_underrun_of_one_byte_is_found_in_every_alignment() {
    for alignment in [1, 16, 64, 512, 4096] {
        for before in [1, 5, 16, 20, 60] {
            if before > alignment.max(16) {
                continue;
            }
            let host = hardened(Hardening::RED_ZONES);
            let heap = host.heap();
            let request = Request::from_size_align(100, alignment).expect("valid");
            let block = heap.aligned_alloc(request) as u64;
            assert!(block != 0 && block.is_multiple_of(alignment as u64));
            spoil(block - before as u64);
            free(heap, block);
            assert_only(heap, Misuse::Underrun, block);
            takes_whole(&host);
        }
    }
}

#[test]
fn a_write_after_free_is_found_when_the_memory_is_handed_out_again() {
    for (bytes, offset) in [(1, 0), (100, 0), (100, 99), (100, 50), (70_000, 69_999)] {
        let host = hardened(Hardening::POISON);
        let heap = host.heap();
        let block = ask(heap, bytes);
        free(heap, block);
        spoil(block + offset);
        let mut others = Vec::new();
        // Other slots of the slab come first.
        while report(heap).is_empty() {
            others.push(ask(heap, bytes));
        }
        assert_only(heap, Misuse::UseAfterFree, block);
        assert_eq!(others.pop(), Some(block));
    }
}

#[test]
fn a_second_free_is_known_from_a_wild_one() {
    for modes in [
        Hardening::TAGS,
        Hardening::QUARANTINE,
        Hardening::POISON,
        patient(),
    ] {
        let host = hardened(modes);
        let heap = host.heap();
        let (block, run) = (ask(heap, 100), ask(heap, 100_000));
        let neighbour = ask(heap, 100);
        free(heap, block);
        free(heap, block);
        assert_only(heap, Misuse::DoubleFree, block);
        // SAFETY: it is refused.
        assert!(unsafe { heap.realloc(block as *mut u8, 10) }.is_null());
        assert_eq!(report(heap).count(Misuse::DoubleFree), 2);
        free(heap, run + 16);
        free(heap, neighbour + 16);
        free(heap, neighbour - 16);
        assert_eq!(report(heap).count(Misuse::Interior), 3);
        let slot = block.min(neighbour) - neighbour.abs_diff(block);
        free(heap, slot);
        assert_eq!(
            report(heap).count(Misuse::NeverAllocated),
            1,
            "{}",
            report(heap)
        );
        assert_eq!(report(heap).total(), 6);
        free(heap, neighbour);
        free(heap, run);
        takes_whole(&host);
    }
}

#[test]
fn the_quarantine_keeps_a_block_until_others_were_freed() {
    let host = hardened(Hardening::QUARANTINE);
    let heap = host.heap();
    let block = ask(heap, 100);
    free(heap, block);
    for freed in 1..=QUARANTINED {
        let other = ask(heap, 100);
        assert_ne!(other, block, "after {freed} frees");
        free(heap, other);
    }
    assert_eq!(snapshot(heap).occupancy().used_blocks, QUARANTINED);
    // It is drained before anything is refused.
    takes_whole(&host);
    assert!(report(heap).is_empty());
}

/// What a request that found nothing waits for may be a lane of its own warp, which gets a turn when this one naps, and not for all the time
/// that a search takes ([`scatterheap_heap`]'s module `nap`).
#[test]
fn who_waits_for_a_block_on_its_way_out_of_the_quarantine_does_not_search() {
    let host = hardened(Hardening::QUARANTINE);
    let heap = host.heap();
    let searches = || {
        let occupancy = snapshot(heap).occupancy();
        let failures = occupancy.classes.iter().map(|class| class.failures.total());
        failures.sum::<u64>()
    };
    while !heap.malloc(64).is_null() {}
    let before = searches();
    let address = heap.metadata() + heap.layout().offsets.globals;
    // SAFETY: the globals of the heap lie there, and what is done to them is what a lane of another warp would do.
    let globals = unsafe { &*(address as *const Globals) };
    // Relaxed and release: as the lane would.
    globals.drains_begun.fetch_add(1, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| heap.malloc(64).is_null());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        globals.drains_done.fetch_add(1, Ordering::Release);
        assert!(waiting.join().expect("it does not panic"));
    });
    // One before it waited, and one after.
    assert_eq!(searches() - before, 2);
}

#[test]
fn zero_bytes_are_zero_though_the_memory_was_used() {
    let host = hardened(Hardening::ZERO);
    let heap = host.heap();
    for bytes in [1, 100, 5000, 100_000] {
        for _ in 0..50 {
            let block = ask(heap, bytes);
            for offset in 0..bytes {
                // SAFETY: the block has that many bytes.
                assert_eq!(unsafe { ((block + offset) as *const u8).read() }, 0);
                spoil(block + offset);
            }
            free(heap, block);
        }
    }
}

#[test]
fn a_trap_comes_at_once_and_the_report_tells_why() {
    let host = hardened(Hardening::TRAP);
    let heap = host.heap();
    let block = ask(heap, 100);
    assert!(catch_unwind(AssertUnwindSafe(|| free(heap, block + 16))).is_err());
    assert_only(heap, Misuse::Interior, block + 16);
    free(heap, block);
}

#[test]
fn headers_name_the_site() {
    let host = hardened(Hardening::TAGS);
    let heap = host.heap();
    let tagged: BTreeMap<u64, u32> = (0..200)
        .map(|site| (heap.malloc_tagged(30 + u64::from(site), site) as u64, site))
        .collect();
    let mut seen = 0;
    for live in snapshot(heap).live() {
        // SAFETY: a live block of a framed heap begins with its header.
        let header = unsafe { *(live.address as *const Header) };
        assert!(header.is_live(live.address, 0));
        let user = live.address + header.distance();
        assert_eq!(header.site(), tagged[&user]);
        assert_eq!(header.bytes(), 30 + u64::from(header.site()));
        seen += 1;
    }
    assert_eq!(seen, 200);
}

#[test]
fn a_stale_handle_is_always_noticed() {
    for modes in [Hardening::ZERO, patient()] {
        let host = hardened(modes);
        // SAFETY: nobody uses it.
        let stale = unsafe { host.reset() };
        let block = ask(host.heap(), 50);
        assert!(stale.malloc(50).is_null() && stale.calloc(5, 5).is_null());
        free(&stale, block);
        // SAFETY: it is refused.
        assert!(unsafe { stale.realloc(block as *mut u8, 60) }.is_null());
        assert_eq!(stale.usable_size(block as *const u8), 0);
        assert_eq!(report(host.heap()).count(Misuse::Stale), 4);
        free(host.heap(), block);
        takes_whole(&host);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Malloc(u64, u32),
    Calloc(u64),
    /// Bytes, and the binary logarithm of the alignment.
    Aligned(u64, u32),
    Realloc(usize, u64),
    Free(usize),
}

struct Block {
    bytes: u64,
    owner: u8,
}

struct Model<'a> {
    heap: &'a Heap,
    modes: Hardening,
    live: BTreeMap<u64, Block>,
    owners: u8,
}

impl Model<'_> {
    fn pick(&self, number: usize) -> Option<u64> {
        let count = self.live.len().max(1);
        self.live.keys().nth(number % count).copied()
    }

    fn bytes<'b>(address: u64, bytes: u64) -> &'b mut [u8] {
        // SAFETY: a live block of the test has that many bytes.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) }
    }

    fn admit(&mut self, address: u64, bytes: u64, alignment: u64, zero: bool) {
        if address == 0 {
            return;
        }
        assert!(address.is_multiple_of(alignment.max(16)));
        let usable = self.heap.usable_size(address as *const u8);
        assert!(usable >= bytes && (!self.modes.is_framed() || usable == bytes));
        if let Some((other, block)) = self.live.range(..address + bytes).next_back() {
            assert!(other + block.bytes <= address, "overlap");
        }
        let content = Self::bytes(address, bytes);
        if zero || self.modes.contains(Hardening::ZERO) {
            assert!(content.iter().all(|byte| *byte == 0));
        }
        self.owners = self.owners.wrapping_add(1);
        content.fill(self.owners);
        let owner = self.owners;
        self.live.insert(address, Block { bytes, owner });
    }

    fn check(&mut self, address: u64) -> Block {
        let block = self.live.remove(&address).expect("live");
        let content = Self::bytes(address, block.bytes);
        assert!(content.iter().all(|byte| *byte == block.owner));
        block
    }

    fn realloc(&mut self, address: u64, bytes: u64) {
        let old = self.check(address);
        // SAFETY: the block is live and nobody else's.
        let new = unsafe { self.heap.realloc(address as *mut u8, bytes) } as u64;
        if new == 0 && bytes > 0 {
            self.live.insert(address, old);
            return;
        }
        if new == 0 {
            return;
        }
        let content = Self::bytes(new, bytes);
        let (kept, fresh) = content.split_at(old.bytes.min(bytes) as usize);
        assert!(kept.iter().all(|byte| *byte == old.owner));
        let zero = self.modes.contains(Hardening::ZERO);
        assert!(!zero || fresh.iter().all(|byte| *byte == 0));
        content.fill(old.owner);
        let owner = old.owner;
        self.live.insert(new, Block { bytes, owner });
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            // Odd sizes by the functions that are called.
            Operation::Malloc(bytes, site) => {
                let block = if bytes % 2 == 0 {
                    self.heap.malloc_tagged(bytes, site)
                } else {
                    self.heap.malloc_called(bytes, site)
                };
                self.admit(block as u64, bytes, 1, false);
            }
            Operation::Calloc(bytes) => {
                let block = if bytes % 2 == 0 {
                    self.heap.calloc(1, bytes)
                } else {
                    self.heap.calloc_called(1, bytes)
                };
                self.admit(block as u64, bytes, 1, true);
            }
            Operation::Aligned(bytes, shift) => {
                let (block, zero) = if bytes % 2 == 0 {
                    let request = Request::from_size_align(bytes as usize, 1 << shift);
                    (self.heap.aligned_alloc(request.expect("valid")), false)
                } else {
                    (self.heap.zeroed_called(bytes, 1 << shift), true)
                };
                self.admit(block as u64, bytes, 1 << shift, zero);
            }
            Operation::Realloc(number, bytes) => {
                if let Some(address) = self.pick(number) {
                    self.realloc(address, bytes);
                }
            }
            Operation::Free(number) => {
                if let Some(address) = self.pick(number) {
                    self.check(address);
                    free(self.heap, address);
                }
            }
        }
    }
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let bytes = || prop_oneof![6 => 1..300_u64, 3 => 1..5000_u64, 1 => 1..200_000_u64];
    let operation = prop_oneof![
        8 => (bytes(), any::<u32>()).prop_map(|(bytes, site)| Operation::Malloc(bytes, site)),
        2 => bytes().prop_map(Operation::Calloc),
        2 => (bytes(), 0..14_u32).prop_map(|(bytes, shift)| Operation::Aligned(bytes, shift)),
        4 => (any::<usize>(), bytes()).prop_map(|(number, bytes)| Operation::Realloc(number, bytes)),
        1 => any::<usize>().prop_map(|number| Operation::Realloc(number, 0)),
        8 => any::<usize>().prop_map(Operation::Free),
    ];
    prop::collection::vec(operation, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Good programs are served well, and accused of nothing.
    #[test]
    fn every_set_of_modes_does_as_the_model(
        modes in 0..128_u32,
        capacity in prop_oneof![16_u64 << 10..64 << 10, 64_u64 << 10..MIB],
        stripes in 1..=4_u32,
        operations in operations(),
    ) {
        let flags = modes & (COUNT_BYTES | Hardening::all().flags());
        let host = HostHeap::new(capacity, stripes, flags);
        let modes = Hardening::of_flags(flags);
        let mut model = Model { heap: host.heap(), modes, live: BTreeMap::new(), owners: 0 };
        for operation in &operations {
            model.apply(operation);
        }
        while let Some(address) = model.pick(0) {
            model.check(address);
            free(host.heap(), address);
        }
        prop_assert!(report(host.heap()).is_empty(), "{}", report(host.heap()));
        takes_whole(&host);
        prop_assert!(report(host.heap()).is_empty(), "{}", report(host.heap()));
    }
}
