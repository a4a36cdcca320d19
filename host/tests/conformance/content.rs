//! What is written into blocks, to see that nobody else writes there.

use scatterheap_host::Stream;
use scatterheap_host::resource::DevicePointer;

/// Writes a seed to the first and the last words of a block.
pub fn fill(stream: &Stream, block: DevicePointer, bytes: u64, seed: u64) {
    stream.synchronize().expect("no fault");
    // SAFETY: the block has these bytes, and its owner is here.
    let memory = unsafe { stream.device().adopt(block.address(), bytes) };
    for (offset, value) in places(bytes, seed) {
        memory.write(offset, &[value]).expect("within the block");
    }
}

/// Whether the seed is still there.
pub fn is_intact(stream: &Stream, block: DevicePointer, bytes: u64, seed: u64) -> bool {
    stream.synchronize().expect("no fault");
    // SAFETY: the block has these bytes, and its owner is here.
    let memory = unsafe { stream.device().adopt(block.address(), bytes) };
    places(bytes, seed)
        .all(|(offset, value)| memory.read::<u8>(offset, 1).expect("within the block") == [value])
}

/// Offsets of some bytes of a block, and what is written there.
fn places(bytes: u64, seed: u64) -> impl Iterator<Item = (u64, u8)> {
    let offsets = [0, bytes / 2, bytes - 1];
    offsets.into_iter().map(move |offset| {
        let mixed = (seed ^ offset).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (offset, mixed.to_le_bytes()[7])
    })
}
