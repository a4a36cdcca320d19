//! What is to be measured: the cases of the tests, and how often.

use crate::case::{Case, Test};
use crate::cases::{self, Scope};
use crate::error::{Error, Result};
use scatterheap_host::Device;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Heap where none is said, on the CPU.
const CPU_HEAP_BYTES: u64 = 256 << 20;
/// Heap where none is said, on a GPU: at most this, and at most half of what is free.
const GPU_HEAP_BYTES: u64 = 16 << 30;
/// The smallest heap that the cases can be made for.
const LEAST_HEAP_BYTES: u64 = 16 << 20;
/// The heap that is filled until NULL, if it is not larger than the others.
const FULL_HEAP_BYTES: u64 = 1 << 30;

/// What a run measures. Travels to child processes as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The cases; a run shuffles them by the seed.
    pub cases: Vec<Case>,
    /// Bytes of each allocator's heap, where the test says nothing else.
    pub heap_bytes: u64,
    /// Bytes of the heaps that are filled until NULL.
    pub full_heap_bytes: u64,
    /// Timed launches of each kind.
    pub samples: u32,
    /// Launches before the first that is timed.
    pub warm_ups: u32,
    /// Seconds after which an allocator gets no further samples in a case, if it has three.
    pub patience: f64,
    /// Frees and mallocs that age a heap.
    pub aging_operations: u64,
    /// Rounds of each thread of the test `churn`.
    pub churn_rounds: u32,
    /// Different seeds give different sizes and orders.
    pub seed: u64,
    /// Stripes of scatterheap's classes at most; none: what it takes by itself.
    pub stripes: Option<u32>,
}

/// What a plan is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tests; none: all.
    pub tests: Vec<Test>,
    /// Only cases of these sizes in bytes, the most that their threads ask for; none: all.
    pub sizes: Vec<u64>,
    /// Bytes of the heap; none: what is usual on the device.
    pub heap_bytes: Option<u64>,
    /// Timed launches of each kind; none: what is usual.
    pub samples: Option<u32>,
    /// Fewer sizes, threads, samples, warm-ups, rounds and aging operations: seconds on a CPU.
    pub quick: bool,
    /// Different seeds give different sizes and orders.
    pub seed: u64,
    /// Stripes of scatterheap's classes at most; none: what it takes by itself.
    pub stripes: Option<u32>,
}

impl Plan {
    /// The plan for a device.
    ///
    /// # Errors
    ///
    /// If the heap is too small for the cases, no case has a size asked for, or the device fails.
    pub fn new(device: &Device, settings: &Settings) -> Result<Self> {
        let free_bytes = device.memory_info()?.free;
        let heap_bytes = heap_bytes(device, settings, free_bytes)?;
        let scope = Scope {
            gpu: device.is_gpu(),
            quick: settings.quick,
            heap_bytes,
            free_bytes,
        };
        let tests = match settings.tests.as_slice() {
            [] => &Test::ALL,
            chosen => chosen,
        };
        let cases = of_sizes(cases::of(&scope, tests), &settings.sizes)?;
        let full_heap_bytes = scope.choose(FULL_HEAP_BYTES, FULL_HEAP_BYTES, 64 << 20, 16 << 20);
        Ok(Self {
            cases,
            heap_bytes,
            full_heap_bytes: full_heap_bytes.min(heap_bytes),
            samples: settings.samples.unwrap_or(scope.choose(21, 5, 21, 5)),
            warm_ups: scope.choose(2, 1, 2, 1),
            patience: scope.choose(5.0, 0.5, 5.0, 0.5),
            aging_operations: scope.choose(10_000_000, 1_000_000, 1_000_000, 50_000),
            churn_rounds: scope.choose(64, 64, 16, 16),
            seed: settings.seed,
            stripes: settings.stripes,
        })
    }

    /// Refuses cases that the kernels of their tests cannot do.
    pub(crate) fn check(&self) -> Result<()> {
        self.cases.iter().try_for_each(Case::check)
    }

    /// Bytes of the heap that a case needs; `None`: it makes its own, or needs none.
    #[must_use]
    pub fn heap_of(&self, case: &Case) -> Option<u64> {
        match case.test {
            Test::Oom | Test::Oommix => Some(self.full_heap_bytes),
            Test::Init | Test::Resources => None,
            _ => Some(self.heap_bytes),
        }
    }
}

/// The cases of the sizes asked for.
fn of_sizes(cases: Vec<Case>, sizes: &[u64]) -> Result<Vec<Case>> {
    let has = |size: &u64| cases.iter().any(|case| case.most == *size);
    if let Some(asked) = sizes.iter().find(|size| !has(size)) {
        let known: BTreeSet<_> = cases.iter().map(|case| case.most).collect();
        let known: Vec<_> = known.iter().map(u64::to_string).collect();
        return Err(Error::NoSuchSize {
            asked: *asked,
            known: known.join(", "),
        });
    }
    let is_asked = |case: &Case| sizes.is_empty() || sizes.contains(&case.most);
    Ok(cases.into_iter().filter(is_asked).collect())
}

fn heap_bytes(device: &Device, settings: &Settings, free_bytes: u64) -> Result<u64> {
    let usual = if device.is_gpu() {
        GPU_HEAP_BYTES.min(free_bytes / 2)
    } else {
        CPU_HEAP_BYTES
    };
    let asked = settings.heap_bytes.unwrap_or(usual);
    if asked < LEAST_HEAP_BYTES {
        return Err(Error::HeapTooSmall {
            asked,
            least: LEAST_HEAP_BYTES,
        });
    }
    Ok(asked)
}
