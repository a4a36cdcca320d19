//! What refills should do in launches of 2^20 threads.

use super::*;

/// Threads of a launch.
const THREADS: usize = 1 << 20;
/// Launches after which slabs are as large as they get.
const FIRST: usize = 12;
/// Launches that are looked at after those.
const LATER: usize = 4;

#[test]
fn a_launch_that_is_repeated_is_hardly_refilled_in_a_young_heap() {
    for bytes in [16, 48, 1024] {
        let mut gpu = Gpu::new(bytes.into());
        let refills = gpu.refills_of_launches(&vec![bytes; THREADS], FIRST + LATER);
        // Each stripe gets its first slab.
        assert!(refills[0] >= MULTIPROCESSORS, "{bytes} B: {refills:?}");
        let later: u32 = refills[FIRST..].iter().sum();
        assert!(later <= MULTIPROCESSORS / 10, "{bytes} B: {refills:?}");
    }
}

#[test]
fn an_aged_heap_serves_a_launch() {
    let mut gpu = Gpu::new(1);
    let kept = gpu.age();
    assert!(!kept.contains(&0), "NULL while it aged");
    let sizes = gpu.sizes(16, 512, THREADS);
    let blocks = gpu.allocate(&sizes);
    assert!(!blocks.contains(&0), "NULL");
    // What was kept is not among them.
    let mut both = [kept, blocks].concat();
    both.sort_unstable();
    assert!(both.windows(2).all(|pair| pair[0] < pair[1]));
}
