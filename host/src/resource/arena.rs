//! One allocation after the other, freed in bulk.
//!
//! An arena reserves addresses for the most it may hold, and maps memory as it grows. A block is put
//! behind the last one; blocks that are freed at the end of the arena give their room back, others
//! when all behind them are freed. A [`Scope`] frees all that was allocated in it when it is dropped.
//!
//! Invariant: the blocks of the stack lie one behind the other from the first address on, and the
//! last of them is not freed.

use super::ledger::Ledger;
use super::order::{Mask, Order};
use super::request::{check, check_stream, rounded};
use super::{DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Result};
use crate::device::{Device, Stream};
use crate::virtual_memory::Reservation;
use parking_lot::Mutex;

/// Memory is mapped in steps of at least this many bytes.
const STEP: u64 = 8 << 20;

/// Hands out one block after the other, from memory that is mapped as it grows.
///
/// ```
/// use scatterheap_host::resource::{Arena, MemoryResource};
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::default_of(&device);
/// let mut arena = Arena::new(&device, 1 << 30)?;
/// let weights = arena.allocate(1 << 20, 256, &stream)?;
/// {
///     let step = arena.scope();
///     step.allocate(5 << 20, 256, &stream)?;
///     step.allocate(3 << 20, 256, &stream)?;
/// } // Both are free again.
/// assert_eq!(arena.used(), 1 << 20);
/// // SAFETY: nothing uses it.
/// unsafe { arena.deallocate(weights, 1 << 20, 256, &stream) }?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct Arena {
    device: Device,
    ledger: Ledger,
    range: Reservation,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Block {
    /// First byte, and the byte behind the last.
    begin: u64,
    end: u64,
    /// As they were asked for.
    bytes: u64,
    alignment: u64,
    /// Where it was allocated.
    stream: Stream,
    /// Later blocks have larger numbers.
    number: u64,
    is_live: bool,
}

#[derive(Debug, Default)]
struct State {
    stack: Vec<Block>,
    /// Offsets and bytes of what is mapped.
    mapped: Vec<(u64, u64)>,
    order: Order,
    /// Blocks that were allocated so far.
    allocated: u64,
    /// Behind this, no work has touched anything.
    touched: u64,
    /// Whose work must be done before what lies between the last block and `touched` is used.
    behind: Mask,
}

impl State {
    fn used(&self) -> u64 {
        self.stack.last().map_or(0, |block| block.end)
    }

    fn committed(&self) -> u64 {
        self.mapped
            .last()
            .map_or(0, |(offset, bytes)| offset + bytes)
    }
}

impl Arena {
    /// Reserves addresses for `most` bytes, and maps no memory yet.
    ///
    /// # Errors
    ///
    /// If there are no such addresses.
    pub fn new(device: &Device, most: u64) -> Result<Self> {
        if most == 0 || most > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("{most} bytes for an arena"),
                advice: "ask for at least one, and at most 128 TiB",
            });
        }
        Ok(Self {
            device: device.clone(),
            ledger: Ledger::new("an arena"),
            range: device.reserve(most, 2 << 20)?,
            state: Mutex::default(),
        })
    }

    /// Bytes from the first to the last block.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Bytes that have memory.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.state.lock().committed()
    }

    /// Bytes that there are addresses for.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.range.bytes()
    }

    /// Begins a scope: what is allocated in it is freed when it is dropped. Meanwhile the arena
    /// cannot be used but through it.
    pub fn scope(&mut self) -> Scope<'_> {
        let first = self.state.get_mut().allocated;
        Scope { arena: self, first }
    }

    /// Frees everything, and keeps the memory.
    pub fn reset(&mut self) {
        self.reset_after(&[]);
    }

    /// The same, where blocks were also used on these streams: who gets the memory next waits for
    /// their work, too.
    pub fn reset_after(&mut self, streams: &[Stream]) {
        let state = self.state.get_mut();
        for stream in streams {
            let mask = state.order.mask(stream);
            state.behind = state.behind.and(mask);
        }
        self.free_from(0);
    }

    /// Frees the blocks from this number on, after the work of the streams that they were allocated
    /// on.
    fn free_from(&self, number: u64) {
        let mut state = self.state.lock();
        let depth = state.stack.partition_point(|block| block.number < number);
        let freed = state.stack.split_off(depth);
        for block in freed.iter().filter(|block| block.is_live) {
            let mask = state.order.mask(&block.stream);
            state.behind = state.behind.and(mask);
            if let Some(pointer) = DevicePointer::new(self.range.address() + block.begin) {
                // It was live, so it can be removed.
                let _removed = self.ledger.remove(pointer, block.bytes, block.alignment);
            }
        }
        pop_freed(&mut state.stack);
    }

    /// Maps memory up to `end`, in large steps if there is so much.
    fn commit(&self, state: &mut State, end: u64) -> Result<()> {
        let committed = state.committed();
        if end <= committed {
            return Ok(());
        }
        let granule = self.device.granule()?;
        let least = (end - committed).next_multiple_of(granule);
        let room = self.range.bytes() - committed;
        let ample = least.max(STEP.next_multiple_of(granule)).min(room);
        let memory = match self.device.create_memory(ample) {
            Err(crate::Error::OutOfMemory { .. }) => self.device.create_memory(least),
            created => created,
        }?;
        let bytes = memory.bytes();
        self.range.map(committed, memory)?;
        state.mapped.push((committed, bytes));
        Ok(())
    }
}

fn pop_freed(stack: &mut Vec<Block>) {
    while stack.pop_if(|block| !block.is_live).is_some() {}
}

// SAFETY: a block is within what is mapped, and nothing is put there before it is back. What frees blocks otherwise needs
// the arena alone.
unsafe impl MemoryResource for Arena {
    fn device(&self) -> &Device {
        &self.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let resource = self.ledger.resource();
        let alignment = check(resource, bytes, alignment)?;
        check_stream(&self.device, stream)?;
        if bytes > self.range.bytes() {
            return Err(Error::TooLarge {
                resource,
                asked: bytes,
                most: self.range.bytes(),
            });
        }
        let mut state = self.state.lock();
        let first = self.range.address();
        let begin = (first + state.used()).next_multiple_of(alignment) - first;
        let end = begin + rounded(bytes);
        let out_of_memory = Error::OutOfMemory {
            resource,
            asked: bytes,
        };
        if end > self.range.bytes() {
            return Err(out_of_memory);
        }
        self.commit(&mut state, end)?;
        if begin < state.touched {
            let behind = state.behind;
            state.order.join(behind, stream)?;
        }
        let pointer = DevicePointer::new(first + begin).ok_or(out_of_memory)?;
        self.ledger.insert(pointer, bytes, alignment)?;
        state.touched = state.touched.max(end);
        state.allocated += 1;
        let number = state.allocated;
        state.stack.push(Block {
            begin,
            end,
            bytes,
            alignment,
            stream: stream.clone(),
            number,
            is_live: true,
        });
        Ok(pointer)
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
        self.ledger.remove(pointer, bytes, alignment)?;
        let own = state.order.mask(stream);
        state.behind = state.behind.and(own);
        let begin = pointer.address() - self.range.address();
        if let Ok(index) = state
            .stack
            .binary_search_by_key(&begin, |block| block.begin)
        {
            state.stack[index].is_live = false;
        }
        pop_freed(&mut state.stack);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Unmaps the memory behind the last block.
    fn trim(&self) -> Result<u64> {
        let mut state = self.state.lock();
        state.order.settle()?;
        let used = state.used();
        state.behind = Mask::NONE;
        state.touched = used;
        let mut bytes = 0;
        while let Some((offset, _)) = state.mapped.last().filter(|(offset, _)| *offset >= used) {
            // SAFETY: no block is there, and all work on those that were is done.
            let memory = unsafe { self.range.unmap(*offset)? };
            // Not before: what cannot be unmapped is there still.
            state.mapped.pop();
            bytes += memory.map_or(0, |memory| memory.bytes());
        }
        Ok(bytes)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Work may still use what is unmapped now. If the device failed there is nothing to wait for.
        self.device.settle();
    }
}

/// A part of an arena's life. What is allocated in it is freed when it is dropped; scopes can be
/// nested.
///
/// What its blocks were used for must be enqueued by then on the streams that they were allocated or
/// deallocated on, or on streams that those wait for.
#[derive(Debug)]
pub struct Scope<'arena> {
    arena: &'arena Arena,
    /// The number of blocks that were allocated before.
    first: u64,
}

impl Scope<'_> {
    /// Begins a scope within this one.
    pub fn scope(&mut self) -> Scope<'_> {
        Scope {
            arena: self.arena,
            first: self.arena.state.lock().allocated,
        }
    }
}

// SAFETY: the blocks are those of the arena, and are there until the scope is dropped.
unsafe impl MemoryResource for Scope<'_> {
    fn device(&self) -> &Device {
        &self.arena.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        self.arena.allocate(bytes, alignment, stream)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.arena.deallocate(pointer, bytes, alignment, stream) }
    }

    fn live(&self) -> Live {
        self.arena.live()
    }

    fn trim(&self) -> Result<u64> {
        self.arena.trim()
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.arena.free_from(self.first + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_after_a_reset_waits_for_all_streams_that_used_a_block() {
        let device = Device::cpu();
        let [own, other, next] = [(); 3].map(|()| Stream::new(&device).expect("a stream"));
        let mut arena = Arena::new(&device, 1 << 20).expect("addresses");
        for (others, waits) in [(&[][..], 1), (std::slice::from_ref(&other), 1 + 2)] {
            arena.allocate(1000, 256, &own).expect("memory");
            arena.reset_after(others);
            arena.allocate(1000, 256, &next).expect("memory");
            assert_eq!(arena.state.get_mut().order.waits(), waits);
            arena.reset();
            arena.trim().expect("trimmed");
        }
    }
}
