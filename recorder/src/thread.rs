//! What is known of the calling thread.
//!
//! It lies in thread-local memory that the loader sets apart before the program runs ("initial exec"). What a shared library
//! usually does, asking the loader for the address each time, is not possible here: in glibc 2.39 and 2.40 the loader may
//! allocate for the answer, once libraries with such memory of their own were loaded, and so would ask `malloc` for what
//! `malloc` asks it for, without end (<https://github.com/koute/bytehound/issues/131>). Stable Rust has no word for initial
//! exec, hence the assembly.

use core::cell::Cell;

/// State of one thread; all of it is zero at first, and needs no destructor, so that it outlives the frees that the C library
/// makes when a thread ends.
#[repr(C)]
pub(crate) struct Thread {
    /// This thread's number plus 1; 0 before its first record.
    pub(crate) number: Cell<u32>,
    /// Whether this thread is inside a call already.
    pub(crate) inside: Cell<bool>,
}

/// Calls `with` with the calling thread's state.
#[inline]
pub(crate) fn with_current<Result>(with: impl FnOnce(&Thread) -> Result) -> Result {
    // SAFETY: the state is the calling thread's own, which lives while it runs, and zeroes are a state.
    with(unsafe { &*address() })
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
core::arch::global_asm!(
    r#".pushsection .tbss.scatterheap_recorder_thread, "awT", @nobits"#,
    ".globl scatterheap_recorder_thread",
    ".hidden scatterheap_recorder_thread",
    ".type scatterheap_recorder_thread, @object",
    ".size scatterheap_recorder_thread, {size}",
    ".balign {alignment}",
    "scatterheap_recorder_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
    alignment = const align_of::<Thread>(),
);

/// The address of the calling thread's state: its distance from the thread pointer, which the loader has written into a table,
/// and the thread pointer.
#[cfg(target_arch = "x86_64")]
#[inline]
fn address() -> *const Thread {
    let address: *const Thread;
    // SAFETY: both are reads of memory that is there while the thread runs.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + scatterheap_recorder_thread@GOTTPOFF]",
            "add {address}, qword ptr fs:[0]",
            address = out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    address
}

/// As for `x86_64`.
#[cfg(target_arch = "aarch64")]
#[inline]
fn address() -> *const Thread {
    let address: *const Thread;
    // SAFETY: a read of a table that is always there, and one of a register.
    unsafe {
        core::arch::asm!(
            "adrp {address}, :gottprel:scatterheap_recorder_thread",
            "ldr {address}, [{address}, :gottprel_lo12:scatterheap_recorder_thread]",
            "mrs {pointer}, tpidr_el0",
            "add {address}, {address}, {pointer}",
            address = out(reg) address,
            pointer = out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    address
}

/// Elsewhere the loader is asked.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn address() -> *const Thread {
    thread_local! {
        static THREAD: Thread = const {
            Thread {
                number: Cell::new(0),
                inside: Cell::new(false),
            }
        };
    }
    THREAD.with(core::ptr::from_ref)
}
