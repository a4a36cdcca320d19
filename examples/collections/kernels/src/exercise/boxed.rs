//! `Box` of anything, `Rc`, and what is called by a table of functions.

use super::Digest;
use crate::random::Random;
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Aligned to more than blocks are.
#[repr(align(64))]
#[derive(Clone)]
struct Line([u8; 48]);

/// Aligned to more than a cache line.
#[repr(align(512))]
struct Sector(u64);

pub(super) fn aligned(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut lines: Vec<Line> = Vec::new();
    let mut sectors: Vec<Option<Box<Sector>>> = Vec::new();
    for _ in 0..steps {
        let number = random.number();
        match random.below(4) {
            0..=1 => lines.push(Line([number as u8; 48])),
            2 => sectors.push(Some(Box::new(Sector(number)))),
            _ => {
                let last = sectors.pop().flatten();
                digest.add_some(last.map(|sector| sector.0));
                lines.truncate(lines.len() - lines.len() / 4);
                lines.shrink_to_fit();
            }
        }
        let misplaced = lines.as_ptr() as usize % 64;
        let sector = sectors.last().and_then(Option::as_deref);
        let misplaced = misplaced + sector.map_or(0, |sector| &raw const *sector as usize % 512);
        digest.add(misplaced as u64);
    }
    let bytes: Box<[u8]> = lines.iter().flat_map(|line| line.0).collect();
    let zeroes = vec![0_u32; bytes.len()].into_boxed_slice();
    digest.add(bytes.iter().map(|byte| u64::from(*byte)).sum());
    digest.add(zeroes.iter().map(|zero| u64::from(*zero)).sum());
}

/// What the tree's nodes do.
trait Value {
    fn value(&self) -> u64;
}

struct Leaf(u64);

/// Children, of which others may have a share.
struct Branch(RefCell<Vec<Rc<dyn Value>>>);

impl Value for Leaf {
    fn value(&self) -> u64 {
        self.0
    }
}

impl Value for Branch {
    fn value(&self) -> u64 {
        let children = self.0.borrow();
        // The leaves alone: what a branch holds is at most one level deep.
        children.iter().fold(1, |sum: u64, child| {
            sum.wrapping_mul(31).wrapping_add(child.value())
        })
    }
}

pub(super) fn shared(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut branches: Vec<Rc<Branch>> = Vec::new();
    let mut watched: Vec<Weak<Branch>> = Vec::new();
    let mut later: Vec<Box<dyn Fn(u64) -> u64>> = Vec::new();
    for _ in 0..steps {
        let number = random.number();
        match random.below(5) {
            0 => {
                let branch = Rc::new(Branch(RefCell::new(Vec::new())));
                watched.push(Rc::downgrade(&branch));
                branches.push(branch);
            }
            1..=2 if !branches.is_empty() => {
                let leaf: Rc<dyn Value> = Rc::new(Leaf(number));
                for _ in 0..2 {
                    let branch = &branches[random.below(branches.len())];
                    branch.0.borrow_mut().push(leaf.clone());
                }
            }
            3 if branches.len() > 4 => {
                branches.swap_remove(random.below(branches.len()));
            }
            _ => later.push(Box::new(move |other| number ^ other)),
        }
    }
    let alive = watched.iter().filter_map(Weak::upgrade);
    for (place, branch) in alive.enumerate() {
        let value = later
            .get(place)
            .map_or(0, |function| function(branch.value()));
        digest.add(value);
        digest.add(Rc::strong_count(&branch) as u64);
    }
}
