//! That a weakened ordering is weak, and that sites are found where they are: a message passed by
//! each kind of operation, and each test run again, in a process of its own, with one ordering
//! weakened.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use scatterheap_simt::atomic::{DeviceAtomicU32, Ordering, SystemAtomicU64, fence};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

/// The first line of this file with `text`.
fn line_of(text: &str) -> usize {
    let mut lines = include_str!("weakening.rs").lines();
    1 + lines
        .position(|line| line.contains(text))
        .expect("there is one")
}

struct Letter<F> {
    content: UnsafeCell<u32>,
    flag: F,
}

// SAFETY: loom watches the content.
unsafe impl<F: Sync> Sync for Letter<F> {}
// SAFETY: as above.
unsafe impl<F: Send> Send for Letter<F> {}

/// One thread writes the content and sends, the other reads it if it has received.
fn pass(send: fn(&DeviceAtomicU32), received: fn(&DeviceAtomicU32) -> bool) {
    pass_by(|| DeviceAtomicU32::new(0), send, received);
}

/// The same by a flag of another kind.
fn pass_by<F: Send + Sync + 'static>(flag: fn() -> F, send: fn(&F), received: fn(&F) -> bool) {
    loom::model(move || {
        let letter = Arc::new(Letter {
            content: UnsafeCell::new(0),
            flag: flag(),
        });
        let given = letter.clone();
        let sender = loom::thread::spawn(move || {
            // SAFETY: loom checks it.
            given.content.with_mut(|content| unsafe { *content = 1 });
            send(&given.flag);
        });
        if received(&letter.flag) {
            // SAFETY: loom checks it.
            letter
                .content
                .with(|content| unsafe { assert_eq!(*content, 1) });
        }
        sender.join().expect("no panic");
    });
}

#[test]
fn a_message_by_store_and_load() {
    pass(
        |flag| flag.store(1, Ordering::Release),
        |flag| flag.load(Ordering::Acquire) == 1,
    );
}

#[test]
fn a_message_to_the_host() {
    pass_by(
        || SystemAtomicU64::new(0),
        |shared| shared.store(1, Ordering::Release),
        |shared| shared.load(Ordering::Acquire) == 1,
    );
}

#[test]
fn a_message_by_changes() {
    pass(
        |flag| assert_eq!(flag.fetch_add(1, Ordering::AcqRel), 0),
        |flag| {
            let result = flag.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);
            result == Ok(1)
        },
    );
}

#[test]
fn a_message_by_fences() {
    pass(
        |flag| {
            fence(Ordering::Release);
            flag.store(1, Ordering::Relaxed);
        },
        |flag| {
            let seen = flag.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            seen == 1
        },
    );
}

/// A test of this file in a process of its own.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test]);
    command.env_remove("SCATTERHEAP_WEAKEN");
    command.env_remove("SCATTERHEAP_SITES");
    command
}

fn passes_with(test: &str, place: &str, ordering: &str) -> bool {
    let site = format!("{}:{}:{ordering}", file!(), line_of(place));
    let mut command = again(test);
    let output = command.env("SCATTERHEAP_WEAKEN", site).output();
    output.expect("this program starts").status.success()
}

#[test]
fn a_weakened_ordering_passes_no_message() {
    let messages = [
        (
            "a_message_by_store_and_load",
            ["flag.store(1, Ordering::Rel", "flag.load(Ordering::Acq"],
        ),
        (
            "a_message_by_fences",
            ["fence(Ordering::Rel", "fence(Ordering::Acq"],
        ),
        ("a_message_to_the_host", ["shared.store(1", "shared.load("]),
        (
            "a_message_by_changes",
            ["fetch_add(1", "compare_exchange(1"],
        ),
    ];
    for (test, places) in messages {
        assert!(again(test).output().expect("starts").status.success());
        for place in places {
            assert!(!passes_with(test, place, "relaxed"), "{place} relaxed");
        }
    }
}

#[test]
fn half_an_ordering_passes_its_half() {
    let test = "a_message_by_changes";
    assert!(passes_with(test, "fetch_add(1", "release"));
    assert!(!passes_with(test, "fetch_add(1", "acquire"));
    assert!(passes_with(test, "compare_exchange(1", "acquire"));
    assert!(!passes_with(test, "compare_exchange(1", "release"));
}

#[test]
fn what_is_not_weaker_is_refused() {
    let test = "a_message_by_store_and_load";
    assert!(!passes_with(test, "flag.store(1, Ordering::Rel", "acquire"));
    assert!(!passes_with(
        test,
        "flag.store(1, Ordering::Rel",
        "stronger"
    ));
}

#[test]
fn sites_are_those_stronger_than_relaxed() {
    let directory = std::env::temp_dir();
    let path = directory.join(format!("scatterheap-sites-{}", std::process::id()));
    let mut sites = BTreeSet::new();
    for test in ["a_message_by_fences", "a_message_by_changes"] {
        let output = again(test).env("SCATTERHEAP_SITES", &path).output();
        assert!(output.expect("this program starts").status.success());
    }
    let written = std::fs::read_to_string(&path).expect("sites were written");
    std::fs::remove_file(&path).expect("it is there");
    for line in written.lines() {
        assert!(sites.insert(line.to_owned()), "`{line}` twice");
    }
    let site = |place, operation, ordering| {
        format!("{}\t{}\t{operation}\t{ordering}", file!(), line_of(place))
    };
    let expected = [
        site("fence(Ordering::Rel", "fence", "Release"),
        site("fence(Ordering::Acq", "fence", "Acquire"),
        site("fetch_add(1", "fetch_add", "AcqRel"),
        site("compare_exchange(1", "compare_exchange", "AcqRel"),
    ];
    assert_eq!(sites, BTreeSet::from(expected));
}
