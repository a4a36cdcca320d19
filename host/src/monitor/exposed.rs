//! What a heap shows to those who watch it.
//!
//! Invariant: what is shown is there as long as it is shown. Who looks holds the lock meanwhile; a heap that takes memory away,
//! or makes its metadata anew, takes what it shows back before, under the same lock.

use super::lock;
use crate::heap::Heap;
use crate::memory::Memory;
use crate::tally::DeviceTally;
use heap_core::Core;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// What can be seen of a heap; nothing while its metadata are written anew.
pub(crate) struct Exposed(Arc<Mutex<Option<Seen>>>);

/// Where it is.
pub(crate) struct Seen {
    /// As it begins the metadata.
    pub head: Core,
    /// Address of the metadata.
    pub metadata: u64,
    /// Address of a count of operations, of 64 bits, if there is one.
    pub operations: Option<u64>,
}

impl Exposed {
    /// Of a heap that is not made yet.
    pub fn nothing() -> Self {
        Self(Arc::default())
    }

    /// Takes it back; until this is dropped nobody looks.
    pub fn take_back(&self) -> MutexGuard<'_, Option<Seen>> {
        let mut seen = lock(&self.0);
        *seen = None;
        seen
    }

    /// For who watches: gone when the heap is.
    pub fn watch(&self) -> Weak<Mutex<Option<Seen>>> {
        Arc::downgrade(&self.0)
    }
}

impl Seen {
    pub fn new(head: &Core, metadata: &Memory) -> Self {
        Self {
            head: *head,
            metadata: metadata.address(),
            operations: None,
        }
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl fmt::Debug for Exposed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exposed").finish_non_exhaustive()
    }
}

/// Shows a heap's watchers how many operations a tally has counted, until it is dropped.
pub(crate) struct ShownOperations<'a>(&'a Heap);

impl<'a> ShownOperations<'a> {
    /// The tally must outlive this.
    pub fn new(heap: &'a Heap, tally: &DeviceTally) -> Self {
        Self::show(heap, Some(tally.operations()));
        Self(heap)
    }

    fn show(heap: &Heap, operations: Option<u64>) {
        if let Some(seen) = &mut *lock(&heap.exposed().0) {
            seen.operations = operations;
        }
    }
}

impl Drop for ShownOperations<'_> {
    fn drop(&mut self) {
        Self::show(self.0, None);
    }
}
