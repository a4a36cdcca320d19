//! Draws the Mandelbrot set, round after round: kernels generate the work of the next round themselves.

use crate::kernels::mandelbrot::{Draw, DrawArguments, View};
use crate::kernels::queue::{Fill, ITEMS, List, Listed, Queue, QueueArguments, Tile};
use crate::{filled, grid, zeroed};
use scatterheap::{Heap, Result};

/// A round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Tiles that were drawn or cut.
    pub tiles: u64,
    /// Blocks of the queue that they were in.
    pub blocks: u64,
    /// Pixels whose points were followed.
    pub computed: u64,
    /// Seconds of the kernel that did it.
    pub seconds: f64,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Steps of each pixel, row by row.
    pub steps: Vec<u16>,
    /// How it was drawn.
    pub rounds: Vec<Round>,
}

/// The tiles that a picture begins with.
#[must_use]
pub fn first_tiles(view: &View, height: u32, side: u16) -> Vec<Tile> {
    let small = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
    let (width, height) = (small(view.width), small(height));
    let cuts = |length: u16| (0..length).step_by(usize::from(side));
    let tiles = cuts(height).flat_map(|y| cuts(width).map(move |x| (x, y)));
    let tiles = tiles.map(|(x, y)| Tile {
        x,
        y,
        width: side.min(width - x),
        height: side.min(height - y),
    });
    tiles.collect()
}

/// Draws a picture of `height` rows, beginning with these tiles. Both its sides have fewer than 2^16 pixels.
///
/// # Errors
///
/// If another heap is global, there is no memory, or the device fails.
pub fn draw(heap: &Heap, view: View, height: u32, tiles: &[Tile]) -> Result<Picture> {
    let device = heap.device();
    let global = heap.make_global()?;
    let size = view.width as usize * height as usize;
    let pixels = zeroed::<u16>(device, size)?;
    let (queue, totals) = (zeroed::<Queue>(device, 1)?, zeroed::<u64>(device, 2)?);
    let first = filled(device, tiles)?;
    let mut arguments = QueueArguments {
        queue: queue.address(),
        places: first.address(),
        count: tiles.len() as u64,
        items: totals.address(),
    };
    // SAFETY: all of it lives until the launch has ended.
    unsafe { global.launch::<Fill>(grid(tiles.len()), &arguments)? };
    let mut rounds = Vec::new();
    loop {
        let blocks: u64 = queue.read::<u64>(8, 1)?[0];
        if blocks == 0 {
            break;
        }
        let count = usize::try_from(blocks).unwrap_or(usize::MAX);
        let list = zeroed::<Listed>(device, count)?;
        arguments.places = list.address();
        totals.clear()?;
        // SAFETY: as above; there is a place for each block.
        unsafe { global.launch::<List>(grid(1), &arguments)? };
        let drawing = DrawArguments {
            view,
            pixels: pixels.address(),
            queue: queue.address(),
            list: list.address(),
            blocks,
            computed: totals.address() + 8,
        };
        // SAFETY: as above; the list was just made.
        let seconds = unsafe { device.time::<Draw>(grid(count * ITEMS), &drawing)? };
        let totals: Vec<u64> = totals.read(0, 2)?;
        rounds.push(Round {
            tiles: totals[0],
            blocks,
            computed: totals[1],
            seconds,
        });
    }
    Ok(Picture {
        steps: pixels.read(0, size)?,
        rounds,
    })
}
