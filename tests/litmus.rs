//! Litmus tests of `free` and `malloc` on every device there is: nothing forbidden comes out, threads
//! meet, and a wrong word would be noticed.

mod devices;

use devices::for_each_device;
use scatterheap::litmus::{self, Report, Settings, Variant};
use scatterheap::{Device, Error};

fn settings(device: &Device) -> Settings {
    Settings {
        tries: if device.is_gpu() { 10_000_000 } else { 100_000 },
        seed: 1,
        lie: 0,
    }
}

fn run(device: &Device, variant: Variant, settings: &Settings) -> Report {
    let report = litmus::run(device, variant, settings, &mut |_, _| ());
    report.expect("there is memory for the cells")
}

fn passes(variant: Variant) {
    for_each_device(&format!("litmus {variant}"), |device| {
        let settings = settings(device);
        let report = run(device, variant, &settings);
        println!("{report:?}");
        assert!(report.passed(), "{report:#?}");
        assert!(report.tries >= settings.tries, "{report:#?}");
        assert!(report.meetings > report.tries / 100, "{report:#?}");
    });
}

#[test]
fn slots() {
    passes(Variant::Slots);
}

/// Runs until stores were seen to cross, each with its own seed: on an H200 they do a few times in ten million tries as a rule, and once did not.
const RUNS_TO_CROSS: u64 = 10;

#[test]
fn store_buffering() {
    for_each_device("litmus store-buffering crosses", |device| {
        let crosses = (1..=RUNS_TO_CROSS).any(|seed| {
            let settings = Settings {
                seed,
                ..settings(device)
            };
            let report = run(device, Variant::StoreBuffering, &settings);
            assert!(report.passed(), "{report:#?}");
            report.crossings > 0
        });
        assert!(crosses, "in {RUNS_TO_CROSS} runs");
    });
}

#[test]
fn retirement() {
    passes(Variant::Retirement);
}

#[test]
fn runs() {
    passes(Variant::Runs);
}

#[test]
fn resize() {
    passes(Variant::Resize);
}

#[test]
fn warps() {
    passes(Variant::Warps);
}

#[test]
fn warp_frees() {
    passes(Variant::WarpFrees);
}

#[test]
fn warp_mallocs() {
    passes(Variant::WarpMallocs);
}

#[test]
fn a_wrong_word_is_noticed() {
    for_each_device("litmus with lies", |device| {
        for variant in Variant::ALL {
            let settings = Settings {
                tries: 1,
                lie: 100,
                seed: 1,
            };
            let report = run(device, variant, &settings);
            // The liar may meet itself only, in some rounds, but not in all.
            assert!(report.stale_blocks > 0 && !report.passed(), "{report:#?}");
        }
    });
}

#[test]
fn no_tries_are_refused() {
    let device = Device::cpu_with_threads(2);
    for tries in [0, u64::MAX] {
        let settings = Settings {
            tries,
            seed: 1,
            lie: 0,
        };
        let refused = litmus::run(&device, Variant::Slots, &settings, &mut |_, _| ());
        let error = refused.expect_err("there is no such run");
        assert!(matches!(error, Error::BadSettings { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{tries} tries")));
    }
}
