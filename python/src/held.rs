//! What an object of Python holds until it is closed.
//!
//! Giving memory back may wait for what needs Python to go on: a callback on a stream, or a thread that reads what a trace
//! writes. So it is dropped by threads that are detached from Python only, and there is no lock: others that call meanwhile
//! do not wait for who gives it back.

use arc_swap::ArcSwapOption;
use pyo3::Python;
use scatterheap_capi::{Error, Result};
use std::sync::Arc;

/// Something that is there until it is taken.
pub struct Held<T> {
    inner: ArcSwapOption<T>,
    /// What errors call it.
    kind: &'static str,
}

impl<T> Held<T> {
    pub fn of(inner: Arc<T>, kind: &'static str) -> Self {
        Self {
            inner: ArcSwapOption::new(Some(inner)),
            kind,
        }
    }

    /// It, to be dropped by a thread that is detached: it may have been taken meanwhile, and this be the last.
    pub fn get(&self) -> Result<Arc<T>> {
        self.inner.load_full().ok_or(Error::Destroyed(self.kind))
    }

    /// Takes it out, for ever. Nothing if that was done.
    pub fn take(&self) -> Option<Arc<T>> {
        self.inner.swap(None)
    }
}

/// Runs what drops things, detached from Python if there still is one.
pub fn detached(body: impl Fn() + Send + Sync) {
    if Python::try_attach(|py| py.detach(&body)).is_none() {
        body();
    }
}
