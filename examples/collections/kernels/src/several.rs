//! Collections in two heaps, neither of them global: `allocator_api2`'s `Vec` and `Box`, and hashbrown's table.

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use bytemuck::{Pod, Zeroable};
use hashbrown::HashMap;
use heap::Heap;
use rustc_hash::FxBuildHasher;
use simt::{kernel, thread};

/// Arguments of [`Keep`] and [`Return`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SeveralArguments {
    /// For what a kernel leaves to the next.
    pub lasting: Heap,
    /// For what a thread throws away.
    pub passing: Heap,
    /// Address of `count` addresses of 8 bytes, one for each thread.
    pub places: u64,
    /// Threads that work.
    pub count: u64,
}

/// Numbers in a heap.
type Numbers = Vec<u64, heap::allocator::Alloc>;

kernel! {
    /// Every thread counts, in a table that it throws away, and keeps the sums in a vector.
    pub struct Keep = "collections_keep";
    fn body(arguments: &SeveralArguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let (lasting, passing) = (arguments.lasting.alloc(), arguments.passing.alloc());
        let mut counts = HashMap::with_hasher_in(FxBuildHasher, passing);
        for number in 0..index % 64 + 20 {
            *counts.entry(number % 10).or_insert(u64::from(index)) += u64::from(number);
        }
        let mut sums: Numbers = Vec::new_in(lasting);
        sums.extend((0..10).filter_map(|key| counts.get(&key)).copied());
        let kept = Box::leak(Box::new_in(sums, lasting));
        // SAFETY: there is a place for each thread.
        unsafe {
            (arguments.places as *mut *mut Numbers).add(index as usize).write(kept);
        }
    }
}

kernel! {
    /// Every thread takes the vector that another kernel left, and leaves what it sums up to.
    pub struct Return = "collections_return";
    fn body(arguments: &SeveralArguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        // SAFETY: `Keep` left a box in each place, from the same heap.
        unsafe {
            let place = (arguments.places as *mut u64).add(index as usize);
            let kept = place.read() as *mut Numbers;
            let sums = Box::from_raw_in(kept, arguments.lasting.alloc());
            place.write(sums.iter().sum());
        }
    }
}

/// What [`Return`] leaves for a thread.
#[must_use]
pub fn expected(index: u32) -> u64 {
    let numbers = 0..index % 64 + 20;
    numbers.map(u64::from).sum::<u64>() + 10 * u64::from(index)
}
