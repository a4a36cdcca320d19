//! What a heap that grows makes of its host's answers: refusals, and pages that come late.

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::growth::{Answer, Growth, Mailbox};
use scatterheap_heap::layout::MIN_CAPACITY;
use std::alloc::Layout as Request;
use std::thread;
use std::time::{Duration, Instant};

/// Pages that have memory at first, and once all is there.
const FIRST_PAGES: u32 = 8;
const ALL_PAGES: u32 = 16;
const PAGE: u64 = MIN_CAPACITY / ALL_PAGES as u64;

/// The smallest heap, half of which is there, and its mailbox.
fn half_a_heap(patience: Duration) -> (Box<Mailbox>, HostHeap) {
    let mailbox = Box::new(Mailbox::new(Answer {
        pages: FIRST_PAGES,
        closed: false,
    }));
    let growth = Growth {
        mailbox: &raw const *mailbox as u64,
        patience: u64::try_from(patience.as_nanos()).expect("fits"),
        pages: FIRST_PAGES,
        low_water: 0,
    };
    let host = HostHeap::growing(MIN_CAPACITY, 1, growth);
    assert_eq!(host.heap().layout().page_count, ALL_PAGES);
    (mailbox, host)
}

#[test]
fn what_was_refused_does_not_stand_in_the_way_of_what_is_there() {
    let (mailbox, host) = half_a_heap(Duration::from_secs(60));
    let heap = host.heap();
    let (all, more) = (u64::from(FIRST_PAGES) * PAGE, u64::from(ALL_PAGES) * PAGE);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            // All pages are refused, one more is there.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(50) {
                match mailbox.request() {
                    ALL_PAGES => mailbox.refuse(FIRST_PAGES, ALL_PAGES),
                    request if request > FIRST_PAGES => {
                        mailbox.answer(Answer {
                            pages: request,
                            closed: true,
                        });
                        return request;
                    }
                    _ => {}
                }
                thread::yield_now();
            }
            0
        });
        let first = heap.malloc(all);
        assert!(!first.is_null());
        assert!(heap.malloc(more).is_null(), "refused");
        let one = heap.malloc(PAGE);
        assert!(!one.is_null(), "a page was to be had");
        assert_eq!(server.join().expect("no panic"), FIRST_PAGES + 1);
        // SAFETY: both are this thread's.
        unsafe {
            heap.free(one);
            heap.free(first);
        }
    });
}

#[test]
fn a_refused_request_that_does_not_wait_gives_way_to_a_smaller_one() {
    let (mailbox, host) = half_a_heap(Duration::ZERO);
    let heap = host.heap();
    let first = heap.malloc(u64::from(FIRST_PAGES) * PAGE);
    assert!(heap.malloc(u64::from(ALL_PAGES) * PAGE).is_null());
    assert_eq!(mailbox.request(), ALL_PAGES);
    // It stands while nobody asks for less, so that the host can try again.
    mailbox.refuse(FIRST_PAGES, ALL_PAGES);
    heap.admit_mapped();
    assert_eq!(mailbox.request(), ALL_PAGES);
    assert!(heap.malloc(PAGE).is_null());
    assert_eq!(mailbox.request(), FIRST_PAGES + 1);
    // SAFETY: the block is this thread's.
    unsafe { heap.free(first) };
}

#[test]
fn a_refused_request_does_not_push_out_a_smaller_one() {
    let (mailbox, host) = half_a_heap(Duration::ZERO);
    let heap = host.heap();
    let first = heap.malloc(u64::from(FIRST_PAGES) * PAGE);
    let too_much = u64::from(ALL_PAGES) * PAGE;
    assert!(heap.malloc(too_much).is_null());
    mailbox.refuse(FIRST_PAGES, ALL_PAGES);
    // The small one comes first, and the host reads the mailbox after both.
    assert!(heap.malloc(PAGE).is_null());
    assert!(heap.malloc(too_much).is_null());
    heap.admit_mapped();
    assert_eq!(mailbox.request(), FIRST_PAGES + 1);
    mailbox.answer(Answer {
        pages: FIRST_PAGES + 1,
        closed: false,
    });
    let page = heap.malloc(PAGE);
    assert!(!page.is_null());
    // It was answered, so the large one is asked for again.
    assert!(heap.malloc(too_much).is_null());
    assert_eq!(mailbox.request(), ALL_PAGES);
    // SAFETY: the blocks are this thread's.
    unsafe {
        heap.free(page);
        heap.free(first);
    }
}

#[test]
fn pages_that_came_too_late_to_be_admitted_are_retracted() {
    let (mailbox, host) = half_a_heap(Duration::ZERO);
    let heap = host.heap();
    let first = heap.malloc(u64::from(FIRST_PAGES) * PAGE);
    assert!(heap.malloc(PAGE).is_null(), "nothing is there");
    mailbox.answer(Answer {
        pages: ALL_PAGES,
        closed: true,
    });
    // Nobody has looked at the answer.
    // SAFETY: nobody else uses the heap.
    assert!(unsafe { heap.retract(FIRST_PAGES) });
    mailbox.clear_request();
    mailbox.answer(Answer {
        pages: FIRST_PAGES,
        closed: false,
    });
    heap.admit_mapped();
    assert_eq!(mailbox.request(), 0, "what was wanted is wanted no more");
    assert!(heap.malloc(PAGE).is_null());
    assert_eq!(mailbox.request(), FIRST_PAGES + 1);
    // SAFETY: the block is this thread's.
    unsafe { heap.free(first) };
}

#[test]
fn an_alignment_that_no_page_has_is_no_reason_to_grow() {
    let (mailbox, host) = half_a_heap(Duration::from_secs(60));
    let request = Request::from_size_align(64, 1 << 60).expect("a power of two");
    assert!(host.heap().aligned_alloc(request).is_null());
    assert!(host.heap().aligned_called(64, 1 << 63).is_null());
    assert_eq!(mailbox.request(), 0);
}
