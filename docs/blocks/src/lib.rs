//! Nothing: the tests of this package compile the Rust blocks of the guide, and look at the other blocks and at links.
