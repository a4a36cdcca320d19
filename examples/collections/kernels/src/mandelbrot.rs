//! A picture of the Mandelbrot set by recursive subdivision (Mariani and Silver): a tile whose border is all of one
//! colour is of that colour; any other is cut into four, which are new work.

use crate::places::{element, place};
use crate::queue::{Queue, Tile, work_off};
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::kernel;

/// Tiles that are narrower or lower than this are not cut.
const LEAST: u16 = 8;

/// What the picture shows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct View {
    /// Real part of the first pixel.
    pub left: f64,
    /// Imaginary part of the first pixel.
    pub top: f64,
    /// From a pixel to the next.
    pub step: f64,
    /// Pixels from left to right.
    pub width: u32,
    /// Steps after which a point is taken to be in the set.
    pub most: u32,
}

impl View {
    /// After how many steps the point of a pixel leaves the circle of radius 2.
    #[must_use]
    pub fn steps(&self, x: u16, y: u16) -> u16 {
        let real = self.left + f64::from(x) * self.step;
        let imaginary = self.top + f64::from(y) * self.step;
        let (mut at_real, mut at_imaginary, mut steps) = (0.0_f64, 0.0_f64, 0);
        while steps < self.most && at_real * at_real + at_imaginary * at_imaginary <= 4.0 {
            let next = at_real * at_real - at_imaginary * at_imaginary + real;
            at_imaginary = 2.0 * at_real * at_imaginary + imaginary;
            at_real = next;
            steps += 1;
        }
        steps as u16
    }
}

/// Whether a pixel of a tile is at its border.
fn is_at_border(tile: Tile, x: u16, y: u16) -> bool {
    x == 0 || y == 0 || x + 1 == tile.width || y + 1 == tile.height
}

/// Draws what must be drawn of a tile, and gives the parts that are left. `draw` is given a pixel and its steps; it is
/// counted how many were computed.
pub fn subdivide(
    view: &View,
    tile: Tile,
    computed: &mut u64,
    mut draw: impl FnMut(u16, u16, u16),
) -> Option<[Tile; 4]> {
    let first = view.steps(tile.x, tile.y);
    let mut is_uniform = true;
    for (x, y) in pixels(tile) {
        if is_at_border(tile, x, y) {
            let steps = view.steps(tile.x + x, tile.y + y);
            *computed += 1;
            is_uniform &= steps == first;
            draw(tile.x + x, tile.y + y, steps);
        }
    }
    if !is_uniform && tile.width.min(tile.height) > LEAST {
        return Some(quarters(tile));
    }
    for (x, y) in pixels(tile) {
        if !is_at_border(tile, x, y) {
            let steps = if is_uniform {
                first
            } else {
                *computed += 1;
                view.steps(tile.x + x, tile.y + y)
            };
            draw(tile.x + x, tile.y + y, steps);
        }
    }
    None
}

fn pixels(tile: Tile) -> impl Iterator<Item = (u16, u16)> {
    (0..tile.height).flat_map(move |y| (0..tile.width).map(move |x| (x, y)))
}

fn quarters(tile: Tile) -> [Tile; 4] {
    let (width, height) = (tile.width / 2, tile.height / 2);
    [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, lower)| Tile {
        x: tile.x + right * width,
        y: tile.y + lower * height,
        width: if right == 1 {
            tile.width - width
        } else {
            width
        },
        height: if lower == 1 {
            tile.height - height
        } else {
            height
        },
    })
}

/// Arguments of [`Draw`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DrawArguments {
    /// What is drawn.
    pub view: View,
    /// Address of the pixels, 2 bytes each.
    pub pixels: u64,
    /// Address of the [`Queue`] that takes new tiles.
    pub queue: u64,
    /// Address of the list of the blocks that are worked off.
    pub list: u64,
    /// Number of these blocks.
    pub blocks: u64,
    /// Address of a number of 8 bytes, to which it is added how many pixels were computed.
    pub computed: u64,
}

kernel! {
    /// Every thread draws a tile, or cuts it into four, which go into the queue.
    pub struct Draw = "example_mandelbrot_draw";
    fn body(arguments: &DrawArguments) {
        let width = arguments.view.width as usize;
        // SAFETY: the host gave the list, the queue, and room for the picture; tiles lie in it.
        unsafe {
            work_off(arguments.list, arguments.blocks, |tile| {
                let mut computed = 0;
                let parts = subdivide(&arguments.view, tile, &mut computed, |x, y, steps| {
                    // A neighbour tile may draw the same pixel again, with the same steps.
                    place::<u16>(arguments.pixels, usize::from(y) * width + usize::from(x)).write(steps);
                });
                let queue: &Queue = element(arguments.queue, 0);
                for part in parts.into_iter().flatten() {
                    queue.push(part);
                }
                let total: &DeviceAtomicU64 = element(arguments.computed, 0);
                // Relaxed: read by the host after the launch.
                total.fetch_add(computed, Ordering::Relaxed);
            });
        }
    }
}
