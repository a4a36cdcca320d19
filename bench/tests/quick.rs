//! A quick run of everything on the CPU: every case of every allocator ends, with the figures that it
//! should have, and nothing is found wrong.

use scatterheap_bench::allocators::{Floor, Native, Scatterheap};
use scatterheap_bench::{Allocator, Event, Plan, Row, Settings, Test, run};
use scatterheap_host::Device;
use std::sync::atomic::AtomicBool;

fn settings(tests: &[Test]) -> Settings {
    Settings {
        sizes: Vec::new(),
        tests: tests.to_vec(),
        heap_bytes: Some(64 << 20),
        samples: Some(3),
        quick: true,
        seed: 1,
        stripes: None,
    }
}

/// The rows of a quick run. Nothing may fail.
fn rows_of(tests: &[Test]) -> (Plan, Vec<Row>) {
    let device = Device::cpu();
    let plan = Plan::new(&device, &settings(tests)).expect("the heap is large enough");
    let mut allocators: Vec<Box<dyn Allocator>> = vec![
        Box::new(Floor::new(&device)),
        Box::new(Scatterheap::new(&device)),
        Box::new(Native::new(&device)),
    ];
    let mut rows = Vec::new();
    let never = AtomicBool::new(false);
    run(
        &plan,
        &device,
        &mut allocators,
        &never,
        &mut |event| match event {
            Event::Row(row) => rows.push(row),
            Event::Begin { .. } => {}
            Event::Failed {
                case,
                allocator,
                reason,
            } => panic!("{allocator}, {case}: {reason}"),
        },
    )
    .expect("the CPU is not lost");
    (plan, rows)
}

/// The metrics that an allocator must have in a test, of those that come along.
fn expected(test: Test, allocator: &str) -> &'static [&'static str] {
    let floor = allocator == "floor";
    let system = allocator == "system";
    match test {
        Test::Uniform
        | Test::Mixed
        | Test::Sizes
        | Test::Scale
        | Test::MixedScale
        | Test::Warp
        | Test::Large
            if floor =>
        {
            &["alloc_us", "alloc_us_p10", "alloc_us_p90", "free_us"]
        }
        Test::UniformAged
        | Test::MixedAged
        | Test::SizesAged
        | Test::MixedChurned
        | Test::UniformNew
        | Test::MixedNew
            if floor =>
        {
            &["alloc_us", "free_us"]
        }
        _ if floor => &[],
        Test::Workgen => &["workgen_us"],
        Test::Access => &["read_gbps"],
        Test::Graph => &["insert_us", "delete_us"],
        Test::AllocHeavy => &["realloc_us"],
        Test::Uniform
        | Test::Mixed
        | Test::Sizes
        | Test::Scale
        | Test::MixedScale
        | Test::Warp
        | Test::Large => &[
            "alloc_us",
            "free_us",
            "free_us_p90",
            "requests",
            "null",
            "corrupt",
            "range_ratio",
        ],
        Test::Churn => &["churn_us", "churn_us_p10", "requests", "null", "corrupt"],
        Test::Latency => &[
            "alloc_ns",
            "alloc_p99_ns",
            "alloc_p999_ns",
            "alloc_max_ns_p90",
            "free_ns",
            "free_max_ns",
            "requests",
            "null",
            "corrupt",
        ],
        Test::Resources => &[],
        _ if system => &[],
        Test::UniformAged | Test::MixedAged | Test::SizesAged => {
            &["alloc_us", "free_us", "null", "corrupt", "aged_null"]
        }
        Test::MixedChurned => &["alloc_us", "free_us", "null", "corrupt", "churned_null"],
        Test::UniformNew | Test::MixedNew => {
            &["alloc_us", "free_us", "requests", "null", "corrupt"]
        }
        Test::Oom | Test::Oommix => &[
            "utilization",
            "utilization_rounded",
            "utilization_at_end",
            "null",
            "corrupt",
            "launches",
        ],
        Test::Frag => &["range_ratio", "null"],
        Test::Init => &["init_ms"],
    }
}

#[test]
fn every_case_ends_with_its_figures() {
    let (plan, rows) = rows_of(&Test::ALL);
    for case in &plan.cases {
        for allocator in ["floor", "scatterheap", "system"] {
            for metric in expected(case.test, allocator) {
                let found = rows.iter().filter(|row| {
                    row.test == case.test.name()
                        && row.allocator == allocator
                        && (row.size, row.n) == (case.most, u64::from(case.n))
                        && row.metric == *metric
                });
                assert_eq!(found.count(), 1, "{allocator}, {case}: {metric}");
            }
        }
    }
    for row in &rows {
        assert!(row.value.is_finite() && row.value >= 0.0, "{row:?}");
        assert!(row.metric != "corrupt" || row.value == 0.0, "{row:?}");
        assert!(row.metric != "misaligned", "{row:?}");
        assert!(row.metric != "utilization" || row.value > 0.5, "{row:?}");
        let full = row.test.starts_with("oom");
        assert!(row.metric != "null" || full == (row.value > 0.0), "{row:?}");
    }
}
