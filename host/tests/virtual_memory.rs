//! Reservations and physical memory on the CPU: what is mapped can be used, moved, and is given
//! back.

#![cfg(target_os = "linux")]

use scatterheap_host::{Device, Error};

/// A mapped word.
///
/// # Safety
///
/// Memory must be mapped there.
unsafe fn word(address: u64) -> &'static mut u64 {
    // SAFETY: as the caller promises.
    unsafe { &mut *(address as *mut u64) }
}

#[test]
fn memory_is_mapped_and_keeps_its_content_when_it_moves() {
    let device = Device::cpu();
    let granule = device.granule().expect("a granule");
    let range = device.reserve(8 * granule, 1 << 22).expect("addresses");
    assert_eq!(range.address() % (1 << 22), 0);
    range
        .map(0, device.create_memory(granule).expect("memory"))
        .expect("room");
    range
        .map(
            2 * granule,
            device.create_memory(2 * granule).expect("memory"),
        )
        .expect("room");
    assert_eq!(range.mapped_bytes(), 3 * granule);
    // SAFETY: mapped above.
    unsafe {
        *word(range.address()) = 11;
        *word(range.address() + 4 * granule - 8) = 22;
        let moved = range.unmap(2 * granule).expect("unmapped").expect("memory");
        assert_eq!(moved.bytes(), 2 * granule);
        range.map(granule, moved).expect("room");
        assert_eq!(*word(range.address()), 11);
        assert_eq!(*word(range.address() + 3 * granule - 8), 22);
        assert!(range.unmap(5 * granule).expect("nothing there").is_none());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let granule = device.granule().expect("a granule");
    let range = device.reserve(4 * granule, granule).expect("addresses");
    let memory = |granules| device.create_memory(granules * granule).expect("memory");
    range.map(granule, memory(2)).expect("room");
    for (offset, granules) in [(0, 2), (granule, 1), (2 * granule, 1), (3 * granule, 2)] {
        let refused = range.map(offset, memory(granules));
        assert!(
            matches!(refused, Err(Error::OutOfBounds { .. })),
            "{offset}: {refused:?}"
        );
    }
    range.map(0, memory(1)).expect("room");
    range.map(3 * granule, memory(1)).expect("room");
    let refused = device.create_memory(1 << 60);
    assert!(
        matches!(refused, Err(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_is_dropped_is_given_back() {
    let device = Device::cpu();
    let mappings = || {
        std::fs::read_to_string("/proc/self/maps")
            .expect("maps")
            .lines()
            .count()
    };
    let files = || std::fs::read_dir("/proc/self/fd").expect("files").count();
    let run = || {
        let range = device.reserve(64 << 20, 2 << 20).expect("addresses");
        for piece in 0..8 {
            let memory = device.create_memory(2 << 20).expect("memory");
            range.map(piece * (4 << 20), memory).expect("room");
        }
    };
    run();
    let before = (mappings(), files());
    for _ in 0..32 {
        run();
    }
    let after = (mappings(), files());
    // Other tests of this program run beside this one.
    assert!(
        after.0 < before.0 + 32 && after.1 < before.1 + 32,
        "{before:?} {after:?}"
    );
}

#[test]
fn nothing_is_mapped_over_what_is_mapped_a_second_time() {
    let device = Device::cpu();
    let granule = device.granule().expect("a granule");
    let range = device.reserve(6 * granule, granule).expect("addresses");
    let memory = |granules| device.create_memory(granules * granule).expect("memory");
    range.map(0, memory(1)).expect("room");
    range.map(granule, memory(1)).expect("room");
    range.alias(3 * granule, &[0, granule]).expect("room");
    for (first, granules) in [(2, 2), (2, 4), (3, 1), (4, 1), (4, 2)] {
        let refused = range.map(first * granule, memory(granules));
        assert!(
            matches!(refused, Err(Error::OutOfBounds { .. })),
            "{granules} at {first}: {refused:?}"
        );
    }
    let twice = range.alias(4 * granule, &[0]);
    assert!(matches!(twice, Err(Error::OutOfBounds { .. })), "{twice:?}");
    range.map(2 * granule, memory(1)).expect("room");
    range.map(5 * granule, memory(1)).expect("room");
    // SAFETY: nobody uses it.
    unsafe { range.unalias(3 * granule) }.expect("taken away");
    range.map(3 * granule, memory(2)).expect("room again");
}

#[test]
fn more_than_there_are_addresses_is_refused() {
    let device = Device::cpu();
    for asked in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let addresses = device.reserve(asked, 1);
        assert!(addresses.is_err(), "{asked}: {addresses:?}");
        let memory = device.create_memory(asked);
        assert!(
            matches!(memory, Err(Error::OutOfMemory { asked: found, .. }) if found == asked),
            "{asked}: {memory:?}"
        );
    }
}
