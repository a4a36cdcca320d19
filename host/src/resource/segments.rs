//! Any size, at the best fitting free place, in segments that are split and merged again.
//!
//! A segment is a large piece of the upstream's memory. It is cut into pieces, free or handed out.
//! The free ones are found by size: the smallest that is large enough is split, and a piece that is
//! freed is merged with its free neighbours. So two neighbours are never both free.
//!
//! Which stream freed a piece decides who takes it first: a stream prefers what only it has used,
//! then waits for others rather than ask the upstream for more.

use super::ledger::Ledger;
use super::order::{Mask, Order};
use super::request::{check, check_stream, rounded};
use super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a segment if nothing else is said.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Segments begin at multiples of this.
const SEGMENT_ALIGNMENT: u64 = 2 << 20;
/// Indices of free pieces that are kept though they are empty.
const KEPT_INDICES: usize = 8;

/// Hands out any size, at the best fitting free place in segments of the upstream's memory.
#[derive(Debug)]
pub struct Segments<U: MemoryResource> {
    upstream: U,
    ledger: Ledger,
    segment_bytes: u64,
    pieces: Mutex<Pieces>,
}

/// How free memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Bytes of all segments.
    pub reserved: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of the largest free piece.
    pub largest_free: u64,
    /// Number of free pieces.
    pub free_pieces: u64,
}

/// A place in a segment, for maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is free; else it is handed out.
    pub is_free: bool,
    /// Whether a segment begins with it.
    pub begins_segment: bool,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    /// Whether a segment begins with it.
    is_first: bool,
    /// Whose work must be done before it is used, if it is free.
    free: Option<Mask>,
}

#[derive(Debug, Default)]
struct Pieces {
    /// All pieces by address.
    by_address: BTreeMap<u64, Piece>,
    /// Bytes and address of the free ones, apart for each mask.
    by_size: Vec<(Mask, BTreeSet<(u64, u64)>)>,
    order: Order,
    /// Bytes of all segments.
    reserved: u64,
}

impl Pieces {
    fn index(&mut self, mask: Mask) -> &mut BTreeSet<(u64, u64)> {
        let known = self.by_size.iter().position(|(other, _)| *other == mask);
        let index = known.unwrap_or_else(|| {
            self.by_size.push((mask, BTreeSet::new()));
            self.by_size.len() - 1
        });
        &mut self.by_size[index].1
    }

    /// Adds a free piece.
    fn insert_free(&mut self, address: u64, bytes: u64, is_first: bool, mask: Mask) {
        let piece = Piece {
            bytes,
            is_first,
            free: Some(mask),
        };
        self.by_address.insert(address, piece);
        self.index(mask).insert((bytes, address));
    }

    /// Takes a free piece out of both indices.
    fn remove_free(&mut self, address: u64) -> Option<(Piece, Mask)> {
        let piece = *self.by_address.get(&address)?;
        let mask = piece.free?;
        self.by_address.remove(&address);
        self.index(mask).remove(&(piece.bytes, address));
        if self.by_size.len() > KEPT_INDICES {
            self.by_size.retain(|(_, pieces)| !pieces.is_empty());
        }
        Some((piece, mask))
    }

    /// The smallest free piece that has room for an aligned block, and the least of what this stream
    /// need not wait for, if there is any such.
    fn best_fit(&self, bytes: u64, alignment: u64, own: Mask) -> Option<u64> {
        let fits = |(size, address): &&(u64, u64)| {
            address.next_multiple_of(alignment) - address + bytes <= *size
        };
        self.by_size
            .iter()
            .filter_map(|(mask, pieces)| {
                let best = pieces.range((bytes, 0)..).find(fits)?;
                Some((!mask.is_within(own), *best))
            })
            .min()
            .map(|(_, (_, address))| address)
    }

    /// Takes an aligned block for a stream out of the best fitting piece.
    fn take(&mut self, bytes: u64, alignment: u64, stream: &Stream) -> Result<Option<u64>> {
        let own = self.order.mask(stream);
        let Some(address) = self.best_fit(bytes, alignment, own) else {
            return Ok(None);
        };
        if let Some(mask) = self.by_address[&address].free {
            self.order.join(mask, stream)?;
        }
        let Some((piece, mask)) = self.remove_free(address) else {
            return Ok(None);
        };
        let block = address.next_multiple_of(alignment);
        let (before, end) = (block - address, block + bytes);
        let behind = piece.bytes - before - bytes;
        if before > 0 {
            self.insert_free(address, before, piece.is_first, mask);
        }
        if behind > 0 {
            self.insert_free(end, behind, false, mask);
        }
        let handed_out = Piece {
            bytes,
            is_first: piece.is_first && before == 0,
            free: None,
        };
        self.by_address.insert(block, handed_out);
        Ok(Some(block))
    }

    /// Puts a block back and merges it with its free neighbours.
    fn put(&mut self, address: u64, stream: &Stream) {
        let Some(piece) = self.by_address.remove(&address) else {
            return;
        };
        let mask = self.order.mask(stream);
        self.merge(address, piece, mask);
    }

    /// Adds a free piece, merged with its free neighbours of the same segment.
    fn merge(&mut self, mut address: u64, mut piece: Piece, mut mask: Mask) {
        let next = self.by_address.get(&(address + piece.bytes));
        if next.is_some_and(|next| !next.is_first)
            && let Some((next, others)) = self.remove_free(address + piece.bytes)
        {
            piece.bytes += next.bytes;
            mask = mask.and(others);
        }
        let before = self.by_address.range(..address).next_back();
        let before = before.map(|(before, piece)| (*before, piece.bytes));
        if let Some((before, bytes)) = before
            && !piece.is_first
            && before + bytes == address
            && let Some((before_piece, others)) = self.remove_free(before)
        {
            address = before;
            piece.bytes += before_piece.bytes;
            piece.is_first = before_piece.is_first;
            mask = mask.and(others);
        }
        self.insert_free(address, piece.bytes, piece.is_first, mask);
    }

    /// Waits for all work, so that no piece needs to be waited for.
    fn settle(&mut self) -> Result<()> {
        self.order.settle()?;
        let mut all = BTreeSet::new();
        for (_, pieces) in self.by_size.drain(..) {
            all.extend(pieces);
        }
        for (_, address) in &all {
            if let Some(piece) = self.by_address.get_mut(address) {
                piece.free = Some(Mask::NONE);
            }
        }
        self.by_size.push((Mask::NONE, all));
        Ok(())
    }

    /// Takes out the segments that are one free piece, after all work; their addresses and bytes.
    fn remove_empty(&mut self) -> Result<Vec<(u64, u64)>> {
        self.settle()?;
        let is_alone = |address: u64, piece: &Piece| {
            let next = self.by_address.get(&(address + piece.bytes));
            piece.is_first && piece.free.is_some() && next.is_none_or(|next| next.is_first)
        };
        let empty: Vec<_> = self
            .by_address
            .iter()
            .filter(|(address, piece)| is_alone(**address, piece))
            .map(|(address, piece)| (*address, piece.bytes))
            .collect();
        for (address, bytes) in &empty {
            self.remove_free(*address);
            self.reserved -= bytes;
        }
        Ok(empty)
    }

    /// All segments, whatever is handed out of them.
    fn segments(&self) -> Vec<(u64, u64)> {
        let mut segments: Vec<(u64, u64)> = Vec::new();
        for (address, piece) in &self.by_address {
            match segments.last_mut() {
                Some((_, bytes)) if !piece.is_first => *bytes += piece.bytes,
                _ => segments.push((*address, piece.bytes)),
            }
        }
        segments
    }
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
        let pieces = self.pieces.lock();
        let mut found = Fragmentation {
            reserved: pieces.reserved,
            ..Fragmentation::default()
        };
        for (bytes, _) in pieces.by_size.iter().flat_map(|(_, pieces)| pieces) {
            found.free += bytes;
            found.largest_free = found.largest_free.max(*bytes);
            found.free_pieces += 1;
        }
        found
    }

    /// All places of all segments, by address.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let pieces = self.pieces.lock();
        let span = |(address, piece): (&u64, &Piece)| Span {
            address: *address,
            bytes: piece.bytes,
            is_free: piece.free.is_some(),
            begins_segment: piece.is_first,
        };
        pieces.by_address.iter().map(span).collect()
    }

    /// How often a stream had to wait for another, to get what that had freed.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.pieces.lock().order.waits()
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
        let mask = pieces.order.mask(stream);
        pieces.insert_free(segment.address(), bytes, true, mask);
        pieces.reserved += bytes;
        Ok(())
    }

    fn request(&self, bytes: u64, stream: &Stream) -> Result<DevicePointer> {
        self.upstream.allocate(bytes, SEGMENT_ALIGNMENT, stream)
    }

    /// Gives empty segments back to the upstream; their bytes.
    fn give_back(&self, pieces: &mut Pieces) -> Result<u64> {
        let stream = Stream::default_of(self.upstream.device());
        let mut given = 0;
        for (address, bytes) in pieces.remove_empty()? {
            if let Some(pointer) = DevicePointer::new(address) {
                self.upstream
                    .deallocate(pointer, bytes, SEGMENT_ALIGNMENT, &stream)?;
                given += bytes;
            }
        }
        Ok(given)
    }
}

impl<U: MemoryResource> MemoryResource for Segments<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
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

    fn deallocate(
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

    /// Gives segments back of which nothing is handed out.
    fn trim(&self) -> Result<u64> {
        Ok(self.give_back(&mut self.pieces.lock())? + self.upstream.trim()?)
    }
}

impl<U: MemoryResource> Drop for Segments<U> {
    fn drop(&mut self) {
        let pieces = self.pieces.get_mut();
        // If the device failed there is nothing to wait for. Errors have nobody to go to.
        let _failed = pieces.order.settle();
        let stream = Stream::default_of(self.upstream.device());
        for (address, bytes) in pieces.segments() {
            if let Some(pointer) = DevicePointer::new(address) {
                let _failed = self
                    .upstream
                    .deallocate(pointer, bytes, SEGMENT_ALIGNMENT, &stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::DeviceMemory;

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
            segments
                .deallocate(pointer, bytes, 256, &stream)
                .expect("handed out");
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
                segments
                    .deallocate(blocks[index], 1 << 18, 256, &stream)
                    .expect("handed out");
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
    fn a_stream_takes_its_own_memory_before_it_waits_for_others() {
        let (segments, stream) = segments();
        let other = Stream::new(segments.device()).expect("a stream");
        let half = 1 << 19;
        let (one, two) = (
            segments.allocate(half, 256, &stream).expect("memory"),
            segments.allocate(half, 256, &stream).expect("memory"),
        );
        segments
            .deallocate(one, half, 256, &other)
            .expect("handed out");
        assert_eq!(segments.allocate(half, 256, &other).expect("memory"), one);
        let waits = segments.waits();
        segments
            .deallocate(two, half, 256, &stream)
            .expect("handed out");
        assert_eq!(segments.allocate(half, 256, &other).expect("memory"), two);
        assert_eq!(segments.waits(), waits + 1);
    }
}
