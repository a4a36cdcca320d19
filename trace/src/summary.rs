//! A trace in a few figures, to judge what a replay of it will ask of a heap.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use crate::{
    operation::{Kind, Operation},
    trace::Trace,
};

/// The figures of a trace. Bytes are the bytes that were asked for, without any allocator's rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All operations.
    pub operations: u64,
    /// Allocations, zeroed ones and aligned ones included.
    pub mallocs: u64,
    /// How many of `mallocs` were to be zeroed.
    pub callocs: u64,
    /// How many of `mallocs` asked for more than the default alignment.
    pub aligned: u64,
    /// Changes of size.
    pub reallocs: u64,
    /// Frees.
    pub frees: u64,
    /// Distinct threads.
    pub threads: u64,
    /// The most bytes that were live at one time.
    pub peak_live_bytes: u64,
    /// The most objects that were live at one time.
    pub peak_live_blocks: u64,
    /// The bytes of all requests together; a change of size counts with its new size.
    pub total_bytes: u128,
    /// Objects that were still live at the end.
    pub never_freed: u64,
    /// Frees by another thread than the one that allocated.
    pub frees_by_another_thread: u64,
    /// Entry `k` counts the requests (changes of size included) that round up to 2^`k` bytes. It ends with the largest.
    pub sizes: Vec<u64>,
}

impl Trace {
    /// Computes the trace's figures in one pass.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            operations: self.operations().len() as u64,
            ..Summary::default()
        };
        let mut threads = HashSet::new();
        // The live objects: their size, and the thread that allocated them.
        let mut live: HashMap<u64, (u64, u32)> = HashMap::new();
        // At most 2^26 objects of 2^48 bytes: a sum that 64 bits may not hold.
        let (mut live_bytes, mut peak) = (0_u128, 0_u128);
        for operation in self.operations() {
            let Operation {
                thread,
                kind,
                id,
                size,
                ..
            } = *operation;
            threads.insert(thread);
            summary.count(operation);
            let old = if kind == Kind::Free {
                live.remove(&id)
            } else {
                let owner = live.get(&id).map_or(thread, |&(_, owner)| owner);
                live.insert(id, (size, owner))
            };
            if kind == Kind::Free && old.is_some_and(|(_, owner)| owner != thread) {
                summary.frees_by_another_thread += 1;
            }
            live_bytes += u128::from(size);
            live_bytes -= u128::from(old.map_or(0, |(size, _)| size));
            peak = peak.max(live_bytes);
            summary.peak_live_blocks = summary.peak_live_blocks.max(live.len() as u64);
        }
        summary.peak_live_bytes = u64::try_from(peak).unwrap_or(u64::MAX);
        summary.threads = threads.len() as u64;
        summary.never_freed = live.len() as u64;
        summary
    }
}

impl Summary {
    /// Counts what one operation tells by itself.
    fn count(&mut self, operation: &Operation) {
        match operation.kind {
            Kind::Malloc => self.mallocs += 1,
            Kind::Calloc => {
                self.mallocs += 1;
                self.callocs += 1;
            }
            Kind::Realloc => self.reallocs += 1,
            Kind::Free => {
                self.frees += 1;
                return;
            }
        }
        if operation.kind.allocates() && operation.alignment > crate::DEFAULT_ALIGNMENT {
            self.aligned += 1;
        }
        self.total_bytes += u128::from(operation.size);
        let bucket = operation.size.next_power_of_two().ilog2() as usize;
        if self.sizes.len() <= bucket {
            self.sizes.resize(bucket + 1, 0);
        }
        self.sizes[bucket] += 1;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("operations", u128::from(self.operations)),
            ("mallocs", u128::from(self.mallocs)),
            ("  zeroed", u128::from(self.callocs)),
            ("  aligned", u128::from(self.aligned)),
            ("reallocs", u128::from(self.reallocs)),
            ("frees", u128::from(self.frees)),
            (
                "  by another thread",
                u128::from(self.frees_by_another_thread),
            ),
            ("never freed", u128::from(self.never_freed)),
            ("threads", u128::from(self.threads)),
            ("peak live blocks", u128::from(self.peak_live_blocks)),
            ("peak live bytes", u128::from(self.peak_live_bytes)),
            ("total bytes", self.total_bytes),
        ];
        for (name, value) in rows {
            writeln!(formatter, "{name:<22}{value:>16}")?;
        }
        let requests = (self.mallocs + self.reallocs).max(1);
        writeln!(formatter, "requests by size, up to")?;
        for (bucket, &count) in self
            .sizes
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
        {
            let per_mille = u128::from(count) * 1000 / u128::from(requests);
            let (percent, tenth) = (per_mille / 10, per_mille % 10);
            writeln!(
                formatter,
                "{:>16} bytes{count:>16}{percent:>5}.{tenth} %",
                1_u64 << bucket
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_small_trace() {
        let summary = Trace::new([
            Operation::malloc(0, 1, 100),
            Operation::aligned(0, 2, 64, 4096),
            Operation::free(1, 1),
            Operation::calloc(1, 3, 1),
            Operation::realloc(0, 2, 129),
        ])
        .unwrap()
        .summary();
        let mut sizes = vec![0; 9];
        (sizes[7], sizes[6], sizes[0], sizes[8]) = (1, 1, 1, 1);
        let expected = Summary {
            operations: 5,
            mallocs: 3,
            callocs: 1,
            aligned: 1,
            reallocs: 1,
            frees: 1,
            threads: 2,
            peak_live_bytes: 164,
            peak_live_blocks: 2,
            total_bytes: 294,
            never_freed: 2,
            frees_by_another_thread: 1,
            sizes,
        };
        assert_eq!(summary, expected);
        assert!(
            summary
                .to_string()
                .contains("peak live bytes                    164")
        );
    }

    #[test]
    fn an_empty_trace_has_a_summary() {
        assert_eq!(Trace::default().summary(), Summary::default());
        assert!(!Trace::default().summary().to_string().is_empty());
    }
}
