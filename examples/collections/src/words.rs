//! Counts the words of a text in a hash table that grows in kernels.

use crate::kernels::words::{
    CHUNK, CollectArguments, CollectWords, CountArguments, CountWords, Row, Totals,
};
use crate::{filled, grid, zeroed};
use scatterheap::{Heap, Occupancy, Result};

/// Buckets of the table: chains are short as long as there are not many more different words.
const BUCKETS: usize = 1 << 16;

/// What came of a text.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Words in lower case and how often they occur, the most frequent first.
    pub words: Vec<(String, u32)>,
    /// The heap with the whole table in it.
    pub occupancy: Occupancy,
    /// How long the kernels took that counted and that emptied the table, in seconds.
    pub seconds: [f64; 2],
}

/// Counts the words of a text.
///
/// # Errors
///
/// If another heap is global, there is no memory, or the device fails.
pub fn count(heap: &Heap, text: &[u8]) -> Result<Counted> {
    let device = heap.device();
    let _global = heap.make_global()?;
    let (text_memory, buckets) = (filled(device, text)?, zeroed::<u64>(device, BUCKETS)?);
    let totals = zeroed::<Totals>(device, 1)?;
    let arguments = CountArguments {
        text: text_memory.address(),
        bytes: text.len() as u64,
        buckets: buckets.address(),
        mask: BUCKETS as u64 - 1,
        totals: totals.address(),
    };
    let chunks = text.len().div_ceil(usize::try_from(CHUNK).unwrap_or(1));
    // SAFETY: all of it lives until the launch has ended.
    let counting = unsafe { device.time::<CountWords>(grid(chunks), &arguments)? };
    let occupancy = heap.snapshot()?.occupancy();

    let found: Vec<u64> = totals.read(0, 2)?;
    let [words, bytes] = [found[0], found[1]].map(|total| usize::try_from(total).unwrap_or(0));
    let (rows, letters) = (zeroed::<Row>(device, words)?, zeroed::<u8>(device, bytes)?);
    totals.clear()?;
    let arguments = CollectArguments {
        buckets: buckets.address(),
        count: BUCKETS as u64,
        totals: totals.address(),
        rows: rows.address(),
        bytes: letters.address(),
    };
    // SAFETY: as above; there is room for what was counted.
    let collecting = unsafe { device.time::<CollectWords>(grid(BUCKETS), &arguments)? };
    Ok(Counted {
        words: sorted(&rows.read(0, words)?, &letters.read(0, bytes)?),
        occupancy,
        seconds: [counting, collecting],
    })
}

/// Words and their counts, the most frequent first, and alphabetical among those.
fn sorted(rows: &[Row], letters: &[u8]) -> Vec<(String, u32)> {
    let words = rows.iter().map(|row| {
        let word = &letters[row.begin as usize..][..row.length as usize];
        (String::from_utf8_lossy(word).into_owned(), row.count)
    });
    let mut words: Vec<_> = words.collect();
    words.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    words
}
