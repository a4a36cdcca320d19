//! Whether any two live blocks share a byte, told by a bitmap of the heap's 16-byte granules.

use crate::blocks::Block;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::atomic::{DeviceAtomicU32, Ordering};
use simt::{kernel, thread};

/// Bytes of a granule: blocks begin at multiples of it.
pub const GRANULE_BYTES: u64 = 16;

/// Arguments of [`MarkGranules`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct OverlapArguments {
    /// The heap.
    pub heap: Heap,
    /// Address of an array of `count` [`Block`]s.
    pub blocks: u64,
    /// Number of blocks; the grid has as many threads or more.
    pub count: u64,
    /// Address of the tally.
    pub tally: u64,
    /// Address of a bitmap with one bit for each granule, all zero.
    pub granules: u64,
    /// Granules of what the heap had when the blocks were allocated: it may have more by now.
    pub granule_count: u64,
}

kernel! {
    /// Every thread sets the bits of its block's granules; one that is set already is shared.
    pub struct MarkGranules = "scatterheap_kernel_mark_granules";
    fn body(arguments: &OverlapArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.count {
            return;
        }
        // SAFETY: the host gave an array with a block for each thread.
        let block = unsafe { *(arguments.blocks as *const Block).add(thread as usize) };
        if block.address == 0 {
            return;
        }
        let offset = block.address.wrapping_sub(arguments.heap.base());
        let end = offset.wrapping_add(block.bytes).div_ceil(GRANULE_BYTES);
        let mut granule = offset / GRANULE_BYTES;
        let mut shared = end > arguments.granule_count;
        while granule < end && !shared {
            let bit = granule % 32;
            let here = (32 - bit).min(end - granule);
            let mask = (u32::MAX >> (32 - here)) << bit;
            // SAFETY: the bitmap has a bit for each granule of the count.
            let word = unsafe { &*(arguments.granules as *const DeviceAtomicU32).add((granule / 32) as usize) };
            // Relaxed: only the bits themselves matter.
            shared = word.fetch_or(mask, Ordering::Relaxed) & mask != 0;
            granule += here;
        }
        let mut counts = Counts::default();
        counts.add(Count::Overlaps, u64::from(shared));
        // SAFETY: the host gave a tally.
        unsafe { counts.report(arguments.tally) };
    }
}
