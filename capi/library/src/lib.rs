//! `libscatterheap`: what `scatterheap-capi` exports, as a shared library. A package of its own, because its library is
//! called as the root package's and must not be built as a Rust library beside it.

pub use scatterheap_capi::*;
