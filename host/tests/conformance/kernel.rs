//! A kernel that takes its time before it writes: who uses its memory too early sees it.

use bytemuck::{Pod, Zeroable};
use scatterheap_host::resource::DevicePointer;
use scatterheap_host::{Grid, Stream};
use scatterheap_simt::kernel::Kernel;
use scatterheap_simt::thread;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct SlowWriteArguments {
    address: u64,
    count: u64,
    cycles: u64,
    value: u32,
    padding: u32,
}

pub struct SlowWrite;

// SAFETY: `slow_write.ptx` has this entry, which takes these arguments and does the same.
unsafe impl Kernel for SlowWrite {
    type Arguments = SlowWriteArguments;
    const NAME: &'static str = "conformance_slow_write";

    unsafe fn body(arguments: &SlowWriteArguments) {
        let index = u64::from(thread::index_1d());
        if index < arguments.count {
            // SAFETY: as the caller promises: there are `count` words.
            unsafe { ((arguments.address + index * 4) as *mut u32).write(arguments.value) };
        }
    }
}

/// Writes `value` to `count` words, on a GPU after `cycles` clock cycles.
pub fn slow_write(stream: &Stream, block: DevicePointer, count: u32, value: u32, cycles: u64) {
    let arguments = SlowWriteArguments {
        address: block.address(),
        count: u64::from(count),
        cycles,
        value,
        padding: 0,
    };
    let device = stream.device();
    // SAFETY: the block has room for the words.
    unsafe { device.launch_on::<SlowWrite>(stream, Grid::of(count), &arguments) }
        .expect("launched");
}
