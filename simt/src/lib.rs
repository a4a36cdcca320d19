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

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, stdarch_nvptx, asm_experimental_arch)
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
