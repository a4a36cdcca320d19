//! A loaded plug-in, as an allocator of the benchmark.
//!
//! All launches go to the default stream. The library stays loaded until the process ends:
//! code that a driver or a runtime calls at exit may lie in it.

use super::error::Error;
use super::interface::Functions;
use super::name;
use crate::allocator::{Allocator, Churn, Request};
use crate::case::Test;
use scatterheap_host::{Device, Grid};
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// The stream that everything is launched on.
const DEFAULT_STREAM: *mut c_void = null_mut();

/// A plug-in.
pub struct Library {
    name: String,
    functions: Functions,
    /// Whether there is a heap.
    initialised: bool,
    _loaded: ManuallyDrop<libloading::Library>,
}

impl Library {
    /// Loads a plug-in.
    ///
    /// # Errors
    ///
    /// If the file is no shared library that can be loaded, lacks a function, or has no proper name.
    ///
    /// # Safety
    ///
    /// The library must be one that can be loaded into this process, and what it exports under the names of the
    /// interface must be what `scatterheap_peer.h` says.
    pub unsafe fn open(path: &Path) -> Result<Self, Error> {
        let file = find(path)?;
        // SAFETY: as the caller promises.
        let loaded = unsafe { libloading::Library::new(&file) };
        let loaded = loaded.map_err(|error| Error::NotLoadable {
            library: path.to_owned(),
            reason: one_line(&innermost(&error)),
        })?;
        let loaded = ManuallyDrop::new(loaded);
        // SAFETY: as the caller promises.
        let functions = unsafe { Functions::find(&loaded) };
        let functions = functions.map_err(|missing| Error::MissingFunctions {
            library: path.to_owned(),
            missing,
        })?;
        Ok(Self {
            name: name_of(path, &functions)?,
            functions,
            initialised: false,
            _loaded: loaded,
        })
    }

    /// Whether a plug-in can do a test: the others need kernels that were compiled for the allocator.
    #[must_use]
    pub fn takes_test(test: Test) -> bool {
        !matches!(
            test,
            Test::Latency | Test::Workgen | Test::Graph | Test::AllocHeavy | Test::Resources
        )
    }

    /// Turns what a function gave into a result.
    fn check(&self, function: &'static str, code: i32) -> crate::Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(Error::Function {
            name: self.name.clone(),
            function,
            code,
        }
        .into())
    }
}

/// What the loader said: the last cause of its error, which the first words lack.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// The file, by an absolute path: the loader would look for a bare name elsewhere.
pub(super) fn find(path: &Path) -> Result<PathBuf, Error> {
    let missing = |error: std::io::Error| Error::NoSuchFile {
        library: path.to_owned(),
        reason: error.to_string(),
    };
    let file = path.canonicalize().map_err(missing)?;
    if file.is_file() {
        Ok(file)
    } else {
        Err(missing(std::io::Error::other("not a file")))
    }
}

fn name_of(path: &Path, functions: &Functions) -> Result<String, Error> {
    // SAFETY: a function of the interface, which may be called at any time.
    let name = unsafe { (functions.name)() };
    let (name, fault) = if name.is_null() {
        ("NULL".to_owned(), name::fault(""))
    } else {
        // SAFETY: not NULL, so a text that stays valid.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        (name.to_string(), name::fault(&name))
    };
    match fault {
        None => Ok(name),
        Some(advice) => Err(Error::BadName {
            library: path.to_owned(),
            name: format!("`{}`", one_line(&name)),
            advice,
        }),
    }
}

/// Foreign text, fit for a line.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(LONGEST).collect()
}

// SAFETY: whoever loaded it said that it does what `scatterheap_peer.h` says, which is this; it has no handle.
unsafe impl Allocator for Library {
    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn can(&self, test: Test) -> bool {
        Self::takes_test(test)
    }

    fn create(&mut self, bytes: u64) -> crate::Result<()> {
        self.destroy();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: there is no heap.
        let code = unsafe { (self.functions.init)(bytes) };
        self.check("peer_init", code)?;
        self.initialised = true;
        Ok(())
    }

    fn destroy(&mut self) {
        if std::mem::take(&mut self.initialised) {
            // SAFETY: there is a heap.
            unsafe { (self.functions.destroy)() };
        }
    }

    fn reset(&mut self) -> crate::Result<()> {
        // SAFETY: the runner resets only a heap that there is.
        let code = unsafe { (self.functions.reset)(DEFAULT_STREAM) };
        self.check("peer_reset", code)
    }

    unsafe fn allocate(&mut self, request: &Request) -> crate::Result<()> {
        let (blocks, sizes) = (request.blocks as *mut _, request.sizes as *const _);
        let Request { size, n, .. } = *request;
        // SAFETY: as the caller promises.
        let code = unsafe {
            (self.functions.alloc)(blocks, sizes, size, n, Grid::BLOCK_DIM, DEFAULT_STREAM)
        };
        self.check("peer_alloc", code)
    }

    unsafe fn free(&mut self, request: &Request) -> crate::Result<()> {
        let (blocks, n) = (request.blocks as *mut _, request.n);
        // SAFETY: as the caller promises.
        let code = unsafe { (self.functions.free)(blocks, n, Grid::BLOCK_DIM, DEFAULT_STREAM) };
        self.check("peer_free", code)
    }

    unsafe fn allocate_of_warps(&mut self, request: &Request) -> crate::Result<()> {
        let Request { size, n, .. } = *request;
        let blocks = request.blocks as *mut _;
        // SAFETY: as the caller promises.
        let code = unsafe { (self.functions.alloc_warp)(blocks, size, n, DEFAULT_STREAM) };
        self.check("peer_alloc_warp", code)
    }

    unsafe fn free_of_warps(&mut self, request: &Request) -> crate::Result<()> {
        let (blocks, n) = (request.blocks as *mut _, request.n);
        // SAFETY: as the caller promises.
        let code = unsafe { (self.functions.free_warp)(blocks, n, DEFAULT_STREAM) };
        self.check("peer_free_warp", code)
    }

    unsafe fn churn(&mut self, churn: &Churn) -> crate::Result<()> {
        let Churn {
            least,
            most,
            n,
            rounds,
            seed,
            ..
        } = *churn;
        let faults = churn.faults as *mut u32;
        // SAFETY: as the caller promises.
        let code =
            unsafe { (self.functions.churn)(least, most, n, rounds, seed, faults, DEFAULT_STREAM) };
        self.check("peer_churn", code)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.destroy();
    }
}
