//! `trace`: bytes as each kind of trace file. What is read is written, and read again as the same; nothing
//! takes more memory than the file's bytes or blocks justify.

use crate::memory::most_of;
use arbitrary::{Result, Unstructured};
use bytemuck::bytes_of;
use miniz_oxide::deflate::compress_to_vec_zlib;
use trace_format::binary_format::{self, BLOCK_RECORDS};
use trace_format::raw::{self, RawHeader, RawRecord};
use trace_format::{Operation, Trace, convert, csv_format};

/// The first line of a trace in CSV.
const CSV_HEAD: &[u8] = b"thread,operation,id,size,alignment\n";
/// Columns of a block of the binary format.
const COLUMNS: usize = 5;
/// The shortest block: its number of records, and of each column two lengths and an empty stream.
const SHORTEST_BLOCK: usize = 1 + COLUMNS * (2 + 8);
/// What reading anything may take.
const READING: usize = 256 << 10;
/// What each byte of a file may take, where it is not compressed: a line of CSV has 11 bytes, and its
/// operation at most three times 40 for the list and twice three times 40 for the live objects, while these grow.
const EACH_BYTE: usize = 40;
/// What each block of the binary format may take: the same for each record, and the columns of 24 bytes. That is much for
/// the bytes of a block, as records may be hundreds to a byte; `binary_format` says so.
const EACH_BLOCK: usize = BLOCK_RECORDS * (9 * 40 + 24);

/// Reads the file that the bytes are, or that is made of them.
///
/// # Panics
/// The reader does not as it must.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 8 {
        0 => read(rest),
        1 => recording(rest),
        2 | 3 => read(&[CSV_HEAD, rest].concat()),
        4 => recording(&recorded(rest)),
        5 => made(rest),
        _ => read(&packed(rest)),
    }
}

/// Reads a file of either format.
fn read(file: &[u8]) {
    let (trace, most) = most_of(|| Trace::from_reader(file));
    let is_binary = file.starts_with(&binary_format::MAGIC);
    let allowed = if is_binary {
        READING + (file.len() / SHORTEST_BLOCK + 1) * EACH_BLOCK
    } else {
        READING + file.len() * EACH_BYTE
    };
    assert!(most <= allowed, "{most} bytes for a file of {}", file.len());
    match trace {
        Ok(trace) => examine(&trace),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Converts a recording.
fn recording(file: &[u8]) {
    let (conversion, most) = most_of(|| convert(file));
    let allowed = READING + file.len() * EACH_BYTE;
    assert!(most <= allowed, "{most} bytes for a file of {}", file.len());
    match conversion {
        Ok(conversion) => {
            examine(&conversion.trace);
            assert!(conversion.to_string().lines().count() <= 5);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Does with a trace what is done with traces.
fn examine(trace: &Trace) {
    written_and_read(trace);
    let summary = trace.summary();
    assert_eq!(
        Trace::new(trace.operations().iter().copied()).ok().as_ref(),
        Some(trace)
    );
    let renumbered = trace.renumbered();
    let ids = renumbered.operations().iter().map(|operation| operation.id);
    assert!(ids.max().is_none_or(|id| id < summary.peak_live_blocks));
    let mut closed = trace.clone();
    closed.close();
    assert_eq!(closed.summary().peak_live_bytes, summary.peak_live_bytes);
    written_and_read(&closed);
    for (lanes, windows) in [(1, 1), (3, 2), (32, 5)] {
        let split = closed.split_by_lane(lanes, windows).expect("few");
        let pieces = (0..windows).flat_map(|window| (0..lanes).map(move |lane| (window, lane)));
        let lengths = pieces.map(|(window, lane)| split.operations_of(window, lane).len());
        assert_eq!(lengths.sum::<usize>(), closed.operations().len());
    }
}

/// What is written, in either format, is read again.
fn written_and_read(trace: &Trace) {
    let mut text = Vec::new();
    csv_format::write(trace, &mut text).expect("memory is never full");
    let again = Trace::from_reader(&*text).expect("what was written is a trace");
    assert_eq!(&again, trace);
    let mut binary = Vec::new();
    binary_format::write(trace, &mut binary).expect("memory is never full");
    let again = Trace::from_reader(&*binary).expect("what was written is a trace");
    assert_eq!(&again, trace);
}

/// A list of operations. Most are of objects that are live, or else few would be valid.
fn made(bytes: &[u8]) {
    let mut operations = Vec::new();
    let mut bytes = Unstructured::new(bytes);
    while let Ok(operation) = operation(&mut bytes) {
        operations.push(operation);
    }
    if let Ok(trace) = Trace::new(operations) {
        examine(&trace);
    }
}

fn operation(bytes: &mut Unstructured<'_>) -> Result<Operation> {
    if bytes.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let kind: u8 = bytes.arbitrary()?;
    let thread = u32::from(kind >> 6) * if kind & 32 == 0 { 1 } else { 0x4000_0001 };
    let id: u8 = bytes.arbitrary()?;
    let id = if kind & 16 == 0 {
        u64::from(id)
    } else {
        u64::MAX - u64::from(id)
    };
    let size = |bytes: &mut Unstructured<'_>| -> Result<u64> {
        let size: u16 = bytes.arbitrary()?;
        Ok(u64::from(size & 0xff) << ((size >> 8) % 48))
    };
    Ok(match kind % 8 {
        0..3 => Operation::free(thread, id),
        3 => Operation::realloc(thread, id, size(bytes)?),
        4 => Operation::calloc(thread, id, size(bytes)?),
        5 => Operation::aligned(
            thread,
            id,
            size(bytes)?,
            1 << (bytes.arbitrary::<u8>()? % 32),
        ),
        _ => Operation::malloc(thread, id, size(bytes)?),
    })
}

/// A recording, with records of whatever kind.
fn recorded(bytes: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    let mut source = Unstructured::new(bytes);
    let claims: i8 = source.arbitrary().unwrap_or_default();
    while let Ok(record) = record(&mut source) {
        records.push(record);
    }
    let capacity = records.len() as u64;
    let header = RawHeader {
        magic: raw::MAGIC,
        process: 1,
        padding: 0,
        claimed: capacity.saturating_add_signed(claims.into()),
        // Now and then room is claimed that is not there.
        capacity: if claims == i8::MAX {
            u64::MAX
        } else {
            capacity
        },
    };
    let mut file = bytes_of(&header).to_vec();
    file.extend(records.iter().flat_map(bytes_of));
    file
}

fn record(bytes: &mut Unstructured<'_>) -> Result<RawRecord> {
    if bytes.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let kind: u8 = bytes.arbitrary()?;
    let (address, size, alignment): (u8, u16, u8) = bytes.arbitrary()?;
    Ok(RawRecord {
        // Few, so that frees meet what was allocated.
        address: u64::from(address % 16) << (address >> 4),
        size: u64::from(size & 0xff) << ((size >> 8) % 64),
        alignment: if alignment < 32 {
            1 << alignment
        } else {
            alignment.into()
        },
        thread: u32::from(kind / 8 % 4),
        kind: u32::from(kind % 8).min(6) * if kind < 250 { 1 } else { u32::MAX / 6 },
        padding: 0,
    })
}

/// A file of the binary format whose blocks are well packed, whatever is in them.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut source = Unstructured::new(bytes);
    let mut file = binary_format::MAGIC.to_vec();
    let mut total = 0_u64;
    while let Ok(records) = block(&mut source, &mut file) {
        total = total.wrapping_add(records);
    }
    number(&mut file, 0);
    number(&mut file, total);
    file
}

/// Appends a block, and gives its number of records.
fn block(source: &mut Unstructured<'_>, file: &mut Vec<u8>) -> Result<u64> {
    if source.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let tags: u8 = source.arbitrary()?;
    let lie: u8 = source.arbitrary()?;
    let records = match lie {
        255 => source.arbitrary()?,
        _ => u64::from(tags),
    };
    number(file, records);
    for column in 0..COLUMNS {
        let length: u8 = if column == 0 {
            tags
        } else {
            source.arbitrary()?
        };
        let length = usize::from(length).min(source.len());
        let content = source.bytes(length)?;
        let compressed = compress_to_vec_zlib(content, 1);
        let claimed = match lie {
            254 => source.arbitrary()?,
            _ => content.len() as u64,
        };
        number(file, claimed);
        number(file, compressed.len() as u64);
        file.extend(compressed);
    }
    Ok(records)
}

/// Appends a number of variable length.
fn number(file: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        file.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    file.push((number & 0x7f) as u8);
}
