//! Handles of resources and heaps, which say so when they are used after what they name was destroyed.
//!
//! A handle is the address of a slot that is never freed, a few bytes for each resource and heap that was ever created.
//! So a stale handle finds an empty slot. A thread that is using the resource when another destroys it keeps it until it
//! is done.

use crate::error::{Error, Result};
use crate::heap::DeviceHeap;
use crate::resource::Resource;
use arc_swap::{ArcSwapOption, Guard};
use scatterheap_host::KeptContext;
use std::sync::Arc;

/// What has handles.
pub trait Named {
    /// What errors call it.
    const KIND: &'static str;
}

impl Named for Resource {
    const KIND: &'static str = "resource";
}

impl Named for DeviceHeap {
    const KIND: &'static str = "heap";
}

/// `scatterheap_resource` and `scatterheap_heap` of the header.
#[derive(Debug)]
pub struct Handle<T = Resource> {
    named: ArcSwapOption<T>,
    /// Whether it is a device's default resource, which others use without a handle.
    is_default: bool,
}

impl Handle {
    /// A handle of a default resource, which cannot be destroyed.
    pub fn of_default(resource: Arc<Resource>) -> &'static Self {
        Self::leak(resource, true)
    }
}

impl<T: Named> Handle<T> {
    /// A handle of this.
    pub fn of(named: Arc<T>) -> &'static Self {
        Self::leak(named, false)
    }

    fn leak(named: Arc<T>, is_default: bool) -> &'static Self {
        Box::leak(Box::new(Self {
            named: ArcSwapOption::new(Some(named)),
            is_default,
        }))
    }

    /// What it is a handle of.
    ///
    /// # Errors
    ///
    /// If that was destroyed.
    #[inline]
    pub fn get(&self) -> Result<Held<T>> {
        let context = KeptContext::of_this_thread();
        let held = self.named.load();
        if held.is_some() {
            return Ok(Held {
                named: held,
                _context: context,
            });
        }
        Err(Error::Destroyed(T::KIND))
    }

    /// Takes it out. It is dropped when nobody uses it any more.
    ///
    /// # Errors
    ///
    /// If it was destroyed before, or is a default resource.
    pub fn take(&self) -> Result<Arc<T>> {
        if self.is_default {
            return Err(Error::DestroyedDefault);
        }
        self.named.swap(None).ok_or(Error::Destroyed(T::KIND))
    }
}

/// What a handle named, which is kept as long as this is. If it was destroyed meanwhile it is dropped here, and the thread finds its CUDA context afterwards: the order of the fields matters.
pub struct Held<T = Resource> {
    named: Guard<Option<Arc<T>>>,
    _context: KeptContext,
}

impl<T> std::ops::Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.named.as_ref().expect("it was there when it was taken")
    }
}
