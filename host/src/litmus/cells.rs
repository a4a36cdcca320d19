//! Memory for the cells: each has a heap's metadata, a journal and the heap's pages.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Memory;
use bytemuck::bytes_of;
use heap_core::Core;
use heap_core::inspect::Snapshot;
use heap_core::layout::{Layout, MIN_CAPACITY};
use kernels::litmus::cell::{Cells, Entry, GRANULE_BYTES};

/// Cells whose heaps are checked at the end.
const CHECKED: u64 = 64;

/// Cells in a device's memory.
pub(super) struct CellMemory {
    memory: Memory,
    layout: Layout,
    cells: Cells,
    count: u64,
}

impl CellMemory {
    /// Allocates cells, writes the heads of their heaps, and makes their journals empty.
    pub fn new(device: &Device, count: u64, step: u64) -> Result<Self> {
        let layout = Layout::new(MIN_CAPACITY, 1).map_err(|_| Error::CapacityTooSmall(0))?;
        let page = layout.page_bytes();
        let journal = layout.metadata_bytes;
        let entries = layout.capacity / GRANULE_BYTES * size_of::<Entry>() as u64;
        let pages = (journal + entries).next_multiple_of(page);
        let bytes = pages + layout.capacity;
        // One page more, so that the first cell can begin at a multiple of a page.
        let memory = device.allocate(count * bytes + page)?;
        memory.clear()?;
        let first = memory.address().next_multiple_of(page);
        for cell in 0..count {
            let address = first + cell * bytes;
            let core = Core::new(layout, address, address + pages, 0);
            memory.write(address - memory.address(), bytes_of(&core))?;
        }
        Ok(Self {
            memory,
            layout,
            cells: Cells {
                first,
                bytes,
                journal,
                step,
            },
            count,
        })
    }

    pub fn cells(&self) -> Cells {
        self.cells
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn capacity(&self) -> u64 {
        self.layout.capacity
    }

    pub fn page_bytes(&self) -> u64 {
        self.layout.page_bytes()
    }

    /// Invariants that do not hold in the first cells' heaps, and frees that were refused there.
    pub fn violations(&self) -> Result<Vec<String>> {
        let length = usize::try_from(self.layout.metadata_bytes).unwrap_or(usize::MAX);
        let begin = self.cells.first - self.memory.address();
        let mut found = Vec::new();
        for cell in 0..self.count.min(CHECKED) {
            let metadata = self.memory.read(begin + cell * self.cells.bytes, length)?;
            let snapshot = Snapshot::new(metadata)?;
            let refused = snapshot.occupancy().misuses.total();
            let violations = snapshot.violations();
            let lines = violations.iter().map(ToString::to_string);
            let refusals = (refused > 0).then(|| format!("{refused} frees were refused"));
            found.extend(
                lines
                    .chain(refusals)
                    .map(|line| format!("cell {cell}: {line}")),
            );
        }
        Ok(found)
    }
}
