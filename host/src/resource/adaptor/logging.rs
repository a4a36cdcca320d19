//! Writes every call down, as CSV.

use super::super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use parking_lot::{Mutex, MutexGuard};
use scatterheap_trace::csv_format::HEADER;
use std::collections::HashMap;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::thread::ThreadId;
use std::{fmt, process};

/// Writes every allocation and deallocation that succeeds as a line of CSV, in the order in which
/// they happened: the [format](scatterheap_trace::csv_format) of traces, which `scatterheap replay`
/// reads. Calls wait for each other, so what is below must not call it: an
/// [`OnFailure`](super::OnFailure) whose function frees blocks through the log belongs above.
///
/// The log is that of the process that made it. A child that was forked has a copy of what is not written yet, and
/// perhaps of a lock that nobody will ever open: it writes nothing.
pub struct Logging<U, W: Write> {
    upstream: U,
    /// The process that made it.
    process: u32,
    /// Dropping it writes out what is left.
    log: Mutex<ManuallyDrop<Log<W>>>,
}

struct Log<W: Write> {
    lines: csv::Writer<W>,
    /// The number of each block that is handed out.
    blocks: HashMap<DevicePointer, u64>,
    allocated: u64,
    threads: HashMap<ThreadId, usize>,
    /// A deallocation cannot be undone when its line is not written: the next allocation says so.
    failed: Option<csv::Error>,
}

impl<W: Write> Log<W> {
    fn new(writer: W) -> Self {
        let mut lines = csv::Writer::from_writer(writer);
        let failed = lines.write_record(HEADER).err();
        Self {
            lines,
            blocks: HashMap::new(),
            allocated: 0,
            threads: HashMap::new(),
            failed,
        }
    }

    /// Writes a line for the calling thread.
    fn line(&mut self, operation: &str, block: u64, sizes: Option<(u64, u64)>) {
        let next = self.threads.len();
        let thread = *self
            .threads
            .entry(std::thread::current().id())
            .or_insert(next);
        let written = self.lines.serialize((
            thread,
            operation,
            block,
            sizes.map(|sizes| sizes.0),
            sizes.map(|sizes| sizes.1),
        ));
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

impl<U: MemoryResource, W: Write + Send> Logging<U, W> {
    /// Writes to `writer`, the line with the columns' names first.
    #[must_use]
    pub fn new(upstream: U, writer: W) -> Self {
        Self {
            upstream,
            process: process::id(),
            log: Mutex::new(ManuallyDrop::new(Log::new(writer))),
        }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Writes what is still in memory. That also happens when it is dropped, but errors are lost then.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or something before could not be.
    pub fn flush(&self) -> Result<()> {
        let Some(mut log) = self.log() else {
            return Ok(());
        };
        if let Some(error) = log.failed.take() {
            return Err(Error::Log(error.to_string()));
        }
        log.lines
            .flush()
            .map_err(|error| Error::Log(error.to_string()))
    }
}

impl<U, W: Write> Logging<U, W> {
    /// Whether this is the process that made it.
    fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    /// The log, in the process that made it.
    fn log(&self) -> Option<MutexGuard<'_, ManuallyDrop<Log<W>>>> {
        self.is_ours().then(|| self.log.lock())
    }
}

impl<U, W: Write> Drop for Logging<U, W> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: it is used no more.
            unsafe { ManuallyDrop::drop(self.log.get_mut()) };
        }
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U: MemoryResource, W: Write + Send> MemoryResource for Logging<U, W> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let Some(mut log) = self.log() else {
            return self.upstream.allocate(bytes, alignment, stream);
        };
        if let Some(error) = log.failed.take() {
            return Err(Error::Log(error.to_string()));
        }
        let pointer = self.upstream.allocate(bytes, alignment, stream)?;
        let number = log.allocated;
        log.allocated += 1;
        log.blocks.insert(pointer, number);
        log.line("malloc", number, Some((bytes, alignment)));
        Ok(pointer)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let mut log = self.log();
        // SAFETY: as the caller promises.
        unsafe { self.upstream.deallocate(pointer, bytes, alignment, stream) }?;
        if let Some(log) = &mut log
            && let Some(number) = log.blocks.remove(&pointer)
        {
            log.line("free", number, None);
        }
        Ok(())
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

impl<U: fmt::Debug, W: Write> fmt::Debug for Logging<U, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Logging")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}
