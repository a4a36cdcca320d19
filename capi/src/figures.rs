//! What a resource counts and holds, as C structures.

/// What is not counted by any part of a resource.
pub const UNKNOWN: u64 = u64::MAX;

/// Figures of a resource; [`UNKNOWN`] for what nothing in its composition counts. The order and meaning of the fields
/// is that of `scatterheap_statistics` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Figures {
    /// Blocks that are handed out.
    pub live_blocks: u64,
    /// Bytes of these, as asked for.
    pub live_bytes: u64,
    /// Calls that allocated.
    pub allocations: u64,
    /// Calls that took a block back.
    pub deallocations: u64,
    /// Calls that did neither.
    pub failures: u64,
    /// The most bytes that were handed out at once.
    pub peak_bytes: u64,
    /// All bytes that ever were.
    pub total_bytes: u64,
    /// Allocations that found a block in their thread's cache.
    pub hits: u64,
    /// Allocations that did not.
    pub misses: u64,
    /// Bytes that a cache keeps for later.
    pub kept_bytes: u64,
    /// How often a stream was made to wait for another.
    pub waits: u64,
    /// Bytes taken from the device.
    pub reserved_bytes: u64,
    /// Bytes of these that no part of the resource uses.
    pub free_bytes: u64,
    /// Bytes of the largest piece of those.
    pub largest_free_bytes: u64,
    /// How many such pieces there are.
    pub free_pieces: u64,
    /// The most bytes that were taken from the device at once.
    pub peak_reserved_bytes: u64,
}

impl Figures {
    /// Names and values, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("live_blocks", self.live_blocks),
            ("live_bytes", self.live_bytes),
            ("allocations", self.allocations),
            ("deallocations", self.deallocations),
            ("failures", self.failures),
            ("peak_bytes", self.peak_bytes),
            ("total_bytes", self.total_bytes),
            ("hits", self.hits),
            ("misses", self.misses),
            ("kept_bytes", self.kept_bytes),
            ("waits", self.waits),
            ("reserved_bytes", self.reserved_bytes),
            ("free_bytes", self.free_bytes),
            ("largest_free_bytes", self.largest_free_bytes),
            ("free_pieces", self.free_pieces),
            ("peak_reserved_bytes", self.peak_reserved_bytes),
        ]
    }

    /// The figures that something counts.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.named()
            .into_iter()
            .filter(|(_, value)| *value != UNKNOWN)
    }
}

/// Adds what another part of a resource counts to what is known so far.
pub fn add(figure: &mut u64, more: u64) {
    *figure = match *figure {
        UNKNOWN => more,
        known => known.saturating_add(more),
    };
}

/// Makes a figure the larger one of what is known so far and what another part of a resource has.
pub fn raise(figure: &mut u64, other: u64) {
    *figure = match *figure {
        UNKNOWN => other,
        known => known.max(other),
    };
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            live_blocks: UNKNOWN,
            live_bytes: UNKNOWN,
            allocations: UNKNOWN,
            deallocations: UNKNOWN,
            failures: UNKNOWN,
            peak_bytes: UNKNOWN,
            total_bytes: UNKNOWN,
            hits: UNKNOWN,
            misses: UNKNOWN,
            kept_bytes: UNKNOWN,
            waits: UNKNOWN,
            reserved_bytes: UNKNOWN,
            free_bytes: UNKNOWN,
            largest_free_bytes: UNKNOWN,
            free_pieces: UNKNOWN,
            peak_reserved_bytes: UNKNOWN,
        }
    }
}

// What the header says, as for the structures of heaps.
const _: () = {
    assert!(size_of::<Figures>() == 128);
    assert!(size_of::<Place>() == 24);
};

/// A place in a resource's memory: `scatterheap_place` in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// 1 if it is free, 0 if it is handed out or kept by a cache.
    pub is_free: u32,
    /// 1 if a segment, which was taken from the device as a whole, begins here.
    pub begins_segment: u32,
}
