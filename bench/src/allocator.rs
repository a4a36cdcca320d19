//! What the benchmark asks of an allocator. Like the interface of plug-ins in C (`peer.h`).

use crate::case::{Case, Test};
use crate::error::Result;
use bench_kernels::Native;
use bench_kernels::blocks;
use bench_kernels::churn::Rounds;
use heap_core::Heap;
use kernels::sizes::Sizes;
use scatterheap_host::Device;

/// Who asks for how much.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Device address of `n` pointers of 8 bytes: where the blocks' addresses go, or come from.
    pub blocks: u64,
    /// Device address of `n` sizes of 4 bytes; 0: all ask for `size` bytes.
    pub sizes: u64,
    /// Bytes that all ask for, or the most of them.
    pub size: u32,
    /// Threads, or warps.
    pub n: u32,
}

impl Request {
    /// As the benchmark's kernels take it.
    pub(crate) fn for_kernels(&self) -> blocks::Request {
        blocks::Request {
            blocks: self.blocks,
            sizes: self.sizes,
            bytes: u64::from(self.size),
            count: u64::from(self.n),
        }
    }
}

/// Threads that allocate, write, read and free, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Threads.
    pub n: u32,
    /// Rounds of each thread.
    pub rounds: u32,
    /// Least bytes asked for.
    pub least: u32,
    /// Most bytes asked for.
    pub most: u32,
    /// Different seeds give different sizes.
    pub seed: u32,
    /// Device address of two counters of 4 bytes, which are added to: NULLs, and blocks that did not hold what was written.
    pub faults: u64,
}

impl Churn {
    /// As the benchmark's kernels take it.
    pub(crate) fn for_kernels(&self) -> Rounds {
        Rounds {
            count: u64::from(self.n),
            rounds: u64::from(self.rounds),
            sizes: Sizes {
                least: u64::from(self.least),
                most: u64::from(self.most),
                seed: u64::from(self.seed),
            },
            faults: self.faults,
        }
    }
}

/// An allocator that the kernels of the benchmark were compiled for; plug-ins are none.
#[derive(Clone, Copy, Debug)]
pub enum Handle {
    /// scatterheap.
    Heap(Heap),
    /// The device's own.
    Native(Native),
}

/// What the timed kernels of an allocator use of a multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Registers of a thread that allocates.
    pub registers: u32,
    /// Bytes of stack of a thread that allocates.
    pub stack_bytes: u32,
    /// Registers of a thread that frees.
    pub free_registers: u32,
    /// Bytes of stack of a thread that frees.
    pub free_stack_bytes: u32,
}

/// An allocator under measurement. Methods that work on the device only enqueue their launch on the device's
/// default stream: the runner waits, and takes the time.
///
/// # Safety
///
/// Kernels of the benchmark use what it gives, and nothing else looks at that. Its device is [`device`](Self::device), or whichever is
/// measured.
/// - What [`handle`](Self::handle) gives is of a heap on its device, which lives until the next `create` or `destroy`, or until the
///   allocator is dropped, and until the work that was enqueued before has ended.
/// - What [`allocate`](Self::allocate) and [`allocate_of_warps`](Self::allocate_of_warps) store is NULL or the address of a block:
///   as many bytes as were asked for, aligned to 16, that kernels of its device may read and write, and that nobody else
///   has until they are freed. (Blocks of others are verified all the same, as far as they can be.) One that
///   [is a floor](Self::is_floor) may store anything, and can do no tests but those of
///   [`Floor::takes_test`](crate::allocators::Floor::takes_test).
/// - What it has enqueued has ended when all work of the device's default stream has.
pub unsafe trait Allocator {
    /// Name in the table: lower-case letters, digits and `_`.
    fn name(&self) -> &str;

    /// The device that it allocates on: it is measured on no other. Nothing, if it finds that by itself, as plug-ins do.
    fn device(&self) -> Option<&Device>;

    /// Whether it can do a test at all; one that it cannot has no row.
    fn can(&self, test: Test) -> bool;

    /// Whether it can do a case of such a test; one that it cannot has no row.
    fn takes(&self, case: &Case) -> bool {
        self.can(case.test)
    }

    /// Whether it allocates nothing, so that there are no blocks to be verified.
    fn is_floor(&self) -> bool {
        false
    }

    /// Bytes of the heap that it has when it was asked to make one of `asked` bytes.
    fn heap_bytes(&self, asked: u64) -> u64 {
        asked
    }

    /// Bytes that a block takes which is asked for with `bytes`, where that is known, and once there is a heap.
    fn rounded(&self, _bytes: u64) -> Option<u64> {
        None
    }

    /// As kernels call it, if the benchmark's kernels were compiled for it, and once there is a heap.
    fn handle(&self) -> Option<Handle> {
        None
    }

    /// What its timed kernels use, where that is known.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn resources(&self) -> Result<Option<Resources>> {
        Ok(None)
    }

    /// Makes an empty heap of `bytes` bytes, instead of the one there was; waits until it is usable.
    ///
    /// # Errors
    ///
    /// If it cannot.
    fn create(&mut self, bytes: u64) -> Result<()>;

    /// Gives the heap's memory back.
    fn destroy(&mut self);

    /// Makes the heap empty again.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn reset(&mut self) -> Result<()>;

    /// Thread `i` allocates, and stores where.
    ///
    /// # Safety
    ///
    /// The request's arrays must be as long as it says.
    ///
    /// # Errors
    ///
    /// If the device fails.
    unsafe fn allocate(&mut self, request: &Request) -> Result<()>;

    /// Thread `i` frees its block, unless that is NULL.
    ///
    /// # Safety
    ///
    /// As for [`allocate`](Self::allocate), and the blocks must be this allocator's.
    ///
    /// # Errors
    ///
    /// If the device fails.
    unsafe fn free(&mut self, request: &Request) -> Result<()>;

    /// Lane 0 of warp `i` allocates.
    ///
    /// # Safety
    ///
    /// As for [`allocate`](Self::allocate).
    ///
    /// # Errors
    ///
    /// If the device fails.
    unsafe fn allocate_of_warps(&mut self, request: &Request) -> Result<()>;

    /// Lane 0 of warp `i` frees.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    ///
    /// # Errors
    ///
    /// If the device fails.
    unsafe fn free_of_warps(&mut self, request: &Request) -> Result<()>;

    /// Every thread allocates, writes, reads and frees, again and again.
    ///
    /// # Safety
    ///
    /// There must be two counters where the request says, and the sizes be from 1 byte on, the least no larger than the most.
    ///
    /// # Errors
    ///
    /// If the device fails.
    unsafe fn churn(&mut self, churn: &Churn) -> Result<()>;
}
