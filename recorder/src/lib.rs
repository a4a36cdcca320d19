//! Records the allocations of a real program, as a library that is loaded before all others:
//!
//! ```sh
//! SCATTERHEAP_TRACE_FILE=raw LD_PRELOAD=libscatterheap_recorder.so program arguments
//! ```
//!
//! `cargo xtask record -- program arguments` does this, and converts the raw file into a trace.
//!
//! The library stands in for `malloc` and its family (`interpose`), passes every call on to the real function
//! (`real`) and writes a record into a mapped file (`recording`), with the number of the thread (`thread`). The few calls
//! that come while the real functions are being looked up are served from a small buffer (`early`).
//!
//! Rules that all of it keeps: it never allocates, so it cannot recurse into itself; it never panics; `errno` stays
//! what the real function made it. Once the program runs it makes one system call for some 32,000 records, which takes room on
//! the disk for as many more. When there is none, recording ends and the program goes on.
//!
//! What is recorded: the calls of the first process that opens the file, whichever thread makes them, and of what that
//! process turns into by `exec` (so a wrapper script that ends in `exec` records the program, not the shell). Forked
//! children record nothing. Programs that are linked statically, that run with raised privileges, or that bring their own
//! allocator under another name cannot be recorded this way.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod early;
mod interpose;
mod real;
mod recording;
mod thread;
