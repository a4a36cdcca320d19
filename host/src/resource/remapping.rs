//! Any size, in memory that is mapped where it is needed.
//!
//! As in [`Segments`](super::Segments), memory lies in pieces that are split and merged, and the best
//! fitting free one is taken. But if none fits, the free pieces are looked through for whole granules of
//! physical memory: these are taken away from where they are and mapped side by side at other
//! addresses, where together they are one piece. Only when there are not enough of them the device is asked
//! for more, and for no more than is missing. So a request does not fail while enough granules
//! are free, wherever they lie; blocks that are handed out stay where they are, and nothing is
//! copied.
//!
//! Memory that work may still use is not unmapped: the host waits for the streams that freed it.
//!
//! There are 16 times as many addresses as memory, so that there is always a space for what is put together.
//!
//! Invariant: every granule of the range belongs to pieces, and then it is mapped, or to a space.

use super::ledger::Ledger;
use super::pieces::{Fragmentation, Pieces};
use super::request::{check, check_stream, rounded};
use super::spaces::Spaces;
use super::{DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use crate::virtual_memory::{PhysicalMemory, Reservation};
use parking_lot::Mutex;

/// Bytes of a granule, if nothing else is said and the device has none that are larger.
const GRANULE: u64 = 2 << 20;
/// Addresses for each byte of memory.
const SPREAD: u64 = 16;

/// Hands out any size; free memory is mapped to where it is needed.
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
///     memory.deallocate(block, 2 << 20, 256, &stream)?;
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
    range: Reservation,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pieces: Pieces,
    spaces: Spaces,
    /// Granules that were moved so far.
    moved: u64,
}

/// Settings of a [`Remapping`] resource.
#[derive(Clone, Debug)]
pub struct RemappingBuilder {
    device: Device,
    most: Option<u64>,
    granule: u64,
}

impl RemappingBuilder {
    /// The most bytes of the device that it may have, rounded down to granules: all if nothing is
    /// said.
    #[must_use]
    pub fn most(mut self, bytes: u64) -> Self {
        self.most = Some(bytes);
        self
    }

    /// Bytes of the pieces that physical memory is moved in: 2 MiB if nothing is said. A power of two,
    /// and at least as much as the device's [granule](Device::granule), or it is made so.
    #[must_use]
    pub fn granule(mut self, bytes: u64) -> Self {
        self.granule = bytes;
        self
    }

    /// The resource, which has no memory yet.
    ///
    /// # Errors
    ///
    /// If there are not enough addresses, or a setting makes no sense.
    pub fn build(self) -> Result<Remapping> {
        let granule = self.granule.clamp(1, 1 << 40).next_power_of_two();
        let granule = granule.max(self.device.granule()?);
        let total = self.device.memory_info()?.total.next_multiple_of(granule);
        let most = self.most.unwrap_or(total);
        let most = most - most % granule;
        if most == 0 || most > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("{most} bytes at most in granules of {granule}"),
                advice: "use at least one granule, and at most 128 TiB",
            });
        }
        let addresses = most.min(total).saturating_mul(SPREAD);
        let range = self.device.reserve(addresses, granule)?;
        let mut state = State::default();
        state.spaces.put(range.address(), range.bytes());
        Ok(Remapping {
            device: self.device,
            ledger: Ledger::new("a remapping allocator"),
            granule,
            most,
            range,
            state: Mutex::new(state),
        })
    }
}

/// Where new granules go.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// Bytes of new granules.
    bytes: u64,
    /// Free bytes behind the block that do not make a granule.
    left: u64,
    begin: u64,
    /// Free pieces that end and begin there. They are a part of what is wanted, so they must stay.
    beside: [Option<u64>; 2],
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
        RemappingBuilder {
            device: device.clone(),
            most: None,
            granule: GRANULE,
        }
    }

    /// Bytes of the pieces that physical memory is moved in.
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

    /// Granules that were taken away from where they were and mapped elsewhere.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.state.lock().moved
    }

    /// How often a stream had to wait for another, to get what that had freed.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.state.lock().pieces.waits()
    }

    fn out_of_memory(&self, asked: u64) -> Error {
        Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked,
        }
    }

    /// Where a block needs the fewest new granules: what is left of pieces whose granules went elsewhere is
    /// beside the space that these left, and is used up this way.
    fn site(&self, state: &State, size: u64, alignment: u64) -> Option<Site> {
        let sites = state.spaces.iter().filter_map(|(begin, room)| {
            let before = state.pieces.free_before(begin);
            let block = before.unwrap_or(begin).next_multiple_of(alignment);
            let end = block.max(begin.saturating_sub(size)) + size;
            let bytes = end.saturating_sub(begin).next_multiple_of(self.granule);
            if bytes < room {
                let left = begin + bytes - end;
                let beside = [before, None];
                return Some(Site {
                    bytes,
                    left,
                    begin,
                    beside,
                });
            }
            // All of the space, and what is free behind it.
            let after = begin + room;
            let last = after + state.pieces.free_at(after).unwrap_or(0);
            let beside = [before, Some(after)];
            (end <= last).then(|| Site {
                bytes: room,
                left: last - end,
                begin,
                beside,
            })
        });
        sites.min_by_key(|site| (site.bytes, site.left, site.begin))
    }

    /// Makes a piece that is large enough, of free granules and new ones; without new ones unless it
    /// may grow. Whether it did.
    fn stitch(&self, state: &mut State, request: (u64, u64), may_grow: bool) -> Result<bool> {
        let (size, alignment) = request;
        let site = self
            .site(state, size, alignment)
            .ok_or_else(|| self.out_of_memory(size))?;
        let count = site.bytes / self.granule;
        let free = state.pieces.whole_granules(self.granule, site.beside);
        let fresh = count.saturating_sub(free);
        if fresh > 0 && !may_grow {
            return Ok(false);
        }
        if fresh > (self.most - state.pieces.reserved()) / self.granule {
            return Err(self.out_of_memory(size));
        }
        let mut memory = (0..fresh)
            .map(|_| self.device.create_memory(self.granule))
            .collect::<crate::Result<Vec<_>>>()?;
        self.collect(state, count - fresh, site.beside, &mut memory)?;
        self.range
            .map_all(site.begin - self.range.address(), memory)?;
        state.spaces.take(site.begin, site.bytes);
        state.pieces.add(site.begin, site.bytes);
        Ok(true)
    }

    /// Takes so many whole granules out of the free pieces but two. What was taken by then is given to
    /// the device if that fails.
    fn collect(
        &self,
        state: &mut State,
        count: u64,
        except: [Option<u64>; 2],
        memory: &mut Vec<PhysicalMemory>,
    ) -> Result<()> {
        for (begin, bytes) in state.pieces.take_granules(self.granule, count, except)? {
            for address in (begin..begin + bytes).step_by(self.step()) {
                // SAFETY: the addresses belong to no piece any more, and all work that could use
                // them is done.
                let taken = unsafe { self.range.unmap(address - self.range.address())? };
                memory.extend(taken);
                state.spaces.put(address, self.granule);
                state.moved += 1;
            }
        }
        Ok(())
    }

    fn step(&self) -> usize {
        usize::try_from(self.granule).unwrap_or(usize::MAX)
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
        let mut taken = state.pieces.take(size, alignment, stream)?;
        if taken.is_none() {
            if !self.stitch(&mut state, (size, alignment), may_grow)? {
                return Ok(None);
            }
            taken = state.pieces.take(size, alignment, stream)?;
        }
        let pointer = taken.and_then(DevicePointer::new);
        let pointer = pointer.ok_or_else(|| self.out_of_memory(bytes))?;
        self.ledger.insert(pointer, bytes, alignment)?;
        Ok(Some(pointer))
    }
}

impl MemoryResource for Remapping {
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

    fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let mut state = self.state.lock();
        self.ledger.remove(pointer, bytes, alignment)?;
        state.pieces.put(pointer.address(), stream);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Gives whole granules back of which nothing is handed out.
    fn trim(&self) -> Result<u64> {
        let mut state = self.state.lock();
        let mut memory = Vec::new();
        let free = state.pieces.whole_granules(self.granule, [None; 2]);
        self.collect(&mut state, free, [None; 2], &mut memory)?;
        state.moved -= memory.len() as u64;
        Ok(memory.iter().map(PhysicalMemory::bytes).sum())
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
        let _failed = self.device.synchronize();
    }
}
