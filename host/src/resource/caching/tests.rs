//! What becomes of blocks that the upstream does not take back.

use super::super::testing::{Refusing, is_refused, refusal};
use super::super::{DeviceMemory, Limiting};
use super::*;

fn cache() -> (Caching<Refusing>, Stream) {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    (Caching::new(Refusing::new(&device)), stream)
}

/// Gives a block back that nothing uses.
fn free<U: MemoryResource>(
    memory: &Caching<U>,
    block: DevicePointer,
    bytes: u64,
    stream: &Stream,
) -> Result<()> {
    // SAFETY: the tests use no block that they give back.
    unsafe { memory.deallocate(block, bytes, DEFAULT_ALIGNMENT, stream) }
}

/// Lets a cache keep so many blocks of so many bytes.
fn keep<U: MemoryResource>(memory: &Caching<U>, bytes: u64, count: usize, stream: &Stream) {
    let blocks = memory.allocate_batch(count, bytes, DEFAULT_ALIGNMENT, stream);
    for block in blocks.expect("memory") {
        free(memory, block, bytes, stream).expect("handed out");
    }
}

/// Bytes that it believes to have, keeps, and has.
fn bytes(memory: &Caching<Refusing>) -> [u64; 3] {
    let held = memory.held.load(Ordering::Relaxed);
    [held, memory.usage().kept, memory.upstream.live().bytes]
}

#[test]
fn what_the_upstream_refuses_is_kept() {
    let (memory, stream) = cache();
    keep(&memory, 1 << 10, 3, &stream);
    keep(&memory, 1 << 16, 2, &stream);
    memory.upstream.next([None, Some(refusal())]);
    assert!(is_refused(&memory.trim()));
    assert_eq!(bytes(&memory), [1 << 10; 3], "all others are back");
    keep(&memory, 1 << 10, 1, &stream);
    assert_eq!(bytes(&memory), [1 << 10; 3], "it serves again");
    assert_eq!(memory.trim().expect("taken"), 1 << 10);
    assert_eq!(bytes(&memory), [0; 3]);
}

#[test]
fn what_is_in_the_way_is_kept_if_it_is_refused() {
    let (memory, stream) = cache();
    // More than twice what may be kept.
    keep(&memory, 800 << 10, 60, &stream);
    let one = memory.usage().kept / 60;
    memory.upstream.next([Some(refusal())]);
    assert!(is_refused(&memory.make_way()));
    assert_eq!(bytes(&memory), [one; 3]);
    memory.trim().expect("taken");
    assert_eq!(bytes(&memory), [0; 3]);
}

#[test]
fn nothing_is_lost_when_memory_is_out_and_a_block_is_refused() {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let memory = Caching::new(Limiting::new(Refusing::new(&device), 1 << 20));
    keep(&memory, 1 << 18, 4, &stream);
    let refusing = memory.upstream.upstream();
    refusing.next([None, None, Some(refusal())]);
    let allocate = || memory.allocate(1 << 20, DEFAULT_ALIGNMENT, &stream);
    assert!(is_refused(&allocate()));
    assert_eq!((memory.usage().kept, refusing.live().blocks), (1 << 18, 1));
    allocate().expect("all of it");
}

#[test]
fn a_block_that_is_not_kept_and_refused_is_handed_out_still() {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let memory = Caching::with(Refusing::new(&device), 1 << 20, None);
    let large = 8 << 20;
    let block = memory.allocate(large, DEFAULT_ALIGNMENT, &stream);
    let block = block.expect("memory");
    memory.upstream.next([Some(refusal())]);
    assert!(is_refused(&free(&memory, block, large, &stream)));
    assert_eq!(memory.live().bytes, large);
    assert_eq!(bytes(&memory), [large, 0, large]);
    free(&memory, block, large, &stream).expect("handed out still");
    assert_eq!((memory.live(), bytes(&memory)), (Live::default(), [0; 3]));
    let twice = free(&memory, block, large, &stream);
    assert!(matches!(twice, Err(Error::DoubleFree(..))), "{twice:?}");
}

#[test]
fn what_the_upstream_has_back_is_not_kept() {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let memory = Caching::new(DeviceMemory::new(&device));
    let block = memory.allocate(1 << 10, DEFAULT_ALIGNMENT, &stream);
    let block = block.expect("memory");
    free(&memory, block, 1 << 10, &stream).expect("handed out");
    // SAFETY: nothing uses it but the cache, which only gives it back.
    let behind = unsafe { memory.upstream.deallocate(block, 1 << 10, 256, &stream) };
    behind.expect("handed out");
    let gone = memory.trim();
    assert!(matches!(gone, Err(Error::DoubleFree(..))), "{gone:?}");
    assert_eq!(
        (memory.usage().kept, memory.trim().expect("nothing")),
        (0, 0)
    );
}

#[test]
fn a_batch_that_fails_gives_back_all_that_it_can() {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let limited = Limiting::new(Refusing::new(&device), 3 << 20);
    let memory = Caching::with(limited, 1 << 10, None);
    let refusing = memory.upstream.upstream();
    refusing.next([Some(refusal())]);
    let batch = memory.allocate_batch(4, 1 << 20, DEFAULT_ALIGNMENT, &stream);
    let error = batch.expect_err("above the limit");
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!((memory.live().blocks, refusing.live().blocks), (1, 1));
}
