//! The trace itself: a list of operations that keeps the rules that [`TraceError`] lists, and its files.

use std::{
    fs::File,
    io::{BufReader, Cursor, Read, Write},
    path::Path,
};

use crate::{
    binary_format, csv_format,
    error::{Location, TraceError},
    file,
    operation::Operation,
    validate::Builder,
};

/// A valid list of operations, in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    operations: Vec<Operation>,
}

impl Trace {
    /// A trace of `operations`.
    ///
    /// # Errors
    /// The first operation that breaks a rule: see [`TraceError`].
    pub fn new(operations: impl IntoIterator<Item = Operation>) -> Result<Self, TraceError> {
        let mut builder = Builder::default();
        for (number, operation) in (1..).zip(operations) {
            builder.push(operation, Location::Record(number))?;
        }
        Ok(builder.finish())
    }

    /// A trace of operations that are known to keep the rules.
    pub(crate) fn from_valid(operations: Vec<Operation>) -> Self {
        Self { operations }
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    pub(crate) fn operations_mut(&mut self) -> &mut Vec<Operation> {
        &mut self.operations
    }

    /// Reads a trace file; whether it is CSV or binary is told by its content, not by its name.
    ///
    /// # Errors
    /// A file that cannot be read, and anything that is wrong in it, with the file's name.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| TraceError::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::from_reader(BufReader::new(file)).map_err(|source| TraceError::InFile {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// Reads a trace in either format from `reader`.
    ///
    /// # Errors
    /// As [`Trace::read`], without the file's name.
    pub fn from_reader(mut reader: impl Read) -> Result<Self, TraceError> {
        // The first bytes decide alone, so that something endless which is no trace is refused at once.
        let mut start = Vec::new();
        reader
            .by_ref()
            .take(binary_format::MAGIC.len() as u64)
            .read_to_end(&mut start)
            .map_err(TraceError::Read)?;
        if start == binary_format::MAGIC {
            binary_format::read(reader)
        } else if start.starts_with(b"thread,") {
            csv_format::read(Cursor::new(start).chain(reader))
        } else {
            Err(TraceError::Unrecognised {
                found: String::from_utf8_lossy(&start).into_owned(),
            })
        }
    }

    /// Writes the trace as text: see [`csv_format`].
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_csv(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        write_file(path.as_ref(), |file| csv_format::write(self, file))
    }

    /// Writes the trace in the compact form: see [`binary_format`].
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_binary(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        write_file(path.as_ref(), |file| binary_format::write(self, file))
    }
}

/// Has `write` make the file at `path`.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), TraceError> {
    file::replace(path, write).map_err(|source| TraceError::Write {
        path: path.to_owned(),
        source,
    })
}
