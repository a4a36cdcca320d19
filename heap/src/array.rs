//! An array in device memory, known by its address.

use core::marker::PhantomData;

/// Address of the first element of an array that lives as long as the heap.
#[repr(transparent)]
pub struct Array<T>(u64, PhantomData<*const T>);

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T> Array<T> {
    /// The array at `address`.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address, PhantomData)
    }

    /// The array's part from an element on.
    #[must_use]
    pub fn from(self, index: u32) -> Self {
        Self::new(self.pointer(index) as u64)
    }

    /// Pointer to an element.
    #[inline(always)]
    #[must_use]
    pub const fn pointer(self, index: u32) -> *mut T {
        (self.0 as *mut T).wrapping_add(index as usize)
    }

    /// An element.
    ///
    /// # Safety
    ///
    /// The array must be initialised, be longer than `index` and outlive `'a`.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn get<'a>(self, index: u32) -> &'a T {
        // SAFETY: as the caller promises.
        unsafe { &*self.pointer(index) }
    }
}

impl<T> core::fmt::Debug for Array<T> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "Array({:#x})", self.0)
    }
}

// SAFETY: an `Array` is one u64; any value is an address, dereferenced only by unsafe code.
unsafe impl<T> bytemuck::Zeroable for Array<T> {}
// SAFETY: as above; no padding, no interior mutability of its own.
unsafe impl<T: 'static> bytemuck::Pod for Array<T> {}
// SAFETY: an address may be sent; using it is up to `get`'s caller.
unsafe impl<T> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Array<T> {}
