//! What a build script must watch: the files of the kernel crate and of the crates it depends on by
//! path.
//!
//! Cargo reruns a build script when a watched file changes, and looks into watched directories, so
//! new files count too. The same files are what a fingerprint of the sources is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Error;

/// What `cargo metadata --no-deps` prints, as far as it is needed here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    kind: Option<String>,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

/// A kernel crate: its name, and what its PTX is made from.
pub(crate) struct Sources {
    /// Its directory, as cargo prints it.
    pub(crate) directory: PathBuf,
    /// The name in the manifest.
    pub(crate) crate_name: String,
    /// The directory of the workspace that the crate is in; its own if it is in no other.
    pub(crate) workspace: PathBuf,
    /// Files and directories that a change in means that the PTX may change.
    pub(crate) watched: BTreeSet<PathBuf>,
    /// Those of them that are of the crate and of each that it depends on by path, with the crates' names and in their order.
    pub(crate) of_crates: Vec<(String, Vec<PathBuf>)>,
}

impl Sources {
    /// Reads the manifests of the crate in this directory and of the crates that it depends on by
    /// path.
    pub(crate) fn of(directory: &Path) -> Result<Self, Error> {
        let missing = || Error::CrateMissing {
            directory: directory.to_path_buf(),
        };
        // Not std::fs::canonicalize: on Windows it makes a path that cargo does not print.
        let directory = std::path::absolute(directory).map_err(|_| missing())?;
        let directory = without_parents(&directory);
        if !directory.join("Cargo.toml").is_file() {
            return Err(missing());
        }
        let mut known = Known::default();
        let crate_name = known.package(&directory)?.name.clone();
        // The only one that is known by now.
        let workspace = known.workspaces.first().cloned().ok_or_else(missing)?;
        let mut of_crates = Vec::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![directory.clone()];
        while let Some(next) = waiting.pop() {
            if seen.insert(next.clone()) {
                let package = known.package(&next)?;
                of_crates.push((package.name.clone(), package.files()));
                waiting.extend(package.path_dependencies());
            }
        }
        of_crates.sort();
        let watched = of_crates.iter().flat_map(|(_, files)| files).cloned();
        let watched = watched.chain(known.workspace_files()).collect();
        Ok(Self {
            directory,
            crate_name,
            workspace,
            watched,
            of_crates,
        })
    }
}

impl Package {
    /// The manifest, the build script, and the directory of the library's source.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.manifest_path.clone()];
        for target in &self.targets {
            if target.kind.iter().any(|kind| kind == "custom-build") {
                files.push(target.src_path.clone());
            } else if target
                .kind
                .iter()
                .any(|kind| kind.ends_with("lib") || kind == "proc-macro")
            {
                files.extend(target.src_path.parent().map(Path::to_path_buf));
            }
        }
        files
    }

    /// The directories of the crates that this one is built from; crates that only its tests use
    /// are left out.
    fn path_dependencies(&self) -> impl Iterator<Item = PathBuf> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .filter_map(|dependency| dependency.path.clone())
    }
}

/// The path with each `..` and what is before it left out, as cargo prints paths: it looks at names alone, and follows no links.
fn without_parents(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            // Above the root is the root.
            folded.pop();
        } else {
            folded.push(component);
        }
    }
    folded
}

/// The packages that cargo was asked about so far. One answer covers a workspace, so most crates
/// cost no question.
#[derive(Default)]
struct Known {
    packages: BTreeMap<PathBuf, Package>,
    workspaces: BTreeSet<PathBuf>,
}

impl Known {
    /// The package in this directory.
    fn package(&mut self, directory: &Path) -> Result<&Package, Error> {
        let manifest = directory.join("Cargo.toml");
        if !self.packages.contains_key(&manifest) {
            let metadata = read_metadata(&manifest)?;
            self.workspaces.insert(metadata.workspace_root);
            for package in metadata.packages {
                self.packages.insert(package.manifest_path.clone(), package);
            }
        }
        self.packages.get(&manifest).ok_or_else(|| Error::Metadata {
            manifest: manifest.clone(),
            reason: "cargo describes no package there; give the directory of a package".to_owned(),
        })
    }

    /// The workspaces' manifests and lock files: they choose versions and features of dependencies.
    fn workspace_files(&self) -> impl Iterator<Item = PathBuf> {
        self.workspaces
            .iter()
            .flat_map(|root| [root.join("Cargo.toml"), root.join("Cargo.lock")])
            // A watched file that does not exist would rerun the build script every time.
            .filter(|file| file.is_file())
    }
}

/// Asks cargo about the workspace of this manifest. It reads manifests only: no network, no lock
/// file.
fn read_metadata(manifest: &Path) -> Result<Metadata, Error> {
    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let fail = |reason: String| Error::Metadata {
        manifest: manifest.to_path_buf(),
        reason,
    };
    let output = Command::new(&cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version=1",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .map_err(|source| Error::Start {
            program: cargo,
            source,
        })?;
    if !output.status.success() {
        return Err(fail(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture-kernel")
    }

    #[test]
    fn the_crate_and_its_path_dependencies_are_watched() {
        let sources = Sources::of(&fixture()).expect("the fixture is a crate");
        assert_eq!(sources.crate_name, "fixture-kernel");
        assert_eq!(sources.workspace, fixture());
        for expected in ["Cargo.toml", "src", "helper/Cargo.toml", "helper/src"] {
            assert!(
                sources.watched.contains(&fixture().join(expected)),
                "{expected}: {:?}",
                sources.watched
            );
        }
        assert!(sources.watched.iter().all(|path| path.exists()));
    }

    #[test]
    fn paths_may_lead_up() {
        let through = fixture().join("helper/../src/./..");
        let sources = Sources::of(&through).expect("it is the fixture");
        assert_eq!(sources.crate_name, "fixture-kernel");
        assert_eq!(sources.workspace, fixture());
        let direct = Sources::of(&fixture()).expect("the fixture is a crate");
        assert_eq!(sources.watched, direct.watched);
    }

    #[test]
    fn parents_are_folded_as_cargo_does() {
        for (path, folded) in [
            ("/one/two/../three", "/one/three"),
            ("/one/two/../../three/", "/three"),
            ("/../one", "/one"),
            ("/one", "/one"),
        ] {
            assert_eq!(without_parents(Path::new(path)), Path::new(folded));
        }
    }

    #[test]
    fn crates_outside_the_workspace_are_watched_and_test_crates_are_not() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let package = |name: &str, rest: &str| {
            let directory = root.path().join(name);
            fs::create_dir_all(directory.join("src")).expect("create src");
            fs::write(directory.join("src/lib.rs"), "").expect("write lib.rs");
            let manifest =
                format!("[workspace]\n[package]\nname = \"{name}\"\nedition = \"2024\"\n{rest}");
            fs::write(directory.join("Cargo.toml"), manifest).expect("write Cargo.toml");
            directory
        };
        let kernel = package(
            "kernel",
            "[dependencies]\nused = { path = \"../used\" }\n[dev-dependencies]\ntested = { path = \"../tested\" }",
        );
        let used = package("used", "");
        let tested = package("tested", "");
        let watched = Sources::of(&kernel).expect("a crate").watched;
        assert!(watched.contains(&used.join("src")), "{watched:?}");
        assert!(
            !watched.iter().any(|path| path.starts_with(&tested)),
            "{watched:?}"
        );
    }

    #[test]
    fn a_directory_without_a_crate_is_named() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let error = Sources::of(root.path()).err().expect("there is no crate");
        assert!(matches!(error, Error::CrateMissing { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains(&root.path().display().to_string())
        );
    }
}
