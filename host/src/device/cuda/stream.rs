//! Streams and events of a GPU. (CUDA driver API, "Stream Management" and "Event Management".)
//!
//! None of these calls takes the lock of the state, as some wait.

use super::{Cuda, failed};
use crate::error::Result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream};
use cudarc::driver::{DriverError, result};

fn stream_of(handle: u64) -> CUstream {
    handle as CUstream
}

fn event_of(handle: u64) -> CUevent {
    handle as CUevent
}

impl Cuda {
    pub fn create_stream(&self) -> Result<u64> {
        self.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("make a stream"))?;
        Ok(stream as u64)
    }

    pub unsafe fn destroy_stream(&self, stream: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _destroyed = unsafe { result::stream::destroy(stream_of(stream)) };
        }
    }

    pub fn synchronize_stream(&self, stream: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream lives as long as who calls.
        unsafe { result::stream::synchronize(stream_of(stream)) }
            .map_err(|error| self.judge("wait for a stream", error))
    }

    pub fn record_event(&self, stream: u64) -> Result<u64> {
        self.enter()?;
        let judge = |error| self.judge("record an event", error);
        let event = result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(judge)?;
        // SAFETY: the event was just made in the current context, and the stream is of it.
        unsafe { result::event::record(event, stream_of(stream)) }.map_err(|error| {
            // SAFETY: nobody has the event. The error that counts is the first.
            let _destroyed = unsafe { result::event::destroy(event) };
            judge(error)
        })?;
        Ok(event as u64)
    }

    pub fn wait_event(&self, stream: u64, event: u64) -> Result<()> {
        self.enter()?;
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event live as long as who calls.
        unsafe { result::stream::wait_event(stream_of(stream), event_of(event), flags) }
            .map_err(|error| self.judge("let a stream wait", error))
    }

    pub fn is_event_over(&self, event: u64) -> Result<bool> {
        self.enter()?;
        // SAFETY: the event lives as long as who calls.
        match unsafe { result::event::query(event_of(event)) } {
            Ok(()) => Ok(true),
            Err(DriverError(CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(self.judge("look at an event", error)),
        }
    }

    pub unsafe fn destroy_event(&self, event: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _destroyed = unsafe { result::event::destroy(event_of(event)) };
        }
    }

    pub unsafe fn copy_to_on(&self, stream: u64, address: u64, bytes: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises; the bytes are not needed any more when it is waited for.
        unsafe { result::memcpy_htod_async(address, bytes, stream_of(stream)) }
            .map_err(|error| self.judge("copy to the device", error))?;
        self.synchronize_stream(stream)
    }

    pub unsafe fn clear_on(&self, stream: u64, address: u64, bytes: u64) -> Result<()> {
        self.enter()?;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: as the caller promises.
        unsafe { result::memset_d8_async(address, 0, length, stream_of(stream)) }
            .map_err(|error| self.judge("clear memory", error))?;
        self.synchronize_stream(stream)
    }

    pub unsafe fn copy_from_on(&self, stream: u64, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises; all is written when it was waited for.
        unsafe { result::memcpy_dtoh_async(bytes, address, stream_of(stream)) }
            .map_err(|error| self.judge("copy from the device", error))?;
        self.synchronize_stream(stream)
    }

    /// As [`copy_from_on`](Self::copy_from_on), beside kernels: a fault of theirs is not this call's to tell.
    pub unsafe fn peek_on(&self, stream: u64, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        let stream = stream_of(stream);
        // SAFETY: as the caller promises; all is written when it was waited for.
        unsafe {
            result::memcpy_dtoh_async(bytes, address, stream)
                .and_then(|()| result::stream::synchronize(stream))
        }
        .map_err(failed("copy from the device beside kernels"))
    }
}
