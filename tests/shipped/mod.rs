//! The trace that the repository brings.

use scatterheap_trace::Trace;
use std::path::Path;

/// `traces/sqlite3.sctrace`. Read when it is asked for: the bundle for GPU servers brings the trace along, but not the sources.
pub fn trace() -> Trace {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo and by the bundle");
    let path = Path::new(&root).join("traces/sqlite3.sctrace");
    Trace::read(path).expect("the trace is valid")
}
