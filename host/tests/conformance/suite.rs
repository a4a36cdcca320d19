//! The trials: each case for each resource on each device.

mod blocks;
mod capacity;
mod cases;
mod content;
mod devices;
mod giving;
mod kernel;
mod matrix;
mod order;
mod outcomes;
mod random;
mod shadow;
mod table;
mod threads;

use cases::CASES;
use libtest_mimic::{Arguments, Trial};
use outcomes::Outcomes;
use parking_lot::Mutex;
use scatterheap_host::Device;
use std::process::ExitCode;
use std::sync::Arc;
use table::{Subject, subjects};

/// Names the file that the matrix is written to.
const MATRIX: &str = "SCATTERHEAP_MATRIX";

/// The case of what is no resource, and of what it is.
const BUFFER: (&str, &str) = (
    "a_growable_buffer_is_not_given_back_under_work_that_runs",
    "GrowableBuffer",
);

/// Held by who uses a GPU: what others wait for there would hide what one does not wait for.
static GPU: Mutex<()> = Mutex::new(());

/// Runs the trials that the arguments ask for, and writes the matrix if it is wanted.
pub fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let devices = if arguments.list {
        devices::found()
    } else {
        devices::devices()
    };
    let subjects: Vec<_> = subjects().into_iter().map(Arc::new).collect();
    let outcomes = Outcomes::default();
    let trials = trials(&outcomes, &subjects, &devices);
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(file) = std::env::var_os(MATRIX).filter(|_| !arguments.list) {
        let matrix = matrix::text(&outcomes, &subjects, &devices);
        if let Err(error) = std::fs::write(&file, matrix) {
            eprintln!("cannot write {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

/// All trials, those on the CPU first: they need not wait for each other.
fn trials(outcomes: &Outcomes, subjects: &[Arc<Subject>], devices: &[Device]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for device in devices {
        for case in CASES {
            for subject in subjects {
                let name = name_of(case.name, &subject.name, device);
                let (subject, device) = (Arc::clone(subject), device.clone());
                trials.push(outcomes.trial(name, move || {
                    let _alone = alone(&device);
                    (case.check)(&subject, &device);
                }));
            }
        }
        let (case, subject) = BUFFER;
        let (name, device) = (name_of(case, subject, device), device.clone());
        trials.push(outcomes.trial(name, move || {
            let _alone = alone(&device);
            order::a_growable_buffer_is_not_given_back_under_work_that_runs(&device);
        }));
    }
    trials
}

fn alone(device: &Device) -> Option<impl Drop> {
    device.is_gpu().then(|| GPU.lock())
}

/// A trial's name, without spaces: `basic::Caching-of-Segments::cpu`.
fn name_of(case: &str, subject: &str, device: &Device) -> String {
    let subject = subject.replace(", ", "-").replace(' ', "-");
    format!("{case}::{subject}::{}", device.label())
}
