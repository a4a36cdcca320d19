//! What a hardened heap does and tells between launches.

use crate::device::Grid;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::memory::Memory;
use heap_core::hardened::{Hardening, Header};
use heap_core::inspect::{FoundHeader, LeakReport, LiveBlock};
use kernels::hardening::{DrainQuarantine, HardeningArguments, PoisonPages};

/// Threads that poison pages.
const POISONERS: u32 = 1 << 18;
/// Threads that drain a quarantine.
const DRAINERS: u32 = 1 << 12;
/// Bytes of pages that are copied at once at most, unless a block alone is farther.
const WINDOW: u64 = 16 << 20;

impl Heap {
    /// The modes that the heap was built with.
    #[must_use]
    pub fn hardening(&self) -> Hardening {
        Hardening::of_flags(self.flags())
    }

    /// The largest request that an empty heap serves, at the usual alignment.
    #[must_use]
    pub fn largest_request(&self) -> u64 {
        self.capacity() - self.hardening().overhead()
    }

    fn hardening_arguments(&self, first_page: u32, pages: u32) -> Result<HardeningArguments> {
        Ok(HardeningArguments {
            heap: self.handle()?,
            first_page,
            pages,
        })
    }

    /// Gives back all that is in the quarantine. Waits until that is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn drain_quarantine(&self) -> Result<()> {
        if !self.hardening().contains(Hardening::QUARANTINE) {
            return Ok(());
        }
        let _turn = self.in_turn.lock();
        let arguments = self.hardening_arguments(0, 0)?;
        // SAFETY: the heap is this device's; draining is as safe as freeing.
        unsafe { self.launch::<DrainQuarantine>(Grid::of(DRAINERS), &arguments)? };
        self.device().synchronize()
    }

    /// Fills `count` pages from page `first` on with poison, where the heap is to have that. Waits
    /// until that is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    ///
    /// # Safety
    ///
    /// Nobody may use the pages meanwhile, nor what was in them.
    pub unsafe fn poison_pages(&self, first: u32, count: u32) -> Result<()> {
        if !self.hardening().contains(Hardening::POISON) {
            return Ok(());
        }
        let arguments = self.hardening_arguments(first, count)?;
        // Not through the heap, which would look whether it must grow: perhaps it is about to.
        // SAFETY: as the caller promises.
        unsafe {
            self.device()
                .launch::<PoisonPages>(Grid::of(POISONERS), &arguments)?;
        }
        self.device().synchronize()
    }

    /// The live blocks by the site that asked for them, after all launches. Reads the blocks'
    /// headers from the user's memory.
    ///
    /// # Errors
    ///
    /// If the heap's blocks are not framed ([`Error::NotFramed`]), or the device fails.
    pub fn leak_report(&self) -> Result<LeakReport> {
        if !self.hardening().is_framed() {
            return Err(Error::NotFramed(self.hardening().to_string()));
        }
        let _turn = self.in_turn.lock();
        let snapshot = self.snapshot()?;
        let mut headers = Vec::new();
        let mut window: Vec<LiveBlock> = Vec::new();
        for block in snapshot.live() {
            if let Some(first) = window.first()
                && block.address - first.address > WINDOW
            {
                self.read_headers(&window, &mut headers)?;
                window.clear();
            }
            window.push(block);
        }
        self.read_headers(&window, &mut headers)?;
        Ok(snapshot.leak_report(headers))
    }

    /// Reads the headers of blocks that are in the order of their addresses, by one copy.
    fn read_headers(&self, blocks: &[LiveBlock], headers: &mut Vec<FoundHeader>) -> Result<()> {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok(());
        };
        // Blocks are aligned to headers.
        let length = (last.address - first.address) / size_of::<Header>() as u64 + 1;
        let count = usize::try_from(length).unwrap_or(usize::MAX);
        let memory = self.user_memory();
        let found: Vec<Header> = memory.read(first.address - memory.address(), count)?;
        headers.extend(blocks.iter().map(|block| {
            let index = (block.address - first.address) / size_of::<Header>() as u64;
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            FoundHeader {
                block: *block,
                header: found[index],
            }
        }));
        Ok(())
    }
}

/// The ring of a quarantine of at least `places` places; none without the mode.
pub(crate) fn make_ring(
    device: &crate::Device,
    modes: Hardening,
    places: u32,
) -> Result<Option<Memory>> {
    if !modes.contains(Hardening::QUARANTINE) {
        return Ok(None);
    }
    let places = u64::from(places.clamp(1, 1 << 24)).next_power_of_two();
    device.allocate(places * 8).map(Some)
}
