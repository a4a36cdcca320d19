//! A hash table with chained buckets that all threads insert into at once: counts the words of a text.
//!
//! A bucket is the address of its first entry. An entry owns its word, and never changes but for its
//! count; new entries come in front, by compare-and-exchange. So a chain that was searched in vain needs
//! to be searched again only up to where it began then. Nobody waits.

use crate::places::{element, elements, own_index, place};
use alloc::boxed::Box;
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::kernel;

/// Bytes of the text in whose words a thread is interested: those that begin there.
pub const CHUNK: u64 = 256;

/// Entries and bytes of words in the table, then in what was collected.
#[repr(C)]
pub struct Totals {
    /// Different words.
    pub words: DeviceAtomicU64,
    /// Bytes of different words.
    pub bytes: DeviceAtomicU64,
}

/// A word in a bucket.
struct Entry {
    /// Address of the next, or 0.
    next: u64,
    hash: u64,
    word: Box<[u8]>,
    count: DeviceAtomicU32,
}

/// What is known of a word.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Row {
    /// Where it begins in the bytes of all words.
    pub begin: u32,
    /// Its bytes.
    pub length: u32,
    /// How often it occurs.
    pub count: u32,
}

/// Arguments of [`CountWords`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CountArguments {
    /// Address of the text.
    pub text: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Address of the buckets, 8 bytes each, zero at first.
    pub buckets: u64,
    /// Number of buckets less one; a power of two less one.
    pub mask: u64,
    /// Address of [`Totals`], zero at first.
    pub totals: u64,
}

/// Whether a byte is of a word: letters and digits of ASCII, and whatever is not ASCII.
#[must_use]
pub fn is_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// The hash of a word in lower case (Fowler, Noll and Vo's, 1a).
fn hash(word: &[u8]) -> u64 {
    word.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    })
}

impl CountArguments {
    /// Counts a word.
    ///
    /// # Safety
    ///
    /// The table must be as said.
    unsafe fn count(&self, word: &[u8]) {
        let hash = hash(word);
        // The upper bits are the better ones.
        let bucket = (hash >> 20 & self.mask) as usize;
        // SAFETY: there are as many buckets, whose entries stay; an entry is whole before it is in a chain.
        unsafe {
            let head: &DeviceAtomicU64 = element(self.buckets, bucket);
            let (mut searched, mut fresh) = (0, None);
            loop {
                // Acquire: pairs with the exchange by which others insert.
                let first = head.load(Ordering::Acquire);
                if let Some(entry) = find(first, searched, hash, word) {
                    // Relaxed: counts are read by a later launch.
                    entry.count.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                searched = first;
                let mut entry = fresh
                    .take()
                    .unwrap_or_else(|| Box::new(Entry::new(hash, word)));
                entry.next = first;
                let entry = Box::into_raw(entry);
                // Release: who finds the entry sees what is in it. Relaxed: a failure is followed by a load.
                let inserted = head.compare_exchange(
                    first,
                    entry as u64,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if inserted.is_ok() {
                    break;
                }
                fresh = Some(Box::from_raw(entry));
            }
            let totals: &Totals = element(self.totals, 0);
            // Relaxed: read by the host after the launch.
            totals.words.fetch_add(1, Ordering::Relaxed);
            totals.bytes.fetch_add(word.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Entry {
    /// A word that was seen once.
    fn new(hash: u64, word: &[u8]) -> Self {
        Self {
            next: 0,
            hash,
            word: word.iter().map(u8::to_ascii_lowercase).collect(),
            count: DeviceAtomicU32::new(1),
        }
    }
}

/// The entry of a word in a chain from its first entry up to the entry `end`.
///
/// # Safety
///
/// The entries must be there.
unsafe fn find<'a>(first: u64, end: u64, hash: u64, word: &[u8]) -> Option<&'a Entry> {
    let mut at = first;
    while at != end {
        // SAFETY: as the caller promises.
        let entry = unsafe { &*(at as *const Entry) };
        if entry.hash == hash && entry.word.eq_ignore_ascii_case(word) {
            return Some(entry);
        }
        at = entry.next;
    }
    None
}

kernel! {
    /// Every thread counts the words that begin in its chunk of the text.
    pub struct CountWords = "example_count_words";
    fn body(arguments: &CountArguments) {
        let Some(index) = own_index(arguments.bytes.div_ceil(CHUNK)) else { return };
        let begin = index * CHUNK as usize;
        let end = (begin + CHUNK as usize).min(arguments.bytes as usize);
        // SAFETY: the host gave the text.
        let text: &[u8] = unsafe { elements(arguments.text, 0, arguments.bytes as usize) };
        let mut at = begin;
        // The word that goes on from the last chunk is that thread's.
        while at > 0 && at < end && is_of_word(&text[at - 1]) {
            at += 1;
        }
        while at < end {
            let rest = &text[at..];
            let length = rest.iter().position(|byte| !is_of_word(byte)).unwrap_or(rest.len());
            if length > 0 {
                // SAFETY: the host gave the table.
                unsafe { arguments.count(&rest[..length]) };
            }
            at += length + 1;
        }
    }
}

/// Arguments of [`CollectWords`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CollectArguments {
    /// Address of the buckets.
    pub buckets: u64,
    /// Number of buckets.
    pub count: u64,
    /// Address of [`Totals`] of what is collected, zero at first.
    pub totals: u64,
    /// Address of a [`Row`] for each word.
    pub rows: u64,
    /// Address of room for the bytes of all words.
    pub bytes: u64,
}

kernel! {
    /// Every thread empties its bucket: writes what is in it, and drops it.
    pub struct CollectWords = "example_collect_words";
    fn body(arguments: &CollectArguments) {
        let Some(index) = own_index(arguments.count) else { return };
        // SAFETY: the host gave room for all; entries were made by `CountWords`, and each is in one bucket.
        unsafe {
            let bucket: *mut u64 = place(arguments.buckets, index);
            let totals: &Totals = element(arguments.totals, 0);
            let mut at = bucket.replace(0);
            while at != 0 {
                let entry = Box::from_raw(at as *mut Entry);
                let length = entry.word.len();
                // Relaxed: only deals places out.
                let row = totals.words.fetch_add(1, Ordering::Relaxed) as usize;
                let begin = totals.bytes.fetch_add(length as u64, Ordering::Relaxed) as usize;
                for (byte, letter) in entry.word.iter().enumerate() {
                    place::<u8>(arguments.bytes, begin + byte).write(*letter);
                }
                place::<Row>(arguments.rows, row).write(Row {
                    begin: begin as u32,
                    length: length as u32,
                    // Relaxed: written by an earlier launch.
                    count: entry.count.load(Ordering::Relaxed),
                });
                at = entry.next;
            }
        }
    }
}
