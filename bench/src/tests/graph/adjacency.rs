//! Edges sorted by the vertex that they begin at.

use std::ops::Range;

/// Where an edge begins and where it ends.
pub(super) type Edge = (u32, u32);

/// The edges of a graph, or some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Adjacency {
    /// Where each vertex's edges begin in `targets`, and a last end.
    begins: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// A graph from these edges.
    pub fn new(vertices: u32, mut edges: Vec<Edge>) -> Self {
        edges.sort_unstable();
        let mut begins = vec![0; vertices as usize + 1];
        for (source, _) in &edges {
            begins[*source as usize + 1] += 1;
        }
        for vertex in 0..vertices as usize {
            begins[vertex + 1] += begins[vertex];
        }
        let targets = edges.into_iter().map(|(_, target)| target).collect();
        Self { begins, targets }
    }

    /// Reads the format that `bench/data/README.md` describes; nothing if the bytes are not in it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (vertices, edges) = (numbers.next()?, numbers.next()?);
        let mut begins = vec![0];
        let mut targets = Vec::new();
        for _ in 0..vertices {
            let mut target = 0_u32;
            for _ in 0..numbers.next()? {
                target = target.checked_add(numbers.next()?)?;
                targets.push(target);
            }
            begins.push(u32::try_from(targets.len()).ok()?);
        }
        let is_whole = numbers.0.is_empty()
            && targets.len() == edges as usize
            && targets.iter().all(|target| *target < vertices);
        is_whole.then_some(Self { begins, targets })
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        u32::try_from(self.begins.len() - 1).unwrap_or(u32::MAX)
    }

    pub fn begins(&self) -> &[u32] {
        &self.begins
    }

    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Which of the targets are the neighbours of a vertex.
    pub fn range(&self, vertex: usize) -> Range<usize> {
        self.begins[vertex] as usize..self.begins[vertex + 1] as usize
    }

    /// All edges.
    pub fn edges(&self) -> Vec<Edge> {
        let sources = 0..self.vertices();
        let edges = sources.flat_map(|source| {
            let targets = &self.targets[self.range(source as usize)];
            targets.iter().map(move |target| (source, *target))
        });
        edges.collect()
    }
}

/// What is left of a sequence of numbers.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 vertices, 3 edges: 0 → 1, 0 → 3, 2 → 0.
    const SMALL: [u8; 9] = [4, 3, 2, 1, 2, 0, 1, 0, 0];

    #[test]
    fn a_graph_is_read() {
        let graph = Adjacency::decode(&SMALL).expect("a graph");
        assert_eq!(graph.edges(), [(0, 1), (0, 3), (2, 0)]);
        assert_eq!(graph.vertices(), 4);
        assert_eq!(Adjacency::new(4, vec![(2, 0), (0, 3), (0, 1)]), graph);
    }

    #[test]
    fn numbers_have_several_bytes() {
        let numbers = Numbers(&[0x7f, 0x80, 0x01, 0xac, 0x02]);
        assert_eq!(numbers.collect::<Vec<_>>(), [127, 128, 300]);
    }

    #[test]
    fn damage_is_noticed() {
        for length in 0..SMALL.len() {
            assert_eq!(Adjacency::decode(&SMALL[..length]), None, "{length}");
        }
        let too_long = [&SMALL[..], &[0]].concat();
        let other_count = [4, 2, 2, 1, 2, 0, 1, 0, 0];
        let no_such_vertex = [4, 3, 2, 1, 3, 0, 1, 0, 0];
        for damaged in [&too_long[..], &other_count, &no_such_vertex, &[0xff; 9]] {
            assert_eq!(Adjacency::decode(damaged), None, "{damaged:?}");
        }
    }
}
