//! `Vec`, `VecDeque` and `LinkedList`.

use super::Digest;
use crate::random::Random;
use alloc::collections::{LinkedList, VecDeque};
use alloc::vec::Vec;

pub(super) fn vector(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut numbers: Vec<u32> = Vec::new();
    for step in 0..steps {
        let (number, place) = (random.number() as u32, random.below(numbers.len() + 1));
        match random.below(12) {
            0..=3 => numbers.push(number),
            4 => numbers.insert(place, number),
            5 => digest.add_some(numbers.pop()),
            6 if place < numbers.len() => digest.add(u64::from(numbers.swap_remove(place))),
            7 => numbers.extend((0..place as u32 % 16).map(|more| number ^ more)),
            8 => {
                numbers.sort_unstable();
                numbers.dedup_by_key(|number| *number >> 28);
            }
            9 => digest.add(numbers.drain(place / 2..place).map(u64::from).sum()),
            10 => numbers.retain(|number| number % 3 != step % 3),
            _ => numbers.shrink_to_fit(),
        }
        digest.add(numbers.len() as u64);
    }
    // By what is not unique first: sorting networks, merges and partitions of elements of several words.
    let mut pairs: Vec<(u64, u32)> = numbers
        .iter()
        .map(|number| (u64::from(number % 7), *number))
        .collect();
    pairs.sort_unstable();
    for (first, second) in &pairs {
        digest.add(first ^ u64::from(*second));
    }
    let halves = numbers.split_off(numbers.len() / 2);
    let nested: Vec<Vec<u32>> = halves.chunks(3).map(<[u32]>::to_vec).collect();
    for number in nested.concat().iter().chain(&numbers) {
        digest.add(u64::from(*number));
    }
}

pub(super) fn deque(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut numbers: VecDeque<u16> = VecDeque::new();
    for _ in 0..steps {
        let number = random.number() as u16;
        match random.below(8) {
            0..=1 => numbers.push_back(number),
            2..=3 => numbers.push_front(number),
            4 => digest.add_some(numbers.pop_front()),
            5 => digest.add_some(numbers.pop_back()),
            6 if !numbers.is_empty() => numbers.rotate_left(random.below(numbers.len())),
            _ => numbers.insert(random.below(numbers.len() + 1), number),
        }
    }
    numbers.make_contiguous().sort_unstable();
    for number in &numbers {
        digest.add(u64::from(*number));
    }
}

pub(super) fn list(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut numbers: LinkedList<u64> = LinkedList::new();
    for _ in 0..steps {
        let number = random.number();
        match random.below(6) {
            0..=1 => numbers.push_back(number),
            2 => numbers.push_front(number),
            3 => digest.add_some(numbers.pop_front()),
            4 => digest.add_some(numbers.pop_back()),
            _ => {
                let mut rest = numbers.split_off(random.below(numbers.len() + 1));
                rest.append(&mut numbers);
                numbers = rest;
            }
        }
    }
    for number in &numbers {
        digest.add(*number);
    }
}
