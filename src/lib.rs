//! scatterheap
