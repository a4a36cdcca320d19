//! Pieces of memory that are split and merged: by address, and the free ones by size as well.
//!
//! The smallest free piece that is large enough is split, and a piece that is freed is merged with
//! its free neighbours of the same segment. Which stream freed a piece decides who takes it first: a
//! stream prefers what only it has used.
//!
//! Invariant: two neighbours of one segment are never both free.

use super::Result;
use super::order::{Mask, Order};
use crate::device::Stream;
use std::collections::{BTreeMap, BTreeSet};

/// Indices of free pieces that are kept though they are empty.
const KEPT_INDICES: usize = 8;

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

/// Pieces of memory, free or handed out.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// All pieces by address.
    by_address: BTreeMap<u64, Piece>,
    /// Bytes and address of the free ones, apart for each stream. Those that several streams have used
    /// are together, as there can be many such masks and nobody prefers one of them.
    by_size: Vec<(Mask, BTreeSet<(u64, u64)>)>,
    order: Order,
    /// Bytes of all segments.
    reserved: u64,
}

impl Pieces {
    /// Adds a segment, all of which is free, and comes after the work of a stream.
    pub fn add_segment(&mut self, address: u64, bytes: u64, stream: &Stream) {
        let mask = self.order.mask(stream);
        self.insert_free(address, bytes, true, mask);
        self.reserved += bytes;
    }

    /// Adds a free piece that no work has touched and that no segment begins with.
    pub fn add(&mut self, address: u64, bytes: u64) {
        self.reserved += bytes;
        let piece = Piece {
            bytes,
            is_first: false,
            free: None,
        };
        self.merge(address, piece, Mask::NONE);
    }

    /// Where the free piece begins that ends at an address.
    pub fn free_before(&self, end: u64) -> Option<u64> {
        let (address, piece) = self.by_address.range(..end).next_back()?;
        (piece.free.is_some() && address + piece.bytes == end).then_some(*address)
    }

    /// First addresses and ends of all free pieces.
    pub fn free(&self) -> impl Iterator<Item = (u64, u64)> {
        let pieces = self.by_size.iter().flat_map(|(_, pieces)| pieces);
        pieces.map(|(bytes, address)| (*address, address + bytes))
    }

    /// Hands a range out for a stream that lies within one free piece.
    pub fn hand_out(&mut self, begin: u64, end: u64, stream: &Stream) -> Result<()> {
        let found = self.by_address.range(..=begin).next_back();
        let Some((address, mask)) = found.and_then(|(at, piece)| Some((*at, piece.free?))) else {
            return Ok(());
        };
        self.order.join(mask, stream)?;
        let is_first = self.cut(address, begin, end);
        let piece = Piece {
            bytes: end - begin,
            is_first,
            free: None,
        };
        self.by_address.insert(begin, piece);
        Ok(())
    }

    /// Takes a range away that lies within one free piece.
    pub fn remove(&mut self, begin: u64, end: u64) {
        let found = self.by_address.range(..=begin).next_back();
        if let Some(address) = found.map(|(address, _)| *address) {
            self.cut(address, begin, end);
            self.reserved -= end - begin;
        }
    }

    /// Takes a range out of a free piece; whether a segment begins with it.
    fn cut(&mut self, address: u64, begin: u64, end: u64) -> bool {
        let Some((piece, mask)) = self.remove_free(address) else {
            return false;
        };
        let last = address + piece.bytes;
        if begin > address {
            self.insert_free(address, begin - address, piece.is_first, mask);
        }
        if last > end {
            self.insert_free(end, last - end, false, mask);
        }
        piece.is_first && begin == address
    }

    /// Bytes of all pieces.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// How the free pieces lie.
    pub fn fragmentation(&self) -> Fragmentation {
        let mut found = Fragmentation {
            reserved: self.reserved,
            ..Fragmentation::default()
        };
        for (bytes, _) in self.by_size.iter().flat_map(|(_, pieces)| pieces) {
            found.free += bytes;
            found.largest_free = found.largest_free.max(*bytes);
            found.free_pieces += 1;
        }
        found
    }

    /// All places, by address.
    pub fn spans(&self) -> Vec<Span> {
        let span = |(address, piece): (&u64, &Piece)| Span {
            address: *address,
            bytes: piece.bytes,
            is_free: piece.free.is_some(),
            begins_segment: piece.is_first,
        };
        self.by_address.iter().map(span).collect()
    }

    /// How often a stream had to wait for another.
    pub fn waits(&self) -> u64 {
        self.order.waits()
    }

    fn index(&mut self, mask: Mask) -> &mut BTreeSet<(u64, u64)> {
        let mask = mask.or_mixed();
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
    pub fn take(&mut self, bytes: u64, alignment: u64, stream: &Stream) -> Result<Option<u64>> {
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
    pub fn put(&mut self, address: u64, stream: &Stream) {
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
    pub fn settle(&mut self) -> Result<()> {
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
    pub fn remove_empty(&mut self) -> Result<Vec<(u64, u64)>> {
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
    pub fn segments(&self) -> Vec<(u64, u64)> {
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
