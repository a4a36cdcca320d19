//! The functions of `include/scatterheap.h`, which says what they do.
//!
//! Each checks its pointers for NULL, and turns errors and panics into what it returns.

use crate::error::{Error, Result};
use crate::failure::{self, guard};
use crate::figures::{Figures, Place};
use crate::handle::{Handle, Held};
use crate::resource::Resource;
use crate::torch;
use scatterheap_host::resource::DevicePointer;
use scatterheap_host::{Device, KeptContext};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The resource of a handle.
///
/// # Safety
///
/// The handle must be NULL or one that was created here.
#[inline]
unsafe fn held(handle: *const Handle) -> Result<Held> {
    // SAFETY: as the caller promises; handles are never freed.
    let handle = unsafe { handle.as_ref() };
    handle.ok_or(Error::NullHandle("resource"))?.get()
}

/// Text that a caller gave.
///
/// # Safety
///
/// It must be NULL or end with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &'static str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::NullPointer(what));
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::NotText(what))
}

/// What C calls success and failure.
pub(crate) fn status(outcome: Option<()>) -> c_int {
    if outcome.is_some() { 0 } else { -1 }
}

/// The address as a device's pointer.
///
/// # Errors
///
/// If it is NULL.
pub(crate) fn pointer(address: *mut c_void) -> Result<DevicePointer> {
    DevicePointer::new(address as u64).ok_or(Error::NullPointer("the block"))
}

/// The version, as text.
#[unsafe(no_mangle)]
pub extern "C" fn scatterheap_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The text of the calling thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn scatterheap_last_error() -> *const c_char {
    failure::last()
}

/// How many GPUs there are.
#[unsafe(no_mangle)]
pub extern "C" fn scatterheap_gpu_count() -> c_int {
    let count = guard(|| Ok(Device::gpu_count())).unwrap_or(0);
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Creates a resource.
///
/// # Safety
///
/// Both texts must be NULL or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_create(
    device: *const c_char,
    composition: *const c_char,
) -> *const Handle {
    let create = || {
        // SAFETY: as the caller promises.
        let device = unsafe { text(device, "the device") }?;
        // SAFETY: as the caller promises.
        let composition = unsafe { text(composition, "the composition") }?;
        Ok(ptr::from_ref(Handle::of(Resource::new(
            device,
            composition,
        )?)))
    };
    guard(create).unwrap_or(ptr::null())
}

/// Destroys a resource.
///
/// # Safety
///
/// The handle must be NULL or one that was created here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_destroy(resource: *const Handle) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises; handles are never freed.
        let handle = unsafe { resource.as_ref() }.ok_or(Error::NullHandle("resource"))?;
        let resource = handle.take()?;
        let _context = KeptContext::of_this_thread();
        let flushed = resource.flush();
        drop(resource);
        flushed
    }))
}

/// The default resource of a device.
#[unsafe(no_mangle)]
pub extern "C" fn scatterheap_default(device: c_int) -> *const Handle {
    guard(|| Ok(ptr::from_ref(torch::default_of(device)?.handle()))).unwrap_or(ptr::null())
}

/// Says what default resources are made of.
///
/// # Safety
///
/// The text must be NULL or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_configure_default(composition: *const c_char) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let composition = unsafe { text(composition, "the composition") }?;
        torch::configure(composition)
    }))
}

/// Allocates a block.
///
/// # Safety
///
/// The handle must be NULL or one that was created here, and the stream NULL or one of the device's primary context that lives as
/// long as the resource. (The per-thread default stream is refused.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_allocate(
    resource: *const Handle,
    bytes: usize,
    alignment: usize,
    stream: *mut c_void,
) -> *mut c_void {
    let allocate = || {
        // SAFETY: as the caller promises.
        let resource = unsafe { held(resource) }?;
        // SAFETY: as the caller promises.
        let block = unsafe { resource.allocate(bytes as u64, alignment as u64, stream as u64) }?;
        Ok(block.as_ptr())
    };
    guard(allocate).unwrap_or(ptr::null_mut())
}

/// Takes a block back.
///
/// # Safety
///
/// As for [`scatterheap_allocate`] and [`MemoryResource::deallocate`](scatterheap_host::resource::MemoryResource::deallocate).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_deallocate(
    resource: *const Handle,
    block: *mut c_void,
    bytes: usize,
    alignment: usize,
    stream: *mut c_void,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let resource = unsafe { held(resource) }?;
        let block = pointer(block)?;
        // SAFETY: as the caller promises.
        unsafe { resource.deallocate(block, bytes as u64, alignment as u64, stream as u64) }
    }))
}

/// Notes that a block is used on another stream.
///
/// # Safety
///
/// As for [`scatterheap_allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_record_stream(
    resource: *const Handle,
    block: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let resource = unsafe { held(resource) }?;
        // SAFETY: as the caller promises.
        unsafe { resource.record_stream(pointer(block)?, stream as u64) }
    }))
}

/// Gives what is kept for later back to the device.
///
/// # Safety
///
/// The handle must be NULL or one that was created here; `given` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_trim(resource: *const Handle, given: *mut u64) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { held(resource) }?.trim()?;
        // SAFETY: as the caller promises.
        if let Some(given) = unsafe { given.as_mut() } {
            *given = bytes;
        }
        Ok(())
    }))
}

/// Takes all blocks of an arena back.
///
/// # Safety
///
/// The handle must be NULL or one that was created here, and nobody use the blocks, but for work on their streams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_reset(resource: *const Handle) -> c_int {
    // SAFETY: as the caller promises.
    status(guard(|| unsafe { held(resource)?.reset() }))
}

/// Writes what traces have in memory.
///
/// # Safety
///
/// The handle must be NULL or one that was created here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_flush(resource: *const Handle) -> c_int {
    // SAFETY: as the caller promises.
    status(guard(|| unsafe { held(resource) }?.flush()))
}

/// Reads what is counted.
///
/// # Safety
///
/// The handle must be NULL or one that was created here; `statistics` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_get_statistics(
    resource: *const Handle,
    statistics: *mut Figures,
) -> c_int {
    status(guard(|| {
        // SAFETY: as the caller promises.
        let resource = unsafe { held(resource) }?;
        // SAFETY: as the caller promises.
        let statistics = unsafe { statistics.as_mut() };
        *statistics.ok_or(Error::NullPointer("the statistics"))? = resource.figures();
        Ok(())
    }))
}

/// Lists the places of a resource's segments.
///
/// # Safety
///
/// The handle must be NULL or one that was created here, and `places` have room for `room` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_places(
    resource: *const Handle,
    places: *mut Place,
    room: usize,
) -> usize {
    let list = || {
        // SAFETY: as the caller promises.
        let found = unsafe { held(resource) }?.places();
        // SAFETY: as the caller promises.
        unsafe { hand_over(&found, places, room) }?;
        Ok(found.len())
    };
    guard(list).unwrap_or(usize::MAX)
}

/// Writes figures, and blocks if they are tracked, as text.
///
/// # Safety
///
/// The handle must be NULL or one that was created here, and `buffer` have room for `room` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_report(
    resource: *const Handle,
    buffer: *mut c_char,
    room: usize,
) -> usize {
    let report = || {
        // SAFETY: as the caller promises.
        let text = unsafe { held(resource) }?.report();
        // SAFETY: as the caller promises.
        unsafe { hand_over_text(&text, buffer, room) }
    };
    guard(report).unwrap_or(usize::MAX)
}

/// Copies as much of a text as there is room for, with a final zero. Gives its length without.
///
/// # Errors
///
/// If there is said to be room at NULL.
///
/// # Safety
///
/// There must be room for `room` characters, or `buffer` be NULL.
pub(crate) unsafe fn hand_over_text(text: &str, buffer: *mut c_char, room: usize) -> Result<usize> {
    let mut shown = text.as_bytes()[..text.len().min(room.saturating_sub(1))].to_vec();
    shown.push(0);
    // SAFETY: as the caller promises.
    unsafe { hand_over(&shown, buffer.cast(), room) }?;
    Ok(text.len())
}

/// Copies as many values as there is room for.
///
/// # Errors
///
/// If there is said to be room at NULL.
///
/// # Safety
///
/// There must be room for `room` values, or `room_for` be NULL.
pub(crate) unsafe fn hand_over<T: Copy>(values: &[T], room_for: *mut T, room: usize) -> Result<()> {
    if room == 0 {
        return Ok(()); // Who asks how many there are.
    }
    if room_for.is_null() {
        return Err(Error::NullPointer("the room for what is asked"));
    }
    // SAFETY: as the caller promises; nothing of ours lies there.
    unsafe { ptr::copy_nonoverlapping(values.as_ptr(), room_for, values.len().min(room)) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resource with a block, and its report's length.
    fn resource() -> (*const Handle, usize) {
        // SAFETY: both texts end with a zero, and the handle is good.
        unsafe {
            let resource = scatterheap_create(c"cpu".as_ptr(), c"segments".as_ptr());
            assert!(!scatterheap_allocate(resource, 1000, 256, ptr::null_mut()).is_null());
            (resource, scatterheap_report(resource, ptr::null_mut(), 0))
        }
    }

    #[test]
    fn a_report_is_as_long_as_there_is_room_for() {
        let (resource, length) = resource();
        for room in [0, 1, 2, length, length + 1, length + 2] {
            let mut buffer = vec![c_char::MAX; length + 3];
            // SAFETY: the handle is good, and there is more room than that.
            let told = unsafe { scatterheap_report(resource, buffer.as_mut_ptr(), room) };
            assert_eq!(told, length);
            let written = length.saturating_add(1).min(room);
            let (text, rest) = buffer.split_at(written);
            assert_eq!(
                text.iter().position(|&letter| letter == 0),
                written.checked_sub(1)
            );
            assert!(rest.iter().all(|&letter| letter == c_char::MAX), "{room}");
        }
    }

    #[test]
    fn room_at_null_is_an_error() {
        let (resource, length) = resource();
        assert_ne!(length, usize::MAX);
        for room in [1, 2, length + 1] {
            // SAFETY: the handle is good, and NULL is refused.
            unsafe {
                let told = scatterheap_report(resource, ptr::null_mut(), room);
                assert_eq!(told, usize::MAX, "{room}");
                let told = scatterheap_places(resource, ptr::null_mut(), room);
                assert_eq!(told, usize::MAX, "{room}");
            }
        }
        // SAFETY: the handle is good, and there is room for none.
        let count = unsafe { scatterheap_places(resource, ptr::null_mut(), 0) };
        assert_eq!(count, 2);
    }
}
