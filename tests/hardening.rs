//! Hardened heaps, by kernels that commit what they are to find. The kernels are this test's own, so
//! they run on the CPU alone; the allocator is the same on a GPU.

#![allow(clippy::cast_possible_truncation, reason = "64-bit addresses")]

mod allocations;

use allocations::{Allocations, sizes, takes_whole};
use bytemuck::{Pod, Zeroable};
use scatterheap::simt::{kernel, thread};
use scatterheap::{Device, Error, Grid, Hardening, Heap, Misuse};

/// Threads of each launch; one of them is the criminal.
const THREADS: u32 = 500;
const CRIMINAL: u32 = 333;
/// Bytes that each thread asks for.
const BYTES: u64 = 100;

/// Threads that each have a block of one of ten sites.
const FORGETFUL: u32 = 1000;

const OVERRUN: u64 = 0;
const UNDERRUN: u64 = 1;
const USE_AFTER_FREE: u64 = 2;
const DOUBLE_FREE: u64 = 3;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CrimeArguments {
    heap: scatterheap::heap::Heap,
    crime: u64,
    /// Where the criminal leaves the address of its block.
    evidence: u64,
}

kernel! {
    /// Every thread allocates, writes and frees a block; one does it badly.
    struct Crime = "test_kernel_crime";
    fn body(arguments: &CrimeArguments) {
        let heap = &arguments.heap;
        let block = heap.malloc(BYTES);
        if block.is_null() {
            return;
        }
        let guilty = thread::index_1d() == CRIMINAL;
        // SAFETY: none for the criminal, who stays in the heap's own memory.
        unsafe {
            block.write_bytes(1, BYTES as usize);
            if guilty {
                *(arguments.evidence as *mut u64) = block as u64;
                match arguments.crime {
                    OVERRUN => block.add(BYTES as usize).write(1),
                    UNDERRUN => block.sub(1).write(1),
                    _ => {}
                }
            }
            heap.free(block);
            if guilty {
                match arguments.crime {
                    USE_AFTER_FREE => block.add(40).write(1),
                    DOUBLE_FREE => heap.free(block),
                    _ => {}
                }
            }
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LeakArguments {
    heap: scatterheap::heap::Heap,
}

kernel! {
    /// Threads of two sites forget their blocks; the others free theirs.
    struct Forget = "test_kernel_forget";
    fn body(arguments: &LeakArguments) {
        if thread::index_1d() >= FORGETFUL {
            return;
        }
        let site = thread::index_1d() % 10;
        let block = arguments.heap.malloc_tagged(u64::from(site) * 300 + 1, site);
        if site != 3 && site != 7 {
            // SAFETY: nobody else knows the block.
            unsafe { arguments.heap.free(block) };
        }
    }
}

fn hardened(device: &Device, modes: Hardening) -> Heap {
    let heap = Heap::builder(device).capacity(4 << 20).harden(modes);
    heap.build().expect("there is memory for the heap")
}

/// Commits a crime; gives the criminal's block, and how the launch ended.
fn commit(heap: &Heap, crime: u64) -> (u64, scatterheap::Result<()>) {
    let evidence = heap.device().allocate(8).expect("device memory");
    evidence.clear().expect("the device works");
    let arguments = CrimeArguments {
        heap: heap.handle().expect("the heap is there"),
        crime,
        evidence: evidence.address(),
    };
    // SAFETY: the evidence lives until the launch has ended; crimes stay in the heap.
    let ended = unsafe { heap.launch::<Crime>(Grid::of(THREADS), &arguments) };
    (evidence.read(0, 1).expect("the device works")[0], ended)
}

fn device() -> Device {
    Device::cpu_with_threads(4)
}

#[test]
fn each_crime_is_reported_with_the_block() {
    let patient = Hardening::all().without(Hardening::TRAP);
    for (crime, modes, kind) in [
        (OVERRUN, Hardening::RED_ZONES, Misuse::Overrun),
        (UNDERRUN, Hardening::RED_ZONES, Misuse::Underrun),
        (USE_AFTER_FREE, Hardening::POISON, Misuse::UseAfterFree),
        (DOUBLE_FREE, Hardening::QUARANTINE, Misuse::DoubleFree),
    ] {
        for modes in [modes, patient] {
            let device = device();
            let heap = hardened(&device, modes);
            let (block, ended) = commit(&heap, crime);
            ended.expect("the kernel ends");
            heap.drain_quarantine().expect("the kernel ends");
            if kind == Misuse::UseAfterFree && heap.misuse_report().expect("a report").is_empty() {
                // It is found when the slot is handed out again: all of them are, and more are asked for.
                let all = Allocations::new(&heap, 45_000, sizes(BYTES, BYTES));
                all.free();
            }
            let report = heap.misuse_report().expect("the heap is there");
            assert_eq!(report.of(kind).addresses, [block], "{modes}: {report}");
            assert_eq!(report.total(), 1, "{modes}: {report}");
            heap.drain_quarantine().expect("the kernel ends");
            let snapshot = heap.snapshot().expect("the heap is there");
            assert!(snapshot.is_empty(), "{modes}: {:?}", snapshot.leaks());
            assert_eq!(snapshot.violations(), []);
        }
    }
}

#[test]
fn a_trap_ends_the_launch() {
    let device = device();
    for crime in [OVERRUN, DOUBLE_FREE] {
        let heap = hardened(&device, Hardening::all());
        let (block, ended) = commit(&heap, crime);
        assert!(matches!(ended, Err(Error::KernelFault { .. })), "{ended:?}");
        let report = heap.misuse_report().expect("the CPU keeps its memory");
        assert_eq!(report.total(), 1, "{report}");
        assert!(
            report.iter().any(|kind| kind.addresses == [block]),
            "{report}"
        );
    }
}

#[test]
fn leaks_are_told_by_site() {
    let device = device();
    let heap = hardened(&device, Hardening::TAGS | Hardening::QUARANTINE);
    let arguments = LeakArguments {
        heap: heap.handle().expect("the heap is there"),
    };
    // SAFETY: the heap outlives the launch.
    unsafe { heap.launch::<Forget>(Grid::of(FORGETFUL), &arguments) }.expect("the kernel ends");
    let report = heap.leak_report().expect("blocks have headers");
    let found: Vec<_> = report
        .sites
        .iter()
        .map(|leak| (leak.site, leak.blocks, leak.bytes))
        .collect();
    // Blocks in the quarantine are not leaks.
    assert_eq!(found, [(3, 100, 90_100), (7, 100, 210_100)]);
    assert_eq!(report.damaged, 0);
    let text = report.to_string();
    assert!(
        text.starts_with("site 3: 100 blocks of 90100 bytes in all, such as 0x"),
        "{text}"
    );
    for leak in &report.sites {
        assert!(leak.example >= heap.base() && leak.example < heap.base() + heap.capacity());
    }
}

#[test]
fn a_heap_without_headers_has_no_leak_report() {
    let device = device();
    let heap = hardened(&device, Hardening::ZERO);
    let error = heap.leak_report().expect_err("there are no headers");
    assert!(error.to_string().contains("Hardening::TAGS"), "{error}");
}

#[test]
fn a_reset_makes_a_hardened_heap_as_new() {
    let device = device();
    let heap = hardened(&device, Hardening::all());
    for _ in 0..3 {
        let all = Allocations::new(&heap, 2000, sizes(1, 1000));
        all.fill();
        assert_eq!(all.nulls(), 0);
        heap.reset().expect("the heap is there");
        let report = heap.misuse_report().expect("the heap is there");
        assert!(report.is_empty(), "{report}");
        assert_eq!(heap.snapshot().expect("the heap is there").violations(), []);
    }
    assert!(!takes_whole(&heap), "frames take their part");
}

#[test]
fn a_handle_from_before_a_reset_is_stale() {
    let device = device();
    for modes in [Hardening::NONE, Hardening::TAGS] {
        let heap = hardened(&device, modes);
        let stale = heap.handle().expect("the heap is there");
        heap.reset().expect("the heap is there");
        let blocks = Allocations::new(&heap, 100, sizes(50, 50));
        for block in blocks.blocks() {
            // SAFETY: it is refused.
            unsafe { stale.free(block.address as *mut u8) };
        }
        let report = heap.misuse_report().expect("the heap is there");
        assert_eq!((report.count(Misuse::Stale), report.total()), (100, 100));
        blocks.fill();
        assert_eq!(blocks.check_and_free(), 0);
    }
}
