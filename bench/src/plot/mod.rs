//! Plots of what was measured, as SVG: time over size, time over threads, and bars of ratios to the
//! floor.
//!
//! A plot whose rows are missing is left out, and so are cases with a [`Flaw`](crate::Flaw). Figures that have no place on a logarithmic axis
//! (zero, negative, not a number) are passed over. Every plot has a white ground of its own and
//! says what it shows and where that was measured.

mod axis;
mod error;
mod figure;
mod join;
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
pub use join::{Joined, merge};
pub use read::{is_table, read, read_from};
pub use style::{rank, title};

use scatterheap_trace::file;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Draws one plot; nothing if its rows are missing.
type Draw = fn(&Joined, &str) -> Result<Option<String>>;

const PLOTS: [(&str, Draw); 3] = [
    ("time-over-size.svg", over_size::draw),
    ("time-over-threads.svg", over_threads::draw),
    ("ratios.svg", ratios::draw),
];

/// A plot.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of its file.
    pub name: &'static str,
    svg: String,
}

impl Picture {
    /// What its file holds.
    #[must_use]
    pub fn svg(&self) -> &str {
        &self.svg
    }
}

/// Draws every plot that there are figures for. `machine` is shown under each title: where and when it was measured.
///
/// # Errors
///
/// If the drawing library refuses.
pub fn draw_all(tables: &Joined, machine: &str) -> Result<Vec<Picture>> {
    let sound = tables.sound();
    let mut pictures = Vec::new();
    for (name, draw) in PLOTS {
        if let Some(svg) = draw(&sound, machine)? {
            // Names and titles may be any text, and viewers refuse the whole plot for one character.
            let svg = svg.replace(|character| !is_xml(character), "\u{fffd}");
            pictures.push(Picture { name, svg });
        }
    }
    Ok(pictures)
}

/// Whether XML may have a character at all, escaped or not.
fn is_xml(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => character >= ' ',
    }
}

/// The files in a directory that [`write_all`] may write or remove.
pub fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    PLOTS.iter().map(|(name, _)| directory.join(name))
}

/// Writes plots into a directory, which is made if need be, and gives the files' paths. Plots of an earlier run that
/// would stand beside them are removed.
///
/// # Errors
///
/// If a file cannot be written or removed; as a rule none is then.
pub fn write_all(pictures: &[Picture], directory: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).map_err(|error| Error::write(directory, error))?;
    // Before any: else new plots would stand beside old ones.
    for path in files(directory) {
        file::try_out(&path).map_err(|error| Error::write(&path, error))?;
    }
    let mut written = Vec::new();
    for Picture { name, svg } in pictures {
        let path = directory.join(name);
        file::replace(&path, |file| file.write_all(svg.as_bytes()))
            .map_err(|error| Error::write(&path, error))?;
        written.push(path);
    }
    for (name, _) in PLOTS {
        let path = directory.join(name);
        if !written.contains(&path) {
            remove(&path).map_err(|error| Error::write(&path, error))?;
        }
    }
    Ok(written)
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
