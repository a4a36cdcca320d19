//! `BinaryHeap`, `BTreeMap` and `BTreeSet`.

use super::Digest;
use crate::random::Random;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::vec::Vec;

pub(super) fn heap(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut numbers = BinaryHeap::new();
    for _ in 0..steps {
        match random.below(4) {
            0..=2 => numbers.push((random.number() as u32, random.below(100) as u8)),
            _ => digest.add_some(numbers.pop().map(|(number, _)| number)),
        }
    }
    for (number, small) in numbers.into_sorted_vec() {
        digest.add(u64::from(number) << 8 | u64::from(small));
    }
}

pub(super) fn map(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut map: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for _ in 0..steps {
        let key = random.below(64) as u32;
        match random.below(6) {
            0..=2 => map.entry(key).or_default().push(random.number() as u8),
            3 => digest.add_some(map.remove(&key).map(|bytes| bytes.len() as u64)),
            4 => digest.add_some(map.range(key..).next().map(|(key, _)| *key)),
            _ => {
                let upper = map.split_off(&key);
                digest.add(upper.len() as u64);
                map.extend(upper);
            }
        }
    }
    for (key, bytes) in &map {
        let sum: u64 = bytes.iter().copied().map(u64::from).sum();
        digest.add(u64::from(*key) << 32 | sum);
    }
}

pub(super) fn set(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut sets = [const { BTreeSet::new() }; 2];
    for _ in 0..steps {
        let (which, number) = (random.below(2), random.below(200) as u64);
        if random.below(3) > 0 {
            digest.add(u64::from(sets[which].insert(number)));
        } else {
            digest.add(u64::from(sets[which].remove(&number)));
        }
    }
    let [left, right] = &sets;
    for number in left.intersection(right).chain(left.difference(right)) {
        digest.add(*number);
    }
    digest.add_some(sets[0].pop_first());
    digest.add_some(sets[1].pop_last());
}
