//! Plug-ins that behave, and plug-ins that do not: built from C by this test, measured on the CPU device in workers,
//! which are this executable again.

#[path = "peers/outcome.rs"]
mod outcome;
#[path = "peers/plugin.rs"]
mod plugin;

use libtest_mimic::{Arguments, Trial};
use outcome::{Outcome, case, cases, cases_of_all_tests, named, plan, workers};
use plugin::{Workshop, within};
use scatterheap_bench::Test::{
    Access, Churn, Frag, Init, Large, Mixed, MixedAged, MixedChurned, MixedNew, MixedScale, Oom,
    Oommix, Scale, Sizes, SizesAged, Uniform, UniformAged, UniformNew, Warp,
};
use scatterheap_bench::peer::worker;
use scatterheap_bench::{Case, Event, Plan};
use scatterheap_host::Device;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Argument by which this executable is a worker.
const WORKER: &str = "--worker";
/// Argument by which this executable measures the plug-in named next.
const PARENT: &str = "--parent";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [_, WORKER] => be_a_worker(),
        [_, PARENT, library] => {
            let outcome = Outcome::of(library.as_ref(), &plan(cases()), Duration::from_secs(100));
            println!("{:?}", outcome.error);
            ExitCode::SUCCESS
        }
        _ => run_the_tests(),
    }
}

fn be_a_worker() -> ExitCode {
    // SAFETY: what the tests name are files that are refused, or plug-ins that they built. Those that do what they must not, do it in
    // this process, which is what is looked at.
    match unsafe { worker(|selector| Ok(Device::open(selector, &[])?)) } {
        Ok(never) => match never {},
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_the_tests() -> ExitCode {
    let arguments = Arguments::from_args();
    let workshop = match Workshop::open() {
        Ok(workshop) => Arc::new(workshop),
        Err(reason) => {
            if !arguments.list {
                println!("skipped: plug-ins of the benchmark: {reason}");
            }
            return ExitCode::SUCCESS;
        }
    };
    let trial = |(name, test): &Test| {
        let (workshop, test) = (Arc::clone(&workshop), *test);
        Trial::test(*name, move || {
            test(&workshop);
            Ok(())
        })
    };
    let trials = TESTS.iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test and its name.
type Test = (&'static str, fn(&Workshop));

macro_rules! tests {
    ($($test:ident),* $(,)?) => { &[$((stringify!($test), $test)),*] };
}

const TESTS: &[Test] = tests![
    a_good_one_is_measured,
    a_crash_costs_one_case,
    a_hang_costs_one_case,
    an_error_costs_one_case,
    a_test_is_given_up,
    all_blocks_are_freed_before_a_reset,
    a_stop_ends_it_after_the_current_case,
    who_ends_after_a_stop_is_not_said_to_have_died,
    cases_that_cannot_be_done_are_refused,
    shared_blocks_are_corrupt,
    what_is_printed_is_no_message,
    what_cannot_be_loaded_is_refused,
    bad_names_are_refused,
    names_are_not_shared,
    workers_end_with_their_parent,
    workers_are_not_started_by_hand,
];

/// Long enough for whatever ends by itself.
const PATIENT: Duration = Duration::from_secs(60);
/// Too short for what hangs, long enough for a busy machine.
const IMPATIENT: Duration = Duration::from_secs(2);

fn a_good_one_is_measured(workshop: &Workshop) {
    let plugin = workshop.build_as("good", "measured");
    let outcome = Outcome::of(&plugin.library, &plan(cases_of_all_tests()), PATIENT);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.failed, []);
    let allocating = [
        Uniform,
        Mixed,
        Sizes,
        Scale,
        Warp,
        Large,
        UniformAged,
        MixedAged,
        SizesAged,
        MixedChurned,
        UniformNew,
        MixedNew,
        MixedScale,
        Churn,
        Access,
        Oom,
        Oommix,
        Frag,
    ];
    assert_measured(&outcome, "corrupt", &allocating);
    assert!(outcome.values("corrupt").iter().all(|count| *count == 0.0));
    assert_measured(&outcome, "alloc_us", &allocating[..13]);
    assert_measured(&outcome, "free_us", &allocating[..13]);
    assert_measured(&outcome, "churn_us", &[Churn]);
    assert_measured(&outcome, "read_gbps", &[Access]);
    assert_measured(&outcome, "utilization", &[Oom, Oommix]);
    assert!(
        outcome
            .values("utilization")
            .iter()
            .all(|share| *share > 0.99)
    );
    assert_measured(&outcome, "init_ms", &[Init]);
    for none in ["died", "hang", "registers"] {
        assert_eq!(outcome.with(none), [], "{none}");
    }
    // Only asking for the name takes another one, but that makes no heap.
    assert_eq!(plugin.processes().len(), 1);
    assert!(plugin.leaves_nobody());
}

/// Checks that these tests have a metric, and that no other has.
fn assert_measured(outcome: &Outcome, metric: &str, tests: &[scatterheap_bench::Test]) {
    let mut names: Vec<_> = tests.iter().map(|test| test.name()).collect();
    names.sort_unstable();
    let found = outcome.with(metric);
    let found: Vec<_> = found.iter().map(|(test, _)| test.as_str()).collect();
    assert_eq!(found, names, "{metric}");
}

fn a_crash_costs_one_case(workshop: &Workshop) {
    let plugin = workshop.build("crash");
    let outcome = Outcome::of(&plugin.library, &plan(cases()), PATIENT);
    assert_eq!(outcome.error, None);
    let reason = "died by SIGSEGV; the last line that it printed: about to crash";
    assert_one_is_lost(&outcome, "died", reason);
    assert!(plugin.leaves_nobody());
}

fn a_hang_costs_one_case(workshop: &Workshop) {
    let plugin = workshop.build("hang");
    let outcome = Outcome::of(&plugin.library, &plan(cases()), IMPATIENT);
    assert_eq!(outcome.error, None);
    let reason = "hung: it said nothing for 2 s, and was ended";
    assert_one_is_lost(&outcome, "hang", reason);
    assert!(plugin.leaves_nobody());
}

/// Checks that the case of 64 bytes has a row that says so, and that the others were measured.
fn assert_one_is_lost(outcome: &Outcome, metric: &str, reason: &str) {
    let (lost, others) = (case(Uniform, 64), [case(Uniform, 16), case(Uniform, 256)]);
    outcome.assert_failed(&[lost], reason);
    assert_eq!(outcome.with(metric), named(&[lost]));
    assert_eq!(outcome.values(metric), [1.0]);
    assert_eq!(outcome.with("alloc_us"), named(&others));
    for other in ["died", "hang"] {
        assert!(other == metric || outcome.with(other).is_empty(), "{other}");
    }
}

fn an_error_costs_one_case(workshop: &Workshop) {
    let plugin = workshop.build("fails");
    let outcome = Outcome::of(&plugin.library, &plan(cases()), PATIENT);
    assert_eq!(outcome.error, None);
    outcome.assert_failed(&[case(Uniform, 64)], "peer_alloc of `fails` gave error 42");
    let others = [case(Uniform, 16), case(Uniform, 256)];
    assert_eq!(outcome.with("alloc_us"), named(&others));
    assert_eq!(outcome.with("died"), []);
    // It did not have to be started again.
    assert_eq!(plugin.processes().len(), 1);
}

fn a_test_is_given_up(workshop: &Workshop) {
    let plugin = workshop.build("crash_always");
    let uniform = [16, 32, 64, 128, 256].map(|size| case(Uniform, size));
    let scale = [case(Scale, 16)];
    let all = [&uniform[..], &scale].concat();
    let outcome = Outcome::of(&plugin.library, &plan(all), PATIENT);
    assert_eq!(outcome.error, None);
    let died = outcome.with("died");
    let of = |name: &str| died.iter().filter(|(test, _)| test == name).count();
    assert_eq!((of("uniform"), of("scale"), died.len()), (3, 1, 4));
    assert_eq!(outcome.failed.len(), 6);
    for (case, reason) in &outcome.failed {
        let expected = if died.contains(&(case.test.to_string(), case.most)) {
            "exited with code 7"
        } else {
            "skipped, as 3 cases of this test ended it"
        };
        assert_eq!(reason, expected, "{case:?}");
    }
    assert_eq!(plugin.processes().len(), 4);
    assert!(plugin.leaves_nobody());
}

fn all_blocks_are_freed_before_a_reset(workshop: &Workshop) {
    let plugin = workshop.build("strict");
    let plan = plan(cases_of_all_tests());
    for seed in 1..=3 {
        let plan = Plan {
            seed,
            ..plan.clone()
        };
        let outcome = Outcome::of(&plugin.library, &plan, PATIENT);
        assert_eq!(outcome.error, None);
        assert_eq!(outcome.failed, []);
        let aged = outcome.with("aged_null");
        let cases = [MixedAged, SizesAged, UniformAged].map(|test| case(test, 128));
        assert_eq!(aged, named(&cases));
    }
}

fn a_stop_ends_it_after_the_current_case(workshop: &Workshop) {
    let plugin = workshop.build_as("good", "stopped");
    let workers = workers(PATIENT);
    let peers = workers.find(std::slice::from_ref(&plugin.library));
    let peer = peers.expect("it is good").remove(0);
    let stop = AtomicBool::new(false);
    let (mut begun, mut timed) = (0, 0);
    let measured = workers.measure(&peer, &plan(cases()), &stop, &mut |event| match event {
        Event::Begin { allocator, .. } if allocator == peer.name => {
            begun += 1;
            stop.store(true, Ordering::Relaxed);
        }
        Event::Row(row) if row.allocator == peer.name && row.metric == "alloc_us" => timed += 1,
        _ => {}
    });
    measured.expect("it is good");
    assert_eq!((begun, timed), (1, 1));
    assert!(plugin.leaves_nobody());
}

fn who_ends_after_a_stop_is_not_said_to_have_died(workshop: &Workshop) {
    let plugin = workshop.build_as("crash_always", "ended");
    let workers = workers(PATIENT);
    let peers = workers.find(std::slice::from_ref(&plugin.library));
    let peer = peers.expect("it can be loaded").remove(0);
    let stop = AtomicBool::new(false);
    let mut begun = 0;
    let measured = workers.measure(&peer, &plan(cases()), &stop, &mut |event| match event {
        Event::Begin { allocator, .. } if allocator == peer.name => {
            begun += 1;
            stop.store(true, Ordering::Relaxed);
        }
        Event::Row(row) => assert_ne!(row.metric, "died"),
        Event::Failed { reason, .. } => panic!("{reason}"),
        Event::Begin { .. } => {}
    });
    measured.expect("it was stopped");
    assert_eq!(begun, 1);
}

fn cases_that_cannot_be_done_are_refused(workshop: &Workshop) {
    let plugin = workshop.build_as("good", "spared");
    let bad = Case {
        most: 1 << 32,
        ..case(Uniform, 64)
    };
    let plan = plan([&cases()[..], &[bad]].concat());
    let outcome = Outcome::of(&plugin.library, &plan, PATIENT);
    let refused =
        "`uniform 64..4294967296 B, n = 50` cannot be measured: let no block have 4 GiB or more";
    assert_eq!(outcome.error.as_deref(), Some(refused));
    assert!(
        outcome.rows.is_empty() && outcome.failed.is_empty(),
        "{outcome:?}"
    );
}

fn shared_blocks_are_corrupt(workshop: &Workshop) {
    let plugin = workshop.build("twice");
    let outcome = Outcome::of(&plugin.library, &plan(cases()), PATIENT);
    assert_eq!(outcome.error, None);
    // Of each two owners the first finds what the second wrote.
    assert_eq!(outcome.with("corrupt"), named(&cases()));
    assert_eq!(outcome.values("corrupt"), [25.0; 3]);
    let reason = "of 50 blocks, 25 did not hold what was written and 0 were not aligned to 16 bytes, so times of them are worth nothing";
    outcome.assert_failed(&cases(), reason);
    assert_eq!(outcome.with("alloc_us"), []);
}

fn what_is_printed_is_no_message(workshop: &Workshop) {
    let plugin = workshop.build("noisy");
    let outcome = Outcome::of(&plugin.library, &plan(cases()), PATIENT);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.failed, []);
    assert_eq!(outcome.with("alloc_us"), named(&cases()));
    assert!(plugin.leaves_nobody());
}

/// The error of a plug-in that is not measured at all.
fn refusal(library: &Path) -> String {
    let outcome = Outcome::of(library, &plan(cases()), PATIENT);
    assert!(
        outcome.rows.is_empty() && outcome.failed.is_empty(),
        "{outcome:?}"
    );
    let error = outcome.error.expect("it is refused");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn what_cannot_be_loaded_is_refused(workshop: &Workshop) {
    let error = refusal(&workshop.build("missing").library);
    assert!(
        error.contains("lacks peer_churn, peer_reset: export"),
        "{error}"
    );
    let error = refusal(&workshop.build("crash_loading").library);
    let ended = "came to no case: it died by SIGABRT; the last line that it printed: no such luck";
    assert!(error.contains(ended), "{error}");
    let error = refusal(&workshop.path("nowhere.so"));
    assert!(
        error.contains("nowhere.so was asked for, but cannot be read"),
        "{error}"
    );
    let error = refusal(&workshop.path("."));
    assert!(error.contains("(not a file)"), "{error}");
    let text = workshop.path("text.so");
    std::fs::write(&text, "not a library\n").expect("the directory is writable");
    let error = refusal(&text);
    assert!(error.contains("text.so cannot be loaded ("), "{error}");
    // The loader names the file too: its own words, not only that it failed.
    assert_eq!(error.matches("text.so").count(), 2, "{error}");
}

fn bad_names_are_refused(workshop: &Workshop) {
    let error = refusal(&workshop.build("bad_name").library);
    let advice = "calls itself `Bad, Name`: let peer_name give 1 to 16 of the characters";
    assert!(error.contains(advice), "{error}");
    let error = refusal(&workshop.build("taken_name").library);
    let advice = "calls itself `scatterheap`: let peer_name give another name than";
    assert!(error.contains(advice), "{error}");
}

fn names_are_not_shared(workshop: &Workshop) {
    let libraries = ["good", "good_too"].map(|name| workshop.build_as("good", name).library);
    let error = workers(PATIENT)
        .find(&libraries)
        .expect_err("both are `good`");
    let error = error.to_string();
    assert!(
        error.contains("both call themselves `good`: give one"),
        "{error}"
    );
    let peers = workers(PATIENT).find(&libraries[1..]).expect("it is good");
    assert_eq!(peers.len(), 1);
    assert_eq!(
        (&*peers[0].name, &peers[0].library),
        ("good", &libraries[1])
    );
}

fn workers_end_with_their_parent(workshop: &Workshop) {
    // Notes its processes in a file of its own.
    let plugin = workshop.build_as("hang", "hang_for_long");
    let mut parent = this_executable(&[PARENT.as_ref(), plugin.library.as_ref()])
        .stdout(Stdio::null())
        .spawn()
        .expect("this executable starts");
    // The worker, and what the plug-in started.
    let started = within(PATIENT, || plugin.processes().len() == 2);
    parent.kill().expect("it runs");
    parent.wait().expect("it was killed");
    assert!(started);
    assert!(plugin.leaves_nobody());
}

fn workers_are_not_started_by_hand(_: &Workshop) {
    let output = this_executable(&[WORKER.as_ref()])
        .stdin(Stdio::null())
        .output()
        .expect("this executable starts");
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.starts_with("a worker for plug-ins was started by hand ("),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

fn this_executable(arguments: &[&std::ffi::OsStr]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.args(arguments);
    command
}
