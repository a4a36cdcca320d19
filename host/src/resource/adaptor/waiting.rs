//! Lets whoever can wait do so until there is memory.
//!
//! Who waits is in a list of wakers. A future first enters the list and then tries to allocate; who
//! deallocates first gives the block back and then looks at the list. So one of both sees the other,
//! and no wake-up is lost. All are woken at each deallocation while there are any: whoever finds
//! enough takes it, whatever the others ask for.

use super::super::{DevicePointer, Live, MemoryResource, Result};
use super::HandedOut;
use crate::device::{Device, MemoryInfo, Stream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::{Context, Poll, Waker};

/// Has [`allocate_async`](Self::allocate_async), which waits while memory is out. What is to wake who
/// waits must be deallocated through this adaptor, also where it was allocated from a shared upstream. All else goes
/// through.
///
/// ```
/// use scatterheap_host::resource::{DeviceMemory, Limiting, MemoryResource, Waiting};
/// use scatterheap_host::{Device, Stream};
/// # async fn example() -> Result<(), scatterheap_host::resource::Error> {
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let memory = Waiting::new(Limiting::new(DeviceMemory::new(&device), 1 << 20));
/// let block = memory.allocate_async(1 << 20, 256, &stream).await?;
/// // SAFETY: nothing uses it.
/// unsafe { memory.deallocate(block, 1 << 20, 256, &stream) }?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Waiting<U> {
    upstream: U,
    handed_out: HandedOut,
    /// As many as these, and those that are being allocated or deallocated now.
    busy: AtomicU64,
    /// As many as there are in the list, for those who look without its lock.
    in_list: AtomicU64,
    list: Mutex<List>,
    /// Held by who waits and tries to allocate, so that none fails because of what another one tries.
    attempting: Mutex<()>,
}

#[derive(Debug, Default)]
struct List {
    wakers: BTreeMap<u64, Waker>,
    /// The number that the next in the list gets.
    next: u64,
}

impl<U: MemoryResource> Waiting<U> {
    /// Nobody waits yet.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        Self {
            upstream,
            handed_out: HandedOut::new("a waiting adaptor"),
            busy: AtomicU64::new(0),
            in_list: AtomicU64::new(0),
            list: Mutex::default(),
            attempting: Mutex::new(()),
        }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Those who wait now.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        // Relaxed: a number of no moment in particular.
        self.in_list.load(Ordering::Relaxed)
    }

    /// Allocates as [`allocate`](MemoryResource::allocate) does, but waits while memory is out and
    /// something is handed out through this adaptor that may come back. Any executor can drive it. It can be dropped at
    /// any time: then nothing is allocated.
    ///
    /// The future gives an error if nothing is handed out through it and there is still not enough, or for any
    /// other reason than that memory is out.
    #[must_use = "a future does nothing unless it is polled"]
    pub fn allocate_async<'a>(
        &'a self,
        bytes: u64,
        alignment: u64,
        stream: &'a Stream,
    ) -> Waiter<'a, U> {
        Waiter {
            resource: self,
            request: (bytes, alignment, stream),
            place: None,
        }
    }

    /// Wakes all who wait.
    fn wake(&self) {
        // SeqCst: what was given back comes before this look, and in `poll` the place in the list
        // before the attempt to allocate. Of two such fences one comes first, so that either this
        // look sees the place, or the attempt sees what was given back.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.in_list.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let wakers: Vec<_> = self.list.lock().wakers.values().cloned().collect();
        // Without the lock, as a waker may poll at once.
        for waker in wakers {
            waker.wake();
        }
    }

    /// Puts a waker into the list, in place of the last one of the same future.
    fn enter(&self, place: Option<u64>, waker: &Waker) -> u64 {
        let mut list = self.list.lock();
        let place = place.unwrap_or_else(|| {
            list.next += 1;
            list.next
        });
        list.wakers.insert(place, waker.clone());
        // Relaxed: ordered by the fence in `poll`.
        self.in_list
            .store(list.wakers.len() as u64, Ordering::Relaxed);
        place
    }

    fn leave(&self, place: u64) {
        let mut list = self.list.lock();
        list.wakers.remove(&place);
        // Relaxed: who reads a number that is too high only looks in vain.
        self.in_list
            .store(list.wakers.len() as u64, Ordering::Relaxed);
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U: MemoryResource> MemoryResource for Waiting<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        // Raised before: whoever fails meanwhile must not think that nothing can come back.
        // Relaxed, here and below: the fences order it.
        self.busy.fetch_add(1, Ordering::Relaxed);
        let allocated = self.upstream.allocate(bytes, alignment, stream);
        if let Ok(block) = allocated {
            self.handed_out.insert(block, bytes, alignment)?;
        } else {
            self.busy.fetch_sub(1, Ordering::Relaxed);
            // Somebody may have waited for this attempt, which held something back.
            self.wake();
        }
        allocated
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let (blocks, upstream) = (&self.handed_out, &self.upstream);
        // SAFETY: as the caller promises.
        let (is_gone, deallocated) =
            unsafe { blocks.deallocate(upstream, pointer, bytes, alignment, stream) };
        if is_gone {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        // Also of one that another thread gave back: who waits may do so for nothing now.
        if is_gone || deallocated.is_ok() {
            self.wake();
        }
        deallocated
    }

    fn live(&self) -> Live {
        self.upstream.live()
    }

    fn trim(&self) -> Result<u64> {
        self.upstream.trim()
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.upstream.memory()
    }
}

/// A block that [`Waiting::allocate_async`] waits for.
#[derive(Debug)]
pub struct Waiter<'a, U: MemoryResource> {
    resource: &'a Waiting<U>,
    request: (u64, u64, &'a Stream),
    /// Its place in the list, if it is there.
    place: Option<u64>,
}

impl<U: MemoryResource> Waiter<'_, U> {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.resource.leave(place);
        }
    }

    /// Tries once; nothing if memory is out and may come back.
    fn attempt(&self) -> Option<Result<DevicePointer>> {
        let (bytes, alignment, stream) = self.request;
        let resource = self.resource;
        let _alone = resource.attempting.lock();
        // Relaxed: who had a block before and has none now woke us, as we are in the list.
        let before = resource.busy.fetch_add(1, Ordering::Relaxed);
        match resource.upstream.allocate(bytes, alignment, stream) {
            Ok(block) => {
                let noted = resource.handed_out.insert(block, bytes, alignment);
                Some(noted.map(|()| block))
            }
            Err(error) => {
                resource.busy.fetch_sub(1, Ordering::Relaxed);
                (before == 0 || !error.is_out_of_memory()).then_some(Err(error))
            }
        }
    }
}

impl<U: MemoryResource> Future for Waiter<'_, U> {
    type Output = Result<DevicePointer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let place = self.resource.enter(self.place, context.waker());
        self.place = Some(place);
        // SeqCst: see `wake`.
        fence(Ordering::SeqCst);
        match self.attempt() {
            Some(result) => {
                self.leave();
                if result.is_err() {
                    // Perhaps others wait for nothing too.
                    self.resource.wake();
                }
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl<U: MemoryResource> Drop for Waiter<'_, U> {
    fn drop(&mut self) {
        self.leave();
    }
}
