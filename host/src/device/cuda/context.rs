//! Changes which context is current for a thread, and undoes that.

use super::Cuda;
use cudarc::driver::sys::{self, CUcontext, CUpointer_attribute};
use cudarc::driver::{DriverError, result};
use std::cell::Cell;
use std::ptr;

/// What a thread keeps.
#[derive(Clone, Copy)]
struct Kept {
    /// How many want the context to be kept.
    keepers: u32,
    /// What was current before the first change since then; NULL if nothing was.
    before: Option<CUcontext>,
}

thread_local! {
    static KEPT: Cell<Kept> = const { Cell::new(Kept { keepers: 0, before: None }) };
}

/// From now on changes of this thread's context are undone by [`end_to_keep`].
#[inline]
pub(in crate::device) fn begin_to_keep() {
    let kept = KEPT.get();
    KEPT.set(Kept {
        keepers: kept.keepers + 1,
        ..kept
    });
}

/// Makes the context current that was so at the first [`begin_to_keep`], if this is the last of as many calls and it was
/// changed.
#[inline]
pub(in crate::device) fn end_to_keep() {
    let kept = KEPT.get();
    let keepers = kept.keepers - 1;
    KEPT.set(Kept { keepers, ..kept });
    if keepers == 0
        && let Some(before) = kept.before
    {
        restore(before);
    }
}

#[cold]
fn restore(before: CUcontext) {
    KEPT.set(Kept {
        keepers: 0,
        before: None,
    });
    // SAFETY: it was current before, so whoever made it so keeps it alive. An error has nobody to go to.
    let _restored = unsafe { result::ctx::set_current(before) };
}

/// Makes a context current for the calling thread.
///
/// # Safety
///
/// The context must be one that is retained.
pub(super) unsafe fn make_current(context: CUcontext) -> Result<(), DriverError> {
    let kept = KEPT.get();
    if kept.keepers > 0 && kept.before.is_none() {
        let before = result::ctx::get_current()?.unwrap_or(ptr::null_mut());
        if before == context {
            return Ok(());
        }
        KEPT.set(Kept {
            before: Some(before),
            ..kept
        });
    }
    // SAFETY: as the caller promises.
    unsafe { result::ctx::set_current(context) }
}

impl Cuda {
    /// Whether an address is in this GPU's memory.
    pub fn holds(&self, address: u64) -> bool {
        let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        let mut ordinal: i32 = -1;
        // SAFETY: writes the number of the address's device, an `int`, to the variable. The address is not followed.
        let found =
            unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), which, address) };
        found.result().is_ok() && u32::try_from(ordinal) == Ok(self.ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_are_counted() {
        begin_to_keep();
        begin_to_keep();
        assert_eq!(KEPT.get().keepers, 2);
        end_to_keep();
        assert_eq!(KEPT.get().keepers, 1);
        end_to_keep();
        assert_eq!(KEPT.get().keepers, 0);
        // Nothing changed, so nothing was noted and no driver was asked, which there may not be.
        assert!(KEPT.get().before.is_none());
    }

    #[test]
    fn a_thread_has_its_context_again() {
        let Ok(cuda) = Cuda::open(0, &[]) else {
            println!("skipped: contexts that are kept on a GPU (no GPU found)");
            return;
        };
        let current = || result::ctx::get_current().expect("the driver says");
        let thread = std::thread::spawn(move || {
            assert_eq!(current(), None);
            begin_to_keep();
            cuda.memory_info().expect("it has memory");
            assert!(current().is_some());
            end_to_keep();
            assert_eq!(current(), None);
            // Without a keeper the context stays.
            cuda.memory_info().expect("it has memory");
            assert!(current().is_some());
        });
        thread.join().expect("all as expected");
    }
}
