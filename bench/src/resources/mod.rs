//! Measures memory resources of the host: what a pair of allocation and deallocation costs, and how much memory
//! of the device it takes.
//!
//! A [`Scenario`] is a trace that every thread runs with blocks of its own. All of them are made in one
//! place (`scenarios.rs`) and can be written as CSV, so that programs in other languages run the same.
//! `docs/resources.md` has the format and what the metrics mean.

mod measure;
mod pace;
mod row;
mod scenario;
mod scenarios;
mod subjects;
mod targets;
mod worker;

pub use measure::{Figure, measure};
pub use row::{Row, beside, read_rows, try_rows, write_rows};
pub use scenario::{Operation, Scenario, write_all};
pub use scenarios::{TRANSFORMER, scenarios, transformer};
pub use subjects::{Subject, subjects};
pub use targets::{Verdict, judge};
