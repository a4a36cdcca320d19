//! The GPU: inline PTX. Everything here is one instruction or a few.

pub mod atomic;
mod memory;
pub mod warp;

use core::arch::{asm, nvptx};

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn thread_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn block_dim() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn block_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn grid_dim() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_grid_dim_x() as u32 }
}

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn block_number() -> u32 {
    // SAFETY: reads special registers.
    let (y, z, height) = unsafe {
        (
            nvptx::_block_idx_y() as u32,
            nvptx::_block_idx_z() as u32,
            nvptx::_grid_dim_y() as u32,
        )
    };
    block_index() + grid_dim() * (y + height * z)
}

#[inline(always)]
#[allow(
    clippy::cast_sign_loss,
    reason = "the intrinsics return non-negative i32"
)]
pub fn grid_threads() -> u32 {
    // SAFETY: reads special registers.
    let (depths, heights) = unsafe {
        (
            nvptx::_grid_dim_z() as u32 * nvptx::_block_dim_z() as u32,
            nvptx::_grid_dim_y() as u32 * nvptx::_block_dim_y() as u32,
        )
    };
    grid_dim()
        .saturating_mul(block_dim())
        .saturating_mul(heights)
        .saturating_mul(depths)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
pub fn grid_id() -> u32 {
    let id: u64;
    // SAFETY: reads a special register, which is the same in the whole launch.
    unsafe { asm!("mov.u64 {0}, %gridid;", out(reg64) id, options(pure, nomem, nostack)) };
    id as u32
}

#[inline(always)]
pub fn sm_id() -> u32 {
    let id: u32;
    // SAFETY: reads a special register; the value may change, so not `pure`.
    unsafe { asm!("mov.u32 {0}, %smid;", out(reg32) id, options(nomem, nostack)) };
    id
}

#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    // SAFETY: only delays.
    unsafe { asm!("nanosleep.u32 {0};", in(reg32) nanoseconds, options(nostack)) };
}

#[inline(always)]
pub fn give_turn() {
    nanosleep(0);
}

#[inline(always)]
pub fn now() -> u64 {
    let nanoseconds: u64;
    // SAFETY: reads a special register; the value changes, so not `pure`.
    unsafe { asm!("mov.u64 {0}, %globaltimer;", out(reg64) nanoseconds, options(nomem, nostack)) };
    nanoseconds
}

#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a special register. Not `nomem`: accesses to memory before it stay before it, and those after it
    // after it.
    unsafe { asm!("mov.u64 {0}, %clock64;", out(reg64) ticks, options(nostack)) };
    ticks
}

#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the launch.
    unsafe { nvptx::trap() }
}
