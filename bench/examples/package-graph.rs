//! Makes the graph of the test `graph` from a Debian package index:
//!
//! ```sh
//! apt-cache dumpavail | cargo run -p scatterheap-bench --example package-graph > bench/data/NAME.edges
//! ```
//!
//! Each package is a vertex, numbered in the order of the names. It has an edge to every package
//! that one of its fields `Depends`, `Pre-Depends` and `Recommends` names, alternatives included;
//! names of virtual packages are left out. The format is described in `bench/data/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

const FIELDS: [&str; 3] = ["Depends", "Pre-Depends", "Recommends"];

/// Names that each package's fields mention.
type Mentions = BTreeMap<String, BTreeSet<String>>;

fn main() -> ExitCode {
    match make(io::stdin().lock(), &mut io::stdout().lock()) {
        Ok((vertices, edges)) => {
            eprintln!("{vertices} vertices, {edges} edges");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(index: impl BufRead, output: &mut impl Write) -> io::Result<(usize, usize)> {
    let mentions = read(index)?;
    let adjacency = resolve(&mentions);
    let edges = adjacency.iter().map(Vec::len).sum();
    let mut bytes = Vec::new();
    push(&mut bytes, adjacency.len());
    push(&mut bytes, edges);
    for neighbours in &adjacency {
        push(&mut bytes, neighbours.len());
        let mut previous = 0;
        for neighbour in neighbours {
            push(&mut bytes, neighbour - previous);
            previous = *neighbour;
        }
    }
    output.write_all(&bytes)?;
    Ok((adjacency.len(), edges))
}

fn read(index: impl BufRead) -> io::Result<Mentions> {
    let mut mentions = Mentions::new();
    let mut package = String::new();
    for line in index.lines() {
        let line = line?;
        let Some((field, value)) = line.split_once(": ") else {
            continue;
        };
        if field == "Package" {
            value.clone_into(&mut package);
            mentions.entry(package.clone()).or_default();
        } else if FIELDS.contains(&field) {
            let names = value.split([',', '|']).map(str::trim);
            // A version, an architecture or a build profile may follow the name.
            let names = names.filter_map(|name| name.split([' ', '(', ':', '[']).next());
            let of_package = mentions.entry(package.clone()).or_default();
            of_package.extend(names.map(str::to_owned));
        }
    }
    Ok(mentions)
}

/// Numbers of the packages that each package mentions, in ascending order.
fn resolve(mentions: &Mentions) -> Vec<Vec<usize>> {
    let numbers: BTreeMap<&String, usize> = mentions.keys().zip(0..).collect();
    let adjacency = mentions.iter().map(|(package, names)| {
        let names = names.iter().filter(|name| *name != package);
        names
            .filter_map(|name| numbers.get(name).copied())
            .collect()
    });
    adjacency.collect()
}

/// Appends a number in groups of seven bits, the lowest first; all but the last have the top bit
/// set.
fn push(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}
