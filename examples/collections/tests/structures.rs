//! What the examples are made of, on every device: against references, and with inputs that are difficult.

mod devices;

use devices::for_each_device;
use scatterheap::{Device, Heap};
use scatterheap_collections::graph::{Change, ChangingGraph};
use scatterheap_collections::kernels::mandelbrot::{View, subdivide};
use scatterheap_collections::kernels::octree::{DEPTH, Point};
use scatterheap_collections::kernels::random::Random;
use scatterheap_collections::packages::Graph;
use scatterheap_collections::{mandelbrot, octree, walks, words};
use std::collections::{BTreeMap, BTreeSet};

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

#[test]
fn a_graph_has_the_edges_that_came_and_did_not_go() {
    for_each_device("a changing graph", |device| {
        let heap = heap_of(device, 64 << 20);
        let (vertices, mut random) = (60, Random::new(5));
        let mut graph = ChangingGraph::new(&heap, vertices).expect("there is memory");
        let mut edges = BTreeSet::new();
        for round in 0..40 {
            let mut vertex =
                || u32::try_from(random.below(vertices as usize)).expect("it is below");
            let pairs = (0..=round * 3).map(|_| (vertex(), vertex()));
            let pairs = pairs.map(|(one, other)| (one.min(other), one.max(other)));
            let pairs: Vec<_> = pairs.filter(|(one, other)| one != other).collect();
            // Some are there already, some are not there, some are named twice.
            if round % 3 == 2 {
                graph
                    .change(Change::Delete, &pairs)
                    .expect("there is memory");
                edges.retain(|pair| !pairs.contains(pair));
            } else {
                graph
                    .change(Change::Insert, &pairs)
                    .expect("there is memory");
                edges.extend(pairs);
            }
            let has = |one: u32, other: u32| edges.contains(&(one.min(other), one.max(other)));
            let (triangles, _) = graph.triangles().expect("the device works");
            assert_eq!(triangles, triangles_of(vertices, has), "round {round}");
            let (distances, _) = graph.distances(7).expect("the device works");
            assert_eq!(distances, distances_of(vertices, 7, has), "round {round}");
        }
        graph.end().expect("the device works");
        assert_empty(&heap);
    });
}

fn triangles_of(vertices: u32, has: impl Fn(u32, u32) -> bool) -> u64 {
    let mut triangles = 0;
    for first in 0..vertices {
        for second in first + 1..vertices {
            let thirds = second + 1..vertices;
            let found = thirds.filter(|third| has(first, *third) && has(second, *third));
            triangles += if has(first, second) {
                found.count() as u64
            } else {
                0
            };
        }
    }
    triangles
}

/// Distances by going on until nothing gets nearer (Bellman and Ford).
fn distances_of(vertices: u32, start: u32, has: impl Fn(u32, u32) -> bool) -> Vec<Option<u32>> {
    let mut distances = vec![None; vertices as usize];
    distances[start as usize] = Some(0);
    for _ in 0..vertices {
        for (one, other) in
            (0..vertices).flat_map(|one| (0..vertices).map(move |other| (one, other)))
        {
            let Some(by_one) = distances[one as usize].filter(|_| has(one, other)) else {
                continue;
            };
            let known = distances[other as usize].unwrap_or(u32::MAX);
            distances[other as usize] = Some(known.min(by_one + 1));
        }
    }
    distances
}

#[test]
fn a_picture_is_what_its_tiles_are_one_after_another() {
    for_each_device("the Mandelbrot set", |device| {
        let heap = heap_of(device, 16 << 20);
        // Sides that are no multiples of a tile's, and a part of the set with thin threads. The last one fills many blocks.
        for (width, height, side) in [(301, 207, 64), (16, 500, 500), (1, 1, 8), (1536, 1024, 32)] {
            let view = View {
                left: -0.78,
                top: 0.1,
                step: 0.0003,
                width,
                most: 300,
            };
            let tiles = mandelbrot::first_tiles(&view, height, side);
            let drawn = mandelbrot::draw(&heap, view, height, &tiles).expect("there is memory");
            let (mut waiting, mut computed) = (tiles, 0);
            let mut steps = vec![u16::MAX; (width * height) as usize];
            let mut done = 0;
            while let Some(tile) = waiting.pop() {
                let parts = subdivide(&view, tile, &mut computed, |x, y, number| {
                    steps[usize::from(y) * width as usize + usize::from(x)] = number;
                });
                waiting.extend(parts.into_iter().flatten());
                done += 1;
            }
            assert!(steps == drawn.steps, "{width} × {height}");
            let rounds = drawn.rounds.iter();
            let sum = rounds.fold((0, 0), |(tiles, pixels), round| {
                (tiles + round.tiles, pixels + round.computed)
            });
            assert_eq!(sum, (done, computed));
            assert_empty(&heap);
        }
    });
}

#[test]
fn an_octree_finds_the_neighbours_that_all_points_have() {
    for_each_device("an octree", |device| {
        let heap = heap_of(device, 512 << 20);
        let most = (1 << DEPTH) - 1;
        let corners = [0, most].map(|at| Point([at, most - at, at]));
        // As many at one place as no leaf holds.
        let crowd = (0..70).map(|_| Point([5, 5, 5]));
        let clouds = [
            vec![],
            vec![Point([1, 2, 3])],
            corners.into_iter().chain(crowd).collect(),
            octree::cloud(3000, 9),
        ];
        for points in clouds {
            for radius in [0, 1000, u64::from(most)] {
                let searched = octree::search(&heap, &points, radius).expect("there is memory");
                for (index, found) in searched.found.iter().enumerate() {
                    assert_eq!(*found, octree::reference(&points, index, radius), "{index}");
                }
                let in_leaves: u64 = searched.levels.iter().map(|level| level.points).sum();
                assert_eq!(in_leaves, points.len() as u64);
                assert_empty(&heap);
            }
        }
    });
}
