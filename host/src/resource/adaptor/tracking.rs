//! Who allocated what is still there.

use super::super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use crate::size::Bytes;
use parking_lot::Mutex;
use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Remembers where each block was allocated until it is deallocated. Slow if it takes backtraces.
#[derive(Debug)]
pub struct Tracking<U> {
    upstream: U,
    takes_backtraces: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<DevicePointer, Allocation>,
    allocated: u64,
}

/// An allocation that was not deallocated.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The block.
    pub pointer: DevicePointer,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// How many allocations came before it.
    pub number: u64,
    /// Name of the thread that allocated it, if it has one.
    pub thread: Option<String>,
    /// Where that was, if backtraces are taken.
    pub backtrace: Option<Arc<Backtrace>>,
}

impl<U: MemoryResource> Tracking<U> {
    /// Remembers blocks with the place in the code that allocated them.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        Self {
            upstream,
            takes_backtraces: true,
            state: Mutex::default(),
        }
    }

    /// Remembers blocks without a place in the code, which is fast.
    #[must_use]
    pub fn without_backtraces(upstream: U) -> Self {
        Self {
            takes_backtraces: false,
            ..Self::new(upstream)
        }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// What is not deallocated yet, oldest first.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut allocations: Vec<_> = self.state.lock().blocks.values().cloned().collect();
        allocations.sort_by_key(|allocation| allocation.number);
        Report(allocations)
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U: MemoryResource> MemoryResource for Tracking<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let pointer = self.upstream.allocate(bytes, alignment, stream)?;
        let backtrace = self
            .takes_backtraces
            .then(|| Arc::new(Backtrace::force_capture()));
        let thread = std::thread::current().name().map(str::to_owned);
        let mut state = self.state.lock();
        let allocation = Allocation {
            pointer,
            bytes,
            number: state.allocated,
            thread,
            backtrace,
        };
        state.allocated += 1;
        state.blocks.insert(pointer, allocation);
        Ok(pointer)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        // Before the call, as another thread may get the same block right after it.
        let allocation = self.state.lock().blocks.remove(&pointer);
        // SAFETY: as the caller promises.
        let deallocated = unsafe { self.upstream.deallocate(pointer, bytes, alignment, stream) };
        // It is another block if it has not the bytes that this one had.
        let is_another =
            |error: &Error, had: u64| matches!(error, Error::WrongSize { .. }) && had == bytes;
        if let (Err(error), Some(allocation)) = (&deallocated, allocation)
            && !error.is_of_a_block_that_is_gone()
            && !is_another(error, allocation.bytes)
        {
            // If there is one by now, it is another thread's.
            let mut state = self.state.lock();
            state.blocks.entry(pointer).or_insert(allocation);
        }
        deallocated
    }

    fn live(&self) -> Live {
        self.upstream.live()
    }

    fn trim(&self) -> Result<u64> {
        self.upstream.trim()
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.upstream.memory()
    }
}

/// What was not deallocated, for people: a line for each block, and where it was allocated.
#[derive(Clone, Debug)]
pub struct Report(pub Vec<Allocation>);

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.iter().map(|allocation| allocation.bytes).sum();
        let blocks = self.0.len();
        writeln!(formatter, "{blocks} blocks of {} are live", Bytes(bytes))?;
        for allocation in &self.0 {
            let thread = allocation.thread.as_deref().unwrap_or("a thread");
            writeln!(
                formatter,
                "{} at {}, allocation {} by {thread}",
                Bytes(allocation.bytes),
                allocation.pointer,
                allocation.number
            )?;
            if let Some(backtrace) = &allocation.backtrace {
                writeln!(formatter, "{backtrace}")?;
            }
        }
        Ok(())
    }
}
