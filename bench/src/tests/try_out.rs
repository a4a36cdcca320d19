//! Tries a case on the CPU, for unit tests.

use crate::allocator::{Allocator, Churn, Handle, Request};
use crate::allocators::{Native, Scatterheap};
use crate::case::{Case, Test};
use crate::error::Result;
use crate::plan::Plan;
use crate::row::Event;
use crate::runner;
use scatterheap_host::Device;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Bytes of the heap.
pub(super) const HEAP_BYTES: u64 = 16 << 20;

/// What was found about one allocator, or about a baseline.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub allocator: String,
    figures: BTreeMap<String, f64>,
}

/// Tries the allocators that come along, which must not fail.
pub(super) fn try_out(case: Case) -> Vec<Found> {
    let device = Device::cpu_with_threads(2);
    let allocators: Vec<Box<dyn Allocator>> = vec![
        Box::new(Scatterheap::new(&device)),
        Box::new(Native::new(&device)),
    ];
    let mut found = measure(case, &device, allocators);
    found.retain(|found| ["scatterheap", "system"].contains(&found.allocator.as_str()));
    assert_eq!(found.len(), 2);
    found
}

/// Tries an allocator whose `free` does nothing.
pub(super) fn try_out_leaking(case: Case) -> Found {
    let device = Device::cpu_with_threads(2);
    let mut found = measure(
        case,
        &device,
        vec![Box::new(Leaking(Scatterheap::new(&device)))],
    );
    found.retain(|found| found.allocator == "leaking");
    found.pop().expect("it takes every test")
}

/// Tries the baseline of the case's test.
pub(super) fn try_baseline(case: Case) -> Found {
    let mut found = measure(case, &Device::cpu_with_threads(2), Vec::new());
    found.pop().expect("the test has a baseline")
}

/// An allocator whose `free` does nothing.
struct Leaking(Scatterheap);

// SAFETY: all is that of scatterheap, but that blocks are never free again.
unsafe impl Allocator for Leaking {
    fn name(&self) -> &'static str {
        "leaking"
    }

    fn device(&self) -> Option<&Device> {
        self.0.device()
    }

    fn can(&self, test: Test) -> bool {
        self.0.can(test)
    }

    fn handle(&self) -> Option<Handle> {
        self.0.handle()
    }

    fn create(&mut self, bytes: u64) -> Result<()> {
        self.0.create(bytes)
    }

    fn destroy(&mut self) {
        self.0.destroy();
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    unsafe fn allocate(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.0.allocate(request) }
    }

    unsafe fn free(&mut self, _: &Request) -> Result<()> {
        Ok(())
    }

    unsafe fn allocate_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.0.allocate_of_warps(request) }
    }

    unsafe fn free_of_warps(&mut self, _: &Request) -> Result<()> {
        Ok(())
    }

    unsafe fn churn(&mut self, churn: &Churn) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.0.churn(churn) }
    }
}

fn measure(case: Case, device: &Device, mut allocators: Vec<Box<dyn Allocator>>) -> Vec<Found> {
    let plan = Plan {
        cases: vec![case],
        heap_bytes: HEAP_BYTES,
        full_heap_bytes: HEAP_BYTES,
        samples: 3,
        warm_ups: 1,
        patience: 1.0,
        aging_operations: 0,
        churn_rounds: 1,
        seed: 1,
        stripes: None,
    };
    let mut found = BTreeMap::<String, Found>::new();
    let mut on_event = |event: Event| match event {
        Event::Begin { .. } => {}
        Event::Row(row) => {
            let of_allocator = found.entry(row.allocator.clone()).or_default();
            of_allocator.allocator = row.allocator;
            of_allocator.figures.insert(row.metric, row.value);
        }
        Event::Failed {
            allocator, reason, ..
        } => panic!("{allocator}: {reason}"),
    };
    let never = AtomicBool::new(false);
    runner::run(&plan, device, &mut allocators, &never, &mut on_event).expect("a CPU is not lost");
    found.into_values().collect()
}

impl Found {
    /// A figure, which must be there.
    pub fn value(&self, metric: &str) -> f64 {
        let value = self.figures.get(metric);
        *value.unwrap_or_else(|| panic!("no {metric}: {self:?}"))
    }

    /// These figures are there, with a spread if they were sampled, and no others; speeds and times
    /// are above 0.
    pub fn expect_metrics(&self, metrics: &[&str]) {
        for (metric, value) in &self.figures {
            let name = metric.trim_end_matches("_p10").trim_end_matches("_p90");
            assert!(metrics.contains(&name), "{metric}: {self:?}");
            assert!(value.is_finite(), "{metric}: {self:?}");
        }
        for metric in metrics.iter().filter(|metric| metric.contains('_')) {
            let (low, high) = (format!("{metric}_p10"), format!("{metric}_p90"));
            let values = [&low, *metric, &high].map(|metric| self.value(metric));
            assert!(values[0] > 0.0 && values.is_sorted(), "{metric}: {self:?}");
        }
    }

    /// These counts are there, and 0.
    pub fn expect_zero(&self, counts: &[&str]) {
        for count in counts {
            assert!(self.value(count).abs() < f64::EPSILON, "{count}: {self:?}");
        }
    }
}
