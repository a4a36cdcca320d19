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
fn blocks_of_a_first_launch_lie_in_hardly_more_than_their_bytes() {
    let sizes = vec![16; THREADS];
    let bytes = u64::from(sizes.iter().sum::<u32>());
    for seed in 0..8 {
        let mut blocks = Gpu::new(seed).allocate(&sizes);
        blocks.sort_unstable();
        let range = blocks[THREADS - 1] + 16 - blocks[0];
        assert!(range <= bytes + bytes / 16, "{range} of {bytes} bytes");
    }
}

#[test]
fn large_blocks_are_not_refilled() {
    let mut gpu = Gpu::new(0);
    let refills = gpu.refills_of_launches(&[1 << 20; 64], FIRST + LATER);
    assert!(
        refills[FIRST..].iter().all(|refills| *refills == 0),
        "{refills:?}"
    );
}

#[test]
fn slabs_of_mixed_sizes_are_rewound_between_launches() {
    for most in [64, 512, 4096, 8192] {
        let mut gpu = Gpu::new(1);
        let sizes = gpu.sizes(16, most, THREADS);
        let refills = gpu.refills_of_launches(&sizes, FIRST + LATER);
        // Each makes a launch longer by half. There are hundreds, and of large sizes a thousand, if slabs are taken that are smaller than wished, and small ones
        // are seldom rewound; a dozen if not all of a slab is offered again.
        let later: u32 = refills[FIRST..].iter().sum();
        assert!(later <= 4, "16 to {most} B: {refills:?}");
    }
}

#[test]
fn small_launches_of_mixed_sizes_are_soon_not_refilled() {
    for (gibibytes, threads, most) in [
        (16, 1 << 14, 8192),
        (16, 1 << 16, 8192),
        (4, 1 << 16, 4096),
        (4, 1 << 18, 4096),
        (1, 1 << 16, 1024),
    ] {
        let mut gpu = Gpu::with_capacity(gibibytes << 30, 1);
        let sizes = gpu.sizes(16, most, threads);
        let refills = gpu.refills_of_launches(&sizes, FIRST + LATER);
        // Where slabs of fewer than 96 slots are not rewound there are up to 800 in each launch, for ever.
        let later: u32 = refills[FIRST..].iter().sum();
        assert!(
            later <= 4,
            "{gibibytes} GiB, {threads} threads, 16 to {most} B: {refills:?}"
        );
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

/// How often launches are refilled in an aged heap, after the first of them, and what groups miss in all of these together.
fn later_launches_in_an_aged_heap(least: u32, most: u32) -> (Vec<u32>, Misses) {
    let mut gpu = Gpu::new(most.into());
    gpu.age();
    let sizes = gpu.sizes(least, most, THREADS);
    gpu.refills_of_launches(&sizes, FIRST);
    gpu.misses = Misses::default();
    let refills = gpu.refills_of_launches(&sizes, LATER);
    (refills, gpu.misses)
}

/// How often launches are refilled in an aged heap, after the first of them.
fn later_refills_in_an_aged_heap(least: u32, most: u32) -> Vec<u32> {
    later_launches_in_an_aged_heap(least, most).0
}

#[test]
fn a_launch_that_is_repeated_is_seldom_refilled_in_an_aged_heap() {
    // Of 1 KiB a slab is used up by one launch: if its last free does not offer all of it there are 200.
    for (bytes, most) in [(16, 2), (256, 2), (512, 2), (1024, MULTIPROCESSORS / 8)] {
        let refills = later_refills_in_an_aged_heap(bytes, bytes);
        assert!(
            refills.iter().all(|refills| *refills <= most),
            "{bytes} B: {refills:?}"
        );
    }
}

#[test]
fn a_burst_soon_has_slabs_as_large_as_it_wishes_in_an_aged_heap() {
    let mut gpu = Gpu::new(7);
    gpu.age();
    let refills = gpu.refills_of_launches(&vec![1024; THREADS], FIRST);
    // If who has outgrown a slab is content with half of what it wishes after eight words it is 140.
    let later: u32 = refills[3..].iter().sum();
    assert!(later <= 50, "{refills:?}");
}

#[test]
fn a_launch_of_large_blocks_is_not_refilled_for_ever_in_an_aged_heap() {
    let mut gpu = Gpu::new(1);
    gpu.age();
    // Half or all of a slab for each stripe.
    let refills = gpu.refills_of_launches(&vec![1 << 14; THREADS >> 5], FIRST + LATER);
    // If all of a slab is offered in the middle of a launch, half of the launches have one.
    assert!(
        refills[FIRST..].iter().all(|refills| *refills == 0),
        "{refills:?}"
    );
}

#[test]
fn what_a_launch_uses_up_serves_the_next_one_in_an_aged_heap() {
    for bytes in [8192, 16384] {
        let mut gpu = Gpu::new(7);
        gpu.age();
        let refills = gpu.refills_of_launches(&vec![bytes; THREADS >> 5], 8);
        // The first gets a slab for each stripe. If slabs that are not kept are not offered again by the last free it is more than 120 in the two after it.
        let early: u32 = refills[1..3].iter().sum();
        let later: u32 = refills[3..].iter().sum();
        assert!(early <= 16 && later <= 16, "{bytes} B: {refills:?}");
    }
}

#[test]
fn slabs_that_last_for_some_launches_are_rewound_in_an_aged_heap() {
    let mut gpu = Gpu::new(1);
    gpu.age();
    // Of a slab of 2,048 slots a launch draws an eighth.
    let refills = gpu.refills_of_launches(&vec![4096; THREADS >> 5], FIRST + 2 * LATER);
    // If who frees many rewinds only larger ones it is some eighty.
    let later: u32 = refills[FIRST - LATER..].iter().sum();
    assert!(later <= 2, "{refills:?}");
}

#[test]
fn slabs_that_are_new_in_the_middle_of_a_launch_serve_the_next_one() {
    let mut gpu = Gpu::new(1);
    gpu.age();
    // Of a few hundred slots, of which not all is a multiple of a warp's. The next launch comes to their ends.
    let size = |thread| if thread % 32 < 29 { 512 } else { 16 };
    let sizes: Vec<_> = (0..THREADS >> 5).map(size).collect();
    gpu.refills_of_launches(&sizes, 1);
    let refills = gpu.refills_of_launches(&vec![512; THREADS], 3);
    assert!(refills[0] >= MULTIPROCESSORS / 2, "{refills:?}");
    // If slabs of which more than five eighths are left are not looked after it is nine.
    let later: u32 = refills[1..].iter().sum();
    assert!(later <= 1, "{refills:?}");
}

#[test]
fn what_was_not_offered_of_a_slab_is_handed_out_in_the_end() {
    const BYTES: u32 = 4096;
    let mut gpu = Gpu::with_capacity(1 << 30, 1);
    // A quarter is free, in words of pages and in pairs of words: half of what a launch wants of each stripe, and all.
    let capacity = gpu.heap().capacity();
    let word = capacity >> 11;
    let mut runs: Vec<_> = (0..1 << 11)
        .map(|_| gpu.heap().malloc(word) as u64)
        .collect();
    runs.sort_unstable();
    assert!(runs[0] != 0);
    let is_free = |index: usize| [0, 4, 5].contains(&(index % 12));
    for (index, run) in runs.iter().enumerate() {
        if is_free(index) {
            // SAFETY: it is this thread's.
            unsafe { gpu.heap().free(*run as *mut u8) };
        }
    }
    let kept = (0..runs.len()).filter(|index| !is_free(*index)).count() as u64 * word;
    let wanted = vec![BYTES; THREADS >> 7];
    let mut all = gpu.allocate(&wanted);
    assert!(gpu.slabs_offered_in_part(BYTES) > 0);
    while all.last() != Some(&0) {
        all.extend(gpu.allocate(&wanted));
    }
    all.retain(|block| *block != 0);
    assert_eq!(kept + all.len() as u64 * u64::from(BYTES), capacity);
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_few_small_sizes_are_seldom_refilled_in_an_aged_heap() {
    let refills = later_refills_in_an_aged_heap(16, 64);
    // Where it depends on who frees what whether a slab is rewound there are one to five.
    assert!(refills.iter().all(|refills| *refills == 0), "{refills:?}");
}

#[test]
fn many_small_sizes_are_hardly_refilled_in_an_aged_heap() {
    let (refills, misses) = later_launches_in_an_aged_heap(16, 512);
    let later: u32 = refills.iter().sum();
    // Where small classes double seldom there are some fifty in each launch, and where slabs in which others live are not rewound up to thirty.
    assert!(later <= 8, "{refills:?}");
    // Of 2.4 million groups. If lanes whose mates have slots of a row do not get theirs elsewhere, 1,500 come again.
    assert!(misses.draws <= 30, "{misses:?}");
    // If a slab is offered from its top on where blocks outlive the launches, 10,000.
    assert!(misses.slots <= 400, "{misses:?}");
}

#[test]
fn sizes_of_a_kibibyte_and_less_are_seldom_refilled_in_an_aged_heap() {
    let refills = later_refills_in_an_aged_heap(16, 1024);
    // Of each launch; if the stripes of the largest may have no pages, a thousand.
    assert!(refills.iter().all(|refills| *refills <= 120), "{refills:?}");
}

#[test]
fn an_aged_heap_has_pages_free() {
    let mut gpu = Gpu::new(5);
    gpu.age();
    let free = gpu.free_share();
    // What is asked for leaves 27 %. If pages are preferred to slabs of which less than an eighth is free it is 13 %; and where the slots of a small class may
    // be four times as large, 5 %.
    assert!(free >= 0.15, "{free} of the pages");
}

#[test]
fn what_is_whole_stays_whole_while_a_heap_ages() {
    let mut gpu = Gpu::new(3);
    gpu.age();
    let pages = gpu.heap().core().free_pages();
    let whole = (0..pages.word_count()).filter(|word| pages.look(*word) == u64::MAX);
    // If blocks are taken from the first words that are read which have one it is 156.
    assert!(whole.count() >= 170);
}

#[test]
fn stripes_seldom_lack_slots_while_blocks_are_replaced_in_an_aged_heap() {
    let mut gpu = Gpu::new(3);
    let mut blocks = gpu.age();
    let before = gpu.misses.draws;
    let count = gpu.replace_quarter(&mut blocks);
    assert!(!blocks.contains(&0), "NULL");
    // It is 8 %. Of heaps that were packed denser one had 70 % here, and one made half of the soak's pairs on an H200.
    let lacks = gpu.misses.draws - before;
    assert!(lacks <= count / 5, "{lacks} of {count}");
    // And what is freed is used again, not fresh pages: else none were left in the end.
    let free = gpu.free_share();
    assert!(free >= 0.1, "{free} of the pages are free");
}

#[test]
fn warps_draw_seldom_where_hardly_any_slot_is_free() {
    const BYTES: u32 = 256;
    const HELD: usize = 4;
    let threads = THREADS >> 4;
    // A twentieth more than is used.
    let capacity = (threads * HELD) as u64 * u64::from(BYTES) / 20 * 21;
    let mut gpu = Gpu::with_capacity(capacity, 1);
    let mut held = [(); HELD].map(|()| vec![0; threads]);
    for _ in 0..2 {
        for blocks in &mut held {
            gpu.replace(blocks, BYTES);
        }
    }
    gpu.misses = Misses::default();
    for blocks in &mut held {
        gpu.replace(blocks, BYTES);
        assert!(!blocks.contains(&0), "NULL");
    }
    // If units that span several slots have none but these it is 6.5 for each warp, and 1.9 now.
    let warps = HELD * threads / WARP;
    assert!(gpu.misses.draws < 3 * warps, "{:?}", gpu.misses);
}

#[test]
fn what_bursts_left_becomes_pages_where_many_sizes_follow() {
    let mut gpu = Gpu::new(5);
    for bytes in [256, 512, 768, 1024, 1280, 1536, 1792] {
        gpu.refills_of_launches(&vec![bytes; THREADS], FIRST);
    }
    let few = gpu.free_share();
    assert!(few < 0.25, "{few} of the pages are free after bursts");
    let sizes = gpu.sizes(16, 2048, THREADS);
    gpu.refills_of_launches(&sizes, FIRST);
    // A launch draws little from each slab of a burst, but from all of them: where they stay, it is 0.11.
    let many = gpu.free_share();
    assert!(
        many >= 1.0 / 3.0,
        "{many} of the pages are free, {few} were before"
    );
}

/// A block keeps its page, and the slabs of bursts have most of a heap.
#[test]
fn what_outlives_bursts_does_not_keep_a_heap() {
    let mut gpu = Gpu::new(3);
    let mut kept = Vec::new();
    for bytes in [192, 384, 512, 768, 1024, 1536, 2048] {
        for _ in 0..6 {
            let mut blocks = gpu.allocate(&vec![bytes; THREADS]);
            assert!(!blocks.contains(&0), "NULL for {bytes} B");
            for number in (0..THREADS).step_by(1009) {
                kept.push(core::mem::take(&mut blocks[number]));
            }
            gpu.free(&blocks);
        }
    }
    // 5 of 16 GiB. Where slabs stay whole there are NULLs before, for 2 KiB.
    let blocks = gpu.allocate(&vec![5120; THREADS]);
    assert!(!blocks.contains(&0), "NULL");
    let mut both = [kept.clone(), blocks.clone()].concat();
    both.sort_unstable();
    assert!(both.windows(2).all(|pair| pair[0] < pair[1]));
    kept.resize(kept.len().next_multiple_of(WARP), 0);
    gpu.free(&kept);
    gpu.free(&blocks);
    // Every page is free, or in a slab that is reclaimed.
    let everything = gpu.heap().malloc(CAPACITY);
    assert!(!everything.is_null(), "{} is free", gpu.free_share());
}
