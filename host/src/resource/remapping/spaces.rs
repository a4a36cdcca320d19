//! Addresses that have no memory, and are waiting for some.
//!
//! Invariant: two spaces are never neighbours: they are merged.

use std::collections::BTreeMap;

/// Ranges of addresses that nothing is mapped at.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    /// Bytes of each, by its first address.
    by_address: BTreeMap<u64, u64>,
}

impl Spaces {
    /// First addresses and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_address
            .iter()
            .map(|(begin, bytes)| (*begin, *bytes))
    }

    /// Takes the first bytes of the first space that has room.
    pub fn take_any(&mut self, bytes: u64) -> Option<u64> {
        let (begin, _) = self.iter().find(|(_, room)| *room >= bytes)?;
        self.take(begin, bytes);
        Some(begin)
    }

    /// Takes the first bytes of a space.
    pub fn take(&mut self, begin: u64, bytes: u64) {
        if let Some(all) = self.by_address.remove(&begin)
            && all > bytes
        {
            self.by_address.insert(begin + bytes, all - bytes);
        }
    }

    /// Puts a space back, merged with its neighbours.
    pub fn put(&mut self, mut begin: u64, mut bytes: u64) {
        if let Some(behind) = self.by_address.remove(&(begin + bytes)) {
            bytes += behind;
        }
        if let Some((before, length)) = self.by_address.range(..begin).next_back()
            && before + length == begin
        {
            (begin, bytes) = (*before, bytes + length);
        }
        self.by_address.insert(begin, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_split_and_merged_again() {
        let mut spaces = Spaces::default();
        spaces.put(100, 50);
        spaces.put(200, 300);
        spaces.take(100, 50);
        spaces.take(200, 100);
        assert_eq!(spaces.iter().collect::<Vec<_>>(), [(300, 200)]);
        for (begin, bytes) in [(250, 50), (100, 50), (150, 100)] {
            spaces.put(begin, bytes);
        }
        assert_eq!(spaces.iter().collect::<Vec<_>>(), [(100, 400)]);
        assert_eq!(
            (spaces.take_any(401), spaces.take_any(400)),
            (None, Some(100))
        );
    }
}
