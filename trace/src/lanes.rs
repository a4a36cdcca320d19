//! A trace dealt out to many lanes, in flat arrays that can be copied to a device as they are.
//!
//! All operations on one object stay on one lane and in order, so lanes need not wait for each other. Objects are dealt
//! round robin in order of allocation, not by recorded thread: so each lane's live set looks like the whole trace's, at
//! any number of lanes. What is lost is the order between lanes; cutting the trace into **windows** of time keeps that
//! roughly, when a replay has all lanes finish one window before any begins the next.

use std::collections::HashMap;

use bytemuck::{Pod, Zeroable};

use crate::{
    error::TraceError,
    operation::{Kind, Operation},
    renumber::Slots,
    trace::Trace,
};

/// The most (window, lane) pairs that a split may have (their offsets take 1 GiB).
pub const MAXIMUM_PIECES: u64 = 1 << 28;

/// An operation as a device reads it: 16 bytes, with no thread (the lane stands for it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PackedOperation {
    /// The requested size in bytes; 0 for a free.
    pub size: u64,
    /// The entry of the lane's own table that holds the object's pointer.
    pub slot: u32,
    /// [`Kind::code`]: 0 malloc, 1 calloc, 2 realloc, 3 free.
    pub kind: u8,
    /// The logarithm to base 2 of the requested alignment in bytes; 0 for a free.
    pub log2_alignment: u8,
    /// Zero.
    pub padding: u16,
}

/// A trace split over lanes and windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSplit {
    /// The number of lanes.
    pub lanes: u32,
    /// The number of windows.
    pub windows: u32,
    /// All operations: those of window 0, lane 0; of window 0, lane 1; and so on.
    pub operations: Vec<PackedOperation>,
    /// `windows * lanes + 1` indices into `operations`: those of window `w` and lane `l` are
    /// `offsets[w * lanes + l]..offsets[w * lanes + l + 1]`.
    pub offsets: Vec<u32>,
    /// The entries that each lane's table of pointers needs: the maximum over the lanes. Slots are less than this.
    pub slots_per_lane: u32,
}

impl LaneSplit {
    /// The operations of one lane in one window.
    ///
    /// # Panics
    /// If there is no such window or lane.
    #[must_use]
    pub fn operations_of(&self, window: u32, lane: u32) -> &[PackedOperation] {
        assert!(
            window < self.windows && lane < self.lanes,
            "no window {window}, lane {lane}"
        );
        let piece = window as usize * self.lanes as usize + lane as usize;
        &self.operations[self.offsets[piece] as usize..self.offsets[piece + 1] as usize]
    }
}

impl Trace {
    /// Deals the trace out to `lanes` lanes, in `windows` windows with equally many operations.
    ///
    /// # Errors
    /// [`TraceError::BadSplit`] for no lanes, no windows, or too many of both.
    pub fn split_by_lane(&self, lanes: u32, windows: u32) -> Result<LaneSplit, TraceError> {
        let pieces = u64::from(lanes) * u64::from(windows);
        if !(1..=MAXIMUM_PIECES).contains(&pieces)
            || u32::try_from(self.operations().len()).is_err()
        {
            return Err(TraceError::BadSplit { lanes, windows });
        }
        let (packed, slots_per_lane) = self.pack(lanes);
        let count = self.operations().len();
        let piece_of = |index: usize, lane: u32| {
            // Window w begins at operation w * count / windows, rounded up.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "less than the number of windows"
            )]
            let window = (index as u64 * u64::from(windows) / count as u64) as usize;
            window * lanes as usize + lane as usize
        };

        // A counting sort by piece keeps the order within each.
        let mut offsets = vec![0_u32; lanes as usize * windows as usize + 1];
        for (index, &(lane, _)) in packed.iter().enumerate() {
            offsets[piece_of(index, lane) + 1] += 1;
        }
        for piece in 1..offsets.len() {
            offsets[piece] += offsets[piece - 1];
        }
        let mut next = offsets.clone();
        let mut operations = vec![PackedOperation::zeroed(); count];
        for (index, &(lane, operation)) in packed.iter().enumerate() {
            let place = &mut next[piece_of(index, lane)];
            operations[*place as usize] = operation;
            *place += 1;
        }
        Ok(LaneSplit {
            lanes,
            windows,
            operations,
            offsets,
            slots_per_lane,
        })
    }

    /// Each operation with its lane, in the trace's order, and the most slots that a lane needs.
    fn pack(&self, lanes: u32) -> (Vec<(u32, PackedOperation)>, u32) {
        // Grown as lanes come into use: there may be more lanes than objects.
        let mut slots: Vec<Slots> = Vec::new();
        let mut place_of: HashMap<u64, (u32, u32)> = HashMap::new();
        let mut turn = 0;
        let mut packed = Vec::with_capacity(self.operations().len());
        for operation in self.operations() {
            let Operation { kind, id, size, .. } = *operation;
            let (lane, slot) = *place_of.entry(id).or_insert_with(|| {
                let lane = turn;
                turn = (turn + 1) % lanes;
                slots.resize_with(slots.len().max(lane as usize + 1), Slots::default);
                (lane, slots[lane as usize].take())
            });
            if kind == Kind::Free {
                place_of.remove(&id);
                slots[lane as usize].give_back(slot);
            }
            let log2_alignment = operation.log2_alignment();
            let kind = kind.code();
            packed.push((
                lane,
                PackedOperation {
                    size,
                    slot,
                    kind,
                    log2_alignment,
                    padding: 0,
                },
            ));
        }
        let most = slots.iter().map(Slots::used).max().unwrap_or(0);
        (packed, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(kind: Kind, slot: u32, size: u64) -> PackedOperation {
        let log2_alignment = if kind == Kind::Free { 0 } else { 4 };
        PackedOperation {
            size,
            slot,
            kind: kind.code(),
            log2_alignment,
            padding: 0,
        }
    }

    #[test]
    fn objects_are_dealt_round_robin_and_windows_cut_time() {
        let trace = Trace::new([
            Operation::malloc(0, 1, 10),
            Operation::malloc(0, 2, 20),
            Operation::malloc(0, 3, 30),
            Operation::free(0, 1),
            Operation::realloc(0, 3, 33),
            Operation::malloc(0, 4, 40),
            Operation::free(0, 2),
            Operation::calloc(0, 5, 50),
        ])
        .unwrap();
        let split = trace.split_by_lane(2, 2).unwrap();
        assert_eq!(split.offsets, [0, 3, 4, 6, 8]);
        assert_eq!(split.slots_per_lane, 2);
        assert_eq!(
            split.operations_of(0, 0),
            [
                packed(Kind::Malloc, 0, 10),
                packed(Kind::Malloc, 1, 30),
                packed(Kind::Free, 0, 0)
            ]
        );
        assert_eq!(split.operations_of(0, 1), [packed(Kind::Malloc, 0, 20)]);
        assert_eq!(
            split.operations_of(1, 0),
            [packed(Kind::Realloc, 1, 33), packed(Kind::Calloc, 0, 50)]
        );
        assert_eq!(
            split.operations_of(1, 1),
            [packed(Kind::Malloc, 1, 40), packed(Kind::Free, 0, 0)]
        );
    }

    #[test]
    fn senseless_splits_are_refused() {
        let trace = Trace::default();
        for (lanes, windows) in [(0, 1), (1, 0), (u32::MAX, u32::MAX)] {
            assert!(matches!(
                trace.split_by_lane(lanes, windows),
                Err(TraceError::BadSplit { .. })
            ));
        }
        assert_eq!(trace.split_by_lane(3, 2).unwrap().offsets, [0; 7]);
    }
}
