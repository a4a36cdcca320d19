//! Counts the memory that each thread has, so that targets notice who asks for more than the input
//! justifies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread has allocated less those that it has freed, and the most that these were.
    /// Of blocks that other threads free or allocated it may be wrong, below zero too.
    static USE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counted.
struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

fn count(difference: isize) {
    let (now, most) = USE.get();
    let now = now.wrapping_add(difference);
    USE.set((now, most.max(now)));
}

// SAFETY: all is done by the system's allocator; the counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed().wrapping_sub(layout.size().cast_signed()));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size().cast_signed().wrapping_neg());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What some work gives, and the most bytes that it had at one time beyond those from before.
pub fn most_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let (before, _) = USE.get();
    USE.set((before, before));
    let result = work();
    let (_, most) = USE.get();
    (result, most.saturating_sub(before).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_counted() {
        let (length, most) = most_of(|| {
            let large = vec![1_u8; 100_000].len();
            large + vec![1_u8; 1000].len()
        });
        assert_eq!(length, 101_000);
        assert!((100_000..101_000).contains(&most), "{most}");
        assert_eq!(most_of(|| ()).1, 0);
    }
}
