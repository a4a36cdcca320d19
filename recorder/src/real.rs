//! The functions that this library stands in for: the next ones of the same names, in the order of loading.

use core::{
    cell::UnsafeCell,
    ffi::{CStr, c_int, c_void},
    mem::{self, MaybeUninit},
    sync::atomic::{AtomicU8, Ordering},
};

use crate::recording;

/// `void *malloc(size_t)`
pub(crate) type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
/// `void *calloc(size_t, size_t)`
pub(crate) type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// `void *realloc(void *, size_t)`
pub(crate) type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
/// `void free(void *)`
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);
/// `void *memalign(size_t, size_t)`, and `aligned_alloc` alike
pub(crate) type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// `int posix_memalign(void **, size_t, size_t)`
pub(crate) type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

/// The real functions.
pub(crate) struct Functions {
    pub(crate) malloc: Malloc,
    pub(crate) calloc: Calloc,
    pub(crate) realloc: Realloc,
    pub(crate) free: Free,
    pub(crate) memalign: Aligned,
    pub(crate) aligned_alloc: Aligned,
    pub(crate) posix_memalign: PosixMemalign,
}

const UNKNOWN: u8 = 0;
const BEING_LOOKED_UP: u8 = 1;
const KNOWN: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

struct Table(UnsafeCell<MaybeUninit<Functions>>);

// SAFETY: it is written once, by the call that moves `STATE` away from `UNKNOWN`, and read only after `KNOWN`.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(MaybeUninit::uninit()));

/// The real functions; `None` while they are being looked up. The first call looks them up and starts the recording.
#[inline]
pub(crate) fn functions() -> Option<&'static Functions> {
    // Acquire pairs with the release in `look_up`: who sees KNOWN sees the table.
    if STATE.load(Ordering::Acquire) == KNOWN {
        // SAFETY: the table was written before `KNOWN` and is never written again.
        return Some(unsafe { (*TABLE.0.get()).assume_init_ref() });
    }
    look_up()
}

#[cold]
fn look_up() -> Option<&'static Functions> {
    // Acquire on failure pairs with the release below, for a thread that loses the race after all is done. Success needs
    // no more than the one winner that any ordering gives.
    match STATE.compare_exchange(
        UNKNOWN,
        BEING_LOOKED_UP,
        Ordering::Relaxed,
        Ordering::Acquire,
    ) {
        Ok(_) => {}
        Err(KNOWN) => return functions(),
        // Either a call from inside `dlsym`, or, while the program is still being loaded, another thread.
        Err(_) => return None,
    }
    // SAFETY: each name belongs to the function type that its field has, by the C standard or POSIX.
    let functions = unsafe {
        Functions {
            malloc: mem::transmute::<*mut c_void, Malloc>(next(c"malloc")),
            calloc: mem::transmute::<*mut c_void, Calloc>(next(c"calloc")),
            realloc: mem::transmute::<*mut c_void, Realloc>(next(c"realloc")),
            free: mem::transmute::<*mut c_void, Free>(next(c"free")),
            memalign: mem::transmute::<*mut c_void, Aligned>(next(c"memalign")),
            aligned_alloc: mem::transmute::<*mut c_void, Aligned>(next(c"aligned_alloc")),
            posix_memalign: mem::transmute::<*mut c_void, PosixMemalign>(next(c"posix_memalign")),
        }
    };
    // SAFETY: the exchange above has one winner, so this is the only write, and nobody reads before `KNOWN`.
    unsafe { (*TABLE.0.get()).write(functions) };
    // Release: publishes the table to whoever loads KNOWN.
    STATE.store(KNOWN, Ordering::Release);
    // Only now, because starting may allocate.
    recording::start();
    self::functions()
}

/// The next function called `name`, after this library's own. Ends the process if there is none: nothing can run then.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string, and RTLD_NEXT asks for a symbol only.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if address.is_null() {
        recording::complain(
            c"a function of the malloc family is missing; link the program dynamically",
        );
        // SAFETY: `abort` has no conditions.
        unsafe { libc::abort() };
    }
    address
}
