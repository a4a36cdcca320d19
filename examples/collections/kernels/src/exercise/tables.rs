//! hashbrown's `HashMap`. Its hasher has no seed: see this crate's manifest.

use super::Digest;
use crate::random::Random;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

pub(super) fn table(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut table: HashMap<u32, u64, FxBuildHasher> = HashMap::default();
    for _ in 0..steps {
        let key = random.below(300) as u32;
        match random.below(8) {
            0..=3 => *table.entry(key).or_insert(0) += random.number() >> 40,
            4 => digest.add_some(table.remove(&key)),
            5 => digest.add_some(table.get(&key).copied()),
            6 if random.below(10) == 0 => table.retain(|key, _| key % 7 != 0),
            _ => digest.add_some(table.insert(key, 1)),
        }
    }
    // The order is the table's own.
    let sum = |sum: u64, (key, value): (&u32, &u64)| {
        sum.wrapping_add(crate::random::mix(u64::from(*key) ^ value << 16))
    };
    digest.add(table.iter().fold(table.len() as u64, sum));
}
