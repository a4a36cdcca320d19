//! Programs that use collections in all the ways that they have, one for each kind, and tell in one number
//! what came of it. The number depends on the seed and the steps alone, so what a kernel's threads come to can
//! be compared with what the host comes to.

mod boxed;
mod ordered;
mod sequences;
mod tables;
mod text;

use crate::random::{Random, mix};
use bytemuck::{Pod, Zeroable};
use simt::{kernel, thread};

/// What a program found, put together into one number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    /// Adds a number; the order counts.
    pub fn add(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(7) ^ number);
    }

    /// Adds a number that may not be there.
    pub fn add_some(&mut self, number: Option<impl Into<u64>>) {
        self.add(number.map_or(u64::MAX, Into::into));
    }
}

/// What the programs use, in their order.
pub const PROGRAMS: [&str; 10] = [
    "Vec",
    "VecDeque",
    "LinkedList",
    "BinaryHeap",
    "BTreeMap",
    "BTreeSet",
    "HashMap",
    "String",
    "Box",
    "Rc and dyn",
];

/// Which threads run the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Neighbours run different programs: ten go side by side in each warp.
    Thread = 1,
    /// All lanes of a warp run one program, with numbers of their own: they branch differently in the same code.
    Warp = 32,
}

/// The place in [`PROGRAMS`] of a thread's program: threads or warps take turns.
#[must_use]
pub const fn program(index: u32, neighbours: u32) -> usize {
    (index / neighbours) as usize % PROGRAMS.len()
}

/// What a thread's program comes to.
#[must_use]
pub fn run(program: usize, index: u32, seed: u64, steps: u32) -> u64 {
    let random = &mut Random::new(mix(seed ^ u64::from(index)));
    let mut found = Digest::default();
    let digest = &mut found;
    match program {
        0 => sequences::vector(random, steps, digest),
        1 => sequences::deque(random, steps, digest),
        2 => sequences::list(random, steps, digest),
        3 => ordered::heap(random, steps, digest),
        4 => ordered::map(random, steps, digest),
        5 => ordered::set(random, steps, digest),
        6 => tables::table(random, steps, digest),
        7 => text::string(random, steps, digest),
        8 => boxed::aligned(random, steps, digest),
        _ => boxed::shared(random, steps, digest),
    }
    found.0
}

/// Arguments of [`Exercise`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ExerciseArguments {
    /// Address of `count` numbers of 8 bytes, one for each thread.
    pub digests: u64,
    /// Threads that work.
    pub count: u64,
    /// Other seeds, other programs.
    pub seed: u64,
    /// Steps of each program.
    pub steps: u64,
    /// How many threads in a row run the same program: a number of [`Turns`].
    pub neighbours: u64,
}

kernel! {
    /// Every thread runs its program.
    pub struct Exercise = "collections_exercise";
    fn body(arguments: &ExerciseArguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let program = program(index, arguments.neighbours as u32);
        let digest = run(program, index, arguments.seed, arguments.steps as u32);
        // SAFETY: there is a place for each thread.
        unsafe { (arguments.digests as *mut u64).add(index as usize).write(digest) };
    }
}
