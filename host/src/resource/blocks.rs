//! Blocks of one size, cut from chunks: what block pools and slabs are made of.
//!
//! Invariant: each block of each chunk is either in one of the lists, once, or handed out.

use super::order::{Mask, Order};
use super::{DevicePointer, Result};
use crate::device::Stream;

/// A piece of memory that is cut into blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub first: DevicePointer,
    pub bytes: u64,
}

/// Free blocks of one size, by whose work must be done before they are used.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    block_bytes: u64,
    /// By address.
    chunks: Vec<Chunk>,
    /// Free blocks by mask; the first list is that of [`Mask::NONE`].
    free: Vec<(Mask, Vec<DevicePointer>)>,
    order: Order,
}

impl Blocks {
    /// No blocks yet, of `block_bytes` bytes.
    pub fn new(block_bytes: u64) -> Self {
        Self {
            block_bytes,
            chunks: Vec::new(),
            free: vec![(Mask::NONE, Vec::new())],
            order: Order::default(),
        }
    }

    /// Cuts a chunk that was allocated for a stream into blocks.
    pub fn add(&mut self, chunk: Chunk, stream: &Stream) {
        let place = self
            .chunks
            .partition_point(|other| other.first < chunk.first);
        self.chunks.insert(place, chunk);
        // The last is taken first: so that it is the lowest, they are put in from above.
        for index in (0..chunk.bytes / self.block_bytes).rev() {
            let address = chunk.first.address() + index * self.block_bytes;
            if let Some(pointer) = DevicePointer::new(address) {
                self.put(pointer, stream);
            }
        }
    }

    /// Takes a block for a stream: one that it freed itself, else one that nobody used, else one that
    /// it has to wait for. None if all are handed out.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn take(&mut self, stream: &Stream) -> Result<Option<DevicePointer>> {
        let own = self.order.mask(stream);
        let best = self
            .free
            .iter()
            .enumerate()
            .filter(|(_, (_, blocks))| !blocks.is_empty())
            .min_by_key(|(_, (mask, _))| match *mask {
                mask if mask == own => 0,
                Mask::NONE => 1,
                _ => 2,
            });
        let Some((index, _)) = best else {
            return Ok(None);
        };
        let (mask, blocks) = &mut self.free[index];
        self.order.join(*mask, stream)?;
        Ok(blocks.pop())
    }

    /// Puts a block back, after the work of a stream.
    pub fn put(&mut self, pointer: DevicePointer, stream: &Stream) {
        let own = self.order.mask(stream);
        match self.free.iter_mut().find(|(mask, _)| *mask == own) {
            Some((_, blocks)) => blocks.push(pointer),
            None => self.free.push((own, vec![pointer])),
        }
    }

    /// Takes out the chunks of which no block is handed out, and waits for the work on them.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn remove_empty(&mut self) -> Result<Vec<Chunk>> {
        self.settle()?;
        let (chunks, block_bytes) = (&self.chunks, self.block_bytes);
        let chunk_of =
            |pointer: &DevicePointer| chunks.partition_point(|chunk| chunk.first <= *pointer) - 1;
        let mut free = vec![0; chunks.len()];
        for pointer in &self.free[0].1 {
            free[chunk_of(pointer)] += 1;
        }
        let is_empty: Vec<_> = chunks
            .iter()
            .zip(free)
            .map(|(chunk, free)| free == chunk.bytes / block_bytes)
            .collect();
        self.free[0]
            .1
            .retain(|pointer| !is_empty[chunk_of(pointer)]);
        let mut index = 0;
        let removed = self.chunks.extract_if(.., |_| {
            index += 1;
            is_empty[index - 1]
        });
        Ok(removed.collect())
    }

    /// Takes out all chunks, whatever is handed out of them, after all work that is known of.
    pub fn remove_all(&mut self) -> Vec<Chunk> {
        // If the device failed there is nothing to wait for.
        let _failed = self.settle();
        self.free.truncate(1);
        self.free[0].1.clear();
        std::mem::take(&mut self.chunks)
    }

    fn settle(&mut self) -> Result<()> {
        self.order.settle()?;
        let others: Vec<_> = self
            .free
            .drain(1..)
            .flat_map(|(_, blocks)| blocks)
            .collect();
        self.free[0].1.extend(others);
        Ok(())
    }
}
