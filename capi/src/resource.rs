//! What is behind a handle: a memory resource, the streams it was used with, and what can be asked about it.

use crate::composition::Composition;
use crate::error::{Error, Result};
use crate::exit;
use crate::figures::{Figures, Place};
use crate::layers::Layers;
use crate::streams::Streams;
use parking_lot::{Mutex, RwLock};
use scatterheap_host::resource::adaptor::Report;
use scatterheap_host::resource::{DevicePointer, MemoryResource};
use scatterheap_host::size::Bytes;
use scatterheap_host::{Device, KeptContext, Selector, Stream};
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A memory resource for callers in other languages. Streams are handles of CUDA (0 is the default stream), which
/// must not be destroyed before the resource is dropped: it may record events on them until then. On the CPU they only tell
/// streams apart.
pub struct Resource {
    device: Device,
    composition: Composition,
    layers: Layers,
    used_by_others: UsedByOthers,
    /// How often it was reset. Held alone meanwhile.
    generation: RwLock<u64>,
    /// Dropped last, as the memory above may still wait for them.
    streams: Streams,
}

/// Streams, other than its own, that a block was used on, until it is deallocated or its arena reset.
#[derive(Default)]
struct UsedByOthers {
    blocks: Mutex<HashMap<DevicePointer, Vec<Stream>>>,
    /// How many blocks there are, so that the usual deallocation takes no lock.
    count: AtomicUsize,
}

impl UsedByOthers {
    fn insert(&self, pointer: DevicePointer, stream: &Stream) {
        let mut blocks = self.blocks.lock();
        let streams = blocks.entry(pointer).or_default();
        if !streams.contains(stream) {
            streams.push(stream.clone());
        }
        // Relaxed: whoever deallocates the block was told of it by the thread that is here now, after this.
        self.count.store(blocks.len(), Ordering::Relaxed);
    }

    fn remove(&self, pointer: DevicePointer) -> Vec<Stream> {
        // Relaxed: as above.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut blocks = self.blocks.lock();
        let streams = blocks.remove(&pointer).unwrap_or_default();
        self.count.store(blocks.len(), Ordering::Relaxed);
        streams
    }

    /// Those of all blocks.
    fn drain(&self) -> Vec<Stream> {
        let mut blocks = self.blocks.lock();
        let streams = blocks.drain().flat_map(|(_, streams)| streams).collect();
        // Relaxed: as above.
        self.count.store(0, Ordering::Relaxed);
        streams
    }
}

impl Resource {
    /// A resource on the device that a selector such as `auto`, `cpu` or `cuda:0` names.
    ///
    /// # Errors
    ///
    /// If there is no such device, or not enough memory, or one of the texts means nothing.
    pub fn new(selector: &str, composition: &str) -> Result<Arc<Self>> {
        let _context = KeptContext::of_this_thread();
        let selector: Selector = selector.parse()?;
        Self::on(&Device::open(&selector, &[])?, composition.parse()?)
    }

    /// A resource on a device.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or a file cannot be made.
    pub fn on(device: &Device, composition: Composition) -> Result<Arc<Self>> {
        let _context = KeptContext::of_this_thread();
        let layers = Layers::build(&composition, device)?;
        let resource = Arc::new(Self {
            device: device.clone(),
            composition,
            layers,
            used_by_others: UsedByOthers::default(),
            generation: RwLock::default(),
            streams: Streams::default(),
        });
        if resource.layers.has_log() {
            exit::flush_at_exit(&resource);
        }
        Ok(resource)
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What it is made of.
    pub fn composition(&self) -> &Composition {
        &self.composition
    }

    /// Allocates a block for work on a stream.
    ///
    /// # Errors
    ///
    /// As for [`MemoryResource::allocate`], and for the per-thread default stream.
    ///
    /// # Safety
    ///
    /// On a GPU the stream must be 0 or 1, which is the default stream, 2, which is the per-thread one and refused, or the handle of a
    /// stream of the device's primary context that is not destroyed before the resource is dropped.
    #[inline]
    pub unsafe fn allocate(
        &self,
        bytes: u64,
        alignment: u64,
        stream: u64,
    ) -> Result<DevicePointer> {
        let _context = KeptContext::of_this_thread();
        let allocate =
            |stream: &Stream| Ok(self.layers.memory.allocate(bytes, alignment, stream)?);
        // SAFETY: as the caller promises; the layers are dropped with the resource.
        unsafe { self.streams.with(&self.device, stream, allocate) }
    }

    /// Takes a block back, after the work on a stream, and on those that were recorded for it.
    ///
    /// # Errors
    ///
    /// As for [`MemoryResource::deallocate`], and for the per-thread default stream.
    ///
    /// # Safety
    ///
    /// As for [`MemoryResource::deallocate`]; the streams that were recorded are waited for, too. The stream must be as for
    /// [`allocate`](Self::allocate).
    #[inline]
    pub unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: u64,
    ) -> Result<()> {
        let _context = KeptContext::of_this_thread();
        let deallocate = |stream: &Stream| {
            // Before the call, as another thread may get the same address right after it.
            let others = self.used_by_others.remove(pointer);
            let outcome = wait_for(&others, stream).and_then(|()| {
                let memory = &self.layers.memory;
                // SAFETY: as the caller promises.
                Ok(unsafe { memory.deallocate(pointer, bytes, alignment, stream) }?)
            });
            let is_there = match &outcome {
                Ok(()) => false,
                Err(Error::Resource(error)) => !error.is_of_a_block_that_is_gone(),
                Err(_) => true,
            };
            if is_there {
                for other in &others {
                    self.used_by_others.insert(pointer, other);
                }
            }
            outcome
        };
        // SAFETY: as the caller promises; the layers are dropped with the resource.
        unsafe { self.streams.with(&self.device, stream, deallocate) }
    }

    /// How often it was reset: whoever holds a block for long notes it before the allocation, as a block of another
    /// generation is gone, and its address may be another one's.
    pub fn generation(&self) -> u64 {
        *self.generation.read()
    }

    /// Takes a block of a generation back as [`deallocate`](Self::deallocate) does, unless it is gone.
    ///
    /// # Errors
    ///
    /// If there was a reset since, and as for the other.
    ///
    /// # Safety
    ///
    /// As for the other, unless there was a reset since.
    pub unsafe fn deallocate_of(
        &self,
        generation: u64,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: u64,
    ) -> Result<()> {
        // Held until it is done, so that no reset comes between.
        let current = self.generation.read();
        if *current != generation {
            return Err(Error::Reset);
        }
        // SAFETY: as the caller promises.
        unsafe { self.deallocate(pointer, bytes, alignment, stream) }
    }

    /// Notes that a block is also used on another stream than that on which it will be deallocated, which then
    /// waits for the other one. Whether the block is live is not looked at: not all resources can tell.
    ///
    /// # Errors
    ///
    /// For the per-thread default stream.
    ///
    /// # Safety
    ///
    /// The stream must be as for [`allocate`](Self::allocate).
    pub unsafe fn record_stream(&self, pointer: DevicePointer, stream: u64) -> Result<()> {
        let record = |stream: &Stream| {
            self.used_by_others.insert(pointer, stream);
            Ok(())
        };
        // SAFETY: as the caller promises; what is noted here is dropped with the resource.
        unsafe { self.streams.with(&self.device, stream, record) }
    }

    /// Gives what is kept for later back to the device; its bytes.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn trim(&self) -> Result<u64> {
        let _context = KeptContext::of_this_thread();
        Ok(self.layers.memory.trim()?)
    }

    /// Takes all blocks of an arena back at once, after the work on their streams, and on those that were recorded for
    /// them.
    ///
    /// # Errors
    ///
    /// If it is something else.
    ///
    /// # Safety
    ///
    /// Nobody owns or uses a block any more, but for work on the streams that it was allocated on or that were recorded.
    pub unsafe fn reset(&self) -> Result<()> {
        let arena = self.layers.lone_arena();
        let arena = arena.ok_or_else(|| Error::NotAnArena(self.composition.to_string()))?;
        let _context = KeptContext::of_this_thread();
        let mut generation = self.generation.write();
        // SAFETY: as the caller promises.
        unsafe { arena.reset_after(&self.used_by_others.drain()) };
        *generation += 1;
        Ok(())
    }

    /// Writes what traces have in memory.
    ///
    /// # Errors
    ///
    /// If one cannot be written.
    pub fn flush(&self) -> Result<()> {
        self.layers.flush()
    }

    /// What is counted.
    pub fn figures(&self) -> Figures {
        self.layers.figures()
    }

    /// How the memory lies, by address; empty where no part has segments.
    pub fn places(&self) -> Vec<Place> {
        self.layers.places()
    }

    /// What is not deallocated yet, if it is tracked.
    pub fn tracked(&self) -> Option<Report> {
        self.layers.tracked()
    }

    /// Figures, and blocks if they are tracked, for people.
    pub fn report(&self) -> String {
        let mut text = format!("{} on {}\n", self.composition, self.device);
        for (name, value) in self.figures().known() {
            let _ = if name.ends_with("bytes") {
                writeln!(text, "{name}: {}", Bytes(value))
            } else {
                writeln!(text, "{name}: {value}")
            };
        }
        if let Some(tracked) = self.tracked() {
            let _ = write!(text, "{tracked}");
        }
        text
    }
}

/// Lets a stream wait for what is enqueued on others by now.
fn wait_for(others: &[Stream], stream: &Stream) -> Result<()> {
    for other in others.iter().filter(|other| *other != stream) {
        stream.wait(&other.record()?)?;
    }
    Ok(())
}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Resource({} on {})",
            self.composition, self.device
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::UNKNOWN;

    fn resource(composition: &str) -> Arc<Resource> {
        Resource::new("cpu", composition).expect("a resource")
    }

    /// Allocates a block for a stream, which is any number on the CPU.
    fn allocate(resource: &Resource, bytes: u64, alignment: u64, stream: u64) -> DevicePointer {
        // SAFETY: the tests are on the CPU.
        unsafe { resource.allocate(bytes, alignment, stream) }.expect("memory")
    }

    /// Says that a block is used on a stream, which is any number on the CPU.
    fn record(resource: &Resource, block: DevicePointer, stream: u64) {
        // SAFETY: the tests are on the CPU.
        unsafe { resource.record_stream(block, stream) }.expect("a stream");
    }

    /// Gives a block back that nothing uses, or what is no such block, which is refused.
    fn give_back(
        resource: &Resource,
        block: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: u64,
    ) -> Result<()> {
        // SAFETY: the tests use no block that they give back, and own those that they give back wrongly.
        unsafe { resource.deallocate(block, bytes, alignment, stream) }
    }

    /// Empties an arena whose blocks nothing uses.
    fn reset(arena: &Resource) -> Result<()> {
        // SAFETY: the tests use none of its blocks.
        unsafe { arena.reset() }
    }

    #[test]
    fn each_composition_hands_out_memory_and_takes_it_back() {
        for composition in [
            "default",
            "remapping",
            "caching,remapping",
            "caching",
            "segments",
            "device",
            "slab",
            "buddy=1MiB",
            "pool=4KiBx4",
            "arena=1MiB",
            "statistics,tracking=backtraces,limit=1MiB,caching",
            "caching,slab",
            "caching,segments,limit=128MiB,device",
        ] {
            let resource = resource(composition);
            let block = allocate(&resource, 1000, 256, 0);
            let figures = resource.figures();
            assert_eq!((figures.live_blocks, figures.live_bytes), (1, 1000));
            assert!(give_back(&resource, block, 999, 256, 0).is_err());
            give_back(&resource, block, 1000, 256, 0).expect("handed out");
            assert!(give_back(&resource, block, 1000, 256, 0).is_err());
            assert_eq!(resource.figures().live_blocks, 0, "{composition}");
        }
    }

    #[test]
    fn figures_and_places_say_what_happened() {
        let resource = resource("statistics,tracking,caching");
        let block = allocate(&resource, 1 << 20, 256, 0);
        let figures = resource.figures();
        assert_eq!((figures.allocations, figures.peak_bytes), (1, 1 << 20));
        let (reserved, free) = (figures.reserved_bytes, figures.free_bytes);
        assert_eq!(free, reserved - (1 << 20));
        let places = resource.places();
        assert_eq!(places.len(), 2);
        assert_eq!((places[0].address, places[0].is_free), (block.address(), 0));
        assert_eq!((places[1].bytes, places[1].is_free), (free, 1));
        let report = resource.report();
        assert!(report.contains("peak_bytes: 1 MiB\n"), "{report}");
        assert!(report.contains("1 blocks of 1 MiB are live"), "{report}");
        give_back(&resource, block, 1 << 20, 256, 0).expect("handed out");
        assert_eq!(resource.figures().kept_bytes, 1 << 20);
        assert_eq!(resource.trim().expect("trimmed"), reserved);
        assert_eq!(resource.places(), []);
    }

    #[test]
    fn waits_of_all_layers_are_added_up() {
        // Too large for a cache, so that what is below takes it back.
        const LARGE: u64 = (1 << 30) + 256;
        for composition in [
            "segments",
            "caching",
            "caching,segments",
            "caching,remapping",
            "caching,segments,limit=2GiB,device",
        ] {
            let resource = resource(composition);
            let block = allocate(&resource, LARGE, 256, 0x500);
            give_back(&resource, block, LARGE, 256, 0x500).expect("handed out");
            assert_eq!(resource.figures().waits, 0, "{composition}");
            allocate(&resource, LARGE, 256, 0x600);
            assert_eq!(resource.figures().waits, 1, "{composition}");
        }
        assert_eq!(resource("slab").figures().waits, UNKNOWN);
    }

    #[test]
    fn free_memory_of_all_layers_is_added_up() {
        let resource = resource("caching,segments,buddy=256MiB");
        let block = allocate(&resource, 1 << 20, 256, 0);
        let figures = resource.figures();
        assert_eq!(figures.reserved_bytes, 256 << 20);
        assert_eq!(figures.free_bytes, 255 << 20);
        assert_eq!(figures.largest_free_bytes, 128 << 20);
        give_back(&resource, block, 1 << 20, 256, 0).expect("handed out");
        let figures = resource.figures();
        assert_eq!(
            (figures.kept_bytes, figures.free_bytes),
            (1 << 20, 255 << 20)
        );
    }

    #[test]
    fn only_a_lone_arena_is_reset() {
        let arena = resource("arena=1MiB");
        let first = allocate(&arena, 1000, 256, 0);
        allocate(&arena, 1000, 256, 0);
        reset(&arena).expect("an arena");
        assert_eq!(arena.figures().live_blocks, 0);
        assert_eq!(allocate(&arena, 1000, 256, 0), first);
        for other in ["caching", "statistics,arena=1MiB"] {
            let error = reset(&resource(other)).expect_err(other);
            assert!(error.to_string().contains(other), "{error}");
        }
    }

    #[test]
    fn a_block_of_another_generation_is_not_taken_back() {
        let arena = resource("arena=1MiB");
        let generation = arena.generation();
        let block = allocate(&arena, 1000, 256, 0);
        reset(&arena).expect("an arena");
        assert_eq!(allocate(&arena, 1000, 256, 0), block);
        // SAFETY: nothing uses it, here and below.
        let gone = unsafe { arena.deallocate_of(generation, block, 1000, 256, 0) };
        assert!(matches!(gone, Err(Error::Reset)), "{gone:?}");
        assert_eq!(arena.figures().live_blocks, 1);
        // SAFETY: as above.
        let freed = unsafe { arena.deallocate_of(arena.generation(), block, 1000, 256, 0) };
        freed.expect("handed out");
        assert_eq!(arena.figures().live_blocks, 0);
    }

    #[test]
    fn recorded_streams_are_forgotten_with_the_block() {
        let resource = resource("caching");
        let block = allocate(&resource, 1000, 256, 0);
        record(&resource, block, 0x500);
        record(&resource, block, 0x500);
        record(&resource, block, 0x600);
        assert_eq!(resource.used_by_others.blocks.lock()[&block].len(), 2);
        give_back(&resource, block, 1000, 256, 0).expect("handed out");
        assert_eq!(resource.used_by_others.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn recorded_streams_outlive_a_refused_deallocation() {
        let resource = resource("caching");
        let block = allocate(&resource, 1000, 256, 0);
        record(&resource, block, 0x500);
        give_back(&resource, block, 999, 256, 0).expect_err("another size");
        assert_eq!(resource.used_by_others.blocks.lock()[&block].len(), 1);
        assert_eq!(resource.used_by_others.count.load(Ordering::Relaxed), 1);
        give_back(&resource, block, 1000, 256, 0).expect("handed out");
        assert_eq!(resource.used_by_others.count.load(Ordering::Relaxed), 0);
        // Of what is gone nothing stays for whoever gets the address next.
        record(&resource, block, 0x500);
        give_back(&resource, block, 1000, 256, 0).expect_err("a second free");
        assert_eq!(resource.used_by_others.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn recorded_streams_are_forgotten_by_a_reset() {
        let arena = resource("arena=1MiB");
        let block = allocate(&arena, 1000, 256, 0);
        record(&arena, block, 0x500);
        reset(&arena).expect("an arena");
        assert!(arena.used_by_others.blocks.lock().is_empty());
        assert_eq!(arena.used_by_others.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_trace_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("trace.csv");
        let resource = resource(&format!("trace={},caching", file.display()));
        let block = allocate(&resource, 1000, 256, 0);
        give_back(&resource, block, 1000, 256, 0).expect("handed out");
        resource.flush().expect("written");
        let lines = std::fs::read_to_string(&file).expect("a file");
        let expected = "thread,operation,id,size,alignment\n0,malloc,0,1000,256\n0,free,0,,\n";
        assert_eq!(lines, expected);
        let missing = format!("trace={}/no/file,caching", directory.path().display());
        let error = Resource::new("cpu", &missing).expect_err("no such directory");
        assert!(error.to_string().contains("name another file"), "{error}");
    }
}
