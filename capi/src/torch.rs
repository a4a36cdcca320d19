//! The default resource of each device, and the functions that `PyTorch`'s pluggable allocator takes.
//!
//! A default resource is created when it is first asked for, on the device's primary context, which is the one that the
//! CUDA runtime and so `PyTorch` use. It is never dropped: at the end of the process the driver may be gone before.

use crate::composition::Composition;
use crate::error::{Error, Result};
use crate::exception;
use crate::failure::{self, guard};
use crate::handle::Handle;
use crate::interface::pointer;
use crate::resource::Resource;
use parking_lot::Mutex;
use scatterheap_host::resource::DEFAULT_ALIGNMENT;
use scatterheap_host::{Device, KeptContext, Selector};
use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// Default resources at most.
const DEVICES: usize = 64;
/// Names the device of all default resources: `cpu`, for tests without a GPU.
const DEVICE_VARIABLE: &str = "SCATTERHEAP_DEVICE";
/// What default resources are made of, unless the program says so.
const COMPOSITION_VARIABLE: &str = "SCATTERHEAP_COMPOSITION";
/// The file that calls of default resources are written to.
const TRACE_VARIABLE: &str = "SCATTERHEAP_TRACE";

/// A device's default resource.
#[derive(Debug)]
pub(crate) struct Default {
    /// What default resources were to be made of when it was created.
    composition: Composition,
    resource: Arc<Resource>,
    handle: &'static Handle,
}

impl Default {
    pub fn handle(&self) -> &'static Handle {
        self.handle
    }
}

static DEFAULTS: [OnceLock<Default>; DEVICES] = [const { OnceLock::new() }; DEVICES];

/// What default resources are made of, if the program said so. Held while one is created.
static CONFIGURED: Mutex<Option<Composition>> = Mutex::new(None);

/// The default resource of a device, which is created first if need be.
///
/// # Errors
///
/// If there is no such device, a variable makes no sense, or there is not enough memory.
#[inline]
pub(crate) fn default_of(device: c_int) -> Result<&'static Default> {
    let place = usize::try_from(device)
        .ok()
        .and_then(|number| DEFAULTS.get(number));
    let place = place.ok_or(Error::BadDevice(device, DEVICES - 1))?;
    match place.get() {
        Some(default) => Ok(default),
        None => create(place, device.unsigned_abs()),
    }
}

/// The default resource of a device, for other bindings.
///
/// # Errors
///
/// If there is no such device, a variable makes no sense, or there is not enough memory.
pub fn default_resource(device: c_int) -> Result<Arc<Resource>> {
    Ok(default_of(device)?.resource.clone())
}

#[cold]
fn create(place: &'static OnceLock<Default>, number: u32) -> Result<&'static Default> {
    let configured = CONFIGURED.lock();
    if let Some(default) = place.get() {
        return Ok(default);
    }
    let selector: Selector = match variable(DEVICE_VARIABLE) {
        Some(text) => text.parse()?,
        None => Selector::Cuda(number),
    };
    let composition = match &*configured {
        Some(composition) => composition.clone(),
        None => variable(COMPOSITION_VARIABLE)
            .as_deref()
            .unwrap_or("default")
            .parse()?,
    };
    let traced = match variable(TRACE_VARIABLE) {
        Some(file) => composition.clone().traced_to(file.into()),
        None => composition.clone(),
    };
    let _context = KeptContext::of_this_thread();
    let resource = Resource::on(&Device::open(&selector, &[])?, traced.of_device(number))?;
    let handle = Handle::of_default(resource.clone());
    Ok(place.get_or_init(|| Default {
        composition,
        resource,
        handle,
    }))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// Says what default resources are made of that are created from now on.
///
/// # Errors
///
/// If the text means nothing, or there is a default resource already that is made of something else.
pub fn configure(text: &str) -> Result<()> {
    let mut configured = CONFIGURED.lock();
    let composition: Composition = text.parse()?;
    for (number, place) in DEFAULTS.iter().enumerate() {
        let other = place.get().map(|default| &default.composition);
        if other.is_some_and(|other| *other != composition) {
            return Err(Error::InUse(text.to_owned(), number));
        }
    }
    *configured = Some(composition);
    Ok(())
}

/// Allocates from the default resource of a device, for `PyTorch`.
///
/// # Safety
///
/// The stream must be NULL, or one of the device's primary context that is never destroyed, as `PyTorch`'s are not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_torch_allocate(
    bytes: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    if bytes == 0 {
        return ptr::null_mut(); // An empty tensor.
    }
    let allocate = || {
        let resource = &default_of(device)?.resource;
        // SAFETY: as the caller promises; default resources are never dropped.
        let block = unsafe { resource.allocate(bytes as u64, DEFAULT_ALIGNMENT, stream as u64) }?;
        Ok(block.as_ptr())
    };
    guard(allocate).unwrap_or(ptr::null_mut())
}

/// The same, but throws `std::runtime_error` where the other gives NULL for a block.
///
/// # Safety
///
/// As for [`scatterheap_torch_allocate`], and the caller must be C++.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn scatterheap_torch_allocate_or_throw(
    bytes: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let block = unsafe { scatterheap_torch_allocate(bytes, device, stream) };
    if block.is_null() && bytes > 0 {
        let text: *const c_char = failure::last();
        // SAFETY: the text is this thread's, and nothing fails before it is copied. The caller is C++.
        unsafe { exception::throw(text) };
    }
    block
}

/// Takes a block of the default resource back, for `PyTorch`. Errors are for `scatterheap_last_error` only.
///
/// # Safety
///
/// As for [`scatterheap_torch_allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_torch_free(
    block: *mut c_void,
    bytes: usize,
    device: c_int,
    stream: *mut c_void,
) {
    if block.is_null() {
        return;
    }
    guard(|| {
        let resource = &default_of(device)?.resource;
        let block = pointer(block)?;
        // SAFETY: as the caller promises.
        unsafe { resource.deallocate(block, bytes as u64, DEFAULT_ALIGNMENT, stream as u64) }
    });
}

/// Notes that a block of a default resource is used on another stream, for `Tensor.record_stream`.
///
/// # Safety
///
/// As for [`scatterheap_torch_allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_torch_record_stream(block: *mut c_void, stream: *mut c_void) {
    if block.is_null() {
        return;
    }
    guard(|| {
        let pointer = pointer(block)?;
        // PyTorch does not say which device's block it is.
        let mut defaults = DEFAULTS.iter().filter_map(OnceLock::get);
        let owner = defaults.find(|default| default.resource.device().holds(pointer.address()));
        match owner {
            // SAFETY: as the caller promises; default resources are never dropped.
            Some(owner) => unsafe { owner.resource.record_stream(pointer, stream as u64) },
            None => Ok(()),
        }
    });
}

/// Gives what default resources keep back to their devices, for `torch.cuda.empty_cache`.
#[unsafe(no_mangle)]
pub extern "C" fn scatterheap_torch_empty_cache() {
    for default in DEFAULTS.iter().filter_map(OnceLock::get) {
        guard(|| default.resource.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_cannot_be_are_refused() {
        for device in [-1, 64, c_int::MAX] {
            let error = default_of(device).expect_err("no such device").to_string();
            assert!(error.contains("0 to 63"), "{error}");
        }
    }
}
