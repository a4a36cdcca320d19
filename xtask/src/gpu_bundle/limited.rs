//! Commands of the bundle's scripts that take too long.

/// What the script that runs everything reads.
pub const SCRIPT: &str = include_str!("limited.sh");

#[cfg(test)]
mod tests {
    use super::SCRIPT;
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use crate::setup::set_mode;

    /// Says what CUDA's debugger says of two functions, one of which has lanes in two places.
    const DEBUGGER: &str = r#"#!/bin/bash
case "$*" in
  *threads*)
    echo '[New Thread 0x7ff9309d5700 (LWP 941)]'
    echo '   BlockIdx ThreadIdx To BlockIdx ThreadIdx Count                 PC Filename  Line'
    echo '*   (0,0,0)   (0,0,0)     (0,0,0)   (3,0,0)     4 0x00007ff7177c5290              0 '
    echo '    (0,0,0)   (4,0,0)     (0,0,0)  (30,0,0)    27 0x00007ff7177ba1f0              0 '
    echo '    (0,0,0)  (31,0,0)     (0,0,0)  (31,0,0)     1 0x00007ff6b8a46ec0              0 ' ;;
  *)
    while read -r line; do
      [[ $line =~ ^printf ]] && printf "@${line##* } "
      case $line in
        *5290) echo 'malloc + 16 in section .text.malloc of /tmp/elf' ;;
        *a1f0) echo 'malloc in section .text.malloc of /tmp/elf' ;;
        *6ec0) echo 'free + 18880 in section .text.free of /tmp/elf' ;;
      esac
    done <"${!#}" ;;
esac
"#;

    /// A script that reads ours, in a directory with a debugger.
    fn script(directory: &Path, commands: &str) -> Command {
        let debugger = directory.join("cuda-gdb");
        for (file, content) in [
            (&directory.join("limited.sh"), SCRIPT),
            (&debugger, DEBUGGER),
        ] {
            fs::write(file, content).expect("written");
        }
        set_mode(&debugger, 0o755).expect("a mode");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!(". ./limited.sh\n{commands}")])
            .current_dir(directory)
            .env("PATH", format!("{}:{path}", directory.display()));
        bash
    }

    fn run(directory: &Path, commands: &str) -> Output {
        script(directory, commands).output().expect("bash starts")
    }

    /// Whether a process whose number is in a file has ended, or does so within some seconds.
    fn has_ended(file: &Path) -> bool {
        let number = fs::read_to_string(file).expect("a number");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            let stat = fs::read_to_string(format!("/proc/{}/stat", number.trim()));
            // One that nobody waits for any more is not at work either.
            if stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z ")) {
                return true;
            }
            sleep(Duration::from_millis(20));
        }
        false
    }

    #[test]
    fn what_ends_in_time_keeps_its_code_and_output() {
        let directory = tempfile::tempdir().expect("a directory");
        let output = run(
            directory.path(),
            "limited where 20 bash -c 'echo said; exit 7'",
        );
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(output.stdout, b"said\n");
        assert!(!directory.path().join("where").exists());
    }

    #[test]
    fn what_takes_too_long_is_ended_with_what_it_started_and_says_where_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        // Ours is no process of a GPU: any is taken for one.
        let commands = "at_work() { echo $limited_process; }
            limited where 1 bash -c 'sleep 1000 & echo $! >child; wait'";
        let output = run(directory, commands);
        assert_eq!(output.status.code(), Some(124));
        assert!(has_ended(&directory.join("child")));
        let told = fs::read_to_string(directory.join("where")).expect("told");
        assert_eq!(told, "31 malloc\n1 free\n");
    }

    #[test]
    fn what_a_command_leaves_at_work_is_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        fs::write(directory.join("where"), "of a run before").expect("written");
        let commands = "limited where 20 bash -c 'sleep 1000 & echo $! >child'";
        assert!(run(directory, commands).status.success());
        assert!(has_ended(&directory.join("child")));
        assert!(!directory.join("where").exists());
    }

    #[test]
    fn the_processes_of_a_command_are_those_with_the_driver() {
        let directory = tempfile::tempdir().expect("a directory");
        // The name of a file that a process has mapped is among its maps.
        let commands = "cp \"$(type -P sleep)\" ./libcuda
            limited_process=1 limited_group=1
            setsid bash -c './libcuda 1000 & sleep 1000 & wait' &
            limited_group=$! limited_process=$!
            until [[ -n $(at_work) ]]; do sleep 0.02; done
            readlink /proc/$(at_work)/exe
            end_limited KILL";
        let said = run(directory.path(), commands).stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.trim().ends_with("/libcuda"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    #[test]
    fn what_a_script_runs_ends_with_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let commands = "limited where 1000 bash -c 'echo $$ >command; sleep 1000'";
        let mut script = script(directory, commands)
            .stdout(Stdio::null())
            .spawn()
            .expect("bash starts");
        let command = directory.join("command");
        while !fs::read_to_string(&command).is_ok_and(|number| number.ends_with('\n')) {
            sleep(Duration::from_millis(20));
        }
        let number = script.id().to_string();
        let sent = Command::new("bash")
            .args(["-c", "kill -TERM $0", &number])
            .status();
        assert!(sent.expect("bash starts").success());
        assert_eq!(script.wait().expect("it ends").code(), Some(143));
        assert!(has_ended(&command));
    }
}
