//! Every target takes every input of its corpus, and some thousands that are made up by a seeded generator: bytes at
//! random, and inputs of the corpus with bytes changed.
//!
//! An input that made a target fail once is in the corpus, under a name that tells of what.

use scatterheap_fuzz_targets::{TARGETS, Target};
use std::collections::BTreeMap;
use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Inputs that are made up for each target.
const MADE_UP: u32 = 1500;
/// Seconds that one input may take, on a machine that does much else.
const PATIENCE: u64 = 60;

/// The corpus of a target, by the names of the files.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let files = fs::read_dir(corpus.join(target)).expect("each target has a corpus");
    files
        .map(|file| {
            let file = file.expect("the corpus can be read");
            let bytes = fs::read(file.path()).expect("the input can be read");
            (file.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 8) % end.max(1) as u64).expect("below the end")
    }

    fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }

    /// Bytes at random; most inputs are short.
    fn bytes(&mut self) -> Vec<u8> {
        let shift = self.below(8);
        let length = self.below(2048 >> shift);
        (0..length).map(|_| self.byte()).collect()
    }

    /// The same input with some bytes changed, removed or repeated.
    fn changed(&mut self, input: &[u8]) -> Vec<u8> {
        let mut input = input.to_vec();
        for _ in 0..=self.below(4) {
            let place = self.below(input.len());
            match self.below(4) {
                0 => input.insert(place, self.byte()),
                1 if !input.is_empty() => {
                    input.remove(place);
                }
                2 if !input.is_empty() => input[place] = self.byte(),
                _ => {
                    let end = (place + self.below(64)).min(input.len());
                    let piece = input[place..end].to_vec();
                    input.extend(piece);
                }
            }
        }
        input
    }
}

/// Runs a target on inputs, one after the other. The one that it fails on, or does not come back from, is named.
fn feed(target: Target, inputs: Vec<(String, Vec<u8>)>) {
    let current = Arc::new(Mutex::new(String::new()));
    let shown = Arc::clone(&current);
    let (done, progress) = mpsc::channel();
    let worker = thread::spawn(move || {
        for (name, input) in inputs {
            name.clone_into(&mut shown.lock().unwrap_or_else(PoisonError::into_inner));
            (target.run)(&input);
            // Nobody listens where the time is over.
            let _late = done.send(());
        }
    });
    let name = || {
        current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    let ending = loop {
        match progress.recv_timeout(Duration::from_secs(PATIENCE)) {
            Ok(()) => {}
            Err(ending) => break ending,
        }
    };
    assert_eq!(
        ending,
        RecvTimeoutError::Disconnected,
        "{} does not come back from {}",
        target.name,
        name()
    );
    if let Err(panic) = worker.join() {
        eprintln!("the input is {} of {}", name(), target.name);
        resume_unwind(panic);
    }
}

fn try_target(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name);
    let target = target.expect("there is such a target");
    let corpus: Vec<_> = corpus(name).into_iter().collect();
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut inputs = corpus.clone();
    for number in 0..MADE_UP {
        let input = if number % 2 == 0 {
            random.bytes()
        } else {
            let origin = random.below(corpus.len());
            random.changed(&corpus[origin].1)
        };
        inputs.push((format!("made-up input {number}: {input:?}"), input));
    }
    feed(target, inputs);
}

#[test]
fn operations() {
    try_target("operations");
}

#[test]
fn threads() {
    try_target("threads");
}

#[test]
fn trace() {
    try_target("trace");
}

#[test]
fn snapshot() {
    try_target("snapshot");
}

#[test]
fn sizes() {
    try_target("sizes");
}

#[test]
fn tables() {
    try_target("tables");
}

#[test]
fn every_target_and_no_other_has_a_corpus() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let mut found: Vec<String> = fs::read_dir(corpora)
        .expect("there are corpora")
        .map(|entry| {
            let entry = entry.expect("it can be listed");
            entry.file_name().to_string_lossy().into_owned()
        })
        .collect();
    found.sort();
    let mut targets = TARGETS.map(|target| target.name).to_vec();
    targets.sort_unstable();
    assert_eq!(found, targets);
}
