//! What a thread keeps for itself: free blocks by stream and size class.
//!
//! The thread's own lock guards it, which nobody else takes but who needs all memory back.

use super::super::DevicePointer;
use super::classes::{bytes_of, first_large, reach, waste};
use crate::device::Stream;
use std::ops::Range;

/// Blocks that a thread keeps of one class and stream at most.
const MOST_BLOCKS: u64 = 64;
/// Bytes that it keeps of them at most, if that is more than one block. Of large blocks it keeps as many as fit
/// into what it may keep of all.
const MOST_BYTES: u64 = 32 << 20;

/// Streams whose blocks a thread keeps. What it keeps of others goes to the shelves.
const MOST_STREAMS: usize = 8;

/// Free blocks of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadCache {
    streams: Vec<StreamBins>,
    /// The stream that was used last.
    last: usize,
    /// Allocations that found a block here.
    pub hits: u64,
    /// Others, as the caller counts them: who finds nothing may look once more.
    pub misses: u64,
    /// Bytes by which the large blocks that it hands out may be larger than what was asked for.
    pub allowance: u64,
}

/// Free blocks of one thread that were freed on one stream.
#[derive(Debug)]
struct StreamBins {
    stream: Stream,
    id: u64,
    /// One for each class.
    bins: Vec<Bin>,
    /// A bit for each list that may have blocks; one that has some has its bit.
    filled: Vec<u64>,
    bytes: u64,
}

/// Free blocks of one class, with what is known of the class, so that it need not be computed each time.
#[derive(Debug)]
struct Bin {
    blocks: Vec<DevicePointer>,
    /// Bytes of a block.
    size: u64,
    /// Blocks that are kept at most.
    most: usize,
}

/// Blocks of one class that were freed on one stream.
#[derive(Debug)]
pub(super) struct Batch {
    pub stream: Stream,
    pub class: usize,
    pub blocks: Vec<DevicePointer>,
}

/// Blocks of a class that fit into so many bytes: at least one, and not too many.
fn fitting(class: usize, bytes: u64) -> usize {
    (bytes / bytes_of(class)).clamp(1, MOST_BLOCKS) as usize
}

/// Blocks of a class that a thread keeps at most.
fn room(class: usize) -> usize {
    let is_large = class >= first_large();
    fitting(class, if is_large { u64::MAX } else { MOST_BYTES })
}

/// Blocks of a class that are moved at once.
pub(super) fn batch(class: usize) -> usize {
    fitting(class, MOST_BYTES).div_ceil(2)
}

impl Bin {
    fn new(class: usize) -> Self {
        Self {
            blocks: Vec::new(),
            size: bytes_of(class),
            most: room(class),
        }
    }
}

impl ThreadCache {
    /// The bins of a stream, if it has some.
    #[inline]
    fn find(&mut self, stream: &Stream) -> Option<&mut StreamBins> {
        let id = stream.id();
        if self.streams.get(self.last).is_none_or(|bins| bins.id != id) {
            self.last = self.streams.iter().position(|bins| bins.id == id)?;
        }
        self.streams.get_mut(self.last)
    }

    /// Makes bins for a stream. If there are too many streams, what is kept of the oldest is taken out.
    #[cold]
    fn make(&mut self, stream: &Stream, classes: usize) -> Vec<Batch> {
        let evicted = if self.streams.len() < MOST_STREAMS {
            Vec::new()
        } else {
            self.streams.remove(0).drain()
        };
        self.streams.push(StreamBins {
            stream: stream.clone(),
            id: stream.id(),
            bins: (0..classes).map(Bin::new).collect(),
            filled: vec![0; classes.div_ceil(64)],
            bytes: 0,
        });
        evicted
    }

    /// Takes a block that was freed on this stream: of the class, or a little larger, or more if it is large
    /// and the thread has the allowance; and its class.
    #[inline]
    pub fn take(&mut self, class: usize, stream: &Stream) -> Option<(DevicePointer, usize)> {
        let mut allowance = self.allowance;
        let block = self.find(stream).and_then(|bins| {
            let bin = &mut bins.bins[class];
            if let Some(block) = bin.blocks.pop() {
                bins.bytes -= bin.size;
                return Some((block, class));
            }
            bins.take_larger(class, &mut allowance)
        });
        self.allowance = allowance;
        self.hits += u64::from(block.is_some());
        block
    }

    /// Takes what a block of one class wastes for a request of another from the allowance, if it is enough.
    pub fn pay(&mut self, class: usize, of: usize) -> bool {
        let left = self.allowance.checked_sub(waste(class, of - class));
        self.allowance = left.unwrap_or(self.allowance);
        left.is_some()
    }

    /// Puts a block in, after the work of a stream, if there is room.
    #[expect(clippy::inline_always, reason = "a call is a tenth of what it does")]
    #[inline(always)]
    pub fn put(
        &mut self,
        block: DevicePointer,
        class: usize,
        stream: &Stream,
        most_bytes: u64,
    ) -> bool {
        let Some(bins) = self.find(stream) else {
            return false;
        };
        let bin = &mut bins.bins[class];
        let bytes = bins.bytes + bin.size;
        let blocks = bin.blocks.len();
        let fits = blocks < bin.most && bytes <= most_bytes;
        if fits {
            if blocks == 0 {
                bins.filled[class / 64] |= 1 << (class % 64);
            }
            bin.blocks.push(block);
            bins.bytes = bytes;
        }
        fits
    }

    /// Puts a block in, after the work of a stream. If the thread has too many or too much then, some
    /// are taken out.
    #[cold]
    pub fn make_room(
        &mut self,
        block: DevicePointer,
        class: usize,
        stream: &Stream,
        (classes, most_bytes): (usize, u64),
    ) -> Vec<Batch> {
        let mut taken_out = Vec::new();
        if self.find(stream).is_none() {
            taken_out = self.make(stream, classes);
        }
        let Some(bins) = self.find(stream) else {
            return taken_out;
        };
        let bin = &mut bins.bins[class];
        bin.blocks.push(block);
        bins.filled[class / 64] |= 1 << (class % 64);
        bins.bytes += bin.size;
        if bin.blocks.len() <= bin.most && bins.bytes <= most_bytes {
            return taken_out;
        }
        taken_out.push(bins.spill(class));
        taken_out
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<Batch> {
        self.streams.drain(..).flat_map(StreamBins::drain).collect()
    }

    /// Takes out what is of some classes.
    pub fn drain_classes(&mut self, classes: Range<usize>) -> Vec<Batch> {
        let mut batches = Vec::new();
        for bins in &mut self.streams {
            for class in classes.clone() {
                let bin = &mut bins.bins[class];
                if bin.blocks.is_empty() {
                    continue;
                }
                let blocks = std::mem::take(&mut bin.blocks);
                bins.bytes -= bin.size * blocks.len() as u64;
                let stream = bins.stream.clone();
                batches.push(Batch {
                    stream,
                    class,
                    blocks,
                });
            }
        }
        batches
    }

    /// Adds the number of blocks of each class.
    pub fn count(&self, blocks: &mut [u64]) {
        for bins in self.streams.iter().filter(|bins| bins.bytes > 0) {
            for (count, bin) in blocks.iter_mut().zip(&bins.bins) {
                *count += bin.blocks.len() as u64;
            }
        }
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|bins| bins.bytes).sum()
    }
}

impl StreamBins {
    /// Takes a block of the next class that has one and is near, or near enough for the allowance.
    fn take_larger(&mut self, class: usize, allowance: &mut u64) -> Option<(DevicePointer, usize)> {
        let last = (class + reach(class)).min(self.bins.len() - 1);
        let found = self.next_filled(class + 1, last)?;
        *allowance = allowance.checked_sub(waste(class, found - class))?;
        let bin = &mut self.bins[found];
        let block = bin.blocks.pop()?;
        self.bytes -= bin.size;
        Some((block, found))
    }

    /// The first of some classes that has a block.
    fn next_filled(&mut self, first: usize, last: usize) -> Option<usize> {
        let mut class = first;
        while class <= last {
            let bits = self.filled[class / 64] >> (class % 64);
            if bits == 0 {
                class = (class / 64 + 1) * 64;
                continue;
            }
            class += bits.trailing_zeros() as usize;
            if class > last {
                break;
            }
            if !self.bins[class].blocks.is_empty() {
                return Some(class);
            }
            // Taking the last block left the bit, as most that is taken comes back.
            self.filled[class / 64] &= !(1 << (class % 64));
        }
        None
    }

    /// Takes everything out.
    fn drain(self) -> Vec<Batch> {
        let bins = self.bins.into_iter().enumerate();
        bins.filter(|(_, bin)| !bin.blocks.is_empty())
            .map(|(class, bin)| Batch {
                stream: self.stream.clone(),
                class,
                blocks: bin.blocks,
            })
            .collect()
    }

    /// Takes out the older half of a class.
    #[cold]
    fn spill(&mut self, class: usize) -> Batch {
        let bin = &mut self.bins[class];
        let half = bin.blocks.len().div_ceil(2);
        let blocks: Vec<_> = bin.blocks.drain(..half).collect();
        self.bytes -= bin.size * blocks.len() as u64;
        Batch {
            stream: self.stream.clone(),
            class,
            blocks,
        }
    }
}
