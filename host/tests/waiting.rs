//! Allocations that wait until there is memory.

#![cfg(target_os = "linux")]

#[path = "conformance/giving.rs"]
mod giving;

use giving::give_back;
use scatterheap_host::resource::{
    Caching, DeviceMemory, DevicePointer, Error, Limiting, MemoryResource, Result, Waiting,
};
use scatterheap_host::{Device, Stream};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;

type Memory = Waiting<Caching<Limiting<DeviceMemory>>>;

fn memory(limit: u64) -> (Memory, Stream) {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let limited = Limiting::new(DeviceMemory::new(&device), limit);
    (Waiting::new(Caching::new(limited)), stream)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, counter: &Arc<Counter>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(counter.clone())))
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor that there is. A wake-up that is lost makes it fail.
fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => {
                let before = std::time::Instant::now();
                std::thread::park_timeout(Duration::from_secs(20));
                assert!(before.elapsed() < Duration::from_secs(20), "nobody woke it");
            }
        }
    }
}

#[test]
fn an_allocation_waits_until_something_is_freed() {
    let (memory, stream) = memory(2 * MIB);
    let held = memory.allocate(2 * MIB, 256, &stream).expect("memory");
    let counter = Arc::new(Counter::default());
    let mut waits = pin!(memory.allocate_async(MIB, 256, &stream));
    assert!(poll(waits.as_mut(), &counter).is_pending());
    assert!(poll(waits.as_mut(), &counter).is_pending());
    assert_eq!((memory.waiting(), counter.woken()), (1, 0));
    give_back(&memory, held, 2 * MIB, 256, &stream).expect("handed out");
    assert_eq!(counter.woken(), 1);
    let Poll::Ready(Ok(block)) = poll(waits, &counter) else {
        panic!("there is memory");
    };
    assert_eq!((memory.waiting(), memory.live().blocks), (0, 1));
    give_back(&memory, block, MIB, 256, &stream).expect("handed out");
}

#[test]
fn what_is_not_waited_for_any_more_takes_nothing() {
    let (memory, stream) = memory(2 * MIB);
    let held = memory.allocate(2 * MIB, 256, &stream).expect("memory");
    let (given_up, patient) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let mut first = Box::pin(memory.allocate_async(2 * MIB, 256, &stream));
    let mut second = pin!(memory.allocate_async(2 * MIB, 256, &stream));
    assert!(poll(first.as_mut(), &given_up).is_pending());
    assert!(poll(second.as_mut(), &patient).is_pending());
    give_back(&memory, held, 2 * MIB, 256, &stream).expect("handed out");
    // The first was woken, and is dropped all the same: the second must not miss it.
    drop(first);
    assert_eq!((given_up.woken(), patient.woken()), (1, 1));
    assert!(poll(second, &patient).is_ready());
    assert_eq!((memory.waiting(), memory.live().blocks), (0, 1));
}

#[test]
fn what_can_never_come_is_an_error() {
    let (memory, stream) = memory(MIB);
    let never = block_on(memory.allocate_async(2 * MIB, 256, &stream));
    assert!(
        matches!(never, Err(Error::LimitReached { .. })),
        "{never:?}"
    );
    let nothing = block_on(memory.allocate_async(0, 256, &stream));
    assert!(matches!(nothing, Err(Error::ZeroBytes)), "{nothing:?}");
    // Who waits for what can never come hears of it when the last block is back.
    let held = memory.allocate(MIB, 256, &stream).expect("memory");
    let counter = Arc::new(Counter::default());
    let mut waits = pin!(memory.allocate_async(2 * MIB, 256, &stream));
    assert!(poll(waits.as_mut(), &counter).is_pending());
    give_back(&memory, held, MIB, 256, &stream).expect("handed out");
    assert!(matches!(poll(waits, &counter), Poll::Ready(Err(_))));
}

#[test]
fn many_threads_wait_for_each_other() {
    let (memory, _) = memory(4 * MIB);
    std::thread::scope(|scope| {
        for number in 0..8_u64 {
            let memory = &memory;
            scope.spawn(move || {
                let stream = Stream::new(memory.device()).expect("a stream");
                for round in 0..400 {
                    let bytes = (1 + (number + round) % 4) * MIB;
                    let block: DevicePointer =
                        block_on(memory.allocate_async(bytes, 256, &stream)).expect("memory");
                    if round % 7 == 0 {
                        std::thread::yield_now();
                    }
                    give_back(&memory, block, bytes, 256, &stream).expect("handed out");
                }
            });
        }
    });
    assert_eq!((memory.waiting(), memory.live().blocks), (0, 0));
}

#[test]
fn a_block_that_others_allocated_wakes_but_is_not_waited_for() {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    let shared = Arc::new(Limiting::new(DeviceMemory::new(&device), MIB));
    let memory = Waiting::new(shared.clone());
    let half = |from: &dyn MemoryResource| from.allocate(MIB / 2, 256, &stream).expect("memory");
    let (other, own) = (half(&shared), half(&memory));
    let counter = Arc::new(Counter::default());
    let mut waits = pin!(memory.allocate_async(MIB, 256, &stream));
    assert!(poll(waits.as_mut(), &counter).is_pending());
    let free = |block| {
        let freed = give_back(&memory, block, MIB / 2, 256, &stream);
        freed.expect("handed out");
    };
    free(other);
    assert_eq!(counter.woken(), 1);
    // The other half may still come back.
    assert!(poll(waits.as_mut(), &counter).is_pending());
    free(own);
    assert!(matches!(poll(waits, &counter), Poll::Ready(Ok(_))));
}

#[test]
fn who_freed_a_block_of_others_does_not_wait_for_ever() {
    let (memory, stream) = memory(MIB);
    let other = memory
        .upstream()
        .allocate(256, 256, &stream)
        .expect("memory");
    give_back(&memory, other, 256, 256, &stream).expect("handed out");
    let never = block_on(memory.allocate_async(2 * MIB, 256, &stream));
    assert!(
        matches!(never, Err(Error::LimitReached { .. })),
        "{never:?}"
    );
}
