//! The workload that passes bad pointers among good ones: what it needs to know which are bad, and of
//! which kind.

use super::blocks::{Filled, fill};
use super::{FIRST_OWNER, Progress, Run, Settings};
use crate::device::Grid;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::memory::Memory;
use crate::size::Bytes;
use heap_core::Heap as Handle;
use heap_core::inspect::PageUse;
use heap_core::layout::MIN_CAPACITY;
use kernels::blocks::Block;
use kernels::misuse::{Addresses, HELD, MisuseAmongFrees, MisuseAmongMallocs, MisuseArguments};
use std::collections::HashSet;

/// Bytes of the blocks next to which slots are free: of the smallest class, which no request above
/// gets a slot of.
pub(super) const BAIT: u64 = 16;
/// Of so many blocks of that size one stays, so that its page does.
const ANCHOR: u32 = 5;
/// Launches and what is between them.
const STEPS: u64 = 4;
/// Runs that are made and freed, so that pages are in no use that were before.
const RUNS: u32 = 64;

/// Addresses in the device's memory.
struct List {
    memory: Memory,
    count: u64,
}

impl List {
    fn new(heap: &Heap, addresses: &[u64]) -> Result<Self> {
        let memory = heap.device().allocate(size_of_val(addresses) as u64)?;
        memory.write(0, addresses)?;
        Ok(Self {
            memory,
            count: addresses.len() as u64,
        })
    }

    fn addresses(&self) -> Addresses {
        Addresses {
            array: self.memory.address(),
            count: self.count,
        }
    }
}

/// Small blocks, most of which are free again.
struct Baits<'a> {
    anchors: Filled<'a>,
    live: List,
    free: List,
}

impl<'a> Baits<'a> {
    /// `class` is that of the small blocks.
    fn new(heap: &'a Heap, settings: &Settings, class: u32) -> Result<Self> {
        let threads = settings.threads.div_ceil(4).saturating_mul(ANCHOR);
        let settings = Settings {
            threads,
            least: BAIT,
            most: BAIT,
            ..*settings
        };
        let mut anchors = fill(heap, &settings)?;
        let all = anchors.blocks()?;
        let staying = |index: u32| index.is_multiple_of(ANCHOR);
        let part = |stays: bool| -> Vec<Block> {
            let blocks = (0..).zip(&all);
            let part = blocks.map(|(index, block)| {
                if staying(index) == stays {
                    *block
                } else {
                    Block::default()
                }
            });
            part.collect()
        };
        anchors.release_only(&part(false), &part(true))?;
        let addresses = |blocks: Vec<Block>| -> Vec<u64> {
            let addresses = blocks.into_iter().map(|block| block.address);
            addresses.filter(|address| *address != 0).collect()
        };
        let (mut free, live) = (addresses(part(false)), addresses(part(true)));
        // Where memory has run out a page of a slab in which nothing lives is given back, and small blocks may have had slots of larger ones, which are somebody's again.
        let kept: HashSet<usize> = live.iter().map(|address| page_of(heap, *address)).collect();
        let pages = heap.snapshot()?.page_map();
        // Framed slots may lie in two pages.
        let frame = heap.hardening().overhead();
        free.retain(|address| {
            let page = page_of(heap, *address);
            let is_inside = [address - frame, address + BAIT + frame - 1]
                .iter()
                .all(|end| page_of(heap, *end) == page);
            is_inside && kept.contains(&page) && class_of(pages[page]) == Some(class)
        });
        Ok(Self {
            live: List::new(heap, &live)?,
            free: List::new(heap, &free)?,
            anchors,
        })
    }

    /// Whether no block stayed, or no slot beside one is free.
    fn are_lacking(&self) -> bool {
        self.live.count == 0 || self.free.count == 0
    }
}

/// The page of an address; of one before the heap a number that no page has.
fn page_of(heap: &Heap, address: u64) -> usize {
    let page = address.wrapping_sub(heap.base()) >> heap.layout().page_shift;
    usize::try_from(page).unwrap_or(usize::MAX)
}

fn class_of(page: PageUse) -> Option<u32> {
    match page {
        PageUse::Slab { class, .. } => Some(class),
        _ => None,
    }
}

/// The class of blocks of [`BAIT`] bytes, in a heap that is empty and stays so.
fn class_of_baits(heap: &Heap, settings: &Settings) -> Result<Option<u32>> {
    let one = Settings {
        threads: 1,
        least: BAIT,
        most: BAIT,
        ..*settings
    };
    let filled = fill(heap, &one)?;
    let address = filled.blocks()?[0].address;
    let pages = heap.snapshot()?.page_map();
    filled.release()?;
    let page = pages.get(page_of(heap, address));
    Ok(page.and_then(|page| class_of(*page)))
}

/// Why there is nothing to pass bad pointers to.
fn too_small(run: &Run<'_>) -> Error {
    let capacity = Bytes(run.heap.capacity());
    Error::BadSettings {
        asked: format!(
            "`misuse` by {} threads in a heap of {capacity}",
            run.settings.threads
        ),
        advice: "it has no room for small blocks beside which slots are free: use a larger heap, or fewer threads",
    }
}

/// Addresses in all pages that are in no use.
fn unused(heap: &Heap) -> Result<List> {
    let runs = Settings {
        threads: RUNS,
        rounds: 1,
        least: u64::from(heap.layout().largest_slot) + 1,
        most: u64::from(heap.layout().largest_slot) + 1,
        seed: 0,
        moments: 0,
    };
    fill(heap, &runs)?.release()?;
    let snapshot = heap.snapshot()?;
    let page_bytes = snapshot.layout().page_bytes();
    let pages = (0_u64..).zip(snapshot.page_map());
    let free = pages.filter(|(_, page)| *page == PageUse::Free);
    let addresses: Vec<_> = free
        .map(|(page, _)| snapshot.base() + page * page_bytes + 16 * page % page_bytes)
        .collect();
    List::new(heap, &addresses)
}

/// Addresses before and behind the heap, of another heap, and of other memory of the device.
fn foreign(heap: &Heap, other: &Heap, memory: u64) -> Result<List> {
    let end = heap.base() + heap.max_capacity();
    let mut addresses = vec![16, memory, heap.base() - 1, end, end + 4096];
    addresses.extend((0..59).map(|index| other.base() + 16 * index));
    List::new(heap, &addresses)
}

pub(super) fn run(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    let (heap, settings) = (run.heap, run.settings);
    let stale = heap.handle()?;
    heap.reset()?;
    let Some(class) = class_of_baits(heap, settings)? else {
        return Err(too_small(run));
    };
    let count = u64::from(settings.threads) * HELD;
    let held = heap.device().allocate(count * size_of::<Block>() as u64)?;
    held.clear()?;
    let other = Heap::builder(heap.device())
        .capacity(MIN_CAPACITY)
        .build()?;
    let foreign = foreign(heap, &other, held.address())?;
    for number in 0..settings.rounds {
        let done = u64::from(number) * STEPS;
        let mut show = |step| progress(done + step, u64::from(settings.rounds) * STEPS);
        let round = Round {
            number,
            class,
            stale,
            held: &held,
            foreign: &foreign,
        };
        round.run(run, &mut show)?;
    }
    Ok(())
}

/// What a round is given.
struct Round<'a> {
    number: u32,
    /// Of the small blocks.
    class: u32,
    stale: Handle,
    held: &'a Memory,
    foreign: &'a List,
}

impl Round<'_> {
    fn run(&self, run: &mut Run<'_>, show: &mut dyn FnMut(u64)) -> Result<()> {
        let baits = Baits::new(run.heap, run.settings, self.class)?;
        if baits.are_lacking() {
            baits.anchors.release()?;
            return Err(too_small(run));
        }
        show(1);
        let mut rounds = run.rounds(self.number, 1)?;
        rounds.first_owner = FIRST_OWNER;
        rounds.held = self.held.address();
        let mut arguments = MisuseArguments {
            rounds,
            stale: self.stale,
            foreign: self.foreign.addresses(),
            free_slots: baits.free.addresses(),
            anchors: baits.live.addresses(),
            // Not used while threads allocate.
            retired: self.foreign.addresses(),
        };
        let grid = Grid::of(run.settings.threads);
        // SAFETY: the table and the lists are as the arguments say, and live until the launches ended.
        unsafe { run.timed_on::<MisuseAmongMallocs>(grid, &arguments)? };
        run.note_peak()?;
        let (number, count) = (self.number, run.settings.rounds);
        run.look_at(number, count, 2, || {
            format!("round {}: all allocated", number + 1)
        })?;
        show(2);
        let retired = unused(run.heap)?;
        arguments.retired = retired.addresses();
        if retired.count == 0 {
            run.retired_left_out += u64::from(run.settings.threads);
        }
        // SAFETY: as above.
        unsafe { run.timed_on::<MisuseAmongFrees>(grid, &arguments)? };
        show(3);
        baits.anchors.release()?;
        run.look_at(number, count, 2, || {
            format!("round {}: all freed", number + 1)
        })?;
        show(4);
        Ok(())
    }
}
