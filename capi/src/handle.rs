//! Handles of resources, which say so when they are used after their resource was destroyed.
//!
//! A handle is the address of a slot that is never freed, a few bytes for each resource that was ever created. So a
//! stale handle finds an empty slot. A thread that is using the resource when another destroys it keeps it until it is
//! done.

use crate::error::{Error, Result};
use crate::resource::Resource;
use arc_swap::{ArcSwapOption, Guard};
use std::sync::Arc;

/// `scatterheap_resource` of the header.
#[derive(Debug)]
pub struct Handle {
    resource: ArcSwapOption<Resource>,
    /// Whether it is a device's default resource, which others use without a handle.
    is_default: bool,
}

impl Handle {
    /// A handle of this resource.
    pub fn of(resource: Arc<Resource>) -> &'static Self {
        Self::leak(resource, false)
    }

    /// A handle of a default resource, which cannot be destroyed.
    pub fn of_default(resource: Arc<Resource>) -> &'static Self {
        Self::leak(resource, true)
    }

    fn leak(resource: Arc<Resource>, is_default: bool) -> &'static Self {
        Box::leak(Box::new(Self {
            resource: ArcSwapOption::new(Some(resource)),
            is_default,
        }))
    }

    /// What it is a handle of.
    ///
    /// # Errors
    ///
    /// If that was destroyed.
    #[inline]
    pub fn get(&self) -> Result<Held> {
        let held = self.resource.load();
        if held.is_some() {
            return Ok(Held(held));
        }
        Err(Error::Destroyed)
    }

    /// Takes the resource out. It is dropped when nobody uses it any more.
    ///
    /// # Errors
    ///
    /// If it was destroyed before, or is a default resource.
    pub fn take(&self) -> Result<Arc<Resource>> {
        if self.is_default {
            return Err(Error::DestroyedDefault);
        }
        self.resource.swap(None).ok_or(Error::Destroyed)
    }
}

/// A resource that is kept as long as this is.
pub struct Held(Guard<Option<Arc<Resource>>>);

impl std::ops::Deref for Held {
    type Target = Resource;

    #[inline]
    fn deref(&self) -> &Resource {
        self.0.as_ref().expect("it was there when it was taken")
    }
}
