//! The functions of `include/scatterheap.h` for heaps that kernels allocate from; the header says what they do.

use super::{Block, DeviceHeap, HeapHandle, Leak, Occupancy};
use crate::error::{Error, Result};
use crate::failure::guard;
use crate::handle::{Handle, Held};
use crate::interface::{hand_over, hand_over_text, status, text};
use scatterheap_host::KeptContext;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;

type HeapOwner = Handle<DeviceHeap>;

/// The heap of a handle.
///
/// # Safety
///
/// The handle must be NULL or one that was created here.
unsafe fn held(heap: *const HeapOwner) -> Result<Held<DeviceHeap>> {
    // SAFETY: as the caller promises; handles are never freed.
    let heap = unsafe { heap.as_ref() };
    heap.ok_or(Error::NullHandle("heap"))?.get()
}

/// Writes a value where a caller wants it, if it does.
///
/// # Safety
///
/// The place must be NULL or writable.
unsafe fn give<T>(value: T, place: *mut T) {
    if !place.is_null() {
        // SAFETY: as the caller promises.
        unsafe { place.write(value) };
    }
}

/// Writes a handle where a caller wants it, which must be somewhere.
///
/// # Safety
///
/// The place must be NULL or writable.
unsafe fn give_handle(value: HeapHandle, place: *mut HeapHandle) -> Result<()> {
    // SAFETY: as the caller promises.
    let place = unsafe { place.as_mut() };
    *place.ok_or(Error::NullPointer("the place for the handle"))? = value;
    Ok(())
}

/// Creates a heap.
///
/// # Safety
///
/// Both texts must be NULL or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_create(
    device: *const c_char,
    options: *const c_char,
) -> *const HeapOwner {
    let create = || {
        // SAFETY: as the caller promises.
        let device = unsafe { text(device, "the device") }?;
        // SAFETY: as the caller promises.
        let options = unsafe { text(options, "what the heap is to be like") }?;
        Ok(ptr::from_ref(Handle::of(DeviceHeap::new(device, options)?)))
    };
    guard(create).unwrap_or(ptr::null())
}

/// Destroys a heap.
///
/// # Safety
///
/// The handle must be NULL or one that was created here, and no kernel may use the heap any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_destroy(heap: *const HeapOwner) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises; handles are never freed.
        let heap = unsafe { heap.as_ref() };
        let heap = heap.ok_or(Error::NullHandle("heap"))?.take()?;
        let _context = KeptContext::of_this_thread();
        drop(heap);
        Ok(())
    }))
}

/// Writes what kernels get.
///
/// # Safety
///
/// The heap must be NULL or one that was created here; `handle` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_handle(
    heap: *const HeapOwner,
    handle: *mut HeapHandle,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let value = unsafe { held(heap) }?.handle()?;
        // SAFETY: as the caller promises.
        unsafe { give_handle(value, handle) }
    }))
}

/// Writes what kernels get on a GPU, if the heap is there.
///
/// # Safety
///
/// As for [`scatterheap_heap_handle`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_handle_on(
    heap: *const HeapOwner,
    number: c_int,
    handle: *mut HeapHandle,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let value = unsafe { held(heap) }?.handle_on(number)?;
        // SAFETY: as the caller promises.
        unsafe { give_handle(value, handle) }
    }))
}

/// Makes a heap empty.
///
/// # Safety
///
/// The heap must be NULL or one that was created here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_reset(heap: *const HeapOwner) -> c_int {
    // SAFETY: as the caller promises.
    status(guard(|| unsafe { held(heap) }?.reset()))
}

/// Makes a heap larger.
///
/// # Safety
///
/// The heap must be NULL or one that was created here; `capacity` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_grow(
    heap: *const HeapOwner,
    bytes: u64,
    capacity: *mut u64,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let reached = unsafe { held(heap) }?.grow(bytes)?;
        // SAFETY: as the caller promises.
        unsafe { give(reached, capacity) };
        Ok(())
    }))
}

/// Lets a heap grow as far as kernels asked for.
///
/// # Safety
///
/// As for [`scatterheap_heap_grow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_attend(
    heap: *const HeapOwner,
    capacity: *mut u64,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let reached = unsafe { held(heap) }?.attend()?;
        // SAFETY: as the caller promises.
        unsafe { give(reached, capacity) };
        Ok(())
    }))
}

/// Reads how full a heap is.
///
/// # Safety
///
/// The heap must be NULL or one that was created here; `occupancy` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_snapshot(
    heap: *const HeapOwner,
    occupancy: *mut Occupancy,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let heap = unsafe { held(heap) }?;
        // SAFETY: as the caller promises.
        let occupancy = unsafe { occupancy.as_mut() };
        *occupancy.ok_or(Error::NullPointer("the place for the occupancy"))? = heap.occupancy()?;
        Ok(())
    }))
}

/// Lists the blocks that are handed out.
///
/// # Safety
///
/// The heap must be NULL or one that was created here, and `blocks` have room for `room` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_blocks(
    heap: *const HeapOwner,
    blocks: *mut Block,
    room: usize,
) -> usize {
    let list = || {
        // SAFETY: as the caller promises.
        let found = unsafe { held(heap) }?.blocks()?;
        // SAFETY: as the caller promises.
        unsafe { hand_over(&found, blocks, room) }?;
        Ok(found.len())
    };
    guard(list).unwrap_or(usize::MAX)
}

/// Lists the blocks of a heap by the site that asked for them.
///
/// # Safety
///
/// The heap must be NULL or one that was created here, `leaks` have room for `room` of them, and `damaged` be NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_leaks(
    heap: *const HeapOwner,
    leaks: *mut Leak,
    room: usize,
    damaged: *mut u64,
) -> usize {
    let list = || {
        // SAFETY: as the caller promises.
        let (found, others) = unsafe { held(heap) }?.leaks()?;
        // SAFETY: as the caller promises.
        unsafe { hand_over(&found, leaks, room) }?;
        // SAFETY: as the caller promises.
        unsafe { give(others, damaged) };
        Ok(found.len())
    };
    guard(list).unwrap_or(usize::MAX)
}

/// Writes why a heap does not grow as was asked for, as text.
///
/// # Safety
///
/// The heap must be NULL or one that was created here, and `buffer` have room for `room` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_notice(
    heap: *const HeapOwner,
    buffer: *mut c_char,
    room: usize,
) -> usize {
    let tell = || {
        // SAFETY: as the caller promises.
        let notice = unsafe { held(heap) }?.growth_notice();
        // SAFETY: as the caller promises.
        unsafe { hand_over_text(&notice, buffer, room) }
    };
    guard(tell).unwrap_or(usize::MAX)
}

/// Verifies every invariant of a heap.
///
/// # Safety
///
/// The heap must be NULL or one that was created here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_check(heap: *const HeapOwner) -> c_int {
    // SAFETY: as the caller promises.
    status(guard(|| unsafe { held(heap) }?.check()))
}

/// Writes a snapshot to a file.
///
/// # Safety
///
/// The heap must be NULL or one that was created here; the text must be NULL or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_heap_save(
    heap: *const HeapOwner,
    file: *const c_char,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { text(file, "the file's name") }?;
        // SAFETY: as the caller promises.
        unsafe { held(heap) }?.save(Path::new(file))
    }))
}
