//! Settings of memory that is mapped where it is needed.

use super::super::ledger::Ledger;
use super::super::{Error, MAX_BYTES, Result};
use super::{Remapping, State};
use crate::device::Device;
use parking_lot::Mutex;

/// Bytes of a granule, if nothing else is said and the device has none that are larger.
const GRANULE: u64 = 2 << 20;
/// Addresses for each byte of memory: one for its home, the others for stitched blocks.
const SPREAD: u64 = 16;
/// Settings of a [`Remapping`] resource.
#[derive(Clone, Debug)]
pub struct RemappingBuilder {
    device: Device,
    most: Option<u64>,
    granule: u64,
}

impl RemappingBuilder {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            most: None,
            granule: GRANULE,
        }
    }

    /// The most bytes of the device that it may have, rounded down to granules: all if nothing is
    /// said.
    #[must_use]
    pub fn most(mut self, bytes: u64) -> Self {
        self.most = Some(bytes);
        self
    }

    /// Bytes of the pieces that physical memory is got and mapped in: 2 MiB if nothing is said. A power of
    /// two, and at least as much as the device's [granule](Device::granule), or it is made so.
    #[must_use]
    pub fn granule(mut self, bytes: u64) -> Self {
        self.granule = bytes;
        self
    }

    /// The resource, which has no memory yet.
    ///
    /// # Errors
    ///
    /// If there are not enough addresses, or a setting makes no sense.
    pub fn build(self) -> Result<Remapping> {
        let granule = self.granule.clamp(1, 1 << 40).next_power_of_two();
        let granule = granule.max(self.device.granule()?);
        let total = self.device.memory_info()?.total.next_multiple_of(granule);
        let asked = self.most.unwrap_or(total);
        let most = asked - asked % granule;
        if most == 0 || most > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("{asked} bytes at most in granules of {granule}"),
                advice: "use at least one granule, and at most 128 TiB",
            });
        }
        let most = most.min(total);
        let range = self.device.reserve(most.saturating_mul(SPREAD), granule)?;
        let mut state = State::default();
        let home_end = range.address() + most;
        state.unused.put(range.address(), most);
        state.rooms.put(home_end, range.bytes() - most);
        Ok(Remapping {
            device: self.device,
            ledger: Ledger::new("a remapping allocator"),
            granule,
            most,
            range,
            state: Mutex::new(state),
        })
    }
}
