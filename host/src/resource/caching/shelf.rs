//! What all threads share of a size class: free blocks by the stream that they were freed on.

use super::super::{DevicePointer, Result};
use super::thread_cache::Batch;
use crate::device::Stream;

/// Lists that are kept though they are empty.
const KEPT_LISTS: usize = 8;

/// Free blocks of one class.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    lists: Vec<(Stream, Vec<DevicePointer>)>,
    /// How often a stream was made to wait for another.
    waits: u64,
}

impl Shelf {
    /// Puts blocks in, after the work of a stream.
    pub fn put(&mut self, stream: &Stream, blocks: Vec<DevicePointer>) {
        if self.lists.len() > KEPT_LISTS {
            self.lists.retain(|(_, list)| !list.is_empty());
        }
        match self.lists.iter_mut().find(|(other, _)| other == stream) {
            Some((_, list)) => list.extend(blocks),
            None => self.lists.push((stream.clone(), blocks)),
        }
    }

    /// Takes `count` blocks at most that were freed on one stream: this one, else another one, whose
    /// work of so far it is made to wait for.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn take(&mut self, count: usize, stream: &Stream) -> Result<Vec<DevicePointer>> {
        let has_some = |(_, list): &&mut (Stream, Vec<DevicePointer>)| !list.is_empty();
        let found = self
            .lists
            .iter_mut()
            .filter(has_some)
            .min_by_key(|(other, _)| other != stream);
        let Some((other, list)) = found else {
            return Ok(Vec::new());
        };
        if other != stream {
            stream.wait(&other.record()?)?;
            self.waits += 1;
        }
        Ok(list.split_off(list.len().saturating_sub(count)))
    }

    /// Takes everything out.
    pub fn drain(&mut self, class: usize) -> impl Iterator<Item = Batch> {
        self.lists.drain(..).map(move |(stream, blocks)| Batch {
            stream,
            class,
            blocks,
        })
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.lists.iter().map(|(_, list)| list.len()).sum()
    }

    /// How often a stream was made to wait for another.
    pub fn waits(&self) -> u64 {
        self.waits
    }
}
