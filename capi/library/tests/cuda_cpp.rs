//! Programs in CUDA C++ that are built with the package of `cargo xtask cuda-package`, by `CMake` and by nvcc alone. They
//! are run on the first GPU; where there is none, they must say so.

mod layout;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The GPU that is compiled for where there is none; else the first GPU's own.
const ARCHITECTURE: (u32, u32) = (9, 0);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// CUDA's compiler: the one that `cargo xtask setup` installs, else the one on the search path.
fn nvcc() -> Option<PathBuf> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    [root().join(".tools/cuda/bin")]
        .into_iter()
        .chain(std::env::split_paths(&search_path))
        .map(|directory| directory.join("nvcc"))
        .find(|program| program.is_file())
}

fn first_gpu() -> Option<scatterheap_host::Device> {
    let selector = scatterheap_host::Selector::Cuda(0);
    scatterheap_host::Device::open(&selector, &[]).ok()
}

/// What `sm_` is followed by.
fn architecture() -> String {
    let capability = first_gpu().and_then(|gpu| gpu.compute_capability());
    let (major, minor) = capability.unwrap_or(ARCHITECTURE);
    format!("{major}{minor}")
}

fn done(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}");
    output
}

/// Makes the package in a directory, with the object for some architectures, or `none`.
fn package(directory: &Path, architectures: &str) {
    let test = std::env::current_exe().expect("a test has a file");
    // TARGET/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).expect("a target directory");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--package", "xtask", "--", "cuda-package"])
        .args(["--architectures", architectures, "--output"])
        .arg(directory)
        .env("CARGO_TARGET_DIR", target)
        .current_dir(root());
    if cfg!(debug_assertions) {
        cargo.arg("--dev");
    }
    done(&mut cargo);
}

/// Runs a program: it must succeed on a GPU, and say that there is none otherwise.
fn run(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if first_gpu().is_some() {
        println!("{printed}");
        assert!(output.status.success(), "{}: {printed}", program.display());
    } else {
        let name = program.file_name().unwrap_or_default().display();
        println!("skipped: {name} in CUDA C++ on a GPU (no GPU found)");
        assert!(!output.status.success(), "{printed}");
        assert!(printed.contains("no NVIDIA driver"), "{printed}");
    }
}

#[test]
fn programs_in_cuda_cpp_are_built_and_run() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: CUDA C++ (no nvcc; `cargo xtask setup` installs it)");
        return;
    };
    let directory = TempDir::new().expect("a directory");
    let prefix = directory.path().join("prefix");
    package(&prefix, &architecture());
    by_nvcc(&nvcc, &prefix, directory.path());
    by_cmake(&nvcc, &prefix, &directory.path().join("build"));
    layout::what_is_of_other_sources_is_refused(&nvcc, &prefix, directory.path());
    // The object of the older package does not stay beside newer headers.
    package(&prefix, "none");
    assert!(!prefix.join("lib/scatterheap-device.o").exists());
}

/// Compiles a source for the GPU with the headers alone, and gives what nvcc said if it refused it.
fn refusal(nvcc: &Path, standard: &str, source: &str, directory: &Path) -> Option<String> {
    let file = directory.join("source.cu");
    fs::write(&file, format!("#include <scatterheap.h>\n{source}\n")).expect("written");
    layout::write_names_of_no_build(directory);
    let output = Command::new(nvcc)
        .args(["-arch=sm_90", "-rdc=true", "-ptx", "-I"])
        .arg(directory)
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../include"))
        .arg(format!("-std={standard}"))
        .arg(&file)
        .arg("-o")
        .arg(directory.join("source.ptx"))
        .output()
        .expect("nvcc starts");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_could_not_work_is_refused_when_it_is_compiled() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: CUDA C++ (no nvcc; `cargo xtask setup` installs it)");
        return;
    };
    let directory = TempDir::new().expect("a directory");
    let over_aligned = "
        struct alignas(32) Line { double values[4]; };
        __global__ void end(const __grid_constant__ scatterheap_handle heap, Line *line) {
            scatterheap_delete(&heap, line);
        }";
    let usual = over_aligned.replace("32", "16");
    let in_standard = |standard, source| refusal(&nvcc, standard, source, directory.path());
    assert_eq!(in_standard("c++17", over_aligned), None);
    assert_eq!(in_standard("c++14", &usual), None);
    let said = in_standard("c++14", over_aligned).expect("it is refused");
    assert!(said.contains("compile with -std=c++17"), "{said}");
    let array = "
        __global__ void make(scatterheap_handle heap, int **out) {
            *out = new (&heap) int[3];
        }";
    let said = in_standard("c++17", array).expect("it is refused");
    assert!(said.contains("deleted function"), "{said}");
}

/// A program that calls everything, built as the guide says for who has no `CMake`.
fn by_nvcc(nvcc: &Path, prefix: &Path, directory: &Path) {
    let ptx = directory.join("kernels.ptx");
    let flags = |source: &Path| {
        let mut command = Command::new(nvcc);
        command
            .arg(format!("-arch=sm_{}", architecture()))
            .args(["-std=c++17", "-rdc=true", "-Werror=all-warnings"])
            .args(["-Xcompiler=-Wall,-Wextra", "-I"])
            .arg(prefix.join("include"))
            .arg(source);
        command
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/kernels.cu");
    done(flags(&source).arg("-ptx").arg("-o").arg(&ptx));
    let code = fs::read_to_string(&ptx).expect("compiled");
    let foreign = code
        .lines()
        .filter_map(|line| line.strip_prefix(".extern .func "));
    let called: BTreeSet<&str> = foreign
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    // Neither CUDA's malloc nor its free is left.
    let ours = [
        "scatterheap_aligned_alloc",
        "scatterheap_calloc",
        "scatterheap_free",
        "scatterheap_malloc",
        "scatterheap_malloc_tagged",
        "scatterheap_realloc",
        "scatterheap_usable_size",
    ];
    assert!(called.iter().eq(&ours), "{called:?}");

    // malloc and free, for two baselines: each asks once which lanes came together.
    let inlined = prefix.join("include/scatterheap/inline.cuh");
    let inlined = fs::read_to_string(inlined).expect("made with the package");
    assert_eq!(inlined.matches("activemask.b32").count(), 4);

    let program = directory.join("kernels");
    let library = prefix.join("lib");
    done(
        flags(&source)
            // The other way to call malloc and free.
            .arg("-DSCATTERHEAP_INLINE")
            .arg(prefix.join("share/scatterheap/scatterheap.cu"))
            .arg(library.join("scatterheap-device.o"))
            .arg("-L")
            .arg(&library)
            .arg(format!("-Xlinker=-rpath,{}", library.display()))
            .args(["-lscatterheap", "-o"])
            .arg(&program),
    );
    run(&program, &[]);
}

/// A compiler for the host that notes what it is given, and where it does.
fn noting_compiler(directory: &Path) -> (PathBuf, PathBuf) {
    let (program, notes) = (directory.join("host/g++"), directory.join("host/notes"));
    fs::create_dir_all(directory.join("host")).expect("a directory");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\nexec g++ \"$@\"\n",
        notes.display()
    );
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    (program, notes)
}

/// The example, whose project finds the package.
fn by_cmake(nvcc: &Path, prefix: &Path, build: &Path) {
    let (compiler, notes) = noting_compiler(build);
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(root().join("examples/13-cuda-cpp"))
        .arg("-B")
        .arg(build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .arg(format!("-DCMAKE_CUDA_COMPILER={}", nvcc.display()))
        .arg(format!("-DCMAKE_CUDA_HOST_COMPILER={}", compiler.display()))
        .arg(format!("-DCMAKE_CUDA_ARCHITECTURES={}", architecture()));
    if Command::new("cmake").arg("--version").output().is_err() {
        println!("skipped: CUDA C++ by CMake (no cmake; `cargo xtask setup` installs it)");
        return;
    }
    done(&mut configure);
    done(
        Command::new("cmake")
            .args(["--build"])
            .arg(build)
            .args(["--parallel", "2"]),
    );
    assert!(build.join("drop-in-cuda").is_file());
    // Also for the device functions.
    let calls = fs::read_to_string(notes).expect("it was called");
    assert!(calls.contains("scatterheap-device"), "{calls}");
    run(&build.join("divisors"), &["10000"]);
    run(&build.join("drop-in-scatterheap"), &["1000"]);
}
