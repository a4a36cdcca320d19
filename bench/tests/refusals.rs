//! What is not measured, as kernels would read and write where they must not.

use scatterheap_bench::allocators::Scatterheap;
use scatterheap_bench::{Allocator, Case, Error, Event, Plan, Settings, Test, run};
use scatterheap_host::Device;
use std::sync::atomic::AtomicBool;

/// A small plan of these cases.
fn plan(device: &Device, cases: Vec<Case>) -> Plan {
    let settings = Settings {
        sizes: Vec::new(),
        tests: vec![Test::Uniform],
        heap_bytes: Some(16 << 20),
        samples: Some(1),
        quick: true,
        seed: 1,
        stripes: None,
    };
    let plan = Plan::new(device, &settings).expect("the heap is large enough");
    Plan { cases, ..plan }
}

/// What a run of scatterheap gave, and how many events it told of.
fn run_on(device: &Device, plan: &Plan) -> (Result<(), Error>, usize) {
    let mut allocators: Vec<Box<dyn Allocator>> = vec![Box::new(Scatterheap::new(device))];
    let never = AtomicBool::new(false);
    let mut events = 0;
    let mut on_event = |event: Event| {
        assert!(!matches!(event, Event::Failed { .. }), "{event:?}");
        events += 1;
    };
    let outcome = run(plan, device, &mut allocators, &never, &mut on_event);
    (outcome, events)
}

#[test]
fn a_plan_with_a_case_that_cannot_be_done_is_refused_as_a_whole() {
    let device = Device::cpu_with_threads(2);
    let good = Case {
        test: Test::Uniform,
        least: 64,
        most: 64,
        n: 10,
    };
    let (outcome, events) = run_on(&device, &plan(&device, vec![good]));
    outcome.expect("it can be done");
    assert!(events > 1);
    for bad in [
        Case {
            test: Test::AllocHeavy,
            least: 1,
            ..good
        },
        Case {
            test: Test::Access,
            least: 16,
            ..good
        },
        Case {
            test: Test::Churn,
            least: 0,
            ..good
        },
        Case {
            most: u64::from(u32::MAX) + 1,
            ..good
        },
        Case { least: 65, ..good },
        Case { n: 0, ..good },
    ] {
        let (outcome, events) = run_on(&device, &plan(&device, vec![good, bad]));
        let error = outcome.expect_err("it cannot be done");
        assert!(
            matches!(error, Error::BadCase { case, .. } if case == bad),
            "{error}"
        );
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(events, 0, "{bad:?}");
    }
}
