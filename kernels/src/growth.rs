//! What the host runs on a device for a heap that grows and shrinks.

use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering, SystemAtomicU64};
use simt::{kernel, thread, time};

/// Arguments of [`Admit`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct AdmitArguments {
    /// The heap.
    pub heap: Heap,
}

kernel! {
    /// Admits the pages that the host has mapped; one thread.
    pub struct Admit = "scatterheap_kernel_admit";
    fn body(arguments: &AdmitArguments) {
        if thread::index_1d() == 0 {
            arguments.heap.admit_mapped();
        }
    }
}

/// Arguments of [`Retract`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct RetractArguments {
    /// The heap, which no other kernel uses.
    pub heap: Heap,
    /// Address of a `u32` that becomes 1 if the pages were taken away.
    pub done: u64,
    /// First page of those to take away.
    pub first: u32,
    /// Zero.
    pub padding: u32,
}

kernel! {
    /// Takes the last pages away from a heap, if nothing is in them; one thread.
    pub struct Retract = "scatterheap_kernel_retract";
    fn body(arguments: &RetractArguments) {
        if thread::index_1d() == 0 {
            // SAFETY: the host runs no other kernel on the heap meanwhile.
            let done = unsafe { arguments.heap.retract(arguments.first) };
            // SAFETY: the host gave the address of a word of its own.
            let word = unsafe { &*(arguments.done as *const DeviceAtomicU32) };
            // Relaxed: read after the launch.
            word.store(u32::from(done), Ordering::Relaxed);
        }
    }
}

/// How the host and [`TryMapping`] talk: in host memory, all zero at first.
#[repr(C)]
pub struct Probe {
    /// 1 once the kernel runs.
    pub running: SystemAtomicU64,
    /// 1 once the word has memory; written by the host.
    pub mapped: SystemAtomicU64,
    /// 1 if the kernel used the word.
    pub used: SystemAtomicU64,
}

/// What is written into the word.
const TEST_VALUE: u64 = 0x5ca7_7e4b_ea90_0001;
/// Nanoseconds between two looks.
const NAP: u32 = 4096;

impl Probe {
    /// Waits until the word has memory; false if it takes too long.
    fn await_memory(&self, patience: u64) -> bool {
        let start = time::now();
        // Acquire: pairs with the host, which mapped the word.
        while self.mapped.load(Ordering::Acquire) == 0 {
            if time::now().wrapping_sub(start) >= patience {
                return false;
            }
            time::nanosleep(NAP);
        }
        true
    }

    /// Writes the word and reads it back.
    ///
    /// # Safety
    ///
    /// The word must have memory, and be this thread's.
    unsafe fn try_word(&self, word: u64) {
        // SAFETY: as the caller promises.
        let word = unsafe { &*(word as *const DeviceAtomicU64) };
        // Relaxed: this thread's alone; atomic, so that the accesses are made.
        word.store(TEST_VALUE, Ordering::Relaxed);
        let read = word.load(Ordering::Relaxed);
        // Relaxed: the host reads it after the launch.
        self.used
            .store(u64::from(read == TEST_VALUE), Ordering::Relaxed);
    }
}

/// Arguments of [`TryMapping`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct TryMappingArguments {
    /// Address of a [`Probe`] in host memory.
    pub probe: u64,
    /// Address of a word that has no memory yet.
    pub word: u64,
    /// Nanoseconds after which the kernel ends, whatever happens.
    pub patience: u64,
}

kernel! {
    /// Finds out whether memory can be mapped while a kernel runs: all threads wait for it, the
    /// first one uses it. Ends by itself.
    pub struct TryMapping = "scatterheap_kernel_try_mapping";
    fn body(arguments: &TryMappingArguments) {
        // SAFETY: the host gave the address of a probe of its own.
        let probe = unsafe { &*(arguments.probe as *const Probe) };
        let is_first = thread::index_1d() == 0;
        if is_first {
            // Relaxed: a word alone.
            probe.running.store(1, Ordering::Relaxed);
        }
        if probe.await_memory(arguments.patience) && is_first {
            // SAFETY: the host says that the word has memory, and nobody else uses it.
            unsafe { probe.try_word(arguments.word) };
        }
    }
}
