//! Both formats keep a trace as it is, and no bytes whatsoever make a reader panic.

use std::{env, fs, process};

use proptest::prelude::*;
use scatterheap_trace::{
    Kind, Operation, Trace, TraceError, binary_format, convert, csv_format, raw,
};

/// A valid trace from arbitrary choices: each is (thread, kind, which object, size, logarithm of the alignment).
fn build(choices: &[(u32, u8, usize, u64, u32)], sparse_ids: bool) -> Trace {
    let mut live: Vec<u64> = Vec::new();
    let mut operations = Vec::new();
    for (number, &(thread, kind, which, size, log2_alignment)) in (0_u64..).zip(choices) {
        let kind = Kind::from_code(kind % 4).expect("four kinds");
        let kind = if live.is_empty() && !kind.allocates() {
            Kind::Malloc
        } else {
            kind
        };
        let id = match kind {
            Kind::Malloc | Kind::Calloc => {
                let id = if sparse_ids {
                    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                } else {
                    number
                };
                live.push(id);
                id
            }
            Kind::Realloc => live[which % live.len()],
            Kind::Free => live.swap_remove(which % live.len()),
        };
        operations.push(Operation {
            thread,
            kind,
            id,
            size,
            alignment: 1 << log2_alignment,
        });
    }
    Trace::new(operations).expect("the trace is valid")
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let choice = (
        0..5_u32,
        any::<u8>(),
        any::<usize>(),
        1..=1_u64 << 48,
        0..32_u32,
    );
    (proptest::collection::vec(choice, 0..200), any::<bool>())
        .prop_map(|(choices, sparse_ids)| build(&choices, sparse_ids))
}

fn as_binary(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    binary_format::write(trace, &mut bytes).expect("memory takes it");
    bytes
}

fn as_csv(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    csv_format::write(trace, &mut bytes).expect("memory takes it");
    bytes
}

proptest! {
    #[test]
    fn both_formats_keep_the_trace(trace in any_trace()) {
        prop_assert_eq!(&Trace::from_reader(as_binary(&trace).as_slice()).unwrap(), &trace);
        prop_assert_eq!(&Trace::from_reader(as_csv(&trace).as_slice()).unwrap(), &trace);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let _ = Trace::from_reader(bytes.as_slice());
        let _ = binary_format::read(bytes.as_slice());
        let _ = csv_format::read(bytes.as_slice());
        let _ = convert([raw::MAGIC.as_slice(), &bytes].concat().as_slice());
        let _ = Trace::from_reader([b"thread,operation,id,size,alignment\n", bytes.as_slice()].concat().as_slice());
    }

    #[test]
    fn mutated_files_do_not_panic(
        trace in any_trace(),
        mutations in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cut in any::<usize>(),
    ) {
        for mut bytes in [as_binary(&trace), as_csv(&trace)] {
            for &(place, byte) in &mutations {
                let length = bytes.len();
                bytes[place % length] = byte;
            }
            // What is read all the same is a valid trace: it can be used.
            if let Ok(read) = Trace::from_reader(bytes.as_slice()) {
                let _ = read.renumbered().summary();
                let _ = read.split_by_lane(3, 2);
            }
            bytes.truncate(cut % bytes.len());
            let _ = Trace::from_reader(bytes.as_slice());
        }
    }

    #[test]
    fn a_cut_binary_file_is_refused(trace in any_trace(), cut in any::<usize>()) {
        let bytes = as_binary(&trace);
        let cut = cut % bytes.len();
        let refusal = Trace::from_reader(&bytes[..cut]).expect_err("the file was cut");
        if cut < binary_format::MAGIC.len() {
            prop_assert!(matches!(refusal, TraceError::Unrecognised { .. }), "{refusal}");
        } else {
            prop_assert!(matches!(refusal, TraceError::Truncated { .. }), "{refusal}");
        }
    }

    #[test]
    fn renumbering_uses_no_more_than_the_peak(trace in any_trace()) {
        let renumbered = trace.renumbered();
        let (before, after) = (trace.summary(), renumbered.summary());
        prop_assert_eq!(&before, &after);
        let used = renumbered.operations().iter().map(|operation| operation.id + 1).max().unwrap_or(0);
        prop_assert_eq!(used, before.peak_live_blocks);
        prop_assert!(Trace::new(renumbered.operations().to_vec()).is_ok());
    }

    #[test]
    fn a_split_replays_each_object_on_one_lane(mut trace in any_trace(), lanes in 1..9_u32, windows in 1..5_u32) {
        trace.close();
        let split = trace.split_by_lane(lanes, windows).unwrap();
        prop_assert_eq!(split.operations.len(), trace.operations().len());
        let (mut bytes, mut frees) = (0_u128, 0);
        for lane in 0..lanes {
            let mut live = vec![false; split.slots_per_lane as usize];
            for operation in (0..windows).flat_map(|window| split.operations_of(window, lane)) {
                let kind = Kind::from_code(operation.kind).unwrap();
                let slot = &mut live[operation.slot as usize];
                prop_assert_eq!(*slot, !kind.allocates());
                *slot = kind != Kind::Free;
                bytes += u128::from(operation.size);
                frees += u64::from(kind == Kind::Free);
            }
            prop_assert!(live.iter().all(|slot| !slot));
        }
        let summary = trace.summary();
        prop_assert_eq!((bytes, frees), (summary.total_bytes, summary.frees));
    }
}

#[test]
fn long_traces_span_several_blocks() {
    let objects = binary_format::BLOCK_RECORDS as u64;
    let operations = (0..objects)
        .flat_map(|id| {
            [
                Operation::malloc(0, id, id % 1000 + 1),
                Operation::free(0, id),
            ]
        })
        .chain([Operation::malloc(1, 5, 5)]);
    let trace = Trace::new(operations).unwrap();
    let bytes = as_binary(&trace);
    assert!(
        bytes.len() < trace.operations().len() / 10,
        "{} bytes",
        bytes.len()
    );
    assert_eq!(Trace::from_reader(bytes.as_slice()).unwrap(), trace);
}

#[test]
fn false_claims_are_refused_before_they_cost_memory() {
    let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1].as_slice();
    for claims in [
        // A block of 2^64 - 1 records; a column of as many bytes; a compressed column of as many.
        vec![largest],
        vec![&[1], largest, &[1]],
        vec![&[1], &[1], largest],
    ] {
        let bytes = [binary_format::MAGIC.as_slice(), &claims.concat()].concat();
        let refusal = Trace::from_reader(bytes.as_slice()).expect_err("the claim is false");
        assert!(matches!(refusal, TraceError::BadBlock { .. }), "{refusal}");
    }
}

#[test]
fn a_column_that_unpacks_to_more_than_it_claims_is_refused() {
    let bomb = miniz_oxide_zeros();
    let mut bytes = binary_format::MAGIC.to_vec();
    bytes.extend([1, 1, u8::try_from(bomb.len()).expect("a small bomb")]);
    bytes.extend(&bomb);
    let refusal = Trace::from_reader(bytes.as_slice()).expect_err("the column is a bomb");
    assert!(matches!(refusal, TraceError::BadBlock { .. }), "{refusal}");
}

/// A zlib stream of a few bytes that unpacks to 64 KiB of zeros.
fn miniz_oxide_zeros() -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; 1 << 16], 10)
}

#[test]
fn endless_input_that_is_no_trace_is_refused_at_once() {
    let refusal = Trace::from_reader(std::io::repeat(0)).expect_err("zeros are no trace");
    assert!(matches!(refusal, TraceError::Unrecognised { .. }));
}

#[test]
fn files_are_told_apart_by_content_and_errors_name_them() {
    let directory = env::temp_dir().join(format!("scatterheap-trace-{}", process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("any.name");
    let trace = Trace::new([Operation::malloc(0, 1, 8), Operation::free(0, 1)]).unwrap();
    trace.write_csv(&path).unwrap();
    assert_eq!(Trace::read(&path).unwrap(), trace);
    trace.write_binary(&path).unwrap();
    assert_eq!(Trace::read(&path).unwrap(), trace);

    fs::write(&path, "thread,operation,id,size,alignment\n0,free,3,,\n").unwrap();
    let message = Trace::read(&path)
        .expect_err("object 3 is not live")
        .to_string();
    assert!(
        message.contains("any.name: line 2: free of object 3"),
        "{message}"
    );
    let message = Trace::read(directory.join("absent"))
        .expect_err("no such file")
        .to_string();
    assert!(message.contains("absent"), "{message}");
    let message = trace
        .write_csv(directory.join("absent/file"))
        .expect_err("no such directory");
    assert!(message.to_string().contains("absent"), "{message}");
    fs::remove_dir_all(&directory).unwrap();
}
