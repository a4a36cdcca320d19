//! Giving blocks back in tests.

use scatterheap_host::Stream;
use scatterheap_host::resource::{DevicePointer, Error, MemoryResource};

/// Gives a block back that nothing uses, or what is no such block, which is refused.
pub fn give_back(
    memory: &(impl MemoryResource + ?Sized),
    block: DevicePointer,
    bytes: u64,
    alignment: u64,
    stream: &Stream,
) -> Result<(), Error> {
    // SAFETY: the tests use no block that they give back, and own those that they give back wrongly.
    unsafe { memory.deallocate(block, bytes, alignment, stream) }
}
