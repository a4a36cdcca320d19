//! Memory for the calls that come before the real functions are known: looking them up may itself allocate.
//!
//! A bump allocator on a static buffer. Nothing is given back; a handful of small blocks is all that is ever asked for.

use core::{
    cell::UnsafeCell,
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

const CAPACITY: usize = 64 * 1024;

/// The largest alignment that a block can have, in bytes: the buffer's own.
pub(crate) const MAXIMUM_ALIGNMENT: usize = 4096;

/// In front of each block, its size, for `realloc`; as large as the default alignment, which it so preserves.
const PREFIX: usize = 16;

/// The buffer, zero at first, at the alignment of a page.
#[repr(C, align(4096))]
struct Buffer(UnsafeCell<[u8; CAPACITY]>);

// SAFETY: each byte is only ever reached through the one block that `USED` handed it out to.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; CAPACITY]));

/// The bytes that were handed out. Relaxed throughout: the counter alone keeps blocks apart, and a block's content
/// travels with its pointer, whose handover is the program's business.
static USED: AtomicUsize = AtomicUsize::new(0);

/// `size` zeroed bytes at a multiple of `alignment` (a power of two); null if the buffer is used up.
pub(crate) fn allocate(size: usize, alignment: usize) -> *mut c_void {
    // Room for the prefix, then up to the alignment.
    let step = alignment.max(PREFIX);
    let Some(claim) = size
        .checked_add(step + PREFIX)
        .and_then(|claim| claim.checked_next_multiple_of(PREFIX))
    else {
        return ptr::null_mut();
    };
    if claim > CAPACITY {
        return ptr::null_mut();
    }
    let start = USED.fetch_add(claim, Ordering::Relaxed);
    if start > CAPACITY - claim {
        // Others that fit may still come.
        USED.fetch_sub(claim, Ordering::Relaxed);
        return ptr::null_mut();
    }
    let offset = (start + PREFIX).next_multiple_of(step);
    // SAFETY: `offset - PREFIX >= start` and `offset + size <= start + claim <= CAPACITY`, so both lie in the claim,
    // which no other call has; the prefix is aligned because `offset` is a multiple of `PREFIX`.
    unsafe {
        let block = BUFFER.0.get().cast::<u8>().add(offset);
        block.sub(PREFIX).cast::<usize>().write_unaligned(size);
        block.cast()
    }
}

/// Whether `address` is a block of this buffer.
pub(crate) fn owns(address: *const c_void) -> bool {
    let start = BUFFER.0.get().addr();
    (start..start + CAPACITY).contains(&address.addr())
}

/// The size that a block of this buffer was asked for.
///
/// # Safety
/// `address` must have come from [`allocate`].
pub(crate) unsafe fn size_of_block(address: *const c_void) -> usize {
    // SAFETY: `allocate` wrote the size into the prefix of every block.
    unsafe {
        address
            .cast::<u8>()
            .sub(PREFIX)
            .cast::<usize>()
            .read_unaligned()
    }
}
