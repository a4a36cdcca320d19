//! Kernels that want more memory than there is.

use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use simt::{kernel, thread};

/// Arguments of [`TryReserve`] and [`Exceed`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct StarveArguments {
    /// Address of `count` numbers of 8 bytes, one for each thread.
    pub lengths: u64,
    /// Threads that work.
    pub count: u64,
    /// Bytes that no heap of the test has.
    pub too_many: u64,
}

kernel! {
    /// Every thread makes a vector as large as it gets, and more than there is it does not get.
    pub struct TryReserve = "collections_try_reserve";
    fn body(arguments: &StarveArguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend((0..100).map(|byte| byte ^ index as u8));
        let refused = bytes.try_reserve(arguments.too_many as usize).is_err();
        // What was there before is there still.
        let intact = (0..100).eq(bytes.iter().map(|byte| byte ^ index as u8));
        let length = if refused && intact { bytes.len() as u64 } else { u64::MAX };
        // SAFETY: there is a place for each thread.
        unsafe { (arguments.lengths as *mut u64).add(index as usize).write(length) };
    }
}

kernel! {
    /// Some threads cannot go on without memory that nobody has.
    pub struct Exceed = "collections_exceed";
    fn body(arguments: &StarveArguments) {
        let index = thread::index_1d();
        if u64::from(index) < arguments.count && index % 7 == 5 {
            let bytes: Vec<u8> = Vec::with_capacity(arguments.too_many as usize);
            // SAFETY: there is a place for each thread.
            unsafe {
                (arguments.lengths as *mut u64).add(index as usize).write(bytes.as_ptr() as u64);
            }
        }
    }
}
