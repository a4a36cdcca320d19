//! Keeps what was freed for the next who wants that size.
//!
//! A request is rounded up to a size class. Each thread keeps free blocks by stream and class, and in
//! the usual case takes one from there, or puts one there, without meeting another thread. What a
//! thread has too much of goes to the *shelf* of the class, where all threads find it. If nothing is
//! there the upstream is asked. Before that gets more memory of the device, what is kept beyond a small
//! share goes back to it, the largest blocks first (`caching/share.rs`). And if it has no more, everything
//! goes back to it, where it is merged, before it is asked again. Blocks that are too large to be kept, or aligned to
//! more than 256 bytes, go past the cache.
//!
//! A block that was freed on a stream is used on that stream again without any waiting. Only when a
//! stream takes from a shelf what another one freed it is made to wait for that.
//!
//! A thread that has no block of a class takes one of the next classes, which are larger by little: sizes that
//! are asked for at random nearly always find one then, though little is kept. Of large blocks it takes one that
//! is larger by up to a half, as long as all that is wasted by that is a small share (`caching/allowance.rs`).
//!
//! Invariant: a block of the upstream is handed out, or in one thread's cache, or on one shelf. Its
//! class is that of the bytes that were asked for, or as many beyond it as the ledger's note says.

mod allowance;
mod builder;
mod classes;
mod share;
mod shelf;
mod stocked;
#[cfg(test)]
mod tests;
mod thread_cache;

pub use builder::CachingBuilder;

use super::ledger::Ledger;
use super::request::{check, check_stream};
use super::returned::Returned;
use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use crate::thread_slots::SharedSlots;
use allowance::Waste;
use classes::{bytes_of, class_of, reach, waste};
use parking_lot::{Mutex, RwLock};
use share::{PerThread, Seen};
use shelf::Shelf;
use spin::Yield;
use spin::mutex::SpinMutex;
use std::sync::atomic::{AtomicU64, Ordering};
use stocked::Stocked;
use thread_cache::{Batch, ThreadCache, batch};

/// The largest blocks that are kept, if nothing else is said.
const LARGEST: u64 = 1 << 30;
/// Bytes that a thread keeps of each stream at most, if nothing else is said and that is more than its share
/// of the memory (`share.rs`).
const BYTES_PER_THREAD: u64 = 256 << 20;

/// Keeps what was freed, by size class and stream, for the next who wants it. See
/// [`Caching::of`] for the usual one.
///
/// ```
/// use scatterheap_host::resource::{Caching, MemoryResource};
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let memory = Caching::of(&device);
/// let block = memory.allocate(1 << 20, 256, &stream)?;
/// // SAFETY: nothing uses it.
/// unsafe { memory.deallocate(block, 1 << 20, 256, &stream) }?;
/// assert_eq!(memory.allocate(1 << 20, 256, &stream)?, block);
/// assert_eq!(memory.usage().hits, 1);
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct Caching<U: MemoryResource> {
    upstream: U,
    device: Device,
    ledger: Ledger,
    shelves: Vec<Mutex<Shelf>>,
    stocked: Stocked,
    threads: SharedSlots<Own>,
    bytes_per_thread: PerThread,
    waste: Waste,
    /// Bytes that the upstream handed out.
    held: AtomicU64,
    /// Held while blocks are moved between threads and shelves; alone by who takes everything back, so
    /// that all of it is found, and others then find what was given back.
    moving: RwLock<Seen>,
}

/// A thread's cache, alone on its cache lines. Only who takes all memory back meets its owner here, and threads that end
/// each other in the one that they share, so the lock need not let threads sleep: giving it back is a plain store.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own(SpinMutex<ThreadCache, Yield>);

/// What a cache did and keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocations that found a block in their thread's cache.
    pub hits: u64,
    /// Other allocations of cached sizes.
    pub misses: u64,
    /// Bytes that are kept for later.
    pub kept: u64,
    /// How often a stream was made to wait for another one, to get what that had freed.
    pub waits: u64,
}

impl<U: MemoryResource> Caching<U> {
    /// Keeps what it gets from `upstream`; with the usual settings.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        Self::with(upstream, LARGEST, None)
    }

    /// For other settings.
    #[must_use]
    pub fn builder(upstream: U) -> CachingBuilder<U> {
        CachingBuilder::new(upstream)
    }

    fn with(upstream: U, largest: u64, bytes_per_thread: Option<u64>) -> Self {
        let shelf = |_| Mutex::new(Shelf::default());
        Self {
            device: upstream.device().clone(),
            upstream,
            ledger: Ledger::new("a cache"),
            shelves: (0..=class_of(largest)).map(shelf).collect(),
            stocked: Stocked::new(class_of(largest) + 1),
            threads: SharedSlots::default(),
            bytes_per_thread: PerThread::new(BYTES_PER_THREAD, bytes_per_thread),
            waste: Waste::default(),
            held: AtomicU64::new(0),
            moving: RwLock::new(Seen::default()),
        }
    }

    /// Where the memory comes from.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// The class of a request, if such blocks are kept.
    #[inline]
    fn class(&self, bytes: u64, alignment: u64) -> Option<usize> {
        let class = class_of(bytes);
        (class < self.shelves.len() && alignment == DEFAULT_ALIGNMENT).then_some(class)
    }

    /// Takes a block that the calling thread does not have, or may not have yet; and its class.
    #[cold]
    fn fetch(&self, own: &Own, class: usize, stream: &Stream) -> Result<(DevicePointer, usize)> {
        if self.allow_waste(own, class)
            && let Some(taken) = own.0.lock().take(class, stream)
        {
            return Ok(taken);
        }
        own.0.lock().misses += 1;
        if let Some(found) = self.find_shelf(own, class) {
            let fetched = self.fetch_from_shelf(found, stream);
            if let Ok(Some(block)) = fetched {
                return Ok((block, found));
            }
            // The device failed, or another thread was faster.
            own.0.lock().allowance += waste(class, found - class);
            fetched?;
        }
        let block = self.request(bytes_of(class), DEFAULT_ALIGNMENT, stream)?;
        Ok((block, class))
    }

    /// The shelf of a class, or of one that is larger by as little as the calling thread may waste, which
    /// it is charged for.
    fn find_shelf(&self, own: &Own, class: usize) -> Option<usize> {
        let last = (class + reach(class)).min(self.shelves.len() - 1);
        let found = self.stocked.next(class, last)?;
        own.0.lock().pay(class, found).then_some(found)
    }

    /// Takes a block from a shelf, and some more for the calling thread.
    fn fetch_from_shelf(&self, class: usize, stream: &Stream) -> Result<Option<DevicePointer>> {
        let _moving = self.moving.read_recursive();
        let mut blocks = {
            let mut stock = self.shelves[class].lock();
            let blocks = stock.take(batch(class), stream)?;
            self.stocked.set(class, stock.len() > 0);
            blocks
        };
        let block = blocks.pop();
        for block in blocks {
            self.keep(block, class, stream);
        }
        Ok(block)
    }

    /// Puts blocks on a shelf.
    fn put_on_shelf(&self, class: usize, blocks: Vec<DevicePointer>, stream: &Stream) {
        let mut stock = self.shelves[class].lock();
        stock.put(stream, blocks);
        self.stocked.set(class, true);
    }

    /// Takes all blocks from a shelf.
    fn clear_shelf(&self, class: usize) -> Vec<Batch> {
        let mut stock = self.shelves[class].lock();
        self.stocked.set(class, false);
        stock.drain(class).collect()
    }

    /// The shelves that have something.
    fn stocked_shelves(&self) -> impl Iterator<Item = usize> {
        let next = |from| self.stocked.next(from, self.shelves.len() - 1);
        std::iter::successors(next(0), move |class| next(class + 1))
    }

    /// Puts a free block into the calling thread's cache.
    #[expect(clippy::inline_always, reason = "a call is a tenth of what it does")]
    #[inline(always)]
    fn keep(&self, block: DevicePointer, class: usize, stream: &Stream) {
        let own = self.threads.own();
        let mut cache = own.0.lock();
        if !cache.put(block, class, stream, self.bytes_per_thread.now()) {
            drop(cache);
            self.make_room(own, block, class, stream);
        }
    }

    /// Puts a free block into a thread's cache, and what does not fit then on the shelves.
    #[cold]
    fn make_room(&self, own: &Own, block: DevicePointer, class: usize, stream: &Stream) {
        let _moving = self.moving.read_recursive();
        let limits = (self.shelves.len(), self.bytes_per_thread.now());
        let taken_out = own.0.lock().make_room(block, class, stream, limits);
        self.shelve(taken_out);
    }

    fn shelve(&self, batches: Vec<Batch>) {
        for batch in batches {
            self.put_on_shelf(batch.class, batch.blocks, &batch.stream);
        }
    }

    /// Asks the upstream; if that needs more memory, or has no more, gives it back what is kept and asks
    /// again.
    fn request(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let block = match self.ask(bytes, alignment, stream) {
            Err(error) if error.is_out_of_memory() => self.press(bytes, alignment, stream)?,
            requested => requested?,
        };
        // Relaxed: a number that is compared with a share only.
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(block)
    }

    fn ask(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        if let Some(block) = self.upstream.allocate_reserved(bytes, alignment, stream)? {
            return Ok(block);
        }
        if self.make_way()?
            && let Some(block) = self.upstream.allocate_reserved(bytes, alignment, stream)?
        {
            return Ok(block);
        }
        self.upstream.allocate(bytes, alignment, stream)
    }

    /// Asks the upstream until it has enough, or there is nothing left to give back to it. One thread
    /// at a time, so that nobody fails because another has taken everything out but not given it back.
    #[cold]
    fn press(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let _alone = self.moving.write();
        self.bytes_per_thread.shrink();
        loop {
            match self.upstream.allocate(bytes, alignment, stream) {
                Err(error) if error.is_out_of_memory() && self.give_back()? > 0 => (),
                requested => return requested,
            }
        }
    }

    /// Lets threads keep so many bytes of each stream from now on: the
    /// [setting](CachingBuilder::bytes_per_thread), for a resource that is in use.
    pub fn set_bytes_per_thread(&self, bytes: u64) {
        self.bytes_per_thread.set(bytes);
    }

    /// Takes out everything that is kept.
    fn drain(&self) -> Vec<Batch> {
        let mut batches = Vec::new();
        for own in self.threads.iter() {
            let mut cache = own.0.lock();
            self.waste.put(std::mem::take(&mut cache.allowance));
            batches.extend(cache.drain());
        }
        for class in self.stocked_shelves() {
            batches.extend(self.clear_shelf(class));
        }
        batches
    }

    /// Gives everything that is kept back to the upstream; its bytes. The caller moves blocks alone.
    fn give_back(&self) -> Result<u64> {
        self.return_all(self.drain())
    }

    /// Gives blocks back to the upstream; their bytes. What it refuses goes on the shelves, and the first error is
    /// given when all others are back.
    fn return_all(&self, batches: Vec<Batch>) -> Result<u64> {
        let mut returned = Returned::default();
        for mut batch in batches {
            let size = bytes_of(batch.class);
            batch.blocks.retain(|block| {
                // SAFETY: free, and taken out of where it was kept.
                let said =
                    unsafe { self.return_one(*block, (size, DEFAULT_ALIGNMENT), &batch.stream) };
                returned.add(size, said, &self.device)
            });
            if !batch.blocks.is_empty() {
                self.put_on_shelf(batch.class, batch.blocks, &batch.stream);
            }
        }
        returned.end()
    }

    /// Gives a block back to the upstream. If that fails, the upstream has handed it out still, unless the error says that it
    /// is gone.
    ///
    /// # Safety
    ///
    /// The upstream handed it out, with these bytes, and it is neither kept nor used by anybody but for work of the stream.
    unsafe fn return_one(
        &self,
        block: DevicePointer,
        (bytes, alignment): (u64, u64),
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        let returned = unsafe { self.upstream.deallocate(block, bytes, alignment, stream) };
        let is_back = match &returned {
            Ok(()) => true,
            Err(error) => error.is_of_a_block_that_is_gone(),
        };
        if is_back {
            // Relaxed: as in `request`.
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        returned
    }

    /// Gives a block back that is not kept, and that the ledger has no more.
    ///
    /// # Safety
    ///
    /// As for [`return_one`](Self::return_one).
    #[inline(never)]
    unsafe fn return_past(
        &self,
        block: DevicePointer,
        given: (u64, u64),
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        let returned = unsafe { self.return_one(block, given, stream) };
        if let Err(error) = &returned {
            self.ledger.restore(block, given, 0, error);
        }
        returned
    }

    /// Gets blocks from the upstream in advance: so many of so many bytes each, for work on `stream`.
    /// All threads find them.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or such blocks are not kept. What was got by then is kept.
    pub fn warm_up(&self, sizes: &[(u64, usize)], stream: &Stream) -> Result<()> {
        for (bytes, count) in sizes {
            let alignment = check(self.ledger.resource(), *bytes, DEFAULT_ALIGNMENT)?;
            check_stream(self.device(), stream)?;
            let class = self.class(*bytes, alignment).ok_or(Error::TooLarge {
                resource: self.ledger.resource(),
                asked: *bytes,
                most: bytes_of(self.shelves.len() - 1),
            })?;
            for _ in 0..*count {
                let block = self.upstream.allocate(bytes_of(class), alignment, stream)?;
                // Relaxed: as in `request`.
                self.held.fetch_add(bytes_of(class), Ordering::Relaxed);
                self.put_on_shelf(class, vec![block], stream);
            }
        }
        Ok(())
    }

    /// Allocates `count` blocks of the same size, or none.
    ///
    /// # Errors
    ///
    /// As for [`allocate`](MemoryResource::allocate). Blocks that are too large to be kept, and that the upstream then does
    /// not take back, stay handed out until the cache is dropped.
    pub fn allocate_batch(
        &self,
        count: usize,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<Vec<DevicePointer>> {
        let mut blocks = Vec::new();
        for _ in 0..count {
            match self.allocate(bytes, alignment, stream) {
                Ok(block) => blocks.push(block),
                Err(error) => {
                    for block in blocks {
                        // SAFETY: just allocated, and nobody has it yet. The first error is that which is given.
                        let _failed = unsafe { self.deallocate(block, bytes, alignment, stream) };
                    }
                    return Err(error);
                }
            }
        }
        Ok(blocks)
    }

    /// What it did and keeps.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for own in self.threads.iter() {
            let cache = own.0.lock();
            usage.hits += cache.hits;
            usage.misses += cache.misses;
            usage.kept += cache.bytes();
        }
        for (class, shared) in self.shelves.iter().enumerate() {
            let listed = shared.lock();
            usage.kept += bytes_of(class) * listed.len() as u64;
            usage.waits += listed.waits();
        }
        usage
    }
}

/// How many classes a block's is beyond that of its request: few.
#[inline]
fn beyond(of: usize, class: usize) -> u8 {
    u8::try_from(of - class).unwrap_or(u8::MAX)
}

// SAFETY: the blocks are those of the upstream, and nobody keeps one while it is handed out.
unsafe impl<U: MemoryResource> MemoryResource for Caching<U> {
    #[inline]
    fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let (block, beyond) = match self.class(bytes, alignment) {
            Some(class) => {
                let own = self.threads.own();
                let kept = own.0.lock().take(class, stream);
                let (block, of) = match kept {
                    Some(taken) => taken,
                    None => self.fetch(own, class, stream)?,
                };
                (block, beyond(of, class))
            }
            None => (self.request(bytes, alignment, stream)?, 0),
        };
        self.ledger
            .insert_noted(block, (bytes, alignment), beyond)?;
        Ok(block)
    }

    #[inline]
    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let beyond = self.ledger.remove_noted(pointer, bytes, alignment)?;
        match self.class(bytes, alignment) {
            Some(class) => {
                if beyond > 0 {
                    self.recover_waste(class, beyond);
                }
                self.keep(pointer, class + usize::from(beyond), stream);
                Ok(())
            }
            // SAFETY: the ledger says that it was handed out, and is not kept; else as the caller promises.
            None => unsafe { self.return_past(pointer, (bytes, alignment), stream) },
        }
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Gives everything that is kept back to the upstream, and trims that.
    fn trim(&self) -> Result<u64> {
        let _alone = self.moving.write();
        // Also below where something was refused.
        let (given, below) = (self.give_back(), self.upstream.trim());
        Ok(given?.max(below?))
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.upstream.memory()
    }
}

impl<U: MemoryResource> Drop for Caching<U> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.ledger
            .for_each_noted(|block, given, beyond| left.push((block, given, beyond)));
        if !left.is_empty() {
            // Any stream may use them. If the device failed there is nothing to wait for.
            self.device().settle();
        }
        let stream = Stream::default_of(self.device());
        for (block, (bytes, alignment), beyond) in left {
            let class = self.class(bytes, alignment);
            let bytes = class.map_or(bytes, |class| bytes_of(class + usize::from(beyond)));
            // SAFETY: handed out, so it is not kept, and nobody uses it when the cache is dropped. An error has nobody to go to.
            let _failed = unsafe { self.return_one(block, (bytes, alignment), &stream) };
        }
        let _failed = self.give_back();
    }
}
