//! All scenarios, but for the one that was recorded.

use super::scenario::{Operation, Scenario, read};
use crate::Result;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::Read;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The name of the scenario of a real program, whose trace is recorded.
pub const TRANSFORMER: &str = "transformer";

/// The scenarios that are made here. The quick ones have fewer rounds and operations, and less memory.
#[must_use]
pub fn scenarios(seed: u64, quick: bool) -> Vec<Scenario> {
    let few = |usual: u32, quickly: u32| if quick { quickly } else { usual };
    let scenario = |name, rounds, capacity, operations| Scenario {
        name,
        rounds,
        capacity,
        operations,
    };
    // No less in a quick run: of a few hundred granules a twentieth may lie in parts that are of no use.
    let pressed = 4096 * MIB;
    let variable = if quick { 128 * MIB } else { 2048 * MIB };
    let mut random = StdRng::seed_from_u64(seed);
    vec![
        scenario("same_size", few(20_000, 300), 0, batch(32, 64 * KIB)),
        scenario(
            "large",
            few(50, 2),
            0,
            replacing(&mut random, few(2000, 200), 8, (MIB + 1, 64 * MIB)),
        ),
        scenario(
            "pressure",
            few(5, 1),
            pressed,
            filling(
                &mut random,
                few(20_000, 1000),
                pressed / 100 * 95,
                (pressed / 4096, pressed / 64),
            ),
        ),
        scenario(
            "variable",
            few(2, 1),
            0,
            filling(&mut random, few(1_000_000, 20_000), variable, (256, MIB)),
        ),
        scenario("one_mib", few(10_000, 100), 0, batch(1, MIB).repeat(100)),
    ]
}

/// The scenario of a recorded trace, which is read from `place`.
///
/// # Errors
///
/// If the trace makes no sense.
pub fn transformer(trace: impl Read, place: &str, quick: bool) -> Result<Scenario> {
    Ok(Scenario {
        name: TRANSFORMER,
        rounds: if quick { 10 } else { 1000 },
        capacity: 0,
        operations: read(trace, place)?,
    })
}

fn operation(allocates: bool, slot: usize, bytes: u64) -> Operation {
    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
    Operation {
        allocates,
        slot,
        bytes,
    }
}

/// Allocates so many blocks and frees them in the same order.
fn batch(count: usize, bytes: u64) -> Vec<Operation> {
    let all = |allocates| (0..count).map(move |slot| operation(allocates, slot, bytes));
    all(true).chain(all(false)).collect()
}

/// A size of this range, each power of two as likely as any other.
fn size(random: &mut StdRng, (least, most): (u64, u64)) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes need not be exact"
    )]
    {
        let (least, ratio) = (least as f64, most as f64 / least as f64);
        (least * ratio.powf(random.random::<f64>())) as u64
    }
}

/// So many blocks at once; again and again one of them is replaced.
fn replacing(random: &mut StdRng, count: u32, slots: usize, sizes: (u64, u64)) -> Vec<Operation> {
    let (mut live, mut operations) = (vec![0; slots], Vec::new());
    for _ in 0..count / 2 {
        let slot = random.random_range(0..slots);
        if live[slot] > 0 {
            operations.push(operation(false, slot, live[slot]));
        }
        live[slot] = size(random, sizes);
        operations.push(operation(true, slot, live[slot]));
    }
    free_all(&live, operations)
}

/// Blocks are allocated as long as they fit into `most` bytes; else some are freed before, whichever.
fn filling(random: &mut StdRng, count: u32, most: u64, sizes: (u64, u64)) -> Vec<Operation> {
    let (mut live, mut used) = (Vec::<u64>::new(), 0);
    let (mut taken, mut free) = (Vec::<usize>::new(), Vec::new());
    let mut operations = Vec::new();
    while operations.len() < count as usize {
        let bytes = size(random, sizes);
        while used + bytes > most {
            let slot = taken.swap_remove(random.random_range(0..taken.len()));
            operations.push(operation(false, slot, live[slot]));
            used -= std::mem::take(&mut live[slot]);
            free.push(slot);
        }
        let slot = free.pop().unwrap_or_else(|| {
            live.push(0);
            live.len() - 1
        });
        operations.push(operation(true, slot, bytes));
        live[slot] = bytes;
        taken.push(slot);
        used += bytes;
    }
    free_all(&live, operations)
}

fn free_all(live: &[u64], mut operations: Vec<Operation>) -> Vec<Operation> {
    let left = live.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    operations.extend(left.map(|(slot, bytes)| operation(false, slot, *bytes)));
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_live_after_a_scenario_and_the_same_seed_gives_the_same() {
        let made = scenarios(1, true);
        assert_eq!(made, scenarios(1, true));
        assert_ne!(made, scenarios(2, true));
        for scenario in made {
            let mut live = vec![0; scenario.slots()];
            for operation in &scenario.operations {
                let slot = &mut live[operation.slot as usize];
                if operation.allocates {
                    assert_eq!(std::mem::replace(slot, operation.bytes), 0);
                } else {
                    assert_eq!(std::mem::take(slot), operation.bytes);
                }
            }
            assert!(live.iter().all(|bytes| *bytes == 0), "{}", scenario.name);
            let limit = scenario.capacity / 100 * 95;
            assert!(limit == 0 || scenario.peak() <= limit && scenario.peak() > limit / 100 * 97);
        }
    }
}
