//! The dependencies of a distribution's packages: a graph from the real world. `bench/data/README.md` says where it
//! is from, and its format.

/// Packages are numbered, and an edge goes from each to those that it names as dependencies.
const DEBIAN_12: &[u8] = include_bytes!("../../../bench/data/debian-12.edges");

/// A graph whose edges are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Number of vertices.
    pub vertices: u32,
    /// Where each begins and ends, in ascending order.
    pub edges: Vec<(u32, u32)>,
}

impl Graph {
    /// The graph of Debian 12.
    ///
    /// # Panics
    ///
    /// If the file that was built in is not as its description says.
    #[must_use]
    pub fn debian() -> Self {
        Self::decode(DEBIAN_12).expect("the file is as described")
    }

    /// Reads the format; nothing if the bytes are not in it.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (vertices, count) = (numbers.next()?, numbers.next()?);
        let mut edges = Vec::new();
        for source in 0..vertices {
            let mut target = 0;
            for _ in 0..numbers.next()? {
                target += numbers.next()?;
                edges.push((source, target));
            }
        }
        let is_whole = numbers.0.is_empty() && edges.len() == count as usize;
        is_whole.then_some(Self { vertices, edges })
    }

    /// Pairs of vertices with an edge between them, in whichever direction, the smaller first; in ascending order.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let edges = self.edges.iter();
        let pairs = edges.map(|(source, target)| (*source.min(target), *source.max(target)));
        let mut pairs: Vec<_> = pairs.filter(|(less, more)| less < more).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Where each vertex's edges begin in [`targets`](Self::targets), and a last end.
    #[must_use]
    pub fn begins(&self) -> Vec<u32> {
        let mut begins = vec![0; self.vertices as usize + 1];
        for (source, _) in &self.edges {
            begins[*source as usize + 1] += 1;
        }
        for vertex in 0..self.vertices as usize {
            begins[vertex + 1] += begins[vertex];
        }
        begins
    }

    /// Where the edges end, in their order.
    #[must_use]
    pub fn targets(&self) -> Vec<u32> {
        self.edges.iter().map(|(_, target)| *target).collect()
    }
}

/// What is left of a sequence of numbers in groups of seven bits, the lowest first.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let end = self.0.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (number, rest) = self.0.split_at(end);
        self.0 = rest;
        let mut groups = number.iter().rev();
        groups.try_fold(0_u32, |sum, byte| {
            sum.checked_mul(0x80)?.checked_add(u32::from(byte & 0x7f))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_is_as_described() {
        let graph = Graph::debian();
        assert_eq!((graph.vertices, graph.edges.len()), (63_666, 277_179));
        assert!(graph.edges.is_sorted());
        assert!(
            graph
                .targets()
                .iter()
                .all(|target| *target < graph.vertices)
        );
        assert_eq!(*graph.begins().last().expect("there are vertices"), 277_179);
    }

    #[test]
    fn damage_is_noticed() {
        let small = [4, 3, 2, 1, 2, 0, 1, 0, 0];
        let graph = Graph::decode(&small).expect("a graph");
        assert_eq!(graph.edges, [(0, 1), (0, 3), (2, 0)]);
        for length in 0..small.len() {
            assert_eq!(Graph::decode(&small[..length]), None, "{length}");
        }
        assert_eq!(Numbers(&[0xac, 0x02]).collect::<Vec<_>>(), [300]);
    }
}
