//! Traces as text: one operation a line, for people, spreadsheets and other tools.
//!
//! ```csv
//! thread,operation,id,size,alignment
//! 0,malloc,17,64,16
//! 0,realloc,17,128,
//! 1,free,17,,
//! ```
//!
//! `operation` is one of `malloc`, `calloc`, `realloc`, `free`. Sizes and alignments are in bytes. An empty alignment
//! is 16; `free` has neither size nor alignment.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Location, TraceError},
    operation::{DEFAULT_ALIGNMENT, Kind, Operation},
    trace::Trace,
    validate::{Builder, MAXIMUM_OPERATIONS},
};

/// The first line's fields.
pub const HEADER: [&str; 5] = ["thread", "operation", "id", "size", "alignment"];

/// The most bytes that a file may have: the largest trace has 67 a line, and may have blanks. It bounds a line that never
/// ends.
pub const MAXIMUM_BYTES: u64 = 128 * MAXIMUM_OPERATIONS as u64;

/// A line, as `serde` sees it.
#[derive(Serialize, Deserialize)]
struct Row {
    thread: u32,
    operation: Kind,
    id: u64,
    size: Option<u64>,
    alignment: Option<u32>,
}

/// Reads a trace in CSV, header included.
///
/// # Errors
/// A line that cannot be understood or that breaks a rule, with its number, or a file of more than [`MAXIMUM_BYTES`].
pub fn read(reader: impl Read) -> Result<Trace, TraceError> {
    read_at_most(reader, MAXIMUM_BYTES)
}

/// Reads a trace of at most `limit` bytes.
fn read_at_most(reader: impl Read, limit: u64) -> Result<Trace, TraceError> {
    let mut limited = reader.take(limit + 1);
    let result = read_lines(&mut limited);
    if limited.limit() == 0 {
        // Whatever was made of it, a part is missing.
        return Err(TraceError::TooManyBytes { limit });
    }
    result
}

fn read_lines(reader: impl Read) -> Result<Trace, TraceError> {
    let mut lines = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(reader);
    let header = lines.headers().map_err(|error| bad_line(error, 1))?.clone();
    if header != *HEADER.as_slice() {
        let problem = format!(
            "the header is {:?}, not {:?}",
            header.iter().collect::<Vec<_>>().join(","),
            HEADER.join(",")
        );
        return Err(TraceError::BadLine { line: 1, problem });
    }
    let mut builder = Builder::default();
    let mut record = csv::StringRecord::new();
    loop {
        let here = lines.position().line();
        if !lines
            .read_record(&mut record)
            .map_err(|error| bad_line(error, here))?
        {
            return Ok(builder.finish());
        }
        let line = record.position().map_or(here, csv::Position::line);
        let row: Row = record
            .deserialize(Some(&header))
            .map_err(|error| bad_line(error, line))?;
        let operation = Operation {
            thread: row.thread,
            kind: row.operation,
            id: row.id,
            size: row.size.unwrap_or(0),
            alignment: row.alignment.unwrap_or(DEFAULT_ALIGNMENT),
        };
        builder.push(operation, Location::Line(line))?;
    }
}

/// Writes `trace` as CSV, header included.
///
/// # Errors
/// What `writer` reports.
pub fn write(trace: &Trace, writer: impl Write) -> io::Result<()> {
    let mut lines = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(writer);
    lines.write_record(HEADER)?;
    for operation in trace.operations() {
        let asks = operation.kind != Kind::Free;
        lines.serialize(Row {
            thread: operation.thread,
            operation: operation.kind,
            id: operation.id,
            size: asks.then_some(operation.size),
            alignment: asks.then_some(operation.alignment),
        })?;
    }
    lines.flush()
}

/// The parser's error as this crate's; `line` is where it was, unless the parser knows better.
fn bad_line(error: csv::Error, line: u64) -> TraceError {
    let line = error.position().map_or(line, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => TraceError::Read(source),
        csv::ErrorKind::Deserialize { err, .. } => {
            let field = err
                .field()
                .and_then(|index| HEADER.get(usize::try_from(index).ok()?))
                .map_or_else(String::new, |name| format!("{name}: "));
            TraceError::BadLine {
                line,
                problem: format!("{field}{}", err.kind()),
            }
        }
        csv::ErrorKind::Utf8 { .. } => TraceError::BadLine {
            line,
            problem: "it is not UTF-8 text".to_owned(),
        },
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => TraceError::BadLine {
            line,
            problem: format!("it has {len} fields, not {expected_len}"),
        },
        other => TraceError::BadLine {
            line,
            problem: format!("{other:?}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        read(text.as_bytes())
            .expect_err("the text is not a trace")
            .to_string()
    }

    #[test]
    fn optional_fields_may_be_empty_and_spaces_are_ignored() {
        let text = "thread,operation,id,size,alignment\r\n0, malloc ,17,64,\n1,free,17,,\n";
        let expected = Trace::new([Operation::malloc(0, 17, 64), Operation::free(1, 17)]).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_and_not_cut() {
        let header = "thread,operation,id,size,alignment\n";
        for text in [
            format!("{header}0,malloc,1,8,16\n0,malloc,2,8,16\n"),
            // Cut here, it would be another trace.
            format!("{header}0,malloc,1,8,4096\n"),
            format!("{header}{}", "0".repeat(20)),
        ] {
            let bytes = text.len() as u64;
            for limit in [bytes - 1, bytes - 3, header.len() as u64] {
                let refusal = read_at_most(text.as_bytes(), limit).expect_err("it is too long");
                assert!(
                    matches!(refusal, TraceError::TooManyBytes { .. }),
                    "{limit}: {refusal}"
                );
            }
            let whole = read_at_most(text.as_bytes(), bytes);
            assert!(!matches!(whole, Err(TraceError::TooManyBytes { .. })));
        }
    }

    #[test]
    fn the_largest_trace_has_room() {
        let widest = Operation {
            thread: u32::MAX,
            kind: Kind::Realloc,
            id: u64::MAX,
            size: crate::MAXIMUM_SIZE,
            alignment: 1 << 31,
        };
        let trace = Trace::from_valid(vec![widest; 2]);
        let mut text = Vec::new();
        write(&trace, &mut text).unwrap();
        let lines = (MAXIMUM_OPERATIONS / 2) as u64;
        assert!(text.len() as u64 * lines < MAXIMUM_BYTES);
    }

    #[test]
    fn messages_name_the_line() {
        let header = "thread,operation,id,size,alignment\n";
        let good = "0,malloc,1,8,16\n";
        for (bad, expected) in [
            ("0,malloc,2,8\n", "line 3: it has 4 fields"),
            ("0,grow,2,8,16\n", "line 3: "),
            ("0,malloc,2,many,16\n", "line 3: size: "),
            ("0,malloc,2,,16\n", "line 3: malloc of 0 bytes"),
            ("0,malloc,2,-1,16\n", "line 3: size: "),
            (
                "0,malloc,1,8,16\n",
                "line 3: malloc of object 1, which is live since line 2",
            ),
            (
                "0,free,9,,\n",
                "line 3: free of object 9, which is not live",
            ),
            ("0,malloc,2,8,48\n", "line 3: alignment 48"),
        ] {
            let message = refusal(&format!("{header}{good}{bad}"));
            assert!(message.starts_with(expected), "{bad:?} gives {message:?}");
        }
        assert!(refusal("thread,operation,id\n").starts_with("line 1: the header is"));
        assert!(refusal("").starts_with("line 1: the header is"));
    }
}
