//! A second resource for what the first has no room for.

use super::super::ledger::Ledger;
use super::super::request::check;
use super::super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};

/// Asks a second resource for what the first has no room for, or is too large for it. Both are of the
/// same device, and have no memory in common.
#[derive(Debug)]
pub struct Fallback<A, B> {
    first: A,
    second: B,
    /// What the second handed out.
    ledger: Ledger,
}

impl<A: MemoryResource, B: MemoryResource> Fallback<A, B> {
    /// Asks `first`, then `second`.
    ///
    /// # Errors
    ///
    /// If they are of different devices.
    pub fn new(first: A, second: B) -> Result<Self> {
        super::check_same_device(&first, &second)?;
        Ok(Self {
            first,
            second,
            ledger: Ledger::new("a fallback"),
        })
    }

    /// The resource that is asked first.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// The resource that is asked then.
    pub fn second(&self) -> &B {
        &self.second
    }
}

fn is_for_the_second(error: &Error) -> bool {
    error.is_out_of_memory()
        || matches!(
            error,
            Error::TooLarge { .. } | Error::AlignmentTooLarge { .. }
        )
}

// SAFETY: the blocks are those of one of the two, which the ledger tells apart.
unsafe impl<A: MemoryResource, B: MemoryResource> MemoryResource for Fallback<A, B> {
    fn device(&self) -> &Device {
        self.first.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        match self.first.allocate(bytes, alignment, stream) {
            Err(error) if is_for_the_second(&error) => {
                let pointer = self.second.allocate(bytes, alignment, stream)?;
                let alignment = check(self.ledger.resource(), bytes, alignment)?;
                self.ledger.insert(pointer, bytes, alignment)?;
                Ok(pointer)
            }
            allocated => allocated,
        }
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let least = check(self.ledger.resource(), bytes, alignment)?;
        match self.ledger.remove(pointer, bytes, least) {
            // Not the second's, or not now: its memory may have become the first's.
            Err(Error::ForeignPointer(..)) => {
                // SAFETY: as the caller promises.
                unsafe { self.first.deallocate(pointer, bytes, alignment, stream) }
            }
            Err(Error::DoubleFree(..)) => {
                // SAFETY: as the caller promises.
                let error = unsafe { self.first.deallocate(pointer, bytes, alignment, stream) };
                error.map_err(|error| match error {
                    Error::ForeignPointer(pointer, _) => {
                        Error::DoubleFree(pointer, self.ledger.resource())
                    }
                    error => error,
                })
            }
            Err(error) => Err(error),
            Ok(()) => {
                // SAFETY: as the caller promises.
                let deallocated =
                    unsafe { self.second.deallocate(pointer, bytes, alignment, stream) };
                if let Err(error) = &deallocated {
                    // It still has it: a stream of another device, for one.
                    self.ledger.restore(pointer, (bytes, least), 0, error);
                }
                deallocated
            }
        }
    }

    fn live(&self) -> Live {
        let (first, second) = (self.first.live(), self.second.live());
        Live {
            blocks: first.blocks + second.blocks,
            bytes: first.bytes + second.bytes,
        }
    }

    fn trim(&self) -> Result<u64> {
        Ok(self.first.trim()? + self.second.trim()?)
    }
}
