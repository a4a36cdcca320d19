//! Which free parts of memory make a block together.
//!
//! Addresses can be given to physical memory a second time, in whole granules. So a block can be put
//! together of free parts that lie apart if it leaves no gaps: first the free end of a granule whose
//! beginning is in use, then whole granules, last the free beginning of another one.
//!
//! All that is left of a free piece when its whole granules are used are such ends and beginnings. A block
//! takes at most one of each, and by that as many as it leaves behind.

/// A part of the memory: first address and end.
pub(super) type Part = (u64, u64);

/// Free memory as granules see it.
#[derive(Debug, Default)]
pub(super) struct Parts {
    granule: u64,
    /// Ends of granules that begin with something else.
    ends: Vec<Part>,
    /// Beginnings of granules that end with something else.
    beginnings: Vec<Part>,
    /// Ranges of whole granules.
    whole: Vec<Part>,
}

fn length(part: &Part) -> u64 {
    part.1 - part.0
}

impl Parts {
    /// Sorts free pieces into parts.
    pub fn new(granule: u64, free: impl Iterator<Item = Part>) -> Self {
        let mut parts = Self {
            granule,
            ..Self::default()
        };
        for (begin, end) in free {
            let first = begin.next_multiple_of(granule);
            let last = end - end % granule;
            if begin < first && first <= end {
                parts.ends.push((begin, first));
            }
            if first < last {
                parts.whole.push((first, last));
            }
            if begin <= last && last < end {
                parts.beginnings.push((last, end));
            }
        }
        parts
    }

    /// Bytes of all whole granules.
    pub fn whole_bytes(&self) -> u64 {
        self.whole.iter().map(length).sum()
    }

    /// The ranges of whole granules.
    pub fn whole(&self) -> &[Part] {
        &self.whole
    }

    /// Parts that make a block of `bytes` bytes, in order, if there are enough. It begins with a whole
    /// granule if it is to be aligned to one.
    pub fn choose(&self, bytes: u64, is_aligned: bool) -> Option<Vec<Part>> {
        let rest = (bytes - 1) % self.granule + 1;
        let (end, beginning) = self.for_rest(rest, is_aligned);
        let has_rest = end.is_some() || beginning.is_some();
        let granules = (bytes - rest) + if has_rest { 0 } else { self.granule };
        if granules > self.whole_bytes() {
            return None;
        }
        let taken = rest.min(end.as_ref().map_or(0, length));
        let mut parts: Vec<_> = end.map(|(_, end)| (end - taken, end)).into_iter().collect();
        parts.extend(self.take_whole(granules));
        parts.extend(beginning.map(|(begin, _)| (begin, begin + rest - taken)));
        Some(parts)
    }

    /// What a block has beside whole granules: the smallest end or beginning that is enough, else one of each.
    fn for_rest(&self, rest: u64, is_aligned: bool) -> (Option<Part>, Option<Part>) {
        let ends = if is_aligned { &[] } else { &self.ends[..] };
        let smallest = |parts: &[Part]| {
            let fitting = parts.iter().filter(|part| length(part) >= rest);
            fitting.min_by_key(|part| length(part)).copied()
        };
        let largest = |parts: &[Part]| parts.iter().max_by_key(|part| length(part)).copied();
        match (smallest(ends), smallest(&self.beginnings)) {
            (Some(end), Some(beginning)) if length(&end) <= length(&beginning) => (Some(end), None),
            (Some(end), None) => (Some(end), None),
            (_, Some(beginning)) => (None, Some(beginning)),
            (None, None) => match (largest(ends), largest(&self.beginnings)) {
                (Some(end), Some(beginning)) if length(&end) + length(&beginning) >= rest => {
                    (Some(end), Some(beginning))
                }
                _ => (None, None),
            },
        }
    }

    /// Whole granules, in as few ranges as possible. There are enough.
    fn take_whole(&self, mut bytes: u64) -> Vec<Part> {
        let mut ranges = self.whole.clone();
        ranges.sort_unstable_by_key(|part| std::cmp::Reverse(length(part)));
        let mut taken = Vec::new();
        for (begin, end) in ranges {
            let used = bytes.min(end - begin);
            if used > 0 {
                taken.push((begin, begin + used));
            }
            bytes -= used;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_and_ends_with_parts_of_granules() {
        let free = [(30, 50), (70, 75), (100, 130), (195, 200), (203, 207)];
        let parts = Parts::new(10, free.into_iter());
        assert_eq!(parts.whole_bytes(), 50);
        assert_eq!(parts.choose(50, true), Some(vec![(100, 130), (30, 50)]));
        // The end of a granule, and the beginning of one.
        assert_eq!(parts.choose(34, false), Some(vec![(196, 200), (100, 130)]));
        assert_eq!(parts.choose(34, true), Some(vec![(100, 130), (70, 74)]));
        assert_eq!(
            parts.choose(60, false),
            Some(vec![(195, 200), (100, 130), (30, 50), (70, 75)])
        );
        assert_eq!(parts.choose(61, false), None);
        assert_eq!(parts.choose(60, true), None);
        // The middle of a granule is of no use.
        assert_eq!(Parts::new(10, [(3, 7)].into_iter()).choose(1, false), None);
    }
}
