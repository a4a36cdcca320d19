//! The examples that are projects of their own, with kernels of their own, build and run, as a user would build them.

use scatterheap_ptx_builder::{Baseline, Builder, find_compiler};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example that is a project.
struct Project {
    directory: &'static str,
    /// What it prints, among other things.
    prints: [&'static str; 2],
    /// Whether its kernels use `alloc`.
    with_alloc: bool,
    /// Its kernels.
    entries: [&'static str; 2],
}

const OWN_KERNEL: Project = Project {
    directory: "examples/03-own-kernel",
    prints: [
        "20000 threads allocated 65524 nodes",
        "the heap is empty again",
    ],
    with_alloc: false,
    entries: ["own_factor", "own_multiply"],
};

const VEC_IN_KERNELS: Project = Project {
    directory: "examples/07-vec-in-kernels",
    prints: [
        "the vectors of 20000 threads have 19998 blocks",
        "the heap is empty again",
    ],
    with_alloc: true,
    entries: ["vec_factor", "vec_multiply"],
};

impl Project {
    /// Its directory; none on machines without the source, where test executables are also run.
    fn source(&self) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.directory);
        source.is_dir().then_some(source)
    }

    /// Cargo in its directory. None where there is no cargo or no source.
    fn cargo(&self, arguments: &[&str]) -> Option<Command> {
        let source = self.source()?;
        if !Path::new(env!("CARGO")).is_file() {
            return None;
        }
        let mut command = Command::new(env!("CARGO"));
        command
            .args(arguments)
            .current_dir(source)
            .env("CARGO_TARGET_DIR", target())
            // Takes half as long.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Meant for the tests, not for the example.
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(variable);
        }
        Some(command)
    }

    /// Runs it, if that can be done here, and checks what it prints.
    fn runs(&self, arguments: &[&str]) {
        let Some(mut command) = self.cargo(arguments) else {
            println!(
                "skipped: building {} (no cargo or no source here)",
                self.directory
            );
            return;
        };
        let output = command.output().expect("cargo starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        for words in self.prints {
            assert!(printed.contains(words), "{printed}");
        }
    }

    /// Runs it as a user does, on the CPU and on a GPU if there is one.
    fn runs_for_a_user(&self) {
        self.runs(&["run"]);
        if scatterheap::Device::gpu_count() > 0 {
            self.runs(&["run", "--", "cuda:0"]);
        } else {
            println!(
                "skipped: {} on a GPU (no NVIDIA driver found)",
                self.directory
            );
        }
    }

    /// Compiles its kernels, if that can be done here.
    fn compiles_to_ptx(&self) {
        let Some(source) = self.source() else {
            println!(
                "skipped: compiling the kernels of {} (no source here)",
                self.directory
            );
            return;
        };
        if let Err(error) = find_compiler() {
            println!(
                "skipped: compiling the kernels of {} ({error})",
                self.directory
            );
            return;
        }
        let mut builder = Builder::new(source.join("kernels"))
            .baseline(Baseline::SM_75)
            .output_directory(target().join("kernels"));
        if self.with_alloc {
            builder = builder.with_alloc();
        }
        let modules = builder.build().expect("the kernels compile");
        let text = modules[0].read().expect("the module is there");
        for entry in self.entries {
            assert!(
                text.contains(&format!(".entry {entry}(")),
                "no {entry} in {text}"
            );
        }
        assert!(!text.contains(".extern"), "everything is linked in: {text}");
        let has_place = text.contains(".visible .global .align 8 .b8 scatterheap_global_heap[");
        assert_eq!(has_place, self.with_alloc);
    }
}

/// Where they are built. Kept between runs, so that only the first one takes long, and one for all, which have
/// the library in common.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-kernel")
}

#[test]
fn they_run_on_the_cpu() {
    OWN_KERNEL.runs(&["run", "--no-default-features"]);
    VEC_IN_KERNELS.runs(&["run", "--no-default-features"]);
}

#[test]
#[ignore = "compiles the embedded kernels once more, which takes a minute"]
fn they_run_as_a_user_runs_them() {
    OWN_KERNEL.runs_for_a_user();
    VEC_IN_KERNELS.runs_for_a_user();
}

#[test]
fn their_kernels_compile_to_ptx() {
    OWN_KERNEL.compiles_to_ptx();
    VEC_IN_KERNELS.compiles_to_ptx();
}
