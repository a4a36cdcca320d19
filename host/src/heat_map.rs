//! The heap as a map of cells: each stands for the same number of pages side by side, and knows
//! what they are mostly used for and how full they are.

use heap_core::class::slot_bytes;
use heap_core::inspect::PageUse;
use serde::Serialize;
use std::collections::BTreeMap;

/// Pages that belong to one cell of the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Number of the first page.
    pub first_page: usize,
    /// Free pages.
    pub free: u32,
    /// Pages of slabs.
    pub in_slabs: u32,
    /// Pages of runs.
    pub in_runs: u32,
    /// None of these.
    pub lost: u32,
    /// Share of the cell's bytes that is handed out, 0 to 1.
    pub used: f64,
    /// Size class that most of its slab pages belong to.
    pub class: Option<u32>,
    /// Slot size of that class in bytes.
    pub slot_bytes: Option<u32>,
}

/// The pages of a heap in cells, in the order of their addresses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatMap {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of each cell, a power of two; the last cell may have fewer.
    pub pages_per_cell: usize,
    /// The cells.
    pub cells: Vec<Cell>,
}

impl HeatMap {
    /// A map of at most `most_cells` cells.
    #[must_use]
    pub fn new(pages: &[PageUse], page_bytes: u64, most_cells: usize) -> Self {
        let pages_per_cell = pages.len().div_ceil(most_cells.max(1)).next_power_of_two();
        let cells = pages.chunks(pages_per_cell).enumerate();
        Self {
            page_bytes,
            pages_per_cell,
            cells: cells
                .map(|(index, pages)| Cell::of(index * pages_per_cell, pages))
                .collect(),
        }
    }

    /// Bytes of each cell.
    #[must_use]
    pub fn cell_bytes(&self) -> u64 {
        self.page_bytes * self.pages_per_cell as u64
    }
}

impl Cell {
    fn of(first_page: usize, pages: &[PageUse]) -> Self {
        let mut cell = Self {
            first_page,
            ..Self::default()
        };
        let mut classes = BTreeMap::<u32, u32>::new();
        let mut used_pages = 0.0;
        for page in pages {
            match *page {
                PageUse::Free => cell.free += 1,
                PageUse::Slab { class, used } => {
                    cell.in_slabs += 1;
                    used_pages += used;
                    *classes.entry(class).or_default() += 1;
                }
                PageUse::Run { .. } => {
                    cell.in_runs += 1;
                    used_pages += 1.0;
                }
                PageUse::Lost => cell.lost += 1,
            }
        }
        #[allow(
            clippy::cast_precision_loss,
            reason = "a heap has fewer than 2^52 pages"
        )]
        let count = pages.len() as f64;
        cell.used = used_pages / count;
        let most = classes.into_iter().max_by_key(|(_, pages)| *pages);
        cell.class = most.map(|(class, _)| class);
        cell.slot_bytes = cell.class.map(slot_bytes);
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(class: u32, used: f64) -> PageUse {
        PageUse::Slab { class, used }
    }

    #[test]
    fn a_cell_sums_its_pages_up() {
        let pages = [
            slab(3, 0.5),
            slab(3, 0.5),
            slab(7, 1.0),
            PageUse::Run { head: 3 },
        ];
        let map = HeatMap::new(&pages, 1024, 1);
        let [cell] = map.cells[..] else {
            panic!("{map:?}")
        };
        assert_eq!((cell.in_slabs, cell.in_runs, cell.free), (3, 1, 0));
        assert_eq!((cell.class, cell.slot_bytes), (Some(3), Some(64)));
        assert!((cell.used - 0.75).abs() < 1e-9);
    }

    #[test]
    fn every_page_is_in_one_cell() {
        for count in 1..100 {
            for most_cells in 1..20 {
                let map = HeatMap::new(&vec![PageUse::Free; count], 1024, most_cells);
                assert!(map.cells.len() <= most_cells);
                let free: u32 = map.cells.iter().map(|cell| cell.free).sum();
                assert_eq!(free as usize, count);
            }
        }
    }

    #[test]
    fn no_pages_make_no_cells() {
        assert!(HeatMap::new(&[], 1024, 10).cells.is_empty());
    }
}
