//! What tells sources apart: one number of all that a kernel crate is made of.
//!
//! Code that was compiled elsewhere, or at another time, names the number, and so it is noticed when it meets code of
//! other sources. The hash is FNV-1a, whose number for a text never changes; that of `std` may, with every compiler.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::compile::file_error;
use crate::sources::Sources;

/// A fingerprint of the sources of the kernel crate in this directory and of the crates that it depends on by path, as 16
/// hexadecimal digits: their manifests, build scripts and all Rust files beside the library's, but hidden ones, which editors leave.
///
/// It does not depend on where they lie, on the compiler or on the baseline. Neither does it on what the workspace says
/// and on crates of a registry, but for the versions that manifests ask for.
///
/// # Errors
///
/// [`Error::CrateMissing`] or [`Error::Metadata`] when there is no such crate, [`Error::File`] when a file cannot be read.
pub fn fingerprint_of_sources(directory: impl AsRef<Path>) -> Result<String, Error> {
    let sources = Sources::of(directory.as_ref())?;
    let mut hash = Fnv1a::new();
    for (name, paths) in &sources.of_crates {
        hash.add(name.as_bytes());
        for path in paths {
            for (place, file) in files(path)? {
                hash.add(place.as_bytes());
                hash.add(&fs::read(&file).map_err(file_error("read", &file))?);
            }
        }
    }
    Ok(format!("{:016x}", hash.0))
}

/// The files that a path stands for, in the order of their places: itself, or the Rust files in it.
fn files(path: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![path.to_path_buf()];
    while let Some(next) = waiting.pop() {
        if !next.is_dir() {
            found.insert(place(&next, path), next);
            continue;
        }
        for entry in fs::read_dir(&next).map_err(file_error("list", &next))? {
            let entry = entry.map_err(file_error("list", &next))?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link to a directory is none: it may lead back.
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_hidden && (is_directory || entry.path().extension() == Some("rs".as_ref())) {
                waiting.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// A file's place in the directory that it was found by; its name if it stands for itself.
fn place(file: &Path, found_by: &Path) -> String {
    let inside = file.strip_prefix(found_by).unwrap_or(file);
    let name = file.file_name().map(Path::new);
    let place = if file == found_by { name } else { Some(inside) };
    let names = place.into_iter().flatten().map(OsStr::to_string_lossy);
    names.collect::<Vec<_>>().join("/")
}

/// The 64-bit FNV-1a of what was added so far: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Fnv1a(u64);

impl Fnv1a {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a text and how long it is: so none goes over into the next.
    fn add(&mut self, text: &[u8]) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel crate and one that it depends on, in a directory that a test may change.
    fn crates(root: &Path) -> PathBuf {
        for (name, rest) in [
            ("kernel", "[dependencies]\nused = { path = \"../used\" }"),
            ("used", ""),
        ] {
            let directory = root.join(name);
            fs::create_dir_all(directory.join("src/inner")).expect("create src");
            fs::write(directory.join("src/lib.rs"), "mod inner;").expect("write lib.rs");
            fs::write(directory.join("src/inner/mod.rs"), name).expect("write mod.rs");
            let manifest =
                format!("[workspace]\n[package]\nname = \"{name}\"\nedition = \"2024\"\n{rest}");
            fs::write(directory.join("Cargo.toml"), manifest).expect("write Cargo.toml");
        }
        root.join("kernel")
    }

    fn fingerprint(kernel: &Path) -> String {
        fingerprint_of_sources(kernel).expect("it is a crate")
    }

    #[test]
    fn it_is_the_same_wherever_the_sources_lie() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
        let deeper = other.path().join("deeper/still");
        let first = fingerprint(&crates(one.path()));
        assert_eq!(first, fingerprint(&crates(&deeper)));
        assert_eq!(first.len(), 16);
        assert!(first.chars().all(|digit| digit.is_ascii_hexdigit()));
    }

    #[test]
    fn it_changes_with_every_source() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let kernel = crates(root.path());
        let mut before = vec![fingerprint(&kernel)];
        let mut is_new = |what: &str| {
            let now = fingerprint(&kernel);
            assert!(!before.contains(&now), "{what}");
            before.push(now);
        };
        for file in [
            "kernel/src/lib.rs",
            "used/src/inner/mod.rs",
            "used/Cargo.toml",
        ] {
            let path = root.path().join(file);
            let text = fs::read_to_string(&path).expect("it is there");
            fs::write(&path, format!("{text}\n")).expect("written");
            is_new(file);
        }
        fs::write(root.path().join("used/src/more.rs"), "").expect("written");
        is_new("a new file");
        let inner = root.path().join("used/src/inner");
        fs::rename(inner.join("mod.rs"), inner.join("other.rs")).expect("renamed");
        is_new("another name");
        // Nobody compiles these.
        for file in ["README.md", "src/lib.rs~", "src/.lib.rs.swp"] {
            fs::write(root.path().join("used").join(file), "").expect("written");
        }
        #[cfg(unix)]
        for (link, to) in [("src/.#lib.rs", "nowhere"), ("src/inner/above", "..")] {
            std::os::unix::fs::symlink(to, root.path().join("used").join(link)).expect("linked");
        }
        assert_eq!(before.last(), Some(&fingerprint(&kernel)));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut hash = Fnv1a::new();
            hash.bytes(text.as_bytes());
            assert_eq!(hash.0, expected, "{text}");
        }
    }
}
