//! Streams that others made, as the resources know them.
//!
//! Each thread has its own list, so that the usual call finds its stream without meeting another thread, and without
//! allocating one anew.
//!
//! What is promised about foreign streams rests on what their owner promises: that a stream is not destroyed before
//! the resource is. Resources record an event on a stream when its memory goes to another stream, which may be long
//! after its last use.

use crate::error::{Error, Result};
use scatterheap_host::{Device, Stream, ThreadSlots};
use std::cell::RefCell;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;
/// The most streams that a thread remembers. `PyTorch` has 32 of each priority for each device.
const MOST: usize = 128;

/// The streams that were used with a resource.
#[derive(Debug, Default)]
pub struct Streams(ThreadSlots<RefCell<Vec<(u64, Stream)>>>);

impl Streams {
    /// Calls `body` with the stream of this handle.
    ///
    /// # Errors
    ///
    /// If it is the per-thread stream, and those of the body.
    ///
    /// # Safety
    ///
    /// On a GPU the handle must be 0 or 1, that of the per-thread stream, which is refused, or that of a stream of the device's primary
    /// context which is not destroyed before these streams are dropped, and whatever `body` brings it to.
    #[inline]
    pub unsafe fn with<T>(
        &self,
        device: &Device,
        handle: u64,
        body: impl FnOnce(&Stream) -> Result<T>,
    ) -> Result<T> {
        let Some(own) = self.0.own() else {
            // SAFETY: as the caller promises.
            return unsafe { with_anew(device, handle, body) };
        };
        let mut known = own.borrow_mut();
        match known.first() {
            Some((first, stream)) if *first == handle => body(stream),
            _ => {
                // SAFETY: as the caller promises.
                unsafe { find(&mut known, device, handle) }?;
                body(&known[0].1)
            }
        }
    }
}

/// The same in a thread that ends and has no list any more.
///
/// # Safety
///
/// As for [`Streams::with`].
#[cold]
unsafe fn with_anew<T>(
    device: &Device,
    handle: u64,
    body: impl FnOnce(&Stream) -> Result<T>,
) -> Result<T> {
    let mut known = Vec::new();
    // SAFETY: as the caller promises.
    unsafe { find(&mut known, device, handle) }?;
    body(&known[0].1)
}

/// Puts the stream to the front of the list.
///
/// # Safety
///
/// As for [`Streams::with`].
#[cold]
unsafe fn find(known: &mut Vec<(u64, Stream)>, device: &Device, handle: u64) -> Result<()> {
    if handle == PER_THREAD && device.is_gpu() {
        return Err(Error::PerThreadStream);
    }
    let place = known.iter().position(|(other, _)| *other == handle);
    let entry = match place {
        Some(place) => known.remove(place),
        // SAFETY: as the caller promises, and it is not the per-thread stream of a GPU.
        None => (handle, unsafe { Stream::adopt(device, handle) }),
    };
    known.insert(0, entry);
    known.truncate(MOST);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_same_stream_each_time() {
        let device = Device::cpu();
        let streams = Streams::default();
        // SAFETY: on the CPU streams are any numbers.
        let id = |handle| unsafe { streams.with(&device, handle, |stream| Ok(stream.id())) };
        let ids: Vec<_> = (0..2 * MOST as u64)
            .map(|handle| id(handle << 8).expect("a stream"))
            .collect();
        for (handle, expected) in ids.iter().enumerate().rev() {
            assert_eq!(id((handle as u64) << 8).expect("a stream"), *expected);
        }
        assert_eq!(ids[0], 0, "the default stream");
        assert_eq!(id(1).expect("a stream"), 0, "its other name");
        assert_ne!(ids[1], ids[2]);
        let known = streams.0.own().expect("no thread ends").borrow().len();
        assert_eq!(known, MOST);
    }
}
