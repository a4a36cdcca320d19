//! Streams of the CPU: work is done when the call that enqueues it returns, so that nothing is left
//! to wait for.

use super::Cpu;
use crate::error::Result;

impl Cpu {
    pub fn create_stream(&self) -> Result<u64> {
        Ok(0)
    }

    pub unsafe fn destroy_stream(&self, _stream: u64) {}

    pub fn synchronize_stream(&self, _stream: u64) -> Result<()> {
        Ok(())
    }

    pub fn record_event(&self, _stream: u64) -> Result<u64> {
        Ok(0)
    }

    pub fn wait_event(&self, _stream: u64, _event: u64) -> Result<()> {
        Ok(())
    }

    pub fn is_event_over(&self, _event: u64) -> Result<bool> {
        Ok(true)
    }

    pub unsafe fn destroy_event(&self, _event: u64) {}

    pub unsafe fn copy_to_on(&self, _stream: u64, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.copy_to(address, bytes) }
    }

    pub unsafe fn clear_on(&self, _stream: u64, address: u64, bytes: u64) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.clear(address, bytes) }
    }

    pub unsafe fn copy_from_on(&self, _stream: u64, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.copy_from(address, bytes) }
    }
}
