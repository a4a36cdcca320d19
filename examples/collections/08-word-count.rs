//! Counts the words of files in a hash table with chained buckets, which all threads insert into at once. Every entry
//! and every word is a block of the heap.
//!
//! `cargo run -p scatterheap-collections --example 08-word-count -- FILE…` runs on the CPU, with `--device cuda:0` on a GPU. Without
//! files it counts the words of the Apache licence, which stay what they are.

use anyhow::{Context, Result};
use scatterheap::Heap;
use scatterheap::size::Bytes;
use scatterheap_collections::table::{milliseconds, table};
use scatterheap_collections::{open_for_example, words};
use std::collections::HashMap;

/// What is counted if no files are given.
const LICENCE: &str = include_str!("../../LICENSE-APACHE");

fn main() -> Result<()> {
    let (device, files) = open_for_example()?;
    let mut text = Vec::new();
    for file in &files {
        text.extend(std::fs::read(file).with_context(|| format!("cannot read {file}"))?);
        text.push(b'\n');
    }
    if files.is_empty() {
        text = LICENCE.into();
    }
    let heap = Heap::builder(&device)
        .capacity((64 << 20).max(text.len() as u64 * 8))
        .build()?;
    let counted = words::count(&heap, &text)?;

    let total: u64 = counted
        .words
        .iter()
        .map(|(_, count)| u64::from(*count))
        .sum();
    println!(
        "{} of text on {device}: {total} words, {} different ones",
        Bytes(text.len() as u64),
        counted.words.len()
    );
    println!(
        "the table had {} blocks of {}; counted in {}, emptied in {}\n",
        counted.occupancy.used_blocks,
        Bytes(counted.occupancy.used_bytes),
        milliseconds(counted.seconds[0]),
        milliseconds(counted.seconds[1])
    );
    let rows = counted.words.iter().take(12);
    let rows = rows.map(|(word, count)| [word.clone(), count.to_string()]);
    println!("{}", table(["word", "times"], rows));

    assert_eq!(
        counted.words.iter().cloned().collect::<HashMap<_, _>>(),
        reference(&text)
    );
    assert!(heap.snapshot()?.is_empty());
    println!("\nthe host counts the same, and the heap is empty again");
    Ok(())
}

/// The same on the host, another way.
fn reference(text: &[u8]) -> HashMap<String, u32> {
    let text = String::from_utf8_lossy(text);
    let is_between = |letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric();
    let mut counts = HashMap::new();
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_ascii_lowercase()).or_insert(0) += 1;
    }
    counts
}
