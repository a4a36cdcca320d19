//! Real programs under the recorder: what they do is in the trace, in a valid order, and nothing else is.
//!
//! The programs are this very test binary, asked for its ignored test `workload`, and `sort`.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::{
    collections::HashSet,
    env,
    ffi::c_void,
    fs::{self, File},
    hint::black_box,
    io::BufReader,
    mem,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    ptr, slice,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use scatterheap_trace::{Conversion, Kind, Operation, convert};

// Sizes that nothing else asks for, by which the trace is searched.
const PASSED: usize = 10_007;
const GROWN: usize = 20_011;
const ZEROED: usize = 30_011;
const ALIGNED: [usize; 3] = [40_009, 40_064, 40_013];
const ARRAY: usize = 50_021;
const PAGES: [usize; 2] = [70_001, 80_021];
const FREED_SIZED: [usize; 2] = [90_001, 90_007];
const BY_THE_CHILD: usize = 60_013;

const THREADS: usize = 4;
const PASSES: usize = 20_000;

/// The program that is recorded. The compiler knows `malloc` and would leave out what is not used: hence `black_box`.
#[test]
#[ignore = "run by the other tests, under the recorder"]
fn workload() {
    pass_blocks_around();
    // SAFETY: every call keeps the conditions of its C function; each block is freed once.
    unsafe {
        let grown = libc::realloc(black_box(libc::malloc(16)), GROWN);
        libc::free(black_box(libc::realloc(black_box(grown), GROWN * 2)));

        let zeroed = black_box(libc::calloc(ZEROED, 1)).cast::<u8>();
        assert!(
            slice::from_raw_parts(zeroed, ZEROED)
                .iter()
                .all(|&byte| byte == 0)
        );
        libc::free(zeroed.cast());

        let mut aligned = ptr::null_mut();
        assert_eq!(libc::posix_memalign(&raw mut aligned, 256, ALIGNED[0]), 0);
        libc::free(black_box(aligned));
        libc::free(black_box(libc::aligned_alloc(64, ALIGNED[1])));
        libc::free(black_box(libc::memalign(4096, ALIGNED[2])));

        let array = black_box(libc::reallocarray(ptr::null_mut(), ARRAY, 2));
        assert!(black_box(libc::reallocarray(array, usize::MAX, 2)).is_null());
        libc::free(array);
        libc::free(ptr::null_mut());

        libc::free(black_box(valloc(PAGES[0])));
        libc::free(black_box(pvalloc(PAGES[1])));
        free_with_sizes();

        allocate_in_child(libc::fork());
        // As `_Fork` does: no handlers of `pthread_atfork` run.
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        allocate_in_child(child.try_into().expect("a process"));
    }
    // Another program finds the recording taken, and leaves it alone.
    assert!(
        Command::new("true")
            .status()
            .expect("true is everywhere")
            .success()
    );
}

/// What a child does after a fork, of which nothing is recorded; the parent waits for it.
fn allocate_in_child(child: libc::pid_t) {
    // SAFETY: the child frees what it allocates, and ends here.
    unsafe {
        if child == 0 {
            for _ in 0..1000 {
                libc::free(black_box(libc::malloc(BY_THE_CHILD)));
            }
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, ptr::null_mut(), 0), child);
    }
}

unsafe extern "C" {
    fn valloc(size: usize) -> *mut c_void;
    fn pvalloc(size: usize) -> *mut c_void;
}

/// Frees as C23 has it, by the recorder's functions: the C library may have none yet.
unsafe fn free_with_sizes() {
    type FreeSized = unsafe extern "C" fn(*mut c_void, usize);
    type FreeAlignedSized = unsafe extern "C" fn(*mut c_void, usize, usize);
    // SAFETY: the names are C strings and belong to the types, and each block is freed once.
    unsafe {
        let [sized, aligned] = [c"free_sized", c"free_aligned_sized"]
            .map(|name| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()));
        assert!(!sized.is_null() && !aligned.is_null());
        let sized = mem::transmute::<*mut c_void, FreeSized>(sized);
        let aligned = mem::transmute::<*mut c_void, FreeAlignedSized>(aligned);
        let [first, second] = FREED_SIZED;
        sized(black_box(libc::malloc(first)), first);
        aligned(black_box(libc::aligned_alloc(64, second)), 64, second);
    }
}

/// Threads in a ring: each allocates blocks and frees those of the one before, so that addresses are soon used again.
fn pass_blocks_around() {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| mpsc::sync_channel::<Box<[u8]>>(8))
        .unzip();
    receivers.rotate_left(1);
    thread::scope(|scope| {
        for (sender, receiver) in senders.into_iter().zip(receivers) {
            scope.spawn(move || {
                for _ in 0..PASSES {
                    sender
                        .send(vec![1; PASSED].into_boxed_slice())
                        .expect("the next one lives");
                    drop(receiver.recv().expect("the one before lives"));
                }
            });
        }
    });
}

/// A library where the loader finds it, which splits `LD_PRELOAD` at blanks and colons: there is a link, while this
/// lives, if it lies in a directory with one.
struct Preloaded {
    path: PathBuf,
    _link: Option<Scratch>,
}

impl Preloaded {
    fn at(library: &Path) -> Self {
        static LINKS: AtomicUsize = AtomicUsize::new(0);
        let is_whole = |path: &Path| {
            let bytes = path.as_os_str().as_encoded_bytes();
            !bytes.iter().any(|byte| b" \t\n:".contains(byte))
        };
        let (path, link) = if is_whole(library) {
            (library.to_owned(), None)
        } else {
            let number = LINKS.fetch_add(1, Ordering::Relaxed);
            let link = Scratch::new(&format!("{number}.so"));
            assert!(
                is_whole(&link.0),
                "{} has a blank or a colon, at which the loader splits; set TMPDIR to a directory whose path has neither",
                link.0.display()
            );
            symlink(library, &link.0).expect("room for a link");
            (link.0.clone(), Some(link))
        };
        Self { path, _link: link }
    }
}

fn recorder() -> Preloaded {
    Preloaded::at(library())
}

/// The recorder's library. Cargo builds no shared library for the sake of tests, so it is asked to, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // This test is TARGET/debug/deps/record-HASH, or the like.
        let own = env::current_exe().expect("a test has a path");
        let target = own
            .ancestors()
            .nth(3)
            .expect("Cargo puts tests three levels down");
        let build = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--package",
                env!("CARGO_PKG_NAME"),
                "--manifest-path",
            ])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .arg("--target-dir")
            .arg(target)
            .status()
            .expect("cargo starts");
        assert!(build.success(), "the recorder does not build");
        target.join("debug/libscatterheap_recorder.so")
    })
}

/// A file or directory of one test's own, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("scatterheap-recorder-test-{}-{name}", process::id());
        Self(env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir(&self.0));
    }
}

/// Runs `command` under the recorder.
fn record(command: &mut Command, raw: &Path) -> Conversion {
    record_by(&recorder(), command, raw)
}

fn record_by(recorder: &Preloaded, command: &mut Command, raw: &Path) -> Conversion {
    let status = command
        .env("LD_PRELOAD", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", raw)
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{status}");
    let file = File::open(raw).expect("there is a recording");
    convert(BufReader::new(file)).expect("the recording is whole")
}

fn record_workload(name: &str, command: &mut Command) -> Conversion {
    let raw = Scratch::new(name);
    record(with_workload(command), &raw.0)
}

/// The command with the workload behind it.
fn with_workload(command: &mut Command) -> &mut Command {
    let own = env::current_exe().expect("a test has a path");
    let arguments = ["--ignored", "--exact", "workload", "--test-threads", "1"];
    // All threads share one arena of glibc's, so that a block freed by one is soon another's.
    command
        .arg(own)
        .args(arguments)
        .env("MALLOC_ARENA_MAX", "1")
}

/// The operations on the objects that were allocated with `size`, or got it by a realloc.
fn lives(conversion: &Conversion, size: usize) -> Vec<Operation> {
    let operations = conversion.trace.operations();
    let ids: HashSet<u64> = operations
        .iter()
        .filter(|o| o.size == size as u64)
        .map(|o| o.id)
        .collect();
    operations
        .iter()
        .filter(|o| ids.contains(&o.id))
        .copied()
        .collect()
}

fn kinds(conversion: &Conversion, size: usize) -> Vec<Kind> {
    lives(conversion, size)
        .iter()
        .map(|operation| operation.kind)
        .collect()
}

fn page_size() -> usize {
    // SAFETY: `sysconf` has no conditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size")
}

fn check_workload(conversion: &Conversion) {
    // An order in which a free came after the malloc that got its address would be mended as a missed free.
    assert_eq!(conversion.missed_frees, 0);
    assert_eq!(
        (
            conversion.unmatched,
            conversion.unfinished,
            conversion.dropped
        ),
        (0, 0, 0)
    );

    let passed = lives(conversion, PASSED);
    assert_eq!(passed.len(), 2 * THREADS * PASSES);
    let threads: HashSet<u32> = passed.iter().map(|operation| operation.thread).collect();
    assert_eq!(threads.len(), THREADS);
    assert!(conversion.trace.summary().frees_by_another_thread >= (THREADS * PASSES) as u64);

    let life = [Kind::Malloc, Kind::Realloc, Kind::Realloc, Kind::Free];
    assert_eq!(kinds(conversion, GROWN), life);
    assert_eq!(kinds(conversion, ZEROED), [Kind::Calloc, Kind::Free]);
    for (size, alignment) in ALIGNED.into_iter().zip([256, 64, 4096]) {
        let life = lives(conversion, size);
        assert_eq!((life.len(), life[0].alignment), (2, alignment));
    }
    // The array that could not grow stayed as it was.
    assert_eq!(kinds(conversion, 2 * ARRAY), [Kind::Malloc, Kind::Free]);
    let page = page_size();
    for size in [PAGES[0], PAGES[1].next_multiple_of(page)] {
        let life = lives(conversion, size);
        assert_eq!((life.len(), life[0].alignment as usize), (2, page));
    }
    for size in FREED_SIZED {
        assert_eq!(kinds(conversion, size), [Kind::Malloc, Kind::Free]);
    }
    assert_eq!(kinds(conversion, BY_THE_CHILD).len(), 0);
}

#[test]
fn threads_kinds_and_forks() {
    check_workload(&record_workload("direct", &mut Command::new("env")));
}

#[test]
fn a_script_that_ends_in_exec_records_the_program() {
    let mut shell = Command::new("sh");
    check_workload(&record_workload(
        "exec",
        shell.args(["-c", "exec \"$@\"", "sh"]),
    ));
}

#[test]
fn a_program_that_is_not_ours() {
    let raw = Scratch::new("sort");
    let conversion = record(
        Command::new("sort").arg(env!("CARGO_MANIFEST_PATH")),
        &raw.0,
    );
    assert!(conversion.trace.summary().mallocs > 10);
    let mut closed = conversion.trace;
    closed.close();
    assert_eq!(closed.summary().never_freed, 0);
}

#[test]
fn a_recorder_in_a_directory_that_the_loader_would_split() {
    let directory = Scratch::new("a b:c");
    fs::create_dir(&directory.0).expect("a directory");
    let link = Scratch(directory.0.join("recorder.so"));
    symlink(library(), &link.0).expect("room for a link");
    let raw = Scratch::new("split");
    let mut sort = Command::new("sort");
    let conversion = record_by(
        &Preloaded::at(&link.0),
        sort.arg(env!("CARGO_MANIFEST_PATH")),
        &raw.0,
    );
    assert!(conversion.trace.summary().mallocs > 10);
}

#[test]
fn a_program_that_is_killed_leaves_a_recording() {
    let raw = Scratch::new("killed");
    let recorder = recorder();
    let status = Command::new("sh")
        .args(["-c", "kill -KILL $$"])
        .env("LD_PRELOAD", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", &raw.0)
        .status()
        .expect("the shell starts");
    assert!(!status.success());
    let file = File::open(&raw.0).expect("there is a recording");
    let conversion = convert(BufReader::new(file)).expect("the recording is whole");
    assert!(!conversion.trace.operations().is_empty());
}

/// What was recorded before there was no more room.
fn check_beginning(conversion: &Conversion) {
    assert!(conversion.dropped > 10_000, "{}", conversion.dropped);
    let operations = conversion.trace.operations().len() as u64;
    assert!(operations > 10_000, "{operations}");
    assert_eq!((conversion.unmatched, conversion.missed_frees), (0, 0));
}

#[test]
fn a_disk_that_becomes_full_ends_the_recording_and_not_the_program() {
    let directory = Scratch::new("full");
    fs::create_dir(&directory.0).expect("a directory");
    let disk = "mount -t tmpfs -o size=2m none \"$DISK\"";
    let script = |then: &str| {
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--map-root-user", "--mount", "sh", "-c"])
            .args([format!("{disk} && {then}"), "sh".to_owned()])
            .env("DISK", &directory.0);
        unshare
    };
    if !script("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: recording on a disk that becomes full (no file system can be mounted)");
        return;
    }
    // The disk goes with the shell that mounted it, so what is on it is read there; the file's end is a hole.
    let read = "LD_PRELOAD=\"$LIBRARY\" \"$@\" >&2 && head -c 4M \"$SCATTERHEAP_TRACE_FILE\"";
    let recorder = recorder();
    let output = with_workload(&mut script(read))
        .env("LIBRARY", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", directory.0.join("recording"))
        .output()
        .expect("the shell starts");
    assert!(output.status.success(), "{}", output.status);
    check_beginning(&convert(output.stdout.as_slice()).expect("the recording is whole"));
}

#[test]
fn a_limit_of_file_sizes_ends_the_recording_and_not_the_program() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 2048; exec \"$@\"", "sh"]);
    check_beginning(&record_workload("limited", &mut shell));

    let raw = Scratch::new("nothing");
    let recorder = recorder();
    let status = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec true"])
        .env("LD_PRELOAD", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", &raw.0)
        .status()
        .expect("the shell starts");
    assert!(status.success(), "{status}");
    assert_eq!(fs::metadata(&raw.0).expect("a file").len(), 0);
}

/// Where the loader finds thread-local memory it may allocate, by the `malloc` that asked it.
#[test]
fn the_loader_is_not_asked_for_memory_of_threads() {
    let trap = Scratch::new("trap.so");
    let source = Scratch::new("trap.c");
    let text = "void abort(void); void *__tls_get_addr(void *place) { abort(); }";
    fs::write(&source.0, text).expect("room for a file");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&trap.0, &source.0])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: a loader that is asked for memory of threads (no C compiler found)");
        return;
    }
    let raw = Scratch::new("asks");
    let [trap, recorder] = [Preloaded::at(&trap.0), recorder()];
    let status = Command::new("sort")
        .arg(env!("CARGO_MANIFEST_PATH"))
        .env(
            "LD_PRELOAD",
            format!("{} {}", trap.path.display(), recorder.path.display()),
        )
        .env("SCATTERHEAP_TRACE_FILE", &raw.0)
        .stdout(Stdio::null())
        .status()
        .expect("sort starts");
    assert!(status.success(), "{status}");
    let file = File::open(&raw.0).expect("there is a recording");
    let conversion = convert(BufReader::new(file)).expect("the recording is whole");
    assert!(!conversion.trace.operations().is_empty());
}

#[test]
fn a_file_that_cannot_be_created_is_reported_and_the_program_runs() {
    let recorder = recorder();
    let output = Command::new("true")
        .env("LD_PRELOAD", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", "/nonexistent/recording")
        .output()
        .expect("true is everywhere");
    assert!(output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("cannot create the file"), "{message}");
}
