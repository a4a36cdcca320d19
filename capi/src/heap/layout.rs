//! What tells programs in CUDA C++ whether this library is of the sources that their device functions are of.

/// Its name ends with the fingerprint of the device functions' sources, which say how a heap lies in memory.
///
/// `scatterheap/device.cuh` makes a program ask for the name that it was built with, so that the loader does not start it
/// with a library that lays heaps out in another way than its kernels read them.
#[unsafe(export_name = env!("SCATTERHEAP_LAYOUT"))]
pub static LAYOUT: u8 = 1;
