//! `cargo xtask setup`: installs what is missing. When nothing is, it only looks.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use scatterheap_ptx_builder::{Error, KernelCompiler, find_compiler};

use crate::browser::install_browser;
use crate::process::{find_program, run, succeeds};
use crate::python::install_maturin;
use crate::room;
use crate::toolchain::{self, cuda_tools, own_nvcc, own_ptxas};

/// What CUDA's compiler is made of on `PyPI`: CUDA 13.0, so that what it assembles also loads on the first driver of CUDA
/// 13. It knows every GPU from Turing to Blackwell. `ptxas` checks our PTX; the rest compiles programs in CUDA C++ that
/// use the heap.
const CUDA_PACKAGES: [(&str, &str); 4] = [
    ("nvidia-cuda-nvcc", CUDA_VERSION),
    ("nvidia-nvvm", CUDA_VERSION),
    ("nvidia-cuda-crt", CUDA_VERSION),
    ("nvidia-cuda-runtime", "13.0.96"),
];
const CUDA_VERSION: &str = "13.0.88";

/// Where a wheel of these has its files.
const IN_CUDA_WHEEL: &str = "nvidia/cu13/";

/// Makes sure that the kernel compiler, CUDA's compiler, `CMake`, maturin and, where that is possible, a compiler of C++
/// and Chromium are there.
pub fn run_setup() -> Result<()> {
    if let Some(room) = room::describe() {
        println!("{room}");
    }
    let compiler = kernel_compiler()?;
    println!("kernel compiler: {compiler}");
    install_cuda()?;
    let ptxas = toolchain::ptxas().context("ptxas was installed and is not there")?;
    println!("ptxas and nvcc: {CUDA_VERSION} ({})", ptxas.display());
    // nvcc compiles what is for the host by g++.
    let missing: Vec<_> = ["cmake", "g++"]
        .into_iter()
        .filter(|program| find_program(program).is_none())
        .collect();
    if !missing.is_empty() && is_debian() {
        install_packages(&missing)
            .with_context(|| format!("cannot install {}", missing.join(" and ")))?;
    }
    install_maturin()?;
    install_browser();
    Ok(())
}

/// Finds the kernel compiler, or installs it.
fn kernel_compiler() -> Result<KernelCompiler> {
    match find_compiler() {
        Err(Error::CompilerMissing { searched }) => {
            println!("kernel compiler: missing ({searched})");
        }
        found => return Ok(found?),
    }
    let installed = if is_debian() {
        install_packages(&["rustc-web", "cargo-web", "rust-web-src"]).or_else(|refusal| {
            if find_program("rustup").is_none() {
                return Err(refusal
                    .context("there is no rustup (https://rustup.rs), and apt-get was no help"));
            }
            println!("{refusal:#}");
            install_nightly()
        })
    } else {
        install_nightly()
    };
    installed.context("cannot install a kernel compiler")?;
    Ok(find_compiler()?)
}

/// Whether packages are installed with `apt-get`.
pub fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && find_program("apt-get").is_some()
}

/// Installs packages of the distribution.
pub fn install_packages(packages: &[&str]) -> Result<()> {
    install(packages, &[])
}

/// Installs packages of the distribution without what they only recommend.
pub fn install_lean_packages(packages: &[&str]) -> Result<()> {
    install(packages, &["--no-install-recommends"])
}

fn install(packages: &[&str], options: &[&str]) -> Result<()> {
    println!("running apt-get install {}", packages.join(" "));
    run(privileged("apt-get")?.args(["update", "--quiet"]))?;
    let simulation = run(Command::new("apt-get")
        .args(["install", "--simulate", "--quiet"])
        .args(options)
        .args(packages))?;
    refuse_removals(packages, &simulation)?;
    run(privileged("apt-get")?
        .args(["install", "--quiet", "--yes", "--no-remove"])
        .args(options)
        .args(packages))?;
    Ok(())
}

/// Takes nothing away from the user: some packages take the place of others, as `rustc-web` does of Debian's `rustc`.
/// `simulation` is what apt-get says that it would do.
fn refuse_removals(packages: &[&str], simulation: &str) -> Result<()> {
    let removed: Vec<_> = simulation
        .lines()
        .filter_map(|line| line.strip_prefix("Remv ")?.split_whitespace().next())
        .collect();
    ensure!(
        removed.is_empty(),
        "`apt-get install {}` would remove {}; run it yourself if they may go, and then this command again",
        packages.join(" "),
        removed.join(", ")
    );
    Ok(())
}

/// A command that runs as root: as it is for root, through `sudo` for others. Never asks questions
/// of its own.
fn privileged(program: &str) -> Result<Command> {
    let is_root = run(Command::new("id").arg("-u"))?.trim() == "0";
    let mut command = if is_root {
        Command::new("env")
    } else if find_program("sudo").is_some() {
        let mut command = Command::new("sudo");
        command.arg("env");
        command
    } else {
        bail!(
            "installing packages needs root, and there is no sudo; run `cargo xtask setup` as root"
        );
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", program]);
    Ok(command)
}

fn install_nightly() -> Result<()> {
    if find_program("rustup").is_none() {
        bail!(
            "there is no rustup; install it from https://rustup.rs and run `cargo xtask setup` again"
        );
    }
    println!("running rustup toolchain install nightly --component rust-src");
    run(Command::new("rustup")
        .args(["toolchain", "install", "nightly", "--profile", "minimal"])
        .args(["--component", "rust-src", "--no-self-update"]))?;
    Ok(())
}

/// Makes sure that our own CUDA compiler is there in the pinned versions.
fn install_cuda() -> Result<()> {
    let pinned = CUDA_PACKAGES
        .map(|(package, version)| format!("{package}=={version}\n"))
        .concat();
    // Written last, so an interrupted setup begins again.
    let note = cuda_tools().join("packages.txt");
    if fs::read_to_string(&note).is_ok_and(|installed| installed == pinned) {
        return Ok(());
    }
    for (package, version) in CUDA_PACKAGES {
        let package = format!("{package}=={version}");
        println!("running pip download {package}");
        let download = tempfile::tempdir().context("cannot create a temporary directory")?;
        let wheel = download_wheel(&package, download.path())?;
        unpack(&wheel, &cuda_tools())
            .with_context(|| format!("cannot unpack {}", wheel.display()))?;
    }
    // nvcc looks for libraries there.
    #[cfg(unix)]
    if !cuda_tools().join("lib64").exists() {
        std::os::unix::fs::symlink("lib", cuda_tools().join("lib64"))?;
    }
    for program in [own_ptxas(), own_nvcc()] {
        run(Command::new(&program).arg("--version"))
            .with_context(|| format!("the installed {} does not run", program.display()))?;
    }
    Ok(fs::write(note, pinned)?)
}

/// Downloads a package, such as `name==1.2`, without what it depends on; its wheel.
fn download_wheel(package: &str, directory: &Path) -> Result<PathBuf> {
    run(python_with_pip()?
        .args([
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
        ])
        .arg(directory)
        .arg(package))?;
    fs::read_dir(directory)
        .context("cannot list the download")?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip downloaded no wheel of {package}"))
}

/// `python3 -m pip`, installed first where the distribution leaves it out.
fn python_with_pip() -> Result<Command> {
    let has_pip = || succeeds(Command::new("python3").args(["-m", "pip", "--version"]));
    if !has_pip() && is_debian() {
        install_packages(&["python3-pip"]).context("cannot install pip")?;
    }
    if !has_pip() {
        bail!(
            "CUDA's compiler is downloaded with pip, and `python3 -m pip` does not run; install Python 3 with pip"
        );
    }
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    Ok(command)
}

/// Takes the toolkit's files and the licence out of a wheel, which is a zip file.
fn unpack(wheel: &Path, destination: &Path) -> Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?)?;
    let names: Vec<String> = archive
        .file_names()
        .flatten()
        .map(Cow::into_owned)
        .collect();
    let mut found = false;
    for name in names.iter().filter(|name| !name.ends_with('/')) {
        let inside = if name.ends_with("/licenses/License.txt") {
            "License.txt"
        } else {
            let Some(inside) = name.strip_prefix(IN_CUDA_WHEEL) else {
                continue;
            };
            found = true;
            inside
        };
        let target = destination.join(inside);
        extract(&mut archive, name, &target)?;
        let is_program = ["bin/", "nvvm/bin/"]
            .iter()
            .any(|programs| inside.starts_with(programs));
        set_mode(&target, if is_program { 0o755 } else { 0o644 })?;
    }
    ensure!(found, "there is no {IN_CUDA_WHEEL} in it");
    Ok(())
}

/// Extracts one file. It gets its name only when it is whole, so an interrupted setup leaves no
/// half program.
fn extract(archive: &mut zip::ZipArchive<File>, name: &str, target: &Path) -> Result<()> {
    let directory = target.parent().context("the target lies in a directory")?;
    fs::create_dir_all(directory)?;
    let mut partial = tempfile::NamedTempFile::new_in(directory)?;
    io::copy(&mut archive.by_name(name)?, &mut partial)?;
    partial.persist(target)?;
    Ok(())
}

/// Says who may read and run a file, where the operating system asks.
#[cfg(unix)]
pub fn set_mode(file: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(mode))?)
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")]
pub fn set_mode(_file: &Path, _mode: u32) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_would_remove_others_are_refused() {
        let simulation = "The following packages will be REMOVED:\n  cargo rustc\n\
            Remv cargo [0.66.0+ds1-1] [rustc:amd64 ]\nRemv rustc [1.63.0+dfsg1-2]\n\
            Inst rustc-web (1.96.0+dfsg1-1~deb12u2 Debian-Security:12/oldstable-security [amd64])\n";
        let refusal = refuse_removals(&["rustc-web", "cargo-web"], simulation);
        let message = refusal.expect_err("two would go").to_string();
        let expected = "`apt-get install rustc-web cargo-web` would remove cargo, rustc; ";
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");

        let simulation = "1 newly installed, 0 to remove and 7 not upgraded.\n\
            Inst cmake (3.25.1-1 Debian:12.15/oldstable [amd64])\nConf cmake (3.25.1-1)\n";
        refuse_removals(&["cmake"], simulation).expect("nothing goes");
    }
}
