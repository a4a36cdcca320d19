//! Which GPUs a PTX module is for: the lowest compute capability that it runs on, and the PTX
//! version it is written in.

use std::fmt;

/// The oldest GPU and the oldest driver that a PTX module is meant for.
///
/// A module runs on every GPU of the same or a newer compute capability, because the driver
/// compiles it for the GPU that is there. A program that embeds several modules loads the one with
/// the highest baseline that the GPU reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Baseline {
    major: u32,
    minor: u32,
    ptx_version: u32,
}

impl Baseline {
    /// Turing and newer: the oldest GPUs that CUDA 13 supports.
    ///
    /// Written in PTX 7.8, the version of CUDA 11.8, so every driver of CUDA 12 or newer loads it.
    pub const SM_75: Self = Self::new(7, 5, 78);

    /// Ampere and newer, which have `redux.sync`.
    ///
    /// Written in PTX 7.8, the version of CUDA 11.8, so every driver of CUDA 12 or newer loads it.
    pub const SM_80: Self = Self::new(8, 0, 78);

    /// A baseline of compute capability `major.minor` in PTX version `ptx_version`, written as in
    /// the name of the compiler's feature: 78 is PTX 7.8. Compilers know the versions only from 32
    /// on, and not every number.
    #[must_use]
    pub const fn new(major: u32, minor: u32, ptx_version: u32) -> Self {
        Self {
            major,
            minor,
            ptx_version,
        }
    }

    /// The compute capability, as (major, minor).
    #[must_use]
    pub const fn compute_capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// Whether a GPU of this compute capability, as (major, minor), can run the module.
    #[must_use]
    pub const fn runs_on(self, compute_capability: (u32, u32)) -> bool {
        let (major, minor) = compute_capability;
        major > self.major || (major == self.major && minor >= self.minor)
    }

    /// What the compiler is given as `-C target-cpu`, and what a PTX file says as `.target`:
    /// `sm_80`.
    #[must_use]
    pub fn target_cpu(self) -> String {
        format!("sm_{}{}", self.major, self.minor)
    }

    /// What the compiler is given as `-C target-feature`: `+ptx78`.
    #[must_use]
    pub fn target_feature(self) -> String {
        format!("+ptx{}", self.ptx_version)
    }

    /// The name of the file that holds the module of this crate: `my-kernels.sm_80.ptx`.
    #[must_use]
    pub fn file_name(self, crate_name: &str) -> String {
        format!("{crate_name}.{}.ptx", self.target_cpu())
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.target_cpu())
    }
}

#[cfg(test)]
mod tests {
    use super::Baseline;

    #[test]
    fn names_are_the_compilers() {
        assert_eq!(Baseline::SM_75.target_cpu(), "sm_75");
        assert_eq!(Baseline::new(12, 0, 87).target_cpu(), "sm_120");
        assert_eq!(Baseline::SM_80.target_feature(), "+ptx78");
        assert_eq!(Baseline::SM_80.file_name("kernels"), "kernels.sm_80.ptx");
    }

    #[test]
    fn runs_on_the_same_and_newer() {
        assert!(Baseline::SM_80.runs_on((8, 0)));
        assert!(Baseline::SM_80.runs_on((9, 0)));
        assert!(Baseline::SM_80.runs_on((12, 0)));
        assert!(!Baseline::SM_80.runs_on((7, 5)));
    }
}
