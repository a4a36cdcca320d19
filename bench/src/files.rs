//! Figures as a file.

use crate::error::{Error, Result};
use crate::row::Row;
use scatterheap_trace::file;
use std::io::{self, Write};
use std::path::Path;

/// Writes rows as CSV with a head: `test,allocator,size,n,metric,value`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_csv(rows: &[Row], path: &Path) -> Result<()> {
    let write = |file: &mut dyn Write| -> io::Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(file);
        // Written here, so that there is a head without rows too.
        writer.write_record(["test", "allocator", "size", "n", "metric", "value"])?;
        for row in rows {
            writer.serialize(row)?;
        }
        writer.flush()
    };
    file::replace(path, write).map_err(|error| Error::File {
        action: "write",
        path: path.to_owned(),
        message: error.to_string(),
    })
}
