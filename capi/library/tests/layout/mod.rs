//! Headers, device functions and the library are of the same sources, or the program is not linked or does not start. None
//! of it needs a GPU.

use crate::{architecture, done};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the generated header names.
struct Names {
    of_host: String,
    of_device: String,
}

impl Names {
    fn of(header: &str) -> Self {
        let name = |what: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(what));
            line.expect("it is defined").trim().to_owned()
        };
        Self {
            of_host: name("#define SCATTERHEAP_LAYOUT "),
            of_device: name("#define SCATTERHEAP_DEVICE_LAYOUT "),
        }
    }
}

/// A name of the same length that ends with another fingerprint.
fn of_other_sources(name: &str) -> String {
    let (what, fingerprint) = name.rsplit_once('_').expect("a name of several words");
    assert_eq!(fingerprint.len(), 16, "{name}");
    let other = |digit| if digit == '0' { '1' } else { '0' };
    let fingerprint: String = fingerprint.chars().map(other).collect();
    format!("{what}_{fingerprint}")
}

/// Writes what headers include, for who only compiles with those of the sources.
pub fn write_names_of_no_build(directory: &Path) {
    let header = directory.join("scatterheap/layout.h");
    fs::create_dir_all(directory.join("scatterheap")).expect("a directory");
    fs::write(header, "#define SCATTERHEAP_LAYOUT scatterheap_layout\n").expect("written");
}

/// A program, and what it is built with.
struct Build<'a> {
    nvcc: &'a Path,
    prefix: &'a Path,
    /// A directory with another `layout.h`.
    other: PathBuf,
    program: PathBuf,
}

impl Build<'_> {
    /// Writes a header that is found before the package's.
    fn with_header(&self, header: &str) {
        let directory = self.other.join("scatterheap");
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("layout.h"), header).expect("written");
    }

    /// The compiler, which is told to leave out all that nothing reads.
    fn command(&self, library: &Path) -> Command {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/starts.cu");
        let mut command = Command::new(self.nvcc);
        command
            .arg(format!("-arch=sm_{}", architecture()))
            .args(["-O3", "-std=c++17", "-rdc=true"])
            .args(["-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra"])
            .arg("-Xcompiler=-ffunction-sections,-fdata-sections")
            .arg("-Xlinker=--gc-sections,--as-needed,--strip-all")
            .arg("-I")
            .arg(&self.other)
            .arg("-I")
            .arg(self.prefix.join("include"))
            .arg(source)
            .arg(self.prefix.join("share/scatterheap/scatterheap.cu"))
            .arg(self.prefix.join("lib/scatterheap-device.o"))
            .arg("-L")
            .arg(library)
            .args(["-lscatterheap", "-o"])
            .arg(&self.program);
        command
    }

    /// What is said where it is not linked.
    fn refusal(&self, library: &Path) -> String {
        let output = self.command(library).output().expect("nvcc starts");
        assert!(!output.status.success(), "it was linked");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs the program with the library of a directory.
    fn run(&self, library: &Path) -> Output {
        let mut program = Command::new(&self.program);
        // Not at start, if it can be later.
        program.env_remove("LD_BIND_NOW");
        program.env("LD_LIBRARY_PATH", library);
        program.output().expect("there is a loader")
    }
}

/// Copies a library, with another name in place of one.
fn copy_with(library: &Path, name: &str, other: &str, directory: &Path) {
    let mut bytes = fs::read(library).expect("it is in the package");
    let (name, other) = (name.as_bytes(), other.as_bytes());
    let is_name = |place: &usize| bytes[*place..].starts_with(name);
    let places: Vec<usize> = (0..bytes.len()).filter(is_name).collect();
    assert!(!places.is_empty(), "the library exports no such name");
    for place in places {
        bytes[place..place + name.len()].copy_from_slice(other);
    }
    fs::create_dir_all(directory).expect("a directory");
    fs::write(directory.join("libscatterheap.so"), bytes).expect("written");
}

/// A program that never calls the library, so that nothing but the names can tell.
pub fn what_is_of_other_sources_is_refused(nvcc: &Path, prefix: &Path, directory: &Path) {
    let header = fs::read_to_string(prefix.join("include/scatterheap/layout.h"));
    let header = header.expect("made with the package");
    let names = Names::of(&header);
    let library = prefix.join("lib");
    let build = Build {
        nvcc,
        prefix,
        other: directory.join("other"),
        program: directory.join("starts"),
    };

    done(&mut build.command(&library));
    let output = build.run(&library);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"started\n");

    let other = of_other_sources(&names.of_device);
    build.with_header(&header.replace(&names.of_device, &other));
    let said = build.refusal(&library);
    assert!(said.contains(&format!("'{other}'")), "{said}");

    let other = of_other_sources(&names.of_host);
    build.with_header(&header.replace(&names.of_host, &other));
    let said = build.refusal(&library);
    assert!(
        said.contains(&format!("undefined reference to `{other}'")),
        "{said}"
    );

    // Linked with the library of its own sources, and run with ours.
    let own = directory.join("own");
    copy_with(
        &library.join("libscatterheap.so"),
        &names.of_host,
        &other,
        &own,
    );
    done(&mut build.command(&own));
    let output = build.run(&library);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    assert!(
        said.contains(&format!("undefined symbol: {other}")),
        "{said}"
    );
}
