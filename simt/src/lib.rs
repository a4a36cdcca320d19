//! The GPU's vocabulary in Rust: threads and warps, device-scope atomics, fences, sleep.
//!
//! Code written in these words runs in three worlds, chosen when it is compiled:
//!
//! | backend | when | a warp is |
//! |---|---|---|
//! | `ptx` | `target_arch = "nvptx64"` | 32 lanes; inline PTX with semantics and scope spelled out |
//! | `native` | any other target | one lane on each OS thread; atomics are `core`'s |
//! | `explored` | `--cfg loom` or `--cfg shuttle` | loom: one lane; shuttle: 1 to 32 emulated lanes |
//!
//! Module and function names follow `cuda_std` where it has the same thing. Invariants:
//!
//! - The scope of an atomic is in its type ([`atomic::DeviceAtomicU32`]), its ordering is an
//!   argument. `core::sync::atomic` must not be used in device code: on nvptx64 it silently drops
//!   ordering and scope.
//! - Every collective takes the mask of the lanes that take part, and every lane of the mask must
//!   call it with the same mask. [`warp::active_mask`] may return any converged subset: call it
//!   once and use that mask for each collective that follows. On a GPU a mask that is not that of a whole warp must
//!   be the lane's own ([`warp::own_mask`]), which that of `active_mask` is.
//!
//! # What safe functions rely on
//!
//! These words are safe functions in Rust although two rules can be broken with them that neither the compiler nor the
//! GPU checks. Kernels would be made of `unsafe` otherwise, and the rules are about where and when a call is made, which
//! an `unsafe` block around it would say nothing of. To break one is undefined behaviour all the same:
//!
//! - A device atomic must lie in global memory when it is used: in a `static`, in memory that the host gave to the kernel, in a block of
//!   a heap. It may be made anywhere and moved there. In a local variable it must not be used on a GPU, where its operations
//!   take its address for one of global memory ([`atomic`]).
//! - The lanes of a collective's mask must all come to it, with the same mask, the caller among them. Else some wait
//!   for ever, or get what means nothing, and [`warp::sync`] orders nothing ([`warp`]). A mask is good for as long as its lanes stay together: what
//!   [`with_active_lanes!`] gives, for its body, as long as no lane leaves it alone.
//!
//! On the CPU neither can be broken to that effect: atomics are `core`'s, and a warp has one lane. Under exploration
//! a collective that some lanes do not come to is a failure.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, stdarch_nvptx, asm_experimental_arch, linkage)
)]

#[cfg(target_arch = "nvptx64")]
#[path = "ptx/mod.rs"]
mod backend;

#[cfg(all(not(target_arch = "nvptx64"), not(loom), not(shuttle)))]
#[path = "native/mod.rs"]
mod backend;

#[cfg(all(not(target_arch = "nvptx64"), any(loom, shuttle)))]
#[path = "explored/mod.rs"]
mod backend;

#[cfg(not(any(target_arch = "nvptx64", shuttle)))]
mod single_lane;
#[cfg(not(target_arch = "nvptx64"))]
mod wrapped;

pub mod atomic;
pub mod kernel;
pub mod lanes;
pub mod thread;
pub mod time;
pub mod warp;

#[cfg(not(target_arch = "nvptx64"))]
pub use backend::emulation;
