//! The file that the records go to: mapped whole, so that a record is a few stores, without buffers to flush when a
//! thread, or the process, ends in whatever way. Its layout is [`scatterheap_trace::raw`].
//!
//! The file is sparse, and a store for which the disk has no room would end the program. So room is taken piece by piece
//! before it is written; when there is none, recording ends, and the rest is counted. That holds where a page that has reached
//! the disk is overwritten there; file systems that copy on write take new room each time, and only btrfs can be told not to.

use core::{
    ffi::{CStr, c_int},
    mem::offset_of,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use scatterheap_trace::raw::{MAGIC, RawHeader, RawRecord};

use crate::thread::with_current;

/// The most records: 8 GiB, of which the file system stores only what is written.
const CAPACITY: usize = 1 << 28;

/// The size of the file, if it may be so large.
const FILE_BYTES: usize = end_of(CAPACITY);

/// How much room is taken at a time: a multiple of every page's size, and some 32,000 records.
const PIECE: usize = 1 << 20;

/// The bytes of the file, from its start on, that have room on the disk. Relaxed: it only grows, and whoever reads less than
/// it is asks the kernel once more.
static ROOM: AtomicUsize = AtomicUsize::new(0);

/// Where the mapped file's address stands: a page of its own, which the kernel fills with zeroes in whatever is forked, by
/// `fork` or by a bare system call. So children, who share the mapping of the file, find none. Null before there is a file.
static PAGE: AtomicPtr<AtomicPtr<RawHeader>> = AtomicPtr::new(ptr::null_mut());

/// The number of the next new thread. Relaxed: numbers need only be distinct.
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

/// A call of the malloc family. Real functions that call each other through their public names are seen once.
pub(crate) struct Call {
    outermost: bool,
}

impl Call {
    /// Begins a call.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            outermost: !with_current(|thread| thread.inside.replace(true)),
        }
    }

    /// Claims the next record and fills it. The order of all threads' records is the order of these claims.
    #[inline]
    pub(crate) fn record(&self, kind: u32, address: usize, size: usize, alignment: usize) {
        let file = mapped_file();
        if self.outermost && !file.is_null() {
            let alignment = u32::try_from(alignment).unwrap_or(1 << 31);
            // SAFETY: a file that is announced stays mapped.
            unsafe { write_record(file, kind, address as u64, size as u64, alignment) };
        }
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            with_current(|thread| thread.inside.set(false));
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
    // SAFETY: the file is the mapped one.
    if !unsafe { has_room(file, index) } {
        return;
    }
    // SAFETY: the file has room for the record, which was claimed by this call alone.
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

/// How far the file goes with so many records.
const fn end_of(records: usize) -> usize {
    size_of::<RawHeader>() + records * size_of::<RawRecord>()
}

/// Whether the disk has room for a record. Where that is not known it is asked for, and if there is none, recording ends.
///
/// # Safety
/// `file` must be the mapped file.
#[inline]
unsafe fn has_room(file: *mut RawHeader, index: usize) -> bool {
    let end = end_of(index + 1);
    // SAFETY: the file is the mapped one.
    end <= ROOM.load(Ordering::Relaxed) || unsafe { take_room(file, end) }
}

/// Takes room for the file up to the piece that `end` lies in.
///
/// # Safety
/// `file` must be the mapped file.
#[cold]
unsafe fn take_room(file: *mut RawHeader, end: usize) -> bool {
    // SAFETY: the field lies in the mapped header, is aligned, and is only ever accessed atomically once announced.
    let capacity = unsafe { AtomicU64::from_ptr(&raw mut (*file).capacity) };
    // Relaxed: it only gets less, and the converter reads it when all is over.
    let most = end_of(usize::try_from(capacity.load(Ordering::Relaxed)).unwrap_or(CAPACITY));
    if end > most {
        return false;
    }
    let from = ROOM.load(Ordering::Relaxed);
    let to = end.next_multiple_of(PIECE).min(most);
    // SAFETY: `to` is within the file, which is mapped.
    let error = unsafe { populate(file, from, to) };
    if error == 0 || is_unknown(error) {
        ROOM.fetch_max(to, Ordering::Relaxed);
        return true;
    }
    let records = from.saturating_sub(size_of::<RawHeader>()) / size_of::<RawRecord>();
    capacity.fetch_min(records as u64, Ordering::Relaxed);
    false
}

/// Has the kernel make pages of the mapping writable, for which it must have room on the disk; gives its error, 0 if there is
/// none. Several threads may do this at once. It needs no descriptor, which the program might close and use for another file.
///
/// # Safety
/// `file` must be the mapped file, and these bytes of it mapped.
unsafe fn populate(file: *mut RawHeader, from: usize, to: usize) -> c_int {
    // SAFETY: the bytes are mapped, and what they are does not change; the C library returns the place of this thread's own
    // `errno`, which stays what the real function made it.
    unsafe {
        let errno = libc::__errno_location();
        let before = errno.read();
        let result = libc::madvise(
            file.cast::<u8>().add(from).cast(),
            to.saturating_sub(from),
            libc::MADV_POPULATE_WRITE,
        );
        let error = if result == 0 { 0 } else { errno.read() };
        errno.write(before);
        error
    }
}

/// Whether this is what a kernel before 5.14 says, which cannot be asked for room.
fn is_unknown(error: c_int) -> bool {
    error == libc::EINVAL
}

/// This thread's number, from 0 on.
fn thread_number() -> u32 {
    with_current(|thread| {
        if thread.number.get() == 0 {
            // Relaxed: see NEXT_THREAD.
            let next = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
            thread.number.set(next);
        }
        thread.number.get() - 1
    })
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
    write_in_place(descriptor);
    if let Some(file) = map(descriptor) {
        page.store(file, Ordering::Relaxed);
        // Release: whoever sees the page sees the file's address and its header.
        PAGE.store(ptr::from_ref(page).cast_mut(), Ordering::Release);
    } else {
        // An empty file says that there is no recording.
        // SAFETY: the descriptor is open for writing.
        unsafe { libc::ftruncate(descriptor, 0) };
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

/// Has btrfs store what is written over a page where the page is, as other file systems do. It takes new room for that
/// otherwise, also for pages that were made writable before and have reached the disk since: then a full disk would end the
/// program. Only an empty file can be told, and nothing can be done where the file system knows no such thing.
fn write_in_place(descriptor: c_int) {
    // `FS_NOCOW_FL` of linux/fs.h.
    let no_copy_on_write: c_int = 0x0080_0000;
    // SAFETY: the descriptor is open, and the kernel reads one `int` from the address.
    unsafe {
        libc::ioctl(
            descriptor,
            libc::FS_IOC_SETFLAGS,
            &raw const no_copy_on_write,
        )
    };
}

/// Gives the file its size, maps it and writes its header.
fn map(descriptor: c_int) -> Option<*mut RawHeader> {
    let bytes = largest_file().min(FILE_BYTES);
    let capacity = bytes.saturating_sub(size_of::<RawHeader>()) / size_of::<RawRecord>();
    if capacity == 0 {
        // Nor may anything be written to tell that: where standard error is a file, it would end the program.
        return None;
    }
    // SAFETY: the descriptor is open for writing, and the size is within what the process may write.
    if unsafe { libc::ftruncate(descriptor, bytes.cast_signed() as libc::off_t) } != 0 {
        complain(c"cannot make a sparse file of 8 GiB; put SCATTERHEAP_TRACE_FILE on another file system");
        return None;
    }
    // SAFETY: a new mapping of the whole file, at an address that the kernel chooses.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
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
    let first_piece = PIECE.min(end_of(capacity));
    // SAFETY: the bytes are mapped.
    match unsafe { populate(file, 0, first_piece) } {
        0 => {}
        error if is_unknown(error) => {
            complain(c"this kernel does not tell when a disk is full (Linux 5.14 does); that would end the program");
        }
        _ => {
            complain(c"no room for a recording; put SCATTERHEAP_TRACE_FILE on another disk");
            return None;
        }
    }
    ROOM.store(first_piece, Ordering::Relaxed);
    let header = RawHeader {
        magic: MAGIC,
        process: own_process(),
        padding: 0,
        claimed: 0,
        capacity: capacity as u64,
    };
    // SAFETY: the mapping is writable, larger than a header, aligned to a page, and nobody else's yet.
    unsafe { file.write(header) };
    Some(file)
}

/// The size in bytes that a file of this process may have. Who goes beyond is ended by a signal.
fn largest_file() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: there is a place for the result, which stays what it is on failure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
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
