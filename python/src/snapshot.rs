//! The class `Snapshot`: arrays leave it as bytes, whose fields `scatterheap.snapshot` names.

use crate::errors::of_text;
use crate::picture;
use bytemuck::{NoUninit, cast_slice};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scatterheap_host::inspect::{LiveBlock, PageUse};
use std::path::PathBuf;

/// A block that is handed out.
#[repr(C)]
#[derive(Clone, Copy, NoUninit)]
struct LiveRecord {
    address: u64,
    bytes: u64,
    /// -1 for a run of pages.
    class: i32,
    padding: u32,
}

impl From<LiveBlock> for LiveRecord {
    fn from(block: LiveBlock) -> Self {
        Self {
            address: block.address,
            bytes: block.bytes,
            class: number(block.class),
            padding: 0,
        }
    }
}

/// What a page is used for.
#[repr(C)]
#[derive(Clone, Copy, NoUninit)]
struct PageRecord {
    /// 0 free, 1 slab, 2 run, 3 lost.
    kind: u32,
    /// -1 if the page is of no slab.
    class: i32,
    /// Share that is handed out.
    used: f32,
    /// First page of the run; else the page itself.
    head: u32,
}

impl PageRecord {
    fn of(page: usize, used_for: PageUse) -> Self {
        let page = u32::try_from(page).unwrap_or(u32::MAX);
        let (kind, class, used, head) = match used_for {
            PageUse::Free => (0, None, 0.0, page),
            #[allow(clippy::cast_possible_truncation, reason = "a share")]
            PageUse::Slab { class, used } => (1, Some(class), used as f32, page),
            PageUse::Run { head } => (2, None, 1.0, head),
            PageUse::Lost => (3, None, 0.0, page),
        };
        Self {
            kind,
            class: number(class),
            used,
            head,
        }
    }
}

fn number(class: Option<u32>) -> i32 {
    class
        .and_then(|class| i32::try_from(class).ok())
        .unwrap_or(-1)
}

/// What a heap held at a moment. See `scatterheap.Snapshot`.
#[pyclass(frozen, module = "scatterheap")]
pub struct Snapshot(scatterheap_host::Snapshot);

impl Snapshot {
    pub fn of(snapshot: scatterheap_host::Snapshot) -> Self {
        Self(snapshot)
    }
}

#[pymethods]
impl Snapshot {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loaded = py.detach(|| scatterheap_host::Snapshot::load(path));
        loaded
            .map(Self)
            .map_err(|error| of_text(py, &error.to_string()))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| self.0.save(path));
        saved.map_err(|error| of_text(py, &error.to_string()))
    }

    #[getter]
    fn device(&self) -> &str {
        &self.0.origin().device
    }

    #[getter]
    fn device_name(&self) -> &str {
        &self.0.origin().device_name
    }

    #[getter]
    fn taken_at(&self) -> u64 {
        self.0.origin().taken_at
    }

    #[getter]
    fn base(&self) -> u64 {
        self.0.base()
    }

    /// Figures, as JSON.
    fn occupancy(&self, py: Python<'_>) -> PyResult<String> {
        let figures = py.detach(|| serde_json::to_string(&self.0.occupancy()));
        figures.map_err(|error| of_text(py, &error.to_string()))
    }

    /// The blocks that are handed out.
    fn live<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let records: Vec<LiveRecord> = py.detach(|| self.0.live().map(LiveRecord::from).collect());
        PyBytes::new(py, cast_slice(&records))
    }

    /// What each page is used for.
    fn pages<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let records: Vec<PageRecord> = py.detach(|| {
            let pages = self.0.page_map().into_iter().enumerate();
            pages
                .map(|(page, used_for)| PageRecord::of(page, used_for))
                .collect()
        });
        PyBytes::new(py, cast_slice(&records))
    }

    /// Which invariants do not hold.
    fn violations(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| {
            let violations = self.0.violations();
            violations.iter().map(ToString::to_string).collect()
        })
    }

    /// A map of the heap as a PNG file.
    fn map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let drawn = py.detach(|| picture::png(&self.0));
        match drawn {
            Ok(file) => Ok(PyBytes::new(py, &file)),
            Err(error) => Err(of_text(py, &format!("the map cannot be drawn: {error}"))),
        }
    }
}
