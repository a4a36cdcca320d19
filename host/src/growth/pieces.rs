//! The memory of a growing heap: pieces mapped one behind the other, and the mailbox in which the
//! device is told how many pages have memory.
//!
//! Invariant: the pages that the mailbox names have memory. It names more only after they were
//! mapped, and fewer before they are unmapped.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::virtual_memory::{HostMemory, Reservation};
use heap_core::growth::{Answer, Growth, Mailbox};
use heap_core::layout::Layout;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Less than this part of the pages free is little, for a heap that grows while kernels run.
const LOW_WATER: u32 = 4;

/// What is done to new pages before the device knows of them: given the first, and how many.
pub(crate) type Prepare<'a> = dyn Fn(u32, u32) -> Result<()> + 'a;

/// How a growing heap is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Bytes at first.
    pub capacity: u64,
    /// How long a request waits for the host.
    pub patience: Duration,
    /// Whether it grows while kernels run.
    pub live: bool,
}

/// The pages' memory.
#[derive(Debug)]
pub(crate) struct Pieces {
    device: Device,
    layout: Layout,
    plan: Plan,
    range: Reservation,
    mailbox: HostMemory,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages that have memory.
    pages: u32,
    /// Pages that had memory when the heap was made or reset.
    pages_at_first: u32,
    /// First page of each piece, and its offset in bytes.
    pieces: Vec<(u32, u64)>,
    /// Why the last attempt to map more failed.
    failure: Option<String>,
}

impl Pieces {
    /// Reserves addresses for a heap of that shape, and maps its first piece.
    pub fn new(device: &Device, layout: Layout, plan: Plan) -> Result<Self> {
        let range = device.reserve(layout.capacity, layout.page_bytes())?;
        let mailbox = device.allocate_host(size_of::<Mailbox>() as u64)?;
        let pieces = Self {
            device: device.clone(),
            layout,
            plan,
            range,
            mailbox,
            state: Mutex::default(),
        };
        pieces.answer(0);
        let first = pieces.pages_for(plan.capacity);
        pieces.map_to(&mut pieces.state(), first, &|_, _| Ok(()))?;
        Ok(pieces)
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether the device asked for more than there is, or is lost.
    pub fn is_asked(&self) -> bool {
        !self.range.is_alive()
            || self.mailbox().request().min(self.layout.page_count) > self.state().pages
    }

    /// Address of the first page.
    pub fn base(&self) -> u64 {
        self.range.address()
    }

    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Bytes that have memory.
    pub fn capacity(&self) -> u64 {
        u64::from(self.state().pages) << self.layout.page_shift
    }

    /// Why the last attempt to map more failed.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Notes that the heap is made or reset now: what was asked for before is wanted no more.
    pub fn begin(&self) {
        let mut state = self.state();
        state.pages_at_first = state.pages;
        self.mailbox().clear_request();
        self.answer(state.pages);
    }

    /// What the head of the heap says of its growth; it does not change between two resets.
    pub fn constants(&self) -> Growth {
        let patience = u64::try_from(self.plan.patience.as_nanos()).unwrap_or(u64::MAX);
        Growth {
            mailbox: self.mailbox.address(),
            patience: if self.plan.live { patience } else { 0 },
            pages: self.state().pages_at_first,
            low_water: if self.plan.live { LOW_WATER } else { 0 },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailbox(&self) -> &Mailbox {
        // SAFETY: the memory is as large, and a mailbox is two atomics.
        unsafe { self.mailbox.get() }
    }

    /// Tells the device how many pages have memory.
    fn answer(&self, pages: u32) {
        let is_full = pages == self.layout.page_count;
        self.mailbox().answer(Answer {
            pages,
            closed: is_full || !self.plan.live,
        });
    }

    /// Pages that have at least `bytes`.
    fn pages_for(&self, bytes: u64) -> u32 {
        let pages = bytes.div_ceil(self.layout.page_bytes());
        u32::try_from(pages)
            .unwrap_or(u32::MAX)
            .clamp(1, self.layout.page_count)
    }

    /// Maps what the device asked for, if it asked for more than there is: so much that there is twice as much, if it is to be had. Gives whether
    /// the device had asked.
    ///
    /// `prepare` is given the new pages, first and count, before the device knows of them.
    pub fn serve_request(&self, prepare: &Prepare) -> Result<bool> {
        // Locked before the request is read: else it may be one from before the heap shrank.
        let mut state = self.state();
        // A recovery of the device takes the mailbox with it.
        if !self.range.is_alive() {
            return Err(self.range.why_lost());
        }
        let request = self.mailbox().request().min(self.layout.page_count);
        if request <= state.pages {
            return Ok(false);
        }
        let doubled = state.pages.saturating_mul(2).min(self.layout.page_count);
        let mapped = self.map_what_there_is(&mut state, (request, doubled), prepare);
        if let Err(error) = &mapped {
            state.failure = Some(error.to_string());
            if self.range.is_alive() {
                // Less may be had.
                self.mailbox().refuse(state.pages, request);
            }
        }
        mapped.map(|()| true)
    }

    /// Maps `bytes` more at least.
    ///
    /// # Errors
    ///
    /// If the heap may not be as large, or there is not enough memory: then nothing changes.
    pub fn grow(&self, bytes: u64, prepare: &Prepare) -> Result<()> {
        let mut state = self.state();
        let now = u64::from(state.pages) << self.layout.page_shift;
        let asked = now.saturating_add(bytes);
        if asked > self.layout.capacity {
            return Err(Error::CannotGrow {
                asked,
                capacity: now,
                most: self.layout.capacity,
            });
        }
        self.map_to(&mut state, self.pages_for(asked), prepare)
    }

    /// Maps one piece behind the others, so that `most` pages have memory; if there is not so much, half of what the device has left, but
    /// at least `least` pages.
    ///
    /// So a heap that may be larger than the device takes a few pieces to its end. With as little as each request needs it would be thousands: each
    /// takes milliseconds to map beside a kernel.
    fn map_what_there_is(
        &self,
        state: &mut State,
        (least, most): (u32, u32),
        prepare: &Prepare,
    ) -> Result<()> {
        let mut pages = least.max(most);
        loop {
            match self.map_to(state, pages, prepare) {
                Err(Error::OutOfMemory { free, .. }) if pages > least => {
                    let left = u32::try_from(free >> self.layout.page_shift).unwrap_or(u32::MAX);
                    let more = (pages - state.pages).min(left) / 2;
                    pages = least.max(state.pages + more);
                }
                mapped => return mapped,
            }
        }
    }

    /// Maps one piece behind the others, so that at least `pages` pages have memory.
    fn map_to(&self, state: &mut State, pages: u32, prepare: &Prepare) -> Result<()> {
        if pages <= state.pages {
            return Ok(());
        }
        let granule = self.device.granule()?;
        let end = |pages: u32| {
            (u64::from(pages) << self.layout.page_shift)
                .next_multiple_of(granule)
                .min(self.range.bytes())
        };
        let begin = end(state.pages);
        let memory = self.device.create_memory(end(pages) - begin)?;
        self.range.map(begin, memory)?;
        // The last granule may have room for more pages.
        let there = u32::try_from(end(pages) >> self.layout.page_shift).unwrap_or(u32::MAX);
        let there = there.clamp(pages, self.layout.page_count);
        let first = state.pages;
        if let Err(error) = prepare(first, there - first) {
            // SAFETY: nobody knows of these pages yet.
            unsafe { self.range.unmap(begin)? };
            return Err(error);
        }
        state.pieces.push((first, begin));
        state.pages = there;
        state.failure = None;
        self.answer(state.pages);
        Ok(())
    }

    /// Unmaps pieces, the last one first and never the first one, as long as `retract` takes their
    /// pages away from the heap, which it is given the first of.
    ///
    /// # Safety
    ///
    /// No kernel may use the heap meanwhile, but those that `retract` runs.
    pub unsafe fn shrink(&self, retract: impl Fn(u32) -> Result<bool>) -> Result<()> {
        self.shrink_by(retract, |offset| {
            // SAFETY: no kernel uses the heap, and it does not know these pages any more.
            unsafe { self.range.unmap(offset) }.map(drop)
        })
    }

    /// The same with a way to unmap the piece at an offset in bytes.
    fn shrink_by(
        &self,
        retract: impl Fn(u32) -> Result<bool>,
        unmap: impl Fn(u64) -> Result<()>,
    ) -> Result<()> {
        // Locked throughout, so that nothing is mapped meanwhile.
        let mut state = self.state();
        while let [_, .., (first, offset)] = state.pieces[..] {
            if !retract(first)? {
                break;
            }
            self.mailbox().clear_request();
            self.answer(first);
            if let Err(error) = unmap(offset) {
                // Its pages are there still: the heap has them again when it needs them.
                self.answer(state.pages);
                return Err(error);
            }
            state.pieces.pop();
            state.pages = first;
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Pieces of a heap of 1 GiB at most, and 16 MiB at first.
    fn pieces(device: &Device) -> Pieces {
        let plan = Plan {
            capacity: 16 << 20,
            patience: Duration::ZERO,
            live: false,
        };
        let layout = Layout::new(1 << 30, 4).expect("1 GiB is a heap");
        Pieces::new(device, layout, plan).expect("16 MiB are there")
    }

    #[test]
    fn a_piece_that_cannot_be_unmapped_is_the_heaps_still() {
        let pieces = pieces(&Device::cpu());
        let nothing = |_, _| Ok(());
        pieces.grow(16 << 20, &nothing).expect("there is memory");
        let before = pieces.capacity();
        let refused = pieces.shrink_by(|_| Ok(true), |_| Err(Error::HeapLost));
        refused.expect_err("it was not unmapped");
        assert_eq!(pieces.capacity(), before);
        // It can be tried again, and the heap can grow again.
        // SAFETY: nobody uses the pages.
        unsafe { pieces.shrink(|_| Ok(true)) }.expect("it is mapped");
        assert!(pieces.capacity() < before);
        pieces.grow(16 << 20, &nothing).expect("there is memory");
        assert_eq!(pieces.capacity(), before);
    }

    #[test]
    fn all_that_a_device_has_is_mapped_in_few_pieces() {
        let device = Device::cpu();
        let pieces = pieces(&device);
        let end = pieces.pages_for(700 << 20);
        let bytes = |pages: u32| u64::from(pages) << pieces.layout.page_shift;
        let prepare = |first, count| {
            let (asked, free) = (bytes(count), bytes(end - first));
            if asked > free {
                return Err(Error::OutOfMemory { asked, free });
            }
            Ok(())
        };
        let mut state = pieces.state();
        // As a kernel that runs asks: for one page more each time.
        while state.pages < end {
            let doubled = (state.pages * 2).min(pieces.layout.page_count);
            let wanted = (state.pages + 1, doubled);
            pieces
                .map_what_there_is(&mut state, wanted, &prepare)
                .expect("a page is left");
        }
        let count = state.pieces.len();
        assert!((8..32).contains(&count), "{count} pieces");
        let wanted = (end + 1, pieces.layout.page_count);
        pieces
            .map_what_there_is(&mut state, wanted, &prepare)
            .expect_err("nothing is left");
        assert_eq!((state.pages, state.pieces.len()), (end, count));
    }
}
