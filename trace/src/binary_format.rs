//! Traces in few bytes, for shipping with a repository.
//!
//! A file is the [`MAGIC`], then blocks, then a block of no records followed by the number of all records, so that a
//! file cut between two blocks is noticed. All numbers are of variable length (LEB128).
//!
//! A block is its number of records (at most [`BLOCK_RECORDS`]) and five columns; a column is its length, its
//! compressed length and a zlib stream (whose checksum finds damage). Values of one column resemble each other, which is what
//! deflate likes. Readers unpack one block at a time and know each column's largest honest length before they
//! do, so what a file claims costs nothing unless its records are there.
//!
//! But records that resemble each other may be hundreds to a byte: 2^23 of them fit into 22 kB and take 850 MB while they are
//! read, 32 bytes each and the table of live objects, and [`MAXIMUM_OPERATIONS`](crate::MAXIMUM_OPERATIONS) bounds that at
//! 7 GB. Whoever reads strangers' files limits the memory of the process.
//!
//! | column | one entry for each | entry |
//! |---|---|---|
//! | tags | record | a byte: kind in bits 0–1, bit 2: the thread is another than before, bit 3: the alignment is not 16, bit 4: the new object's id is not the last new one plus 1 |
//! | threads | bit 2 | the thread |
//! | ids | bit 4, and each `realloc` and `free` | the last new id minus this id, sign folded |
//! | sizes | all but `free` | the size |
//! | alignments | bit 3 | a byte: the logarithm to base 2 |

use std::io::{self, Read, Write};

use miniz_oxide::{deflate::compress_to_vec_zlib, inflate::decompress_to_vec_zlib_with_limit};

use crate::{
    error::{Location, TraceError},
    operation::{DEFAULT_ALIGNMENT, Kind, Operation},
    trace::Trace,
    validate::Builder,
    variable_length::{self, fold_sign, unfold_sign},
};

/// The first bytes of a file; the digit is the format's version.
pub const MAGIC: [u8; 8] = *b"SCTRACE1";

/// The most records in a block.
pub const BLOCK_RECORDS: usize = 1 << 17;

const COLUMNS: usize = 5;
const TAGS: usize = 0;
const THREADS: usize = 1;
const IDS: usize = 2;
const SIZES: usize = 3;
const ALIGNMENTS: usize = 4;

/// The most bytes that one record can have in each column.
const WIDEST: [usize; COLUMNS] = [1, 5, variable_length::MAXIMUM_BYTES, 7, 1];

const KIND_BITS: u8 = 0b11;
const OTHER_THREAD: u8 = 1 << 2;
const OTHER_ALIGNMENT: u8 = 1 << 3;
const OTHER_ID: u8 = 1 << 4;
const KNOWN_BITS: u8 = KIND_BITS | OTHER_THREAD | OTHER_ALIGNMENT | OTHER_ID;

/// The slowest level of deflate: traces are written once and read often.
const COMPRESSION_LEVEL: u8 = 10;

/// What a record is told relative to; reader and writer keep it alike.
struct Context {
    thread: u32,
    /// The id of the last object that was allocated.
    last_new: u64,
}

impl Context {
    const START: Self = Self {
        thread: 0,
        last_new: u64::MAX,
    };
}

/// Writes `trace` in this format.
///
/// # Errors
/// What `writer` reports.
pub fn write(trace: &Trace, mut writer: impl Write) -> io::Result<()> {
    writer.write_all(&MAGIC)?;
    let mut context = Context::START;
    let mut bytes = Vec::new();
    for block in trace.operations().chunks(BLOCK_RECORDS) {
        let mut columns: [Vec<u8>; COLUMNS] = Default::default();
        for operation in block {
            encode(&mut columns, &mut context, operation);
        }
        bytes.clear();
        variable_length::write(&mut bytes, block.len() as u64);
        for column in &columns {
            let compressed = compress_to_vec_zlib(column, COMPRESSION_LEVEL);
            variable_length::write(&mut bytes, column.len() as u64);
            variable_length::write(&mut bytes, compressed.len() as u64);
            bytes.extend_from_slice(&compressed);
        }
        writer.write_all(&bytes)?;
    }
    bytes.clear();
    variable_length::write(&mut bytes, 0);
    variable_length::write(&mut bytes, trace.operations().len() as u64);
    writer.write_all(&bytes)
}

/// Appends one operation to the columns.
fn encode(columns: &mut [Vec<u8>; COLUMNS], context: &mut Context, operation: &Operation) {
    let Operation {
        thread,
        kind,
        id,
        size,
        alignment,
    } = *operation;
    let mut tag = kind.code();
    if thread != context.thread {
        tag |= OTHER_THREAD;
        variable_length::write(&mut columns[THREADS], u64::from(thread));
        context.thread = thread;
    }
    if kind != Kind::Free {
        variable_length::write(&mut columns[SIZES], size);
        if alignment != DEFAULT_ALIGNMENT {
            tag |= OTHER_ALIGNMENT;
            columns[ALIGNMENTS].push(operation.log2_alignment());
        }
    }
    let expected = kind.allocates() && id == context.last_new.wrapping_add(1);
    if !expected {
        variable_length::write(
            &mut columns[IDS],
            fold_sign(context.last_new.wrapping_sub(id)),
        );
        if kind.allocates() {
            tag |= OTHER_ID;
        }
    }
    if kind.allocates() {
        context.last_new = id;
    }
    columns[TAGS].push(tag);
}

/// Reads a trace in this format, from the byte after the [`MAGIC`] on.
///
/// # Errors
/// A file that ends early, a damaged block, or an operation that breaks a rule, with the number of its record.
pub fn read(reader: impl Read) -> Result<Trace, TraceError> {
    let mut source = Source { reader, records: 0 };
    let mut builder = Builder::default();
    let mut context = Context::START;
    loop {
        let records = source.number()?;
        if records == 0 {
            break;
        }
        let records = usize::try_from(records)
            .ok()
            .filter(|&records| records <= BLOCK_RECORDS)
            .ok_or_else(|| {
                source.damaged(format!(
                    "it claims {records} records, of {BLOCK_RECORDS} allowed"
                ))
            })?;
        let mut columns: [Vec<u8>; COLUMNS] = Default::default();
        for (column, widest) in columns.iter_mut().zip(WIDEST) {
            *column = source.column(records * widest)?;
        }
        decode(&mut source, &mut builder, &mut context, records, &columns)?;
    }
    let total = source.number()?;
    if total != source.records {
        let found = source.records;
        return Err(source.damaged(format!("the file claims {total} records and has {found}")));
    }
    if source.bytes(1)?.is_empty() {
        Ok(builder.finish())
    } else {
        Err(source.damaged("bytes follow the last block".to_owned()))
    }
}

/// Takes `records` operations out of a block's columns, all of which must then be used up.
fn decode(
    source: &mut Source<impl Read>,
    builder: &mut Builder,
    context: &mut Context,
    records: usize,
    columns: &[Vec<u8>; COLUMNS],
) -> Result<(), TraceError> {
    let mut rest = columns.each_ref().map(Vec::as_slice);
    for number in (source.records + 1..).take(records) {
        let operation = next_operation(&mut rest, context).ok_or_else(|| {
            source.damaged(format!(
                "record {number} is incomplete or has unknown flags"
            ))
        })?;
        builder.push(operation, Location::Record(number))?;
    }
    if rest.iter().any(|column| !column.is_empty()) {
        return Err(source.damaged("its columns hold more than its records".to_owned()));
    }
    source.records += records as u64;
    Ok(())
}

/// Takes one operation off the front of the columns.
fn next_operation(columns: &mut [&[u8]; COLUMNS], context: &mut Context) -> Option<Operation> {
    let tag = take_byte(&mut columns[TAGS])?;
    if tag & !KNOWN_BITS != 0 {
        return None;
    }
    let kind = Kind::from_code(tag & KIND_BITS)?;
    if tag & OTHER_THREAD != 0 {
        context.thread = u32::try_from(variable_length::take(&mut columns[THREADS])?).ok()?;
    }
    let (mut size, mut alignment) = (0, 1);
    if kind != Kind::Free {
        size = variable_length::take(&mut columns[SIZES])?;
        alignment = DEFAULT_ALIGNMENT;
        if tag & OTHER_ALIGNMENT != 0 {
            alignment = 1_u32.checked_shl(u32::from(take_byte(&mut columns[ALIGNMENTS])?))?;
        }
    }
    let id = if kind.allocates() && tag & OTHER_ID == 0 {
        context.last_new.wrapping_add(1)
    } else {
        let difference = unfold_sign(variable_length::take(&mut columns[IDS])?);
        context.last_new.wrapping_sub(difference)
    };
    if kind.allocates() {
        context.last_new = id;
    }
    Some(Operation {
        thread: context.thread,
        kind,
        id,
        size,
        alignment,
    })
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// A reader that knows how far it is, for messages.
struct Source<R> {
    reader: R,
    /// The records of the blocks that were read whole.
    records: u64,
}

impl<R: Read> Source<R> {
    fn location(&self) -> Location {
        Location::Record(self.records + 1)
    }

    fn damaged(&self, problem: String) -> TraceError {
        TraceError::BadBlock {
            location: self.location(),
            problem,
        }
    }

    /// At most `length` bytes; fewer at the end of the file.
    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, TraceError> {
        // Not allocated in advance: a false length costs no more memory than the file has bytes.
        let mut bytes = Vec::new();
        let read = self
            .reader
            .by_ref()
            .take(length as u64)
            .read_to_end(&mut bytes);
        read.map_err(TraceError::Read)?;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, TraceError> {
        let mut failure = None;
        let mut bytes_read = 0;
        let number = variable_length::read(|| match self.bytes(1) {
            Ok(bytes) => {
                bytes_read += bytes.len();
                bytes.first().copied()
            }
            Err(error) => {
                failure = Some(error);
                None
            }
        });
        match (number, failure) {
            (Some(number), _) => Ok(number),
            (None, Some(error)) => Err(error),
            (None, None) if bytes_read == variable_length::MAXIMUM_BYTES => {
                Err(self.damaged("a number exceeds 64 bits".to_owned()))
            }
            (None, None) => Err(TraceError::Truncated {
                location: self.location(),
            }),
        }
    }

    /// A column that is at most `limit` bytes long once unpacked.
    fn column(&mut self, limit: usize) -> Result<Vec<u8>, TraceError> {
        let length = self.number()?;
        let compressed_length = self.number()?;
        // Deflate adds a few bytes at most to what it cannot compress.
        let compressed_limit = limit + limit / 8 + 64;
        let fits = |number: u64, limit| usize::try_from(number).ok().filter(|&n| n <= limit);
        let (Some(length), Some(compressed_length)) = (
            fits(length, limit),
            fits(compressed_length, compressed_limit),
        ) else {
            return Err(self.damaged(format!(
                "a column claims {length} bytes in {compressed_length}, of {limit} allowed"
            )));
        };
        let compressed = self.bytes(compressed_length)?;
        if compressed.len() < compressed_length {
            return Err(TraceError::Truncated {
                location: self.location(),
            });
        }
        let column = decompress_to_vec_zlib_with_limit(&compressed, length)
            .map_err(|error| self.damaged(format!("a column does not unpack ({error})")))?;
        if column.len() == length {
            Ok(column)
        } else {
            let found = column.len();
            Err(self.damaged(format!("a column claims {length} bytes and has {found}")))
        }
    }
}
