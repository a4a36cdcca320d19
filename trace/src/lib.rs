//! Allocation traces of real programs: what was allocated, resized and freed, how large, by which thread, in what order.
//!
//! A [`Trace`] is always *valid*: whichever way it was made, no operation names an object that is not live, no object
//! is allocated twice, and every size and alignment makes sense. So a replay needs no checks of its own.
//!
//! ```
//! use scatterheap_trace::{Operation, Trace};
//!
//! let mut trace = Trace::new(vec![
//!     Operation::malloc(0, 1, 100),
//!     Operation::malloc(0, 2, 200),
//!     Operation::realloc(0, 1, 400),
//!     Operation::free(0, 2),
//! ])?;
//! trace.close();
//! assert_eq!(trace.summary().peak_live_bytes, 600);
//!
//! let split = trace.split_by_lane(2, 1)?;
//! assert_eq!(split.operations_of(0, 0).len(), 3);
//! # Ok::<(), scatterheap_trace::TraceError>(())
//! ```
//!
//! | file | read by | for |
//! |---|---|---|
//! | `.csv` | people, spreadsheets, scripts | writing a trace by hand, or from another tool ([`csv_format`]) |
//! | `.sctrace` | [`Trace::read`] | shipping: less than a byte an operation ([`binary_format`]) |
//! | raw | [`convert`](fn@convert) | what the recorder writes while a program runs: addresses, not ids ([`raw`]) |
//!
//! All files of results, not only traces, are written by [`file::replace`].

pub mod binary_format;
pub mod convert;
pub mod csv_format;
pub mod error;
pub mod file;
pub mod lanes;
pub mod operation;
pub mod raw;
pub mod renumber;
pub mod summary;
pub mod text;
pub mod trace;
mod validate;
mod variable_length;

pub use convert::{Conversion, convert};
pub use error::{Location, TraceError};
pub use lanes::{LaneSplit, PackedOperation};
pub use operation::{DEFAULT_ALIGNMENT, Kind, Operation};
pub use summary::Summary;
pub use trace::Trace;
pub use validate::{MAXIMUM_OPERATIONS, MAXIMUM_SIZE};
