//! From a recording, which knows addresses, to a trace, which knows objects.

use std::{
    collections::HashMap,
    fmt,
    io::{ErrorKind, Read},
};

use crate::{
    error::{Location, TraceError},
    operation::{DEFAULT_ALIGNMENT, Kind, Operation},
    raw::{self, RawHeader, RawRecord},
    trace::Trace,
    validate::{Builder, MAXIMUM_OPERATIONS},
};

/// A converted recording, and what had to be left out or mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// The trace. Objects are numbered from 0 in order of allocation, threads from 0 in order of first appearance.
    pub trace: Trace,
    /// Frees and changes of size of addresses that were allocated before recording began, or by a function that is not
    /// recorded. The frees are left out; a change of size becomes an allocation.
    pub unmatched: u64,
    /// Frees that were put in because an address was handed out again that was still thought to be live.
    pub missed_frees: u64,
    /// Requests of no bytes, which are recorded as one byte: they need an address of their own all the same.
    pub zero_sized: u64,
    /// Records that were begun but not finished when the program ended.
    pub unfinished: u64,
    /// Calls that the recording had no room for.
    pub dropped: u64,
    /// Calls that the trace had no room for: see [`MAXIMUM_OPERATIONS`].
    pub beyond_limit: u64,
}

impl fmt::Display for Conversion {
    /// One line for each thing that was left out or mended; nothing if there was none.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, what) in [
            (
                self.unmatched,
                "frees of addresses from before the recording, or by a function that is not recorded, left out",
            ),
            (self.missed_frees, "frees that were not seen, put in"),
            (
                self.zero_sized,
                "requests of no bytes, recorded as one byte",
            ),
            (
                self.unfinished,
                "calls cut off by the end of the program, left out",
            ),
            (
                self.dropped,
                "calls that the recording had no room for, left out",
            ),
            (
                self.beyond_limit,
                "calls after the trace had as many operations as one may have, left out; record a shorter run",
            ),
        ] {
            if count > 0 {
                writeln!(formatter, "{count} {what}")?;
            }
        }
        Ok(())
    }
}

/// The most operations that one record becomes: a free that was missed, and what it says.
const OPERATIONS_OF_A_RECORD: usize = 2;

/// Reads a recording and converts it, up to the largest trace that there may be.
///
/// # Errors
/// Something that is no recording, a recording that ends early, or one with a record of unknown kind.
pub fn convert(reader: impl Read) -> Result<Conversion, TraceError> {
    convert_at_most(reader, MAXIMUM_OPERATIONS)
}

/// Converts the first records, which become at most `limit` operations.
fn convert_at_most(mut reader: impl Read, limit: usize) -> Result<Conversion, TraceError> {
    let mut start = Vec::new();
    reader
        .by_ref()
        .take(size_of::<RawHeader>() as u64)
        .read_to_end(&mut start)
        .map_err(TraceError::Read)?;
    if !start.starts_with(&raw::MAGIC) {
        let found = String::from_utf8_lossy(&start[..start.len().min(8)]).into_owned();
        return Err(TraceError::NotARecording { found });
    }
    let header: RawHeader =
        bytemuck::try_pod_read_unaligned(&start).map_err(|_| TraceError::Truncated {
            location: Location::Record(1),
        })?;
    let mut converter = Converter::default();
    let records = header.claimed.min(header.capacity);
    for number in 1..=records {
        if converter.builder.len() + OPERATIONS_OF_A_RECORD > limit {
            converter.conversion.beyond_limit = records - number + 1;
            break;
        }
        let mut bytes = [0; size_of::<RawRecord>()];
        reader
            .read_exact(&mut bytes)
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => TraceError::Truncated {
                    location: Location::Record(number),
                },
                _ => TraceError::Read(error),
            })?;
        converter.take(
            &bytemuck::pod_read_unaligned(&bytes),
            Location::Record(number),
        )?;
    }
    converter.conversion.dropped = header.claimed.saturating_sub(header.capacity);
    converter.conversion.trace = converter.builder.finish();
    Ok(converter.conversion)
}

#[derive(Default)]
struct Converter {
    builder: Builder,
    conversion: Conversion,
    /// The live objects by address.
    live: HashMap<u64, u64>,
    /// What each thread is changing the size of: the old address, and the object if it is known.
    changing: HashMap<u32, (u64, Option<u64>)>,
    next_id: u64,
    /// The threads' numbers in the trace, by those in the recording.
    threads: HashMap<u32, u32>,
}

impl Converter {
    /// Takes the next record.
    fn take(&mut self, record: &RawRecord, location: Location) -> Result<(), TraceError> {
        match record.kind {
            0 => self.conversion.unfinished += 1,
            raw::MALLOC => self.allocate(Kind::Malloc, record, location)?,
            raw::CALLOC => self.allocate(Kind::Calloc, record, location)?,
            raw::FREE => match self.live.remove(&record.address) {
                Some(id) => {
                    self.push(Operation::free(record.thread, id), location)?;
                }
                None => self.conversion.unmatched += 1,
            },
            raw::REALLOC_BEGIN => {
                let id = self.live.remove(&record.address);
                self.changing.insert(record.thread, (record.address, id));
            }
            raw::REALLOC_END => self.finish_change(record, location)?,
            kind => {
                let problem = format!("a record has the unknown kind {kind}");
                return Err(TraceError::BadBlock { location, problem });
            }
        }
        Ok(())
    }

    fn allocate(
        &mut self,
        kind: Kind,
        record: &RawRecord,
        location: Location,
    ) -> Result<(), TraceError> {
        let id = self.next_id;
        self.next_id += 1;
        self.settle(record, id, location)?;
        let size = self.at_least_one(record.size);
        let alignment = record.alignment.max(DEFAULT_ALIGNMENT);
        let thread = record.thread;
        self.push(
            Operation {
                thread,
                kind,
                id,
                size,
                alignment,
            },
            location,
        )
    }

    /// Notes that object `id` now lives at the record's address.
    fn settle(
        &mut self,
        record: &RawRecord,
        id: u64,
        location: Location,
    ) -> Result<(), TraceError> {
        if let Some(ghost) = self.live.insert(record.address, id) {
            self.conversion.missed_frees += 1;
            self.push(Operation::free(record.thread, ghost), location)?;
        }
        Ok(())
    }

    fn finish_change(&mut self, record: &RawRecord, location: Location) -> Result<(), TraceError> {
        let Some((old_address, id)) = self.changing.remove(&record.thread) else {
            self.conversion.unfinished += 1;
            return Ok(());
        };
        match (id, record.address, record.size) {
            // Resized to nothing, which frees.
            (Some(id), 0, 0) => self.push(Operation::free(record.thread, id), location),
            // Failed: the object stays what it was.
            (Some(id), 0, _) => {
                self.live.insert(old_address, id);
                Ok(())
            }
            (Some(id), _, _) => {
                self.settle(record, id, location)?;
                let size = self.at_least_one(record.size);
                self.push(Operation::realloc(record.thread, id, size), location)
            }
            (None, 0, _) => {
                self.conversion.unmatched += 1;
                Ok(())
            }
            (None, _, _) => {
                self.conversion.unmatched += 1;
                self.allocate(Kind::Malloc, record, location)
            }
        }
    }

    /// Appends an operation of a thread that has its number from the recording.
    fn push(&mut self, mut operation: Operation, location: Location) -> Result<(), TraceError> {
        // A thread that gets a number later may still be the first to claim a record, so these numbers have no order.
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        operation.thread = *self.threads.entry(operation.thread).or_insert(next);
        self.builder.push(operation, location)
    }

    fn at_least_one(&mut self, size: u64) -> u64 {
        self.conversion.zero_sized += u64::from(size == 0);
        size.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, thread: u32, address: u64, size: u64) -> RawRecord {
        RawRecord {
            address,
            size,
            alignment: 16,
            thread,
            kind,
            padding: 0,
        }
    }

    fn recording(records: &[RawRecord], claimed: u64) -> Vec<u8> {
        let capacity = records.len() as u64;
        let header = RawHeader {
            magic: raw::MAGIC,
            process: 1,
            padding: 0,
            claimed,
            capacity,
        };
        [bytemuck::bytes_of(&header), bytemuck::cast_slice(records)].concat()
    }

    fn converted(records: &[RawRecord]) -> Conversion {
        convert(recording(records, records.len() as u64).as_slice()).unwrap()
    }

    #[test]
    fn an_address_used_again_is_another_object() {
        let conversion = converted(&[
            record(raw::MALLOC, 0, 0x10, 8),
            record(raw::FREE, 0, 0x10, 0),
            record(raw::CALLOC, 1, 0x10, 0),
        ]);
        let expected = [
            Operation::malloc(0, 0, 8),
            Operation::free(0, 0),
            Operation::calloc(1, 1, 1),
        ];
        assert_eq!(conversion.trace.operations(), expected);
        assert_eq!(conversion.zero_sized, 1);
    }

    #[test]
    fn threads_are_numbered_in_order_of_first_appearance() {
        let conversion = converted(&[
            // Of this nothing comes into the trace.
            record(raw::FREE, 9, 0x90, 0),
            record(raw::MALLOC, 7, 0x10, 8),
            record(raw::REALLOC_BEGIN, 3, 0x10, 16),
            record(raw::MALLOC, 5, 0x20, 8),
            record(raw::REALLOC_END, 3, 0x10, 16),
            record(raw::FREE, 7, 0x20, 0),
        ]);
        let expected = [
            Operation::malloc(0, 0, 8),
            Operation::malloc(1, 1, 8),
            Operation::realloc(2, 0, 16),
            Operation::free(0, 1),
        ];
        assert_eq!(conversion.trace.operations(), expected);
    }

    #[test]
    fn a_realloc_lets_another_thread_have_the_old_address_at_once() {
        let conversion = converted(&[
            record(raw::MALLOC, 0, 0x10, 8),
            record(raw::REALLOC_BEGIN, 0, 0x10, 80),
            record(raw::MALLOC, 1, 0x10, 9),
            record(raw::REALLOC_END, 0, 0x90, 80),
            record(raw::FREE, 1, 0x90, 0),
        ]);
        let expected = [
            Operation::malloc(0, 0, 8),
            Operation::malloc(1, 1, 9),
            Operation::realloc(0, 0, 80),
            Operation::free(1, 0),
        ];
        assert_eq!(conversion.trace.operations(), expected);
        assert_eq!(
            Conversion {
                trace: Trace::default(),
                ..conversion
            },
            Conversion::default()
        );
    }

    #[test]
    fn a_realloc_may_fail_or_free() {
        let conversion = converted(&[
            record(raw::MALLOC, 0, 0x10, 8),
            record(raw::REALLOC_BEGIN, 0, 0x10, 1 << 60),
            record(raw::REALLOC_END, 0, 0, 1 << 60),
            record(raw::REALLOC_BEGIN, 0, 0x10, 0),
            record(raw::REALLOC_END, 0, 0, 0),
        ]);
        let expected = [Operation::malloc(0, 0, 8), Operation::free(0, 0)];
        assert_eq!(conversion.trace.operations(), expected);
    }

    #[test]
    fn what_was_allocated_before_is_counted_and_left_out() {
        let conversion = converted(&[
            record(raw::FREE, 0, 0x10, 0),
            record(raw::REALLOC_BEGIN, 0, 0x20, 5),
            record(raw::REALLOC_END, 0, 0x30, 5),
            record(0, 0, 0, 0),
            record(raw::MALLOC, 0, 0x30, 6),
        ]);
        let expected = [
            Operation::malloc(0, 0, 5),
            Operation::free(0, 0),
            Operation::malloc(0, 1, 6),
        ];
        assert_eq!(conversion.trace.operations(), expected);
        assert_eq!((conversion.unmatched, conversion.unfinished), (2, 1));
        assert_eq!(conversion.missed_frees, 1);
    }

    #[test]
    fn what_is_more_than_a_trace_may_have_is_counted_and_left_out() {
        let records = [
            record(raw::MALLOC, 0, 0x10, 8),
            record(raw::MALLOC, 0, 0x10, 9),
            record(raw::MALLOC, 0, 0x20, 8),
            record(raw::FREE, 0, 0x10, 0),
        ];
        let bytes = recording(&records, 9);
        let operations = |limit| {
            let conversion = convert_at_most(bytes.as_slice(), limit).unwrap();
            assert_eq!(conversion.dropped, 5);
            let operations = conversion.trace.operations().len();
            assert!(operations <= limit);
            (operations, conversion.beyond_limit)
        };
        assert_eq!(operations(1), (0, 4));
        assert_eq!(operations(2), (1, 3));
        assert_eq!(operations(3), (3, 2));
        assert_eq!(operations(5), (4, 1));
        assert_eq!(operations(6), (5, 0));
        let said = convert_at_most(bytes.as_slice(), 2).unwrap().to_string();
        assert!(
            said.contains("3 calls after the trace had as many"),
            "{said}"
        );
    }

    #[test]
    fn damaged_recordings_are_refused() {
        let whole = recording(&[record(raw::MALLOC, 0, 0x10, 8)], 9);
        assert_eq!(convert(whole.as_slice()).unwrap().dropped, 8);
        let refusal = |bytes: &[u8]| convert(bytes).expect_err("the recording is damaged");
        assert!(matches!(
            refusal(&whole[..20]),
            TraceError::Truncated { .. }
        ));
        assert!(matches!(
            refusal(&whole[..50]),
            TraceError::Truncated { .. }
        ));
        assert!(matches!(refusal(b"ELF"), TraceError::NotARecording { .. }));
        let unknown = recording(&[record(77, 0, 0x10, 8)], 1);
        assert!(matches!(refusal(&unknown), TraceError::BadBlock { .. }));
    }
}
