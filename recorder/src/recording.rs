//! The file that the records go to: mapped whole, so that a record is a few stores, without buffers to flush when a
//! thread, or the process, ends in whatever way. Its layout is [`scatterheap_trace::raw`].

use core::{
    cell::Cell,
    ffi::{CStr, c_int},
    mem::offset_of,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use scatterheap_trace::raw::{MAGIC, RawHeader, RawRecord};

/// The most records: 8 GiB, of which the file system stores only what is written.
const CAPACITY: usize = 1 << 28;

/// The size of the file.
const FILE_BYTES: usize = size_of::<RawHeader>() + CAPACITY * size_of::<RawRecord>();

/// Where the mapped file's address stands: a page of its own, which the kernel fills with zeroes in whatever is forked, by
/// `fork` or by a bare system call. So children, who share the mapping of the file, find none. Null before there is a file.
static PAGE: AtomicPtr<AtomicPtr<RawHeader>> = AtomicPtr::new(ptr::null_mut());

/// The number of the next new thread. Relaxed: numbers need only be distinct.
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    // Both are constants without destructors, so they need neither memory nor registration, and outlive the frees that
    // the C library makes when a thread ends.

    /// This thread's number plus 1; 0 before its first record.
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread is inside a call already.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call of the malloc family. Real functions that call each other through their public names are seen once.
pub(crate) struct Call {
    outermost: bool,
}

impl Call {
    /// Begins a call.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            outermost: !INSIDE.replace(true),
        }
    }

    /// Claims the next record and fills it. The order of all threads' records is the order of these claims.
    #[inline]
    pub(crate) fn record(&self, kind: u32, address: usize, size: usize, alignment: usize) {
        let file = mapped_file();
        if self.outermost && !file.is_null() {
            let alignment = u32::try_from(alignment).unwrap_or(1 << 31);
            // SAFETY: a file that is announced stays mapped, with room for `CAPACITY` records behind its header.
            unsafe { write_record(file, kind, address as u64, size as u64, alignment) };
        }
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            INSIDE.set(false);
        }
    }
}

/// The mapped file; null while nothing is recorded, and in children.
#[inline]
fn mapped_file() -> *mut RawHeader {
    // Acquire pairs with the release in `start`: the header is written before the file is announced.
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: a page that is announced stays mapped. Relaxed: only the kernel changes it, in a child.
    unsafe { (*page).load(Ordering::Relaxed) }
}

/// Writes one record.
///
/// # Safety
/// `file` must be the mapped file.
unsafe fn write_record(file: *mut RawHeader, kind: u32, address: u64, size: u64, alignment: u32) {
    // SAFETY: the field lies in the mapped header, is aligned, and is only ever accessed atomically once announced.
    let claimed = unsafe { AtomicU64::from_ptr(&raw mut (*file).claimed) };
    // Relaxed suffices for a free to come before the malloc that gets its address: the free is claimed before the real
    // free, the malloc after the real malloc, and the real allocator orders those two (its lock, or whatever hands the
    // block over). So one claim happens before the other, and two changes of one atomic keep that order.
    let index = match usize::try_from(claimed.fetch_add(1, Ordering::Relaxed)) {
        Ok(index) if index < CAPACITY => index,
        _ => return,
    };
    // SAFETY: `index` is below the capacity, so the record lies in the file; it was claimed by this call alone.
    unsafe {
        let record = file.add(1).cast::<RawRecord>().add(index);
        (&raw mut (*record).address).write(address);
        (&raw mut (*record).size).write(size);
        (&raw mut (*record).alignment).write(alignment);
        (&raw mut (*record).thread).write(thread_number());
        // Release, and last: a process that is killed here leaves kind 0, which the converter passes over.
        AtomicU32::from_ptr(&raw mut (*record).kind).store(kind, Ordering::Release);
    }
}

/// This thread's number, from 0 on.
fn thread_number() -> u32 {
    if THREAD.get() == 0 {
        // Relaxed: see NEXT_THREAD.
        THREAD.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get() - 1
}

/// Opens and announces the file that `SCATTERHEAP_TRACE_FILE` names, if this process is the one to record.
pub(crate) fn start() {
    // SAFETY: the name is a C string; the program is still being loaded, so nobody changes the environment meanwhile.
    let path = unsafe { libc::getenv(c"SCATTERHEAP_TRACE_FILE".as_ptr()) };
    if path.is_null() {
        return;
    }
    let Some(page) = page_that_children_lose() else {
        return;
    };
    // SAFETY: `getenv` returned a C string.
    let Some(descriptor) = open(unsafe { CStr::from_ptr(path) }) else {
        return;
    };
    if let Some(file) = map(descriptor) {
        page.store(file, Ordering::Relaxed);
        // Release: whoever sees the page sees the file's address and its header.
        PAGE.store(ptr::from_ref(page).cast_mut(), Ordering::Release);
    }
    // SAFETY: the descriptor is open and this function's own; the mapping does not need it.
    unsafe { libc::close(descriptor) };
}

/// A page of zeroes that is one again in each child, whatever was written into it.
fn page_that_children_lose() -> Option<&'static AtomicPtr<RawHeader>> {
    const BYTES: usize = size_of::<AtomicPtr<RawHeader>>();
    // SAFETY: a new mapping, at an address that the kernel chooses; both calls round up to a page.
    let (address, error) = unsafe {
        let address = libc::mmap(
            ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        (
            address,
            libc::madvise(address, BYTES, libc::MADV_WIPEONFORK),
        )
    };
    if error != 0 {
        complain(c"cannot tell forked children apart; take Linux 4.14 or later; not recording");
        return None;
    }
    // SAFETY: the page is aligned, stays mapped, and its zeroes are a null pointer.
    Some(unsafe { &*address.cast() })
}

/// Opens the file. Whoever creates it records; another process does not, unless it is the same one after an `exec`.
fn open(path: &CStr) -> Option<c_int> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path is a C string, and a file that is created gets its mode.
    let created = unsafe { libc::open(path.as_ptr(), flags | libc::O_CREAT | libc::O_EXCL, 0o600) };
    if created >= 0 {
        return Some(created);
    }
    // SAFETY: the path is a C string.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags) };
    if descriptor < 0 {
        complain(c"cannot create the file that SCATTERHEAP_TRACE_FILE names; not recording");
        return None;
    }
    if process_that_recorded(descriptor) == Some(own_process()) {
        // What was recorded was the program before the `exec`.
        // SAFETY: the descriptor is open; the mapping that was on the file ended with that program.
        if unsafe { libc::ftruncate(descriptor, 0) } == 0 {
            return Some(descriptor);
        }
    }
    // SAFETY: the descriptor is open and this function's own.
    unsafe { libc::close(descriptor) };
    None
}

/// The process whose recording the file is, if it is one.
fn process_that_recorded(descriptor: c_int) -> Option<u32> {
    let mut start = [0_u8; offset_of!(RawHeader, process) + size_of::<u32>()];
    // SAFETY: the buffer has as many bytes as are asked for.
    let read = unsafe { libc::pread(descriptor, start.as_mut_ptr().cast(), start.len(), 0) };
    let (magic, process) = start.split_at(MAGIC.len());
    let whole = usize::try_from(read) == Ok(start.len()) && magic == MAGIC;
    whole.then_some(u32::from_ne_bytes(process.try_into().ok()?))
}

fn own_process() -> u32 {
    // SAFETY: `getpid` has no conditions.
    unsafe { libc::getpid() }.cast_unsigned()
}

/// Gives the file its size, maps it and writes its header.
fn map(descriptor: c_int) -> Option<*mut RawHeader> {
    // SAFETY: the descriptor is open for writing.
    if unsafe { libc::ftruncate(descriptor, FILE_BYTES.cast_signed() as libc::off_t) } != 0 {
        complain(c"cannot make a sparse file of 8 GiB; put SCATTERHEAP_TRACE_FILE on another file system");
        return None;
    }
    // SAFETY: a new mapping of the whole file, at an address that the kernel chooses.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            FILE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            descriptor,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        complain(c"cannot map 8 GiB of address space; lift the limit (ulimit -v); not recording");
        return None;
    }
    let file = address.cast::<RawHeader>();
    let header = RawHeader {
        magic: MAGIC,
        process: own_process(),
        padding: 0,
        claimed: 0,
        capacity: CAPACITY as u64,
    };
    // SAFETY: the mapping is writable, larger than a header, aligned to a page, and nobody else's yet.
    unsafe { file.write(header) };
    Some(file)
}

/// Tells the user on standard error why there is no recording, without allocating.
pub(crate) fn complain(message: &CStr) {
    for part in [c"scatterheap-recorder: ", message, c"\n"] {
        // SAFETY: the buffer has as many bytes as are written. Nothing can be done if it fails.
        let _ = unsafe {
            libc::write(
                libc::STDERR_FILENO,
                part.as_ptr().cast(),
                part.count_bytes(),
            )
        };
    }
}
