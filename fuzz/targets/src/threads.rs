//! `threads`: two or three OS threads that each run a short program on one heap, and verify contents.
//!
//! Which thread comes first is not told by the bytes. So a failure may need several runs to come
//! again, and what is covered differs from run to run; loom and shuttle explore what this only meets.

use crate::host_heap::HostHeap;
use crate::operations::snapshot;
use crate::program::{Shape, size};
use arbitrary::{Result, Unstructured};
use heap_core::Heap;
use simt::emulation::{Position, set_position};
use std::collections::VecDeque;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

/// Heaps are small, so that the threads meet.
const LARGEST_HEAP: u64 = 256 << 10;
/// Operations of a thread at most.
const LONGEST: usize = 200;
/// Times that a thread runs its program: alone it is over before the others have begun.
const ROUNDS: usize = 4;

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Malloc(u64),
    Realloc(usize, u64),
    /// One of its own blocks.
    Free(usize),
    /// Leaves a block for another thread to free.
    HandOver(usize),
    /// Frees a block that another thread left.
    FreeForeign,
}

/// A block, and whose pattern is in it.
struct Block {
    address: u64,
    bytes: u64,
    pattern: u8,
}

impl Block {
    fn length(&self) -> usize {
        usize::try_from(self.bytes).expect("it is in memory")
    }
}

/// Blocks that are handed from thread to thread.
type Left = Mutex<VecDeque<Block>>;

/// Runs the programs that the bytes are.
///
/// # Panics
/// The heap does not as it must.
pub fn run(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let (Ok(shape), Ok(count)) = (bytes.arbitrary::<Shape>(), bytes.arbitrary::<u8>()) else {
        return;
    };
    let shape = shape.at_most(LARGEST_HEAP);
    let mut programs = vec![Vec::new(); 2 + usize::from(count & 1)];
    // By turns, so that a byte more or less does not change who does what by much.
    'all: for _ in 0..LONGEST {
        for program in &mut programs {
            let Ok(step) = step(&mut bytes, shape) else {
                break 'all;
            };
            program.push(step);
        }
    }
    let host = shape.build();
    together(&host, &programs);
    whole_heap_is_free(host.heap());
    let snapshot = snapshot(host.heap());
    assert_eq!(snapshot.violations(), []);
    assert!(snapshot.is_empty());
}

fn step(bytes: &mut Unstructured<'_>, shape: Shape) -> Result<Step> {
    if bytes.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let kind: u8 = bytes.arbitrary()?;
    Ok(match kind {
        0..110 => Step::Malloc(size(bytes, shape)?),
        110..135 => Step::Realloc(bytes.arbitrary::<u8>()?.into(), size(bytes, shape)?),
        135..195 => Step::Free(bytes.arbitrary::<u8>()?.into()),
        195..230 => Step::HandOver(bytes.arbitrary::<u8>()?.into()),
        230..=255 => Step::FreeForeign,
    })
}

/// Runs each program in a thread of its own.
fn together(host: &HostHeap, programs: &[Vec<Step>]) {
    let heap = host.heap();
    let begin = Barrier::new(programs.len());
    let left = Left::default();
    thread::scope(|scope| {
        for (program, sm_id) in programs.iter().zip(0..) {
            let (begin, left) = (&begin, &left);
            scope.spawn(move || {
                set_position(Position {
                    sm_id,
                    ..Position::default()
                });
                begin.wait();
                Worker::new(heap, left, sm_id).work(program);
            });
        }
    });
    while let Some(block) = take(&left) {
        free(heap, &block);
    }
}

/// A thread's side of the heap.
struct Worker<'a> {
    heap: &'a Heap,
    left: &'a Left,
    blocks: Vec<Block>,
    pattern: u8,
}

impl<'a> Worker<'a> {
    fn new(heap: &'a Heap, left: &'a Left, thread: u32) -> Self {
        let pattern = thread.to_le_bytes()[0] << 6;
        Self {
            heap,
            left,
            blocks: Vec::new(),
            pattern,
        }
    }

    fn work(mut self, program: &[Step]) {
        for _ in 0..ROUNDS {
            for step in program {
                self.take(*step);
            }
        }
        for block in self.blocks {
            free(self.heap, &block);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Malloc(bytes) => self.admit(self.heap.malloc(bytes), bytes),
            Step::Realloc(number, bytes) => self.realloc(number, bytes),
            Step::Free(number) => {
                if let Some(block) = self.pick(number) {
                    free(self.heap, &block);
                }
            }
            Step::HandOver(number) => {
                if let Some(block) = self.pick(number) {
                    let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                    left.push_back(block);
                }
            }
            Step::FreeForeign => {
                if let Some(block) = take(self.left) {
                    free(self.heap, &block);
                }
            }
        }
    }

    /// Takes in what a request gave.
    fn admit(&mut self, pointer: *mut u8, bytes: u64) {
        if pointer.is_null() {
            return;
        }
        let address = pointer as u64;
        let usable = self.heap.usable_size(pointer);
        assert!(bytes > 0 && usable >= bytes, "{usable} bytes for {bytes}");
        assert!(address.is_multiple_of(16) && address >= self.heap.base());
        assert!(address + usable <= self.heap.base() + self.heap.capacity());
        self.pattern = self.pattern & 0xc0 | self.pattern.wrapping_add(1) & 0x3f;
        let block = Block {
            address,
            bytes,
            pattern: self.pattern,
        };
        // SAFETY: the block is this thread's and has that many bytes.
        unsafe { pointer.write_bytes(block.pattern, block.length()) };
        self.blocks.push(block);
    }

    fn realloc(&mut self, number: usize, bytes: u64) {
        let Some(block) = self.pick(number) else {
            return self.admit(self.heap.malloc(bytes), bytes);
        };
        check(&block);
        // SAFETY: the block is this thread's.
        let pointer = unsafe { self.heap.realloc(block.address as *mut u8, bytes) };
        if bytes == 0 {
            assert!(pointer.is_null());
        } else if pointer.is_null() {
            self.blocks.push(block);
        } else {
            check(&Block {
                address: pointer as u64,
                bytes: bytes.min(block.bytes),
                ..block
            });
            self.admit(pointer, bytes);
        }
    }

    /// Takes one of the thread's own blocks.
    fn pick(&mut self, number: usize) -> Option<Block> {
        let count = self.blocks.len().max(1);
        (!self.blocks.is_empty()).then(|| self.blocks.swap_remove(number % count))
    }
}

fn take(left: &Left) -> Option<Block> {
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    left.pop_front()
}

fn check(block: &Block) {
    // SAFETY: the block is the caller's and has that many bytes, which it has written.
    let content = unsafe { std::slice::from_raw_parts(block.address as *const u8, block.length()) };
    let wrong = content.iter().position(|byte| *byte != block.pattern);
    assert_eq!(wrong, None, "a block of {} bytes was changed", block.bytes);
}

fn free(heap: &Heap, block: &Block) {
    check(block);
    // SAFETY: the block is the caller's, who gives it away here.
    unsafe { heap.free(block.address as *mut u8) };
}

fn whole_heap_is_free(heap: &Heap) {
    let all = heap.malloc(heap.capacity());
    assert_eq!(all as u64, heap.base(), "all is freed, so all can be had");
    // SAFETY: it is this thread's.
    unsafe { heap.free(all) };
}
