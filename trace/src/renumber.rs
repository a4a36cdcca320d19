//! Traces made ready for replay: ids that index a small table, and an end with nothing live.

use std::collections::HashMap;

use crate::{operation::Operation, trace::Trace};

/// Hands out the numbers from 0 on, and those that were given back first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    returned: Vec<u32>,
    used: u32,
}

impl Slots {
    /// A number that nobody holds. A trace has fewer objects than `u32` has numbers.
    pub(crate) fn take(&mut self) -> u32 {
        self.returned.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    /// Takes a number back.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.returned.push(slot);
    }

    /// How many distinct numbers were handed out: the most that were held at one time.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
}

impl Trace {
    /// The same trace with dense ids that are used again after a free: each is less than
    /// [`Summary::peak_live_blocks`](crate::Summary::peak_live_blocks), so a table of that many pointers replays it.
    #[must_use]
    pub fn renumbered(&self) -> Self {
        let mut slots = Slots::default();
        let mut slot_of: HashMap<u64, u32> = HashMap::new();
        let mut operations = self.operations().to_vec();
        for operation in &mut operations {
            let slot = *slot_of.entry(operation.id).or_insert_with(|| slots.take());
            if operation.kind == crate::Kind::Free {
                slot_of.remove(&operation.id);
                slots.give_back(slot);
            }
            operation.id = u64::from(slot);
        }
        Self::from_valid(operations)
    }

    /// Appends a free for each object that is never freed, in order of allocation and by the thread that allocated it,
    /// so that a replay ends with an empty heap.
    ///
    /// It may add up to as many operations as there are, so the result may exceed
    /// [`MAXIMUM_OPERATIONS`](crate::MAXIMUM_OPERATIONS) and be too long to be read back from a file.
    pub fn close(&mut self) {
        let mut live: HashMap<u64, (usize, u32)> = HashMap::new();
        for (index, operation) in self.operations().iter().enumerate() {
            if operation.kind.allocates() {
                live.insert(operation.id, (index, operation.thread));
            } else if operation.kind == crate::Kind::Free {
                live.remove(&operation.id);
            }
        }
        let mut left: Vec<_> = live.into_iter().collect();
        left.sort_unstable_by_key(|&(_, (index, _))| index);
        let frees = left
            .into_iter()
            .map(|(id, (_, thread))| Operation::free(thread, id));
        self.operations_mut().extend(frees);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_and_used_again() {
        let trace = Trace::new([
            Operation::malloc(0, 900, 1),
            Operation::malloc(0, 500, 2),
            Operation::free(0, 900),
            Operation::malloc(0, 700, 3),
            Operation::realloc(0, 500, 4),
        ])
        .unwrap();
        let ids: Vec<_> = trace
            .renumbered()
            .operations()
            .iter()
            .map(|o| o.id)
            .collect();
        assert_eq!(ids, [0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_closed_trace_leaves_nothing() {
        let mut trace = Trace::new([
            Operation::malloc(3, 9, 1),
            Operation::malloc(4, 5, 2),
            Operation::malloc(0, 1, 1),
            Operation::free(0, 1),
        ])
        .unwrap();
        trace.close();
        assert_eq!(
            trace.operations()[4..],
            [Operation::free(3, 9), Operation::free(4, 5)]
        );
        assert_eq!(trace.summary().never_freed, 0);
    }
}
