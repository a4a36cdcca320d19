//! Kernels: every thread factors its number into a linked list.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![allow(clippy::cast_ptr_alignment, reason = "blocks are aligned to 16 bytes")]

use bytemuck::{Pod, Zeroable};
use scatterheap_heap::Heap;
use scatterheap_simt::{kernel, thread};

/// A prime factor, and the next one.
#[repr(C)]
pub struct Node {
    factor: u32,
    next: *mut Node,
}

/// Arguments of both kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Arguments {
    /// The heap.
    pub heap: Heap,
    /// Address of `count` lists, one for each thread.
    pub lists: u64,
    /// Address of `count` numbers, one for each thread.
    pub products: u64,
    /// Threads that work.
    pub count: u64,
}

kernel! {
    /// Every thread makes a list of the prime factors of its index: how long, nobody knows before.
    pub struct Factor = "own_factor";
    fn body(arguments: &Arguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let (mut rest, mut factor, mut list) = (index, 2, core::ptr::null_mut());
        while rest > 1 {
            if rest % factor != 0 {
                factor += 1;
                continue;
            }
            rest /= factor;
            let node = arguments.heap.malloc(size_of::<Node>() as u64).cast::<Node>();
            if node.is_null() {
                break; // Exhausted; the heap has counted it.
            }
            // SAFETY: the block is this thread's, and has room for a node.
            unsafe { node.write(Node { factor, next: list }) };
            list = node;
        }
        // SAFETY: the host gave a place for each thread's list.
        unsafe { (arguments.lists as *mut *mut Node).add(index as usize).write(list) };
    }
}

kernel! {
    /// Every thread multiplies the numbers in its list, and frees it.
    pub struct Multiply = "own_multiply";
    fn body(arguments: &Arguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let mut product = 1;
        // SAFETY: the lists are as `Factor` left them, and the host gave a place for each result.
        unsafe {
            let mut list = (arguments.lists as *mut *mut Node).add(index as usize).read();
            while !list.is_null() {
                let Node { factor, next } = list.read();
                arguments.heap.free(list.cast());
                product *= factor;
                list = next;
            }
            (arguments.products as *mut u32).add(index as usize).write(product);
        }
    }
}

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    scatterheap_simt::thread::trap()
}
