//! A block that another thread frees while it is being freed: adaptors count it once.

#![cfg(target_os = "linux")]

use parking_lot::Mutex;
use scatterheap_host::resource::{
    BlockPool, DeviceMemory, DevicePointer, Error, Limiting, Live, MemoryResource, Result,
    Statistics, Tracking, Waiting,
};
use scatterheap_host::{Device, Stream};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

type Work = Box<dyn FnOnce() + Send>;

/// One block, and what another thread does before it is taken back.
struct Between {
    memory: BlockPool<DeviceMemory>,
    work: Mutex<Option<Work>>,
}

impl fmt::Debug for Between {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Between")
    }
}

// SAFETY: the blocks are those of the pool.
unsafe impl MemoryResource for Between {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        self.memory.allocate(bytes, alignment, stream)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let work = self.work.lock().take();
        if let Some(work) = work {
            std::thread::spawn(work).join().expect("no panic");
        }
        // SAFETY: as the caller promises.
        unsafe { self.memory.deallocate(pointer, bytes, alignment, stream) }
    }

    fn live(&self) -> Live {
        self.memory.live()
    }
}

fn free(
    memory: &impl MemoryResource,
    block: DevicePointer,
    bytes: u64,
    stream: &Stream,
) -> Result<()> {
    // SAFETY: the tests use no block that they give back.
    unsafe { memory.deallocate(block, bytes, 256, stream) }
}

fn between() -> (Arc<Between>, Stream) {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let memory = BlockPool::new(DeviceMemory::new(&device), 4096, 1).expect("memory");
    let work = Mutex::default();
    (Arc::new(Between { memory, work }), stream)
}

/// Who has the block again, with 2000 bytes, after the other thread freed it.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    Nobody,
    /// That thread, through the adaptor.
    Through,
    /// That thread, from what the adaptor gets its memory from.
    Below,
}

/// Frees a block of 1000 bytes, which another thread frees, and then perhaps gets again with 2000, after the adaptor's
/// note of it is taken out and before the upstream has it back. What the first thread is told, and that block.
fn free_twice<M: MemoryResource + 'static>(
    memory: &Arc<M>,
    below: &Arc<Between>,
    stream: &Stream,
    taken: Again,
) -> (Error, Option<DevicePointer>) {
    let block = memory.allocate(1000, 256, stream).expect("memory");
    let again = Arc::new(Mutex::new(None));
    let (other, result, on) = (memory.clone(), again.clone(), stream.clone());
    let source = below.clone();
    *below.work.lock() = Some(Box::new(move || {
        free(&other, block, 1000, &on).expect("handed out");
        let from: &dyn MemoryResource = match taken {
            Again::Nobody => return,
            Again::Through => &other,
            Again::Below => &source,
        };
        *result.lock() = Some(from.allocate(2000, 256, &on).expect("memory"));
    }));
    let error = free(memory, block, 1000, stream).expect_err("is back already");
    let again = again.lock().take();
    assert!(again.is_none_or(|again| again == block));
    (error, again)
}

/// Frees a block twice at once, and looks at what an adaptor counts then, and with another block there.
fn check<M: MemoryResource + 'static>(
    memory: &Arc<M>,
    (below, stream): &(Arc<Between>, Stream),
    counted: impl Fn() -> u64,
    counts_of_2000: u64,
) {
    let (error, _) = free_twice(memory, below, stream, Again::Nobody);
    assert!(matches!(error, Error::DoubleFree(..)), "{error}");
    assert_eq!(counted(), 0);
    for (taken, counts) in [(Again::Through, counts_of_2000), (Again::Below, 0)] {
        let (error, again) = free_twice(memory, below, stream, taken);
        assert!(matches!(error, Error::WrongSize { .. }), "{error}");
        assert_eq!(counted(), counts);
        let again = again.expect("the other thread's");
        free(memory, again, 2000, stream).expect("handed out");
        assert_eq!(counted(), 0);
    }
}

#[test]
fn a_limit_counts_it_once() {
    let below = between();
    let memory = Arc::new(Limiting::new(below.0.clone(), 4096));
    check(&memory, &below, || memory.used(), 2048);
}

#[test]
fn statistics_count_it_once() {
    let below = between();
    let memory = Arc::new(Statistics::new(below.0.clone()));
    check(&memory, &below, || memory.counts().bytes, 2000);
    let counts = memory.counts();
    assert_eq!(
        (counts.allocations, counts.deallocations, counts.failures),
        (4, 5, 3)
    );
}

#[test]
fn a_report_has_what_is_there() {
    let below = between();
    let memory = Arc::new(Tracking::without_backtraces(below.0.clone()));
    let bytes = || memory.report().0.iter().map(|block| block.bytes).sum();
    check(&memory, &below, bytes, 2000);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nobody_waits_for_it() {
    let (below, stream) = between();
    let memory = Arc::new(Waiting::new(Limiting::new(below.clone(), 4096)));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);
    // More than there will ever be: it waits as long as something may come back.
    let held = memory.allocate(1000, 256, &stream).expect("memory");
    let mut waits = pin!(memory.allocate_async(5000, 256, &stream));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    free(&memory, held, 1000, &stream).expect("handed out");
    let never = waits.as_mut().poll(&mut context);
    assert!(matches!(never, Poll::Ready(Err(_))), "{never:?}");
    // The same where another thread came between.
    let (error, _) = free_twice(&memory, &below, &stream, Again::Nobody);
    assert!(matches!(error, Error::DoubleFree(..)), "{error}");
    let mut waits = pin!(memory.allocate_async(5000, 256, &stream));
    let never = waits.as_mut().poll(&mut context);
    assert!(matches!(never, Poll::Ready(Err(_))), "{never:?}");
}

#[test]
fn who_waits_is_woken_when_it_is_known_that_nothing_comes_back() {
    let (below, stream) = between();
    let memory = Arc::new(Waiting::new(below.clone()));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);
    let block = memory.allocate(1000, 256, &stream).expect("memory");
    let mut waits = pin!(memory.allocate_async(1000, 256, &stream));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    let (other, on) = (memory.clone(), stream.clone());
    *below.work.lock() = Some(Box::new(move || {
        free(&other, block, 1000, &on).expect("handed out");
    }));
    free(&memory, block, 1000, &stream).expect_err("is back already");
    // By the thread that gave it back, and by the one that was told that it is.
    assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    assert!(matches!(
        waits.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
}
