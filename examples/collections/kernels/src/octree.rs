//! An octree that all threads build at once, each by inserting its point, and then search.
//!
//! A *slot* is a word: 0, the address of a branch with eight slots, or the address of a leaf plus 1. Leaves never
//! change: a thread that adds a point to one puts another leaf, or a branch, into the slot, by
//! compare-and-exchange. What was replaced may still be read by others, so it is *retired*: freed by a later launch.
//! So no address comes again in a slot, and nobody waits.

use crate::places::{element, own_index, place};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::kernel;

/// Coordinates are below `2^DEPTH`, and no branch is deeper.
pub const DEPTH: u32 = 20;
/// Points of a leaf at most, above the greatest depth.
const POINTS: usize = 16;
/// Lists of retired leaves; threads take turns.
pub const RETIRED: u64 = 1024;
/// Levels by which the threads of [`Fell`] divide the tree among each other.
pub const DIVIDED: u32 = 4;

/// A point in space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Point(pub [u32; 3]);

impl Point {
    /// Which eighth of its cube it is in, `depth` levels below the whole.
    fn octant(self, depth: u32) -> usize {
        let bit = |axis: usize| (self.0[axis] >> (DEPTH - 1 - depth) & 1) as usize;
        bit(0) | bit(1) << 1 | bit(2) << 2
    }

    /// The square of the distance to another.
    #[must_use]
    pub fn distance(self, other: Self) -> u64 {
        let axes = self.0.iter().zip(other.0);
        axes.map(|(one, other)| u64::from(one.abs_diff(other)).pow(2))
            .sum()
    }
}

/// Points in a cube.
struct Leaf {
    points: Vec<u32>,
    /// The next that was retired. Atomic, since others may read the leaf when it is set.
    next: DeviceAtomicU64,
}

/// The eighths of a cube.
struct Branch([DeviceAtomicU64; 8]);

/// What is in a slot.
enum Node<'a> {
    Empty,
    Leaf(&'a Leaf),
    Branch(&'a Branch),
}

/// A tree.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Tree {
    /// Address of the points.
    pub points: u64,
    /// Number of them.
    pub count: u64,
    /// Address of the slot of the whole, 0 at first.
    pub root: u64,
    /// Address of [`RETIRED`] lists, 0 at first.
    pub retired: u64,
}

/// The word of a leaf.
fn leaf_word(points: Vec<u32>) -> u64 {
    let next = DeviceAtomicU64::new(0);
    Box::into_raw(Box::new(Leaf { points, next })) as u64 | 1
}

/// What a word stands for.
///
/// # Safety
///
/// It must be the word of a slot, and what it stands for must be there.
unsafe fn node<'a>(word: u64) -> Node<'a> {
    // SAFETY: as the caller promises.
    unsafe {
        match (word, word & 1) {
            (0, _) => Node::Empty,
            (_, 1) => Node::Leaf(&*((word - 1) as *const Leaf)),
            _ => Node::Branch(&*(word as *const Branch)),
        }
    }
}

impl Tree {
    /// A point.
    ///
    /// # Safety
    ///
    /// It must be there.
    unsafe fn point(&self, index: u32) -> Point {
        // SAFETY: as the caller promises.
        unsafe { *element(self.points, index as usize) }
    }

    /// Inserts a point.
    ///
    /// # Safety
    ///
    /// The tree must be as said, and each point be inserted once.
    unsafe fn insert(&self, index: u32) {
        // SAFETY: as the caller promises; nodes stay while the launch runs.
        unsafe {
            let point = self.point(index);
            let mut slot: &DeviceAtomicU64 = element(self.root, 0);
            let mut depth = 0;
            loop {
                // Acquire: pairs with the exchange, so that the node is seen as it was made.
                let word = slot.load(Ordering::Acquire);
                match node(word) {
                    Node::Branch(branch) => {
                        slot = &branch.0[point.octant(depth)];
                        depth += 1;
                    }
                    Node::Leaf(leaf) if leaf.points.len() >= POINTS && depth < DEPTH => {
                        self.replace(slot, word, self.split(leaf, depth));
                    }
                    old => {
                        let mut points = match old {
                            Node::Leaf(leaf) => with_room(&leaf.points),
                            _ => Vec::with_capacity(1),
                        };
                        points.push(index);
                        if self.replace(slot, word, leaf_word(points)) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// A branch with a leaf's points in its eighths.
    ///
    /// # Safety
    ///
    /// The points must be there.
    unsafe fn split(&self, leaf: &Leaf, depth: u32) -> u64 {
        let mut parts = [const { Vec::new() }; 8];
        for index in &leaf.points {
            // SAFETY: as the caller promises.
            let octant = unsafe { self.point(*index) }.octant(depth);
            parts[octant].push(*index);
        }
        let slots = parts.map(|points| {
            let word = if points.is_empty() {
                0
            } else {
                leaf_word(points)
            };
            DeviceAtomicU64::new(word)
        });
        Box::into_raw(Box::new(Branch(slots))) as u64
    }

    /// Puts a new node into a slot in place of what was there, and retires that; or drops the new one if somebody else
    /// was first.
    ///
    /// # Safety
    ///
    /// The new node must be known to nobody else.
    unsafe fn replace(&self, slot: &DeviceAtomicU64, old: u64, new: u64) -> bool {
        // Release: who finds the node sees what is in it. Relaxed: a failure is followed by a load.
        let replaced = slot.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
        // SAFETY: the caller's new node is nobody else's; the old one is out of the tree.
        unsafe {
            if replaced.is_err() {
                free(new, 0, &mut |_, _, _| ());
                return false;
            }
            if let Node::Leaf(leaf) = node(old) {
                let list = simt::thread::index_1d() as usize % RETIRED as usize;
                let first: &DeviceAtomicU64 = element(self.retired, list);
                // Relaxed, both: the list is read by a later launch.
                let next = first.swap(old, Ordering::Relaxed);
                leaf.next.store(next, Ordering::Relaxed);
            }
        }
        true
    }
}

/// A copy with room for one more.
fn with_room(points: &[u32]) -> Vec<u32> {
    let mut copy = Vec::with_capacity(points.len() + 1);
    // Not `extend_from_slice`, which on a GPU copies byte by byte.
    copy.extend(points.iter().copied());
    copy
}

/// Frees a node and all below it, and tells of each: its depth, whether it is a branch, and its points.
///
/// # Safety
///
/// Nobody else may use them.
unsafe fn free(word: u64, depth: u32, tell: &mut impl FnMut(u32, bool, usize)) {
    let mut waiting = Vec::with_capacity(8);
    waiting.push((word, depth));
    while let Some((word, depth)) = waiting.pop() {
        if word & 1 == 1 {
            // SAFETY: as the caller promises.
            let leaf = unsafe { Box::from_raw((word - 1) as *mut Leaf) };
            tell(depth, false, leaf.points.len());
        } else if word != 0 {
            // SAFETY: as the caller promises.
            let branch = unsafe { Box::from_raw(word as *mut Branch) };
            // Relaxed: nobody changes it any more.
            let slots = branch.0.iter().map(|slot| slot.load(Ordering::Relaxed));
            waiting.extend(
                slots
                    .filter(|word| *word != 0)
                    .map(|word| (word, depth + 1)),
            );
            tell(depth, true, 0);
        }
    }
}

kernel! {
    /// Every thread inserts its point.
    pub struct Plant = "example_octree_plant";
    fn body(tree: &Tree) {
        if let Some(index) = own_index(tree.count) {
            // SAFETY: the host gave the points and an empty tree.
            unsafe { tree.insert(index as u32) };
        }
    }
}

kernel! {
    /// Every thread frees the leaves of a list that were replaced.
    pub struct Sweep = "example_octree_sweep";
    fn body(tree: &Tree) {
        let Some(list) = own_index(RETIRED) else { return };
        // SAFETY: retired leaves are in one list each, and nobody reads them any more.
        unsafe {
            let first: *mut u64 = place(tree.retired, list);
            let mut at = first.replace(0);
            while at != 0 {
                let leaf = Box::from_raw((at - 1) as *mut Leaf);
                // Relaxed: set by an earlier launch.
                at = leaf.next.load(Ordering::Relaxed);
            }
        }
    }
}

/// What a thread finds for its point.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Found {
    /// The square of the distance to the nearest other point; all ones if there is none.
    pub distance: u64,
    /// That point; the first if there are several.
    pub nearest: u32,
    /// Other points within the radius.
    pub within: u32,
}

/// Arguments of [`Search`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SearchArguments {
    /// The tree.
    pub tree: Tree,
    /// The radius of a point's neighbourhood.
    pub radius: u64,
    /// Address of a [`Found`] for each point.
    pub found: u64,
}

/// A cube that is to be looked at.
struct Cube {
    word: u64,
    corner: Point,
    depth: u32,
}

impl Cube {
    /// The square of the distance of a point to it.
    fn distance(&self, point: Point) -> u64 {
        let side = 1_u32 << (DEPTH - self.depth);
        let axes = self.corner.0.iter().zip(point.0);
        let apart = axes.map(|(corner, at)| {
            corner
                .saturating_sub(at)
                .max((at + 1).saturating_sub(corner + side))
        });
        apart.map(|apart| u64::from(apart).pow(2)).sum()
    }

    /// One of its eighths.
    fn eighth(&self, octant: usize, word: u64) -> Self {
        let half = 1_u32 << (DEPTH - 1 - self.depth);
        let shift = |axis: usize| self.corner.0[axis] + half * (octant >> axis & 1) as u32;
        Self {
            word,
            corner: Point([shift(0), shift(1), shift(2)]),
            depth: self.depth + 1,
        }
    }
}

impl SearchArguments {
    /// Looks for the neighbours of a point.
    ///
    /// # Safety
    ///
    /// The tree must be complete.
    unsafe fn find(&self, own: u32) -> Found {
        let mut found = Found {
            distance: u64::MAX,
            nearest: u32::MAX,
            within: 0,
        };
        let limit = self.radius.pow(2);
        // SAFETY: as the caller promises. Relaxed: nobody changes the tree.
        unsafe {
            let point = self.tree.point(own);
            let root: &DeviceAtomicU64 = element(self.tree.root, 0);
            let mut waiting = Vec::with_capacity(32);
            waiting.push(Cube {
                word: root.load(Ordering::Relaxed),
                corner: Point::default(),
                depth: 0,
            });
            while let Some(cube) = waiting.pop() {
                if cube.distance(point) > found.distance.max(limit) {
                    continue;
                }
                match node(cube.word) {
                    Node::Empty => {}
                    Node::Leaf(leaf) => {
                        let others = leaf.points.iter().filter(|other| **other != own);
                        for other in others {
                            found.see(*other, self.tree.point(*other).distance(point), limit);
                        }
                    }
                    Node::Branch(branch) => {
                        // The point's own eighth comes last, and so is looked at first.
                        let nearest = point.octant(cube.depth);
                        for octant in (0..8).rev().map(|other| other ^ nearest) {
                            let word = branch.0[octant].load(Ordering::Relaxed);
                            if word != 0 {
                                waiting.push(cube.eighth(octant, word));
                            }
                        }
                    }
                }
            }
        }
        found
    }
}

impl Found {
    /// Takes note of another point.
    pub fn see(&mut self, other: u32, distance: u64, limit: u64) {
        self.within += u32::from(distance <= limit);
        if (distance, other) < (self.distance, self.nearest) {
            (self.distance, self.nearest) = (distance, other);
        }
    }
}

kernel! {
    /// Every thread looks for the neighbours of its point.
    pub struct Search = "example_octree_search";
    fn body(arguments: &SearchArguments) {
        if let Some(index) = own_index(arguments.tree.count) {
            // SAFETY: the host gave a place for each point; the tree was built by an earlier launch.
            unsafe { place::<Found>(arguments.found, index).write(arguments.find(index as u32)) };
        }
    }
}

/// What a level of the tree had.
#[repr(C)]
pub struct Level {
    /// Branches.
    pub branches: DeviceAtomicU64,
    /// Leaves.
    pub leaves: DeviceAtomicU64,
    /// Points in leaves.
    pub points: DeviceAtomicU64,
}

/// Arguments of [`Fell`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FellArguments {
    /// The tree.
    pub tree: Tree,
    /// Address of `DEPTH + 1` [`Level`]s, to which it is added what was freed.
    pub levels: u64,
    /// Levels by which the threads divide the tree: there are 8 to the power of it. What is above them stays.
    pub divided: u64,
}

kernel! {
    /// Every thread frees a part of the tree.
    pub struct Fell = "example_octree_fell";
    fn body(arguments: &FellArguments) {
        let divided = arguments.divided as u32;
        let Some(path) = own_index(1 << (3 * divided)) else { return };
        // SAFETY: each thread has a slot of its own, and nobody else uses the tree any more.
        unsafe {
            let mut slot: &DeviceAtomicU64 = element(arguments.tree.root, 0);
            for level in 0..divided {
                // Relaxed, all: nobody changes what is above a thread's slot.
                let Node::Branch(branch) = node(slot.load(Ordering::Relaxed)) else { return };
                slot = &branch.0[path >> (3 * level) & 7];
            }
            let word = slot.swap(0, Ordering::Relaxed);
            free(word, divided, &mut |depth, is_branch, points| {
                let level: &Level = element(arguments.levels, depth as usize);
                let of_kind = if is_branch { &level.branches } else { &level.leaves };
                of_kind.fetch_add(1, Ordering::Relaxed);
                level.points.fetch_add(points as u64, Ordering::Relaxed);
            });
        }
    }
}
