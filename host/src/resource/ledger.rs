//! Which blocks are handed out: a word for every address at which one can begin.
//!
//! The ledger decides whether a block may be taken back. A word holds the block's bytes and
//! alignment while it is handed out, and says that it was freed after that, so one exchange finds
//! every wrong use, and of several threads that free the same block one succeeds. Words lie in
//! leaves of 1 MiB for 32 MiB of addresses each, below a tree of two levels. The operating system
//! gives all of it memory only where it is touched: a page at most for each block, and 8 bytes for
//! each 256 bytes of addresses. Words of blocks that are handed out one after the other are on
//! different cache lines, so that threads do not disturb each other, but on few pages. Nothing is taken out of the tree before the ledger is dropped.
//!
//! Invariant: who stores a word with [`insert`](Ledger::insert) has the block for itself: it was
//! taken from the free ones, and nobody else can take it before it is freed.

use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, Result};
use bytemuck::Zeroable;
use bytemuck::allocation::zeroed_box;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Addresses have at most this many bits.
const ADDRESS_BITS: u32 = 57;
const LEAF_BITS: u32 = 25;
const MIDDLE_BITS: u32 = 16;
const LEAF_WORDS: usize = 1 << (LEAF_BITS - DEFAULT_ALIGNMENT.ilog2());
/// Words that stay together, on one page of the host: those of 128 KiB of addresses.
const PAGE_WORDS: usize = 512;
/// Odd, and near the golden ratio of [`PAGE_WORDS`].
const SPREAD: usize = 319;
/// Its inverse: their product is 1 modulo [`PAGE_WORDS`].
const GATHER: usize = 191;
/// How far the words of a page begin behind those of the page before, so that blocks at the same place of
/// different pages are on different sets of the host's caches.
const SHIFT: usize = 8 * 39;
const BRANCHES: usize = 1 << MIDDLE_BITS;

/// A word of a block that was handed out and is back.
const FREED: u64 = 2;
const LIVE: u64 = 1;
/// Where the owner's note is: sizes need no more bits than are below.
const NOTE: u32 = 56;

#[derive(Zeroable)]
#[repr(transparent)]
struct Leaf([AtomicU64; LEAF_WORDS]);

#[derive(Zeroable)]
#[repr(transparent)]
struct Branch<T>([AtomicPtr<T>; BRANCHES]);

impl<T: Zeroable> Branch<T> {
    #[inline]
    fn get(&self, index: usize) -> Option<&T> {
        // Acquire: pairs with `get_or_make`, so that what is seen was zeroed before.
        let child = self.0[index].load(Ordering::Acquire);
        // SAFETY: null, or a box that was published by `get_or_make` and lives as long as this.
        unsafe { child.as_ref() }
    }

    fn get_or_make(&self, index: usize) -> &T {
        if let Some(child) = self.get(index) {
            return child;
        }
        let made = Box::into_raw(zeroed_box::<T>());
        // Release: who sees the child sees it zeroed. Acquire: so does who lost the race.
        let published = self.0[index].compare_exchange(
            ptr::null_mut(),
            made,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let child = match published {
            Ok(_) => made,
            Err(others) => {
                // SAFETY: just made, and nobody else has it.
                drop(unsafe { Box::from_raw(made) });
                others
            }
        };
        // SAFETY: a box that was published, and lives as long as this.
        unsafe { &*child }
    }

    fn children(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..BRANCHES).filter_map(|index| self.get(index).map(|child| (index, child)))
    }
}

/// Gives up the children of a branch.
fn release<T>(branch: &mut Branch<T>, mut each: impl FnMut(&mut T)) {
    for child in &mut branch.0 {
        let child = *child.get_mut();
        if !child.is_null() {
            // SAFETY: made by `get_or_make`, and nobody has it any more.
            let mut child = unsafe { Box::from_raw(child) };
            each(&mut child);
        }
    }
}

/// Where the word of a leaf's n-th possible block is. Blocks that are near each other, or apart by a
/// power of two, have words on different cache lines, but those that are near on the same page.
#[inline]
fn spread(index: usize) -> usize {
    let (page, word) = (index / PAGE_WORDS, index % PAGE_WORDS);
    page * PAGE_WORDS + (word * SPREAD + page * SHIFT) % PAGE_WORDS
}

/// Reverses [`spread`].
fn gather(place: usize) -> usize {
    let (page, word) = (place / PAGE_WORDS, place % PAGE_WORDS);
    let shifted = word + PAGE_WORDS * SHIFT - page * SHIFT;
    page * PAGE_WORDS + shifted * GATHER % PAGE_WORDS
}

fn word_of(bytes: u64, alignment: u64) -> u64 {
    bytes << 8 | u64::from(alignment.trailing_zeros()) << 2 | LIVE
}

fn read(word: u64) -> Option<(u64, u64)> {
    (word & LIVE != 0).then(|| (without_note(word) >> 8, 1 << (word >> 2 & 63)))
}

fn without_note(word: u64) -> u64 {
    word & ((1 << NOTE) - 1)
}

fn note_of(word: u64) -> u8 {
    word.to_be_bytes()[0]
}

/// The blocks that a resource has handed out.
pub(super) struct Ledger {
    resource: &'static str,
    root: Box<Branch<Branch<Leaf>>>,
}

impl Ledger {
    /// A ledger of no blocks, for a resource of this name.
    pub fn new(resource: &'static str) -> Self {
        Self {
            resource,
            root: zeroed_box(),
        }
    }

    /// The name of the resource.
    pub fn resource(&self) -> &'static str {
        self.resource
    }

    #[inline]
    fn place(address: u64) -> Option<(usize, usize, usize)> {
        let is_place = address >> ADDRESS_BITS == 0 && address.is_multiple_of(DEFAULT_ALIGNMENT);
        is_place.then_some((
            (address >> (LEAF_BITS + MIDDLE_BITS)) as usize,
            (address >> LEAF_BITS) as usize % BRANCHES,
            spread((address / DEFAULT_ALIGNMENT) as usize % LEAF_WORDS),
        ))
    }

    #[inline]
    fn word(&self, pointer: DevicePointer) -> Option<&AtomicU64> {
        let (root, middle, leaf) = Self::place(pointer.address())?;
        Some(&self.root.get(root)?.get(middle)?.0[leaf])
    }

    /// Writes down that a block is handed out.
    ///
    /// # Errors
    ///
    /// If no block of a device can be there.
    #[inline]
    pub fn insert(&self, pointer: DevicePointer, bytes: u64, alignment: u64) -> Result<()> {
        self.insert_noted(pointer, (bytes, alignment), 0)
    }

    /// The same, with what the resource wants to know when the block comes back.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert).
    #[inline]
    pub fn insert_noted(
        &self,
        pointer: DevicePointer,
        (bytes, alignment): (u64, u64),
        note: u8,
    ) -> Result<()> {
        let word = match self.word(pointer) {
            Some(word) => word,
            None => self.make_word(pointer)?,
        };
        // Relaxed: the block's owner gets the pointer from here and gives it on by its own means;
        // nothing else is read through the word.
        let noted = word_of(bytes, alignment) | u64::from(note) << NOTE;
        word.store(noted, Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    fn make_word(&self, pointer: DevicePointer) -> Result<&AtomicU64> {
        let (root, middle, leaf) =
            Self::place(pointer.address()).ok_or(Error::ForeignPointer(pointer, self.resource))?;
        Ok(&self.root.get_or_make(root).get_or_make(middle).0[leaf])
    }

    /// Takes note that a block is back. Only one of several that try succeeds.
    ///
    /// # Errors
    ///
    /// If it is not handed out, or with other bytes or another alignment.
    #[inline]
    pub fn remove(&self, pointer: DevicePointer, bytes: u64, alignment: u64) -> Result<()> {
        self.remove_noted(pointer, bytes, alignment).map(|_| ())
    }

    /// The same; the note with which it was handed out.
    ///
    /// # Errors
    ///
    /// As for [`remove`](Self::remove).
    #[inline]
    pub fn remove_noted(&self, pointer: DevicePointer, bytes: u64, alignment: u64) -> Result<u8> {
        let Some(word) = self.word(pointer) else {
            return Err(Error::ForeignPointer(pointer, self.resource));
        };
        let expected = word_of(bytes, alignment);
        // Relaxed, here and below: an exchange sees the newest word whatever its ordering, and the free
        // lists have locks of their own.
        let exchange =
            |from| word.compare_exchange(from, FREED, Ordering::Relaxed, Ordering::Relaxed);
        // Most have no note.
        let mut removed = exchange(expected);
        if let Err(found) = removed
            && without_note(found) == expected
        {
            removed = exchange(found);
        }
        match removed {
            Ok(word) => Ok(note_of(word)),
            Err(found) => Err(self.misuse(pointer, (bytes, alignment), found)),
        }
    }

    /// After a [removal](Self::remove_noted) whose block was refused with an error where it should have gone: takes note that
    /// it is handed out still. Not if the error says that it is gone, or another one is there by now. Whether it is handed
    /// out still.
    #[cold]
    pub fn restore(
        &self,
        pointer: DevicePointer,
        (bytes, alignment): (u64, u64),
        note: u8,
        error: &Error,
    ) -> bool {
        // By who knows the size, too: it was removed with this one, so the upstream has another block there.
        if error.is_of_a_block_that_is_gone() || matches!(error, Error::WrongSize { .. }) {
            return false;
        }
        let noted = word_of(bytes, alignment) | u64::from(note) << NOTE;
        // Relaxed: as in `insert_noted`.
        let restore = |word: &AtomicU64| {
            word.compare_exchange(FREED, noted, Ordering::Relaxed, Ordering::Relaxed)
        };
        self.word(pointer).is_some_and(|word| restore(word).is_ok())
    }

    #[cold]
    fn misuse(&self, pointer: DevicePointer, given: (u64, u64), found: u64) -> Error {
        match read(found) {
            Some(had) => Error::WrongSize {
                pointer,
                given,
                had,
            },
            None if found == FREED => Error::DoubleFree(pointer, self.resource),
            None => Error::ForeignPointer(pointer, self.resource),
        }
    }

    /// Calls for each block that is handed out, with its bytes and alignment.
    pub fn for_each(&self, mut each: impl FnMut(DevicePointer, u64, u64)) {
        self.for_each_noted(|pointer, (bytes, alignment), _| each(pointer, bytes, alignment));
    }

    /// The same, with its note.
    pub fn for_each_noted(&self, mut each: impl FnMut(DevicePointer, (u64, u64), u8)) {
        for (root, branch) in self.root.children() {
            for (middle, leaf) in branch.children() {
                let first = (root << MIDDLE_BITS | middle) << LEAF_BITS;
                for (index, word) in leaf.0.iter().enumerate() {
                    // Relaxed: a count while others allocate is of no moment in particular.
                    let word = word.load(Ordering::Relaxed);
                    let address = first as u64 + gather(index) as u64 * DEFAULT_ALIGNMENT;
                    if let (Some(given), Some(pointer)) = (read(word), DevicePointer::new(address))
                    {
                        each(pointer, given, note_of(word));
                    }
                }
            }
        }
    }

    /// How much is handed out.
    pub fn live(&self) -> Live {
        let mut live = Live::default();
        self.for_each(|_, bytes, _| {
            live.blocks += 1;
            live.bytes += bytes;
        });
        live
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ledger({})", self.resource)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        release(&mut self.root, |branch| release(branch, |_| ()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(address: u64) -> DevicePointer {
        DevicePointer::new(address).expect("not null")
    }

    #[test]
    fn a_block_is_taken_back_once_and_only_as_it_was_handed_out() {
        let ledger = Ledger::new("a test");
        let block = pointer(0x7f12_3456_7800);
        let foreign = ledger.remove(block, 512, 256);
        assert!(matches!(foreign, Err(Error::ForeignPointer(..))));
        ledger.insert(block, 512, 1024).expect("a place");
        let wrong = ledger.remove(block, 511, 1024).expect_err("other bytes");
        assert!(
            matches!(
                wrong,
                Error::WrongSize {
                    had: (512, 1024),
                    given: (511, 1024),
                    ..
                }
            ),
            "{wrong}"
        );
        let inner = ledger.remove(pointer(block.address() + 256), 256, 256);
        assert!(matches!(inner, Err(Error::ForeignPointer(..))));
        let live = ledger.live();
        assert_eq!((live.blocks, live.bytes), (1, 512));
        ledger.remove(block, 512, 1024).expect("handed out");
        let twice = ledger.remove(block, 512, 1024);
        assert!(matches!(twice, Err(Error::DoubleFree(..))));
        assert_eq!(ledger.live(), Live::default());
    }

    #[test]
    fn a_note_comes_back_with_the_block_and_is_no_part_of_its_size() {
        let ledger = Ledger::new("a test");
        let block = pointer(0x20_0000);
        let (bytes, alignment) = (1 << 47, 1 << 47);
        for note in [0, 1, u8::MAX] {
            let inserted = ledger.insert_noted(block, (bytes, alignment), note);
            inserted.expect("a place");
            assert_eq!(ledger.live().bytes, bytes);
            ledger.for_each_noted(|_, _, found| assert_eq!(found, note));
            let wrong = ledger.remove_noted(block, bytes - 1, alignment);
            let had = (bytes, alignment);
            assert!(matches!(wrong, Err(Error::WrongSize { had: found, .. }) if found == had));
            assert_eq!(
                ledger.remove_noted(block, bytes, alignment).ok(),
                Some(note)
            );
            let twice = ledger.remove_noted(block, bytes, alignment);
            assert!(matches!(twice, Err(Error::DoubleFree(..))));
        }
    }

    #[test]
    fn the_ends_of_what_addresses_there_can_be() {
        let ledger = Ledger::new("a test");
        for address in [256, (1 << ADDRESS_BITS) - 256, 1 << 41, 1 << 25] {
            ledger
                .insert(pointer(address), 1 << 47, 1 << 47)
                .expect("a place");
        }
        let mut found = Vec::new();
        ledger.for_each(|pointer, bytes, alignment| {
            assert_eq!((bytes, alignment), (1 << 47, 1 << 47));
            found.push(pointer.address());
        });
        assert_eq!(found, [256, 1 << 25, 1 << 41, (1 << ADDRESS_BITS) - 256]);
        for address in [1, 255, 257, 1 << ADDRESS_BITS, u64::MAX] {
            assert!(ledger.insert(pointer(address), 1, 256).is_err());
            assert!(ledger.remove(pointer(address), 1, 256).is_err());
        }
    }

    #[test]
    fn neighbours_are_on_different_cache_lines() {
        for index in 0..LEAF_WORDS {
            assert_eq!(gather(spread(index)), index);
        }
        for stride in (0..LEAF_WORDS.ilog2()).map(|power| 1 << power) {
            let blocks = 32.min(LEAF_WORDS / stride);
            let lines = (0..blocks).map(|block| spread(block * stride) / 8);
            let distinct: std::collections::BTreeSet<_> = lines.collect();
            assert_eq!(distinct.len(), blocks, "at a distance of {stride}");
        }
    }

    #[test]
    fn what_is_refused_is_handed_out_still() {
        let ledger = Ledger::new("a test");
        let block = pointer(0x10_0000);
        let (refused, gone) = (Error::ZeroBytes, Error::DoubleFree(block, "a test"));
        ledger.insert_noted(block, (1000, 256), 3).expect("a place");
        let remove = || ledger.remove_noted(block, 1000, 256);
        assert_eq!(remove().expect("handed out"), 3);
        assert!(ledger.restore(block, (1000, 256), 3, &refused));
        assert_eq!(remove().expect("handed out"), 3);
        assert!(!ledger.restore(block, (1000, 256), 3, &gone));
        assert!(matches!(remove(), Err(Error::DoubleFree(..))));
        // Another one got a block there.
        ledger.insert(block, 512, 256).expect("a place");
        assert!(!ledger.restore(block, (1000, 256), 3, &refused));
        ledger.remove(block, 512, 256).expect("handed out");
    }

    #[test]
    fn of_many_that_free_the_same_block_one_succeeds() {
        let ledger = Ledger::new("a test");
        let block = pointer(0x10_0000);
        for _ in 0..200 {
            ledger.insert(block, 256, 256).expect("a place");
            let freed: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| ledger.remove(block, 256, 256).is_ok()))
                    .collect();
                let freed = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"));
                freed.filter(|freed| *freed).count()
            });
            assert_eq!(freed, 1);
        }
    }
}
