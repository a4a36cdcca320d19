//! Plots of what was measured, as SVG: time over size, time over threads, and bars of ratios to the
//! floor.
//!
//! A plot whose rows are missing is left out. Figures that have no place on a logarithmic axis
//! (zero, negative, not a number) are passed over. Every plot has a white ground of its own and
//! says what it shows and where that was measured.

mod axis;
mod error;
mod figure;
mod labels;
mod line;
mod over_size;
mod over_threads;
mod panel;
mod ratio;
mod ratios;
mod read;
mod style;

pub use error::{Error, Result};
pub use read::{merge, read};

use crate::row::Row;
use std::fs;
use std::path::{Path, PathBuf};

/// Draws one plot; nothing if its rows are missing.
type Draw = fn(&[Row], &str) -> Result<Option<String>>;

const PLOTS: [(&str, Draw); 3] = [
    ("time-over-size.svg", over_size::draw),
    ("time-over-threads.svg", over_threads::draw),
    ("ratios.svg", ratios::draw),
];

/// Writes every plot that there are rows for into a directory, which is made if need be, and gives
/// the files' paths. `machine` is shown under each title: where and when it was measured.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_all(rows: &[Row], directory: &Path, machine: &str) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).map_err(|error| Error::write(directory, error))?;
    let mut written = Vec::new();
    for (name, draw) in PLOTS {
        if let Some(picture) = draw(rows, machine)? {
            let path = directory.join(name);
            fs::write(&path, picture).map_err(|error| Error::write(&path, error))?;
            written.push(path);
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
