//! Blocks that the host asks for, many at once: a launch in which each thread serves one request.

use super::Heap;
use crate::device::Grid;
use crate::error::{Error, Result};
use crate::memory::Memory;
use heap_core::Heap as Handle;
use kernels::each::{EachArguments, FreeEach, MallocEach, Request};
use simt::kernel::Kernel;

/// Requests of one launch at most.
const AT_ONCE: usize = 1 << 24;

impl Heap {
    /// Allocates a block of each size, in bytes, as threads of a kernel would. Gives their addresses, 0 where
    /// nothing fitting was left. Waits for that.
    ///
    /// # Errors
    ///
    /// If the device fails, or has no room for the list.
    pub fn malloc_each(&self, bytes: &[u64]) -> Result<Vec<u64>> {
        let mut addresses = Vec::with_capacity(bytes.len());
        for part in bytes.chunks(AT_ONCE) {
            let asked = part.iter().map(|&bytes| Request { address: 0, bytes });
            let given = self.for_each::<MallocEach>(asked.collect())?;
            addresses.extend(given.iter().map(|request| request.address));
        }
        Ok(addresses)
    }

    /// Frees the blocks at these addresses; 0 is none. What is no block is refused, and counted in
    /// [`misuse_report`](Self::misuse_report). Waits for that.
    ///
    /// # Errors
    ///
    /// As for [`malloc_each`](Self::malloc_each).
    ///
    /// # Safety
    ///
    /// Nobody may use the blocks any more.
    pub unsafe fn free_each(&self, addresses: &[u64]) -> Result<()> {
        for part in addresses.chunks(AT_ONCE) {
            let requests = part.iter().map(|&address| Request { address, bytes: 0 });
            self.for_each::<FreeEach>(requests.collect())?;
        }
        Ok(())
    }

    /// Runs `body`, which allocates or frees by the handle it is given, on the calling thread: on the CPU, where the
    /// heap's memory is the host's. As of [`malloc_each`](Self::malloc_each), calls of other threads that make the heap
    /// empty, or read it, come before or after it.
    ///
    /// # Errors
    ///
    /// If the heap is on a GPU, or was lost.
    pub fn on_the_host<T>(&self, body: impl FnOnce(&Handle) -> T) -> Result<T> {
        if self.device.is_gpu() {
            return Err(Error::NotTheHosts(self.device.label()));
        }
        let _turn = self.in_turn.lock();
        Ok(body(&self.handle()?))
    }

    /// Launches a kernel with a thread for each request; the requests as it leaves them.
    fn for_each<K: Kernel<Arguments = EachArguments>>(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Request>> {
        if requests.is_empty() {
            return Ok(requests);
        }
        let _turn = self.in_turn.lock();
        let list: Memory = self
            .device
            .allocate(size_of_val(requests.as_slice()) as u64)?;
        list.write(0, &requests)?;
        let arguments = EachArguments {
            heap: self.handle()?,
            requests: list.address(),
            count: requests.len() as u64,
        };
        let threads = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        // SAFETY: the array has a request for each thread, and lives until the launch ended.
        unsafe { self.launch::<K>(Grid::of(threads), &arguments)? };
        self.device.synchronize()?;
        list.read(0, requests.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Error};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn every_request_is_answered() {
        let device = Device::cpu_with_threads(2);
        let heap = Heap::builder(&device).capacity(1 << 20).build();
        let heap = heap.expect("there is memory");
        let sizes: Vec<u64> = (1..=1000).collect();
        let mut addresses = heap.malloc_each(&sizes).expect("the heap is there");
        let snapshot = heap.snapshot().expect("the heap can be read");
        let live: Vec<u64> = snapshot.live().map(|block| block.address).collect();
        // SAFETY: nobody uses the blocks.
        unsafe { heap.free_each(&addresses) }.expect("the heap is there");
        addresses.sort_unstable();
        assert_eq!(addresses, live);
        assert_eq!(heap.malloc_each(&[2 << 20, 0]).expect("none fits"), [0, 0]);
        assert!(heap.malloc_each(&[]).expect("nothing to do").is_empty());
        let snapshot = heap.snapshot().expect("the heap can be read");
        assert!(snapshot.is_empty() && snapshot.misuse_report().is_empty());
    }

    /// Addresses that one call of `malloc_each` gave twice.
    fn given_twice(heap: &Heap) -> usize {
        let given = heap.malloc_each(&[64; 2000]).expect("the heap is there");
        let mut given: Vec<u64> = given.into_iter().filter(|address| *address != 0).collect();
        let count = given.len();
        given.sort_unstable();
        given.dedup();
        count - given.len()
    }

    #[test]
    fn calls_of_many_threads_come_one_after_the_other() {
        let device = Device::cpu_with_threads(2);
        let heap = Heap::builder(&device).capacity(16 << 20).build();
        let heap = heap.expect("there is memory");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (heap, is_over) = (&heap, &is_over);
            let others = [
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        heap.reset().expect("the heap is there");
                    }
                }),
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let snapshot = heap.snapshot().expect("the heap can be read");
                        snapshot.check().expect("nothing is half done");
                    }
                }),
            ];
            let twice: usize = (0..200).map(|_| given_twice(heap)).sum();
            is_over.store(true, Ordering::Relaxed);
            for other in others {
                other.join().expect("it is in order");
            }
            assert_eq!(twice, 0);
        });
    }

    #[test]
    fn nothing_is_linked_for_the_cpu() {
        let linked = Device::cpu_with_threads(1).link(&[".version 7.8"], 64);
        assert!(matches!(linked, Err(Error::NothingToLinkFor)));
    }
}
