//! The part of the bundle for long runs on the CPU: the scenarios of warps under shuttle, the fuzzers with their
//! corpora, and a script that runs them on many cores.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::contents::{add_program, copy};
use crate::executables;
use crate::fuzz::{Sanitizer, TARGETS, build};
use crate::model::build_of_scenarios;
use crate::setup::set_mode;
use crate::toolchain::workspace;

/// Runs it all, wherever the bundle was unpacked.
const SCRIPT: &str = include_str!("long-runs.sh");

/// Builds and copies everything into the directory of the bundle.
pub fn gather(directory: &Path) -> Result<()> {
    let directory = directory.join("long");
    let built = executables::build_by(&mut build_of_scenarios())?;
    let warps = built
        .iter()
        .find(|program| program.name == "warps" && program.is_test)
        .context("cargo built no scenarios of warps")?;
    add_program(&warps.file, &directory.join("warps"))?;
    let fuzzers = build(Sanitizer::None)?;
    for target in TARGETS {
        add_program(&fuzzers.of(target), &directory.join("fuzz").join(target))?;
        copy_corpus(target, &directory.join("corpus").join(target))?;
    }
    let script = directory.join("long-runs.sh");
    fs::write(&script, SCRIPT)?;
    set_mode(&script, 0o755)
}

/// Copies the inputs that a target begins with.
fn copy_corpus(target: &str, to: &Path) -> Result<()> {
    let from = workspace().join("fuzz/corpus").join(target);
    for entry in fs::read_dir(&from).with_context(|| format!("cannot list {}", from.display()))? {
        let input = entry?.path();
        copy(
            &input,
            &to.join(input.file_name().context("a file has a name")?),
        )?;
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::process::{Command, Output, Stdio};
    use std::thread;
    use std::time::Duration;
    use tempfile::TempDir;

    /// As the scenarios do: says what was explored, or fails, or is killed at it.
    const WARPS: &str = "#!/bin/sh\n\
        case $SCATTERHEAP_SEED in -*) echo \"a seed is a number, not $SCATTERHEAP_SEED\"; exit 101;; esac\n\
        echo \"good,$SCATTERHEAP_SEED,1,$SCATTERHEAP_SCHEDULES,0.5\" > \"$SCATTERHEAP_EXPLORED\"\n\
        [ -e \"${0%/*}/bad\" ] || exit 0\n\
        echo 'test good ... good: 10 schedules'; echo ok; printf 'test bad ... '\n\
        [ ! -e \"${0%/*}/killed\" ] || kill -9 $$\n\
        printf '\nrepeat it with: cargo xtask model --seed 7 bad\n\nFAILED\n\n'\n\
        printf 'failures:\n\nfailures:\n    bad\n\ntest result: FAILED. 1 passed; 1 failed\n'; exit 101\n";
    /// As libFuzzer does: says how many inputs it ran, or writes the one that crashed.
    const FUZZER: &str = "#!/bin/sh\n\
        [ \"$1\" = -help=1 ] && exit 0\n\
        if [ -e \"${0%/*}/../bad\" ]; then\n\
            for word; do case $word in -artifact_prefix=*) echo > \"${word#*=}crash-1\";; esac; done\n\
            printf '#12\\tpulse\\n' >&2; exit 77\n\
        fi\n\
        printf '#9\\tDONE\\nDone 10 runs\\nstat::number_of_executed_units: 10\\n' >&2\n";

    fn write(file: &Path, content: &str) {
        fs::create_dir_all(file.parent().expect("a directory")).expect("created");
        fs::write(file, content).expect("written");
        set_mode(file, 0o755).expect("changed");
    }

    /// A bundle with scenarios and one fuzzer.
    fn bundle_with(warps: &str) -> TempDir {
        let bundle = tempfile::tempdir().expect("a directory");
        for (file, content) in [
            ("MANIFEST", "scatterheap\ncommit abc\n"),
            ("long/long-runs.sh", SCRIPT),
            ("long/warps", warps),
            ("long/fuzz/sizes", FUZZER),
            ("long/corpus/sizes/one", "1"),
        ] {
            write(&bundle.path().join(file), content);
        }
        bundle
    }

    /// The script, for a few schedules and inputs.
    fn script_of(bundle: &Path) -> Command {
        let mut command = Command::new("bash");
        command
            .arg(bundle.join("long/long-runs.sh"))
            .arg(bundle.join("out"))
            .envs([
                ("PARTS", "shuttle sizes"),
                ("CORES", "2"),
                ("SECONDS_EACH", "60"),
            ])
            .envs([("SCHEDULES", "12000"), ("INPUTS", "40")])
            .env_remove("SECONDS_ALL");
        command
    }

    fn run(bundle: &Path) -> Output {
        script_of(bundle).output().expect("bash starts")
    }

    #[test]
    fn what_was_done_is_counted_and_added_up_and_failures_are_kept() {
        let bundle = bundle_with(WARPS);
        let bundle = bundle.path();
        let table =
            |name: &str| fs::read_to_string(bundle.join("out").join(name)).expect("a table");
        let output = run(bundle);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        let fuzzed = table("fuzz.csv");
        assert!(fuzzed.starts_with("target,inputs,seconds,crashes,commit\nsizes,20,"));
        assert!(fuzzed.ends_with(",0,abc\n"), "{fuzzed}");
        let explored = table("shuttle.csv");
        assert!(explored.contains("\ngood,12000,0,"), "{explored}");

        write(&bundle.join("long/bad"), "");
        let output = run(bundle);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        // What is left of 40 inputs for each of two processes, which crash.
        assert!(table("fuzz.csv").contains("\nsizes,44,"), "{said}");
        assert!(table("fuzz.csv").ends_with(",2,abc\n"), "{said}");
        assert_eq!(table("shuttle.csv"), explored, "enough was explored before");
        assert!(bundle.join("out/abc/fuzz/sizes/failures/crash-1").is_file());

        fs::remove_dir_all(bundle.join("out")).expect("removed");
        let said = run(bundle).stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.contains("repeat it with: cargo xtask model --seed 7 bad"),
            "{said}"
        );
        let counts_bad = || {
            let table = table("shuttle.csv");
            let failures = table.lines().find_map(|line| line.strip_prefix("bad,0,"));
            failures.is_some_and(|failures| !failures.starts_with("0,"))
        };
        assert!(counts_bad(), "{said}");

        fs::remove_dir_all(bundle.join("out")).expect("removed");
        write(&bundle.join("long/killed"), "");
        let said = run(bundle).stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("ended with code 137"), "{said}");
        assert!(counts_bad(), "{said}");
    }

    /// Runs scenarios that hang, for so many seconds, and gives the exit code, what was said and the table.
    fn run_hanging(warps: &str, seconds: &str, patience: &str) -> (Option<i32>, String, String) {
        let bundle = bundle_with(warps);
        let bundle = bundle.path();
        let output = script_of(bundle)
            .envs([("PARTS", "shuttle"), ("CORES", "1")])
            .envs([("SECONDS_EACH", seconds), ("PATIENCE", patience)])
            .output();
        let output = output.expect("bash starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let table = fs::read_to_string(bundle.join("out/shuttle.csv")).expect("a table");
        (output.status.code(), said, table)
    }

    #[test]
    fn runs_of_other_sources_do_not_add_up() {
        let bundle = bundle_with(WARPS);
        let bundle = bundle.path();
        let explored = || {
            let mut script = script_of(bundle);
            let output = script.env("PARTS", "shuttle").output();
            let output = output.expect("bash starts");
            assert!(output.status.success(), "{output:?}");
            let table = fs::read_to_string(bundle.join("out/shuttle.csv")).expect("a table");
            let row = table.lines().last().expect("a row");
            row.rsplit(',').next().expect("a commit").to_owned()
        };
        for commit in ["unknown", "abc-dirty"] {
            write(&bundle.join("MANIFEST"), &format!("commit {commit}\n"));
            write(&bundle.join("long/warps"), WARPS);
            let first = explored();
            assert!(first.starts_with(&format!("{commit}-")), "{first}");
            assert_eq!(explored(), first);
            write(&bundle.join("long/warps"), &format!("{WARPS}# changed\n"));
            assert_ne!(explored(), first);
        }
    }

    #[test]
    fn what_hangs_has_failed() {
        let warps = "#!/bin/sh\n\
            echo \"good,1,1,10,0.5\" > \"$SCATTERHEAP_EXPLORED\"\n\
            echo 'test good ... good: 10 schedules'; echo ok; echo 'test bad ... '; exec sleep 60\n";
        // It hangs for three times the patience, so that a slow start does not count.
        let (code, said, table) = run_hanging(warps, "6", "2");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(" has hung in bad for "), "{said}");
        assert!(table.contains("\nbad,0,1,"), "{table}");
        assert!(table.contains("\ngood,10,0,"), "{table}");
        // It was only interrupted.
        let (code, said, table) = run_hanging(warps, "2", "60");
        assert_eq!(code, Some(0), "{said}");
        assert!(!table.contains("bad"), "{table}");
    }

    /// Scenarios of which two fail and the third is at it when the time is over: libtest lists none of them.
    const CUT_OFF: &str = "#!/bin/sh\n\
        echo \"good,1,1,10,0.5\" > \"$SCATTERHEAP_EXPLORED\"\n\
        echo 'test good ... good: 10 schedules'; echo ok\n\
        printf 'test a::bad ... \nrepeat it with: cargo xtask model --seed 7 bad\n\nFAILED\n'\n\
        echo 'test worse ... FAILED'; printf 'test other ... '; exec sleep 60\n";

    /// What the table has of each scenario, without seconds and the commit.
    fn rows(table: &str) -> Vec<String> {
        let row = |line: &str| line.splitn(4, ',').take(3).collect::<Vec<_>>().join(",");
        table.lines().skip(1).map(row).collect()
    }

    #[test]
    fn what_failed_before_it_was_cut_off_has_failed() {
        let (code, said, table) = run_hanging(CUT_OFF, "2", "60");
        assert_eq!(code, Some(1), "{said}");
        let repeat = "\nrepeat it with: cargo xtask model --seed 7 bad\n";
        assert!(said.contains(repeat), "{said}");
        assert_eq!(rows(&table), ["bad,0,1", "good,10,0", "worse,0,1"]);

        // One that failed outside of what is explored says nothing itself.
        let warps = CUT_OFF.replace("repeat it with", "not so");
        let (code, said, table) = run_hanging(&warps, "2", "60");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("shuttle: failed: bad worse, see "), "{said}");
        assert_eq!(rows(&table), ["bad,0,1", "good,10,0", "worse,0,1"]);
    }

    #[test]
    fn what_failed_before_an_interruption_has_failed() {
        let bundle = bundle_with(CUT_OFF);
        let bundle = bundle.path();
        let script = script_of(bundle)
            .envs([("PARTS", "shuttle"), ("CORES", "1")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let reached = || {
            let logs = fs::read_dir(bundle.join("out/abc/shuttle"));
            logs.into_iter().flatten().flatten().any(|entry| {
                let log = fs::read_to_string(entry.path());
                log.is_ok_and(|log| log.ends_with("test other ... "))
            })
        };
        for _ in 0..300 {
            if reached() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let process = Pid::from_raw(script.id().try_into().expect("a process"));
        kill(process, Signal::SIGTERM).expect("it runs");
        let output = script.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(
            said.contains("\nrepeat it with: cargo xtask model --seed 7 bad\n"),
            "{said}"
        );
        let table = fs::read_to_string(bundle.join("out/shuttle.csv")).expect("a table");
        assert_eq!(rows(&table), ["bad,0,1", "good,10,0", "worse,0,1"]);
    }

    #[test]
    fn a_run_that_explores_nothing_fails() {
        let (code, said, _) = run_hanging("#!/bin/sh\nexec sleep 60\n", "2", "60");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("no scenario ended in "), "{said}");
    }

    #[test]
    fn seeds_are_numbers_on_every_day() {
        for seconds in [0, 524_287, 524_288, 1_048_575] {
            let bundle = bundle_with(WARPS);
            let bundle = bundle.path();
            let clock = format!("#!/bin/sh\necho {seconds}\n");
            write(&bundle.join("programs/date"), &clock);
            let path = std::env::var("PATH").expect("there is a path");
            let output = script_of(bundle)
                .env("PATH", format!("{}/programs:{path}", bundle.display()))
                .env("PARTS", "shuttle")
                .output();
            let output = output.expect("bash starts");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{seconds}: {said}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("long-runs.sh");
        write(&script, SCRIPT);
        for (name, value, part) in [
            ("CORES", "0", "are numbers from 1"),
            ("PARTS", "shuttle what", "choose from"),
        ] {
            let output = Command::new("bash")
                .arg(&script)
                .arg(directory.path())
                .env(name, value)
                .output();
            let output = output.expect("bash starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(part) && said.lines().count() == 1, "{said}");
        }
    }
}
