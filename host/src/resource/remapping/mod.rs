//! Any size, also where free memory lies apart.
//!
//! Physical memory has its *home*: a range of addresses at which it is mapped from when it is got until it
//! is given back. As in [`Segments`](super::Segments), it lies there in pieces that are split and merged,
//! and the best fitting free one is taken. But if none fits, a block is *stitched*: free parts that lie
//! apart are mapped a second time, side by side at addresses of the block's own (`stitching.rs`).
//! When it is freed its parts are free again where they have their home. So a request does not fail while
//! enough is free in total; blocks that are handed out stay where they are, and nothing is copied.
//!
//! The device is asked for more if that makes all there is by a small share more than the most that was ever
//! handed out, or by little for the device: that is cheaper than stitching. Else parts are stitched, as far as there are enough, and only what
//! is missing is asked for. Nothing waits: the stream that gets a block waits for those that freed its
//! parts, on the device. A stitched block's own addresses are taken away later, when its work is done.
//!
//! Invariant: the pieces are what is mapped at home, and the parts of stitched blocks are handed out
//! there.

mod builder;
mod spaces;
mod stitching;

pub use builder::RemappingBuilder;

use super::ledger::Ledger;
use super::pieces::{Fragmentation, Pieces};
use super::request::{check, check_stream, rounded};
use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Event, MemoryInfo, Stream};
use crate::virtual_memory::{PhysicalMemory, Reservation};
use parking_lot::Mutex;
use spaces::Spaces;
use std::collections::{HashMap, VecDeque};
use stitching::{Part, Parts};

/// The share of the most that was handed out that is got beyond it rather than stitched: one over this.
const SPARE_SHARE: u64 = 256;
/// The same for blocks of a granule and more, which are costly to stitch: of the most that was handed out,
/// or of all memory if that is more.
const LARGE_SPARE_SHARE: u64 = 32;
const LITTLE_SHARE: u64 = 64;
/// Blocks below a granule over this are not stitched as long as there is more memory.
const SMALL_SHARE: u64 = 16;
/// Stitched blocks that are freed and whose addresses are not taken away yet.
const MOST_STALE: usize = 64;

/// Hands out any size, put together of parts if need be.
///
/// ```
/// use scatterheap_host::resource::{MemoryResource, Remapping};
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let memory = Remapping::builder(&device).most(16 << 20).build()?;
/// let blocks: Vec<_> = (0..8)
///     .map(|_| memory.allocate(2 << 20, 256, &stream))
///     .collect::<Result<_, _>>()?;
/// for block in blocks.into_iter().step_by(2) {
///     // SAFETY: nothing uses it.
///     unsafe { memory.deallocate(block, 2 << 20, 256, &stream) }?;
/// }
/// // Every other granule is free, and together they are enough.
/// memory.allocate(8 << 20, 256, &stream)?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct Remapping {
    device: Device,
    ledger: Ledger,
    granule: u64,
    most: u64,
    /// Home, and behind it the addresses of stitched blocks.
    range: Reservation,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is at home.
    pieces: Pieces,
    /// Addresses of home that have no memory.
    unused: Spaces,
    /// Addresses for stitched blocks.
    rooms: Spaces,
    /// Stitched blocks by their addresses.
    stitched: HashMap<u64, Stitched>,
    /// Stitched blocks that are freed.
    stale: VecDeque<Stale>,
    /// Bytes that are handed out, and the most that were.
    used: u64,
    peak_used: u64,
    /// Blocks that were stitched so far.
    stitches: u64,
}

#[derive(Debug)]
struct Stitched {
    /// First addresses of its parts at home.
    parts: Vec<u64>,
    room: Room,
}

/// Addresses of a stitched block.
#[derive(Clone, Copy, Debug)]
struct Room {
    begin: u64,
    bytes: u64,
    /// Where the first granule is mapped, at or behind `begin`.
    mapped: u64,
}

#[derive(Debug)]
struct Stale {
    room: Room,
    stream: Stream,
    event: Event,
}

impl Remapping {
    /// All memory of a device if need be.
    ///
    /// # Errors
    ///
    /// If there are not enough addresses.
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// For other settings.
    #[must_use]
    pub fn builder(device: &Device) -> RemappingBuilder {
        RemappingBuilder::new(device)
    }

    /// Bytes of the pieces that physical memory is got and mapped in.
    #[must_use]
    pub fn granule(&self) -> u64 {
        self.granule
    }

    /// The most bytes of the device that it may have.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// How the free memory lies.
    #[must_use]
    pub fn fragmentation(&self) -> Fragmentation {
        self.state.lock().pieces.fragmentation()
    }

    /// Blocks that were put together of parts so far.
    #[must_use]
    pub fn stitches(&self) -> u64 {
        self.state.lock().stitches
    }

    /// How often a stream had to wait for another, to get what that had freed.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.state.lock().pieces.waits()
    }

    /// Gives whole granules back of which nothing is handed out, as long as it has more than `keep` bytes
    /// in all; the bytes that were given back. Waits for work that uses them.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn trim_to(&self, keep: u64) -> Result<u64> {
        let mut state = self.state.lock();
        if state.pieces.reserved() <= keep {
            return Ok(0);
        }
        state.pieces.settle()?;
        self.retire(&mut state, 0)?;
        let mut given = 0;
        for (begin, end) in self.parts(&state).whole() {
            for address in (*begin..*end).step_by(self.step()) {
                if state.pieces.reserved() <= keep {
                    break;
                }
                // SAFETY: free, all work that could use it is done, and it is mapped here only.
                let memory = unsafe { self.range.unmap(address - self.range.address())? };
                given += memory.as_ref().map_or(0, PhysicalMemory::bytes);
                state.pieces.remove(address, address + self.granule);
                state.unused.put(address, self.granule);
            }
        }
        state.peak_used = state.used;
        Ok(given)
    }

    fn out_of_memory(&self, asked: u64) -> Error {
        Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked,
        }
    }

    fn step(&self) -> usize {
        usize::try_from(self.granule).unwrap_or(usize::MAX)
    }

    /// Gets a block that no free piece has room for; nothing if that needs more memory and it may not
    /// grow.
    fn find_room(
        &self,
        state: &mut State,
        (size, alignment): (u64, u64),
        stream: &Stream,
        may_grow: bool,
    ) -> Result<Option<u64>> {
        let most = state.peak_used.max(state.used + size);
        let spare = if size < self.granule {
            most / SPARE_SHARE
        } else {
            (most / LARGE_SPARE_SHARE).max(self.most / LITTLE_SHARE)
        };
        let ample = (most + spare).next_multiple_of(self.granule);
        if let Some((begin, missing)) = self.missing(state, size, alignment)
            && state.pieces.reserved() + missing <= ample
        {
            if !may_grow {
                return Ok(None);
            }
            if self.extend(state, begin, missing).is_ok()
                && let Some(block) = state.pieces.take(size, alignment, stream)?
            {
                return Ok(Some(block));
            }
        }
        if size >= self.granule / SMALL_SHARE
            && let Some(block) = self.stitch(state, (size, alignment), stream)?
        {
            return Ok(Some(block));
        }
        if !may_grow {
            return Ok(None);
        }
        let whole = self.parts(state).whole_bytes();
        let least = size.next_multiple_of(self.granule).saturating_sub(whole);
        let grown = self.grow(state, least.max(self.granule));
        if grown.is_ok()
            && let Some(block) = state.pieces.take(size, alignment, stream)?
        {
            return Ok(Some(block));
        }
        match self.stitch(state, (size, alignment), stream)? {
            Some(block) => Ok(Some(block)),
            None => grown.and(Err(self.out_of_memory(size))),
        }
    }

    /// Where a block lacks the least memory, as it continues what is free before addresses that have none: the
    /// first of these, and bytes of granules.
    fn missing(&self, state: &State, size: u64, alignment: u64) -> Option<(u64, u64)> {
        let missing = |(begin, room)| {
            let before = state.pieces.free_before(begin).unwrap_or(begin);
            let end = before.next_multiple_of(alignment) + size;
            let bytes = end.saturating_sub(begin).next_multiple_of(self.granule);
            (bytes <= room).then_some((begin, bytes))
        };
        let places = state.unused.iter().filter_map(missing);
        places.min_by_key(|(_, bytes)| *bytes)
    }

    /// Gets memory from the device for addresses that have none.
    fn extend(&self, state: &mut State, begin: u64, bytes: u64) -> Result<()> {
        let memory = self.create(state, bytes)?;
        self.map(state, begin, memory)
    }

    /// Gets memory from the device, in one range if there are the addresses.
    fn grow(&self, state: &mut State, bytes: u64) -> Result<()> {
        let mut memory = self.create(state, bytes)?;
        while !memory.is_empty() {
            let left = memory.len() as u64 * self.granule;
            let (begin, room) = state
                .unused
                .iter()
                .find(|(_, room)| *room >= left)
                .or_else(|| state.unused.iter().next())
                .ok_or_else(|| self.out_of_memory(bytes))?;
            let here = usize::try_from(room / self.granule).unwrap_or(usize::MAX);
            let rest = memory.split_off(here.min(memory.len()));
            self.map(state, begin, memory)?;
            memory = rest;
        }
        Ok(())
    }

    /// Gets memory from the device, if there may be so much more.
    fn create(&self, state: &State, bytes: u64) -> Result<Vec<PhysicalMemory>> {
        if bytes > self.most - state.pieces.reserved() {
            return Err(self.out_of_memory(bytes));
        }
        let granules = 0..bytes / self.granule;
        let memory = granules.map(|_| self.device.create_memory(self.granule));
        Ok(memory.collect::<crate::Result<_>>()?)
    }

    /// Gives memory to addresses that have none.
    fn map(&self, state: &mut State, begin: u64, memory: Vec<PhysicalMemory>) -> Result<()> {
        let bytes = memory.len() as u64 * self.granule;
        self.range.map_all(begin - self.range.address(), memory)?;
        state.unused.take(begin, bytes);
        state.pieces.add(begin, bytes);
        Ok(())
    }

    fn parts(&self, state: &State) -> Parts {
        Parts::new(self.granule, state.pieces.free())
    }

    /// Puts a block together of free parts, if there are enough.
    fn stitch(
        &self,
        state: &mut State,
        (size, alignment): (u64, u64),
        stream: &Stream,
    ) -> Result<Option<u64>> {
        let is_aligned = alignment > DEFAULT_ALIGNMENT;
        let Some(parts) = self.parts(state).choose(size, is_aligned) else {
            return Ok(None);
        };
        self.retire(state, MOST_STALE)?;
        let granules: Vec<_> = parts.iter().flat_map(|part| self.granules(*part)).collect();
        let room = self.room(state, granules.len() as u64 * self.granule, alignment)?;
        let mapped = self
            .range
            .alias(room.mapped - self.range.address(), &granules);
        if let Err(error) = mapped {
            state.rooms.put(room.begin, room.bytes);
            return Err(error.into());
        }
        for (begin, end) in &parts {
            state.pieces.hand_out(*begin, *end, stream)?;
        }
        state.stitches += 1;
        let block = room.mapped + parts[0].0 % self.granule;
        let parts = parts.into_iter().map(|(begin, _)| begin).collect();
        state.stitched.insert(block, Stitched { parts, room });
        Ok(Some(block))
    }

    /// Offsets of the granules that a part lies in.
    fn granules(&self, (begin, end): Part) -> impl Iterator<Item = u64> {
        let first = begin - begin % self.granule;
        let home = self.range.address();
        (first..end).step_by(self.step()).map(move |at| at - home)
    }

    /// Addresses for a stitched block. If there are none, those of freed ones are waited for.
    fn room(&self, state: &mut State, bytes: u64, alignment: u64) -> Result<Room> {
        let skipped = if alignment > self.granule {
            alignment
        } else {
            0
        };
        let all = bytes.saturating_add(skipped);
        let mut begin = state.rooms.take_any(all);
        if begin.is_none() {
            self.retire(state, 0)?;
            begin = state.rooms.take_any(all);
        }
        let begin = begin.ok_or_else(|| self.out_of_memory(bytes))?;
        Ok(Room {
            begin,
            bytes: all,
            mapped: begin.next_multiple_of(alignment.max(self.granule)),
        })
    }

    /// Takes the addresses of freed stitched blocks away: those whose work is done, and others, which are
    /// waited for, until no more than `most` are left.
    fn retire(&self, state: &mut State, most: usize) -> Result<()> {
        while let Some(stale) = state.stale.front() {
            if !stale.event.is_over()? {
                if state.stale.len() <= most {
                    break;
                }
                stale.stream.synchronize()?;
            }
            let room = stale.room;
            // SAFETY: the block is freed, and all work that used it is done.
            unsafe { self.range.unalias(room.mapped - self.range.address())? };
            state.rooms.put(room.begin, room.bytes);
            state.stale.pop_front();
        }
        Ok(())
    }

    fn allocate_in(
        &self,
        (bytes, alignment): (u64, u64),
        stream: &Stream,
        may_grow: bool,
    ) -> Result<Option<DevicePointer>> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let size = rounded(bytes);
        if size > self.most || alignment > self.range.bytes() {
            return Err(self.out_of_memory(bytes));
        }
        let mut state = self.state.lock();
        let taken = match state.pieces.take(size, alignment, stream)? {
            None => self.find_room(&mut state, (size, alignment), stream, may_grow)?,
            taken => taken,
        };
        let Some(pointer) = taken.and_then(DevicePointer::new) else {
            return Ok(None);
        };
        self.ledger.insert(pointer, bytes, alignment)?;
        state.used += size;
        state.peak_used = state.peak_used.max(state.used);
        Ok(Some(pointer))
    }
}

// SAFETY: a block is within what is mapped, and its pieces are not free while it is handed out.
unsafe impl MemoryResource for Remapping {
    fn device(&self) -> &Device {
        &self.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        self.allocate_in((bytes, alignment), stream, true)?
            .ok_or_else(|| self.out_of_memory(bytes))
    }

    fn allocate_reserved(
        &self,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<Option<DevicePointer>> {
        self.allocate_in((bytes, alignment), stream, false)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let mut state = self.state.lock();
        let is_stitched = state.stitched.contains_key(&pointer.address());
        // Before anything is changed: it may fail.
        let event = is_stitched.then(|| stream.record()).transpose()?;
        self.ledger.remove(pointer, bytes, alignment)?;
        state.used -= rounded(bytes);
        let (Some(event), Some(Stitched { parts, room })) =
            (event, state.stitched.remove(&pointer.address()))
        else {
            state.pieces.put(pointer.address(), stream);
            return Ok(());
        };
        for part in parts {
            state.pieces.put(part, stream);
        }
        let stream = stream.clone();
        state.stale.push_back(Stale {
            room,
            stream,
            event,
        });
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Gives whole granules back of which nothing is handed out.
    fn trim(&self) -> Result<u64> {
        self.trim_to(0)
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let device = self.device.memory_info()?;
        let reserved = self.state.lock().pieces.reserved();
        Ok(MemoryInfo {
            free: device.free.min(self.most - reserved),
            total: device.total.min(self.most),
        })
    }
}

impl Drop for Remapping {
    fn drop(&mut self) {
        // Work may still use what is unmapped now. If the device failed there is nothing to wait for.
        self.device.settle();
    }
}
