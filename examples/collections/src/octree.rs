//! Builds an octree over a cloud of points, finds every point's neighbours, and takes the tree down.

use crate::kernels::octree::{
    DEPTH, DIVIDED, Fell, FellArguments, Found, Plant, Point, RETIRED, Search, SearchArguments,
    Sweep, Tree,
};
use crate::kernels::random::Random;
use crate::{filled, grid, zeroed};
use scatterheap::{Heap, Occupancy, Result};

/// What a level of the tree had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Branches.
    pub branches: u64,
    /// Leaves.
    pub leaves: u64,
    /// Points in the leaves.
    pub points: u64,
}

/// What came of a cloud.
#[derive(Clone, Debug)]
pub struct Searched {
    /// What was found for each point.
    pub found: Vec<Found>,
    /// The levels of the tree, from the whole to the smallest cubes.
    pub levels: Vec<Level>,
    /// Seconds that it took to build the tree, to search it, and to free it.
    pub seconds: [f64; 3],
    /// The heap with the tree alone in it.
    pub occupancy: Occupancy,
}

/// A cloud of clusters.
#[must_use]
pub fn cloud(count: usize, seed: u64) -> Vec<Point> {
    let mut random = Random::new(seed);
    let space = 1_usize << DEPTH;
    let centres: Vec<[usize; 3]> = (0..40)
        .map(|_| [(); 3].map(|()| random.below(space)))
        .collect();
    let points = (0..count).map(|_| {
        let centre = centres[random.below(centres.len())];
        // A sum of several looks like a bell.
        let mut shift = || (0..4).map(|_| random.below(space / 32)).sum::<usize>();
        let axis = |centre: usize| (centre + shift()).saturating_sub(space / 16).min(space - 1);
        Point(centre.map(axis).map(|at| u32::try_from(at).unwrap_or(0)))
    });
    points.collect()
}

/// Finds every point's nearest other point, and how many lie within the radius. Coordinates must be below `2^DEPTH`.
///
/// # Errors
///
/// If another heap is global, there is no memory, or the device fails.
pub fn search(heap: &Heap, points: &[Point], radius: u64) -> Result<Searched> {
    let device = heap.device();
    let _global = heap.make_global()?;
    let (cloud, root) = (filled(device, points)?, zeroed::<u64>(device, 1)?);
    let lists = usize::try_from(RETIRED).unwrap_or(0);
    let retired = zeroed::<u64>(device, lists)?;
    let tree = Tree {
        points: cloud.address(),
        count: points.len() as u64,
        root: root.address(),
        retired: retired.address(),
    };
    let found = zeroed::<Found>(device, points.len())?;
    let searching = SearchArguments {
        tree,
        radius,
        found: found.address(),
    };
    let levels = zeroed::<[u64; 3]>(device, DEPTH as usize + 1)?;
    let felling = |divided: u32| FellArguments {
        tree,
        levels: levels.address(),
        divided: u64::from(divided),
    };
    let each = grid(points.len());
    // SAFETY: all of it lives until the launches have ended, and each is what the next one needs.
    let (seconds, occupancy) = unsafe {
        let building =
            device.time::<Plant>(each, &tree)? + device.time::<Sweep>(grid(lists), &tree)?;
        let occupancy = heap.snapshot()?.occupancy();
        let searching = device.time::<Search>(each, &searching)?;
        let felling = device.time::<Fell>(grid(1 << (3 * DIVIDED)), &felling(DIVIDED))?
            + device.time::<Fell>(grid(1), &felling(0))?;
        ([building, searching, felling], occupancy)
    };
    let levels: Vec<[u64; 3]> = levels.read(0, DEPTH as usize + 1)?;
    let level = |[branches, leaves, points]: [u64; 3]| Level {
        branches,
        leaves,
        points,
    };
    Ok(Searched {
        found: found.read(0, points.len())?,
        levels: levels.into_iter().map(level).collect(),
        seconds,
        occupancy,
    })
}

/// What is to be found for a point, by looking at all others.
#[must_use]
pub fn reference(points: &[Point], index: usize, radius: u64) -> Found {
    let mut found = Found {
        distance: u64::MAX,
        nearest: u32::MAX,
        within: 0,
    };
    for (other, number) in points.iter().zip(0..) {
        if number as usize != index {
            found.see(number, other.distance(points[index]), radius.pow(2));
        }
    }
    found
}
