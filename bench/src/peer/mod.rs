//! Plug-ins: other device allocators, as shared libraries with the C functions of
//! `include/scatterheap_peer.h`, measured beside ours.
//!
//! A plug-in is loaded and measured in a *worker*, a process of its own. Whatever it does there (crash, hang,
//! print, break the device) can neither end the benchmark nor disturb another case:
//!
//! - Messages go over a socket that the plug-in does not know of; what it prints goes elsewhere.
//! - A worker that ends, or says nothing for too long, costs only the case that it was at.
//! - The parent never loads a plug-in.
//! - No worker outlives the benchmark, however that ends, nor does what it started in its process group.

mod campaign;
mod ending;
mod error;
mod interface;
mod library;
mod message;
mod name;
mod output;
mod process;
mod worker;
mod workers;

pub use error::Error;
pub use library::Library;
pub use worker::worker;
pub use workers::{Peer, Workers};
