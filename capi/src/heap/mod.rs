//! Heaps that kernels allocate from, for callers in other languages.
//!
//! The kernels may be anybody's, launched by the CUDA runtime: the heap is in the device's primary context, which is that
//! of the runtime too. What such kernels link is in [`code`].

pub mod code;
pub mod interface;
#[cfg(feature = "cuda")]
pub mod layout;
mod occupancy;
mod options;

pub use occupancy::{Block, Leak, Occupancy};
pub use options::Options;

use crate::error::{Error, Result};
use parking_lot::Mutex;
use scatterheap_host::{Device, Heap, KeptContext, Selector};
use std::path::Path;
use std::sync::Arc;

/// A heap, as kernels take it in their arguments: `scatterheap_handle` in the header.
pub type HeapHandle = scatterheap_heap::Heap;

// What the header says. A structure that is smaller there is written beyond its end here. That the header's have these sizes is asserted where it is
// compiled, in `library/tests/programs/interface.c`.
const _: () = {
    assert!(size_of::<HeapHandle>() == 88);
    assert!(size_of::<Occupancy>() == 96);
    assert!(size_of::<Block>() == 16);
    assert!(size_of::<Leak>() == 32);
};

/// A heap on a device.
#[derive(Debug)]
pub struct DeviceHeap(Heap);

impl DeviceHeap {
    /// A heap on the device that a selector such as `auto`, `cpu` or `cuda:0` names.
    ///
    /// # Errors
    ///
    /// If there is no such device, not enough memory, or one of the texts means nothing.
    pub fn new(selector: &str, options: &str) -> Result<Arc<Self>> {
        let _context = KeptContext::of_this_thread();
        let options: Options = options.parse()?;
        let device = device(&selector.parse()?)?;
        Ok(Arc::new(Self(options.build(&device)?)))
    }

    /// The heap itself, for other bindings. Their calls keep the CUDA context of the calling thread by
    /// [`KeptContext`].
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.0
    }

    /// What kernels get.
    ///
    /// # Errors
    ///
    /// If a kernel faulted, so that the heap was lost.
    pub fn handle(&self) -> Result<HeapHandle> {
        Ok(self.0.handle()?)
    }

    /// What kernels on the GPU of a number get.
    ///
    /// # Errors
    ///
    /// If the heap is on another device, and as for [`handle`](Self::handle).
    pub fn handle_on(&self, number: i32) -> Result<HeapHandle> {
        let (heap, used) = (self.0.device().label(), format!("cuda:{number}"));
        if heap != used {
            return Err(scatterheap_host::Error::WrongDevice { heap, used }.into());
        }
        self.handle()
    }

    /// Makes it empty, after all launches. Handles from before are stale then.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn reset(&self) -> Result<()> {
        let _context = KeptContext::of_this_thread();
        Ok(self.0.reset()?)
    }

    /// Makes it larger by at least so many bytes, after all launches. Gives its capacity.
    ///
    /// # Errors
    ///
    /// If it is fixed or may not be as large, or there is not enough memory.
    pub fn grow(&self, bytes: u64) -> Result<u64> {
        let _context = KeptContext::of_this_thread();
        Ok(self.0.grow(bytes)?)
    }

    /// Maps what requests did not find since the last launch, if it grows between launches. Gives its capacity.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn attend(&self) -> Result<u64> {
        let _context = KeptContext::of_this_thread();
        self.0.attend()?;
        Ok(self.0.capacity())
    }

    /// How full it is, after all launches.
    ///
    /// # Errors
    ///
    /// If the device fails, or the metadata make no sense.
    pub fn occupancy(&self) -> Result<Occupancy> {
        let _context = KeptContext::of_this_thread();
        Ok(Occupancy::of(&self.0.snapshot()?.occupancy()))
    }

    /// The blocks that are handed out, by address, after all launches.
    ///
    /// # Errors
    ///
    /// As for [`occupancy`](Self::occupancy).
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let _context = KeptContext::of_this_thread();
        Ok(self.0.snapshot()?.live().map(Block::of).collect())
    }

    /// The blocks by the site that asked for them, after all launches, and how many others have a header that was
    /// written over.
    ///
    /// # Errors
    ///
    /// If blocks do not know their sites, and as for [`occupancy`](Self::occupancy).
    pub fn leaks(&self) -> Result<(Vec<Leak>, u64)> {
        let _context = KeptContext::of_this_thread();
        let report = self.0.leak_report()?;
        Ok((report.sites.iter().map(Leak::of).collect(), report.damaged))
    }

    /// Why it does not grow as was asked for, or did not grow when it should have; empty if it does.
    #[must_use]
    pub fn growth_notice(&self) -> String {
        self.0.growth_notice().unwrap_or_default()
    }

    /// Verifies every invariant, after all launches.
    ///
    /// # Errors
    ///
    /// If one is broken, and as for [`occupancy`](Self::occupancy).
    pub fn check(&self) -> Result<()> {
        let _context = KeptContext::of_this_thread();
        let checked = self.0.snapshot()?.check();
        checked.map_err(|violation| Error::Damaged(violation.to_string()))
    }

    /// Writes a snapshot to a file, after all launches: for `scatterheap check` and `scatterheap occupancy`.
    ///
    /// # Errors
    ///
    /// If the directory does not take the file, and as for [`occupancy`](Self::occupancy).
    pub fn save(&self, path: &Path) -> Result<()> {
        let _context = KeptContext::of_this_thread();
        Ok(self.0.snapshot()?.save(path)?)
    }
}

/// The device of a selector, with the kernels that heaps need: opened once, and kept as long as the process.
///
/// # Errors
///
/// If there is no such device, or it cannot load the kernels.
pub fn device(selector: &Selector) -> Result<Device> {
    static OPEN: Mutex<Vec<(Selector, Device)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock();
    if let Some((_, device)) = open.iter().find(|(known, _)| known == selector) {
        return Ok(device.clone());
    }
    let device = Device::open(selector, code::MODULES)?;
    open.push((selector.clone(), device.clone()));
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_is_made_grown_read_and_emptied() {
        let heap = DeviceHeap::new("cpu:2", "64KiB,max=4MiB").expect("a heap");
        let handle = heap.handle().expect("a handle");
        let block = handle.malloc(1000);
        assert!(!block.is_null());
        let full = heap.occupancy().expect("readable");
        assert_eq!((full.used_blocks, full.capacity), (1, 64 << 10));
        assert_eq!(heap.blocks().expect("readable")[0].address, block as u64);
        assert!(heap.grow(1 << 20).expect("room") >= (64 << 10) + (1 << 20));
        heap.check().expect("every invariant holds");
        heap.reset().expect("a device");
        assert_eq!(heap.occupancy().expect("readable").used_blocks, 0);
        assert_ne!(heap.handle().expect("a handle").mark(), handle.mark());
    }

    #[test]
    fn leaks_are_told_by_site() {
        let heap = DeviceHeap::new("cpu:2", "1MiB,harden=tags").expect("a heap");
        let handle = heap.handle().expect("a handle");
        let block = handle.malloc_tagged(1000, 7) as u64;
        let large = handle.malloc(100_000) as u64;
        let (leaks, damaged) = heap.leaks().expect("it has tags");
        let told = |leak: &Leak| (leak.site, leak.blocks, leak.bytes, leak.example);
        assert_eq!(told(&leaks[0]), (0, 1, 100_000, large));
        assert_eq!(leaks[0].size_class, -1);
        assert_eq!(told(&leaks[1]), (7, 1, 1000, block));
        assert!(leaks[1].size_class >= 0);
        assert_eq!((leaks.len(), damaged), (2, 0));
        // What the list of blocks has instead.
        let blocks = heap.blocks().expect("readable");
        assert!(blocks.iter().any(|found| found.address + 16 == block));
        let plain = DeviceHeap::new("cpu:2", "1MiB").expect("a heap");
        let error = plain.leaks().expect_err("no tags").to_string();
        assert!(error.contains("harden=tags"), "{error}");
    }

    #[test]
    fn a_heap_that_could_not_grow_says_why() {
        let free = Device::cpu().memory_info().expect("it is known").free;
        if free > 64 << 30 {
            // Metadata of so large a heap take long to write.
            println!("skipped: a heap that cannot grow (too much memory)");
            return;
        }
        // Twice as much as is free, for others may give memory back meanwhile.
        let options = format!("64MiB,max={}", 2 * free + (2 << 30));
        let heap = DeviceHeap::new("cpu:2", &options).expect("a heap");
        assert_eq!(heap.growth_notice(), "");
        let block = heap.handle().expect("a handle").malloc(2 * free);
        assert!(block.is_null());
        let _capacity = heap.attend();
        let notice = heap.growth_notice();
        assert!(notice.contains("the device has"), "{notice}");
    }

    #[test]
    fn a_fixed_heap_says_that_it_does_not_grow() {
        let heap = DeviceHeap::new("cpu:2", "1MiB").expect("a heap");
        let error = heap.grow(1).expect_err("fixed").to_string();
        assert!(error.contains("fixed"), "{error}");
        assert_eq!(heap.attend().expect("nothing to do"), 1 << 20);
    }
}
