//! Arrays that the host gives by their addresses, one element for each thread.

use simt::thread;

/// Index of the calling thread, if it is one of `count` that work.
#[must_use]
pub fn own_index(count: u64) -> Option<usize> {
    let index = thread::index_1d();
    (u64::from(index) < count).then_some(index as usize)
}

/// Element `index` of the array at `address`.
///
/// # Safety
///
/// There must be one, and nobody may change it meanwhile but by atomics.
#[must_use]
pub unsafe fn element<'a, T>(address: u64, index: usize) -> &'a T {
    // SAFETY: as the caller promises.
    unsafe { &*place(address, index) }
}

/// Where element `index` of the array at `address` is.
///
/// # Safety
///
/// The array must have it.
#[must_use]
pub unsafe fn place<T>(address: u64, index: usize) -> *mut T {
    // SAFETY: as the caller promises.
    unsafe { (address as *mut T).add(index) }
}

/// `count` elements of the array at `address`, from `begin` on.
///
/// # Safety
///
/// There must be as many, and nobody may change them meanwhile.
#[must_use]
pub unsafe fn elements<'a, T>(address: u64, begin: usize, count: usize) -> &'a [T] {
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(place(address, begin), count) }
}
