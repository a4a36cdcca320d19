//! Traces are written out when the process ends: resources that live until then are never dropped.

use crate::resource::Resource;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The resources with traces.
static TRACED: Mutex<Vec<Weak<Resource>>> = Mutex::new(Vec::new());

/// Flushes the resource's traces when the process ends, if it is still there.
pub fn flush_at_exit(resource: &Arc<Resource>) {
    let mut traced = TRACED.lock();
    if traced.is_empty() {
        // SAFETY: the function takes nothing and lives as long as the library. If it cannot be registered, what is
        // not flushed otherwise is lost, as it would be in a crash.
        let _registered = unsafe { libc::atexit(flush) };
    }
    traced.retain(|other| other.strong_count() > 0);
    traced.push(Arc::downgrade(resource));
}

extern "C" fn flush() {
    // Not waited for: a thread that still holds it is not stopped by an exit, and may never let go.
    let Some(traced) = TRACED.try_lock() else {
        return;
    };
    for resource in traced.iter().filter_map(Weak::upgrade) {
        if let Some(Err(error)) = crate::failure::guard(|| Ok(resource.flush())) {
            eprintln!("scatterheap: {error}");
        }
        // Not dropped here, if this is the last one: other libraries may be gone by now.
        std::mem::forget(resource);
    }
}
