//! `cargo xtask package`: packs the crates as a registry gets them, and builds each from its package, without the repository.
//!
//! Cargo's own verification cannot do it: build scripts compile kernels by an inner cargo, in the directory of the kernel
//! crate, and that one looks for our other crates in the registry. Here both cargos find everything in one directory, which
//! stands for crates.io: our packages, and copies of all dependencies, those of `core` among them. It lies in a home of cargo
//! of its own, as what comes from crates.io does: so nobody takes the repository around it for the packages' workspace.
//!
//! Cargo takes for granted that a version in a registry never changes. So all is made anew each time.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use scatterheap_ptx_builder::find_compiler;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::process::{run as run_silently, show};
use crate::revision::Revision;
use crate::toolchain::cargo;

/// The crate that users depend on, and its example that the program of a user is made of.
const USED: &str = "scatterheap";
const PROGRAM: [(&str, &str); 2] = [
    ("examples/01-allocate.rs", "main.rs"),
    ("examples/device/mod.rs", "device.rs"),
];

/// The texts of the licences, which each package has to bring along.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Packs, builds from the packages, and says for each crate what came of it.
///
/// # Errors
/// A crate lacks what a registry asks for, cannot be packed, does not bring the licences along, or does not build from its package.
pub fn run() -> Result<()> {
    let metadata = Metadata::read()?;
    let crates = published(metadata.packages)?;
    let away = Away::make(&metadata.target_directory.join("packages"))?;
    let commit = Revision::find()?.commit;
    println!("packing {} crates of commit {commit}", crates.len());
    away.pack(&crates)?;
    away.copy_dependencies()?;
    let mut unpacked = Vec::new();
    for package in &crates {
        unpacked.push(away.unpack(package)?);
    }
    build_each(&away, crates.iter().zip(&unpacked))?;
    let used = crates.iter().find(|package| package.name == USED);
    away.run_program(used.context("the crate that users depend on is published")?)?;
    let count = crates.len();
    println!(
        "{count} of {count} crates build from their packages, and a program that depends on them runs"
    );
    Ok(())
}

/// Builds one after the other, also after one that does not build.
fn build_each<'a>(
    away: &Away,
    packages: impl ExactSizeIterator<Item = (&'a Package, &'a Unpacked)>,
) -> Result<()> {
    let count = packages.len();
    let mut failed = Vec::new();
    for (package, unpacked) in packages {
        let verdict = match away.build(package) {
            Ok(()) => "builds",
            Err(error) => {
                eprintln!("{error:#}");
                failed.push(package.name.as_str());
                "FAILED"
            }
        };
        println!("{package} {unpacked}  {verdict}");
    }
    ensure!(
        failed.is_empty(),
        "{} of {count} crates build from their packages, not {}; see above why",
        count - failed.len(),
        failed.join(", ")
    );
    Ok(())
}

/// What `cargo metadata --no-deps` prints, as far as it is needed here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    /// The registries that it may go to: all if nothing is said, none if it is not to be published.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    readme: Option<PathBuf>,
    keywords: Vec<String>,
    categories: Vec<String>,
}

impl Metadata {
    fn read() -> Result<Self> {
        let printed =
            run_silently(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        serde_json::from_str(&printed).context("`cargo metadata` prints what is not understood")
    }
}

impl Package {
    /// What its page in a registry would lack.
    fn missing(&self) -> Vec<&'static str> {
        let said = [
            ("description", self.description.is_some()),
            ("license", self.license.is_some()),
            ("repository", self.repository.is_some()),
            ("readme", self.readme.is_some()),
            ("keywords", !self.keywords.is_empty()),
            ("categories", !self.categories.is_empty()),
        ];
        let missing = said.into_iter().filter(|(_, is_said)| !is_said);
        missing.map(|(what, _)| what).collect()
    }

    /// The name of its directory, and of its archive without the extension.
    fn directory(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// The packages that are published, with everything said that their pages show.
fn published(mut packages: Vec<Package>) -> Result<Vec<Package>> {
    packages.retain(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()));
    for package in &packages {
        let missing = package.missing();
        let (name, list) = (&package.name, missing.join(", "));
        ensure!(missing.is_empty(), "the manifest of {name} lacks: {list}");
    }
    Ok(packages)
}

/// A package that was unpacked.
struct Unpacked {
    files: usize,
    /// Of the archive.
    bytes: usize,
}

/// A place where nothing is known of the repository.
struct Away {
    /// Where `cargo package` works, and leaves the archives.
    packing: PathBuf,
    /// The home of the cargos that build.
    home: PathBuf,
    /// What stands for crates.io.
    packages: PathBuf,
    /// The project of a user.
    project: PathBuf,
    target: PathBuf,
}

impl Away {
    /// Makes the place, empty.
    fn make(directory: &Path) -> Result<Self> {
        if let Err(error) = fs::remove_dir_all(directory)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("cannot remove {}", directory.display()));
        }
        let home = directory.join("home");
        let away = Self {
            packing: directory.join("packing"),
            packages: home.join("packages"),
            project: directory.join("project"),
            target: directory.join("target"),
            home,
        };
        // Paths are relative to where the home lies.
        let source = "[source.crates-io]\nreplace-with = \"packages\"\n\n[source.packages]\ndirectory = \"home/packages\"\n";
        write(&away.home.join("config.toml"), source)?;
        Ok(away)
    }

    /// Packs the packages, with changes that are not committed yet.
    fn pack(&self, packages: &[Package]) -> Result<()> {
        let mut command = cargo();
        // Building them is what this task does.
        command.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
        for package in packages {
            command.args(["--package", &package.name]);
        }
        command.arg("--target-dir").arg(&self.packing);
        show(&mut command)
    }

    /// Copies the dependencies of the workspace, and those of the library of the compiler that kernels are built with.
    fn copy_dependencies(&self) -> Result<()> {
        let compiler = find_compiler()?;
        show(
            cargo()
                .args([
                    "vendor",
                    "--quiet",
                    "--locked",
                    "--versioned-dirs",
                    "--sync",
                ])
                .arg(compiler.library.join("Cargo.toml"))
                .arg(&self.packages)
                // Its manifest uses what is not stable.
                .env("RUSTC_BOOTSTRAP", "1")
                .stdout(Stdio::null()),
        )
    }

    /// Unpacks a package to where packages are taken from.
    fn unpack(&self, package: &Package) -> Result<Unpacked> {
        let directory = package.directory();
        let archive = self
            .packing
            .join("package")
            .join(format!("{directory}.crate"));
        let bytes =
            fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
        let listed = run_silently(
            Command::new("tar")
                .args(["--extract", "--gzip", "--verbose", "--file"])
                .arg(&archive)
                .arg("--directory")
                .arg(&self.packages),
        )?;
        for licence in LICENCES {
            let path = format!("{directory}/{licence}");
            ensure!(
                listed.lines().any(|line| line == path),
                "the package of {} lacks {licence}: link it into the crate's directory",
                package.name
            );
        }
        // What the packed lock files say that it is.
        let checksum = json!({"files": {}, "package": HEXLOWER.encode(&Sha256::digest(&bytes))});
        let file = self.packages.join(directory).join(".cargo-checksum.json");
        write(&file, &checksum.to_string())?;
        Ok(Unpacked {
            files: listed.lines().count(),
            bytes: bytes.len(),
        })
    }

    /// Builds a package by itself, with the versions in its own lock file.
    fn build(&self, package: &Package) -> Result<()> {
        let directory = self.packages.join(package.directory());
        show(
            self.cargo(&directory)
                .args(["build", "--quiet", "--locked"]),
        )
    }

    /// Builds and runs a program that depends on the packages, as a user's would.
    fn run_program(&self, used: &Package) -> Result<()> {
        let (name, version) = (&used.name, &used.version);
        let manifest = format!(
            "[workspace]\n\n[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nanyhow = \"1.0\"\n{name} = \"{version}\"\n"
        );
        write(&self.project.join("Cargo.toml"), &manifest)?;
        let source = self.packages.join(used.directory());
        for (from, to) in PROGRAM {
            let from = source.join(from);
            let text = fs::read_to_string(&from)
                .with_context(|| format!("cannot read {}", from.display()))?;
            write(&self.project.join("src").join(to), &text)?;
        }
        show(
            self.cargo(&self.project)
                .args(["run", "--quiet", "--", "--device", "cpu"]),
        )
    }

    /// A cargo that knows the packages only, in a directory.
    fn cargo(&self, directory: &Path) -> Command {
        let mut command = cargo();
        command
            .current_dir(directory)
            .env("CARGO_HOME", &self.home)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_INCREMENTAL", "0")
            // It is to be seen that they build. Nobody debugs these.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }
}

/// Writes a file, and makes its directory.
fn write(file: &Path, text: &str) -> Result<()> {
    let directory = file.parent().context("a file lies in a directory")?;
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(file, text))
        .with_context(|| format!("cannot write {}", file.display()))
}

impl fmt::Display for Package {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = (&self.name, &self.version);
        write!(formatter, "{name:<26} {version}")
    }
}

impl fmt::Display for Unpacked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = (self.files, self.bytes);
        write!(formatter, "{files:>4} files {bytes:>9} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(publish: &serde_json::Value) -> Package {
        let described = json!({
            "name": "heap", "version": "1.2.3", "publish": publish, "description": "a heap", "license": "MIT",
            "repository": "https://example.org", "readme": "README.md", "keywords": ["heap"], "categories": ["concurrency"],
        });
        serde_json::from_value(described).expect("a package as cargo describes it")
    }

    #[test]
    fn what_no_registry_may_have_is_left_out() {
        let packages = [json!([]), json!(null), json!(["crates-io"])];
        let kept = published(packages.iter().map(package).collect()).expect("nothing is missing");
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].directory(), "heap-1.2.3");
    }

    #[test]
    fn what_a_manifest_lacks_is_named() {
        let lacking = Package {
            readme: None,
            categories: Vec::new(),
            ..package(&json!(null))
        };
        let error = published(vec![lacking]).err().expect("two are missing");
        assert_eq!(
            error.to_string(),
            "the manifest of heap lacks: readme, categories"
        );
    }
}
