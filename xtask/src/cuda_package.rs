//! `cargo xtask cuda-package`: what programs in C and CUDA C++ are built with: headers, the library of the host, the device
//! functions as PTX and as an object, and what `CMake` finds them by.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{self, line_of};
use crate::toolchain::{cargo, own_nvcc, workspace};

/// Registers of a kernel that is linked with the device functions: it has as many as the function with the most.
const REGISTERS: u32 = 64;
/// GPUs that the object is for if nothing is said: from Ampere to Blackwell.
const ARCHITECTURES: &str = "80,86,89,90,100,120";
/// The package that compiles the device functions when it is built, and the beginning of their files' names.
const COMPILED_BY: &str = "#scatterheap-capi@";
const PTX: &str = "scatterheap-device.";

/// Build what programs in C and CUDA C++ need: headers, libraries and the package for `find_package`
#[derive(clap::Args, Debug)]
pub struct PackageArguments {
    /// The directory to write to [default: target/scatterheap-cuda]
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Build the host's library without optimisation, which is faster
    #[arg(long)]
    dev: bool,
    /// Compute capabilities that the linkable object is for; `none` leaves it out
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = ARCHITECTURES)]
    architectures: Vec<String>,
}

/// Builds the package and says where it is.
///
/// # Errors
/// Something does not build, or cannot be written.
pub fn run(arguments: &PackageArguments) -> Result<()> {
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| workspace().join("target/scatterheap-cuda"));
    gather(&output, arguments.dev, &arguments.architectures)?;
    println!("written to {}", output.display());
    println!(
        "CMake finds it with -DCMAKE_PREFIX_PATH={}",
        output.display()
    );
    Ok(())
}

/// Builds the package into a directory. What is of an older one there stays, but for what has the same name, and the object.
///
/// # Errors
/// Something does not build, or cannot be written.
pub fn gather(directory: &Path, dev: bool, architectures: &[String]) -> Result<()> {
    let built = build_library(dev)?;
    let source = workspace().join("capi");
    copy_tree(&source.join("include"), &directory.join("include"))?;
    let (libraries, share) = (directory.join("lib"), directory.join("share/scatterheap"));
    put(&built.library, &libraries)?;
    for ptx in built.ptx()? {
        put(&ptx, &share)?;
    }
    for header in ["inline.cuh", "layout.h"] {
        let made = built.code.join(header);
        put(&made, &directory.join("include/scatterheap"))?;
    }
    put(&source.join("cuda/scatterheap.cu"), &share)?;
    let cmake = libraries.join("cmake/scatterheap");
    put(&source.join("cuda/scatterheap-config.cmake"), &cmake)?;
    fs::write(
        cmake.join("scatterheap-config-version.cmake"),
        version_file(),
    )?;
    let object = libraries.join("scatterheap-device.o");
    // One of an older package does not fit the headers.
    remove(&object)?;
    if architectures != ["none"] {
        let ptx = share.join(format!("{PTX}{}.ptx", baseline_of(architectures)));
        compile_object(&ptx, architectures, &object)?;
    }
    Ok(())
}

/// What cargo built.
#[derive(Debug, Default)]
struct Built {
    library: PathBuf,
    /// Where the device functions were compiled to.
    code: PathBuf,
}

impl Built {
    /// The device functions, for each baseline.
    fn ptx(&self) -> Result<Vec<PathBuf>> {
        let files = fs::read_dir(&self.code)
            .with_context(|| format!("cannot list {}", self.code.display()))?;
        let mut found: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        found.retain(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(PTX) && file.extension() == Some(OsStr::new("ptx"))
        });
        ensure!(!found.is_empty(), "no PTX in {}", self.code.display());
        Ok(found)
    }

    /// Reads one message of cargo.
    fn see(&mut self, message: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if text(&message["reason"]) == "build-script-executed"
            && text(&message["package_id"]).contains(COMPILED_BY)
        {
            self.code = text(&message["out_dir"]).into();
        }
        let files = message["filenames"].as_array();
        let mut files = files.into_iter().flatten().map(text);
        if let Some(library) = files.find(|name| name.ends_with("/libscatterheap.so")) {
            self.library = library.into();
        }
    }
}

fn build_library(dev: bool) -> Result<Built> {
    let mut command = cargo();
    command.args(["build", "--package", "scatterheap-library"]);
    if !dev {
        command.arg("--release");
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}); see what it printed above",
        line_of(&command),
        output.status
    );
    let mut built = Built::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Ok(message) = serde_json::from_str(line) {
            built.see(&message);
        }
    }
    if built.library.as_os_str().is_empty() || built.code.as_os_str().is_empty() {
        bail!(
            "`{}` built no library with device functions",
            line_of(&command)
        );
    }
    Ok(built)
}

/// The PTX that all of some architectures take: it must not be for a newer one than any of them. As the `CMake` package chooses it.
fn baseline_of(architectures: &[String]) -> &'static str {
    let is_older_than_ampere = |architecture: &String| {
        let digits = architecture.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        // Of what is no number nvcc will tell.
        digits.parse().is_ok_and(|number: u32| number < 80)
    };
    if architectures.iter().any(is_older_than_ampere) {
        "sm_75"
    } else {
        "sm_80"
    }
}

/// Compiles the device functions to an object that nvcc links.
fn compile_object(ptx: &Path, architectures: &[String], object: &Path) -> Result<()> {
    let nvcc = own_nvcc();
    let mut command = Command::new(&nvcc);
    for architecture in architectures {
        command.arg(format!(
            "-gencode=arch=compute_{architecture},code=sm_{architecture}"
        ));
    }
    command
        .arg(format!("-maxrregcount={REGISTERS}"))
        .args(["-Xcompiler=-fPIC", "-dc"])
        .arg(ptx)
        .arg("-o")
        .arg(object);
    process::run(&mut command).with_context(|| {
        format!(
            "cannot compile the device functions for {}; `cargo xtask setup` installs nvcc, `--architectures none` does without",
            architectures.join(", ")
        )
    })?;
    Ok(())
}

fn version_file() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "set(PACKAGE_VERSION \"{version}\")\n\
         if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n  set(PACKAGE_VERSION_COMPATIBLE FALSE)\n\
         else()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  \
         if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)\n    set(PACKAGE_VERSION_EXACT TRUE)\n  endif()\nendif()\n"
    )
}

/// Removes a file, if it is there.
fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Copies a file into a directory, under its name.
fn put(file: &Path, directory: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let target = directory.join(name);
    // Not over what a program may have loaded.
    let _absent = fs::remove_file(&target);
    fs::copy(file, &target)
        .with_context(|| format!("cannot copy {} to {}", file.display(), target.display()))?;
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            let name = path.file_name().context("a directory has a name")?;
            copy_tree(&path, &to.join(name))?;
        } else {
            put(&path, to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ptx_is_for_the_oldest_of_the_architectures() {
        let baseline = |list: &str| {
            let architectures: Vec<String> = list.split(',').map(str::to_owned).collect();
            baseline_of(&architectures)
        };
        assert_eq!(baseline("75"), "sm_75");
        assert_eq!(baseline("90,75,120"), "sm_75");
        assert_eq!(baseline("80"), "sm_80");
        assert_eq!(baseline("90a,100f"), "sm_80");
        assert_eq!(baseline(ARCHITECTURES), "sm_80");
    }

    #[test]
    fn the_library_and_the_code_are_read_from_messages() {
        let mut built = Built::default();
        built.see(&json!({
            "reason": "build-script-executed",
            "package_id": "path+file:///source/capi#scatterheap-capi@0.1.0",
            "out_dir": "/target/build/scatterheap-capi-1/out",
        }));
        built.see(&json!({
            "reason": "compiler-artifact",
            "filenames": ["/target/release/libscatterheap.so"],
        }));
        built.see(&json!({"reason": "compiler-artifact", "filenames": ["/target/other.rlib"]}));
        built.see(
            &json!({"reason": "build-script-executed", "package_id": "other", "out_dir": "/no"}),
        );
        assert_eq!(
            built.library,
            Path::new("/target/release/libscatterheap.so")
        );
        assert_eq!(
            built.code,
            Path::new("/target/build/scatterheap-capi-1/out")
        );
    }
}
