//! What is not measured, as kernels would read and write where they must not.

use scatterheap_bench::allocators::{Floor, Native, Scatterheap};
use scatterheap_bench::{Allocator, Case, Error, Event, Plan, Settings, Test, run};
use scatterheap_host::Device;
use std::sync::atomic::AtomicBool;

/// A case that can be done.
const GOOD: Case = Case {
    test: Test::Uniform,
    least: 64,
    most: 64,
    n: 10,
};

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

/// What a run of an allocator gave, and how many events it told of.
fn run_of(
    allocator: impl Allocator + 'static,
    device: &Device,
    plan: &Plan,
) -> (Result<(), Error>, usize) {
    let mut allocators: Vec<Box<dyn Allocator>> = vec![Box::new(allocator)];
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
    let good = GOOD;
    let (outcome, events) = run_of(
        Scatterheap::new(&device),
        &device,
        &plan(&device, vec![good]),
    );
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
        let (outcome, events) = run_of(
            Scatterheap::new(&device),
            &device,
            &plan(&device, vec![good, bad]),
        );
        let error = outcome.expect_err("it cannot be done");
        assert!(
            matches!(error, Error::BadCase { case, .. } if case == bad),
            "{error}"
        );
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(events, 0, "{bad:?}");
    }
}

#[test]
fn an_allocator_of_another_device_is_refused() {
    let (device, other) = (Device::cpu_with_threads(2), Device::cpu_with_threads(2));
    let plan = plan(&device, vec![GOOD]);
    let (outcome, _) = run_of(Floor::new(&device.clone()), &device, &plan);
    outcome.expect("a clone is the same device");
    for (outcome, events) in [
        run_of(Floor::new(&other), &device, &plan),
        run_of(Native::new(&other), &device, &plan),
        run_of(Scatterheap::new(&other), &device, &plan),
    ] {
        let error = outcome.expect_err("its blocks are of another device");
        assert!(matches!(error, Error::OtherDevice { .. }), "{error}");
        assert_eq!((error.to_string().lines().count(), events), (1, 0));
    }
}
