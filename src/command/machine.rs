//! Where and when something was run or measured, and with what.

use jiff::Timestamp;
use scatterheap::Device;
use serde::{Deserialize, Serialize};

/// The commit that this program was built from, if that was known, and a mark of what was changed since.
const COMMIT: Option<&str> = option_env!("SCATTERHEAP_COMMIT");

/// The machine, the program, and the time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// How the device is selected.
    pub selector: String,
    /// What it is, for people.
    pub device: String,
    /// Whether it is a GPU.
    pub gpu: bool,
    /// Version of CUDA that the driver speaks.
    pub driver: Option<String>,
    /// Version of scatterheap.
    pub version: String,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// When it was run, in UTC.
    pub date: String,
}

impl Machine {
    pub fn new(device: &Device) -> Self {
        Self {
            selector: device.label(),
            device: device.name(),
            gpu: device.is_gpu(),
            driver: Device::driver_version().filter(|_| device.is_gpu()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: COMMIT
                .filter(|commit| !commit.is_empty())
                .map(str::to_owned),
            date: Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let mut parts = vec![format!("{} ({})", self.selector, self.device)];
        if let Some(driver) = &self.driver {
            parts.push(format!("driver for CUDA {driver}"));
        }
        let commit = self
            .commit
            .as_ref()
            .map(|commit| format!(", commit {commit}"));
        parts.push(format!(
            "scatterheap {}{}",
            self.version,
            commit.unwrap_or_default()
        ));
        parts.push(self.date.clone());
        parts.join("; ")
    }
}
