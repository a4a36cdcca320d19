//! An arena that many may use and one may empty.

use parking_lot::RwLock;
use scatterheap_host::resource::{Arena, DevicePointer, Live, MemoryResource, Result};
use scatterheap_host::{Device, Stream};

/// An [`Arena`] behind a lock, which is held alone while it is emptied.
#[derive(Debug)]
pub struct SharedArena {
    device: Device,
    arena: RwLock<Arena>,
}

impl SharedArena {
    /// An arena of at most so many bytes.
    ///
    /// # Errors
    ///
    /// As for [`Arena::new`].
    pub fn new(device: &Device, most: u64) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            arena: RwLock::new(Arena::new(device, most)?),
        })
    }

    /// Takes all blocks back at once, after the work on these streams, too.
    ///
    /// # Safety
    ///
    /// Nobody owns or uses a block any more, but for work on these streams and those that blocks were allocated on.
    pub unsafe fn reset_after(&self, streams: &[Stream]) {
        self.arena.write().reset_after(streams);
    }

    /// Bytes that are mapped, and those behind which all is free.
    pub fn committed_and_used(&self) -> (u64, u64) {
        let arena = self.arena.read();
        (arena.committed(), arena.used())
    }
}

// SAFETY: the blocks are those of the arena, which takes them back together only where the caller of `reset_after` says that
// nobody uses them.
unsafe impl MemoryResource for SharedArena {
    fn device(&self) -> &Device {
        &self.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        self.arena.read().allocate(bytes, alignment, stream)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let arena = self.arena.read();
        // SAFETY: as the caller promises.
        unsafe { arena.deallocate(pointer, bytes, alignment, stream) }
    }

    fn live(&self) -> Live {
        self.arena.read().live()
    }

    fn trim(&self) -> Result<u64> {
        self.arena.read().trim()
    }
}
