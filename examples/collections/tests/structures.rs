//! What the examples are made of, on every device: against references, and with inputs that are difficult.

mod devices;

use devices::for_each_device;
use scatterheap::{Device, Heap};
use scatterheap_collections::packages::Graph;
use scatterheap_collections::{walks, words};
use std::collections::BTreeMap;

fn heap_of(device: &Device, capacity: u64) -> Heap {
    let built = Heap::builder(device).capacity(capacity).build();
    built.expect("there is memory")
}

fn assert_empty(heap: &Heap) {
    let snapshot = heap.snapshot().expect("the device works");
    assert!(snapshot.is_empty() && snapshot.violations().is_empty());
    assert!(snapshot.misuse_report().is_empty());
}

fn counts(words: &[(&str, u32)]) -> BTreeMap<String, u32> {
    let words = words.iter();
    words
        .map(|(word, count)| ((*word).to_owned(), *count))
        .collect()
}

#[test]
fn words_are_counted() {
    for_each_device("counting words", |device| {
        let heap = heap_of(device, 256 << 20);
        let count = |text: &str| {
            let counted = words::count(&heap, text.as_bytes()).expect("there is memory");
            assert_empty(&heap);
            let words: BTreeMap<_, _> = counted.words.iter().cloned().collect();
            assert_eq!(words.len(), counted.words.len(), "a word is there twice");
            words
        };
        assert!(count(" \n").is_empty());
        assert_eq!(count("One"), counts(&[("one", 1)]));
        assert_eq!(count("ä, b-B;ä"), counts(&[("b", 2), ("ä", 2)]));
        // Words that cross the ends of chunks, and one that spans several.
        let (long, many) = ("x".repeat(1000), "abcdefg ".repeat(1000));
        let expected = counts(&[(&long, 2), ("abcdefg", 1000)]);
        assert_eq!(count(&format!("{many}{long} {long}")), expected);
        // All threads insert different words, and all the same.
        let numbers = (0..100_000).map(|number| number.to_string() + " same\n");
        let found = count(&numbers.collect::<String>());
        assert_eq!((found.len(), found["same"]), (100_001, 100_000));
        assert!(
            found
                .iter()
                .all(|(word, count)| *count == 1 || word == "same")
        );
    });
}

#[test]
fn lists_of_lists_are_what_two_passes_write() {
    for_each_device("lists of lists", |device| {
        let heap = heap_of(device, 256 << 20);
        let none = Graph {
            vertices: 3,
            edges: vec![],
        };
        let star = Graph {
            vertices: 1000,
            edges: (1..1000)
                .map(|leaf| (0, leaf))
                .chain([(7, 0), (900, 0)])
                .collect(),
        };
        for graph in [none, star, Graph::debian()] {
            let walked = walks::walk(&heap, &graph).expect("there is memory");
            let reference = walks::reference(&graph);
            assert!(walked.by_lists == reference && walked.by_passes == reference);
            assert_empty(&heap);
        }
    });
}
