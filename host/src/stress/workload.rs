//! The workloads, and how large they are.

use super::misuse::BAIT;
use crate::error::{Error, Result};
use crate::heap::Heap;
use heap_core::hardened::Hardening;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A way to try a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// All threads allocate the same size, then all free.
    Uniform,
    /// All threads allocate sizes of a range, then all free.
    Mixed,
    /// Every thread holds a few blocks and replaces them again and again.
    Churn,
    /// Blocks are allocated by one thread and freed by another, far away.
    CrossWarp,
    /// Lanes of a warp do different things: calls, sizes, orders, lifetimes.
    Divergent,
    /// Blocks double by `realloc`.
    Grow,
    /// All threads allocate until nothing is left, then give everything back, twice.
    Exhaust,
    /// Pointers of every kind of misuse are passed among good ones.
    Misuse,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 8] = [
        Self::Uniform,
        Self::Mixed,
        Self::Churn,
        Self::CrossWarp,
        Self::Divergent,
        Self::Grow,
        Self::Exhaust,
        Self::Misuse,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Mixed => "mixed",
            Self::Churn => "churn",
            Self::CrossWarp => "cross-warp",
            Self::Divergent => "divergent",
            Self::Grow => "grow",
            Self::Exhaust => "exhaust",
            Self::Misuse => "misuse",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|workload| workload.name() == text)
            .ok_or_else(|| format!("`{text}` is no workload: use one of {}", names()))
    }
}

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Threads.
    pub threads: u32,
    /// Rounds: launches of `uniform` and `mixed`, steps of each thread otherwise.
    pub rounds: u32,
    /// Smallest request in bytes.
    pub least: u64,
    /// Largest request in bytes.
    pub most: u64,
    /// Different seeds give different sizes and orders.
    pub seed: u64,
    /// Moments at which the heap is looked at between launches, about; none if it is 0.
    pub moments: u32,
}

/// Smallest request of workloads whose blocks carry a letterhead.
const LETTERHEAD: u64 = 16;

impl Settings {
    /// Settings that suit a workload and a heap: a GPU gets 2^20 threads, the CPU 2^12.
    #[must_use]
    pub fn for_workload(workload: Workload, heap: &Heap) -> Self {
        let gpu = heap.device().is_gpu();
        let threads = if gpu { 1 << 20 } else { 1 << 12 };
        // Blocks live at once should take half of the heap at most, where they are not to fill it.
        let share = (heap.capacity() / 2 / u64::from(threads)).max(16);
        let (rounds, least, most) = match workload {
            Workload::Uniform => (8, 64, 64),
            Workload::Mixed => (8, 16, 8192.min(share)),
            Workload::Churn => (64, 16, 4096.min(share / 4).max(16)),
            Workload::CrossWarp => (32, LETTERHEAD, 1024.min(share / 2).max(LETTERHEAD)),
            Workload::Divergent => (32, 1, 4096.min(share / 2).max(16)),
            Workload::Grow => (
                2,
                16,
                if gpu { 4096 } else { 65_536 }.min(share / 2).max(16),
            ),
            Workload::Misuse => (1, 2 * BAIT, 256.min(share / 4).max(2 * BAIT)),
            Workload::Exhaust => (
                1 << 20,
                LETTERHEAD,
                16_384.min(heap.capacity() / 64).max(64),
            ),
        };
        Self {
            threads,
            rounds,
            least,
            most,
            seed: 1,
            moments: 0,
        }
    }

    /// Refuses settings that make no sense for a workload on a heap.
    ///
    /// # Errors
    ///
    /// If there are no threads or rounds, sizes are out of order or larger than the heap, or
    /// smaller than the workload's blocks must be.
    pub fn check(&self, workload: Workload, heap: &Heap) -> Result<()> {
        let bad = |asked: String, advice: &'static str| Err(Error::BadSettings { asked, advice });
        let letterhead = matches!(workload, Workload::CrossWarp | Workload::Exhaust);
        if self.threads == 0 || self.rounds == 0 {
            let asked = format!("{} threads and {} rounds", self.threads, self.rounds);
            return bad(asked, "use at least one of each");
        }
        if self.least == 0 || self.least > self.most {
            let asked = format!("sizes from {} to {} bytes", self.least, self.most);
            return bad(
                asked,
                "the smallest must be at least 1 and at most the largest",
            );
        }
        if letterhead && self.least < LETTERHEAD {
            let asked = format!("sizes from {} bytes for {workload}", self.least);
            return bad(asked, "its blocks need 16 bytes or more");
        }
        if workload == Workload::Misuse && self.least < 2 * BAIT {
            let asked = format!("sizes from {} bytes for {workload}", self.least);
            return bad(asked, "its blocks need 32 bytes or more");
        }
        if workload == Workload::Misuse && heap.hardening().contains(Hardening::TRAP) {
            let asked = format!("bad calls ({workload}) on a heap that traps");
            return bad(asked, "leave out the mode `trap`, which ends its kernels");
        }
        if self.most > heap.capacity() {
            let asked = format!("sizes up to {} bytes", self.most);
            return bad(asked, "no request may be larger than the heap");
        }
        Ok(())
    }
}
