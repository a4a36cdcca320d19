//! A trace of allocations, as it is in memory and in a file.

use crate::{Error, Result};
use scatterheap_trace::{file, text};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::Path;

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Whether it allocates; else it frees.
    pub allocates: bool,
    /// Where the block is kept.
    pub slot: u32,
    /// Bytes of the block.
    pub bytes: u64,
}

/// What each thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in tables.
    pub name: &'static str,
    /// How often the operations are run and timed.
    pub rounds: u32,
    /// Bytes that may be taken from the device for each thread; 0 for no limit.
    pub capacity: u64,
    /// After the last nothing is live.
    pub operations: Vec<Operation>,
}

/// A line of a file.
#[derive(Serialize, Deserialize)]
struct Row {
    thread: u32,
    operation: char,
    id: u32,
    bytes: u64,
}

impl Scenario {
    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        let last = self.operations.iter().map(|operation| operation.slot).max();
        last.map_or(0, |slot| slot as usize + 1)
    }

    /// Allocations in one round.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        let allocations = self.operations.iter().filter(|one| one.allocates);
        allocations.count() as u64
    }

    /// The most bytes that are live at once in one thread.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak_of_first(u64::MAX)
    }

    /// The same if a thread does so many operations only.
    #[must_use]
    pub fn peak_of_first(&self, operations: u64) -> u64 {
        let (mut live, mut peak) = (0, 0);
        let count = usize::try_from(operations).unwrap_or(usize::MAX);
        for operation in self.operations.iter().take(count) {
            if operation.allocates {
                live += operation.bytes;
                peak = peak.max(live);
            } else {
                live -= operation.bytes;
            }
        }
        peak
    }

    /// The name of its file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.csv", self.name)
    }

    fn write(&self, path: &Path) -> Result<()> {
        let write = |file: &mut dyn Write| -> io::Result<()> {
            let mut rows = csv::Writer::from_writer(file);
            for operation in &self.operations {
                rows.serialize(Row {
                    thread: 0,
                    operation: if operation.allocates { 'a' } else { 'f' },
                    id: operation.slot,
                    bytes: operation.bytes,
                })?;
            }
            rows.flush()
        };
        file::replace(path, write).map_err(|error| unwritable(path, &error))
    }
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Scenario(format!(
        "{} cannot be written ({error}): choose another directory",
        path.display()
    ))
}

/// Writes all scenarios and their list to a directory, which is made if need be.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_all(scenarios: &[Scenario], directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    for scenario in scenarios {
        scenario.write(&directory.join(scenario.file()))?;
    }
    // Last, so that what it lists is there.
    let path = directory.join("scenarios.csv");
    file::replace(&path, |file| write_list(scenarios, file))
        .map_err(|error| unwritable(&path, &error))
}

fn write_list(scenarios: &[Scenario], file: &mut dyn Write) -> io::Result<()> {
    let mut list = csv::Writer::from_writer(file);
    list.write_record(["scenario", "file", "rounds", "capacity"])?;
    for scenario in scenarios {
        let (rounds, capacity) = (scenario.rounds.to_string(), scenario.capacity.to_string());
        list.write_record([scenario.name, &scenario.file(), &rounds, &capacity])?;
    }
    list.flush()
}

/// What to give where there is no trace.
const ADVICE: &str = "name a trace of thread,operation,id,bytes";

/// Reads operations; `place` is where they come from.
///
/// # Errors
///
/// If it has more than 256 MiB, or what it says cannot have happened.
pub fn read(reader: impl Read, place: &str) -> Result<Vec<Operation>> {
    parse(reader).map_err(|problem| Error::Scenario(format!("{place}: {problem}")))
}

fn parse(reader: impl Read) -> std::result::Result<Vec<Operation>, String> {
    // As a whole, as a table of what cannot be read is one without rows.
    let text = text::read(reader).map_err(|error| format!("cannot be read ({error}): {ADVICE}"))?;
    let mut live: u64 = 0;
    let mut slots: Vec<Option<u64>> = Vec::new();
    let mut operations = Vec::new();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let row: Row = row.map_err(|error| error.to_string())?;
        let number = operations.len() + 2;
        let slot = row.id as usize;
        if slot >= 1 << 24 {
            return Err(format!(
                "line {number}: the id {slot} is too large: use ids from 0 on, again after a block is freed"
            ));
        }
        if slot >= slots.len() {
            slots.resize(slot + 1, None);
        }
        let was = match row.operation {
            'a' if row.bytes > 0 => slots[slot].replace(row.bytes).is_none(),
            'f' => slots[slot].take() == Some(row.bytes),
            _ => false,
        };
        if !was {
            return Err(format!(
                "line {number}: the operation is not `a` of a free id with at least one byte, or `f` of a live one with its bytes"
            ));
        }
        let allocates = row.operation == 'a';
        let now = if allocates {
            live.checked_add(row.bytes)
        } else {
            live.checked_sub(row.bytes)
        };
        live = now.ok_or_else(|| {
            format!("line {number}: 2^64 bytes and more would be live: use smaller blocks")
        })?;
        operations.push(Operation {
            allocates,
            slot: row.id,
            bytes: row.bytes,
        });
    }
    match slots.iter().flatten().count() {
        0 if operations.is_empty() => Err(format!("there is no operation: {ADVICE}")),
        0 => Ok(operations),
        left => Err(format!(
            "{left} blocks are live after the last line: free them there"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let operations = [(true, 0, 5), (true, 1, 7), (false, 0, 5), (false, 1, 7)];
        let operations = operations.map(|(allocates, slot, bytes)| Operation {
            allocates,
            slot,
            bytes,
        });
        let scenario = Scenario {
            name: "made_up",
            rounds: 3,
            capacity: 0,
            operations: operations.to_vec(),
        };
        assert_eq!((scenario.slots(), scenario.peak()), (2, 12));
        assert_eq!(scenario.peak_of_first(1), 5);
        let directory = tempfile::tempdir().expect("a directory");
        write_all(std::slice::from_ref(&scenario), directory.path()).expect("written");
        let list = std::fs::read_to_string(directory.path().join("scenarios.csv"));
        assert_eq!(
            list.expect("written"),
            "scenario,file,rounds,capacity\nmade_up,made_up.csv,3,0\n"
        );
        let file = std::fs::File::open(directory.path().join("made_up.csv")).expect("there");
        let read = read(file, "a file").expect("good");
        assert_eq!(read, scenario.operations);
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        for rows in [
            "0,a,0,0",
            "0,f,0,1",
            "0,a,0,1\n0,a,0,1",
            "0,a,0,1\n0,f,0,2",
            "0,a,0,1",
            "0,x,0,1",
            "0,a,99999999,1",
            "what",
            "",
            "0,a,0,18446744073709551615\n0,a,1,1\n0,f,0,18446744073709551615\n0,f,1,1",
        ] {
            let text = format!("thread,operation,id,bytes\n{rows}\n");
            assert!(parse(text.as_bytes()).is_err(), "{rows}");
        }
        let directory = std::fs::File::open(".").expect("there is one");
        let error = read(directory, "here").expect_err("no file").to_string();
        assert!(error.starts_with("here: cannot be read ("), "{error}");
    }
}
