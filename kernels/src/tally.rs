//! What the threads of a stress kernel did and what they found wrong.

use simt::atomic::{DeviceAtomicU64, Ordering};

/// What every block is aligned to, in bytes.
pub(crate) const USUAL_ALIGNMENT: u64 = 16;

/// What is counted.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Calls of the malloc family that gave a block, and of free.
    Operations,
    /// Calls that gave NULL.
    Nulls,
    /// Blocks whose content was not what their owner wrote.
    Corrupt,
    /// Blocks of which a part was another block's.
    Overlaps,
    /// Blocks that were not aligned as asked.
    Misaligned,
    /// Blocks that were not wholly inside the heap, or were smaller than asked.
    OutOfBounds,
    /// Bytes asked for by the calls that gave a block.
    Bytes,
}

/// Number of counts.
pub const COUNTS: usize = 7;

/// Counters in device memory.
#[repr(C, align(64))]
pub struct Tally([DeviceAtomicU64; COUNTS]);

impl Tally {
    /// The tally at an address.
    ///
    /// # Safety
    ///
    /// A tally must lie there, and outlive `'a`.
    #[must_use]
    pub unsafe fn at<'a>(address: u64) -> &'a Self {
        // SAFETY: as the caller promises.
        unsafe { &*(address as *const Self) }
    }

    /// Adds to a count. Zero costs nothing.
    pub fn add(&self, count: Count, amount: u64) {
        if amount != 0 {
            // Relaxed: read by the host after the launch.
            self.0[count as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }
}

/// A thread's own counts, added to the tally once at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts(pub [u64; COUNTS]);

impl Counts {
    /// Adds to a count.
    pub fn add(&mut self, count: Count, amount: u64) {
        self.0[count as usize] += amount;
    }

    /// Counts what is wrong with a block of `bytes` bytes at `block` aligned to `alignment`.
    pub fn check_placement(
        &mut self,
        heap: &heap::Heap,
        block: *mut u8,
        bytes: u64,
        alignment: u64,
    ) {
        let address = block as u64;
        self.add(Count::Misaligned, u64::from(address & (alignment - 1) != 0));
        let inside = address >= heap.base()
            && bytes <= heap.capacity()
            && address - heap.base() <= heap.capacity() - bytes;
        let large_enough = inside && heap.usable_size(block) >= bytes;
        self.add(Count::OutOfBounds, u64::from(!large_enough));
    }

    /// Counts the outcome of a call that asked for `bytes` bytes; true if it gave a block.
    pub fn allocated(&mut self, heap: &heap::Heap, block: *mut u8, bytes: u64) -> bool {
        self.allocated_aligned(heap, block, bytes, USUAL_ALIGNMENT)
    }

    /// The same of a call that asked for a multiple of `alignment`, a power of two; less than what every block has is no less.
    pub fn allocated_aligned(
        &mut self,
        heap: &heap::Heap,
        block: *mut u8,
        bytes: u64,
        alignment: u64,
    ) -> bool {
        if block.is_null() {
            self.add(Count::Nulls, 1);
            return false;
        }
        self.add(Count::Operations, 1);
        self.add(Count::Bytes, bytes);
        self.check_placement(heap, block, bytes, alignment.max(USUAL_ALIGNMENT));
        true
    }

    /// Adds everything to the tally at an address.
    ///
    /// # Safety
    ///
    /// As for [`Tally::at`].
    pub unsafe fn report(&self, tally: u64) {
        // SAFETY: as the caller promises.
        let tally = unsafe { Tally::at(tally) };
        for (index, amount) in self.0.iter().enumerate() {
            if *amount != 0 {
                // Relaxed: read by the host after the launch.
                tally.0[index].fetch_add(*amount, Ordering::Relaxed);
            }
        }
    }
}
