//! What the numbered examples share whose kernels use Rust's collections.

pub use scatterheap_collections_kernels as kernels;

pub mod graph;
pub mod mandelbrot;
pub mod octree;
pub mod packages;
pub mod table;
pub mod walks;
pub mod words;

use scatterheap::{Device, Memory, Result, Selector};

/// The kernels, compiled to PTX. Empty without the feature `cuda`.
#[cfg(feature = "cuda")]
pub const PTX: &str = include_str!(concat!(
    env!("OUT_DIR"),
    "/scatterheap-collections-kernels.sm_75.ptx"
));
/// The kernels, compiled to PTX. Empty without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub const PTX: &str = "";

/// Bytes of a thread's stack: some kernels sort and format.
const STACK_BYTES: u64 = 8 << 10;

/// Opens a device, with the kernels loaded.
///
/// # Errors
///
/// If there is no such device, or it refuses the kernels.
pub fn open(selector: &Selector) -> Result<Device> {
    let device = scatterheap::open(selector)?;
    device.raise_stack(STACK_BYTES)?;
    device.load_module(PTX)?;
    Ok(device)
}

/// The device of an example: what follows `--device` on its command line, or the CPU. The other arguments are
/// given too.
///
/// # Errors
///
/// If there is no such device, or it refuses the kernels.
pub fn open_for_example() -> Result<(Device, Vec<String>)> {
    let mut selector = Selector::Cpu { threads: None };
    let (mut others, mut arguments) = (Vec::new(), std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        if argument == "--device" {
            selector = arguments.next().unwrap_or_default().parse()?;
        } else {
            others.push(argument);
        }
    }
    Ok((open(&selector)?, others))
}

/// Memory for `count` elements of `T`, all zero.
fn zeroed<T>(device: &Device, count: usize) -> Result<Memory> {
    let memory = device.allocate((count * size_of::<T>()) as u64)?;
    memory.clear()?;
    Ok(memory)
}

/// Memory with these elements.
fn filled<T: bytemuck::NoUninit>(device: &Device, elements: &[T]) -> Result<Memory> {
    let memory = device.allocate(size_of_val(elements) as u64)?;
    memory.write(0, elements)?;
    Ok(memory)
}

/// A grid with a thread for each of so many elements.
fn grid(elements: usize) -> scatterheap::Grid {
    scatterheap::Grid::of(u32::try_from(elements).unwrap_or(u32::MAX))
}
