//! What compiled code expects of a C library and PTX has not: comparing strings and slices calls it.
//!
//! It is here because every kernel crate has this one, whether it uses collections or not.

/// Compares `count` bytes: below, at or above 0 as `left` comes before, is or comes after `right`.
///
/// # Safety
///
/// Both must have that many bytes.
// Weak: modules that are linked with each other each have one, and others may bring their own. Of any two with this name
// the compiler may think that they do the same, so it is inlined all the same.
#[linkage = "weak_odr"]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: as the caller promises.
        let (left, right) = unsafe { (*left.add(index), *right.add(index)) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}
