//! The rules that every trace keeps, checked one operation at a time while a trace is read or built.

use std::collections::HashMap;

use crate::{
    error::{Location, TraceError},
    operation::{Kind, Operation},
    trace::Trace,
};

/// The largest size in bytes that an operation may ask for: more than any address space has for a program.
pub const MAXIMUM_SIZE: u64 = 1 << 48;

/// The most operations that a trace may have. They take 2 GiB of memory, and up to 7 GB while they are read, if no object
/// is freed.
pub const MAXIMUM_OPERATIONS: usize = 1 << 26;

/// Collects operations into a trace, and refuses the first one that breaks a rule.
#[derive(Default)]
pub(crate) struct Builder {
    operations: Vec<Operation>,
    /// The live objects, and where each was allocated.
    live: HashMap<u64, Location>,
}

impl Builder {
    /// Takes the next operation, which was found at `location`.
    pub(crate) fn push(
        &mut self,
        mut operation: Operation,
        location: Location,
    ) -> Result<(), TraceError> {
        if self.operations.len() >= MAXIMUM_OPERATIONS {
            return Err(TraceError::TooManyOperations { location });
        }
        let Operation {
            kind,
            id,
            size,
            alignment,
            ..
        } = operation;
        if kind == Kind::Free {
            // A free has neither size nor alignment, whatever its record says.
            operation = Operation::free(operation.thread, id);
        } else {
            if !(1..=MAXIMUM_SIZE).contains(&size) {
                return Err(TraceError::BadSize {
                    location,
                    kind,
                    size,
                });
            }
            if !alignment.is_power_of_two() {
                return Err(TraceError::BadAlignment {
                    location,
                    alignment,
                });
            }
        }
        match kind {
            Kind::Malloc | Kind::Calloc => {
                if let Some(since) = self.live.insert(id, location) {
                    return Err(TraceError::LiveId {
                        location,
                        kind,
                        id,
                        since,
                    });
                }
            }
            Kind::Realloc => {
                if !self.live.contains_key(&id) {
                    return Err(TraceError::UnknownId { location, kind, id });
                }
            }
            Kind::Free => {
                if self.live.remove(&id).is_none() {
                    return Err(TraceError::UnknownId { location, kind, id });
                }
            }
        }
        self.operations.push(operation);
        Ok(())
    }

    /// How many operations there are.
    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// The trace of what was pushed.
    pub(crate) fn finish(self) -> Trace {
        Trace::from_valid(self.operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(operations: Vec<Operation>) -> TraceError {
        Trace::new(operations).expect_err("the trace breaks a rule")
    }

    #[test]
    fn each_broken_rule_has_its_error() {
        assert!(matches!(
            refusal(vec![Operation::free(0, 7)]),
            TraceError::UnknownId {
                location: Location::Record(1),
                kind: Kind::Free,
                id: 7
            }
        ));
        assert!(matches!(
            refusal(vec![Operation::realloc(0, 7, 8)]),
            TraceError::UnknownId {
                kind: Kind::Realloc,
                ..
            }
        ));
        assert!(matches!(
            refusal(vec![Operation::malloc(0, 7, 8), Operation::calloc(0, 7, 8)]),
            TraceError::LiveId {
                location: Location::Record(2),
                since: Location::Record(1),
                ..
            }
        ));
        assert!(matches!(
            refusal(vec![Operation::malloc(0, 7, 0)]),
            TraceError::BadSize { size: 0, .. }
        ));
        assert!(matches!(
            refusal(vec![Operation::malloc(0, 7, MAXIMUM_SIZE + 1)]),
            TraceError::BadSize { .. }
        ));
        assert!(matches!(
            refusal(vec![Operation::aligned(0, 7, 8, 24)]),
            TraceError::BadAlignment { alignment: 24, .. }
        ));
        assert!(matches!(
            refusal(vec![Operation::aligned(0, 7, 8, 0)]),
            TraceError::BadAlignment { alignment: 0, .. }
        ));
    }

    #[test]
    fn an_id_may_be_used_again_after_its_free() {
        let life = [Operation::malloc(0, 7, 8), Operation::free(1, 7)];
        assert!(Trace::new([life, life].concat()).is_ok());
    }
}
