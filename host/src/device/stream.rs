//! Streams: queues of work of a device, and events, which mark places in them.
//!
//! Work of one stream runs in order, works of different streams run in any order unless one is made
//! to wait for an [`Event`] of the other. On a GPU these are CUDA's
//! [streams](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html). On the CPU work
//! is done when the call that enqueues it returns, so that there is never anything to wait for.

use super::{Device, Kind};
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks identities that are handles of the driver.
const ADOPTED: u64 = 1 << 63;

/// Identity of the next stream that is made here. 0 is each device's default stream.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A queue of work of a device. Clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    device: Device,
    id: u64,
    /// The driver's handle; 0 for the default stream, and on the CPU.
    handle: u64,
    generation: u64,
    owned: bool,
}

impl Stream {
    fn with(device: &Device, id: u64, handle: u64, owned: bool) -> Self {
        Self(Arc::new(Inner {
            device: device.clone(),
            id,
            handle,
            generation: device.generation(),
            owned,
        }))
    }

    /// A new stream. It does not wait for the default stream, nor the default stream for it.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn new(device: &Device) -> Result<Self> {
        let handle = either!(device, device => device.create_stream())?;
        // Relaxed: the numbers only have to differ.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self::with(device, id, handle, true))
    }

    /// The device's default stream: where [`Device::launch`] enqueues.
    #[must_use]
    pub fn default_of(device: &Device) -> Self {
        Self::with(device, 0, 0, false)
    }

    /// A stream that the caller brings: a `CUstream` of the device's primary context. On the CPU the
    /// handle only tells streams apart. The handles 0 and 1 (`CU_STREAM_LEGACY`) are the default
    /// stream.
    ///
    /// # Safety
    ///
    /// The stream must not be destroyed before the last clone is dropped and before the last
    /// [resource](crate::resource) that it was used with. It must not be `CU_STREAM_PER_THREAD`, which
    /// is a different stream in each thread.
    #[must_use]
    pub unsafe fn adopt(device: &Device, handle: u64) -> Self {
        if handle <= 1 {
            return Self::default_of(device);
        }
        Self::with(device, handle | ADOPTED, handle, false)
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Tells the streams of a device apart; 0 is the default stream.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn handle(&self) -> u64 {
        self.0.handle
    }

    /// Whether there are other clones.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Whether the device was not lost since the stream was made.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.generation == self.0.device.generation() && !self.0.device.is_lost()
    }

    /// An error if it was.
    pub(crate) fn alive(&self) -> Result<()> {
        if self.is_alive() {
            return Ok(());
        }
        Err(self.0.device.why_lost())
    }

    /// Waits until all work that was enqueued is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn synchronize(&self) -> Result<()> {
        self.alive()?;
        either!(self.0.device, device => device.synchronize_stream(self.0.handle))
    }

    /// Marks this place: the event is over when all work that was enqueued so far is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn record(&self) -> Result<Event> {
        self.alive()?;
        self.0.device.called(1);
        let handle = either!(self.0.device, device => device.record_event(self.0.handle))?;
        Ok(Event {
            stream: self.clone(),
            handle,
        })
    }

    /// Lets all work that is enqueued from now on begin only when the event is over. Does not wait
    /// itself.
    ///
    /// # Errors
    ///
    /// If the event is of another device, or the device fails.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.alive()?;
        event.stream.alive()?;
        if !self.0.device.is_same(event.stream.device()) {
            return Err(Error::WrongStream {
                stream: event.stream.device().label(),
                used: self.0.device.label(),
            });
        }
        self.0.device.called(1);
        either!(self.0.device, device => device.wait_event(self.0.handle, event.handle))
    }

    /// Copies to the device, after all work that was enqueued, and waits for it.
    pub(crate) unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.alive()?;
        // SAFETY: as the caller promises.
        either!(self.0.device, device => unsafe {
            device.copy_to_on(self.0.handle, address, bytes)
        })
    }

    /// Sets bytes to zero, after all work that was enqueued, and waits for it.
    pub(crate) unsafe fn clear(&self, address: u64, bytes: u64) -> Result<()> {
        self.alive()?;
        // SAFETY: as the caller promises.
        either!(self.0.device, device => unsafe {
            device.clear_on(self.0.handle, address, bytes)
        })
    }

    /// Copies from the device, after all work that was enqueued, and waits for it.
    pub(crate) unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.alive()?;
        // SAFETY: as the caller promises.
        either!(self.0.device, device => unsafe {
            device.copy_from_on(self.0.handle, address, bytes)
        })
    }
}

impl Stream {
    /// Copies from the memory of a GPU while its kernels use it, after all work that was enqueued here, and waits for
    /// that, but for no other stream. The bytes are of slightly different moments. What a kernel did wrong
    /// is left for others to find.
    ///
    /// # Safety
    ///
    /// As many bytes must be there, and stay so meanwhile.
    pub(crate) unsafe fn peek(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.alive()?;
        match &self.0.device.0.kind {
            Kind::Cpu(_) => unreachable!(
                "what a CPU has is looked at where it is: {address:#x}, {}",
                bytes.len()
            ),
            #[cfg(feature = "cuda")]
            // SAFETY: as the caller promises.
            Kind::Cuda(cuda) => unsafe { cuda.peek_on(self.0.handle, address, bytes) },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let alive = self.generation == self.device.generation() && !self.device.is_lost();
        if self.owned && alive {
            // SAFETY: made by the device, and nobody has it any more. Work that is enqueued is still
            // done.
            either!(self.device, device => unsafe { device.destroy_stream(self.handle) });
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id && self.0.device.is_same(&other.0.device)
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Stream({} of {})",
            self.0.id,
            self.0.device.label()
        )
    }
}

/// A place in a stream.
#[derive(Debug)]
pub struct Event {
    stream: Stream,
    handle: u64,
}

impl Event {
    /// Whether all work before it is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn is_over(&self) -> Result<bool> {
        self.stream.alive()?;
        either!(self.stream.0.device, device => device.is_event_over(self.handle))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.stream.is_alive() {
            // SAFETY: made by the device, and nobody has it any more. Who waits for it still does.
            either!(self.stream.0.device, device => unsafe { device.destroy_event(self.handle) });
        }
    }
}
