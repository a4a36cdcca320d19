//! The trace that ships with the repository is what traces/README.md says.

use std::path::Path;

use scatterheap_trace::Trace;

#[test]
fn sqlite3() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/sqlite3.sctrace");
    let mut trace = Trace::read(path).expect("the shipped trace is valid");
    let summary = trace.summary();
    assert_eq!(summary.operations, 952_241);
    assert_eq!(
        (summary.peak_live_blocks, summary.peak_live_bytes),
        (4_116, 6_509_401)
    );
    assert_eq!((summary.threads, summary.never_freed), (42, 19));

    trace.close();
    let split = trace.split_by_lane(32, 64).expect("32 lanes are possible");
    // Each lane has about its share of the live objects.
    assert!(
        split.slots_per_lane < 4_116 / 32 * 2,
        "{} slots",
        split.slots_per_lane
    );
}
