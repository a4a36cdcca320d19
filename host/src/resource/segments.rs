//! Any size, at the best fitting free place, in segments that are split and merged again.
//!
//! A segment is a large piece of the upstream's memory. It is cut into pieces, free or handed out.
//! The free ones are found by size: the smallest that is large enough is split, and a piece that is
//! freed is merged with its free neighbours. So two neighbours are never both free.
//!
//! Which stream freed a piece decides who takes it first: a stream prefers what only it has used,
//! then waits for others rather than ask the upstream for more.

use super::ledger::Ledger;
use super::pieces::{Fragmentation, Pieces, Span};
use super::request::{check, check_stream, rounded};
use super::returned::Returned;
use super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use parking_lot::Mutex;

/// Bytes of a segment if nothing else is said.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Segments begin at multiples of this.
const SEGMENT_ALIGNMENT: u64 = 2 << 20;

/// Hands out any size, at the best fitting free place in segments of the upstream's memory.
#[derive(Debug)]
pub struct Segments<U: MemoryResource> {
    upstream: U,
    ledger: Ledger,
    segment_bytes: u64,
    pieces: Mutex<Pieces>,
}

impl<U: MemoryResource> Segments<U> {
    /// No segments yet; they will have 64 MiB.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        Self::with_segments_of(upstream, SEGMENT_BYTES)
    }

    /// No segments yet. They will have `bytes` bytes, or as many as a larger block needs.
    #[must_use]
    pub fn with_segments_of(upstream: U, bytes: u64) -> Self {
        Self {
            upstream,
            ledger: Ledger::new("a segment allocator"),
            segment_bytes: rounded(bytes.clamp(1, 1 << 40)),
            pieces: Mutex::default(),
        }
    }

    /// How the free memory lies.
    #[must_use]
    pub fn fragmentation(&self) -> Fragmentation {
        self.pieces.lock().fragmentation()
    }

    /// All places of all segments, by address.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.pieces.lock().spans()
    }

    /// How often a stream had to wait for another, to get what that had freed.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.pieces.lock().waits()
    }

    /// Gets a segment with room for a block; less than a usual one if the upstream has no more.
    fn grow(&self, pieces: &mut Pieces, least: u64, stream: &Stream) -> Result<()> {
        let usual = self.segment_bytes.max(least);
        let (segment, bytes) = match self.request(usual, stream) {
            Err(error) if error.is_out_of_memory() => {
                // What is kept for later is needed now.
                self.give_back(pieces)?;
                self.upstream.trim()?;
                match self.request(usual, stream) {
                    Err(error) if error.is_out_of_memory() && least < usual => {
                        (self.request(least, stream)?, least)
                    }
                    requested => (requested?, usual),
                }
            }
            requested => (requested?, usual),
        };
        pieces.add_segment(segment.address(), bytes, stream);
        Ok(())
    }

    fn request(&self, bytes: u64, stream: &Stream) -> Result<DevicePointer> {
        self.upstream.allocate(bytes, SEGMENT_ALIGNMENT, stream)
    }

    /// Gives empty segments back to the upstream; their bytes. Those that it refuses stay, and the first error is given
    /// when all others are back.
    fn give_back(&self, pieces: &mut Pieces) -> Result<u64> {
        let stream = Stream::default_of(self.upstream.device());
        let mut returned = Returned::default();
        for (address, bytes) in pieces.remove_empty()? {
            let Some(pointer) = DevicePointer::new(address) else {
                continue;
            };
            // SAFETY: a segment of which nothing is handed out, and all work on it is done.
            let said = unsafe {
                self.upstream
                    .deallocate(pointer, bytes, SEGMENT_ALIGNMENT, &stream)
            };
            if returned.add(bytes, said, self.upstream.device()) {
                pieces.add_segment(address, bytes, &stream);
            }
        }
        returned.end()
    }
}

// SAFETY: a block is a piece of a segment of the upstream's, and is not free while it is handed out.
unsafe impl<U: MemoryResource> MemoryResource for Segments<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate_reserved(
        &self,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<Option<DevicePointer>> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let taken = self
            .pieces
            .lock()
            .take(rounded(bytes), alignment, stream)?
            .and_then(DevicePointer::new);
        if let Some(pointer) = taken {
            self.ledger.insert(pointer, bytes, alignment)?;
        }
        Ok(taken)
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let size = rounded(bytes);
        let mut pieces = self.pieces.lock();
        let mut taken = pieces.take(size, alignment, stream)?;
        if taken.is_none() {
            // Segments are aligned; of a larger alignment as much may have to be skipped.
            let skipped = if alignment > SEGMENT_ALIGNMENT {
                alignment
            } else {
                0
            };
            self.grow(&mut pieces, size + skipped, stream)?;
            taken = pieces.take(size, alignment, stream)?;
        }
        let pointer = taken
            .and_then(DevicePointer::new)
            .ok_or(Error::OutOfMemory {
                resource: self.ledger.resource(),
                asked: bytes,
            })?;
        self.ledger.insert(pointer, bytes, alignment)?;
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
        check_stream(self.device(), stream)?;
        let mut pieces = self.pieces.lock();
        self.ledger.remove(pointer, bytes, alignment)?;
        pieces.put(pointer.address(), stream);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Gives segments back of which nothing is handed out, and trims the upstream.
    fn trim(&self) -> Result<u64> {
        let given = self.give_back(&mut self.pieces.lock());
        // Also below where something was refused.
        let below = self.upstream.trim();
        Ok(given?.max(below?))
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.upstream.memory()
    }
}

impl<U: MemoryResource> Drop for Segments<U> {
    fn drop(&mut self) {
        let pieces = self.pieces.get_mut();
        // If the device failed there is nothing to wait for. Errors have nobody to go to.
        let _failed = pieces.settle();
        let stream = Stream::default_of(self.upstream.device());
        for (address, bytes) in pieces.segments() {
            if let Some(pointer) = DevicePointer::new(address) {
                // SAFETY: the upstream's block, of which nothing is used when this is dropped.
                let _failed = unsafe {
                    self.upstream
                        .deallocate(pointer, bytes, SEGMENT_ALIGNMENT, &stream)
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::DeviceMemory;
    use crate::resource::testing::{Refusing, give_back, is_refused, refusal};

    fn segments() -> (Segments<DeviceMemory>, Stream) {
        let device = Device::cpu();
        let stream = Stream::new(&device).expect("a stream");
        let upstream = DeviceMemory::new(&device);
        (Segments::with_segments_of(upstream, 1 << 20), stream)
    }

    #[test]
    fn the_best_fitting_piece_is_split_and_merged_again() {
        let (segments, stream) = segments();
        let take = |bytes| segments.allocate(bytes, 256, &stream).expect("memory");
        let free = |pointer, bytes| {
            give_back(&segments, pointer, bytes, 256, &stream).expect("handed out");
        };
        let (large, _fence) = (take(8192), take(256));
        let (fitting, _other_fence) = (take(4096), take(256));
        free(large, 8192);
        free(fitting, 4096);
        assert_eq!(segments.fragmentation().free_pieces, 3);
        assert_eq!(take(4000), fitting);
        assert_eq!(take(8000), large);
        assert_eq!(segments.fragmentation().free_pieces, 1);
    }

    #[test]
    fn neighbours_are_merged_in_any_order() {
        let (segments, stream) = segments();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]] {
            let blocks: Vec<_> = (0..4)
                .map(|_| segments.allocate(1 << 18, 256, &stream).expect("memory"))
                .collect();
            assert_eq!(segments.fragmentation().free, 0);
            let spans = segments.spans();
            assert_eq!(spans.len(), 4);
            assert!(spans.iter().all(|span| !span.is_free));
            assert_eq!(spans.iter().filter(|span| span.begins_segment).count(), 1);
            for index in order {
                give_back(&segments, blocks[index], 1 << 18, 256, &stream).expect("handed out");
            }
            let found = segments.fragmentation();
            assert_eq!(
                (found.free, found.largest_free, found.free_pieces),
                (1 << 20, 1 << 20, 1)
            );
        }
        assert_eq!(segments.trim().expect("trimmed"), 1 << 20);
        assert_eq!(segments.fragmentation(), Fragmentation::default());
    }

    #[test]
    fn segments_that_the_upstream_refuses_stay() {
        let device = Device::cpu();
        let stream = Stream::new(&device).expect("a stream");
        let segments = Segments::with_segments_of(Refusing::new(&device), 1 << 20);
        let blocks = [(); 3].map(|()| {
            let block = segments.allocate(1 << 20, 256, &stream);
            block.expect("memory")
        });
        for block in blocks {
            // SAFETY: nothing uses it.
            let freed = unsafe { segments.deallocate(block, 1 << 20, 256, &stream) };
            freed.expect("handed out");
        }
        segments.upstream.next([Some(refusal())]);
        assert!(is_refused(&segments.trim()));
        let found = segments.fragmentation();
        assert_eq!((found.reserved, found.free), (1 << 20, 1 << 20));
        assert_eq!(segments.upstream.live().bytes, 1 << 20);
        let again = segments.allocate(1 << 20, 256, &stream);
        let again = again.expect("it is there still");
        assert!(blocks.contains(&again));
        assert_eq!(segments.upstream.live().bytes, 1 << 20);
        // SAFETY: nothing uses it.
        let freed = unsafe { segments.deallocate(again, 1 << 20, 256, &stream) };
        freed.expect("handed out");
        assert_eq!(segments.trim().expect("taken"), 1 << 20);
        assert_eq!(segments.upstream.live(), Live::default());
    }

    #[test]
    fn a_stream_takes_its_own_memory_before_it_waits_for_others() {
        let (segments, stream) = segments();
        let other = Stream::new(segments.device()).expect("a stream");
        let half = 1 << 19;
        let (one, two) = (
            segments.allocate(half, 256, &stream).expect("memory"),
            segments.allocate(half, 256, &stream).expect("memory"),
        );
        give_back(&segments, one, half, 256, &other).expect("handed out");
        assert_eq!(segments.allocate(half, 256, &other).expect("memory"), one);
        let waits = segments.waits();
        give_back(&segments, two, half, 256, &stream).expect("handed out");
        assert_eq!(segments.allocate(half, 256, &other).expect("memory"), two);
        assert_eq!(segments.waits(), waits + 1);
    }
}
